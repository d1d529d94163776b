"""Weights, duplicates, shapes, narrow types and the parts of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observation_forms import NAN, assert_same, dense_of, matrices
from scipy import sparse

from accams.data.build import index_type, narrow
from accams.data.ids import Index
from accams.data.observations import Observations
from accams.engine.memory import memory_estimate
from accams.errors import InputError

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
    assert matrix.indices.tolist() == [1, 0]  # the input is not modified


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
    with pytest.raises(InputError, match=r"entry 1: weight .* must be finite and nonnegative"):
        Observations.from_coo([0, 1], [0, 1], [1, 2], weights=[1, weight])


# -- duplicates ---------------------------------------------------------------------------------------------


def merged(entries: list[tuple[int, int, float, float]], mode: str, weighted: bool) -> dict[tuple[int, int], Any]:
    """Merge duplicates pair by pair into (value, weight)."""
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


def test_duplicates_are_averaged_with_a_word() -> None:
    with pytest.warns(UserWarning, match=r"^1 of 3 observations repeat a row and column: repeated ones are averaged"):
        assert Observations.from_coo([0, 2, 2], [0, 0, 0], [1, 3, 4]).values.tolist() == [1.0, 3.5]
    with pytest.warns(UserWarning, match="1 of 3"):
        weighted = Observations.from_coo([0, 2, 2], [0, 0, 0], [1, 3, 4], weights=[1.0, 1.0, 3.0])
    assert weighted.values.tolist() == [1.0, 3.75]


def test_duplicates_are_an_error_if_asked_for() -> None:
    with pytest.raises(InputError, match=r"row 2 and column 0 occur together more than once \(values 3 and 4; 1 dup"):
        Observations.from_coo([0, 2, 2], [0, 0, 0], [1, 3, 4], duplicates="error")
    frame = pd.DataFrame({"user": ["ann", "ann"], "item": [7, 7], "rating": [1, 2]})
    with pytest.raises(
        InputError, match=r"row 'ann' and column 7 occur together .*; pass duplicates='mean', .* to Obs"
    ):
        Observations.from_frame(frame, duplicates="error")
    with pytest.raises(InputError, match="duplicates must be 'auto', 'error', 'mean', 'last' or 'sum', not 'first'"):
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
        ([-1], [0], [1], {}, "row positions must be nonnegative, not -1"),
        ([0], [0.0], [1], {}, "column positions must be nonnegative integers, not float64"),
        (["a"], [0], [1], {}, "for ids of other types use from_frame"),
        ([[0]], [0], [1], {}, "row positions must be one-dimensional"),
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
