"""Sums over the observations of each row, and of each column, in row order alone.

Row i has the columns cols[starts[i]:starts[i + 1]]. `weights` is None or one integer per observation.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def add_by_row(lo, hi, starts, cols, weights, x, out):
    """Add to out[i] the (weighted) sum of x[j] over the observations (i, j) of each row i in [lo, hi)."""
    for i in range(lo, hi):
        total = 0.0
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += x[cols[p]] if weights is None else weights[p] * x[cols[p]]
        out[i] += total


@kernel
def add_by_col(lo, hi, starts, cols, weights, x, out):
    """Add to out[j] the (weighted) sum of x[i] over the observations (i, j) of the rows [lo, hi)."""
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            out[cols[p]] += x[i] if weights is None else weights[p] * x[i]
