"""Observations from every source have the same entries, in both orders and narrow types."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observation_forms import FRAMES, NAN, TABLE, assert_same, dense_of, matrices
from scipy import sparse

from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError

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
    with pytest.raises(InputError, match="is not a DataFrame of pandas, polars or pyarrow"):
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
        ([[1], [2, 3]], "rows differ in length"),
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
