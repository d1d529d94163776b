"""The predictive spread of compressed models: close to that of the draws, calibrated, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import make

import accams
from accams import ACCAMS, InputError, Model
from accams.data.planted import planted_stencils

M, N, NOISE = 300, 120, 0.5
PLANTED = planted_stencils((M, N), 3, 4, nnz=12_000, noise=NOISE, random_state=3)


def split() -> tuple[Any, Any, Any, Any]:
    """Planted cells: five sixths to fit, the rest held out."""
    i, j, y = PLANTED.observations.coo()
    pairs, held = np.stack([i, j], axis=1), np.random.default_rng(0).random(len(y)) < 1 / 6
    return pairs[~held], y[~held], pairs[held], y[held]


PAIRS, VALUES, TEST, TRUTH = split()


@pytest.fixture(scope="module")
def posterior() -> Model:
    """Odd users rate with more noise than even ones, so that the spread has something to say."""
    more = np.where(PAIRS[:, 0] % 2, 1.0, 0.0) * np.random.default_rng(1).normal(size=len(VALUES))
    how = {"n_stencils": 4, "n_clusters": 4, "noise": "sampled", "n_sweeps": 60, "n_burn_in": 30, "row_noise": 5.0}
    return make(**how, clip=False).fit(PAIRS, VALUES + more).model_


@pytest.fixture(scope="module")
def plain() -> Model:
    """A model of the planted cells as they are, its noise calibrated."""
    how = {"n_stencils": 4, "n_clusters": 4, "noise": "calibrated", "n_sweeps": 60, "n_burn_in": 30}
    return make(**how, clip=False).fit(PAIRS, VALUES).model_


@pytest.fixture(scope="module")
def small(posterior: Model) -> Model:
    return posterior.compress(6000, verbose=False)


def rms(x: Any) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def test_the_spread_is_that_of_the_draws_on_average(posterior: Model, small: Model) -> None:
    assert small.posterior is None
    assert rms(small.predict(TEST, return_std=True)[1]) == pytest.approx(
        rms(posterior.predict(TEST, return_std=True)[1]), rel=0.1
    )


def test_users_with_more_noise_have_a_larger_spread(posterior: Model, small: Model) -> None:
    std = small.predict(TEST, return_std=True)[1]
    odd = TEST[:, 0] % 2 == 1
    assert rms(std[odd]) > 1.3 * rms(std[~odd])
    assert np.corrcoef(std, posterior.predict(TEST, return_std=True)[1])[0, 1] > 0.7


@pytest.mark.some(1)
@pytest.mark.parametrize("max_bytes", [2500, 6000])
def test_intervals_cover_what_they_say(plain: Model, max_bytes: int) -> None:
    small = plain.compress(max_bytes, verbose=False)
    found = small.evaluate(TEST, TRUTH)
    assert 0.72 < found.covered(0.8) < 0.88
    _, ends = small.predict(TEST, quantiles=[0.1, 0.9])
    inside = (ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)
    assert inside.mean() == pytest.approx(found.covered(0.8))


@pytest.mark.full
def test_a_coarser_model_has_a_larger_spread(plain: Model) -> None:
    """What is lost in the mean is counted: at the smallest size errors and spread grow together."""
    spreads, errors = [], []
    for max_bytes in (1600, 6000):
        small = plain.compress(max_bytes, ids=False, verbose=False)
        mean, std = small.predict(TEST, return_std=True)
        spreads.append(rms(std))
        errors.append(rms(mean - TRUTH))
    assert spreads[0] > spreads[1]
    np.testing.assert_allclose(spreads, errors, rtol=0.15)


def test_quantile_ranking(small: Model) -> None:
    items = np.arange(N)
    for user in (0, 1, "nobody"):
        mean, std = small.predict([(user, item) for item in items], return_std=True)
        lower = mean - 1.2815515655446004 * std
        found = small.recommend(user, 8, exclude_seen=False, unknown="average", quantile=0.1, return_std=True)
        np.testing.assert_allclose(lower[found["item"]], np.sort(lower)[::-1][:8], rtol=1e-9)
        np.testing.assert_array_equal(found["std"], std[found["item"]])
    seen = set(PAIRS[PAIRS[:, 0] == 5, 1].tolist())
    assert not seen & set(small.recommend(5, N - len(seen), quantile=0.1)["item"].tolist())


def test_whoever_is_new_has_a_spread(posterior: Model, small: Model) -> None:
    new = [("nobody", 3), (3, "nothing"), ("nobody", "nothing")]
    for pair in new:
        found, expected = (model.predict([pair], return_std=True)[1][0] for model in (small, posterior))
        assert found > NOISE
        assert found == pytest.approx(expected, rel=0.5)
    guest = small.fold_in({3: 1.0, 4: 0.0})
    _, std, ends = guest.predict([5, "nothing"], return_std=True, quantiles=[0.2])
    assert (std > NOISE).all()
    assert ends.shape == (2, 1)
    assert (small.fold_in({3: 1.0}, new="item").predict([5], return_std=True)[1] > 0).all()


def test_files_and_updates_keep_it(small: Model, tmp_path: Path) -> None:
    small.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size <= 6000
    loaded = accams.load(tmp_path / "m")
    for one, other in zip(
        loaded.predict(TEST, return_std=True, quantiles=[0.1]), small.predict(TEST, return_std=True, quantiles=[0.1]),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(one, other)
    own = PAIRS[:, 0] == 6
    new = loaded.update(np.stack([np.full(own.sum(), M), PAIRS[own, 1]], axis=1), VALUES[own])
    stay = TEST[:50]
    np.testing.assert_array_equal(new.predict(stay, return_std=True)[1], small.predict(stay, return_std=True)[1])
    taken, average = (new.predict([(user, 3)], return_std=True)[1] for user in (M, "nobody"))
    np.testing.assert_array_equal(taken, average)  # nothing is known of a new user's noise
    assert (loaded.compress(3000, weights="uniform", verbose=False).predict(stay, return_std=True)[1] > 0).all()


def test_a_model_without_draws_has_none(tmp_path: Path) -> None:
    model = ACCAMS(3, 4).fit(PAIRS, VALUES)
    for each in (model, model.compress(3000, verbose=False)):
        for ask in ({"return_std": True}, {"quantiles": [0.5]}):
            with pytest.raises(InputError, match="needs a model that knows its predictive spread: BayesianACCAMS, or"):
                each.predict(TEST, **ask)
