"""A whole visit of the blocked sampler to a matrix with observed zeros, in one call.

Chains on threads then seldom wait for the interpreter. Kernels are called in the order of
`accams.engine.base.State.visit`, so that draws are the same. A *side* is a tuple of what updates of one axis need:

    starts, index, resid : the stored cells in this axis's order
    own_a, other_a, T_a, own_b, other_b, T_b : two shifts, which the first update adds to the residual
    labels : of this axis in the current stencil
    n, l : room for sums

`blanks` is a tuple of what `add_blanks` needs, and of the stencil's number there.
"""

import numpy as np

from accams.kernels.blanks import add_lines, group_lines, replace, room_for_lines
from accams.kernels.jit import kernel
from accams.kernels.sample import blocked, log_weights, template
from accams.kernels.sparse import gather, pack

LABELS = 9  # place of the labels in a side


@kernel
def draw_labels(axis, shifted, side, others, blanks, T, prior, precision, key, counts):
    """Draw the labels of one axis, given those of the other; return the block tables and how many labels changed."""
    starts, index, resid, own_a, other_a, T_a, own_b, other_b, T_b, labels, n, l = side
    codes = np.empty(others.size, np.uint32)
    pack(other_a, other_b, others, codes)
    if shifted:  # by an earlier update; to compile a pass without shifts would take seconds
        T_a, T_b = np.zeros_like(T_a), np.zeros_like(T_b)
    gather(0, labels.size, starts, index, resid, None, None, own_a, T_a, own_b, T_b, codes, n, l)
    add_blanks(axis, others, blanks, n, l)
    N, L = np.zeros(T.shape, np.int64), np.zeros(T.shape, np.int64)
    counts[:] = 0
    drawn = 0, labels, N, L, counts
    moved = blocked(0, labels.size, n, l, None, T, prior, precision, key[2], key[3], *drawn)
    return N, L, moved


@kernel
def add_blanks(axis, others, blanks, n, l):
    """Turn the sums of stored cells into those of all cells."""
    row_codes, col_codes, k, unit, first, members, start, flat, blank, factors, _ = blanks
    own, other = (row_codes, col_codes) if axis == 0 else (col_codes, row_codes)
    lines = room_for_lines(axis, first, n.shape[1])
    layout = k, unit, first, members, start, flat
    group_lines(0, members.size - 1, axis, other, others, *layout, -blank, lines)
    mass = np.zeros(n.shape[1], np.int64)
    for j in range(others.size):
        mass[others[j]] += blank
    add_lines(0, len(n), own, first[axis], lines, mass, factors, n, l)


@kernel
def visit(axes, keys, T, counts, rows, cols, blanks, concentration, kappa, spread, precision, limit):
    """Make all updates of a visit; return the template, the last block tables (rows first) and labels changed.

    axes[u] is the axis of update u, and keys[u] has the keys of its weights, labels and template. `counts` are those of
    row and of column labels, changed in place. The last entry of `blanks` is the stencil's number there, in whose place
    it is put; 0 if it is new.
    """
    N, L, T = np.zeros(T.shape, np.int64), np.zeros(T.shape, np.int64), T.copy()
    moved, shifted = np.zeros(2, np.int64), np.zeros(2, np.bool_)
    for u in range(axes.size):
        axis, key = axes[u], keys[u]
        prior = log_weights(counts[axis], concentration[axis], key[0], key[1])
        T0 = T.astype(np.float64)
        if axis == 0:
            both = draw_labels(0, shifted[0], rows, cols[LABELS], blanks, T0, prior, precision, key, counts[0])
            N, L = both[0], both[1]
        else:
            T1 = np.ascontiguousarray(T0.T)
            both = draw_labels(1, shifted[1], cols, rows[LABELS], blanks, T1, prior, precision, key, counts[1])
            N, L = np.ascontiguousarray(both[0].T), np.ascontiguousarray(both[1].T)
        moved[axis] += both[2]
        shifted[axis] = True
        T = template(N, L, kappa, spread, limit, key[4], key[5])
    if blanks[-1] > 0:
        replace(blanks[-1], T, rows[LABELS], cols[LABELS], *blanks[:8])
    return T, N, L, moved
