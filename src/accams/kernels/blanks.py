"""Sums of a sum of stencils over all cells of a matrix, from labels and templates alone.

The sum of stencil (T, c, d) over row i and the columns of cluster b is sum_y T[c[i], y] * (number of columns with label
y in d and label b), so small tables of counts replace m x n cells.

Stencils are taken in *groups* of consecutive ones, whose labels share one *code*: (x * k + y) * l + z for labels x, y
and z, with k and l clusters in the second and third stencil. A row then reads one line of a table per group instead of
one per stencil. codes[g, i] is the code of row i in group g, which has the stencils members[g] .. members[g + 1].
Template s begins at flat[start[s]], rows first. Arrays with a line per axis: stencil s has k[axis, s] clusters, its
label is the *digit* code // unit[axis, s] % k[axis, s], and the lines of group g begin at first[axis, g].
"""

import numpy as np

from accams.kernels.jit import kernel

BLOCK = 256  # rows that take the lines of four groups in turn, which then stay in the nearest cache
LANES = 16  # numbers that one turn of a vectorised loop adds: lines are padded with zeros to a multiple of it
WHOLE = ~np.uint64(LANES - 1)  # tells the compiler so


@kernel
def digit_of(n_codes, unit, k):
    """Return the digit of each code below `n_codes`: a table, since divisions are slow."""
    out = np.empty(n_codes, np.int64)
    for begin in range(0, n_codes, unit * k):
        for digit in range(k):
            out[begin + digit * unit : begin + (digit + 1) * unit] = digit
    return out


@kernel
def recode(codes, n_codes, labels, unit, k):
    """Replace one digit of every code."""
    rest = np.arange(n_codes) - unit * digit_of(n_codes, unit, k)
    for i in range(codes.size):
        codes[i] = rest[codes[i]] + unit * labels[i]


@kernel
def replace(number, T, rows, cols, row_codes, col_codes, k, unit, first, members, start, flat):
    """Put a stencil in the place of the one of that number, which has the same shape."""
    group = np.searchsorted(members, number, side="right") - 1
    n_codes = first[:, group + 1] - first[:, group]
    recode(row_codes[group], n_codes[0], rows, unit[0, number], k[0, number])
    recode(col_codes[group], n_codes[1], cols, unit[1, number], k[1, number])
    for a in range(T.shape[0]):
        for b in range(T.shape[1]):
            flat[start[number] + a * T.shape[1] + b] = T[a, b]


@kernel
def labels_of(codes, n_codes, unit, k):
    """Return one digit of every code."""
    digit, out = digit_of(n_codes, unit, k), np.empty(codes.size, np.uint16)
    for i in range(codes.size):
        out[i] = digit[codes[i]]
    return out


@kernel
def pair_counts(codes, n_codes, labels, k):
    """Return how many positions have code x and label b."""
    counts = np.zeros((n_codes, k), np.int64)
    for j in range(codes.size):
        counts[codes[j], labels[j]] += 1
    return counts


@kernel
def by_digit(counts, unit, k):
    """Add up the lines of `counts` by one digit of their code."""
    out = np.zeros((k, counts.shape[1]), np.int64)
    for begin in range(0, len(counts), unit * k):
        for digit in range(k):
            total = out[digit]
            for x in range(begin + digit * unit, begin + (digit + 1) * unit):
                line = counts[x]
                for b in range(total.size):
                    total[b] += line[b]
    return out


@kernel
def room_for_lines(axis, first, width):
    """Return room for the lines of all groups."""
    return np.empty((first[axis, -1], -(-width // LANES) * LANES), np.int64)


@kernel
def group_lines(lo, hi, axis, codes, labels, k, unit, first, members, start, flat, factor, out):
    """Compute the lines of groups [lo, hi), of which `add_lines` adds one per group to each row.

    out[first[axis, g] + x, b] is `factor` times the sum of the group's stencils over a row with code x and all columns
    with label b, where `codes` and `labels` are those of columns. (For axis 1, rows and columns change places.) `out`
    comes from `room_for_lines`; columns beyond the labels become zeros.
    """
    other, width = 1 - axis, out.shape[1]
    for g in range(lo, hi):
        counts = pair_counts(codes[g], first[other, g + 1] - first[other, g], labels, width)
        begin, end = first[axis, g], first[axis, g + 1]
        for s in range(members[g], members[g + 1]):
            cross = by_digit(counts, unit[other, s], k[other, s])
            own = np.zeros((k[axis, s], width), np.int64)
            for a in range(k[axis, s]):
                for y in range(k[other, s]):
                    t = factor * flat[start[s] + (a * k[1, s] + y if axis == 0 else y * k[1, s] + a)]
                    for b in range(width):
                        own[a, b] += t * cross[y, b]
            spread(own, unit[axis, s], s > members[g], out[begin:end])


@kernel
def spread(own, unit, add, out):
    """Write (or add) to each line of `out`, those of all codes, the line of `own` of one digit of its code."""
    for begin in range(0, len(out), unit * len(own)):
        for digit in range(len(own)):
            line = own[digit]
            for x in range(begin + digit * unit, begin + (digit + 1) * unit):
                to = out[x]
                for b in range(to.size):
                    to[b] = to[b] + line[b] if add else line[b]


@kernel
def add_lines(lo, hi, codes, first, lines, mass, factors, n, l):
    """Turn the sums of the stored cells of rows [lo, hi) into those of all cells, in place.

    With (f, g, h) = `factors`, n becomes f * n + mass[b], and l becomes g * l + h * n (as it was) plus the row's line
    of each group q; lines of group q, whose width is that of `room_for_lines`, begin at first[q].
    """
    f, g, h = factors
    groups, wide = first.size - 1, np.uint64(lines.shape[1])
    whole, sums = groups - groups % 4, np.empty((BLOCK, lines.shape[1]), np.int64)
    for start in range(lo, hi, BLOCK):
        begin, end = np.uint64(start), np.uint64(min(hi, start + BLOCK))
        sums[:] = 0
        for q in range(0, whole, 4):  # four, so that sums are read and written once for four additions
            f0, f1, f2, f3 = first[q], first[q + 1], first[q + 2], first[q + 3]
            c0, c1, c2, c3 = codes[q], codes[q + 1], codes[q + 2], codes[q + 3]
            for i in range(begin, end):
                x0, x1 = np.uint64(f0 + c0[i]), np.uint64(f1 + c1[i])
                x2, x3 = np.uint64(f2 + c2[i]), np.uint64(f3 + c3[i])
                for b in range(wide & WHOLE):
                    sums[i - begin, b] += (lines[x0, b] + lines[x1, b]) + (lines[x2, b] + lines[x3, b])
        for q in range(whole, groups):
            for i in range(begin, end):
                x = np.uint64(first[q] + codes[q, i])
                for b in range(wide & WHOLE):
                    sums[i - begin, b] += lines[x, b]
        for i in range(begin, end):
            for b in range(np.uint64(n.shape[1])):
                l[i, b] = g * l[i, b] + h * n[i, b] + sums[i - begin, b]
                n[i, b] = f * n[i, b] + mass[b]


@kernel
def inner_products(lo, hi, row_codes, col_codes, k, unit, first, members, start, flat, stale, gram):
    """Compute gram[t, s], the sum over all cells of stencil t times stencil s, for t in [lo, hi) and s <= t.

    Pairs of which neither stencil is `stale` are left as they are.
    """
    n_codes = first[:, 1:] - first[:, :-1]
    for t in range(lo, hi):
        if not stale[: t + 1].any():
            continue
        own = np.searchsorted(members, t, side="right") - 1
        rows = labels_of(row_codes[own], n_codes[0, own], unit[0, t], k[0, t])
        cols = labels_of(col_codes[own], n_codes[1, own], unit[1, t], k[1, t])
        for g in range(own + 1):
            begin, end = members[g], min(members[g + 1], t + 1)
            if not (stale[t] or stale[begin:end].any()):
                continue
            by_row = pair_counts(row_codes[g], n_codes[0, g], rows, k[0, t])
            by_col = pair_counts(col_codes[g], n_codes[1, g], cols, k[1, t])
            for s in range(begin, end):
                R, C = by_digit(by_row, unit[0, s], k[0, s]), by_digit(by_col, unit[1, s], k[1, s])
                gram[t, s] = inner_product(R, C, flat[start[s] :], flat[start[t] :])


@kernel
def inner_product(R, C, S, T):
    """Return the sum over all cells of template S times template T, which begin the vectors given.

    R[a, b] and C[x, y] count rows and columns by their labels in both. Sums are added in this order everywhere; only
    the first are exact.
    """
    total, sums = 0.0, np.zeros(C.shape[1], np.int64)
    for a in range(R.shape[0]):
        sums[:] = 0
        for x in range(C.shape[0]):
            for y in range(C.shape[1]):
                sums[y] += S[a * C.shape[0] + x] * C[x, y]
        for b in range(R.shape[1]):
            line = 0.0
            for y in range(C.shape[1]):
                line += np.float64(sums[y]) * np.float64(T[b * C.shape[1] + y])
            total += R[a, b] * line
    return total
