"""Choose all labels of a row jointly, and compute the tables that this needs.

Labels of several stencils stand side by side in one array (row, stencil). Label a of stencil l is the *code*
first[l] + a: codes number the clusters of all stencils consecutively.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def cross_weights(labels, first, weights, out):
    """Add to out[x, y] the weight of the rows with both code x and code y, for x in the earlier stencil only.

    The diagonal gets half of it, so that the full table is `out` plus its transpose, for half the additions.
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
    """Add to out[x] the sum of weights[i] * lines[i] over the rows i with code x."""
    for i in range(labels.shape[0]):
        for l in range(labels.shape[1]):
            x = out[first[l] + labels[i, l]]
            for q in range(lines.shape[1]):
                x[q] += weights[i] * lines[i, q]


@kernel
def subtract_lines(lo, hi, labels, first, lines, out):
    """Subtract from out[i] the lines of all codes of row i, for i in [lo, hi)."""
    for i in range(lo, hi):
        x = out[i]
        for l in range(labels.shape[1]):
            line = lines[first[l] + labels[i, l]]
            for q in range(line.size):
                x[q] -= line[q]


@kernel
def improve_labels(lo, hi, labels, first, gram, fits, prices, weights, passes, moved):
    """Improve the labels of rows [lo, hi) by coordinate descent on the cost of each row.

    A row with codes x_1 ... x_s costs  sum_l (prices[x_l] / weight - 2 fits[row, x_l])  +  sum_lm gram[x_l, x_m],  with
    fits[i - lo] the products of the target of row i with every code's line, and gram the products of those lines. Each
    pass gives each stencil its best label given all others. moved[i] counts the changes.
    """
    s, K = labels.shape[1], gram.shape[0]
    sums = np.zeros(K, gram.dtype)  # sums[x] = sum_l gram[x_l, x]: a candidate's interaction with the present codes
    for i in range(lo, hi):
        sums[:] = 0.0
        for l in range(s):
            line = gram[first[l] + labels[i, l]]
            for q in range(K):
                sums[q] += line[q]
        price_scale = 1.0 / weights[i]
        fit = fits[i - lo]
        for _ in range(passes):
            changed = False
            for l in range(s):
                now = first[l] + labels[i, l]
                present = gram[now]  # taken out of sums to get the interaction with all other stencils
                best, least = now, prices[now] * price_scale - 2.0 * fit[now] + 2.0 * sums[now] - present[now]
                for x in range(first[l], first[l + 1]):
                    cost = prices[x] * price_scale - 2.0 * (fit[x] - sums[x] + present[x]) + gram[x, x]
                    if cost < least - 1e-12 * abs(least):  # by more than rounding, so that labels cannot alternate
                        best, least = x, cost
                if best != now:
                    line = gram[best]
                    for q in range(K):
                        sums[q] += line[q] - present[q]
                    labels[i, l] = best - first[l]
                    moved[i] += 1
                    changed = True
            if not changed:
                break


@kernel
def nearest_levels(lo, hi, x, weights, levels, prices, out):
    """Set out[i] to the level a of lowest weights[i] * (x[i] - levels[a])^2 + prices[a], for i in [lo, hi)."""
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
    """Add S @ lines to `out`, for a stencil sum S laid out for prediction (or its transpose).

    own[i] and other[j] hold one label per stencil; template s begins at flat[starts[s]] and has rows of widths[s]
    numbers. Lines are first summed by label, then mixed by the template, then spread by label: the cost is
    s (m + n + k^2) p, never m n p.
    """
    p = lines.shape[1]
    for s in range(starts.size):
        stop = starts[s + 1] if s + 1 < starts.size else flat.size
        k_cols = widths[s]
        k_rows = (stop - starts[s]) // k_cols
        # A transposed product reads the template by columns instead of copying it.
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
