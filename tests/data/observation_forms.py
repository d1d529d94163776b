"""The same table in several DataFrame libraries, and equality of observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from accams.data.observations import Observations

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
    """Build the matrix entry by entry, with NaN for missing cells."""
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


def assert_same_cells(found: Observations, right: Observations) -> None:
    """Assert equal arrays of equal types, and equal ids."""
    for name in ("row_starts", "cols", "stored_values", "stored_weights", "times", "col_starts", "rows"):
        one, other = getattr(found, name), getattr(right, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype, name
            assert np.array_equal(one, other), name
    assert (found.shape, found.weight_step, found.blank_weight) == (right.shape, right.weight_step, right.blank_weight)
    for mine, theirs in ((found.row_index, right.row_index), (found.col_index, right.col_index)):
        assert mine == theirs
        assert mine.ids.dtype == theirs.ids.dtype
