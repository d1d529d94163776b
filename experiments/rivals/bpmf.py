"""Bayesian probabilistic matrix factorisation by Gibbs sampling (Salakhutdinov and Mnih 2008), with biases.

y_ij ~ N(mean + b_i + c_j + p_i . q_j, 1 / alpha); (p_i, b_i) ~ N(mu_U, Lambda_U^-1), (q_j, c_j) ~ N(mu_V, Lambda_V^-1);
both (mu, Lambda) are Gaussian-Wishart. A bias is a coordinate of the vector that meets a one on the other side, so
every conditional is the paper's, and the sampler is exact. The mean of the data is the one thing that is held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from accams.threads import Threads
from rivals.factors import Factorisation, Prior, solve_side
from rivals.ratings import Ints, Lines, Matrix, Ratings, Vector


@dataclass(frozen=True)
class Averaged:
    """Predictions averaged over kept sweeps for the watched pairs, and the last draw for all others."""

    last: Factorisation
    rows: Ints
    cols: Ints
    watched: Vector
    n_kept: int
    alpha: float

    @property
    def n_bytes(self) -> int:
        """Bytes of all kept draws."""
        return self.n_kept * self.last.n_bytes

    def predict(self, rows: Ints, cols: Ints) -> Vector:
        """Averages where they were watched; elsewhere a prediction of the last draw alone."""
        if np.array_equal(rows, self.rows) and np.array_equal(cols, self.cols):
            return self.watched.copy()
        n, out = len(self.last.Q), self.last.predict(rows, cols)
        keys = self.rows.astype(np.int64) * n + self.cols
        order = np.argsort(keys)
        wanted = np.asarray(rows, np.int64) * n + cols
        at = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
        found = keys[order[at]] == wanted if len(keys) else np.zeros(len(wanted), bool)
        out[found] = self.watched[order[at[found]]]
        return out


@dataclass(frozen=True)
class BPMF:
    """Gibbs sampling of factors, biases, their means and precisions, and the noise.

    Parameters
    ----------
    rank, sweeps, burn_in : int
        Sweeps after the burn-in are kept; `sweeps` counts both.
    alpha : float or None
        Precision of the noise (the paper has 2). None draws it too, under a vague Gamma prior.
    beta0 : float
        How many vectors the prior mean of zero counts for.
    spread : float
        Standard deviation of the first factors.
    """

    rank: int = 10
    sweeps: int = 200
    burn_in: int = 30
    alpha: float | None = None
    beta0: float = 2.0
    spread: float = 0.1

    def fit(
        self, ratings: Ratings, watch: tuple[Ints, Ints] | None = None, *, seed: int = 0, threads: Threads | None = None
    ) -> Averaged:
        """Run a chain; predictions of the pairs to `watch` (default: those of the ratings) are averaged."""
        mean, random, threads = ratings.mean, np.random.default_rng(seed), threads or Threads()
        rows, cols = watch if watch is not None else (ratings.rows, ratings.cols)
        by_row, by_col = ratings.by_row(), ratings.by_col()
        X, Y = (random.normal(0, self.spread, (n, self.rank + 1)) for n in ratings.shape)
        alpha, total, kept = self.alpha or 1.0 / max(ratings.values.var(), 1e-12), np.zeros(len(rows)), 0
        for sweep in range(self.sweeps):
            X = draw_side(by_row, Y, X, mean, alpha, self.beta0, random, threads)
            Y = draw_side(by_col, X, Y, mean, alpha, self.beta0, random, threads)
            draw = Factorisation.of(mean, X, Y, True)
            if self.alpha is None:
                alpha = draw_precision(ratings.values - draw.predict(ratings.rows, ratings.cols), random)
            if sweep >= self.burn_in:
                total += draw.predict(rows, cols)
                kept += 1
        return Averaged(draw, rows, cols, total / max(kept, 1), kept, alpha)


def draw_side(
    lines: Lines, Y: Matrix, X: Matrix, mean: float, alpha: float, beta0: float, random: np.random.Generator,
    threads: Threads,
) -> Matrix:  # fmt: skip
    """New vectors of one side: their mean and precision given the old ones, then all of them given the other side."""
    mu, precision = draw_hyper(X, beta0, random)
    prior = Prior(precision / alpha, mu, np.ones(len(X)))  # in units of the noise: A / alpha has the same mean, and
    noise = random.standard_normal(X.shape) / np.sqrt(alpha)  # noise of that size makes up for its covariance
    return solve_side(lines, Y, mean, True, prior, threads, noise=noise)


def draw_hyper(X: Matrix, beta0: float, random: np.random.Generator) -> tuple[Vector, Matrix]:
    """mu and Lambda given the vectors: Lambda ~ W(I, k), mu ~ N(0, (beta0 Lambda)^-1) before anything is seen."""
    n, k = X.shape
    centre = X.mean(axis=0)
    apart = X - centre
    inverse = np.eye(k) + apart.T @ apart + beta0 * n / (beta0 + n) * np.outer(centre, centre)
    L = np.linalg.cholesky(np.linalg.inv(inverse))
    precision = L @ wishart(k + n, k, random) @ L.T
    mu = n * centre / (beta0 + n)
    root = np.linalg.cholesky((beta0 + n) * precision)
    return mu + solve_triangular(root, random.standard_normal(k), lower=True, trans="T"), precision


def wishart(degrees: int, k: int, random: np.random.Generator) -> Matrix:
    """A draw of W(I, degrees), by Bartlett's decomposition."""
    A = np.tril(random.standard_normal((k, k)), -1)
    A[np.diag_indices(k)] = np.sqrt(random.chisquare(degrees - np.arange(k)))
    return A @ A.T


def draw_precision(errors: Vector, random: np.random.Generator) -> float:
    """The precision of the noise given the errors, under Gamma(1, 1)."""
    return float(random.gamma(1.0 + len(errors) / 2, 1.0 / (1.0 + errors @ errors / 2)))
