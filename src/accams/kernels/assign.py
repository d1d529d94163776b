"""Assign labels and block tables from sums per row. A "row" is a row or a column: whichever axis is updated."""

import numpy as np

from accams.kernels.jit import kernel

ROUNDING = 1e-12  # a distance below this share of its terms is rounding error
BLOCK = 64  # rows whose costs are computed together, so that the inner loop is over contiguous memory


@kernel
def nearest(lo, hi, n, l, row_weights, T, curvature, prices, uniform, labels, N, L, counts):
    """Give each row of [lo, hi) its cheapest label and add its sums to the block tables.

    cost(i, a) = prices[a] + sum_b curvature * n[i, b] * T[a, b]^2 - 2 * l[i, b] * T[a, b]; ties go to the lowest a.
    `uniform` says that all rows have the same n, which halves the work. `row_weights` is None or an integer weight per
    row: a factor of all its costs, so it matters in the tables only (prices assume equal weights).
    `labels` is changed in place; N, L and counts are added to. Returns the number of labels that changed.
    """
    k_own, k_other = T.shape
    mass = np.zeros((k_other, BLOCK))  # clusters first, rows last: the transpose of n and l
    twice = np.zeros((k_other, BLOCK))
    cost = np.zeros(BLOCK)
    lowest = np.zeros(BLOCK)
    best = np.zeros(BLOCK, np.int64)
    moved = 0
    for start in range(lo, hi, BLOCK):
        width = min(BLOCK, hi - start)
        for i in range(width):
            for b in range(k_other):
                twice[b, i] = 2.0 * l[start + i, b]
            if not uniform:
                for b in range(k_other):
                    mass[b, i] = curvature * n[start + i, b]
        # Loops run to BLOCK, not to width, so that their length is known at compile time; the numbers beyond width are
        # left over from the block before and never read. Each row adds over b in order, wherever blocks begin.
        for a in range(k_own):
            if uniform:
                constant = prices[a]
                for b in range(k_other):
                    constant += curvature * n[start, b] * T[a, b] * T[a, b]
                cost[:] = constant
                for b in range(k_other):
                    t = T[a, b]
                    x = twice[b]
                    for i in range(BLOCK):
                        cost[i] -= t * x[i]
            else:
                cost[:] = prices[a]
                for b in range(k_other):
                    t = T[a, b]
                    m = mass[b]
                    x = twice[b]
                    for i in range(BLOCK):
                        cost[i] += t * (m[i] * t - x[i])
            if a == 0:
                lowest[:] = cost
                best[:] = 0
            else:
                for i in range(BLOCK):
                    if cost[i] < lowest[i]:
                        lowest[i] = cost[i]
                        best[i] = a
        for i in range(width):
            a = best[i]
            if labels[start + i] != a:
                moved += 1
                labels[start + i] = a
            counts[a] += 1
            # 64 bits are enough: residuals have about 23 bits, and `accams.engine.grid` bounds the sum of all weights
            # times row weights by 2^39.
            w = 1 if row_weights is None else np.int64(row_weights[start + i])
            for b in range(k_other):
                N[a, b] += w * n[start + i, b]
                L[a, b] += w * l[start + i, b]
    return moved


@kernel
def block_tables(lo, hi, n, l, row_weights, labels, N, L, counts):
    """Add the sums of rows [lo, hi) to the block tables of their present labels."""
    for i in range(lo, hi):
        a = labels[i]
        counts[a] += 1
        w = 1 if row_weights is None else np.int64(row_weights[i])
        for b in range(n.shape[1]):
            N[a, b] += w * n[i, b]
            L[a, b] += w * l[i, b]


@kernel
def spreads(lo, hi, n, l, out):
    """Compute out[i] = sum_b l[i, b]^2 / n[i, b], the squared distance of row i's means from zero."""
    for i in range(lo, hi):
        total = 0.0
        for b in range(n.shape[1]):
            if n[i, b] > 0:
                x = np.float64(l[i, b])  # the square of an integer sum could overflow
                total += x * x / n[i, b]
        out[i] = total


@kernel
def distances(lo, hi, n, l, centres, spread, out):
    """Lower out[t, i] to sum_b n[i, b] * (l[i, b] / n[i, b] - centres[t, b])^2 where that is less.

    The square is expanded, with `spread` from `spreads` as the term that does not depend on the centre.
    """
    for t in range(len(centres)):
        for i in range(lo, hi):
            total = spread[i]
            for b in range(centres.shape[1]):
                total += centres[t, b] * (n[i, b] * centres[t, b] - 2.0 * l[i, b])
            # The terms cancel: what is left of a row at the centre is rounding, and k-means++ must not draw that row.
            out[t, i] = min(out[t, i], total if total > ROUNDING * spread[i] else 0.0)


@kernel
def misfits(lo, hi, n, l, T, curvature, shrinkage, labels, out):
    """Compute by how much the cost of each row would fall in a cluster of its own.

    That is its present cost, sum_b curvature * n * T^2 - 2 * l * T, less that of a cluster that holds it alone,
    -sum_b l^2 / (curvature * (n + shrinkage)).
    """
    for i in range(lo, hi):
        total = 0.0
        for b in range(T.shape[1]):
            t = T[labels[i], b]
            total += t * (curvature * n[i, b] * t - 2.0 * l[i, b])
            if n[i, b] > 0:
                x = np.float64(l[i, b])
                total += x * x / (curvature * (n[i, b] + shrinkage))
        out[i] = total
