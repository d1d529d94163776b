"""Errata of the paper (docs/errata.md): the printed formula fails where the corrected one holds.

Posteriors are compared with integrals over a fine grid, so nothing here is random but the data, whose seed is fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

SIGMA2, TAU2 = 0.7, 0.4


def mean_on_grid(x: np.ndarray, log_density: np.ndarray) -> float:
    weight = np.exp(log_density - log_density.max()) * np.gradient(x)
    return float(weight @ x / weight.sum())


@pytest.fixture
def ratings() -> np.ndarray:
    return np.random.default_rng(0).normal(0.3, 0.9, size=40)


def test_both_halves_of_the_inverse_gamma(ratings: np.ndarray) -> None:
    a, b, sse = 2.0, 0.3, np.square(ratings).sum()
    x = np.geomspace(1e-2, 1e3, 200_000)
    likelihood = stats.norm.logpdf(ratings[:, None], scale=np.sqrt(x[None, ::100])).sum(axis=0)
    exact = mean_on_grid(x[::100], stats.invgamma.logpdf(x[::100], a, scale=b) + likelihood)
    shape = a + len(ratings) / 2
    assert stats.invgamma.mean(shape, scale=b + sse / 2) == pytest.approx(exact, rel=1e-3)
    assert stats.invgamma.mean(shape, scale=b + sse) > 1.9 * exact  # as printed


def test_the_variance_of_a_template_entry(ratings: np.ndarray) -> None:
    block, everything = ratings[:8], len(ratings)
    x = np.linspace(-5, 5, 20_001)
    log_density = stats.norm.logpdf(x, scale=np.sqrt(TAU2)) + stats.norm.logpdf(
        block[:, None], x[None, :], np.sqrt(SIGMA2)
    ).sum(axis=0)
    mean = mean_on_grid(x, log_density)
    weight = np.exp(log_density - log_density.max())
    exact = float(weight @ (x - mean) ** 2 / weight.sum())
    rho = 1 + SIGMA2 / (len(block) * TAU2)
    assert mean == pytest.approx(block.sum() / (rho * len(block)))
    assert SIGMA2 / (rho * len(block)) == pytest.approx(exact, rel=1e-6)
    assert SIGMA2 / (rho * everything) < 0.3 * exact  # as printed


def block_log_likelihood(values: np.ndarray) -> float:
    covariance = SIGMA2 * np.eye(len(values)) + TAU2
    return float(stats.multivariate_normal.logpdf(values, np.zeros(len(values)), covariance))


def test_the_sign_of_delta(ratings: np.ndarray) -> None:
    before, after = ratings[:10], ratings[:13]

    def g(values: np.ndarray) -> float:
        spread = SIGMA2 + len(values) * TAU2
        return float(-np.log(spread / SIGMA2) / 2 + TAU2 * values.sum() ** 2 / (2 * SIGMA2 * spread))

    delta = 3 / 2 * np.log(2 * np.pi * SIGMA2) + np.square(ratings[10:13]).sum() / (2 * SIGMA2)
    gained = block_log_likelihood(after) - block_log_likelihood(before)
    assert gained == pytest.approx(g(after) - g(before) - delta)
    assert gained != pytest.approx(g(after) - g(before) + delta)


def test_removing_a_user_takes_ratings_off_a_sum_of_ratings() -> None:
    rng = np.random.default_rng(1)
    M, c, d = rng.normal(size=(6, 5)), np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 1, 0, 1])
    H, G = np.eye(2)[c], np.eye(2)[d]
    sums, n_u, l_u = H.T @ M @ G, G.sum(axis=0), M[2] @ G
    without = np.delete(H, 2, axis=0).T @ np.delete(M, 2, axis=0) @ G
    np.testing.assert_allclose(sums[c[2]] - l_u, without[c[2]])
    assert not np.allclose(sums[c[2]] - n_u, without[c[2]])  # as printed


def test_a_stencil_is_added_to_the_residual_before_it_is_sampled() -> None:
    rng = np.random.default_rng(2)
    stencils = [rng.normal(size=(3, 2))[np.ix_(rng.integers(0, 3, 8), rng.integers(0, 2, 7))] for _ in range(2)]
    M = stencils[0] + stencils[1]
    rho = M - stencils[0] - stencils[1]
    np.testing.assert_allclose(rho + stencils[0], M - stencils[1], atol=1e-12)  # what is left for the first
    assert not np.allclose(rho - stencils[0], M - stencils[1])  # as printed


def test_columns_are_assigned_by_means_and_counts_of_row_clusters() -> None:
    rng = np.random.default_rng(3)
    M, seen, rows = rng.normal(size=(30, 6)), rng.random((30, 6)) < 0.6, rng.integers(0, 3, 30)
    w = rng.normal(size=(3, 4))  # centres of four column clusters
    H = np.eye(3)[rows]
    t = H.T @ seen
    V = H.T @ (M * seen) / t
    direct = np.array([[(seen[:, j] * (M[:, j] - w[rows, l]) ** 2).sum() for l in range(4)] for j in range(6)])
    by_formula = (t[:, :, None] * (V[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
    scatter = direct - by_formula
    np.testing.assert_allclose(scatter, scatter[:, :1].repeat(4, axis=1))  # the same for all clusters of a column
    assert (by_formula.argmin(axis=1) == direct.argmin(axis=1)).all()
