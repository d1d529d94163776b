"""Labels of an item in a stencil sum whose templates are given: a small discrete quadratic problem."""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def choose_labels(lo, hi, linear, quadratic, first, prices, passes, labels):
    """Give items [lo, hi) the labels, one per stencil, that minimise v'Nv - 2 c'v + prices, with v their indicator.

    The options of all stencils are numbered one after another: those of stencil s are first[s] .. first[s + 1]. N is
    `quadratic` and c is linear[j] of item j. Stencils are added one by one, each with its best label beside those
    before, and then improved in turn.
    """
    n_stencils = first.size - 1
    around = np.empty(quadratic.shape[0])  # N times the indicator of the labels so far
    for j in range(lo, hi):
        around[:] = 0.0
        c, own = linear[j], labels[j]
        for turn in range(passes + 1):
            changed = False
            for s in range(n_stencils):
                begin, end = first[s], first[s + 1]
                old = begin + own[s]
                if turn > 0:
                    for o in range(around.size):
                        around[o] -= quadratic[old, o]
                best, chosen = np.inf, begin
                for o in range(begin, end):
                    cost = quadratic[o, o] + 2.0 * (around[o] - c[o]) + prices[o]
                    if cost < best:
                        best, chosen = cost, o
                own[s] = chosen - begin
                changed = changed or chosen != old
                for o in range(around.size):
                    around[o] += quadratic[chosen, o]
            if turn > 0 and not changed:
                break


@kernel
def gather_by_item(starts, items, weights, place_of, table, out):
    """Add to out[place of item] the line of each user who chose it, times the weight of that; -1 is left out."""
    for u in range(starts.size - 1):
        line = table[u]
        for p in range(starts[u], starts[u + 1]):
            place = place_of[items[p]]
            if place >= 0:
                x, w = out[place], weights[p]
                for k in range(line.size):
                    x[k] += w * line[k]


@kernel
def gather_by_user(starts, items, weights, place_of, labels, first, out):
    """Add to out[u] the weight of each item of the head that the user chose, at the option of its label per stencil."""
    for u in range(starts.size - 1):
        x = out[u]
        for p in range(starts[u], starts[u + 1]):
            if place_of[items[p]] < 0:
                own = labels[items[p]]
                for s in range(own.size):
                    x[first[s] + own[s]] += weights[p]
