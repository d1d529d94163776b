"""BayesianACCAMS with slopes on what was rated: it helps where that tells something, and every use knows of it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accams
from accams import BayesianACCAMS, InputError, Observations

pytestmark = pytest.mark.usefixtures("short_explanations")
M, N = 150, 60


def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs, values and true means: people choose more of the items on their side of a line, and like them."""
    random = np.random.default_rng(0)
    users, items = random.normal(size=M), random.normal(size=N)
    mean = 3.0 + 0.9 * users[:, None] * items
    seen = random.random((M, N)) < 1.0 / (1.0 + np.exp(0.6 - 1.5 * users[:, None] * items))
    return np.argwhere(seen), (mean + random.normal(0.0, 0.5, mean.shape))[seen], mean


PAIRS, VALUES, MEAN = planted()
HIDDEN = np.setdiff1d(np.arange(M * N), PAIRS @ [N, 1])
ELSEWHERE = np.stack(np.divmod(HIDDEN, N), axis=1)


def make(implicit: Any = 2, **changes: Any) -> BayesianACCAMS:
    settings = {"n_stencils": 3, "n_clusters": 3, "n_chains": 4, "n_sweeps": 40, "noise": 0.5, "random_state": 0}
    return BayesianACCAMS(verbose=False).set_params(**(settings | changes), priors__implicit=implicit)


def error(model: Any) -> float:
    return float(np.sqrt(np.mean((model.predict(ELSEWHERE) - MEAN[tuple(ELSEWHERE.T)]) ** 2)))


@pytest.fixture(scope="module")
def fitted() -> BayesianACCAMS:
    return make().fit(PAIRS, VALUES)


@pytest.fixture(scope="module")
def plain() -> BayesianACCAMS:
    return make(None).fit(PAIRS, VALUES)


def test_what_was_rated_says_how(fitted: BayesianACCAMS, plain: BayesianACCAMS) -> None:
    assert fitted.posterior_.linear.rows.shape == (M + 1, 2)
    assert error(fitted) < 0.8 * error(plain)


def test_whoever_is_unknown_has_average_slopes(fitted: BayesianACCAMS) -> None:
    """As in stencils; slopes share what items of these features have in common for all users."""
    linear = fitted.posterior_.linear
    np.testing.assert_allclose(linear.rows[-1], linear.rows[:-1].mean(axis=0), atol=1e-6)
    guest = fitted.fold_in({0: 3.0}).predict(np.arange(N))
    known = fitted.predict(np.argwhere(np.ones((M, N)))).reshape(M, N)
    unknown = fitted.predict([(-7, j) for j in range(N)])
    assert np.abs(unknown - known.mean(axis=0)).mean() < 0.1
    assert np.abs(guest - unknown).mean() < 0.3


def test_kept_draws_predict_as_the_run_did() -> None:
    model = make(n_chains=2, n_sweeps=20, schedule__max_draws=10_000, schedule__n_burn_in=0).fit(
        PAIRS, VALUES, predict_at=ELSEWHERE[::10]
    )
    np.testing.assert_allclose(model.predict(ELSEWHERE[::10]), model.predicted_at_, atol=1e-4)


def test_a_calibrated_fit_has_honest_intervals() -> None:
    model = make(noise="calibrated", n_sweeps=60).fit(PAIRS, VALUES)
    _, ends = model.predict(ELSEWHERE, quantiles=[0.05, 0.95])
    truth = MEAN[tuple(ELSEWHERE.T)] + np.random.default_rng(1).normal(0.0, 0.5, len(ELSEWHERE))
    clipped = truth.clip(*model.value_range_)
    assert 0.84 < np.mean((clipped >= ends[:, 0]) & (clipped <= ends[:, 1])) < 0.96


def test_a_file(fitted: BayesianACCAMS, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    for one, other in zip(*(x.predict(ELSEWHERE, return_std=True) for x in (fitted, loaded)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("quantile", [None, 0.2])
def test_recommended_are_the_best_predictions(fitted: BayesianACCAMS, quantile: float | None) -> None:
    for user in (0, M - 1):
        all_items = [(user, j) for j in range(N)]
        mean, ends = fitted.predict(all_items, quantiles=[quantile or 0.5])
        scores = mean if quantile is None else ends[:, 0]
        best = fitted.recommend(user, n=5, exclude_seen=False, quantile=quantile)
        found = [x.item for x in best]
        assert np.sort(scores)[::-1][:5] == pytest.approx(scores[found], abs=1e-6)
        np.testing.assert_allclose([x.score for x in best], mean[found], atol=1e-9)


def test_somebody_new(fitted: BayesianACCAMS) -> None:
    """A stranger with the history of a user is predicted as that user is; so is one who is taken in, and an item."""
    told = dict(zip(PAIRS[PAIRS[:, 0] == 0][:, 1].tolist(), VALUES[PAIRS[:, 0] == 0].tolist(), strict=True))
    expected = fitted.predict([(0, j) for j in range(N)])
    guest = fitted.fold_in(told)
    assert np.corrcoef(guest.predict(np.arange(N)), expected)[0, 1] > 0.95
    mean, std = guest.predict([0, 1], return_std=True)
    assert np.all(std > 0.4)
    assert guest.recommend(n=1, exclude_seen=False)[0].score >= mean.max() - 1e-9
    taken = fitted.update([(M, j) for j in told], list(told.values()))
    assert np.corrcoef(taken.predict([(M, j) for j in range(N)]), expected)[0, 1] > 0.95
    item = PAIRS[PAIRS[:, 1] == 3]
    like = fitted.fold_in(dict(zip(item[:, 0].tolist(), VALUES[PAIRS[:, 1] == 3].tolist(), strict=True)), new="item")
    known = fitted.predict([(i, 3) for i in range(M)])
    assert np.corrcoef(like.predict(np.arange(M)), known)[0, 1] > 0.95


def test_a_user_who_is_forgotten(fitted: BayesianACCAMS) -> None:
    model = deepcopy(fitted.model_)
    before = model.predict([(7, j) for j in range(N)])
    model.forget(3)
    np.testing.assert_allclose(model.predict([(7, j) for j in range(N)]), before, atol=0.05)


def test_a_small_model_holds_what_slopes_say(fitted: BayesianACCAMS, plain: BayesianACCAMS) -> None:
    small = fitted.compress(3000, verbose=False)
    assert error(small) < error(plain)
    why = fitted.explain(0, 1)
    assert why.total() == why.prediction == fitted.predict([(0, 1)])[0]


def test_a_resumed_fit_is_the_same(tmp_path: Path, short_calibration: None) -> None:
    settings = {"schedule__checkpoint_every": 4, "checkpoint": tmp_path / "c"}
    short = {"noise": "calibrated", "n_sweeps": 12, "n_chains": 2}
    whole = make(**short).fit(PAIRS, VALUES)
    stop = [lambda report: report.phase == "sampling" and report.sweep == 6]
    make(**short, callbacks=stop).set_params(**settings).fit(PAIRS, VALUES)
    again = make(**short).set_params(**settings).fit(PAIRS, VALUES, resume=tmp_path / "c")
    np.testing.assert_array_equal(again.predict(ELSEWHERE), whole.predict(ELSEWHERE))


def test_slopes_are_there_however_few_sweeps_are_recorded() -> None:
    model = make(n_chains=2, n_sweeps=20, schedule__n_burn_in=17).fit(PAIRS, VALUES)
    assert model.posterior_.linear is not None


def test_the_seed_decides(chains_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.threads.SMALLEST_PIECE", 50)  # so that passes go to several threads
    one, other = (make(n_threads=n, n_sweeps=8, n_chains=2).fit(PAIRS, VALUES) for n in (1, 2))
    np.testing.assert_array_equal(one.predict(ELSEWHERE), other.predict(ELSEWHERE))


def test_the_default_depends_on_the_data() -> None:
    model = BayesianACCAMS(n_stencils=2, n_chains=1, n_sweeps=2, noise=1.0, verbose=False)
    assert model.fit(PAIRS, VALUES).posterior_.linear is not None
    by_chance = np.where(np.random.default_rng(0).random(MEAN.shape) < 0.5, MEAN, np.nan)
    assert model.fit(by_chance).posterior_.linear is None
    assert model.fit(MEAN).posterior_.linear is None  # nothing is missing
    with pytest.raises(InputError, match="implicit=3 features of what was observed cannot be had"):
        make(3).fit(MEAN)
    with pytest.raises(InputError, match="there can be 58 at most"):
        make(60).fit(Observations.from_coo(*PAIRS.T, VALUES))
