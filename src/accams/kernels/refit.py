"""Products with the 0/1 design matrix A of a stencil sum, for least squares over all templates at once.

A has one row per observation, with a 1 for the template entry that each stencil contributes to it. It is never stored:
its s ones per row follow from the labels.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def normal_product(lo, hi, starts, index, weights, row_codes, col_codes, flat, first, widths, out):
    """Add A^T W A flat to `out`, over the observations of rows [lo, hi).

    Template t begins at flat[first[t]] and has rows of widths[t] numbers.
    """
    s = first.size
    where = np.zeros(s, np.int64)  # the ones of A's row: found for A flat, used again for A^T
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            c = col_codes[index[p]]
            total = 0.0
            for t in range(s):
                where[t] = first[t] + widths[t] * row_codes[i, t] + c[t]
                total += flat[where[t]]
            if weights is not None:
                total *= weights[p]
            for t in range(s):
                out[where[t]] += total


@kernel
def adjoint_product(lo, hi, starts, index, values, row_codes, col_codes, first, widths, out):
    """Add A^T values to `out`, over the observations of rows [lo, hi)."""
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            c = col_codes[index[p]]
            for t in range(first.size):
                out[first[t] + widths[t] * row_codes[i, t] + c[t]] += values[p]
