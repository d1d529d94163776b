"""Files of earlier versions: what they predicted, they predict. See golden/make.py; they are never written again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from damage import parts

import accams
from accams.model.packing import Packed

FOLDER = Path(__file__).parent / "golden"
EXPECTED = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))
HISTORY = FOLDER / "history-2.accams"
LEVELS = [0.05, 0.5, 0.95]
SUMS = ["sum-entropy", "sum-packed", "sum-int8"]


def opened(name: str) -> accams.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a file without unknown parts is read without a word
        return accams.load(FOLDER / f"{name}.accams")


def predicted(model: accams.Model, name: str) -> np.ndarray:
    pairs = [tuple(pair) for pair in EXPECTED[name]["pairs"]]
    return model.stencils.predict(*zip(*pairs, strict=True)) if name in SUMS else model.predict(pairs)


def test_every_file_has_its_predictions():
    assert {path.stem for path in FOLDER.glob("*.accams")} == {*EXPECTED, HISTORY.stem}
    formats = [parts(FOLDER / f"{name}.accams")[0]["format"] for name in EXPECTED]
    assert formats.count(1) >= 12
    assert formats.count(2) >= 5


@pytest.mark.parametrize("name", EXPECTED)
def test_predictions(name):
    """To the last bits, in which processors differ; sums more so, whose terms 0.1.0 added in another order."""
    model, expected = opened(name), EXPECTED[name]
    np.testing.assert_allclose(predicted(model, name), expected["predictions"], rtol=1e-12 if name in SUMS else 1e-14)
    assert model.has_spread == ("std" in expected)
    if model.has_spread:
        pairs = [tuple(pair) for pair in expected["pairs"]]
        _, std, ends = model.predict(pairs, return_std=True, quantiles=LEVELS)
        np.testing.assert_allclose(std, expected["std"], rtol=1e-12)
        np.testing.assert_allclose(ends, expected["quantiles"], rtol=1e-12)


def test_three_sums_of_one_model():
    coded, packed, rounded = (opened(name).stencils for name in SUMS)
    assert (type(coded.stencils), type(packed.stencils)) == (tuple, Packed)
    assert all(s.step is None for s in coded.stencils)
    assert all(s.step is not None for s in rounded.stencils)
    np.testing.assert_array_equal(coded.dense(), packed.dense())
    np.testing.assert_allclose(rounded.dense(), coded.dense(), atol=0.05)
    assert (coded.unseen_rows.tolist(), coded.unseen_cols.tolist()) == ([3, 39], [0])


@pytest.mark.parametrize("name", ["accams-text", "accams-text-2"])
def test_text_ids(name):
    model = opened(name)
    assert model.info.estimator == "ACCAMS"
    assert len(model.users) == 23
    assert model.row_index.positions(["usér 0", "usér 5"]).tolist() == [0, -1]
    assert "film № 15" in model.items
    assert model.parameters["n_clusters"] == (4, 3)
    assert accams.ACCAMS().set_params(**model.parameters).n_stencils == 4


@pytest.mark.parametrize("name", ["bayesian", "bayesian-alike", "bayesian-2"])
def test_draws(name):
    model = opened(name)
    assert model.info.estimator == "BayesianACCAMS"
    assert len(model.posterior) == 4
    for draw in model.posterior.draws:
        assert draw.row_noise is not None
        assert draw.row_shares is not None
        assert draw.codes.row_effects is not None
    assert model.stencils.unseen_rows.tolist() == ([] if name == "bayesian-2" else [5])
    assert model.parameters["priors__row_noise"] == 8.0
    assert model.parameters["schedule__rao_blackwell"] is True
    again = accams.BayesianACCAMS().set_params(**model.parameters)
    assert (again.priors.effects, again.schedule.n_burn_in, again.noise) == ("continuous", 2, "sampled")


@pytest.mark.some(5)
@pytest.mark.parametrize("name", EXPECTED)
def test_saved_again_they_say_the_same(name, tmp_path):
    model = opened(name)
    model.save(tmp_path / "m")
    again = accams.load(tmp_path / "m")
    assert parts(tmp_path / "m")[0]["format"] == 2
    np.testing.assert_array_equal(predicted(again, name), predicted(model, name))
    for part in ("value_range", "clip", "sigma", "zero_weight", "evaluation", "fit_history", "parameters", "info"):
        np.testing.assert_equal(getattr(again, part), getattr(model, part))
    for one, other in zip(again.activity or (), model.activity or (), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["accams-seen", "accams-text-2"])
def test_what_was_observed_is_read(name):
    model = opened(name)
    best = model.recommend(model.users[:1], 16)
    assert len(best) + int(np.diff(model.interactions.starts)[0]) == len(model.items)
    assert len(model.interactions.columns) == 247


@pytest.mark.parametrize(("old", "new"), [("accams-evaluated", "accams-2"), ("zeros", "zeros-2")])
def test_both_formats_hold_the_same(old, new):
    """Of the same fit, as 0.1.0 and a later version did it."""
    one, two = opened(old), opened(new)
    assert (one.value_range, one.clip, one.sigma, one.zero_weight) == (
        two.value_range, two.clip, two.sigma, two.zero_weight,
    )  # fmt: skip
    assert (one.evaluation, one.info) == (two.evaluation, two.info)
    assert [step.rmse for step in one.fit_history] == [step.rmse for step in two.fit_history]
    for side in (0, 1):
        assert one.users.tolist() == two.users.tolist()
        np.testing.assert_array_equal(one.activity[side], two.activity[side])


def test_what_else_files_of_0_1_0_hold():
    model = opened("accams-evaluated")
    assert (model.clip, model.value_range, model.id_names) == ((1.0, 4.5), (0.5, 5.0), ("userId", "movieId"))
    assert (model.evaluation.n, model.evaluation.coverage) == (41, ())
    assert [(step.sweep, step.stencil) for step in model.fit_history] == [(s, t) for s in (0, 1) for t in (0, 1, 2)]
    assert len(model.interactions) == 206
    chains = opened("bayesian-evaluated")
    assert chains.parameters["schedule__backfit"] == 2  # it was schedule="backfit" with n_sweeps=2
    assert chains.parameters["noise"] == "auto"  # it was called "calibrated"
    assert chains.evaluation.covered(0.9) == pytest.approx(28 / 41)
    assert len(chains.diagnostics().rmse) == len(chains.fit_history) == 3
    small = opened("small")
    assert (small.info.estimator, small.posterior, small.has_spread) == ("StencilModel", None, False)
    assert small.sigma == chains.sigma
    assert opened("zeros").zero_weight == 0.25


def test_a_compressed_model_has_a_spread():
    model = opened("compressed-2")
    assert model.posterior is None
    assert model.spread.table.shape == (5, 5)
    assert (model.users.tolist(), model.items.tolist()) == (opened("bayesian-2").users.tolist(), list(range(-4, 12)))


def test_a_history_file():
    """With the model whose it is, and with one that has other positions for the same ids."""
    plain, known = (accams.load(FOLDER / "accams-2.accams", history=path) for path in (None, HISTORY))
    assert plain.interactions is None
    expected = opened("accams-evaluated").interactions
    np.testing.assert_array_equal(known.interactions.starts, expected.starts)
    np.testing.assert_array_equal(known.interactions.columns, expected.columns)
    seen = known.interactions.of(np.array([0]))[1]
    assert {each.item for each in known.recommend(3, 16)} == set(known.items) - set(known.items[seen])
    other = accams.load(FOLDER / "bayesian-2.accams", history=HISTORY)
    np.testing.assert_array_equal(other.interactions.columns, expected.columns)
