"""Passes that fit a stencil sum to an item-item map in the metric of its regression.

Notation: A is the symmetric metric (items x items), S the stencil sum with its diagonal left out, G the target with
A B = G off the diagonal for the best map B, and `left` is G - A S. One stencil has row labels c, column labels d and a
template T; `sums` is A summed over the row clusters, sums[a, i] = sum of A[i, r] over rows r with label a; `lines` is
T' sums, so that A times the stencil is lines[d[j], i], less A[i, j] t[j] for the diagonal entry t[j] = T[c[j], d[j]]
that is left out. Tables have items as their last axis: what moves of labels change lies side by side.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def label_sums(lo, hi, matrix, labels, sums):
    """Set sums[a, i] to the sum of matrix[i, r] over all r with label a, for i in [lo, hi)."""
    total = np.zeros((len(sums), 4))
    for first in range(lo, hi, 4):  # four lines at a time: additions to one label wait for each other
        total[:] = 0.0
        i, j, k, l = first, min(first + 1, hi - 1), min(first + 2, hi - 1), min(first + 3, hi - 1)
        for r in range(labels.size):
            out = total[labels[r]]
            out[0] += matrix[i, r]
            out[1] += matrix[j, r]
            out[2] += matrix[k, r]
            out[3] += matrix[l, r]
        for a in range(len(sums)):
            sums[a, i], sums[a, j], sums[a, k], sums[a, l] = total[a, 0], total[a, 1], total[a, 2], total[a, 3]


@kernel
def cluster_lines(lo, hi, left, labels, out):
    """Set out[a, j] to the sum of left[i, j] over the rows i with label a, for columns j in [lo, hi)."""
    out[:, lo:hi] = 0.0
    for i in range(left.shape[0]):
        line, total = left[i], out[labels[i]]
        for j in range(lo, hi):
            total[j] += line[j]


@kernel
def exchange(lo, hi, left, metric, changes, which, diagonal):
    """Bring `left` up to date after a stencil has changed, for rows [lo, hi).

    changes[i, which[j]] is how much A times the stencil has fallen at (i, j), but for the change of its diagonal.
    """
    for i in range(lo, hi):
        z, a, change = left[i], metric[i], changes[i]
        for j in range(z.size):
            z[j] += change[which[j]] + a[j] * diagonal[j]
        z[i] = 0.0


@kernel
def improve_rows(metric, order, template, lines, cols, counts, groups, prices, gradient, labels, sums):
    """Improve the row labels one after another, with their `sums`; return how many changed.

    gradient[q, i] is the sum of left[i, j] over the columns j != i with label q, when the pass begins. With x = T[b] -
    T[a], moving row i from a to b changes the error by A[i, i] sum_q n_q x_q^2 - 2 sum_q g_q x_q, where g is its
    gradient at that time and column i is not counted in n_q. Rows are coupled by the metric, so they have to be
    visited one by one. Only `sums` follow every move; the gradient of a row, which is their product with the template
    but for the diagonal entries of the rows that have moved (`missing`), is brought up to date when the row is visited.
    Label b costs prices[g, b] in group g = groups[i].
    """
    height, width = template.shape
    now, missing = np.empty(width), np.zeros((width, labels.size))
    moved = 0
    for i in order:
        a, own, weight = labels[i], cols[i], metric[i, i]
        for q in range(width):
            change = -lines[q, i]
            for b in range(height):
                change += sums[b, i] * template[b, q]
            now[q] = gradient[q, i] - change * (counts[q] - (q == own)) + missing[q, i]
        best, chosen, cheap = 0.0, a, prices[groups[i]]
        for b in range(height):
            cost = cheap[b] - cheap[a]
            for q in range(width):
                x = template[b, q] - template[a, q]
                cost += x * (weight * (counts[q] - (q == own)) * x - 2.0 * now[q])
            if cost < best:
                best, chosen = cost, b
        if chosen == a:
            continue
        moved += 1
        labels[i] = chosen
        step = template[chosen, own] - template[a, own]
        leaves, joins, lacks = sums[a], sums[chosen], missing[own]
        for r in range(labels.size):
            leaves[r] -= metric[i, r]
            joins[r] += metric[i, r]
            lacks[r] += metric[i, r] * step
    return moved


@kernel
def improve_cols(lo, hi, wanted, sums, metric, rows, template, quadratic, groups, prices, labels):
    """Give columns [lo, hi) their best labels.

    wanted[a, j] is the sum over rows i != j with label a of what the other stencils leave. quadratic[q] is the metric's
    square of template column q over all rows; row j, which is the diagonal, is taken off again.
    """
    for j in range(lo, hi):
        a, best, chosen = rows[j], np.inf, 0
        for q in range(template.shape[1]):
            cost, product = quadratic[q] + prices[groups[j], q], 0.0
            for b in range(template.shape[0]):
                cost -= 2.0 * template[b, q] * wanted[b, j]
                product += sums[b, j] * template[b, q]
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
            N[a, b] -= sums[b, j]
            N[b, a] -= sums[b, j]
        N[a, a] += metric[j, j]
