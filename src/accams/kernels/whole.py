"""Sums over a matrix in memory by the labels of its rows or columns, and additions of stencils to it."""

import numpy as np

from accams.kernels.jit import kernel

TOGETHER = 8  # rows that are summed side by side: additions to one cluster do not wait for each other
TILE = 512  # columns whose sums by row label stay in cache


@kernel
def sums_by_column_label(lo, hi, cells, labels, out):
    """Set out[i, b] to the sum of cells[i, j] over the columns j with label b, for rows i in [lo, hi)."""
    k = out.shape[1]
    sums = np.zeros((k, TOGETHER), np.float64)
    for i in range(lo, hi, TOGETHER):
        width = min(TOGETHER, hi - i)
        sums[:] = 0.0
        if width == TOGETHER:
            for j in range(labels.size):
                x = sums[labels[j]]
                for q in range(TOGETHER):
                    x[q] += cells[i + q, j]
        else:
            for j in range(labels.size):
                x = sums[labels[j]]
                for q in range(width):
                    x[q] += cells[i + q, j]
        for b in range(k):
            for q in range(width):
                out[i + q, b] = sums[b, q]


@kernel
def sums_by_row_label(lo, hi, cells, labels, out):
    """Set out[a, j] to the sum of cells[i, j] over the rows i with label a, for columns j in [lo, hi)."""
    for start in range(lo, hi, TILE):
        stop = min(start + TILE, hi)
        out[:, start:stop] = 0.0
        for i in range(labels.size):
            sums, x = out[labels[i], start:stop], cells[i, start:stop]
            for j in range(stop - start):
                sums[j] += x[j]


@kernel
def exchange(lo, hi, old_rows, old_lines, new_rows, new_lines, cells):
    """Add the old line of each row to it and subtract the new one, for rows in [lo, hi).

    Lines are templates whose columns are those of the matrix.
    """
    for i in range(lo, hi):
        x, a, b = cells[i], old_lines[old_rows[i]], new_lines[new_rows[i]]
        for j in range(x.size):
            x[j] += a[j] - b[j]


@kernel
def add_lines(lo, hi, rows, templates, starts, widths, cols, sums):
    """Add the stencils to sums[:, lo:hi], integers: row i has the labels rows[:, i], column j the labels cols[:, j].

    Template s begins at templates[starts[s]] and has rows of widths[s] numbers.
    """
    wide = hi - lo
    for s in range(starts.size):
        end = starts[s + 1] if s + 1 < starts.size else templates.size
        k = (end - starts[s]) // widths[s]
        lines = np.empty((k, wide), templates.dtype)
        done = np.zeros(k, np.uint8)  # of few rows, not all labels are needed
        for i in range(rows.shape[1]):
            a = rows[s, i]
            line = lines[a]
            if not done[a]:
                first = starts[s] + a * widths[s]
                for j in range(wide):
                    line[j] = templates[first + cols[s, lo + j]]
                done[a] = 1
            x = sums[i, lo:hi]
            for j in range(wide):
                x[j] += line[j]
