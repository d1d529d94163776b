"""Choosing all labels of a row together, and the tables that it takes.

Labels of several stencils stand side by side in one array (row, stencil); label a of stencil l is the code
first[l] + a, so that all clusters of all stencils are counted through.
"""

from __future__ import annotations

import numpy as np

from accams.kernels.jit import kernel


@kernel
def cross_weights(labels, first, weights, out):
    """out[x, y] += the weight of the rows that have both code x and code y, of which x is in the earlier stencil.

    Where x is y it is half of that: the whole table is this one and its transpose.
    """
    s = labels.shape[1]
    codes = np.zeros(s, np.int64)
    for i in range(labels.shape[0]):
        for l in range(s):
            codes[l] = first[l] + labels[i, l]
        for l in range(s):
            line = out[codes[l]]
            line[codes[l]] += 0.5 * weights[i]
            for q in range(l + 1, s):
                line[codes[q]] += weights[i]


@kernel
def code_sums(labels, first, weights, lines, out):
    """out[x] += weights[i] * lines[i] over the rows i that have code x."""
    for i in range(labels.shape[0]):
        for l in range(labels.shape[1]):
            x = out[first[l] + labels[i, l]]
            for q in range(lines.shape[1]):
                x[q] += weights[i] * lines[i, q]


@kernel
def subtract_lines(lo, hi, labels, first, lines, out):
    """out[i] -= the lines of all codes of row i, for i in [lo, hi)."""
    for i in range(lo, hi):
        x = out[i]
        for l in range(labels.shape[1]):
            line = lines[first[l] + labels[i, l]]
            for q in range(line.size):
                x[q] -= line[q]


@kernel
def improve_labels(lo, hi, labels, first, gram, fits, prices, weights, passes, moved):
    """Change the labels of rows [lo, hi), one after another, as long as it lowers what a row costs.

    A row with codes x_1 ... x_s costs  sum_l (prices[x_l] / weight - 2 fits[row, x_l])  +  sum_lm gram[x_l, x_m],  with
    fits[i - lo] the products of what row i should be with every code's line, and gram the products of those lines. In
    each pass each stencil's label is the best given all others. moved[i] counts the changes.
    """
    s, K = labels.shape[1], gram.shape[0]
    sums = np.zeros(K, gram.dtype)
    for i in range(lo, hi):
        sums[:] = 0.0
        for l in range(s):
            line = gram[first[l] + labels[i, l]]
            for q in range(K):
                sums[q] += line[q]
        each = 1.0 / weights[i]
        fit = fits[i - lo]
        for _ in range(passes):
            changed = False
            for l in range(s):
                now = first[l] + labels[i, l]
                own = gram[now]
                best, least = now, prices[now] * each - 2.0 * fit[now] + 2.0 * sums[now] - own[now]
                for x in range(first[l], first[l + 1]):
                    cost = prices[x] * each - 2.0 * (fit[x] - sums[x] + own[x]) + gram[x, x]
                    if cost < least - 1e-12 * abs(least):
                        best, least = x, cost
                if best != now:
                    line = gram[best]
                    for q in range(K):
                        sums[q] += line[q] - own[q]
                    labels[i, l] = best - first[l]
                    moved[i] += 1
                    changed = True
            if not changed:
                break


@kernel
def nearest_levels(lo, hi, x, weights, levels, prices, out):
    """out[i] = the level a of lowest weights[i] * (x[i] - levels[a])^2 + prices[a], for i in [lo, hi)."""
    for i in range(lo, hi):
        best, least = 0, np.inf
        for a in range(levels.size):
            d = x[i] - levels[a]
            cost = weights[i] * d * d + prices[a]
            if cost < least:
                best, least = a, cost
        out[i] = best


@kernel
def add_stencil_products(own, other, flat, starts, widths, transposed, lines, out):
    """out += S lines for a sum S of stencils laid out for prediction (or its transpose): one line per row.

    own[i] and other[j] hold one label per stencil; template s begins at flat[starts[s]] and has lines of widths[s]
    numbers.
    """
    p = lines.shape[1]
    for s in range(starts.size):
        stop = starts[s + 1] if s + 1 < starts.size else flat.size
        k_cols = widths[s]
        k_rows = (stop - starts[s]) // k_cols
        k_own, k_other = (k_cols, k_rows) if transposed else (k_rows, k_cols)
        sums = np.zeros((k_other, p), lines.dtype)
        for j in range(other.shape[0]):
            x = sums[other[j, s]]
            for q in range(p):
                x[q] += lines[j, q]
        mixed = np.zeros((k_own, p), lines.dtype)
        for a in range(k_own):
            for b in range(k_other):
                T = flat[starts[s] + (b * k_cols + a if transposed else a * k_cols + b)]
                for q in range(p):
                    mixed[a, q] += T * sums[b, q]
        for i in range(own.shape[0]):
            x = mixed[own[i, s]]
            y = out[i]
            for q in range(p):
                y[q] += x[q]
