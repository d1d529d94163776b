"""The conditional draws of a sweep against their distributions."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from compare import bonferroni
from exact import canonical, label_prior
from scipy import special, stats

from accams.engine.grid import Grid
from accams.engine.tables import Tables
from accams.fit.conditionals import (
    draw_gamma_tail,
    draw_inverse_gamma,
    draw_log_weights,
    draw_prior_labels,
    draw_template,
)
from accams.fit.hyper import Hyperparameters
from accams.kernels import sample
from accams.kernels.jit import readonly

FALSE_ALARM = 1e-4
KEY = 123456789, 987654321


# -- inverse gamma, cut off ----------------------------------------------------------------------------------

CUT = {  # shape, scale, upper
    "ordinary": (5.0, 3.0, 1.0),
    "not cut": (5.0, 3.0, inf),
    "hardly cut": (5.0, 3.0, 1e6),
    "bound beyond all": (5.0, 3.0, 1e300),
    "bound far below": (3.0, 2.0, 1e-6),
    "shape below 1": (0.3, 2.0, 1.0),
    "shape below 1, tail": (0.3, 2.0, 0.05),
    "shape below 1, not cut": (0.3, 2.0, inf),
    "shape of one half, tail": (0.5, 3.0, 0.2),
    "shape above 0": (1e-3, 1.0, 100.0),
    "shape above 0, tail": (1e-8, 1.0, 100.0),
    "tail of one in 10^5": (2.0, 14.2, 1.0),
    "tail of one in 10^7": (2.0, 19.0, 1.0),
    "paper, E = 10^6": (2.0 + 5e5, 0.3 + 1.1 * 5e5, 1.0),
    "E = 10^8, not cut": (5e7, 5e7, inf),
    "E = 10^8, in the middle": (5e7, 5e7 * 1.0001, 1.0),
    "E = 10^8, 3.5 sigma": (5e7, 5e7 * 1.0005, 1.0),
    "E = 10^8, 7 sigma": (5e7, 5e7 * 1.001, 1.0),
    "E = 10^8, far": (5e7, 5e7 * 1.1, 1.0),
    "E = 10^8, below the bound": (5e7, 5e7 * 0.9, 1.0),
}


def tail_distribution(g: np.ndarray, shape: float, low: float) -> np.ndarray:
    """Return P(G <= g | G >= low) for gamma G: by scipy or, for tiny tails, by integrating the density."""
    tail = special.gammaincc(shape, low)
    if tail > 1e-9 and shape > 1e-6:
        return 1.0 - special.gammaincc(shape, g) / tail
    fall = 1.0 - max(shape - 1.0, 0.0) / low  # the logarithm of the density falls at least as fast as this
    excess = low * np.expm1(np.linspace(0.0, np.log1p(40.0 / fall / low), 400_001))
    density = np.exp((shape - 1.0) * np.log1p(excess / low) - excess)
    mass = np.concatenate([[0.0], np.cumsum(np.diff(excess) * (density[1:] + density[:-1]) / 2.0)])
    return np.interp(g - low, excess, mass / mass[-1])


@pytest.mark.parametrize("name", CUT)
def test_inverse_gamma(name):
    """Kolmogorov-Smirnov on 1500 draws, false-alarm rate 1e-4; never above the bound."""
    shape, scale, upper = CUT[name]
    random = np.random.default_rng(1)
    x = np.array([draw_inverse_gamma(shape, scale, random, upper) for _ in range(1500)])
    assert np.isfinite(x).all()
    assert x.min() > 0.0
    assert x.max() <= upper * (1.0 + 1e-12)
    p = stats.kstest(scale / x, lambda g: tail_distribution(g, shape, scale / upper)).pvalue
    assert p > FALSE_ALARM


@pytest.mark.parametrize(("shape", "low"), [(2.5, 0.0), (2.5, 3.0), (2.5, 25.0), (40.0, 150.0), (1.0, 30.0)])
def test_gamma_tail(shape, low):
    """Kolmogorov-Smirnov on 4000 draws, false-alarm rate 1e-4."""
    random = np.random.default_rng(2)
    g = np.array([draw_gamma_tail(shape, low, random) for _ in range(4000)])
    assert g.min() >= low
    assert stats.kstest(g, lambda g: tail_distribution(g, shape, low)).pvalue > FALSE_ALARM


def test_both_ways_to_the_tail_distribution_agree():
    """The sum of densities against scipy, where both are good. Not random."""
    g = 20.0 + np.linspace(0.0, 10.0, 50)
    excess = np.linspace(0.0, 45.0, 100_001)
    density = np.exp(2.0 * np.log1p(excess / 20.0) - excess)
    mass = np.cumsum(density) / density.sum()
    np.testing.assert_allclose(tail_distribution(g, 3.0, 20.0), np.interp(g - 20.0, excess, mass), atol=1e-3)


# -- cluster weights and labels ------------------------------------------------------------------------------


def log_beta_cdf(t: np.ndarray, a: float, b: float) -> np.ndarray:
    """P(log x <= t) for x ~ Beta(a, b), also where x itself would underflow: there it is x^a / (a B(a, b))."""
    tiny = np.exp(a * t - np.log(a) - special.betaln(a, b))
    return np.where(t < -100.0, tiny, special.betainc(a, b, np.exp(np.maximum(t, -100.0))))


@pytest.mark.parametrize(
    ("counts", "concentration"),
    [((3, 0, 5), 0.5), ((0, 0, 0), 2.0), ((0, 4), 1e-3), ((0, 0, 2), 1e-3), ((900, 90), 3.0)],
)
def test_cluster_weights(counts, concentration):
    """Every marginal is a beta distribution: Kolmogorov-Smirnov, Bonferroni, false-alarm rate 1e-4."""
    random = np.random.default_rng(3)
    logs = np.array([draw_log_weights(np.array(counts), concentration, random) for _ in range(4000)])
    logs -= special.logsumexp(logs, axis=1, keepdims=True)
    shapes = np.array(counts) + concentration
    tests = [
        stats.kstest(log_beta_cdf(column, a, shapes.sum() - a), "uniform").pvalue
        for column, a in zip(logs.T, shapes, strict=True)
        if shapes.sum() - a > 0.1  # else it is 1 to the last digit
    ]
    assert bonferroni(tests) > FALSE_ALARM


@pytest.mark.parametrize(
    ("kind", "size", "k", "alpha"),
    [
        ("dirichlet", 4, 3, 2.0),
        pytest.param("dirichlet", 3, 2, 0.4, marks=pytest.mark.full),
        ("dirichlet", 4, 6, 6e-1),
        pytest.param("crp", 4, 4, 1.5, marks=pytest.mark.full),
        ("crp", 4, 9, 0.7),
    ],
)
def test_labels_from_the_prior(kind, size, k, alpha):
    """Chi-square over partitions, and over the label of the second row. False-alarm rate 1e-4 by Bonferroni."""
    random, n = np.random.default_rng(4), 4000
    concentration = alpha if kind == "crp" else alpha / k
    labels = [draw_prior_labels(size, k, concentration, kind == "crp", random) for _ in range(n)]
    every, p = label_prior(size, k, alpha, kind)
    number = {partition: place for place, partition in enumerate(every)}
    drawn = np.bincount([number[canonical(each)] for each in labels], minlength=len(every))
    tests = [stats.chisquare(drawn, n * p).pvalue]
    if kind == "dirichlet":
        tests.append(stats.chisquare(np.bincount([each[1] for each in labels], minlength=k)).pvalue)
    assert bonferroni(tests) > FALSE_ALARM


@pytest.mark.parametrize(("kind", "k"), [("dirichlet", 3), ("dirichlet", 5), ("crp", 4), ("crp", 2)])
def test_log_probability_of_labels(kind, k):
    """Label counts give the probability of the partition, divided by its number of labelings. Deterministic."""
    hyper = Hyperparameters([(k, 7)], [1.7], [9.0], label_prior=kind)
    every, p = label_prior(4, k, 1.7, kind)
    logs = np.array([hyper.log_labels(np.bincount(partition, minlength=k), 0, 0) for partition in every])
    groups = np.array([max(partition) + 1 for partition in every])
    if kind == "dirichlet":
        logs += special.gammaln(k + 1) - special.gammaln(k - groups + 1)
    elif k < 4:
        logs -= special.logsumexp(logs)  # the cap's constant
    np.testing.assert_allclose(np.exp(logs), p, rtol=1e-10)


# -- templates, effects, row precisions ----------------------------------------------------------------------


def test_template():
    """Normal with the mean and variance of MATH.md, by block: Kolmogorov-Smirnov, false-alarm rate 1e-4."""
    sigma2, tau2, unit, grid = 1.7, 0.4, 0.25, Grid(2.0**-18, 0.0, 2**24)
    N, L = np.array([0, 1, 40, 4000]), np.array([0.0, 0.9, -12.0, 700.0])  # in units; on the scale of the data
    ticks = np.rint(L / grid.step / unit).astype(np.int64)
    tables = Tables(np.tile(N, (3000, 1)), np.tile(ticks, (3000, 1)), np.zeros(3000, np.int64))
    T = draw_template(tables, sigma2, tau2, unit, grid, np.random.default_rng(5)) * grid.step
    whole = sigma2 + N * unit * tau2
    means, variances = tau2 * L / whole, sigma2 * tau2 / whole
    tests = [stats.kstest(T[:, b], stats.norm(means[b], variances[b] ** 0.5).cdf).pvalue for b in range(4)]
    assert bonferroni(tests) > FALSE_ALARM


@pytest.mark.parametrize(("nu", "cells", "squares"), [(4.0, 7, 9.0), (0.5, 0, 0.0), (0.2, 1, 3.0), (30.0, 500, 400.0)])
def test_row_precisions(nu, cells, squares):
    """Gamma((nu + E) / 2, rate (nu + S / sigma^2) / 2). Kolmogorov-Smirnov, false-alarm rate 1e-4."""
    sigma2, n = 1.3, 4000
    out = np.empty(n)
    sample.precisions(0, n, np.full(n, squares), np.full(n, cells), nu, 1.0 / sigma2, *KEY, out)
    expected = stats.gamma((nu + cells) / 2.0, scale=2.0 / (nu + squares / sigma2))
    assert stats.kstest(out, expected.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("row_weight", [None, 3])
def test_effects(row_weight):
    """Normal, as a template of one row, whatever the old effect was. Kolmogorov-Smirnov, false-alarm rate 1e-4."""
    sigma2, tau2, n, step = 1.7, 0.4, 4000, 2.0**-18
    weights = None if row_weight is None else readonly(np.full(n, row_weight, np.int32))
    old, change = np.full(n, 12345, np.int32), np.empty(n, np.int32)
    sums = np.full((n, 1), int(-2.5 / step))
    draw = tau2 / sigma2, np.sqrt(tau2) / step, 2**24, *KEY
    sample.effects(0, n, np.full((n, 1), 6), sums, weights, old, *draw, 0, change)
    w = row_weight or 1
    whole, L = sigma2 + 6 * w * tau2, w * (-2.5 + 6 * 12345 * step)
    expected = stats.norm(tau2 * L / whole, np.sqrt(sigma2 * tau2 / whole))
    assert stats.kstest((old + change) * step, expected.cdf).pvalue > FALSE_ALARM
