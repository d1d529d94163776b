"""Gather sums and draw labels in one pass, for rows with few observations.

`sparse.gather` and `sample.blocked` go through all clusters of the other axis for every row. A row with one or two
observations meets one or two of them: here only those are touched, and no table of sums is written. Results are the
same, to the bit: a cluster without observations adds zero to every cost, and those that a row meets are visited in
ascending order, as in `sample.blocked`.
"""

import numpy as np

from accams.kernels.jit import contracted
from accams.kernels.sample import exponential, uniform
from accams.kernels.sparse import label_of, shifted, weight_at


@contracted
def draw(
    lo, hi, starts, index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, row_weights, columns, log_prior,
    precision, key0, key1, first, labels, N, L, counts,
):  # fmt: skip
    """Add up to two shifts to the residual of rows [lo, hi), draw their labels and add their sums to the tables.

    Arguments are those of `sparse.gather` and of `sample.blocked`; columns[b, a] is the template. Returns the number of
    labels that changed.
    """
    k_other, k_own = columns.shape
    n, l, present = np.zeros(k_other, np.int64), np.zeros(k_other, np.int64), np.zeros(k_other, np.int64)
    logit = np.zeros(k_own)
    moved = 0
    for i in range(lo, hi):
        t_a = None if own_a is None else T_a[own_a[i]]
        t_b = None if own_b is None else T_b[own_b[i]]
        met = 0
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            code = codes[index[p]]
            x = shifted(resid[p], code, t_a, t_b)
            resid[p] = x
            w = weight_at(p, index[p], weights, partners)
            b = np.int64(label_of(code, t_a))
            place = met  # those met so far are in ascending order
            while place > 0 and present[place - 1] > b:
                place -= 1
            if place == 0 or present[place - 1] != b:
                for q in range(met, place, -1):
                    present[q] = present[q - 1]
                present[place] = b
                met += 1
            n[b] += w
            l[b] += w * x
        scale = precision if row_weights is None else precision * row_weights[i]
        for a in range(k_own):
            logit[a] = log_prior[a]
        for q in range(met):
            b = present[q]
            mass = -0.5 * scale * n[b]
            total = scale * l[b]
            t = columns[b]
            for a in range(k_own):
                logit[a] += t[a] * (mass * t[a] + total)
        highest = -np.inf
        for a in range(k_own):
            highest = logit[a] if logit[a] > highest else highest
        cumulative = 0.0
        for a in range(k_own):
            cumulative += exponential(logit[a] - highest)
            logit[a] = cumulative
        target = cumulative * uniform(key0, key1, first + i)
        drawn = 0
        for a in range(k_own - 1):
            drawn += logit[a] <= target
        if labels[i] != drawn:
            moved += 1
            labels[i] = drawn
        counts[drawn] += 1
        w = np.int64(1) if row_weights is None else np.int64(row_weights[i])
        for q in range(met):
            b = present[q]
            N[drawn, b] += w * n[b]
            L[drawn, b] += w * l[b]
            n[b] = 0
            l[b] = 0
    return moved
