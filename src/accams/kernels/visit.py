"""Whole visits of the blocked sampler to a matrix with observed zeros, in one call.

Chains on threads then seldom wait for the interpreter. Updates are those of `accams.engine.base.State.visit`, so that
draws are the same; but only the row order of the stored cells is read, and the sums of columns are scattered from it.
Arguments are tuples:

    stored : starts, index, resid, the stored cells in row order
    shifts : own_a, other_a, T_a, own_b, T_b, two shifts that the first update adds to the residual: by any stencil, and
             by the one that is taken out, whose labels of columns are the present ones, which sums are by anyway
    room   : n and l of rows, then of columns
    blanks : what `add_blanks` needs
"""

import numpy as np

from accams.kernels.blanks import add_lines, group_lines, replace, room_for_lines
from accams.kernels.jit import kernel
from accams.kernels.sample import blocked, log_weights, template
from accams.kernels.sparse import HALF, ONE, RUN

CODE_BITS = np.uint32(16)  # of each of the two labels that share a code
LOW_CODE = np.uint32((1 << 16) - 1)


@kernel
def sum_rows(stored, shifts, shifted, cols, n, l):
    """Sum the stored cells of every row by the labels of columns, and shift them if they are not `shifted` yet.

    This is `accams.kernels.sparse.gather` for rows of some tens of cells: one label less to look up, and one line of
    sums in place of four.
    """
    starts, index, resid = stored
    own_a, other_a, T_a, own_b, T_b = shifts
    if shifted:  # to compile a pass without shifts would take seconds
        T_a, T_b = np.zeros_like(T_a), np.zeros_like(T_b)
    codes = np.empty(cols.size, np.uint32)
    for j in range(cols.size):
        codes[j] = np.uint32(other_a[j]) | (np.uint32(cols[j]) << CODE_BITS)
    sums = np.empty(n.shape[1], np.int64)
    for i in range(len(n)):
        ni, li, t_a, t_b = n[i], l[i], T_a[own_a[i]], T_b[own_b[i]]
        ni[:] = 0
        li[:] = 0
        for run in range(starts[i], starts[i + 1], RUN):
            sums[:] = 0
            for p in range(np.uint64(run), np.uint64(min(run + RUN, starts[i + 1]))):
                code = codes[index[p]]
                b = code >> CODE_BITS
                x = np.int32(resid[p] + t_a[code & LOW_CODE] + t_b[b])
                resid[p] = x
                sums[b] += ONE + x
            for b in range(sums.size):
                count = (sums[b] + HALF) >> 44
                ni[b] += count
                li[b] += sums[b] - (count << 44)


@kernel
def sum_cols(stored, rows, n, l):
    """Sum the stored cells of every column by the labels of rows.

    A row adds to one line of the sums, in order: as long as these fit in the cache, that is faster than to look up the
    label of every cell's row.
    """
    starts, index, resid = stored
    number, total = np.zeros((n.shape[1], len(n)), np.int32), np.zeros((n.shape[1], len(n)), np.int64)
    for i in range(rows.size):
        ni, li = number[rows[i]], total[rows[i]]
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            j = np.uint64(index[p])
            ni[j] += np.int32(1)
            li[j] += resid[p]
    for j in range(len(n)):
        for a in range(n.shape[1]):
            n[j, a], l[j, a] = number[a, j], total[a, j]


@kernel
def add_blanks(axis, others, blanks, n, l):
    """Turn the sums of stored cells into those of all cells."""
    row_codes, col_codes, k, unit, first, members, start, flat, blank, factors = blanks
    own, other = (row_codes, col_codes) if axis == 0 else (col_codes, row_codes)
    lines = room_for_lines(axis, first, n.shape[1])
    layout = k, unit, first, members, start, flat
    group_lines(0, members.size - 1, axis, other, others, *layout, -blank, lines)
    mass = np.zeros(n.shape[1], np.int64)
    for j in range(others.size):
        mass[others[j]] += blank
    add_lines(0, len(n), own, first[axis], lines, mass, factors, n, l)


@kernel
def draw_labels(axis, labels, others, blanks, n, l, T, prior, precision, key, counts):
    """Draw the labels of one axis from its sums; return the block tables and how many labels changed."""
    add_blanks(axis, others, blanks, n, l)
    N, L = np.zeros(T.shape, np.int64), np.zeros(T.shape, np.int64)
    counts[:] = 0
    drawn = 0, labels, N, L, counts
    moved = blocked(0, labels.size, n, l, None, T, prior, precision, key[2], key[3], *drawn)
    return N, L, moved


@kernel
def visit(axes, keys, T, rows, cols, counts, stored, shifts, room, blanks, scales):
    """Make all updates of a visit; return the template, the last block tables (rows first) and labels changed.

    axes[u] is the axis of update u, beginning with rows, and keys[u] has the keys of its weights, labels and template.
    Labels (`rows`, `cols`) and the counts of both are changed in place.
    """
    concentration, kappa, spread, precision, limit = scales
    N, L, T = np.zeros(T.shape, np.int64), np.zeros(T.shape, np.int64), T.copy()
    moved = np.zeros(2, np.int64)
    for u in range(axes.size):
        axis, key = axes[u], keys[u]  # axis is no literal, so that `draw_labels` is compiled once for both: seconds
        prior = log_weights(counts[axis], concentration[axis], key[0], key[1])
        T0 = T.astype(np.float64)
        if axis == 0:
            n, l = room[0], room[1]
            sum_rows(stored, shifts, u > 0, cols, n, l)
            N, L, changed = draw_labels(axis, rows, cols, blanks, n, l, T0, prior, precision, key, counts[0])
        else:
            n, l = room[2], room[3]
            sum_cols(stored, rows, n, l)
            T1 = np.ascontiguousarray(T0.T)
            N, L, changed = draw_labels(axis, cols, rows, blanks, n, l, T1, prior, precision, key, counts[1])
            N, L = np.ascontiguousarray(N.T), np.ascontiguousarray(L.T)
        moved[axis] += changed
        T = template(N, L, kappa, spread, limit, key[4], key[5])
    return T, N, L, moved


@kernel
def visits(stencils, plan, stored, shifts, room, blanks, precision, limit):
    """Make visits to stencils of one shape, the first of which is taken out; return block tables and labels changed.

    Every array of `stencils` has one line per visit: numbers in `blanks` (0 for one that is new, and is not put there),
    templates, row and column labels, counts of both; all but the numbers are changed in place. So has `plan`, but for
    the axes of updates, which are the same in all visits: those, then keys, concentrations, kappa and spread. `shifts`
    are those of the first visit.
    """
    numbers, templates, row_labels, col_labels, row_counts, col_counts = stencils
    axes, keys, concentration, kappa, spread = plan
    N, L = np.empty(templates.shape, np.int64), np.empty(templates.shape, np.int64)
    moved = np.empty((numbers.size, 2), np.int64)
    start, flat = blanks[6], blanks[7]
    for s in range(numbers.size):
        rows, cols, number = row_labels[s], col_labels[s], numbers[s]
        counts, concentrations = (row_counts[s], col_counts[s]), (concentration[s, 0], concentration[s, 1])
        plan_of = axes, keys[s], templates[s], rows, cols, counts, stored
        scales = concentrations, kappa[s], spread[s], precision, limit
        if s == 0:  # labels in these shifts may be of another type
            done = visit(*plan_of, shifts, room, blanks, scales)
        else:  # stored cells wait for two shifts: the stencil before has been put in, and this one is taken out
            put, gone = -templates[s - 1], templates[s].copy()
            both = row_labels[s - 1], col_labels[s - 1], put, rows.copy(), gone
            flat[start[number] : start[number] + gone.size] = 0
            done = visit(*plan_of, both, room, blanks, scales)
        T, n, l, by_side = done
        for a in range(T.shape[0]):
            for b in range(T.shape[1]):
                templates[s, a, b], N[s, a, b], L[s, a, b] = T[a, b], n[a, b], l[a, b]
        moved[s, 0], moved[s, 1] = by_side[0], by_side[1]
        if number > 0:
            replace(number, templates[s], rows, cols, *blanks[:8])
    return N, L, moved
