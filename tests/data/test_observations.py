"""Observations from every source are the same entries, in both orders, in narrow types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from accams.data.build import index_type, narrow
from accams.data.ids import Index
from accams.data.observations import Observations, memory_estimate
from accams.errors import InputError

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
TABLE: dict[str, Any] = {
    "userId": [7, 3, 7, 5],
    "movieId": ["b", "a", "a", "c"],
    "rating": [4.5, 3.0, 0.0, 1.0],
    "timestamp": [40, 30, 20, 10],
}
NAN = float("nan")


def dense_of(obs: Observations) -> np.ndarray:
    """The matrix with NaN for missing, entry by entry."""
    out = np.full(obs.shape, np.nan)
    for i in range(obs.shape[0]):
        for p in range(obs.row_starts[i], obs.row_starts[i + 1]):
            out[i, obs.cols[p]] = obs.values[p]
    return out


def assert_same(a: Observations, b: Observations) -> None:
    assert a.shape == b.shape
    assert a.row_index == b.row_index
    assert a.col_index == b.col_index
    assert a.row_index.ids.dtype == b.row_index.ids.dtype
    assert a.col_index.ids.dtype == b.col_index.ids.dtype
    assert a.blank_weight == b.blank_weight
    for name in ("row_starts", "cols", "stored_values", "stored_weights", "col_starts", "rows", "times"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cell = st.sampled_from([NAN, NAN, 0.0, 1.0, -2.5, 4.0])
    cells = draw(st.lists(cell, min_size=m * n, max_size=m * n).filter(lambda x: not np.isnan(x).all()))
    return np.array(cells).reshape(m, n)


# -- one matrix from every source ---------------------------------------------------------------------------


@given(matrices(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_constructor_holds_the_same_entries(matrix: np.ndarray, random: Any) -> None:
    rows, cols = np.nonzero(~np.isnan(matrix))
    order = np.array(random.sample(range(len(rows)), len(rows)), dtype=int)
    i, j, x = rows[order], cols[order], matrix[rows[order], cols[order]]
    stored = sparse.coo_array((x, (i, j)), shape=matrix.shape)
    made = [
        Observations.from_dense(matrix),
        Observations.from_coo(i, j, x, shape=matrix.shape),
        Observations.from_sparse(stored),
        Observations.from_sparse(stored.tocsc()),
        Observations.from_sparse(sparse.csr_matrix(stored)),
    ]
    for obs in made:
        np.testing.assert_array_equal(dense_of(obs), matrix)
        assert_same(obs, made[0])
    table = Observations.from_frame(pd.DataFrame({"row": i, "col": j, "value": x}))
    seen = matrix[np.ix_(table.row_index.ids, table.col_index.ids)]
    np.testing.assert_array_equal(dense_of(table), seen)


@given(matrices())
@settings(max_examples=60, deadline=None)
def test_both_orders_are_those_of_scipy(matrix: np.ndarray) -> None:
    obs = Observations.from_dense(matrix)
    seen = sparse.csr_array((~np.isnan(matrix)).astype(float))
    by_col = seen.tocsc()
    np.testing.assert_array_equal(obs.row_starts, seen.indptr)
    np.testing.assert_array_equal(obs.cols, seen.indices)
    np.testing.assert_array_equal(obs.col_starts, by_col.indptr)
    np.testing.assert_array_equal(obs.rows, by_col.indices)
    assert obs.row_starts.dtype == obs.col_starts.dtype == np.int64
    assert obs.cols.dtype == obs.rows.dtype == np.uint16
    np.testing.assert_array_equal(obs.empty(0), np.flatnonzero(np.isnan(matrix).all(axis=1)))
    np.testing.assert_array_equal(obs.empty(1), np.flatnonzero(np.isnan(matrix).all(axis=0)))
    assert obs.mean() == pytest.approx(np.nanmean(matrix))
    assert obs.value_range == (np.nanmin(matrix), np.nanmax(matrix))
    assert obs.is_complete == (not np.isnan(matrix).any())


@given(matrices())
@settings(max_examples=30, deadline=None)
def test_round_trips(matrix: np.ndarray) -> None:
    obs = Observations.from_dense(matrix)
    assert_same(Observations.from_coo(*obs.coo(), shape=obs.shape), obs)
    pairs = obs.pairs()
    np.testing.assert_array_equal(matrix[pairs[:, 0], pairs[:, 1]], obs.values)
    frame = pd.DataFrame({"row": pairs[:, 0], "col": pairs[:, 1], "value": obs.values})
    again = Observations.from_frame(frame)
    np.testing.assert_array_equal(again.pairs(), pairs)
    np.testing.assert_array_equal(again.values, obs.values)


def test_many_entries_in_random_order() -> None:
    rng = np.random.default_rng(0)
    cells = rng.choice(300 * 70_000, size=20_000, replace=False)
    i, j = np.divmod(cells, 70_000)
    x = rng.normal(size=len(cells))
    obs = Observations.from_coo(i, j, x, shape=(300, 70_000))
    order = np.lexsort((j, i))
    np.testing.assert_array_equal(obs.coo()[0], i[order])
    np.testing.assert_array_equal(obs.coo()[1], j[order])
    np.testing.assert_allclose(obs.values, x[order], rtol=1e-6)
    np.testing.assert_array_equal(obs.rows, i[np.lexsort((i, j))])
    assert obs.cols.dtype == np.uint32
    assert obs.rows.dtype == np.uint16


# -- frames -------------------------------------------------------------------------------------------------


def test_a_frame() -> None:
    obs = Observations.from_frame(pd.DataFrame(TABLE))
    assert obs.shape == (3, 3)
    assert obs.row_index.ids.tolist() == [3, 5, 7]
    assert obs.col_index.ids.tolist() == ["a", "b", "c"]
    assert obs.pairs().tolist() == [[3, "a"], [5, "c"], [7, "a"], [7, "b"]]
    assert obs.values.tolist() == [3.0, 1.0, 0.0, 4.5]
    assert obs.times is not None
    assert obs.times.tolist() == [30, 10, 20, 40]


IDS = {
    "int": [7, 3, 7, 5],
    "str": ["x", "é", "x", ""],
    "float": [0.5, 1.5, 0.5, 2.5],
    "whole float": [3.0, 1.0, 3.0, 2.0],
    "bool": [True, False, True, True],
    "date": [dt.date(2020, 1, d) for d in (2, 1, 2, 3)],
    "datetime": [dt.datetime(2020, 1, 1, h) for h in (2, 1, 2, 3)],
}


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize("kind", IDS)
def test_frames_of_all_libraries_are_the_same(library: str, kind: str) -> None:
    table = {**TABLE, "userId": IDS[kind], "movieId": [1, 2, 3, 4], "w": [1.0, 2.0, 0.5, 1.0]}
    ours = Observations.from_frame(pd.DataFrame(table), weight="w")
    theirs = Observations.from_frame(FRAMES[library](table), weight="w")
    assert_same(theirs, ours)
    assert ours.row_index.positions(IDS[kind]).tolist() == Index.of(IDS[kind])[1].tolist()


@pytest.mark.parametrize("library", FRAMES)
def test_times_of_all_libraries(library: str) -> None:
    times = [dt.datetime(2020, 1, d) for d in (4, 3, 2, 1)]
    obs = Observations.from_frame(FRAMES[library]({**TABLE, "timestamp": times}))
    assert obs.times is not None
    assert obs.times.astype("M8[D]").astype(object).tolist() == [dt.date(2020, 1, d) for d in (3, 1, 2, 4)]


def test_ids_of_mixed_types() -> None:
    obs = Observations.from_frame(pd.DataFrame({"user": [1, "a", 2.5], "item": [1, 1, 2], "rating": [1, 2, 3]}))
    assert obs.row_index.ids.tolist() == [1, "a", 2.5]
    assert obs.row_index.positions(["a", 1, "b"]).tolist() == [1, 0, -1]


def test_named_columns_and_column_names_that_are_not_text() -> None:
    frame = pd.DataFrame([[1, 2, 3.0], [4, 5, 6.0]])
    obs = Observations.from_frame(frame, "0", "1", "2")
    assert obs.pairs().tolist() == [[1, 2], [4, 5]]


def test_pairs_alone_need_observed_zeros() -> None:
    frame = pd.DataFrame({"user": [1, 2], "item": [5, 6]})
    assert Observations.from_frame(frame, zeros="observed").values.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="which column holds the values"):
        Observations.from_frame(frame)
    frame["plays"] = [3, 4]
    assert Observations.from_frame(frame, zeros="observed").values.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("userId", [1, None, 2, 3], "entry 1: the userId is missing"),
        ("movieId", ["a", "b", None, "c"], "entry 2: the movieId is missing"),
        ("rating", [1.0, None, 2.0, 3.0], "the value at row 3, column 'a' is missing"),
        ("rating", ["1", "five", "2", "3"], "entry 1: rating 'five' is not a number"),
        (
            "rating",
            [1.0, float("inf"), 2.0, 3.0],
            "the value at row 3, column 'a' is inf: values must be finite",
        ),
        ("rating", [dt.datetime(2020, 1, 1)] * 4, "the ratings are times, not numbers"),
    ],
)
def test_bad_cells_of_a_frame(library: str, column: str, cells: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Observations.from_frame(FRAMES[library]({**TABLE, column: cells}))


def test_missing_ratings_of_a_nullable_type() -> None:
    frame = pd.DataFrame({**TABLE, "rating": pd.array([1, pd.NA, 2, 3], dtype="Int64")})
    with pytest.raises(InputError, match="missing"):
        Observations.from_frame(frame)


@pytest.mark.parametrize("library", FRAMES)
def test_an_empty_frame(library: str) -> None:
    with pytest.raises(InputError, match="there are no observations"):
        Observations.from_frame(FRAMES[library]({"user": [], "item": [], "rating": []}))


@pytest.mark.parametrize("what", [[1, 2], {"user": [1]}, None, "ratings.csv", pl.LazyFrame(TABLE)])
def test_what_is_no_frame(what: Any) -> None:
    with pytest.raises(InputError, match="from_frame takes a DataFrame"):
        Observations.from_frame(what)


def test_column_names_that_come_twice() -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["user", "item", "rating", "rating"])
    with pytest.raises(InputError, match="column names must differ"):
        Observations.from_frame(frame)


# -- arrays and sparse matrices -----------------------------------------------------------------------------


def test_stored_zeros_are_observed() -> None:
    matrix = sparse.coo_array(([0.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))
    obs = Observations.from_sparse(matrix)
    assert (obs.nnz, obs.values.tolist()) == (2, [0.0, 2.0])
    assert Observations.from_dense([[0.0, NAN]]).nnz == 1


def test_entries_stored_twice_are_summed() -> None:
    obs = Observations.from_sparse(sparse.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0]))))
    assert obs.values.tolist() == [3.0, 5.0]


def test_blanks_as_observed_zeros() -> None:
    graph = sparse.csr_array(np.array([[0, 1, 0], [1, 0, 0]]))
    obs = Observations.from_sparse(graph, zeros="observed", zero_weight=0.5)
    assert obs.blank_weight == 0.5
    assert obs.is_complete
    assert obs.value_range == (0.0, 1.0)
    assert obs.empty(1).tolist() == []
    assert obs.mean() == pytest.approx(2 / (2 + 0.5 * 4))
    assert repr(obs) == "Observations(2 x 3, 2 stored, blanks are zeros of weight 0.5, values 1 to 1)"


def test_ids_of_rows_and_columns() -> None:
    obs = Observations.from_dense([[1.0, NAN], [2.0, 3.0]], row_ids=["y", "x"], col_ids=[20, 10])
    assert obs.pairs().tolist() == [["y", 20], ["x", 20], ["x", 10]]
    obs = Observations.from_sparse(sparse.csr_array(np.eye(2)), row_ids=["y", "x"])
    assert obs.pairs().tolist() == [["y", 0], ["x", 1]]


def test_pairs_keep_whole_numbers_beside_other_ids() -> None:
    large = 2**60 + 1
    frame = pd.DataFrame({"user": [0.5, 1.5], "item": [large, 3], "rating": [1, 2]})
    pairs = Observations.from_frame(frame).pairs()
    assert pairs.tolist() == [[0.5, large], [1.5, 3]]
    assert Observations.from_dense(np.eye(2)).pairs().dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, bool])
def test_dense_arrays_of_other_types(dtype: Any) -> None:
    obs = Observations.from_dense(np.array([[1, 0], [1, 1]], dtype=dtype))
    assert (obs.nnz, obs.values.tolist()) == (4, [1.0, 0.0, 1.0, 1.0])


def test_dense_arrays_with_other_marks_for_missing() -> None:
    assert Observations.from_dense([[1, None], [2, 3]]).nnz == 3
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    assert Observations.from_dense(masked).values.tolist() == [1.0, 3.0, 4.0]
    assert Observations.from_dense(pd.DataFrame([[1.0, NAN], [2.0, 3.0]])).nnz == 3


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1.0, 2.0], r"two-dimensional array, not one of shape \(2,\)"),
        (np.zeros((0, 3)), r"no observations: the array has shape \(0, 3\)"),
        ([[NAN, NAN]], "every cell is NaN"),
        ([[1.0, np.inf]], "inf: values must be finite"),
        ([["1", "x"]], "entry 1: value 'x' is not a number"),
        ([[1j]], "Complex data not supported"),
        ([[1], [2, 3]], "rows are not equally long"),
        (sparse.csr_array(np.eye(2)), "use from_sparse"),
    ],
)
def test_bad_dense_arrays(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Observations.from_dense(matrix)


def test_bad_sparse_matrices() -> None:
    with pytest.raises(InputError, match="not ndarray; use from_dense"):
        Observations.from_sparse(np.eye(2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no observations"):
        Observations.from_sparse(sparse.csr_array((2, 2)))
    with pytest.raises(InputError, match=r"not one of shape \(2,\)"):
        Observations.from_sparse(sparse.coo_array(np.array([1.0, 2.0])))
    with pytest.raises(InputError, match="zeros must be"):
        Observations.from_sparse(sparse.csr_array(np.eye(2)), zeros="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0.0, -1.0, NAN, np.inf, "a", None])
def test_bad_weight_of_blanks(weight: Any) -> None:
    with pytest.raises(InputError, match="zero_weight must be positive"):
        Observations.from_sparse(sparse.csr_array(np.eye(2)), zeros="observed", zero_weight=weight)


def test_bad_ids_of_rows() -> None:
    for ids, message in (
        (["a"], "there are 1 row ids for 2 rows"),
        (["a", "a"], "the row ids are not distinct"),
        (["a", None], "entry 1: the id is missing"),
    ):
        with pytest.raises(InputError, match=message):
            Observations.from_dense(np.eye(2), row_ids=ids)


# -- weights ------------------------------------------------------------------------------------------------


def test_weights_of_every_source() -> None:
    matrix, weights = np.array([[NAN, 1.0], [2.0, 3.0]]), np.array([[NAN, 0.5], [2.0, 1.0]])
    dense = Observations.from_dense(matrix, weights=weights)
    i, j = np.nonzero(~np.isnan(matrix))
    coo = Observations.from_coo(i, j, matrix[i, j], weights=weights[i, j])
    stored = sparse.csr_array((matrix[i, j], (i, j)), shape=(2, 2))
    by_col = sparse.csc_array((weights[i, j], (i, j)), shape=(2, 2))
    for obs in (dense, coo, Observations.from_sparse(stored, weights=by_col)):
        assert obs.weights is not None
        assert obs.weights.tolist() == [0.5, 2.0, 1.0]
        assert obs.mean() == pytest.approx((0.5 + 4 + 3) / 3.5)
        assert "weighted" in repr(obs)


def test_weights_go_with_their_entries_when_indices_are_not_sorted() -> None:
    matrix = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    weights = sparse.csr_array((np.array([4.0, 3.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    obs = Observations.from_sparse(matrix, weights=weights)
    assert obs.weights is not None
    assert (obs.values.tolist(), obs.weights.tolist()) == ([2.0, 1.0], [4.0, 3.0])
    Observations.from_sparse(weights, weights=matrix)
    assert matrix.indices.tolist() == [1, 0]  # what belongs to the caller is left alone


def test_weights_of_other_cells_are_refused() -> None:
    in_one_row = sparse.csr_array(([1.0, 2.0], [0, 1], [0, 2, 2]), shape=(2, 2))
    in_two_rows = sparse.csr_array(([1.0, 2.0], [0, 1], [0, 1, 2]), shape=(2, 2))
    with pytest.raises(InputError, match="exactly the cells"):
        Observations.from_sparse(in_one_row, weights=in_two_rows)
    with pytest.raises(InputError, match="weights have shape"):
        Observations.from_dense(np.eye(2), weights=np.ones((2, 3)))


def test_an_entry_without_weight_is_dropped() -> None:
    obs = Observations.from_coo([0, 1, 2], [0, 1, 2], [1, 2, 3], weights=[1, 0, 2], times=[7, 8, 9], shape=(3, 3))
    assert obs.pairs().tolist() == [[0, 0], [2, 2]]
    assert obs.times is not None
    assert obs.times.tolist() == [7, 9]
    with pytest.raises(InputError, match="every weight is 0"):
        Observations.from_coo([0], [0], [1], weights=[0])


@pytest.mark.parametrize("weight", [-1.0, NAN, np.inf])
def test_bad_weights(weight: float) -> None:
    with pytest.raises(InputError, match=r"entry 1: weight .* must be finite and not negative"):
        Observations.from_coo([0, 1], [0, 1], [1, 2], weights=[1, weight])


# -- duplicates ---------------------------------------------------------------------------------------------


def merged(entries: list[tuple[int, int, float, float]], mode: str, weighted: bool) -> dict[tuple[int, int], Any]:
    """What `duplicates` means, pair by pair: (value, weight)."""
    groups: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for i, j, x, w in entries:
        groups.setdefault((i, j), []).append((x, w if weighted else 1.0))
    out = {}
    for pair, group in groups.items():
        x, w = np.array(group).T
        if mode == "last":
            out[pair] = (x[-1], w[-1])
        elif mode == "sum":
            out[pair] = (x.sum(), w.mean())
        else:
            out[pair] = ((w * x).sum() / w.sum(), w.sum() if weighted else 1.0)
    return out


ENTRY = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.sampled_from([1.0, 2.0, 4.5]), st.sampled_from([0.5, 1.0, 3.0])
)


@pytest.mark.parametrize("mode", ["mean", "last", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@given(entries=st.lists(ENTRY, min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_duplicates(mode: Any, weighted: bool, entries: list[tuple[int, int, float, float]]) -> None:
    i, j, x, w = (list(column) for column in zip(*entries, strict=True))
    obs = Observations.from_coo(
        i, j, x, shape=(3, 3), weights=w if weighted else None, duplicates=mode, times=list(range(len(i)))
    )
    expected = merged(entries, mode, weighted)
    pairs = [tuple(pair) for pair in obs.pairs().tolist()]
    assert pairs == sorted(expected)
    weights = obs.weights if obs.weights is not None else np.ones(obs.nnz)
    assert obs.times is not None
    for pair, value, weight, time in zip(pairs, obs.values, weights, obs.times, strict=True):
        assert value == pytest.approx(expected[pair][0], abs=1e-6)
        assert weight == pytest.approx(expected[pair][1], abs=1e-6)
        assert time == max(k for k, entry in enumerate(entries) if entry[:2] == pair)


def test_duplicates_are_an_error_unless_told() -> None:
    with pytest.raises(InputError, match=r"row 2 and column 0 come together more than once \(values 3 and 4; 1 such"):
        Observations.from_coo([0, 2, 2], [0, 0, 0], [1, 3, 4])
    frame = pd.DataFrame({"user": ["ann", "ann"], "item": [7, 7], "rating": [1, 2]})
    with pytest.raises(InputError, match=r"row 'ann' and column 7 come together .*: pass duplicates='mean'"):
        Observations.from_frame(frame)
    with pytest.raises(InputError, match="duplicates must be 'error', 'mean', 'last' or 'sum', not 'first'"):
        Observations.from_coo([0], [0], [1], duplicates="first")  # type: ignore[arg-type]


# -- positions and shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_positions_of_any_whole_type(dtype: Any) -> None:
    obs = Observations.from_coo(np.array([1, 0], dtype=dtype), np.array([0, 1], dtype=dtype), [1, 2])
    assert obs.pairs().tolist() == [[0, 1], [1, 0]]
    assert obs.rows.tolist() == [1, 0]


def test_shape_may_be_larger_than_what_is_seen() -> None:
    obs = Observations.from_coo([0], [1], [1.0], shape=(3, 4))
    assert (obs.shape, len(obs.row_index), len(obs.col_index)) == ((3, 4), 3, 4)
    assert (obs.empty(0).tolist(), obs.empty(1).tolist()) == ([1, 2], [0, 2, 3])


@pytest.mark.parametrize(
    ("rows", "cols", "values", "options", "message"),
    [
        ([], [], [], {}, "there are no observations"),
        ([0, 1], [0], [1, 2], {}, "there are 2 rows but 1 columns"),
        ([0, 1], [0, 1], [1], {}, "there are 2 rows but 1 values"),
        ([0], [0], [1], {"weights": [1, 2]}, "there are 1 rows but 2 weights"),
        ([0], [0], [1], {"times": [1, 2]}, "there are 1 rows but 2 times"),
        ([-1], [0], [1], {}, "row positions start at 0, but -1 is among them"),
        ([0], [0.0], [1], {}, "column positions must be whole numbers from 0, not float64"),
        (["a"], [0], [1], {}, "for ids of other types use from_frame"),
        ([[0]], [0], [1], {}, "row positions must form one column"),
        ([5], [0], [1], {"shape": (2, 9)}, "did you swap rows and columns"),
        ([0], [0], [NAN], {}, "row position 0, column position 0 is missing"),
        ([0], [0], ["x"], {}, "entry 0: value 'x' is not a number"),
        ([0], [0], [None], {}, "missing"),
        ([0], [0], [1], {"shape": (3, 1), "row_index": Index(["a"])}, "there are 1 row ids for 3 rows"),
    ],
)
def test_bad_entries(rows: Any, cols: Any, values: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Observations.from_coo(rows, cols, values, **options)


# -- types --------------------------------------------------------------------------------------------------


def test_the_narrowest_index_type() -> None:
    assert [index_type(n) for n in (1, 65_536, 65_537, 2**32, 2**32 + 1)] == [
        np.uint16, np.uint16, np.uint32, np.uint32, np.uint64,
    ]  # fmt: skip
    obs = Observations.from_coo([0, 65_536], [0, 1], [1, 2])
    assert (obs.cols.dtype, obs.rows.dtype) == (np.uint16, np.uint32)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.5, 1.0, 5.0], np.float16),
        ([0, 1, 2048], np.float16),
        ([1.1, 2.7, 5.0], np.float32),
        ([1.0, 70_000.0], np.float32),
        ([1e9, 1e9 + 1], np.float64),
        ([0.1, 0.1], np.float64),
        ([0.0, 1e300], np.float64),
    ],
)
def test_the_narrowest_value_type(values: list[float], dtype: Any) -> None:
    assert narrow(np.array(values, dtype=np.float64)).dtype == dtype


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_narrowing_loses_less_than_the_grid(values: list[float]) -> None:
    x = np.array(values)
    short = narrow(x).astype(np.float64)
    assert np.isfinite(short).all()
    assert np.all(np.abs(short / 2 - x / 2) <= (x.max() / 2 - x.min() / 2) * 2.0**-23)


def test_bytes() -> None:
    obs = Observations.from_coo([0, 1, 1], [0, 0, 1], [1, 2, 3])
    assert obs.nbytes == 2 * 3 * 8 + 3 * (2 + 2 + 2)
    assert memory_estimate((10, 10), 1000, weights=True) > memory_estimate((10, 10), 1000)
    assert memory_estimate((10, 10), 1000, n_clusters=(3, 4)) < memory_estimate((10, 10), 1000, n_clusters=10)


# -- parts --------------------------------------------------------------------------------------------------


@given(matrices(), st.data())
@settings(max_examples=40, deadline=None)
def test_select(matrix: np.ndarray, data: st.DataObject) -> None:
    times = np.arange(np.count_nonzero(~np.isnan(matrix)))
    i, j = np.nonzero(~np.isnan(matrix))
    obs = Observations.from_coo(i, j, matrix[i, j], shape=matrix.shape, weights=times + 1, times=times)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=obs.nnz, max_size=obs.nnz).filter(any)))
    part = obs.select(mask)
    left = np.full(matrix.shape, np.nan)
    left[i[mask], j[mask]] = matrix[i[mask], j[mask]]
    np.testing.assert_array_equal(dense_of(part), left)
    assert part.row_index is obs.row_index
    assert part.weights is not None
    assert part.times is not None
    np.testing.assert_array_equal(part.weights, times[mask] + 1)
    np.testing.assert_array_equal(part.times, times[mask])
    by_col = Observations.from_coo(*part.coo(), shape=part.shape)
    np.testing.assert_array_equal(part.rows, by_col.rows)
    np.testing.assert_array_equal(part.col_starts, by_col.col_starts)
    assert_same(obs.select(np.flatnonzero(mask)), part)


def test_select_does_not_keep_what_was_known_of_the_whole() -> None:
    obs = Observations.from_coo([0, 1], [0, 1], [1, 5])
    assert (obs.value_range, obs.rows.tolist()) == ((1.0, 5.0), [0, 1])
    part = obs.select(np.array([0]))
    assert (part.value_range, part.rows.tolist()) == ((1.0, 1.0), [0])
    with pytest.raises(InputError, match="leaves no observations"):
        obs.select(np.zeros(2, dtype=bool))


def test_values_are_copies() -> None:
    obs = Observations.from_coo([0, 1], [0, 1], [1, 5])
    obs.values[0] = 9
    assert obs.values.tolist() == [1.0, 5.0]


def test_words() -> None:
    assert repr(Observations.from_dense(np.eye(2))) == "Observations(2 x 2, 4 observed (100%), values 0 to 1)"
