"""The joint least squares solution against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.fit.backfit import BackfitSettings, backfit
from accams.fit.refit import Problem, conjugate_gradients, refit

cases = pytest.mark.parametrize(("name", "kind"), twins.ALL)


def fitted(name: str, kind: str, shapes=((3, 2), (2, 4), (4, 1))):
    data = twins.case(kind, (16, 13), seed=1)
    state = data.engine(name).new_state()
    backfit(state, BackfitSettings(list(shapes)))
    return state, data


def system(state, data):
    """Return design matrix, weights and right side over all cells, missing ones with weight 0."""
    rows, cols = (x.ravel() for x in np.indices(state.shape))
    A = twins.design(rows, cols, state.row_labels, state.col_labels, [T.shape for T in state.templates])
    return A, data.W.ravel(), data.X.ravel() - state.engine.grid.offset


def solution(A, w, y, shrinkage):
    """Solve ridge regression by least squares on the stacked system; without penalty, the minimum-norm solution."""
    root = np.sqrt(w)[:, None]
    penalty = np.sqrt(shrinkage) * np.eye(A.shape[1])
    return np.linalg.lstsq(np.vstack([root * A, penalty]), np.concatenate([root[:, 0] * y, np.zeros(A.shape[1])]))[0]


@pytest.mark.some(10)
@cases
@pytest.mark.parametrize("shrinkage", [0.0, 0.7])
def test_refit_is_the_least_squares_solution(name, kind, shrinkage):
    """Predictions are compared where there is data: the templates themselves are not unique."""
    state, data = fitted(name, kind)
    A, w, y = system(state, data)
    refit(state, shrinkage, max_iter=1000, tol=1e-12)
    expected = A @ solution(A, w, y, shrinkage)
    got = state.stencils().dense().ravel() - state.engine.grid.offset
    np.testing.assert_allclose(got[w > 0], expected[w > 0], atol=1e-5)
    if shrinkage:  # then the solution is unique
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.some(5)
@cases
def test_with_its_own_settings_it_is_close(name, kind):
    state, data = fitted(name, kind)
    A, w, y = system(state, data)
    refit(state)
    best = (w * (y - A @ solution(A, w, y, 0.0)) ** 2).sum()
    assert best <= state.squared_error() * (1 + 1e-9) + 1e-9
    assert state.squared_error() <= best * (1 + 1e-6)


@cases
def test_refit_never_raises_the_error(name, kind):
    state, data = fitted(name, kind)
    before = state.squared_error()
    refit(state)
    assert state.squared_error() <= before * (1 + 1e-9)
    error = data.W * (data.X - state.stencils().dense()) ** 2
    assert state.squared_error() == pytest.approx(error.sum(), rel=1e-9)


@cases
def test_products_and_right_side(name, kind):
    state, data = fitted(name, kind)
    A, w, y = system(state, data)
    problem, t = Problem(state), np.random.default_rng(0).normal(size=A.shape[1])
    np.testing.assert_allclose(problem.normal(t), A.T @ (w * (A @ t)), atol=1e-9)
    np.testing.assert_allclose(problem.normal_diagonal(), A.T @ w, atol=1e-9)
    np.testing.assert_allclose(problem.right_side(), A.T @ (w * y), atol=1e-9)
    assert [part.shape for part in problem.unpack(t)] == [(3, 2), (2, 4), (4, 1)]


def test_nothing_to_refit():
    state = twins.case("missing").engine("cpu").new_state()
    refit(state)
    assert state.templates == []


def test_a_wide_and_a_narrow_stencil():
    """More than 256 clusters: labels of two widths in one problem."""
    data = twins.case("complete", (300, 8))
    state = data.engine("cpu").new_state()
    backfit(state, BackfitSettings([(280, 3), (2, 2)]))
    A, w, y = system(state, data)
    refit(state, 0.5, max_iter=2000, tol=1e-12)
    got = state.stencils().dense().ravel() - state.engine.grid.offset
    expected = A @ np.linalg.solve((A.T * w) @ A + 0.5 * np.eye(A.shape[1]), A.T @ (w * y))
    np.testing.assert_allclose(got, expected, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), size=st.integers(1, 12), rank=st.integers(0, 12))
def test_conjugate_gradients(seed, size, rank):
    """Any consistent positive semi-definite system, including singular ones and ones with zero rows."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(rank, size)) * (rng.random(size) < 0.8)
    A = B.T @ B
    b = A @ rng.normal(size=size)
    start = rng.normal(size=size)
    x = conjugate_gradients(lambda v: A @ v, b, start, np.diag(A).copy(), 1000, 1e-12)
    np.testing.assert_allclose(A @ x, b, atol=1e-6 * (1 + np.abs(b).max()))
    empty = np.diag(A) == 0
    np.testing.assert_array_equal(x[empty], start[empty])


def test_conjugate_gradients_leave_the_start_alone():
    start = np.ones(3)
    conjugate_gradients(lambda v: 2.0 * v, np.arange(3.0), start, np.full(3, 2.0), 10, 1e-9)
    np.testing.assert_array_equal(start, 1.0)


def test_conjugate_gradients_stop_at_the_limit():
    calls = []
    A = np.diag(np.arange(1.0, 30.0)) + 1.0
    conjugate_gradients(lambda v: calls.append(0) or A @ v, np.ones(29), np.zeros(29), np.ones(29), 4, 0.0)
    assert len(calls) == 5  # one for the first residual
