"""The passes of `accams.kernels.sparse` for a matrix with every cell stored.

`resid` has the *other* axis first: resid[o, i] is the residual of own i and other o. So all cells of a line have one
partner label, and the inner loops are vector additions over contiguous cells of the own axis. `weights` is None or an
array of that shape; a weight of zero means missing (such a residual is kept up to date but never counted).
"""

import numpy as np

from accams.kernels.jit import kernel

TILE = 512  # own positions handled together: their sums, 8 * k * TILE bytes, stay in cache while all lines pass


@kernel
def expand(lo, width, own, T, out):
    """Set out[b, i] = T[own[lo + i], b], what a shift adds to own lo + i where the other label is b.

    Done once per tile, it turns the lookups of the inner loops into additions of contiguous vectors.
    """
    for b in range(T.shape[1]):
        for i in range(width):
            out[b, i] = T[own[lo + i], b]


@kernel
def gather(lo, hi, resid, weights, partners, own_a, other_a, T_a, own_b, other_b, T_b, labels, n, l):
    """Add up to two shifts to the residual and sum it by the other axis's clusters.

    l (out) is as in the sparse kernel. n (out) is written only with weights: without, it is the same for every row.
    `partners` is None or one integer per line of `resid` that multiplies its weights.
    """
    k = l.shape[1]
    sums = np.zeros((k, TILE), np.int64)
    mass = np.zeros((k if weights is not None else 1, TILE), np.int64)
    if own_a is not None:
        shift_a = np.zeros((T_a.shape[1], TILE), np.int32)
    if own_b is not None:
        shift_b = np.zeros((T_b.shape[1], TILE), np.int32)
    for start in range(lo, hi, TILE):
        width = min(TILE, hi - start)
        sums[:] = 0
        mass[:] = 0
        if own_a is not None:
            expand(start, width, own_a, T_a, shift_a)
        if own_b is not None:
            expand(start, width, own_b, T_b, shift_b)
        for o in range(resid.shape[0]):
            x = resid[o, start : start + width]
            if own_a is not None:
                a = shift_a[other_a[o]]
                for i in range(width):
                    x[i] += a[i]
            if own_b is not None:
                b = shift_b[other_b[o]]
                for i in range(width):
                    x[i] += b[i]
            s = sums[labels[o]]
            factor = np.int64(1) if partners is None else np.int64(partners[o])  # 64-bit, so that products are too
            if weights is not None:
                w = weights[o, start : start + width]
                m = mass[labels[o]]
                for i in range(width):
                    s[i] += factor * w[i] * x[i]
                    m[i] += factor * w[i]
            elif partners is not None:
                for i in range(width):
                    s[i] += factor * x[i]
            else:
                for i in range(width):
                    s[i] += x[i]
        for i in range(width):
            for b in range(k):
                l[start + i, b] = sums[b, i]
                if weights is not None:
                    n[start + i, b] = mass[b, i]


@kernel
def shift(lo, hi, resid, own, other, T):
    """Add one shift to the residual."""
    rows = np.zeros((T.shape[1], TILE), np.int32)
    for start in range(lo, hi, TILE):
        width = min(TILE, hi - start)
        expand(start, width, own, T, rows)
        for o in range(resid.shape[0]):
            x = resid[o, start : start + width]
            a = rows[other[o]]
            for i in range(width):
                x[i] += a[i]


@kernel
def squares(lo, hi, resid, weights, out):
    """Compute the (weighted) sum of squared residuals of each line o in [lo, hi), in squared grid steps."""
    for o in range(lo, hi):
        total = 0.0
        for i in range(resid.shape[1]):
            x = np.float64(resid[o, i])
            if weights is None:
                total += x * x
            else:
                total += weights[o, i] * (x * x)
        out[o] = total
