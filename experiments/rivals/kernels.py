"""Compiled loops: normal equations of one row after another, and epochs of stochastic gradient descent.

Rows here are rows or columns: whichever side is solved for while the other is held.
"""

from __future__ import annotations

import numpy as np

from accams.kernels.jit import contracted


@contracted
def solve_rows(
    lo, hi, starts, others, values, design, offsets, weights, row_weights, precision, pull, scale, noise, out
):
    """Solve for, or draw, the vectors x_i of the rows [lo, hi).

    A = scale[i] precision + g_i sum_j w_j v_j v_j',   b = scale[i] pull + g_i sum_j w_j (y_ij - offsets[j]) v_j,
    out[i] = A^-1 b, where v_j = design[j], g = row_weights and w = weights (None: ones). A prior of mean mu has
    pull = precision mu. With `noise`, standard normal of the shape of `out`, out[i] is a draw from N(A^-1 b, A^-1).
    """
    k = design.shape[1]
    A, b = np.empty((k, k)), np.empty(k)
    for i in range(lo, hi):
        for c in range(k):
            b[c] = 0.0
            for d in range(c + 1):
                A[c, d] = 0.0
        for p in range(starts[i], starts[i + 1]):
            j = others[p]
            w = 1.0 if weights is None else weights[j]
            v = design[j]
            left = values[p] - offsets[j]
            for c in range(k):
                x = w * v[c]
                b[c] += x * left
                for d in range(c + 1):
                    A[c, d] += x * v[d]
        g = 1.0 if row_weights is None else row_weights[i]
        for c in range(k):
            b[c] = g * b[c] + scale[i] * pull[c]
            for d in range(c + 1):
                A[c, d] = g * A[c, d] + scale[i] * precision[c, d]
        _cholesky(A)
        _forward(A, b)
        if noise is not None:
            for c in range(k):
                b[c] += noise[i, c]
        _backward(A, b, out[i])


@contracted
def _cholesky(A):
    """The lower triangle L of A = L L', in its place."""
    k = A.shape[0]
    for c in range(k):
        for d in range(c + 1):
            total = A[c, d]
            for e in range(d):
                total -= A[c, e] * A[d, e]
            A[c, d] = np.sqrt(total) if c == d else total / A[d, d]


@contracted
def _forward(L, b):
    """b becomes L^-1 b."""
    for c in range(b.size):
        total = b[c]
        for d in range(c):
            total -= L[c, d] * b[d]
        b[c] = total / L[c, c]


@contracted
def _backward(L, b, x):
    """x = L'^-1 b."""
    k = b.size
    for c in range(k - 1, -1, -1):
        total = b[c]
        for d in range(c + 1, k):
            total -= L[d, c] * x[d]
        x[c] = total / L[c, c]


@contracted
def sgd_epoch(order, rows, cols, values, mean, P, Q, row_bias, col_bias, rate, ridge, bias_ridge):
    """One step for each rating, in the given order; P, Q, row_bias and col_bias are changed in place."""
    for q in order:
        i, j = rows[q], cols[q]
        p, v = P[i], Q[j]
        error = values[q] - mean - row_bias[i] - col_bias[j]
        for f in range(p.size):
            error -= p[f] * v[f]
        row_bias[i] += rate * (error - bias_ridge * row_bias[i])
        col_bias[j] += rate * (error - bias_ridge * col_bias[j])
        for f in range(p.size):
            x = p[f]
            p[f] += rate * (error * v[f] - ridge * x)
            v[f] += rate * (error * x - ridge * v[f])


@contracted
def dot_pairs(lo, hi, rows, cols, P, Q, out):
    """out[q] = P[rows[q]] . Q[cols[q]] for the pairs [lo, hi)."""
    for q in range(lo, hi):
        total = 0.0
        for f in range(P.shape[1]):
            total += P[rows[q], f] * Q[cols[q], f]
        out[q] = total
