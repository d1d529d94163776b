"""Kernels of slopes on features against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from scipy.linalg import solve_triangular

from accams.kernels import slopes
from accams.kernels.jit import readonly
from accams.kernels.sample import normal

KEY = (3, 5)
LIMIT = 1 << 20
UNIT = 2.0**-4


def features_of(n: int, d: int, seed: int = 2) -> np.ndarray:
    return readonly(np.random.default_rng(seed).integers(-127, 128, (n, d)).astype(np.int8))


def sums_of_products(order, ticks, X: np.ndarray) -> np.ndarray:
    """Return the sums of products of features of every row, as slopes are drawn with where partners have no weights."""
    grams = np.zeros((len(order[0]) - 1, X.shape[1], X.shape[1]), np.int32)
    slopes.products(0, len(grams), *order, ticks, X, grams)
    return readonly(grams)


def drawn(case: twins.Case, resid, own, partners, X, old, precision, prior, first):
    """Return new slopes: mean and Cholesky factor of the regression, and the kernel's own normal numbers."""
    out = np.empty_like(old)
    omega = case.W * 4.0 if case.observations.stored_weights is not None else case.W
    omega = omega * (1 if partners is None else partners)
    for i in range(len(old)):
        A = (X.T * omega[i]) @ X.astype(float)
        scale = precision * (1.0 if own is None else own[i])
        right = scale * (X.T @ (omega[i] * resid[i]) + A @ old[i])
        U = np.linalg.cholesky(scale * A + np.diag(prior)).T
        z = [normal(*KEY, (first + i) * X.shape[1] + f) for f in range(X.shape[1])]
        out[i] = np.rint(np.linalg.solve(U.T @ U, right) + solve_triangular(U, z)).clip(-LIMIT, LIMIT)
    return out


def moments_of(omega, resid, slopes, X):
    """Return second and first derivative of the log likelihood by the size of the slopes on each feature."""
    terms = slopes[:, None, :] * X  # (row, column, feature)
    return np.einsum("ij,ijf,ijg->fg", omega, terms, terms), np.einsum("ij,ij,ijf->f", omega, resid, terms)


FULL = [(kind, each) for kind in ("missing", "missing weighted") for each in ("", "own", "partners", "both")]
QUICK = [("missing", ""), ("missing weighted", "own"), ("missing weighted", "partners")]  # the types that engines pass


@pytest.mark.parametrize(
    ("kind", "heavy"), [each if each in QUICK else pytest.param(*each, marks=pytest.mark.full) for each in FULL]
)
def test_draws(kind: str, heavy: str, is_quick: bool) -> None:
    """With weights of rows (own), and of columns where these are the rows of the matrix."""
    case = twins.case(kind, (23, 17))
    obs, random = case.observations, np.random.default_rng(1)
    resid = (random.integers(-(1 << 20), 1 << 20, case.X.shape) * (case.W > 0)).astype(np.int32)
    X, old = features_of(17, 5), readonly(random.integers(-4000, 4000, (23, 5)).astype(np.int32))
    own = readonly(random.integers(1, 2000, 23).astype(np.int32)) if heavy in ("own", "both") else None
    partners = readonly(random.integers(1, 2000, 17).astype(np.int32)) if heavy in ("partners", "both") else None
    ticks = None if obs.stored_weights is None else readonly((case.W[case.W > 0] * 4).astype(np.int32))
    precision, prior = 1e-10, readonly(np.linspace(1e-7, 1e-5, 5))
    expected = drawn(case, resid, own, partners, X, old, precision, prior, 7)
    by_row, change = resid[case.W > 0], np.zeros((23, 5), np.int32)
    order, grams = (readonly(obs.row_starts), readonly(obs.cols)), None
    if ticks is None and partners is None:
        grams = sums_of_products(order, ticks, X)
    head = *order, by_row, ticks, own, partners, X, grams, old, precision, prior, LIMIT, UNIT, *KEY
    moments = sum(slopes.draw(lo, hi, *head, 7, change) for lo, hi in ((0, 11), (11, 23)))
    assert np.abs(old + change - expected).max() <= 1  # of rounding
    assert np.abs(change).max() > 100
    omega = case.W * (1.0 if ticks is None else 4.0) * (1 if partners is None else partners)
    omega = precision * omega * (1.0 if own is None else own[:, None])
    curvature, gradient = moments_of(omega, resid - change @ X.T.astype(int), (old + change).astype(float), X)
    np.testing.assert_allclose(np.tril(moments[:-1]) * UNIT, np.tril(curvature), atol=23 * UNIT)
    np.testing.assert_allclose(moments[-1] * UNIT, gradient, atol=23 * UNIT)
    assert np.abs(gradient).max() > 1000 * UNIT
    dense = np.zeros_like(change)
    weights = (case.W.T * 4).astype(np.int32) if ticks is not None else (case.W.T > 0).astype(np.uint8)
    tail = own, partners, X, old, precision, prior, LIMIT, UNIT, *KEY
    found = slopes.draw_dense(0, 23, np.ascontiguousarray(resid.T), np.ascontiguousarray(weights), *tail, dense)
    moments = slopes.draw(0, 23, *head, 0, change)
    np.testing.assert_array_equal(dense, change)
    np.testing.assert_array_equal(found, moments)
    if grams is not None:
        W = case.W * (1 if ticks is None else 4)
        np.testing.assert_array_equal(grams, np.einsum("ij,jf,jg->ifg", W, *[X.astype(float)] * 2))
    if partners is None and not is_quick:  # with sums of products that are computed beforehand or on the way
        again, other = np.zeros_like(change), sums_of_products(order, ticks, X) if grams is None else None
        found = slopes.draw(0, 23, *head[:7], other, *head[8:], 0, again)
        np.testing.assert_array_equal(again, change)
        np.testing.assert_array_equal(found, moments)


def test_slopes_stay_within_their_limit() -> None:
    case = twins.case("missing", (9, 8))
    obs, change = case.observations, np.zeros((9, 2), np.int32)
    none, X = readonly(np.zeros((9, 2), np.int32)), features_of(8, 2)
    resid, order = np.full(obs.nnz, 1 << 30, np.int32), (readonly(obs.row_starts), readonly(obs.cols))
    draw = 1e-3, readonly(np.full(2, 1e-9)), 100, UNIT, *KEY, 0
    slopes.draw(0, 9, *order, resid, None, None, None, X, sums_of_products(order, None, X), none, *draw, change)
    assert np.abs(change).max() == 100


def test_what_slopes_add() -> None:
    case = twins.case("missing", (23, 17))
    obs, random = case.observations, np.random.default_rng(1)
    X, change = features_of(17, 3), random.integers(-1000, 1000, (23, 3)).astype(np.int32)
    added = change.astype(np.int64) @ X.T
    seen = case.W > 0
    by_row, by_col = np.zeros((2, obs.nnz), np.int32)
    change = readonly(change)
    slopes.shift_own(0, 23, readonly(obs.row_starts), readonly(obs.cols), by_row, change, X)
    slopes.shift_partner(0, 17, readonly(obs.col_starts), readonly(obs.rows), by_col, change, X)
    np.testing.assert_array_equal(by_row, -added[seen])
    np.testing.assert_array_equal(by_col, -added.T[seen.T])
    rows, cols, out = np.array([3, 3, 22]), np.array([0, 16, 5]), np.ones(3, np.int64)
    slopes.add_products(0, 3, rows, cols, change, X, out)
    np.testing.assert_array_equal(out, 1 + added[rows, cols])
