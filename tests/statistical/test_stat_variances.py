"""One variance sampled: chains against its exact posterior, by enumeration of labels over a grid of the variance."""

from __future__ import annotations

import numpy as np
import pytest
from chains import PAIRS, Problem, run
from compare import bonferroni, categories, hotelling
from exact import Exact
from scipy import stats
from scipy.special import logsumexp

from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-4
SWEEPS = 2000
SHAPE, SCALE = 3.0, 4.0  # of the inverse gamma prior of whichever is sampled
SETTINGS = {"shapes": [(3, 3)], "alpha": [1.5], "beta": [2.5]}
LEVELS = np.arange(0.1, 0.95, 0.1)
BLOCKED, COLLAPSED, CRP = PAIRS


def integrate(grid: np.ndarray, posteriors: list[Exact]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return probabilities of the variance on its grid (even in logarithms) and of the partitions of both sides."""
    prior = stats.invgamma(SHAPE, scale=SCALE).logpdf(grid) + np.log(grid)
    log_p = prior + [each.log_evidence for each in posteriors]
    p = np.exp(log_p - logsumexp(log_p))
    sides = [sum(w * each.marginal(0, side) for w, each in zip(p, posteriors, strict=True)) for side in (0, 1)]
    return p, sides


def quantiles(drawn: np.ndarray, grid: np.ndarray, p: np.ndarray) -> float:
    """Return the p-value of the draws of the variance at nine of its quantiles."""
    edges, cdf = np.sqrt(grid[1:] * grid[:-1]), np.cumsum(p)
    places = np.searchsorted(cdf, LEVELS)
    return hotelling(drawn[:, None] <= edges[places], cdf[places])


def p_value(drawn, labels, grid, posteriors: list[Exact]) -> float:
    """Return the p-value of the variance and the partitions of both sides."""
    weights, sides = integrate(grid, posteriors)
    out = [quantiles(drawn, grid, weights)]
    for side, p in enumerate(sides):
        number = {partition: place for place, partition in enumerate(posteriors[0].partitions[0][side])}
        out.append(categories(np.array([number[x] for x in labels[0][side]]), p))
    return bonferroni(out)


@pytest.mark.parametrize(
    ("kind", "engine", "row_weights", "pair"),
    [
        ("missing weighted", "cpu", True, CRP),
        pytest.param("complete", "dense", True, BLOCKED, marks=pytest.mark.full),
        pytest.param("graph light weighted", "graph", False, BLOCKED, marks=pytest.mark.full),
    ],
)
def test_sigma2(kind, engine, row_weights, pair):
    """Truncated at sigma_max^2 = 2.5, inside the posterior; with row weights and labels. False-alarm rate 1e-4."""
    highest = 2.5
    problem = Problem(kind, engine, row_weights)
    hyper = Hyperparameters(
        sampler=pair[0], label_prior=pair[1], **SETTINGS, tau2=[2.0], eta=(SHAPE, SCALE), sample_sigma=True,
        sigma_max=highest**0.5,
    )  # fmt: skip
    draws = run(Chain(problem.state(1), hyper, 0, 1.0), SWEEPS)
    assert draws.sigma2.max() <= highest
    grid = np.exp(np.linspace(np.log(0.05), np.log(highest), 61))
    grid = np.sqrt(grid[1:] * grid[:-1])
    assert p_value(draws.sigma2, draws.labels, grid, [problem.exact(hyper, s) for s in grid]) > FALSE_ALARM


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kind", "engine", "pair"),
    [("missing", "cpu", COLLAPSED), ("complete", "dense", BLOCKED), ("complete weighted", "cpu", CRP)],
)
def test_tau2(kind, engine, pair):
    """By occupied blocks where the template is integrated out, by all blocks else. False-alarm rate 1e-4."""
    problem, sigma2 = Problem(kind, engine), 2.0
    hyper = Hyperparameters(sampler=pair[0], label_prior=pair[1], **SETTINGS, gamma=(SHAPE, SCALE))
    draws = run(Chain(problem.state(1), hyper, 0, sigma2), SWEEPS)
    grid = np.exp(np.linspace(np.log(0.1), np.log(60.0), 60))
    posteriors = [problem.exact(hyper, sigma2, [t]) for t in grid]
    assert p_value(draws.tau2[:, 0], draws.labels, grid, posteriors) > FALSE_ALARM


def test_variances_of_continuous_effects():
    """No stencil, large effects of rows, small ones of columns; a grid of both variances. False-alarm rate 1e-4."""
    random, sigma2, shape = np.random.default_rng(6), 1.0, (6, 4)
    X = random.normal(0.0, 3.0, (6, 1)) + random.normal(0.0, 0.3, 4) + random.normal(size=shape)
    hyper = Hyperparameters([], [], [], gamma=(SHAPE, SCALE), continuous=True)
    engine = make_engine(Observations.from_dense(X), "dense", 1, 1, offset=0.0)
    chain, drawn = Chain(engine.new_state(), hyper, 0, sigma2), []
    for _ in range(2 * SWEEPS):
        chain.run_sweep()
        drawn.append(chain.effect_tau2.copy())
    grid = np.exp(np.linspace(np.log(0.2), np.log(300.0), 60))
    rows, cols = (np.kron(np.eye(6), np.ones((4, 4))), np.kron(np.ones((6, 6)), np.eye(4)))
    V = np.eye(24) + grid[:, None, None, None] * rows + grid[:, None, None] * cols
    log_p = stats.invgamma(SHAPE, scale=SCALE).logpdf(grid) + np.log(grid)
    fit = np.linalg.solve(V, X.reshape(-1, 1))[..., 0] @ X.ravel()
    log_p = log_p[:, None] + log_p - 0.5 * (np.linalg.slogdet(V)[1] + fit)
    p = np.exp(log_p - logsumexp(log_p))
    tests = [quantiles(np.array(drawn)[:, axis], grid, p.sum(axis=1 - axis)) for axis in (0, 1)]
    assert bonferroni(tests) > FALSE_ALARM
