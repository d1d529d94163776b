"""Slopes: a regression of every row's residuals on features of the columns. A "row" is a row or a column.

Features are integers of 8 bits and slopes integers in ticks per unit of a feature, so that what they add to a cell,
the sum of their products, is an integer too: adding and taking off is exact, and so are all sums.
"""

from math import sqrt

import numpy as np

from accams.kernels.jit import contracted, inlined, kernel
from accams.kernels.sample import normal
from accams.kernels.sparse import weight_at

MOST = 2.0**52  # of one term of a sum over rows


@inlined
def _rounded(x):
    return np.int64(np.rint(min(max(x, -MOST), MOST)))


@inlined
def _add_moments(gram, sums, scale, old, change, unit, moments):
    """Add how the log likelihood of a row depends on the size of its new slopes.

    Where those on feature f are multiplied by 1 + t[f], it changes by g't - t'Q t / 2: Q[f, g] is the sum of
    w c_f x_f c_g x_g over the observations, and g[f] that of w r c_f x_f. `moments` are the lower triangle of Q and,
    in the last row, g, in multiples of `unit`: sums of integers do not depend on the order of rows.
    """
    d = sums.size
    for f in range(d):
        new, gradient = scale / unit * (old[f] + change[f]), sums[f]
        for g in range(d):
            gradient -= gram[f, g] * change[g]
        moments[d, f] += _rounded(new * gradient)
        for g in range(f + 1):
            moments[f, g] += _rounded(new * (old[g] + change[g]) * gram[f, g])


@inlined
def _solve(gram, sums, scale, old, prior, limit, key0, key1, number, U, y, line, change):
    """Draw the slopes of one row and write their differences from the old ones into `change`.

    The precision matrix of the slopes is A = scale gram + diag(prior), their mean solves A mean = scale (sums + gram
    old). With A = U' U, mean + U^-1 of standard normal numbers has the covariance A^-1.
    """
    d = sums.size
    for f in range(d):
        y[f] = sums[f]
        for g in range(d):
            y[f] += gram[f, g] * old[g]
            U[f, g] = scale * gram[f, g]
        y[f] *= scale
        U[f, f] += prior[f]
    for f in range(d):  # row by row: the inner loops are over contiguous memory
        inverse = 1.0 / sqrt(U[f, f])
        for g in range(f, d):
            line[g] = U[f, g] * inverse
            U[f, g] = line[g]
        y[f] *= inverse  # U' y = right side, on the way
        for g in range(f + 1, d):
            u, row = line[g], U[g]
            y[g] -= u * y[f]
            for h in range(g, d):
                row[h] -= u * line[h]
    for f in range(d):
        y[f] += normal(key0, key1, number * d + f)
    for f in range(d - 1, -1, -1):  # U new = y
        total = y[f]
        for g in range(f + 1, d):
            total -= U[f, g] * y[g]
        y[f] = total / U[f, f]
        change[f] = np.int32(min(max(np.rint(y[f]), -limit), limit)) - old[f]


@inlined
def _add(weight, resid, features, line, gram, sums):
    """Add one observation to the sums w x x' and w r x of a row."""
    d = sums.size
    for f in range(d):
        line[f] = features[f]
    wr = weight * np.float64(resid)
    for f in range(d):
        wx, row = weight * line[f], gram[f]
        sums[f] += wr * line[f]
        for g in range(d):
            row[g] += wx * line[g]


@kernel
def products(lo, hi, starts, index, weights, X, grams):
    """Write the sums w x x' over the observations of each row, which stay the same while partners have no weights."""
    d = X.shape[1]
    gram, sums, line = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    for i in range(lo, hi):
        gram[:] = 0.0
        for p in range(starts[i], starts[i + 1]):
            _add(np.float64(weight_at(p, index[p], weights, None)), 0, X[index[p]], line, gram, sums)
        for f in range(d):
            for g in range(d):
                grams[i, f, g] = gram[f, g]


@contracted
def draw(
    lo, hi, starts, index, resid, weights, own, partners, X, grams, old, precision, prior, limit, unit, key0, key1,
    first, change,
):  # fmt: skip
    """Draw slopes of the rows [lo, hi) on the features `X` of their partners, and return their moments.

    `grams` are None or those of `products`.

    `weights`, `own` and `partners` are None or the weights of observations, rows and partners; `precision` is that of
    an observation of weight one unit. Random numbers are keyed by the row's number in the whole matrix, where row 0 is
    row `first`. Sums are doubles, which have vector instructions: their terms are integers, and exact below 2^53.
    """
    d = X.shape[1]
    gram, U, sums, y, line = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d), np.zeros(d)
    moments = np.zeros((d + 1, d), np.int64)
    for i in range(lo, hi):
        sums[:] = 0.0
        if grams is None:
            gram[:] = 0.0
            for p in range(starts[i], starts[i + 1]):
                j = index[p]
                _add(np.float64(weight_at(p, j, weights, partners)), resid[p], X[j], line, gram, sums)
        else:
            for f in range(d):
                for g in range(d):
                    gram[f, g] = grams[i, f, g]
            for p in range(starts[i], starts[i + 1]):
                j = index[p]
                wr, features = np.float64(weight_at(p, j, weights, None)) * np.float64(resid[p]), X[j]
                for f in range(d):
                    sums[f] += wr * np.float64(features[f])
        scale = precision if own is None else precision * own[i]
        _solve(gram, sums, scale, old[i], prior, limit, key0, key1, first + i, U, y, line, change[i])
        _add_moments(gram, sums, scale, old[i], change[i], unit, moments)
    return moments


@contracted
def draw_dense(
    lo, hi, resid, weights, own, partners, X, old, precision, prior, limit, unit, key0, key1, change
):  # fmt: skip
    """Draw the same for a matrix with every cell stored, resid[partner, row] (`accams.kernels.dense`)."""
    d = X.shape[1]
    gram, U, sums, y, line = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d), np.zeros(d)
    moments = np.zeros((d + 1, d), np.int64)
    for i in range(lo, hi):
        gram[:] = 0.0
        sums[:] = 0.0
        for o in range(resid.shape[0]):
            w = 1.0 if partners is None else np.float64(partners[o])
            if weights is not None:
                w *= np.float64(weights[o, i])
            if w != 0.0:  # else missing
                _add(w, resid[o, i], X[o], line, gram, sums)
        scale = precision if own is None else precision * own[i]
        _solve(gram, sums, scale, old[i], prior, limit, key0, key1, i, U, y, line, change[i])
        _add_moments(gram, sums, scale, old[i], change[i], unit, moments)
    return moments


@inlined
def _product(slopes, features):
    """Return what slopes add to a cell with these features."""
    total = np.int32(0)
    for f in range(slopes.size):
        total += slopes[f] * np.int32(features[f])
    return total


@kernel
def shift_own(lo, hi, starts, index, resid, change, X):
    """Subtract what changed slopes of the rows [lo, hi) add to their cells; `X` are the features of the partners."""
    for i in range(lo, hi):
        for p in range(starts[i], starts[i + 1]):
            resid[p] -= _product(change[i], X[index[p]])


@kernel
def shift_partner(lo, hi, starts, index, resid, change, X):
    """Subtract what changed slopes of the partners add to the cells of the rows [lo, hi), whose features are `X`."""
    for i in range(lo, hi):
        for p in range(starts[i], starts[i + 1]):
            resid[p] -= _product(change[index[p]], X[i])


@kernel
def add_products(lo, hi, own, other, slopes, X, out):
    """Add to out[p] what the slopes of row own[p] add to its cell with the partner other[p]."""
    for p in range(lo, hi):
        out[p] += _product(slopes[own[p]], X[other[p]])
