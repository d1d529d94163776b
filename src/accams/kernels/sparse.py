"""Passes over the observed cells of a sparse matrix, in either order.

Every kernel works on the range [lo, hi) of its *own* axis: rows when the observations are in row order, columns
when they are in column order. Observations starts[i] .. starts[i + 1] belong to own position i, and index[p] is the
position on the *other* axis, the *partner*. `resid` holds each observation's residual as an integer number of grid
steps; `weights` is None or one integer per observation.

A *shift* is a stencil to be added to the residual during the pass (its template negated if it is to be subtracted):
labels on the own axis, labels on the other axis, and the template with the own axis first. Numba compiles one version
per combination of argument types, so the code for a shift (or weight) of None is removed at compile time.
"""

import numpy as np

from accams.kernels.jit import kernel

# Count and sum share one 64-bit word, count * 2^44 + sum, so that one addition updates both. Residuals are in
# [-2^31, 2^31), so the sum of a run of 4096 = 2^12 is in [-2^43, 2^43). A negative sum borrows one from the count;
# adding HALF before the shift by 44 gives it back. The count needs 13 of the upper 20 bits.
RUN = 4096
ONE = np.int64(1) << 44
HALF = np.int64(1) << 43

# Sums of squares are kept in two parts, of the lower 23 bits and of the rest. Residuals have about 23 bits and their
# squares 46, so with weights that sum to at most 2^39 (`accams.data.weights`) each part stays below 2^62.
LOW_BITS = 23
LOW_MASK = np.int64((1 << LOW_BITS) - 1)

# The labels of two shifts and of the current stencil share one 32-bit code, 10 bits each (hence at most 1024 clusters):
# one random access per observation fetches all three. The current label is on top, so a shift alone extracts it.
LABEL_BITS = 10
MAX_LABELS = 1 << LABEL_BITS
FIELD = np.uint32(MAX_LABELS - 1)
SECOND = np.uint32(LABEL_BITS)
THIRD = np.uint32(2 * LABEL_BITS)

# Unsigned, since numba adds a test for negative (wrap-around) indices to every signed one.
U1, U2, U3, U4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel
def pack(other_a, other_b, labels, codes):
    """Pack the labels of each position in the first shift, the second (or None) and the current stencil."""
    for j in range(labels.size):
        code = np.uint32(other_a[j]) | (np.uint32(labels[j]) << THIRD)
        if other_b is not None:
            code |= np.uint32(other_b[j]) << SECOND
        codes[j] = code


@kernel
def shifted(x, code, t_a, t_b):
    """Return residual x with the shifts added; t_a and t_b are their template rows for the own position."""
    # `Grid.limit` bounds templates so that neither a residual nor a sum of all stencils leaves 32 bits.
    if t_a is not None:
        x = np.int32(x + t_a[code & FIELD])
    if t_b is not None:
        x = np.int32(x + t_b[(code >> SECOND) & FIELD])
    return x


@kernel
def label_of(code, t_a):
    """Return the current stencil's label: the third field of a code, or the code itself without shifts."""
    if t_a is None:
        return code
    return code >> THIRD


@kernel
def weight_at(p, j, weights, partners):
    """Return the integer weight of observation p, whose partner is j."""
    w = np.int64(1)
    if weights is not None:
        w *= weights[p]
    if partners is not None:
        w *= partners[j]
    return w


@kernel
def gather(lo, hi, starts, index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, n, l):
    """Add up to two shifts to the residual and sum it by the other axis's clusters.

    codes[j] holds the partner's labels as packed by `pack`, or just its label without shifts. n[i, b] and l[i, b]
    (out, int64) are the number (or weight) of observations of i whose partner has label b, and their (weighted) sum of
    residuals. `partners` is None or one integer per partner that multiplies the weight.
    """
    k = n.shape[1]
    acc = np.zeros((4, k), np.int64)  # four: an addition need not wait for the one before to the same label
    acc0, acc1, acc2, acc3 = acc[0], acc[1], acc[2], acc[3]
    for i in range(lo, hi):
        ni = n[i]
        li = l[i]
        ni[:] = 0
        li[:] = 0
        t_a = None if own_a is None else T_a[own_a[i]]
        t_b = None if own_b is None else T_b[own_b[i]]
        for run in range(starts[i], starts[i + 1], RUN):
            start = np.uint64(run)
            stop = np.uint64(min(run + RUN, starts[i + 1]))
            if weights is not None or partners is not None:
                # A weight does not fit beside the sum in one word, so these are two additions.
                for p in range(start, stop):
                    code = codes[index[p]]
                    x = shifted(resid[p], code, t_a, t_b)
                    resid[p] = x
                    w = weight_at(p, index[p], weights, partners)
                    b = label_of(code, t_a)
                    ni[b] += w
                    li[b] += w * x
            else:
                acc[:] = 0
                whole = start + ((stop - start) & ~U3)
                for p in range(start, whole, U4):
                    c0, c1, c2, c3 = codes[index[p]], codes[index[p + U1]], codes[index[p + U2]], codes[index[p + U3]]
                    x0 = shifted(resid[p], c0, t_a, t_b)
                    x1 = shifted(resid[p + U1], c1, t_a, t_b)
                    x2 = shifted(resid[p + U2], c2, t_a, t_b)
                    x3 = shifted(resid[p + U3], c3, t_a, t_b)
                    if own_a is not None:  # without shifts the residual is only read
                        resid[p], resid[p + U1], resid[p + U2], resid[p + U3] = x0, x1, x2, x3
                    acc0[label_of(c0, t_a)] += ONE + x0
                    acc1[label_of(c1, t_a)] += ONE + x1
                    acc2[label_of(c2, t_a)] += ONE + x2
                    acc3[label_of(c3, t_a)] += ONE + x3
                for p in range(whole, stop):
                    code = codes[index[p]]
                    x = shifted(resid[p], code, t_a, t_b)
                    resid[p] = x
                    acc0[label_of(code, t_a)] += ONE + x
                for b in range(k):
                    both = acc0[b] + acc1[b] + acc2[b] + acc3[b]
                    count = (both + HALF) >> 44
                    ni[b] += count
                    li[b] += both - (count << 44)


@kernel
def shift(lo, hi, starts, index, resid, own, other, T):
    """Add one shift to the residual."""
    for i in range(lo, hi):
        t = T[own[i]]
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            resid[p] += t[other[index[p]]]


@kernel
def both_parts(high, low):
    """Return the sum of squares that is held in two parts."""
    return np.float64(high) * 2.0**LOW_BITS + np.float64(low)


@kernel
def squares(lo, hi, starts, resid, weights, out):
    """Compute each row's (weighted) sum of squared residuals, in squared grid steps.

    The sums are integers in two parts, so they do not depend on the order of observations; they are rounded once.
    """
    for i in range(lo, hi):
        high, low = np.int64(0), np.int64(0)
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            square = np.int64(resid[p]) * np.int64(resid[p])
            w = np.int64(1) if weights is None else np.int64(weights[p])
            high += w * (square >> LOW_BITS)
            low += w * (square & LOW_MASK)
        out[i] = both_parts(high, low)


@kernel
def table_costs(lo, hi, starts, index, resid, weights, V, V2, cost):
    """Add to cost[i, a] the sum over the observations (i, j) of w * (V2[j, a] - 2 * residual * V[j, a]).

    With V2 = V^2 this is the squared distance of i to centre a over the observed coordinates of i, less a
    constant that does not depend on a.
    """
    k = V.shape[1]
    for i in range(lo, hi):
        c = cost[i]
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            v = V[index[p]]
            v2 = V2[index[p]]
            x = 2.0 * resid[p]
            if weights is None:
                for a in range(k):
                    c[a] += v2[a] - x * v[a]
            else:
                w = np.float64(weights[p])
                for a in range(k):
                    c[a] += w * (v2[a] - x * v[a])


@kernel
def spread(position, starts, index, resid, out):
    """Write the residuals of one row (or column) into the vector `out`, which is zero elsewhere."""
    for p in range(np.uint64(starts[position]), np.uint64(starts[position + 1])):
        out[index[p]] = resid[p]


@kernel
def shift_own(lo, hi, starts, resid, change):
    """Subtract each row's change from its residuals."""
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            resid[p] -= change[i]


@kernel
def shift_partner(lo, hi, starts, index, resid, change):
    """Subtract each partner's change from the residuals of rows [lo, hi)."""
    for i in range(lo, hi):
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            resid[p] -= change[index[p]]
