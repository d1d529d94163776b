"""Files of earlier versions: what they predicted, they predict. See golden/make.py; they are never written again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import accams
from accams.model.packing import Packed

FOLDER = Path(__file__).parent / "golden"
EXPECTED = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))
LEVELS = [0.05, 0.5, 0.95]


def opened(name: str):
    return accams.load(FOLDER / f"{name}.accams")


def test_every_file_has_its_predictions():
    assert {path.stem for path in FOLDER.glob("*.accams")} == set(EXPECTED)
    assert len(EXPECTED) >= 5


@pytest.mark.parametrize("name", EXPECTED)
def test_predictions(name):
    model, expected = opened(name), EXPECTED[name]
    pairs = [tuple(pair) for pair in expected["pairs"]]
    found = model.predict(*zip(*pairs, strict=True)) if isinstance(model, accams.StencilSum) else model.predict(pairs)
    np.testing.assert_allclose(found, expected["predictions"], rtol=1e-12)
    if "std" in expected:
        _, std, ends = model.predict(pairs, return_std=True, quantiles=LEVELS)
        np.testing.assert_allclose(std, expected["std"], rtol=1e-12)
        np.testing.assert_allclose(ends, expected["quantiles"], rtol=1e-12)


def test_three_sums_of_one_model():
    coded, packed, rounded = (opened(f"sum-{name}") for name in ("entropy", "packed", "int8"))
    assert (type(coded.stencils), type(packed.stencils)) == (tuple, Packed)
    assert all(s.step is None for s in coded.stencils)
    assert all(s.step is not None for s in rounded.stencils)
    np.testing.assert_array_equal(coded.dense(), packed.dense())
    np.testing.assert_allclose(rounded.dense(), coded.dense(), atol=0.05)
    assert (coded.unseen_rows.tolist(), coded.unseen_cols.tolist()) == ([3, 39], [0])


def test_text_ids():
    model = opened("accams-text")
    assert isinstance(model, accams.ACCAMS)
    assert len(model.row_index_) == 23
    assert model.row_index_.positions(["usér 0", "usér 5"]).tolist() == [0, -1]
    assert "film № 15" in model.col_index_.ids


def test_draws():
    model = opened("bayesian")
    assert isinstance(model, accams.BayesianACCAMS)
    assert len(model.posterior_) == 4
    for draw in model.posterior_.draws:
        assert draw.row_noise is not None
        assert draw.row_shares is not None
        assert draw.codes.row_effects is not None
    assert model.stencils_.unseen_rows.tolist() == [5]
    assert model.get_params()["row_noise"] == 8.0


@pytest.mark.parametrize("name", EXPECTED)
def test_saved_again_they_say_the_same(name, tmp_path):
    model = opened(name)
    model.save(tmp_path / "m")
    again, pairs = accams.load(tmp_path / "m"), [tuple(pair) for pair in EXPECTED[name]["pairs"]]
    args = tuple(zip(*pairs, strict=True)) if isinstance(model, accams.StencilSum) else (pairs,)
    np.testing.assert_array_equal(again.predict(*args), model.predict(*args))


def test_what_was_observed_is_read():
    model = opened("accams-seen")
    found = model.recommend(model.row_index_.ids[:1], 100)
    assert len(found) + int(np.diff(model.seen_.starts)[0]) == len(model.col_index_)
    assert len(model.seen_.columns) == 247
