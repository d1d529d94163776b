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
def transpose_pattern(row_starts: NDArray[np.int64], cols: Ints, slots: NDArray[np.int64], rows: Ints) -> None:
    """From the columns of each row to the rows of each column (ascending)."""
    for i in range(row_starts.size - 1):
        for p in range(row_starts[i], row_starts[i + 1]):
            j = cols[p]
            rows[slots[j]] = i
            slots[j] += 1


@kernel
def transpose_values(
    row_starts: NDArray[np.int64], cols: Ints, slots: NDArray[np.int64], values: Ints, out: Ints
) -> None:
    """Copy `values`, one per observation in row order, into column order."""
    for p in range(row_starts[-1]):
        j = cols[p]
        out[slots[j]] = values[p]
        slots[j] += 1
