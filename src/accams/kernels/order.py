"""Sorting observations by row and by column in linear time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accams.kernels.jit import kernel

Ints = NDArray[np.integer]


@kernel
def stable_order(keys: Ints, order: Ints, slots: NDArray[np.int64], out: Ints) -> None:
    """Counting sort: write into `out` the entries of `order`, stably sorted by their key.

    `slots[key]` is where the first entry with that key goes; it is used up on the way.
    """
    for q in order:
        key = keys[q]
        out[slots[key]] = q
        slots[key] += 1


@kernel
def count_columns(lo: int, hi: int, counts: NDArray[np.int64], row_starts: NDArray[np.int64], cols: Ints) -> None:
    """Add to counts[j] how many entries of rows [lo, hi) are in column j."""
    for p in range(row_starts[lo], row_starts[hi]):
        counts[cols[p]] += 1


@kernel
def transpose_pattern(
    lo: int, hi: int, slots: NDArray[np.int64], row_starts: NDArray[np.int64], cols: Ints, rows: Ints
) -> None:
    """From the columns of each of the rows [lo, hi) to the rows of each column (ascending).

    `slots[j]` is where the first of them goes in column j; it is used up on the way.
    """
    for i in range(lo, hi):
        for p in range(row_starts[i], row_starts[i + 1]):
            j = cols[p]
            rows[slots[j]] = i
            slots[j] += 1


@kernel
def transpose_values(
    lo: int, hi: int, slots: NDArray[np.int64], row_starts: NDArray[np.int64], cols: Ints, values: Ints, out: Ints
) -> None:
    """Copy `values`, one per observation in row order, of rows [lo, hi) into column order; `slots` likewise."""
    for p in range(row_starts[lo], row_starts[hi]):
        j = cols[p]
        out[slots[j]] = values[p]
        slots[j] += 1
