"""Small tables that stand for sums over all cells of a matrix."""

from __future__ import annotations

from accams.kernels.jit import kernel


@kernel
def cross_counts(a, b, out):
    """out[x, y] += how many positions have label x in `a` and label y in `b`."""
    for i in range(a.size):
        out[a[i], b[i]] += 1


@kernel
def cross_sums(labels, values, out):
    """out[x] += the lines of `values` at the positions that have label x."""
    for i in range(labels.size):
        x = out[labels[i]]
        for b in range(values.shape[1]):
            x[b] += values[i, b]


@kernel
def add_by_label(lo, hi, labels, table, out):
    """out[i] += table[labels[i]] for i in [lo, hi)."""
    for i in range(lo, hi):
        line = table[labels[i]]
        x = out[i]
        for b in range(line.size):
            x[b] += line[b]
