"""Tables of pairs of labels, from which sums over all cells of a matrix follow without visiting them.

The sum of stencil (T, c, d) over row i and the columns of cluster b is sum_y T[c[i], y] * (number of columns with label
y in d and label b), so k x k cross counts replace m x n cells.
"""

from accams.kernels.jit import kernel


@kernel
def cross_counts(a, b, out):
    """Add to out[x, y] the number of positions with label x in `a` and label y in `b`."""
    for i in range(a.size):
        out[a[i], b[i]] += 1


@kernel
def cross_sums(labels, values, out):
    """Add to out[x] the rows of `values` at the positions with label x."""
    for i in range(labels.size):
        x = out[labels[i]]
        for b in range(values.shape[1]):
            x[b] += values[i, b]


@kernel
def add_by_label(lo, hi, labels, table, out):
    """Add table[labels[i]] to out[i] for i in [lo, hi)."""
    for i in range(lo, hi):
        line = table[labels[i]]
        x = out[i]
        for b in range(line.size):
            x[b] += line[b]
