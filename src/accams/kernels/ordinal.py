"""Draw the latent values of ordinal observations: normal numbers within the interval of the observed value.

An observation of level y has a latent value z ~ N(f, s^2) that lies in (cuts[y], cuts[y + 1]], f being the model there.
The residual is z - f, so f is the old latent value less the residual. Everything is in ticks, and a draw is keyed by
the number of its cell: both orders of the observations give the same values without knowing of each other.
"""

from math import erfc, exp, log, sqrt

import numpy as np
from scipy.special import ndtr

from accams.kernels.jit import inlined, kernel
from accams.kernels.sample import ROUND, uniform
from accams.kernels.sparse import weight_at

# The normal distribution function at multiples of 1 / PER_UNIT, with its derivative per step: cubic interpolation is
# exact to 1e-10, at a fifth of the time of `erfc`. That is enough unless all of an interval lies in a tail.
PER_UNIT, REACH, TAIL = 64, 8, -3.0
_AT = np.arange(-REACH * PER_UNIT, REACH * PER_UNIT + 2) / PER_UNIT
CDF = ndtr(_AT)
SLOPE = np.exp(-0.5 * _AT * _AT) / np.sqrt(2.0 * np.pi) / PER_UNIT
ROW_BITS = 32  # a cell is numbered row * 2^32 + column
FARTHEST = -37.0  # below, the probability of a tail is not a normal double


@inlined
def cdf(x):
    """Return the normal distribution function, to 1e-10."""
    t = (min(max(x, -REACH), REACH) + REACH) * PER_UNIT  # beyond, it is 0 or 1 to fifteen digits
    k = np.uint64(t)
    u = t - np.float64(k)
    y, slope = CDF[k], SLOPE[k]
    rise, next_slope = CDF[k + np.uint64(1)] - y, SLOPE[k + np.uint64(1)]
    return y + u * (slope + u * ((3.0 * rise - 2.0 * slope - next_slope) + u * (slope + next_slope - 2.0 * rise)))


@kernel
def quantile(p):
    """Return the normal quantile of p, to seven digits (the rational functions of Wichura, 1988: AS 241, PPND7)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        return q * top / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0)
    r = sqrt(-log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        x = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
        x /= (0.12021132975 * r + 0.73700164250) * r + 1.0
    else:
        r -= 5.0
        x = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150
        x /= (0.012258202635 * r + 0.24197894225) * r + 1.0
    return -x if q < 0.0 else x


@kernel
def truncated_tail(low, high, u):
    """Return `truncated` of an interval in the lower tail."""
    if high <= FARTHEST:  # so far out the square of the number is exponential
        below = exp(0.5 * (high - low) * (high + low))  # share of what is below `high` that is below `low`, too
        return max(-sqrt(high * high - 2.0 * log(u + (1.0 - u) * below)), low)
    p = 0.5 * erfc(-low / sqrt(2.0))
    p += u * (0.5 * erfc(-high / sqrt(2.0)) - p)
    return min(max(quantile(p), low), high)


@inlined
def truncated(low, high, u):
    """Return the normal number between `low` and `high` of which the share u of that interval's probability is below.

    Of the two tails the lower one keeps its digits, so an interval in the upper one is mirrored.
    """
    if high > TAIL and low < -TAIL:  # nearly always, so that this branch is free
        p = cdf(low)
        p += u * (cdf(high) - p)
        x = min(max(quantile(p), low), high)
    elif low > 0.0:
        x = -truncated_tail(-high, -low, 1.0 - u)
    else:
        x = truncated_tail(low, high, u)
    return x


@inlined
def latent_value(f, level, cuts, spread, u):
    """Return an integer latent value within the interval of its level, around f with this standard deviation."""
    below, above, precision = cuts[level], cuts[np.int64(level) + 1], 1.0 / spread
    x = truncated((below - f) * precision, (above - f) * precision, u)
    rounded = ((f + spread * x) + ROUND) - ROUND  # as `rint`, which GPUs do not have
    return np.int32(min(max(rounded, below + 1), above))


@kernel
def redraw(
    lo, hi, starts, index, levels, weights, own, partners, resid, latent, cuts, spread, unit, key0, key1, first,
    by_row, slots, other_resid,
):  # fmt: skip
    """Draw new latent values of the observations of [lo, hi), and correct their residuals.

    `slots` is None, or the place of each partner's first observation of the range in the other order, whose residuals
    are then corrected too: a draw takes longer than the random access that saves it there. `slots` is changed.

    `own` and `partners` are None or the weights of rows (columns) and of their partners, `unit` is the value of one
    unit of an observation's weight, which divides its variance; `spread` is the standard deviation of weight one.
    Position 0 is `first` in the whole matrix.
    """
    for i in range(lo, hi):
        mine = np.int64(1) if own is None else np.int64(own[i])
        s = spread / sqrt(unit * mine)
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            j = np.int64(index[p])
            if weights is not None or partners is not None:
                s = spread / sqrt(unit * (mine * weight_at(p, j, weights, partners)))
            cell = ((first + i) << ROW_BITS) + j if by_row else (j << ROW_BITS) + first + i
            f = np.float64(latent[p] - resid[p])
            z = latent_value(f, levels[p], cuts, s, uniform(key0, key1, cell))
            change = z - latent[p]
            resid[p] += change
            latent[p] = z
            if slots is not None:
                other_resid[np.uint64(slots[j])] += change
                slots[j] += 1


@kernel
def redraw_dense(lo, hi, levels, weights, own, partners, resid, latent, cuts, spread, unit, key0, key1, by_row):
    """Draw the same for own positions [lo, hi) of a matrix with every cell stored (`accams.kernels.dense`)."""
    for o in range(resid.shape[0]):
        factor = np.int64(1) if partners is None else np.int64(partners[o])
        for i in range(lo, hi):
            w = factor if weights is None else factor * weights[o, i]
            if w == 0:  # missing
                continue
            if own is not None:
                w *= own[i]
            cell = (np.int64(i) << ROW_BITS) + o if by_row else (np.int64(o) << ROW_BITS) + i
            f = np.float64(latent[o, i] - resid[o, i])
            s = spread / sqrt(unit * w)
            z = latent_value(f, levels[o, i], cuts, s, uniform(key0, key1, cell))
            resid[o, i] += z - latent[o, i]
            latent[o, i] = z
