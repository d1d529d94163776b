"""The Gibbs sampler draws what it says.

Where parameters are drawn from the prior, data given them, and parameters anew given the data, the new ones with the
data have the joint distribution of the old ones: statistics of known distribution are tested on independent repeats.
With seeds held, a test of level 1e-4 that passes once passes always; the level is what a change of seed would risk.
"""

from __future__ import annotations

import numpy as np
import pytest
from rivals_planted import error, planted
from scipy.stats import chi2, expon, kstest

from rivals.bpmf import BPMF, draw_hyper, draw_precision, draw_side, wishart
from rivals.factors import Prior, solve_side
from rivals.ratings import Ratings

pytestmark = pytest.mark.full  # `test_rivals_all` holds the essentials of every rival
LEVEL, REPEATS, BETA0 = 1e-4, 1200, 4.0


def from_prior(n: int, k: int, random: np.random.Generator):
    precision = wishart(k, k, random)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    mu = root @ random.normal(size=k) / np.sqrt(BETA0)
    return mu + random.normal(size=(n, k)) @ root.T


def test_a_drawn_row_has_the_exact_mean_and_covariance(threads):
    """Everything else held, n draws x of a row: n (x - mu)' A (x - mu) of the mean, and the sum over all draws."""
    train, _ = planted(20, 15, rank=2)
    random, n, k = np.random.default_rng(0), 3000, 3
    Y, prior = random.normal(size=(15, k)), Prior(np.diag([1.0, 2.0, 3.0]), np.array([0.3, -0.2, 0.1]), np.ones(20))
    lines = train.by_row()
    mine = train.take(train.rows == 0)
    V = np.c_[Y[mine.cols, :2], np.ones(len(mine.cols))]
    A = prior.precision + V.T @ V
    mu = np.linalg.solve(A, prior.precision @ prior.mean + V.T @ (mine.values - 3.0 - Y[mine.cols, 2]))
    x = np.array([
        solve_side(lines, Y, 3.0, True, prior, threads, noise=random.normal(size=(20, k)))[0] - mu for _ in range(n)
    ])  # fmt: skip
    centre = x.mean(axis=0)
    assert LEVEL < chi2.cdf(n * centre @ A @ centre, k) < 1 - LEVEL
    assert LEVEL < chi2.cdf(np.einsum("na,ab,nb", x, A, x), n * k) < 1 - LEVEL


def test_means_and_precisions_given_vectors():
    """The trace of Lambda is chi-squared of k^2 degrees, and beta0 mu' Lambda mu of k."""
    random, k = np.random.default_rng(0), 2
    draws = [draw_hyper(from_prior(2, k, random), BETA0, random) for _ in range(REPEATS)]
    assert kstest([np.trace(L) for _, L in draws], chi2(k * k).cdf).pvalue > LEVEL
    assert kstest([BETA0 * mu @ L @ mu for mu, L in draws], chi2(k).cdf).pvalue > LEVEL


@pytest.mark.some(1)
@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_vectors_given_ratings(alpha, threads):
    """alpha times the squared errors of new vectors is chi-squared of as many degrees as there are ratings."""
    random, m, n, k = np.random.default_rng(1), 3, 2, 2
    rows, cols = np.nonzero(np.ones((m, n)))

    def predict(X, Y):
        return 3.0 + X[rows, 1] + Y[cols, 1] + X[rows, 0] * Y[cols, 0]

    found = []
    for _ in range(REPEATS):
        X, Y = from_prior(m, k, random), random.normal(size=(n, k))
        y = predict(X, Y) + random.normal(size=m * n) / np.sqrt(alpha)
        new = draw_side(Ratings.of(rows, cols, y, (m, n)).by_row(), Y, X, 3.0, alpha, BETA0, random, threads)
        found.append(alpha * ((y - predict(new, Y)) ** 2).sum())
    assert kstest(found, chi2(m * n).cdf).pvalue > LEVEL


def test_the_noise_given_errors():
    """Under Gamma(1, 1) before, and errors drawn from it, the precision is exponential again."""
    random = np.random.default_rng(0)
    old = random.gamma(1.0, size=REPEATS)
    new = [draw_precision(random.normal(size=5) / np.sqrt(a), random) for a in old]
    assert kstest(new, expon.cdf).pvalue > LEVEL


def test_watched_pairs_are_averages_and_others_the_last_draw(threads):
    train, test = planted()
    model = BPMF(rank=3, sweeps=40, burn_in=20)
    watching = model.fit(train, watch=test[:2], threads=threads)
    turned = watching.predict(test.rows[::-1], test.cols[::-1])
    assert np.array_equal(turned[::-1], watching.watched)
    assert np.array_equal(watching.predict(*train[:2]), watching.last.predict(*train[:2]))
    assert error(watching, test) < error(watching.last, test)
    assert watching.n_bytes == 20 * 4 * 4 * 250
