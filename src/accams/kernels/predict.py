"""Predict cells from stencil sums laid out as `accams.model.codes.Codes`."""

import numpy as np

from accams.kernels.jit import kernel

BLOCK = 256  # rows transposed together: what is read and what is written stays in cache


@kernel
def predict_pairs(lo, hi, rows, cols, row_codes, col_codes, flat, starts, widths, offset, out):
    """Compute out[p] = offset + sum over stencils of the template at the labels of rows[p] and cols[p].

    row_codes[i] and col_codes[j] hold one label per stencil; template s starts at flat[starts[s]] and has rows
    of widths[s] numbers. Position -1 is the last line of the codes: the average row or column.
    """
    for p in range(lo, hi):
        r = row_codes[rows[p]]  # positions are signed, so that -1 wraps around to the last line
        c = col_codes[cols[p]]
        total = offset
        for s in range(np.uint64(starts.size)):  # unsigned: no test for negative indices
            total += flat[np.uint64(starts[s] + widths[s] * r[s] + c[s])]
        out[p] = total


@kernel
def predict_probable(lo, hi, rows, cols, row_shares, col_codes, flat, starts, widths, offset, out):
    """Compute expected predictions given probabilities of all labels in place of a row's labels.

    row_shares[i] has one integer per template row, in the order of `flat`, proportional to the probability of that
    label; only ratios within a template matter.
    """
    for p in range(lo, hi):
        r = row_shares[rows[p]]
        c = col_codes[cols[p]]
        total = offset
        line = 0
        for s in range(starts.size):
            stop = starts[s + 1] if s + 1 < starts.size else flat.size
            top, bottom = 0.0, 0.0
            for place in range(starts[s] + c[s], stop, widths[s]):
                share = np.float64(r[line])
                top += share * flat[place]
                bottom += share
                line += 1
            total += top / bottom
        out[p] = total


@kernel
def add_at(rows, cols, own, other, T, out):
    """Add T[own[rows[p]], other[cols[p]]] to out[p], in integers."""
    for p in range(rows.size):
        out[p] += T[own[rows[p]], other[cols[p]]]


@kernel
def interleave(lo, hi, labels, codes, counts):
    """Set codes[i, s] = labels[s, i] for rows [lo, hi), and add to counts[s, a] the number of them with label a."""
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        for s in range(len(labels)):
            for i in range(start, stop):
                a = labels[s, i]
                codes[i, s] = a
                counts[s, a] += 1
