"""Geweke's joint-distribution test of complete sweeps, and of sweeps with known errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from chains import PAIRS
from geweke import LEVELS, World

from accams.fit import conditionals
from accams.fit.conditionals import draw_inverse_gamma
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-4
STEPS, ORDINAL_STEPS = 1500, 2500
BLOCKED, COLLAPSED, CRP = PAIRS
ONE = {"shapes": [(3, 3)], "alpha": [1.5], "beta": [2.0]}
TWO = {"shapes": [(3, 2), (2, 3)], "alpha": [1.5, 3.0], "beta": [2.0, 1.0]}
# shapes so large that all moments of the statistics exist; sigma_max cuts off one tenth of the prior
VARIANCES = {"eta": (5.0, 5.0), "gamma": (5.0, 2.0), "sigma_max": 1.4, "sample_sigma": True}

full = partial(pytest.param, marks=pytest.mark.full)  # chains keep their length, so the quick run has the same power


def hyper_of(pair: tuple[str, str], settings: dict, **more) -> Hyperparameters:
    """Return hyperparameters of one of the three pairs, with all variances sampled."""
    return Hyperparameters(sampler=pair[0], label_prior=pair[1], **settings, **VARIANCES, **more)


@pytest.mark.parametrize(("pair", "settings"), [(BLOCKED, TWO), full(COLLAPSED, ONE), full(CRP, TWO)])
def test_variances_templates_labels_and_row_precisions(pair, settings):
    """Cells missing, observation weights, row noise. Bonferroni over about 30 statistics: false-alarm rate 1e-4."""
    assert World(hyper_of(pair, settings, row_noise=6.0)).p_value(STEPS) > FALSE_ALARM


@pytest.mark.parametrize(("pair", "engine"), [full(BLOCKED, "dense"), full(CRP, "cpu")])
def test_continuous_effects(pair, engine):
    """With row noise, beside one stencil. Bonferroni over about 30 statistics: false-alarm rate 1e-4."""
    hyper = hyper_of(pair, ONE, row_noise=6.0, continuous=True)
    assert World(hyper, engine).p_value(STEPS) > FALSE_ALARM


@pytest.mark.parametrize(
    ("pair", "engine", "n_features"),
    [full(BLOCKED, "cpu", (0, 2)), full(CRP, "dense", (2, 0)), full(BLOCKED, "cpu", (2, 2))],
)
def test_slopes_on_features(pair, engine, n_features):
    """With row noise, beside one stencil. Bonferroni over about 40 statistics: false-alarm rate 1e-4.

    (In the quick run those of ordinal values.)
    """
    hyper = hyper_of(pair, ONE, row_noise=6.0, slopes=(5.0, 2.0))
    assert World(hyper, engine, n_features=n_features).p_value(STEPS) > FALSE_ALARM


@pytest.mark.parametrize(
    ("pair", "engine", "n_features", "continuous"),
    [full(BLOCKED, "cpu", (0, 2), False), full(CRP, "dense", (0, 0), False), full(BLOCKED, "cpu", (2, 0), True)],
)
def test_ordinal_values(pair, engine, n_features, continuous):
    """Three levels, with row noise and weights. Bonferroni over about 40 statistics: false-alarm rate 1e-4."""
    hyper = hyper_of(pair, ONE, row_noise=6.0, slopes=(5.0, 2.0), continuous=continuous, scale=LEVELS)
    assert World(hyper, engine, n_features=n_features).p_value(ORDINAL_STEPS) > FALSE_ALARM


class CutPointsThatAreOff(Chain):
    """Latent values by cut points that are 0.15 too high."""

    def _draw_latent(self) -> None:
        right, scale = self.hyper, self.hyper.scale
        assert scale is not None
        self.hyper = replace(right, scale=replace(scale, cuts=scale.cuts + 0.15))
        super()._draw_latent()
        self.hyper = right


@pytest.mark.full
def test_wrong_cut_points_are_detected():
    world = World(hyper_of(BLOCKED, ONE, row_noise=6.0, scale=LEVELS), chain_class=CutPointsThatAreOff)
    assert world.p_value(ORDINAL_STEPS) < FALSE_ALARM


class SlopesOfHalfTheirVariance(Chain):
    """Variances of slopes that are twice as sure of them as they are."""

    def _draw_slopes(self, axis, random) -> None:
        super()._draw_slopes(axis, random)
        self.slope_tau2[axis] *= 0.5


@pytest.mark.full
def test_wrong_variances_of_slopes_are_detected():
    world = World(hyper_of(BLOCKED, ONE, slopes=(5.0, 2.0)), n_features=(0, 2), chain_class=SlopesOfHalfTheirVariance)
    assert world.p_value(STEPS) < FALSE_ALARM


class SlopesScaledWithoutTheirJacobian(Chain):
    """Factors of slopes and variances as if both were scaled at no cost in volume."""

    def _draw_slopes(self, axis, random) -> None:
        right = conditionals.draw_scales
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(conditionals, "draw_scales", lambda Q, g, t, a, b, r: right(Q, g, t, a - 1.5, b, r))
            super()._draw_slopes(axis, random)


@pytest.mark.full
def test_wrong_scales_of_slopes_are_detected():
    hyper = hyper_of(BLOCKED, ONE, slopes=(5.0, 2.0))
    world = World(hyper, n_features=(0, 2), chain_class=SlopesScaledWithoutTheirJacobian)
    assert world.p_value(STEPS) < FALSE_ALARM


# -- known errors --------------------------------------------------------------------------------------------


class SigmaWithoutHalves(Chain):
    """sigma^2 as the paper prints it: IG(eta_a + E, eta_b + SSE)."""

    def draw_noise(self, random: np.random.Generator) -> None:
        shape = self.hyper.eta[0] + self.state.engine.observations.n_observed
        scale = self.hyper.eta[1] + self.state.squared_error()
        self.sigma2 = draw_inverse_gamma(shape, scale, random, self.hyper.sigma_max**2)


class TauCountsEmptyBlocks(Chain):
    """tau^2 with K the number of all blocks of the template, but the squares of occupied ones only."""

    def _tau_gamma(self, stencil, random) -> float:
        return float(random.standard_gamma(self.hyper.gamma[0] + self.state.templates[stencil].size / 2.0))


@pytest.mark.parametrize(("wrong", "pair"), [full(SigmaWithoutHalves, CRP), full(TauCountsEmptyBlocks, COLLAPSED)])
def test_it_has_teeth(wrong, pair):
    """Chains with a subtle error are detected."""
    assert World(hyper_of(pair, ONE), chain_class=wrong).p_value(STEPS) < FALSE_ALARM
