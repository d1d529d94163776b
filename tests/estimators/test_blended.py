"""Models blended with effects, and models without stencils: every use of them, files, coverage."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accams
from accams import BayesianACCAMS, InputError, Priors, Schedule
from accams.fit import bayesian, calibrate
from accams.model import container

pytestmark = pytest.mark.usefixtures("short_explanations")
WEIGHTS = {"effects alone": 0.0, "blend": 0.4, "stencils alone": 1.0}
PAIRS = [("u1", "i1"), ("new", "i1"), ("u1", "new"), ("new", "new")]
POSITIONS = np.arange(40), np.arange(40)


def ratings(seed: int = 0, m: int = 200, n: int = 60, size: int = 900) -> tuple[list[tuple[str, str]], np.ndarray]:
    random = np.random.default_rng(seed)
    rows, cols = random.normal(0, 0.6, m), random.normal(0, 0.5, n)
    i, j = np.unique(np.stack([random.integers(m, size=size), random.integers(n, size=size)]), axis=1)
    values = 3.0 + rows[i] + cols[j] + random.normal(0, 0.7, len(i))
    return [(f"u{a}", f"i{b}") for a, b in zip(i, j, strict=True)], np.round(2.0 * values) / 2.0


X, Y = ratings()


@pytest.fixture(scope="module", params=WEIGHTS)
def fitted(request: pytest.FixtureRequest) -> tuple[float, BayesianACCAMS]:
    """A model whose calibration found this weight."""
    weight = WEIGHTS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayesian, "stage_sweeps", lambda _: (6, 3))
        patch.setattr(calibrate, "MOST_SHIFTS", 1)
        patch.setattr(calibrate, "blend_weight", lambda *_: weight)
        patch.setattr(calibrate.CalibrationSet, "improved_by", lambda *_: weight > 0.0)
        model = BayesianACCAMS(n_clusters=3, n_chains=2, n_sweeps=12, random_state=0, verbose=False)
        if weight:
            model.fit(X, Y)
        else:
            with pytest.warns(UserWarning, match="no stencils"):
                model.fit(X, Y)
    return weight, model


def test_the_weight(fitted: tuple[float, BayesianACCAMS]) -> None:
    weight, model = fitted
    assert model.calibration_.weight == weight
    assert model.n_stencils_ == (10 if weight else 0)
    assert (model.stencils_.row_effects is None) == (weight == 1.0)
    effects = model.posterior_.effects
    assert effects.blended == (weight < 1.0)


def test_new_items_are_taken_in(fitted: tuple[float, BayesianACCAMS], tmp_path: Path) -> None:
    weight, model = fitted
    told = [(f"u{a}", item) for item in ("good", "bad") for a in range(12)]
    updated = model.model_.update(told, [5.0] * 12 + [1.0] * 12, history="model")
    both = [("u20", "good"), ("u20", "bad"), ("u20", "unheard")]
    if weight < 1.0:
        assert updated.predict(both)[0] > updated.predict(both)[1]
        assert len({id(draw.codes.col_effects) for draw in updated.posterior.draws}) == 1
        assert (updated.predict(both, return_std=True)[1][:2] < updated.predict(both, return_std=True)[1][2]).all()
    updated.save(tmp_path / "m.accams", history=True)
    loaded = accams.load(tmp_path / "m.accams")
    np.testing.assert_array_equal(loaded.predict(both[:2]), updated.predict(both[:2]))
    found = [each.predict(both[:2], return_std=True)[1] for each in (loaded, updated)]
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_spreads_are_wider_where_less_is_known(fitted: tuple[float, BayesianACCAMS]) -> None:
    std = fitted[1].predict(PAIRS, return_std=True)[1]
    assert std[0] < min(std[1], std[2]) < max(std[1], std[2]) < std[3]


def test_files(fitted: tuple[float, BayesianACCAMS], tmp_path: Path) -> None:
    weight, model = fitted
    model.save(tmp_path / "m")
    loaded = accams.load(tmp_path / "m")
    for before, after in zip(
        model.predict(PAIRS, return_std=True), loaded.predict(PAIRS, return_std=True), strict=True
    ):
        np.testing.assert_allclose(before, after, rtol=1e-6)
    if weight < 1.0:
        first, *rest = (draw.codes for draw in loaded.posterior.draws)
        assert all(codes.row_effects is first.row_effects for codes in rest)
    (tmp_path / "n").write_bytes((tmp_path / "m").read_bytes())
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.covering
@pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.full(2, np.nan, np.float32), np.zeros(2)])
def test_damaged_deviations(fitted: tuple[float, BayesianACCAMS], wrong: Any, tmp_path: Path) -> None:
    fitted[1].save(tmp_path / "m")
    header, tensors = container.read(tmp_path / "m", "model", 99)
    tensors["posterior/effect_stds"] = wrong
    (tmp_path / "m").write_bytes(container.to_bytes(header, tensors))
    with pytest.raises(accams.ModelFileError, match="deviations of its effects"):
        accams.load(tmp_path / "m")


def test_a_damaged_variance_of_interactions(fitted: tuple[float, BayesianACCAMS], tmp_path: Path) -> None:
    fitted[1].save(tmp_path / "m")
    header, tensors = container.read(tmp_path / "m", "model", 99)
    header["parts"]["posterior"]["interaction_variance"] = -1.0
    (tmp_path / "m").write_bytes(container.to_bytes(header, tensors))
    with pytest.raises(accams.ModelFileError, match="interaction_variance"):
        accams.load(tmp_path / "m")


def test_quantiles_rank_by_all_of_the_spread(fitted: tuple[float, BayesianACCAMS]) -> None:
    model = fitted[1]
    items = [item for item in model.model_.col_index.ids.tolist() if ("u1", item) not in set(X)]
    mean, std = model.predict([("u1", item) for item in items], return_std=True)
    order = np.argsort(-(mean - 1.2815515655 * std), kind="stable")[:5]
    found = model.recommend("u1", 5, quantile=0.1)["item"].tolist()
    assert found == [items[p] for p in order]


@pytest.mark.some(1)
def test_folding_in(fitted: tuple[float, BayesianACCAMS]) -> None:
    """More values, less spread; without stencils, the effect is the mean residual, shrunken."""
    weight, model = fitted
    few, many = model.fold_in({"i1": 4.5}), model.fold_in({f"i{p}": 4.5 for p in range(1, 12)})
    assert many.predict(["i40"])[0] > few.predict(["i40"])[0]
    if weight < 1.0:
        assert many.predict(["i40"], return_std=True)[1] < few.predict(["i40"], return_std=True)[1]
        assert few.predict(["i40"], return_std=True)[1] < model.predict([("new", "i40")], return_std=True)[1]
    if weight == 0.0:
        base = model.predict([("new", "i1"), ("new", "i40")])
        ratio = model.model_.noise**2 / model.posterior_.effects.priors[0]
        assert few.predict(["i40"])[0] == pytest.approx(base[1] + (4.5 - base[0]) / (1 + ratio), rel=1e-5)
    assert len(few.recommend(3, quantile=0.2)) == 3
    assert few.explain("i40").total() == pytest.approx(few.predict(["i40"])[0])
    assert np.isfinite(model.fold_in({"u1": 4.0}, new="item").predict(["u2", "u3"])).all()


def test_updating_and_forgetting(fitted: tuple[float, BayesianACCAMS]) -> None:
    weight, model = fitted
    told = [("u1", "i1"), ("somebody", "i2"), ("somebody", "i3")]
    updated = model.model_.update(told, [5.0, 1.0, 1.0])
    assert updated.predict([("somebody", "i9")])[0] < updated.predict([("nobody", "i9")])[0]
    std = updated.predict([("somebody", "i9"), ("nobody", "i9")], return_std=True)[1]
    assert std[0] < std[1]
    if weight < 1.0:
        assert len({id(draw.codes.row_effects) for draw in updated.posterior.draws}) == 1


@pytest.mark.some(1)
def test_every_other_use(fitted: tuple[float, BayesianACCAMS], tmp_path: Path) -> None:
    weight, model = fitted
    assert model.explain("u1", "i1").total() == pytest.approx(model.predict([("u1", "i1")])[0])
    small = model.model_.compress(9000)
    np.testing.assert_allclose(small.predict(PAIRS[:2]), model.predict(PAIRS[:2]), atol=0.3)
    assert model.model_.evaluate(X, Y).rmse < 1.0
    assert len(model.recommend("u2", 4)) == 4
    if weight:
        assert len(model.similar("i1", 3)) == 3
        return
    for use in (lambda: model.similar("i1"), lambda: model.model_.report(tmp_path / "r.html")):
        with pytest.raises(InputError, match="has no stencils"):
            use()


def stretched(monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> BayesianACCAMS:
    """A fit of so many stencils, whose interactions are to be multiplied by 1.3, and which keeps all draws."""
    monkeypatch.setattr(calibrate, "blend_weight", lambda *_: 1.3)
    settings = {"n_stencils": 3, "n_clusters": 3, "n_chains": 2, "n_sweeps": 12, "clip": False, "random_state": 0}
    model = BayesianACCAMS(**settings, schedule=Schedule(thin=1), verbose=False, **parameters)
    return model.fit(X, Y, predict_at=X[:200])


def test_predictions_asked_for_in_advance_are_those_of_stretched_draws(
    monkeypatch: pytest.MonkeyPatch, quick_calibration: None
) -> None:
    model = stretched(monkeypatch)
    plain = stretched(monkeypatch, priors=Priors(effects=None))
    assert (model.calibration_.weight, plain.calibration_.weight) == (1.3, 1.0)
    mean = model.predict(X[:200])
    np.testing.assert_allclose(model.predicted_at_, mean, rtol=1e-6)
    assert np.abs(mean - plain.predict(X[:200])).max() > 0.01
    one, other = (each.stencils_.predict(*POSITIONS) for each in (model, plain))
    np.testing.assert_allclose(one, other, rtol=1e-6)  # a single draw is not stretched


def test_a_calibration_that_was_stopped_stretches_nothing(
    monkeypatch: pytest.MonkeyPatch, quick_calibration: None
) -> None:
    model = stretched(monkeypatch, callbacks=[lambda report: report.sweep == 5])
    assert model.calibration_.weight == 1.3
    draw = next(d for d in reversed(model.posterior_.draws) if d.chain == 0)
    np.testing.assert_array_equal(draw.predict(*POSITIONS), model.stencils_.predict(*POSITIONS))


@pytest.mark.full  # tests/estimators/test_spread.py has intervals of known rows and columns
@pytest.mark.parametrize(("seed", "interactions"), [(0, 0.0), (1, 1.0), (1, 0.0), (0, 1.0)])
def test_new_rows_and_columns_are_covered(seed: int, interactions: float) -> None:
    """80 % intervals of new rows, new columns and both hold 65 to 92 %.

    Without the variance of effects they held half as much, and without that of interactions 52 to 67 %.
    """
    random = np.random.default_rng(seed)
    m, n, new = 260, 160, 60
    rows, cols = random.normal(0, 1.0, m), random.normal(0, 0.8, n)
    values = 3.0 + rows[:, None] + cols + random.normal(0, 0.4, (m, n))
    values += interactions * np.outer(random.choice([-1.0, 1.0], m), random.choice([-1.0, 1.0], n))
    hidden = random.random((m, n)) < 0.75
    hidden[-new:], hidden[:, -new:] = True, True
    model = BayesianACCAMS(n_sweeps=40, n_chains=4, clip=False, random_state=0, verbose=False).fit(
        np.where(hidden, np.nan, values)
    )
    i, j = np.indices((m, n)).reshape(2, -1)
    mean, std = model.predict(np.stack([i, j], axis=1), return_std=True)
    inside = np.abs(mean - values.ravel()) < 1.2816 * std
    for some in ((i >= m - new) & (j < n - new), (i < m - new) & (j >= n - new), (i >= m - new) & (j >= n - new)):
        assert 0.65 < inside[some].mean() < 0.92  # 60 effects each: a standard error of 5 %


@pytest.fixture(scope="module")
def partly_seen() -> tuple[BayesianACCAMS, np.ndarray]:
    """Interactions that stencils find, and a row and a column without observations."""
    random = np.random.default_rng(3)
    values = np.outer(random.choice([-1.0, 1.0], 80), random.choice([-1.0, 1.0], 50)) + random.normal(0, 0.4, (80, 50))
    values[random.random(values.shape) < 0.4] = np.nan
    values[-1], values[:, -1] = np.nan, np.nan
    return BayesianACCAMS(2, 2, n_sweeps=20, n_chains=2, clip=False, random_state=0, verbose=False), values


@pytest.mark.parametrize("noise", ["calibrated", "sampled"])
def test_the_scale_of_weights_does_not_change_what_is_unknown(
    partly_seen: tuple[BayesianACCAMS, np.ndarray], noise: str, quick_calibration: None
) -> None:
    model, values = partly_seen
    found = []
    for weight in (1.0, 10.0):
        model.set_params(noise=noise).fit(values, sample_weight=np.where(np.isnan(values), np.nan, weight))
        found.append(model.posterior_.effects.interaction_variance)
    assert found[0] == pytest.approx(1.0, abs=0.25)
    assert found[1] == pytest.approx(found[0], rel=0.1)


def test_quantiles_of_items_never_seen(partly_seen: tuple[BayesianACCAMS, np.ndarray], quick_calibration: None) -> None:
    """A candidate without observations is ranked by its own spread."""
    model, values = partly_seen
    model.set_params(noise="calibrated").fit(values)
    some = [0, 1, 2, 49]
    mean, std = model.predict([[0, j] for j in some], return_std=True)
    order = np.argsort(-(mean - 1.2815515655 * std), kind="stable")
    found = model.recommend(0, 4, quantile=0.1, candidates=some, exclude_seen=False)["item"].tolist()
    assert found == [some[p] for p in order]
