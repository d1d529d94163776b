"""Predictions of a stencil sum at given cells."""

from __future__ import annotations

from accams.kernels.jit import kernel


@kernel
def predict_pairs(lo, hi, rows, cols, row_codes, col_codes, flat, starts, widths, offset, out):
    """out[p] = offset + sum over stencils of the template at the labels of rows[p] and cols[p].

    row_codes[i] and col_codes[j] hold one label per stencil; template s starts at flat[starts[s]] and has rows
    of widths[s] numbers. Position -1 stands for the last line of the codes: the average row or column.
    """
    for p in range(lo, hi):
        r = row_codes[rows[p]]
        c = col_codes[cols[p]]
        total = offset
        for s in range(starts.size):
            total += flat[starts[s] + widths[s] * r[s] + c[s]]
        out[p] = total
