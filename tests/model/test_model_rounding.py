"""Smaller templates: each entry is off by no more than it may be, and files keep the steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import cells, random_sum

import accams
from accams.errors import InputError
from accams.model.stencils import Stencil, StencilSum, times

MODES = ["float16", "int8", "int4", 0.1, 1e-3, 1e-6]
SINGLE = 2.0**-23  # the products of whole numbers and steps are single precision


def model(scale: float = 1.0) -> StencilSum:
    rng = np.random.default_rng(0)
    made = StencilSum((40, 30), 3.0)
    for k in ((3, 2), (1, 4), (7, 7)):
        labels = (rng.integers(0, a, size) for a, size in zip(k, (40, 30), strict=True))
        made = made.append(rng.normal(size=k) * scale, *labels)
    return made


def allowed(template: np.ndarray, to: str | float) -> float:
    """How far an entry may be off."""
    most = float(np.abs(template).max())
    return {"float16": max(most / 2048, 2.0**-25), "int8": most / 254, "int4": most / 14}.get(to, to) + SINGLE * most


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("to", MODES)
def test_entries_are_within_their_error(to, scale):
    made = model(scale)
    for before, after in zip(made.templates, made.rounded(to).templates, strict=True):
        assert after.dtype == np.float32
        assert np.abs(after.astype(float) - before).max() <= allowed(before, to)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=12),
    st.sampled_from(["int8", "int4"]) | st.floats(1e-7, 10),
)
def test_entries_of_any_template_are_within_their_error(entries, to):
    template = np.array([entries], np.float32)
    template[np.abs(template) < 1e-30] = 0.0
    after = StencilSum((1, 1)).append(template, [0], [0]).rounded(to).templates[0]
    assert np.abs(after.astype(float) - template).max() <= allowed(template, to) * (1 + 1e-6)


@pytest.mark.parametrize("to", MODES)
def test_predictions_are_within_the_sum_of_errors(to):
    made = model()
    most = sum(allowed(T, to) for T in made.templates)
    difference = made.rounded(to).predict(*cells(made.shape)) - made.predict(*cells(made.shape))
    assert 0 < np.abs(difference).max() <= most


@pytest.mark.parametrize(("to", "most"), [("int8", 127), ("int4", 7)])
def test_whole_numbers_have_so_many_bits(to, most):
    for stencil in model().rounded(to).stencils:
        whole = stencil.template / np.float64(stencil.step)
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-4)
        assert np.abs(np.rint(whole)).max() == most


def test_steps():
    assert [s.step for s in model().stencils] == [None] * 3
    assert [s.step for s in model().rounded("float16").stencils] == [None] * 3
    assert [s.step for s in model().rounded(0.25).stencils] == [0.5] * 3
    for before, after in zip(model().templates, model().rounded("int8").stencils, strict=True):
        assert after.step == pytest.approx(np.abs(before).max() / 127)


def test_rounding_again_changes_nothing():
    for to in MODES:
        once = model().rounded(to)
        for one, two in zip(once.templates, once.rounded(to).templates, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6)


def test_other_parts_stay():
    made = random_sum(0, unseen=((1,), (2,)), effects=True)
    after = made.rounded("int8")
    assert (after.shape, after.offset, after.bits) == (made.shape, made.offset, made.bits)
    assert after.row_effects is made.row_effects
    assert after.unseen_cols is made.unseen_cols
    for one, two in zip(after.row_labels, made.row_labels, strict=True):
        np.testing.assert_array_equal(one, two)


def test_templates_of_zeros():
    made = StencilSum((1, 1)).append([[0.0]], [0], [0])
    for to in MODES:
        np.testing.assert_array_equal(made.rounded(to).templates[0], [[0.0]])


@pytest.mark.parametrize("to", ["int5", "float32", "", "0.5", 0, 0.0, -1.0, float("nan"), float("inf")])
def test_what_it_cannot_be_rounded_to(to):
    with pytest.raises(InputError, match="templates"):
        model().rounded(to)


def test_entries_too_large_for_16_bits():
    with pytest.raises(InputError, match="too large for float16"):
        model(1e6).rounded("float16")


@pytest.mark.parametrize("step", [0.1, 0.3, -0.5, 0.0, float("nan"), float("inf")])
def test_steps_that_do_not_fit(step):
    with pytest.raises(InputError, match="not integer multiples"):
        Stencil(np.array([[0.5, 1.25]]), np.zeros(1, int), np.zeros(1, int), step)


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["auto", "entropy", "packed"])
@pytest.mark.parametrize("to", MODES)
def test_files_keep_templates_and_steps(tmp_path, to, coding):
    rounded = model().rounded(to)
    rounded.save(tmp_path / "m", coding=coding)
    loaded = accams.load(tmp_path / "m").stencils
    for one, two in zip(loaded.stencils, rounded.stencils, strict=True):
        assert one.step == two.step
        assert one.template.dtype == np.float32
        np.testing.assert_array_equal(one.template, two.template)


def test_stencils_with_and_without_steps(tmp_path):
    rounded = model().rounded("int8").stencils
    mixed = StencilSum((40, 30), 0.0, (model().stencils[0], rounded[1], model().stencils[2], rounded[0]))
    mixed.save(tmp_path / "m")
    loaded = accams.load(tmp_path / "m").stencils
    assert [s.step for s in loaded.stencils] == [None, rounded[1].step, None, rounded[0].step]
    np.testing.assert_array_equal(loaded.dense(), mixed.dense())


def test_large_whole_numbers(tmp_path):
    template = times(np.array([[2**23 - 1, -(2**23) + 1, 1]]), 0.125)
    made = StencilSum((1, 1), 0.0, [Stencil(template, np.zeros(1, int), np.zeros(1, int), 0.125)])
    made.save(tmp_path / "m")
    np.testing.assert_array_equal(accams.load(tmp_path / "m").stencils.templates[0], template)


def test_rounded_files_are_smaller(tmp_path):
    made = StencilSum((2, 2)).append(np.random.default_rng(0).normal(size=(50, 50)), [0, 1], [0, 1])
    sizes = []
    for to in ("float16", "int8", "int4"):
        made.rounded(to).save(tmp_path / "m")
        sizes.append((tmp_path / "m").stat().st_size)
    made.save(tmp_path / "m")
    assert sizes[0] < (tmp_path / "m").stat().st_size - 4900
    assert sizes[2] < 2500 * 4 / 8 + 1000 < sizes[1] < 2500 + 1000 < sizes[0]


DATA = np.random.default_rng(1).normal(size=(30, 20))


@pytest.mark.some(4)
@pytest.mark.parametrize("to", MODES)
@pytest.mark.parametrize(
    "estimator",
    [
        accams.ACCAMS(3, 4),
        accams.BayesianACCAMS(3, 4, noise=0.8, n_chains=2, n_sweeps=4, schedule=accams.Schedule(n_burn_in=1, thin=1)),
    ],
    ids=["ACCAMS", "BayesianACCAMS"],
)
def test_estimators_with_rounded_templates(tmp_path, estimator, to):
    estimator.fit(DATA)
    estimator.save(tmp_path / "m", templates=to)
    loaded, pairs = accams.load(tmp_path / "m"), np.argwhere(DATA < 9)
    most = 3 * max(allowed(T, to) for T in estimator.stencils_.templates)
    assert 0 < np.abs(loaded.stencils.dense() - estimator.stencils_.dense()).max() <= most
    posterior = getattr(estimator, "posterior_", None)
    if posterior is not None:
        none = np.zeros(0, np.int64)
        templates = [T for draw in posterior.draws for T in draw.stencils(none, none).templates]
        most = 3 * max(allowed(T, to) for T in templates)
    assert np.abs(loaded.predict(pairs) - estimator.predict(pairs)).max() <= most
