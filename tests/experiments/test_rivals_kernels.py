"""The compiled loops against slow and readable twins."""

from __future__ import annotations

import numpy as np
import pytest
from rivals_planted import planted

from accams.threads import Threads
from rivals.factors import Prior, dots, solve_side
from rivals.kernels import sgd_epoch, solve_rows


def solve_rows_twin(lines, design, offsets, weights, row_weights, precision, pull, scale, noise):
    out = []
    for i, s in enumerate(scale):
        here = slice(lines.starts[i], lines.starts[i + 1])
        V, y = design[lines.others[here]], lines.values[here] - offsets[lines.others[here]]
        w = row_weights[i] * weights[lines.others[here]]
        A = s * precision + (V * w[:, None]).T @ V
        L = np.linalg.cholesky(A)
        out.append(np.linalg.solve(A, s * pull + V.T @ (w * y)) + np.linalg.solve(L.T, noise[i]))
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_normal_equations_are_those_of_the_twin(weighted, drawn):
    random, k = np.random.default_rng(1), 4
    train, _ = planted(30, 20, share=0.3)
    train = train.take(train.rows != 7)  # a row without ratings
    lines, (m, n) = train.by_row(), train.shape
    design, offsets, pull = random.normal(size=(n, k)), random.normal(size=n), random.normal(size=k)
    B, scale, noise = random.normal(size=(k, k)), random.random(m) + 0.5, random.normal(size=(m, k))
    precision = B @ B.T + np.eye(k)
    weights, row_weights = random.random(n), random.random(m)
    out = np.empty((m, k))
    given = (weights, row_weights) if weighted else (None, None)
    for lo, hi in ((0, 11), (11, m)):
        solve_rows(
            lo, hi, *lines, design, offsets, *given, precision, pull, scale, noise if drawn else None, out
        )  # fmt: skip
    given = given if weighted else (np.ones(n), np.ones(m))
    twin = solve_rows_twin(lines, design, offsets, *given, precision, pull, scale, noise * drawn)
    np.testing.assert_allclose(out, twin, rtol=1e-9, atol=1e-11)


def test_a_bias_is_the_last_coordinate_and_meets_a_one(threads):
    """What is solved for makes the gradient of the penalised squares zero."""
    train, _ = planted(40, 30)
    lines, random = train.by_row(), np.random.default_rng(0)
    Y = random.normal(size=(30, 3))
    X = solve_side(lines, Y, 3.0, True, Prior(np.diag([2.0, 2.0, 0.5]), np.zeros(3), np.ones(40)), threads)
    left = train.values - 3.0 - X[train.rows, 2] - Y[train.cols, 2] - dots(X[:, :2], Y[:, :2], *train[:2])
    gradient = [np.bincount(train.rows, left * v, 40) for v in (Y[train.cols, 0], Y[train.cols, 1], np.ones(len(left)))]
    np.testing.assert_allclose(np.array(gradient).T, X * [2.0, 2.0, 0.5], atol=1e-9)


def test_threads_do_not_change_a_bit():
    train, _ = planted()
    Y, prior = np.random.default_rng(0).normal(size=(100, 4)), Prior(np.eye(4), np.zeros(4), np.ones(150))
    one, many = (solve_side(train.by_row(), Y, 3.0, True, prior, Threads(*t)) for t in ((1,), (2, 100)))
    assert np.array_equal(one, many)


def test_one_step_of_gradient_descent_by_hand():
    P, Q, b, c = np.array([[0.5, -1.0]]), np.array([[2.0, 1.0]]), np.array([0.1]), np.array([0.2])
    p, q, e = P.copy(), Q.copy(), 4.0 - 3.0 - 0.1 - 0.2 - (0.5 * 2.0 - 1.0)
    zero = np.array([0], np.int32)
    sgd_epoch(np.array([0]), zero, zero, np.array([4.0]), 3.0, P, Q, b, c, 0.1, 0.05, 0.02)
    np.testing.assert_allclose(P, p + 0.1 * (e * q - 0.05 * p))
    np.testing.assert_allclose(Q, q + 0.1 * (e * p - 0.05 * q))
    np.testing.assert_allclose([b[0], c[0]], [0.1 + 0.1 * (e - 0.002), 0.2 + 0.1 * (e - 0.004)])
