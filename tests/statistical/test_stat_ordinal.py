"""Chains of ordinal observations against enumeration: blocks are independent, so each is an integral of one number."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from chains import PAIRS, ROW_WEIGHTS, Draws, run
from compare import bonferroni, effective_size, t_tests
from exact import Exact
from scipy.special import logsumexp, ndtr
from test_stat_enumeration import p_value

from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.model.scale import Scale

FALSE_ALARM = 1e-4
SWEEPS = 4000
SIGMA2 = 0.8
SCALE = Scale(np.array([1.0, 2.0, 3.0]), np.array([-0.5, 0.7]), 1.0, np.array([-1.0, 0.0, 1.0]))
ONE = {"shapes": [(2, 2)], "alpha": [1.5], "beta": [2.5], "tau2": [1.5], "scale": SCALE}
POINTS, AREAS = np.polynomial.hermite_e.hermegauss(60)


class OrdinalExact(Exact):
    """The posterior of one stencil; X holds the levels."""

    def __init__(self, X, omega, hyper: Hyperparameters, sigma2: float) -> None:
        self.cuts = np.array([-np.inf, *hyper.scale.cuts, np.inf])
        super().__init__(X, omega, hyper, sigma2, hyper.tau2)

    def blocks(self):
        """Yield, for every pair of partitions, the log likelihood at all points of each block, and its cells."""
        T = np.sqrt(self.tau2[0]) * POINTS
        spread = np.sqrt(self.sigma2 / np.maximum(self.omega, 1e-300))[..., None]
        level = np.where(self.omega > 0.0, self.X, 0).astype(int)
        above, below = self.cuts[level + 1][..., None], self.cuts[level][..., None]
        likelihood = np.maximum(ndtr((above - T) / spread) - ndtr((below - T) / spread), 1e-200)
        cells = np.log(likelihood) * (self.omega > 0.0)[..., None]
        rows, cols = (np.array(each) for each in self.partitions[0])
        for c in rows:
            for d in cols:
                yield [
                    (cells[np.ix_(c == a, d == b)].sum(axis=(0, 1)), np.outer(c == a, d == b).ravel())
                    for a in set(c.tolist())
                    for b in set(d.tolist())
                ]

    def log_likelihood(self) -> np.ndarray:
        areas = np.log(AREAS) - 0.5 * np.log(2.0 * np.pi)
        return np.array([sum(logsumexp(log_p + areas) for log_p, _ in blocks) for blocks in self.blocks()])

    def cell_moments(self) -> tuple[np.ndarray, np.ndarray]:
        T, moments = np.sqrt(self.tau2[0]) * POINTS, np.zeros((2, self.X.size))
        for p, blocks in zip(self.p.ravel(), self.blocks(), strict=True):
            for log_p, inside in blocks:
                weights = np.exp(log_p - log_p.max()) * AREAS
                moments[:, inside] += p * np.array([[weights @ T], [weights @ T**2]]) / weights.sum()
        return moments[0], moments[1]


def problem(engine: str, weighted: bool, row_weights: bool):
    """Return a state with offset 0, and levels and precisions of its cells."""
    random = np.random.default_rng(5)
    levels = np.array([[0, 0, 2, 2], [0, 1, 2, 1], [2, 2, 0, 1]])
    seen = np.ones(levels.shape, bool) if engine == "dense" and not weighted else random.random(levels.shape) < 0.8
    weights = random.integers(1, 4, levels.shape) * 0.5 if weighted else np.ones(levels.shape)
    X = np.where(seen, SCALE.values[levels], np.nan)
    obs = Observations.from_dense(X, weights=weights if weighted else None)
    state = make_engine(obs, engine, 1, 1, offset=0.0, row_weights=True, latent=True).new_state()
    omega = seen * weights
    if row_weights:
        state.set_row_weights(ROW_WEIGHTS[:3])
        omega = omega * ROW_WEIGHTS[:3, None]
    return state, levels, omega


@cache  # both tests compare the same draws
def drawn(
    engine: str, weighted: bool, row_weights: bool, pair: tuple[str, str]
) -> tuple[Draws, Hyperparameters, np.ndarray, np.ndarray]:
    """Return the draws of a chain, and what it is about: hyperparameters, levels and precisions of cells."""
    state, levels, omega = problem(engine, weighted, row_weights)
    hyper = Hyperparameters(sampler=pair[0], label_prior=pair[1], **ONE)
    return run(Chain(state, hyper, 0, SIGMA2), SWEEPS), hyper, levels, omega


@pytest.mark.parametrize(
    ("engine", "weighted", "row_weights", "pair"),
    [
        ("cpu", True, True, PAIRS[0]),
        pytest.param("dense", False, False, PAIRS[1], marks=pytest.mark.full),
        pytest.param("cpu", False, True, PAIRS[2], marks=pytest.mark.full),
        pytest.param("dense", True, True, PAIRS[0], marks=pytest.mark.full),
    ],
)
def test_enumeration(engine, weighted, row_weights, pair):
    draws, hyper, levels, omega = drawn(engine, weighted, row_weights, pair)
    assert effective_size(draws.cells).min() > SWEEPS / 40
    assert p_value(draws, OrdinalExact(levels, omega, hyper, SIGMA2)) > FALSE_ALARM


def test_it_has_teeth():
    """The posterior of other cut points, or of the levels as normal observations, is another one."""
    draws, hyper, levels, omega = drawn("cpu", True, True, PAIRS[0])
    shifted = replace(hyper, scale=replace(SCALE, cuts=SCALE.cuts + 0.15))
    mean, square = OrdinalExact(levels, omega, shifted, SIGMA2).cell_moments()
    assert bonferroni(t_tests(draws.cells, mean) + t_tests(draws.cells**2, square)) < FALSE_ALARM
