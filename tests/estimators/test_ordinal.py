"""BayesianACCAMS with ordinal observations: what it learns, and that scale, files and resumed fits are one thing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError

import accams
from accams import BayesianACCAMS, InputError
from accams.explore import export
from accams.model.scale import Scale

pytestmark = pytest.mark.usefixtures("short_explanations")
full = partial(pytest.param, marks=pytest.mark.full)
STARS = np.arange(1.0, 6.0)
CUTS = np.array([-1.5, -0.7, 0.4, 1.0])
M, N = 80, 50


def planted() -> tuple[np.ndarray, np.ndarray]:
    """Return latent means of two blocks by two, and ratings of them with noise of one half."""
    random = np.random.default_rng(0)
    latent = np.array([[1.1, -0.6], [-1.2, 0.5]])[np.ix_(np.arange(M) % 2, np.arange(N) % 2)]
    return latent, STARS[np.searchsorted(CUTS, latent + random.normal(0.0, 0.5, latent.shape))]


LATENT, RATINGS = planted()
HIDDEN = np.random.default_rng(1).random(RATINGS.shape) < 0.3
SEEN = np.where(HIDDEN, np.nan, RATINGS)
PAIRS = np.argwhere(HIDDEN)


def make(likelihood: str = "ordinal", **changes) -> BayesianACCAMS:
    settings = {"n_stencils": 2, "n_clusters": 2, "n_chains": 8, "n_sweeps": 30, "noise": "calibrated"} | changes
    return BayesianACCAMS(likelihood=likelihood, random_state=0, verbose=False, **settings)


@pytest.fixture(scope="module", params=["ordinal", full("auto")])
def fitted(request: pytest.FixtureRequest) -> BayesianACCAMS:
    return make(request.param).fit(SEEN)


def truth() -> np.ndarray:
    """Return the true probabilities of all ratings at the hidden cells."""
    ends = np.array([-np.inf, *CUTS, np.inf])
    return np.diff(ndtr((ends - LATENT[HIDDEN][:, None]) / 0.5), axis=1)


def test_probabilities_are_those_planted(fitted: BayesianACCAMS) -> None:
    p = fitted.predict_proba(PAIRS)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p @ STARS, fitted.predict(PAIRS), atol=1e-9)
    assert np.abs(p - truth()).mean() < 0.03
    assert np.sqrt(np.mean((fitted.predict(PAIRS) - truth() @ STARS) ** 2)) < 0.15


def test_intervals_hold_what_they_say(fitted: BayesianACCAMS) -> None:
    """By the randomised transform; 1,200 cells have a standard error of 0.9 %."""
    levels, scale = np.searchsorted(STARS, RATINGS[HIDDEN]), fitted.model_.scale
    mean, variance = fitted.model_.moments(*PAIRS.T)
    ends = (np.array([-np.inf, *scale.cuts, np.inf]) - mean[:, None]) / np.sqrt(variance)[:, None]
    low, high = (ndtr(np.take_along_axis(ends, levels[:, None] + side, 1)[:, 0]) for side in (0, 1))
    inside = np.clip(np.minimum(high, 0.95) - np.maximum(low, 0.05), 0.0, None) / (high - low)
    assert 0.86 < inside.mean() < 0.95
    _, quantiles = fitted.predict(PAIRS, quantiles=[0.05, 0.95])
    assert np.all((quantiles[:, 0] >= 1.0) & (quantiles[:, 1] <= 5.0) & (quantiles[:, 0] < quantiles[:, 1]))


def test_the_deviation_is_that_of_the_probabilities(fitted: BayesianACCAMS) -> None:
    mean, std = fitted.predict(PAIRS, return_std=True)
    p = fitted.predict_proba(PAIRS)
    np.testing.assert_allclose(std**2, p @ STARS**2 - mean**2, atol=1e-9)


def test_a_file(fitted: BayesianACCAMS, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), fitted.predict_proba(PAIRS), rtol=1e-12)
    export(loaded, tmp_path / "page")
    assert (tmp_path / "page" / "index.html").is_file()
    small = loaded.compress(2000, verbose=False)
    with pytest.raises(InputError, match="refine does not take models of ordinal ratings"):
        small.refine(SEEN)
    small.save(tmp_path / "s.accams")
    assert np.abs(accams.load(tmp_path / "s.accams").predict_proba(PAIRS) - fitted.predict_proba(PAIRS)).mean() < 0.03


def test_somebody_new(fitted: BayesianACCAMS) -> None:
    """One who rates as the first crowd does is predicted as that, and so is one that is taken in."""
    told = {j: float(RATINGS[0, j]) for j in range(0, N, 3)}
    guest, expected = fitted.fold_in(told), fitted.predict(np.stack([np.zeros(N), np.arange(N)], axis=1))
    assert np.abs(guest.predict(np.arange(N)) - expected).mean() < 0.25
    np.testing.assert_allclose(guest.predict_proba([1, 2]) @ STARS, guest.predict([1, 2]), atol=1e-9)
    taken = fitted.update([(M, j) for j in told], list(told.values()))
    assert np.abs(taken.predict([(M, j) for j in range(N)]) - expected).mean() < 0.25
    why = fitted.explain(0, 1)
    assert why.total() == why.prediction == fitted.predict([(0, 1)])[0]


@pytest.mark.parametrize("likelihood", ["ordinal", "auto"])
def test_a_resumed_fit_is_the_same(likelihood: str, tmp_path: Path, short_calibration: None) -> None:
    settings = {"schedule__checkpoint_every": 4, "checkpoint": tmp_path / "c"}
    short = {"n_sweeps": 12, "n_chains": 2}
    whole = make(likelihood, **short).fit(SEEN)
    make(likelihood, callbacks=[lambda report: report.phase == "sampling" and report.sweep == 6], **short).set_params(
        **settings
    ).fit(SEEN)
    again = make(likelihood, **short).set_params(**settings).fit(SEEN, resume=tmp_path / "c")
    np.testing.assert_array_equal(again.predict_proba(PAIRS), whole.predict_proba(PAIRS))


@pytest.mark.parametrize("noise", ["sampled", 0.6])
def test_without_calibration(noise: str | float) -> None:
    model = make(noise=noise, n_sweeps=60).fit(SEEN)
    assert model.model_.scale.mean_cuts is None
    assert np.abs(model.predict_proba(PAIRS) - truth()).mean() < 0.06
    assert make("auto", noise=noise, n_sweeps=3, n_chains=1).fit(SEEN).model_.scale is None


def test_a_value_that_only_one_observation_has(short_calibration: None) -> None:
    """It may be held out, so that the chains of the calibration never see it."""
    values = np.where(SEEN > 4.0, 4.0, SEEN)
    at = tuple(np.argwhere(~np.isnan(values))[0])
    values[at] = 5.0
    assert make(n_sweeps=5, n_chains=2).fit(values).predict_proba([at]).shape == (1, 5)


@pytest.mark.parametrize(("factor", "shift"), [(2.0**40, 0.0), full(2.0**-30, 0.0), full(1.0, 2.0**10)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_units_do_not_matter(factor: float, shift: float, short_calibration: None) -> None:
    short = {"n_sweeps": 10, "n_chains": 2}
    p = make(**short).fit(SEEN).predict_proba(PAIRS)
    np.testing.assert_allclose(make(**short).fit(factor * SEEN + shift).predict_proba(PAIRS), p, atol=2e-3)


def test_what_is_not_ordinal(short_calibration: None) -> None:
    numbers = np.random.default_rng(2).normal(size=(20, 10))
    with pytest.raises(InputError, match="more than 50 values"):
        make().fit(numbers)
    assert make("auto", n_sweeps=3, n_chains=1).fit(numbers).model_.scale is None
    with pytest.raises(InputError, match="predict_proba needs a model of ordinal"):
        make("gaussian", n_sweeps=3, n_chains=1).fit(SEEN).model_.predict_proba(PAIRS)
    with pytest.raises(AttributeError, match="set likelihood='ordinal', or 'auto', which takes them so if"):
        make("gaussian").predict_proba(PAIRS)
    with pytest.raises(NotFittedError):
        make("auto").predict_proba(PAIRS)
    with pytest.raises(InputError, match="likelihood"):
        make("probit").fit(SEEN)


@pytest.mark.parametrize(
    "lie", [{"cuts": [1.0]}, {"cuts": [3.0, 2.0, 1.0, 4.0]}, {"spread": 0.0}, {"values": []}, {"mean_cuts": None}]
)
def test_a_scale_that_cannot_be(lie: dict) -> None:
    right = Scale.of_shares(STARS, np.ones(5), 1.0).to_dict()
    Scale.from_dict(right)
    with pytest.raises((ValueError, TypeError)):
        Scale.from_dict(right | lie)
