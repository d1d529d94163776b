"""Products with the matrix that says which template entries make up which observed cell."""

from __future__ import annotations

import numpy as np

from accams.kernels.jit import kernel


@kernel
def normal_product(lo, hi, starts, index, weights, row_codes, col_codes, flat, first, widths, out):
    """out += A^T W A flat over the observations of rows [lo, hi).

    A has one line per observation, with a 1 for the template entry that each stencil contributes to it. Template s
    begins at first[s] and has rows of widths[s] numbers.
    """
    s = first.size
    where = np.zeros(s, np.int64)
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
    """out += A^T values over the observations of rows [lo, hi)."""
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            c = col_codes[index[p]]
            for t in range(first.size):
                out[first[t] + widths[t] * row_codes[i, t] + c[t]] += values[p]
