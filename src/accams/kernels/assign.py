"""Assign labels and block tables from sums per row. A "row" is a row or a column: whichever axis is updated."""

import numpy as np

from accams.kernels.jit import kernel

ROUNDING = 1e-12  # a distance below this share of its terms is rounding error
BLOCK = 64  # rows whose costs are computed together, so that the inner loop is over contiguous memory
APART = 8  # numbers between the lines of transposed blocks, which would share few places of the cache without a gap


@kernel
def transpose(start, width, table, factor, out):
    """Write `factor` times rows start .. start + width of a table as columns."""
    for i in range(width):
        for b in range(table.shape[1]):
            out[b, i] = factor * table[start + i, b]


@kernel
def add_costs(t, mass, twice, cost):
    """Add sum_b t[b] * (mass[b] * t[b] - twice[b]) to the costs of a block of rows."""
    for b in range(t.size):
        tb, m, x = t[b], mass[b], twice[b]
        for i in range(BLOCK):
            cost[i] += tb * (m[i] * tb - x[i])


@kernel
def subtract_products(t, twice, cost):
    """Subtract sum_b t[b] * twice[b] from the costs of a block of rows."""
    whole = t.size - t.size % 4
    for b in range(0, whole, 4):  # four, so that a cost is read and written once for four terms
        t0, t1, t2, t3 = t[b], t[b + 1], t[b + 2], t[b + 3]
        x0, x1, x2, x3 = twice[b], twice[b + 1], twice[b + 2], twice[b + 3]
        for i in range(BLOCK):
            cost[i] = cost[i] - t0 * x0[i] - t1 * x1[i] - t2 * x2[i] - t3 * x3[i]
    for b in range(whole, t.size):
        tb, x = t[b], twice[b]
        for i in range(BLOCK):
            cost[i] -= tb * x[i]


@kernel
def nearest(lo, hi, n, l, row_weights, T, curvature, prices, uniform, labels, N, L, counts):
    """Give each row of [lo, hi) its cheapest label and add its sums to the block tables.

    cost(i, a) = prices[a] + sum_b curvature * n[i, b] * T[a, b]^2 - 2 * l[i, b] * T[a, b]; ties go to the lowest a.
    `uniform` says that all rows have the same n, which halves the work. `row_weights` is None or an integer weight per
    row: a factor of all its costs, so it matters in the tables only (prices assume equal weights).
    `labels` is changed in place; N, L and counts are added to. Returns the number of labels that changed.
    """
    k_own, k_other = T.shape
    mass, twice = np.zeros((k_other, BLOCK + APART)), np.zeros((k_other, BLOCK + APART))
    cost = np.zeros(BLOCK)
    lowest = np.zeros(BLOCK)
    best = np.zeros(BLOCK, np.int64)
    total = np.zeros(k_own, np.int64)
    moved = 0
    for start in range(lo, hi, BLOCK):
        width = min(BLOCK, hi - start)
        transpose(start, width, l, 2.0, twice)
        if not uniform:
            transpose(start, width, n, curvature, mass)
        # Loops run to BLOCK, not to width, so that their length is known at compile time; the numbers beyond width are
        # left over from the block before and never read. Each row adds over b in order, wherever blocks begin.
        for a in range(k_own):
            if uniform:
                constant = prices[a]
                for b in range(k_other):
                    constant += curvature * n[start, b] * T[a, b] * T[a, b]
                cost[:] = constant
                subtract_products(T[a], twice, cost)
            else:
                cost[:] = prices[a]
                add_costs(T[a], mass, twice, cost)
            if a == 0:
                for i in range(BLOCK):
                    lowest[i] = cost[i]
                    best[i] = 0
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
            total[a] += w
            for b in range(k_other):
                L[a, b] += w * l[start + i, b]
            if not uniform:
                for b in range(k_other):
                    N[a, b] += w * n[start + i, b]
    if uniform and hi > lo:
        for a in range(k_own):
            for b in range(k_other):
                N[a, b] += total[a] * n[lo, b]
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
    mass, twice = np.zeros((n.shape[1], BLOCK + APART)), np.zeros((n.shape[1], BLOCK + APART))
    cost = np.zeros(BLOCK)
    for start in range(lo, hi, BLOCK):
        width = min(BLOCK, hi - start)
        transpose(start, width, l, 2.0, twice)
        transpose(start, width, n, 1.0, mass)
        for t in range(len(centres)):
            for i in range(width):
                cost[i] = spread[start + i]
            add_costs(centres[t], mass, twice, cost)
            for i in range(width):
                # The terms cancel: what is left of a row at the centre is rounding; k-means++ must not draw that row.
                total = cost[i] if cost[i] > ROUNDING * spread[start + i] else 0.0
                out[t, start + i] = min(out[t, start + i], total)


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
