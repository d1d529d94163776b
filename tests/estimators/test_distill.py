"""Small models in place of large ones: distilled, compressed, saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest
from bayes_models import make

import accams
from accams import ACCAMS, InputError, Model, StencilSum
from accams.data.planted import planted_stencils
from accams.fitted.distilling import fits_as_it_is
from accams.model import file

PLANTED = planted_stencils((150, 80), 3, 4, nnz=4000, noise=0.3, random_state=0)
IDS = [f"user {i}" for i in range(150)], [f"item {j}" for j in range(80)]


def pairs_and_values():
    i, j, y = PLANTED.observations.coo()
    return np.array([[IDS[0][a], IDS[1][b]] for a, b in zip(i, j, strict=True)], dtype=object), y


MODELS = {"bayes": make(n_stencils=4, n_clusters=5, n_sweeps=12), "accams": ACCAMS(6, 5)}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return MODELS[request.param].fit(*pairs_and_values())


def difference(one, other) -> float:
    cells = [[a, b] for a in IDS[0][::7] for b in IDS[1][::5]]
    return float(np.sqrt(np.mean((one.predict(cells) - other.predict(cells)) ** 2)))


@pytest.mark.some(1)
def test_distilled(fitted, tmp_path):
    small = fitted.distill(4000)
    assert isinstance(small, StencilSum)
    small.save(tmp_path / "s")
    assert (tmp_path / "s").stat().st_size <= 4000
    again = accams.load(tmp_path / "s")
    np.testing.assert_array_equal(again.stencils.dense(), small.dense())


@pytest.mark.some(1)
def test_compressed(fitted, tmp_path):
    spread = float(np.std(fitted.predict(pairs_and_values()[0])))
    errors = []
    for max_bytes in (3000, 6000):
        small = fitted.compress(max_bytes)
        assert isinstance(small, Model)
        small.save(tmp_path / "s")
        assert (tmp_path / "s").stat().st_size <= max_bytes
        again = accams.load(tmp_path / "s")
        assert isinstance(again, Model)
        assert difference(again, small) == 0.0
        assert again.value_range == fitted.value_range_
        errors.append(difference(small, fitted))
    assert errors[1] <= errors[0] < 0.5 * spread
    assert small.score(*pairs_and_values()) < 0.0


@pytest.mark.some(1)
def test_without_ids(fitted, tmp_path):
    small = fitted.compress(2500, ids=False)
    small.save(tmp_path / "s", ids=False)
    assert (tmp_path / "s").stat().st_size <= 2500
    again = accams.load(tmp_path / "s")
    np.testing.assert_array_equal(again.predict([[0, 0], [149, 79]]), small.stencils.predict([0, 149], [0, 79]))


@pytest.mark.some(1)
def test_activity_survives_a_file(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again = accams.load(tmp_path / "m")
    for one, two in zip(again.activity, fitted.activity_, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.distill(3000).dense(), fitted.distill(3000).dense())


def test_activity_is_about_the_number_of_observations(fitted):
    counts = PLANTED.observations.counts(0)
    np.testing.assert_allclose(fitted.activity_[0], counts + 1, rtol=0.2)


@pytest.mark.some(1)
@pytest.mark.parametrize("weights", ["uniform", (np.ones(150), np.arange(1.0, 81.0))])
def test_weights(fitted, weights):
    assert len(fitted.distill(3000, weights=weights)) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_bytes": 100}, "max_bytes=100 is too small"),
        ({"max_bytes": 0}, "max_bytes must be an integer of at least 1"),
        ({"max_bytes": "50k"}, "max_bytes must be an integer of at least 1"),
        ({"max_bytes": 3000, "weights": "busy"}, "weights must be 'activity', 'uniform' or a pair of arrays"),
        ({"max_bytes": 3000, "weights": (np.ones(150), np.ones(79))}, "column weights must be 80 numbers above 0"),
        ({"max_bytes": 3000, "weights": (np.zeros(150), np.ones(80))}, "row weights must be 150 numbers above 0"),
    ],
)
def test_bad_arguments(fitted, arguments, message):
    with pytest.raises(InputError, match=message):
        fitted.distill(**arguments)


def test_too_few_bytes_for_the_ids(fitted):
    with pytest.raises(InputError, match=r"too small: .* of them for ids, which can be left out"):
        fitted.compress(700)


def test_activity_that_is_not_known(fitted, tmp_path):
    fitted.save(tmp_path / "m", ids=False)
    with pytest.raises(InputError, match="does not know how many observations"):
        accams.load(tmp_path / "m").distill(3000)


def test_not_fitted():
    for method in ("distill", "compress"):
        with pytest.raises(Exception, match="not fitted"):
            getattr(ACCAMS(), method)(1000)


def test_a_model_that_fits_stays_as_it_is(tmp_path):
    """Whole, or with its templates rounded; only where neither fits is anything lost."""
    model = ACCAMS(6, 5).fit(*pairs_and_values())
    whole = model.stencils_
    whole.save(tmp_path / "whole")
    whole.rounded("int8").save(tmp_path / "rounded")
    sizes = [(tmp_path / name).stat().st_size for name in ("whole", "rounded")]
    np.testing.assert_array_equal(model.distill(sizes[0]).dense(), whole.dense())
    np.testing.assert_allclose(model.distill(sizes[1]).dense(), whole.dense(), atol=0.05)
    assert np.abs(model.distill(sizes[1] - 200).dense() - whole.dense()).max() > 0.0


def test_numbers_too_large_for_half_floats():
    """Rounding to 16 bits is passed over; to 8 bits it is possible."""
    pairs, y = pairs_and_values()
    whole = ACCAMS(6, 5).fit(pairs, 1e6 * y).stencils_
    size = len(file.to_bytes(whole.rounded("int8")))
    found = fits_as_it_is(whole, size)
    assert found is not None
    np.testing.assert_array_equal(found.dense(), whole.rounded("int8").dense())
    assert fits_as_it_is(whole, size - 1) is None


@pytest.mark.some(1)
def test_a_small_model_becomes_smaller(fitted):
    """It still knows how active its rows and columns were, though its file does not."""
    small = fitted.compress(4000)
    assert len(small.compress(2600).stencils.size.stencils) <= len(small.stencils)
