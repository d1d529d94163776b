"""Passes that fit a stencil sum to an item-item map in the metric of its regression.

Notation: A is the symmetric metric (items x items), S the stencil sum with its diagonal left out, G the target with
A B = G off the diagonal for the best map B, and Z = G - A S. One stencil has row labels c, column labels d and a
template T; `sums` is A summed over the row clusters, sums[i, a] = sum of A[i, r] over rows r with label a; `lines` is
sums @ T, so that A times the stencil is lines[i, d[j]], less A[i, j] t[j] for the diagonal entry t[j] = T[c[j], d[j]]
that is left out.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def label_sums(lo, hi, metric, labels, sums):
    """Set sums[i, a] to the sum of metric[i, r] over all r with label a, for i in [lo, hi)."""
    for i in range(lo, hi):
        line, out = metric[i], sums[i]
        out[:] = 0.0
        for r in range(line.size):
            out[labels[r]] += line[r]


@kernel
def cluster_lines(lo, hi, left, labels, out):
    """Set out[a, j] to the sum of left[i, j] over the rows i with label a, for columns j in [lo, hi)."""
    out[:, lo:hi] = 0.0
    for i in range(left.shape[0]):
        line, total = left[i], out[labels[i]]
        for j in range(lo, hi):
            total[j] += line[j]


@kernel
def exchange(lo, hi, left, metric, old_lines, old_cols, old_diagonal, lines, cols, diagonal):
    """Put a stencil into `left` in place of its old form, for rows [lo, hi): left = G - A S off the diagonal."""
    for i in range(lo, hi):
        z, a, before, after = left[i], metric[i], old_lines[i], lines[i]
        for j in range(z.size):
            z[j] += before[old_cols[j]] - after[cols[j]] + a[j] * (diagonal[j] - old_diagonal[j])
        z[i] = 0.0


@kernel
def improve_rows(metric, order, template, cols, counts, prices, labels, sums, gradient):
    """Improve the row labels one after another, and keep `sums` and `gradient` up to date; return how many changed.

    gradient[i, q] is the sum of left[i, j] over the columns j != i with label q. With x = T[b] - T[a], moving row i
    from a to b changes the error by A[i, i] sum_q n_q x_q^2 - 2 sum_q gradient[i, q] x_q, where column i is not
    counted in n_q. Rows are coupled by the metric, so this cannot be done for all of them at once.
    """
    n, width = gradient.shape
    step, pull = np.empty(width), np.empty(width)
    moved = 0
    for p in range(order.size):
        i = order[p]
        a, own = labels[i], cols[i]
        best, chosen = 0.0, a
        for b in range(template.shape[0]):
            if b == a:
                continue
            cost = prices[b] - prices[a]
            for q in range(width):
                x = template[b, q] - template[a, q]
                cost += metric[i, i] * (counts[q] - (q == own)) * x * x - 2.0 * gradient[i, q] * x
            if cost < best:
                best, chosen = cost, b
        if chosen == a:
            continue
        moved += 1
        labels[i] = chosen
        for q in range(width):
            step[q] = template[chosen, q] - template[a, q]
            pull[q] = step[q] * (counts[q] - (q == own))
        for r in range(n):
            weight, line = metric[i, r], gradient[r]  # the metric is symmetric, and its lines lie side by side
            sums[r, a] -= weight
            sums[r, chosen] += weight
            for q in range(width):
                line[q] -= weight * pull[q]
            if r != i:
                line[cols[r]] += weight * step[cols[r]]  # the diagonal entry of line r is not part of the map
    return moved


@kernel
def improve_cols(lo, hi, wanted, sums, metric, rows, template, quadratic, prices, labels):
    """Give columns [lo, hi) their best labels.

    wanted[a, j] is the sum over rows i != j with label a of what the other stencils leave. quadratic[q] is the metric's
    square of template column q over all rows; row j, which is the diagonal, is taken off again.
    """
    for j in range(lo, hi):
        a, best, chosen = rows[j], np.inf, 0
        for q in range(template.shape[1]):
            cost, product = quadratic[q] + prices[q], 0.0
            for b in range(template.shape[0]):
                cost -= 2.0 * template[b, q] * wanted[b, j]
                product += sums[j, b] * template[b, q]
            t = template[a, q]
            cost += t * (metric[j, j] * t - 2.0 * product)
            if cost < best:
                best, chosen = cost, q
        labels[j] = chosen


@kernel
def normal_equations(wanted, sums, metric, between, rows, cols, matrices, sides):
    """Add to matrices[q] @ T[:, q] = sides[q] the equations of all columns with label q.

    `between` is the metric summed over the clusters of both sides.
    """
    for j in range(cols.size):
        a, N, side = rows[j], matrices[cols[j]], sides[cols[j]]
        for b in range(between.shape[0]):
            side[b] += wanted[b, j]
            for e in range(between.shape[0]):
                N[b, e] += between[b, e]
            N[a, b] -= sums[j, b]
            N[b, a] -= sums[j, b]
        N[a, a] += metric[j, j]
