"""Chains against the posterior by enumeration: labels and model of tiny matrices, with fixed variances."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from chains import PAIRS, Draws, Problem, pair_probabilities, run
from compare import bonferroni, categories, effective_size, events, t_tests
from exact import Exact, block_log_likelihood
from scipy import stats

from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-4
SWEEPS = 2500
SIGMA2 = 2.0

BLOCKED, COLLAPSED, CRP = PAIRS
ONE = {"shapes": [(3, 3)], "alpha": [1.5], "beta": [2.5], "tau2": [2.0]}
TWO = {"shapes": [(2, 2), (2, 2)], "alpha": [1.5, 3.0], "beta": [1.0, 2.5], "tau2": [3.0, 0.8]}
WIDE = {"shapes": [(3, 1), (1, 3), (2, 2)], "alpha": [1.5, 1.0, 2.0], "beta": [1.0, 2.5, 1.5], "tau2": [3.0, 1.5, 0.8]}

# Chains keep their length. The quick run has each pair and each engine, with one stencil or two.
full = partial(pytest.param, marks=pytest.mark.full)
ONE_STENCIL = [
    full("complete", "dense", False, COLLAPSED),
    full("missing weighted", "cpu", True, BLOCKED),
    full("missing weighted", "cpu", True, CRP),
    full("graph light weighted", "graph", False, BLOCKED),
    full("complete weighted", "dense", True, CRP),
    full("graph", "graph", False, COLLAPSED),
    full("complete", "dense", False, BLOCKED),
    full("complete", "dense", False, CRP),
    ("missing weighted", "cpu", True, COLLAPSED),
    full("missing", "cpu", False, CRP),
    full("missing", "cpu", True, BLOCKED),
    full("complete", "dense", True, BLOCKED),
    ("graph light weighted", "graph", False, CRP),
]
TWO_STENCILS = [
    full("complete weighted", "cpu", True, COLLAPSED),
    ("missing weighted", "dense", True, BLOCKED),
    full("graph light", "graph", False, CRP),
    full("complete weighted", "cpu", True, BLOCKED),
    full("complete weighted", "cpu", True, CRP),
]


def hyper_of(pair: tuple[str, str], settings: dict, **more) -> Hyperparameters:
    """Return hyperparameters with one of the three pairs of sampler and label prior."""
    return Hyperparameters(sampler=pair[0], label_prior=pair[1], **settings, **more)


def p_value(draws: Draws, exact: Exact) -> float:
    """Return the p-value of all partitions, pairs in one cluster, means of cells and of their squares."""
    out = []
    for stencil, sides in enumerate(exact.partitions):
        for side, every in enumerate(sides):
            number = {partition: place for place, partition in enumerate(every)}
            drawn = np.array([number[partition] for partition in draws.labels[stencil][side]])
            p = exact.marginal(stencil, side)
            if len(p) > 1:
                out.append(categories(drawn, p))
                out += events(draws.pairs(stencil, side), pair_probabilities(every, p))
    mean, square = exact.cell_moments()
    return bonferroni(out + t_tests(draws.cells, mean) + t_tests(draws.cells**2, square))


def check(problem: Problem, hyper: Hyperparameters, sweeps: int = SWEEPS) -> None:
    """Check that a chain agrees with the enumeration, and has mixed well enough for the test to have power."""
    draws = run(Chain(problem.state(len(hyper.shapes)), hyper, 0, SIGMA2), sweeps)
    assert effective_size(draws.cells).min() > sweeps / 12
    assert p_value(draws, problem.exact(hyper, SIGMA2)) > FALSE_ALARM


@pytest.mark.parametrize(("kind", "engine", "row_weights", "pair"), ONE_STENCIL)
def test_one_stencil(kind, engine, row_weights, pair):
    """Bonferroni over all comparisons: false-alarm rate 1e-4."""
    check(Problem(kind, engine, row_weights), hyper_of(pair, ONE))


@pytest.mark.parametrize(("kind", "engine", "row_weights", "pair"), TWO_STENCILS)
def test_two_stencils(kind, engine, row_weights, pair):
    """Identified by their tau^2; likelihood from the dense covariance of all cells. False-alarm rate 1e-4."""
    check(Problem(kind, engine, row_weights, shape=(4, 3)), hyper_of(pair, TWO))


@pytest.mark.parametrize(("engine", "settings"), [("cpu", ONE), full("dense", TWO)])
def test_no_cap(engine, settings):
    """CRP without a bound on the clusters, started from stencils of one block. False-alarm rate 1e-4."""
    shape = (4, 4) if settings is ONE else (3, 3)
    settings = {**settings, "shapes": [(1, 1)] * len(settings["tau2"])}
    check(Problem("complete", engine, shape=shape), hyper_of(CRP, settings, growing=True))


@pytest.mark.parametrize("pair", [BLOCKED, full(CRP)])
def test_several_label_updates_a_visit(pair):
    """Three label updates in every visit, as the paper does, leave the target as it is. False-alarm rate 1e-4."""
    check(Problem("missing", "cpu", seed=2), hyper_of(pair, ONE, sub=(1, 3)), SWEEPS // 2)


@pytest.mark.parametrize("pair", [full(BLOCKED), CRP])
def test_stencils_one_cluster_wide(pair):
    """Effects as stencils of 3 x 1 and 1 x 3 beside a 2 x 2 one. False-alarm rate 1e-4."""
    check(Problem("complete", "dense", shape=(3, 3), seed=1), hyper_of(pair, WIDE), SWEEPS // 2)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_stencil_of_one_block(pair):
    """It has no labels to draw, but a template: independent normal draws. Kolmogorov-Smirnov, false-alarm rate 1e-4."""
    problem, hyper = Problem("complete", "dense", shape=(3, 3), seed=1), hyper_of(pair, {**ONE, "shapes": [(1, 1)]})
    draws = run(Chain(problem.state(1), hyper, 0, SIGMA2), 500)
    N, L, tau2 = 9.0, problem.data.X.sum(), 2.0
    expected = stats.norm(tau2 * L / (SIGMA2 + N * tau2), np.sqrt(SIGMA2 * tau2 / (SIGMA2 + N * tau2)))
    assert stats.kstest(draws.cells[:, 0], expected.cdf).pvalue > FALSE_ALARM


class Undivided(Hyperparameters):
    """alpha for each of k clusters, instead of alpha / k."""

    def concentration(self, stencil: int, axis: int) -> float:
        return (self.alpha, self.beta)[axis][stencil]


@pytest.mark.parametrize("pair", [BLOCKED, full(COLLAPSED)])
def test_it_has_teeth(pair):
    """A wrong label prior and swapped tau^2 are detected, with half the sweeps: with all of them even more clearly."""
    one, two = Problem("complete", "dense"), Problem("complete weighted", "cpu", True, (4, 3))
    wrong = Undivided(sampler=pair[0], label_prior=pair[1], **ONE)
    draws = run(Chain(one.state(1), wrong, 0, SIGMA2), SWEEPS // 2)
    assert p_value(draws, one.exact(hyper_of(pair, ONE), SIGMA2)) < FALSE_ALARM
    swapped = hyper_of(pair, {**TWO, "tau2": TWO["tau2"][::-1]})
    draws = run(Chain(two.state(2), swapped, 0, SIGMA2), SWEEPS // 2)
    assert p_value(draws, two.exact(hyper_of(pair, TWO), SIGMA2)) < FALSE_ALARM


@pytest.mark.parametrize("kind", ["complete", "missing weighted"])
def test_block_likelihood_is_that_of_the_normal(kind):
    """The formula of MATH.md gives the same posterior as the dense covariance, for all labels. Not random."""
    problem, hyper = Problem(kind, "cpu", row_weights=True), hyper_of(CRP, ONE)
    exact = problem.exact(hyper, SIGMA2)
    rows, cols = exact.partitions[0]
    arguments = [(problem.data.X, problem.omega, c, d, SIGMA2, 2.0) for c in rows for d in cols]
    short = np.array([block_log_likelihood(*each) for each in arguments]).reshape(exact.p.shape)
    p = exact.prior * np.exp(short)
    np.testing.assert_allclose(p / p.sum(), exact.p, rtol=1e-9)
