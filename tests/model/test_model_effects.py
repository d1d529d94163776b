"""Effects of rows and columns beside the stencils of a sum."""

from __future__ import annotations

import numpy as np
import pytest
from posteriors import brute, cells, random_sum

from accams.data.observations import Observations
from accams.errors import InputError
from accams.model import file
from accams.model.stencils import StencilSum

UNSEEN = [((), ()), ((2,), ()), ((0, 8), (3, 4))]


@pytest.mark.parametrize("unseen", UNSEEN)
def test_predictions(unseen):
    """Rows and columns never seen have none."""
    model = random_sum(unseen=unseen, effects=True)
    i, j = cells(model.shape)
    expected = [brute(model, *cell) for cell in zip(i, j, strict=True)]
    np.testing.assert_allclose(model.predict(i, j), expected, rtol=1e-5, atol=1e-6)
    seen = (i >= 0) & (j >= 0)
    np.testing.assert_allclose(model.dense().ravel(), model.predict(i, j)[seen], rtol=1e-6)


def test_one_side_alone():
    model = StencilSum((2, 3), 1.0, row_effects=np.array([0.5, -0.5]))
    np.testing.assert_array_equal(model.dense(), [[1.5] * 3, [0.5] * 3])
    np.testing.assert_array_equal(model.predict([0, -1], [-1, 0]), [1.5, 1.0])
    assert model.bits == 2 * 32
    np.testing.assert_array_equal(StencilSum((2, 3), col_effects=np.arange(3.0)).dense(), [[0, 1, 2]] * 2)


def test_bits():
    plain, more = random_sum(), random_sum(effects=True)
    assert more.bits == plain.bits + 32 * (9 + 7)


def test_building_keeps_them():
    model = random_sum(effects=True)
    more = model.append([[1.0]], np.zeros(9, int), np.zeros(7, int))
    np.testing.assert_allclose(more.dense(), model.dense() + 1.0, rtol=1e-6)
    np.testing.assert_array_equal(more.truncate(3).dense(), model.dense())
    only = model.truncate(0).dense() - model.offset
    np.testing.assert_allclose(only, np.add.outer(model.row_effects, model.col_effects), atol=1e-6)


def test_residual():
    model = random_sum(effects=True)
    observations = Observations.from_dense(model.dense() + 0.25)
    np.testing.assert_allclose(model.residual(observations), 0.25, atol=1e-6)


@pytest.mark.parametrize("bad", [np.zeros(8), np.zeros((9, 1)), np.full(9, np.nan), np.full(9, np.inf)])
def test_effects_that_make_no_sense(bad):
    with pytest.raises(InputError, match="row_effects must be 9 finite numbers"):
        StencilSum((9, 7), row_effects=bad)


def test_a_saved_sum_keeps_them(tmp_path):
    model = random_sum(effects=True, unseen=((2,), (3,)))
    file.save(tmp_path / "m", model)
    read = file.read(tmp_path / "m")
    np.testing.assert_array_equal(read.dense(), model.dense())
    assert read.bits == model.bits
