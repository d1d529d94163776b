"""Passes over the observed cells of a sparse matrix, in either order.

Every kernel works on the range [lo, hi) of its *own* axis: rows when the observations are in row order, columns
when they are in column order. `starts`, `index` describe that order; `resid` holds the residual of each
observation as a whole number of grid steps; `weights` is None or one whole number per observation.

A *shift* is a stencil to be added to the residual on the way (its template negated if it is to be subtracted):
labels on the own axis, labels on the other axis, and the template with the own axis first. A shift of None
is compiled away.
"""

from __future__ import annotations

import numpy as np

from accams.kernels.jit import kernel

# Sums and counts share one 64-bit word: the count in the upper 20 bits, the sum in the lower 44. With
# |residual| < 2^31 a run of 4096 observations cannot overflow either half.
RUN = 4096
ONE = np.int64(1) << 44
HALF = np.int64(1) << 43


@kernel
def gather(lo, hi, starts, index, resid, weights, own_a, other_a, T_a, own_b, other_b, T_b, labels, n, l):
    """Add up to two shifts to the residual and sum it by the other axis's clusters.

    n[i, b] and l[i, b] (out, int64) are the number (or weight) of observations of i whose partner has label b,
    and their (weighted) sum of residuals.
    """
    k = n.shape[1]
    acc = np.zeros(k, np.int64)
    for i in range(lo, hi):
        ni = n[i]
        li = l[i]
        ni[:] = 0
        li[:] = 0
        if own_a is not None:
            t_a = T_a[own_a[i]]
        if own_b is not None:
            t_b = T_b[own_b[i]]
        for run in range(starts[i], starts[i + 1], RUN):
            stop = min(run + RUN, starts[i + 1])
            acc[:] = 0
            for p in range(np.uint64(run), np.uint64(stop)):  # unsigned: no check for negative indices
                j = index[p]
                x = resid[p]
                if own_a is not None:
                    x = np.int32(x + t_a[other_a[j]])
                if own_b is not None:
                    x = np.int32(x + t_b[other_b[j]])
                if own_a is not None:
                    resid[p] = x
                if weights is None:
                    acc[labels[j]] += ONE + x
                else:
                    w = np.int64(weights[p])
                    ni[labels[j]] += w
                    li[labels[j]] += w * x
            if weights is None:
                for b in range(k):
                    count = (acc[b] + HALF) >> 44
                    ni[b] += count
                    li[b] += acc[b] - (count << 44)


@kernel
def shift(lo, hi, starts, index, resid, own, other, T):
    """Add one shift to the residual."""
    for i in range(lo, hi):
        t = T[own[i]]
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            resid[p] += t[other[index[p]]]


@kernel
def squares(lo, hi, starts, resid, weights, out):
    """out[i] = (weighted) sum of squared residuals of i, in squared grid steps."""
    for i in range(lo, hi):
        total = 0.0
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x = np.float64(resid[p])
            if weights is None:
                total += x * x
            else:
                total += weights[p] * (x * x)
        out[i] = total


@kernel
def table_costs(lo, hi, starts, index, resid, weights, V, V2, cost):
    """cost[i, a] += sum over the observations (i, j) of w * (V2[j, a] - 2 * residual * V[j, a]).

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
