"""Values, templates and weights on the grid."""

from __future__ import annotations

from math import frexp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.data.observations import Observations
from accams.data.weights import TOTAL_BITS
from accams.engine.grid import MAX_TICK, VALUE_BITS, Grid


def line(values, weights=None) -> Observations:
    values = np.asarray(values, dtype=np.float64)[None, :]
    return Observations.from_dense(values, weights=None if weights is None else np.asarray(weights)[None, :])


def check(grid: Grid, obs: Observations) -> np.ndarray:
    """What holds on any grid; returns the ticks."""
    x, ticks = obs.values, grid.ticks_of(obs.stored_values)
    assert frexp(grid.step)[0] == 0.5  # a power of two
    assert grid.offset / grid.step == np.rint(grid.offset / grid.step)
    assert np.abs(ticks.astype(np.int64)).max() <= 2**VALUE_BITS + 1
    slack = np.abs(x).max() * 2.0**-50
    assert np.abs(grid.offset + ticks * grid.step - x).max() <= grid.step / 2 + slack
    return ticks


reals = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: x if abs(x) > 1e-9 else 0.0)


@settings(deadline=None, max_examples=40)
@given(values=st.lists(reals, min_size=1, max_size=20), scale=st.sampled_from([1e-12, 1.0, 1e12]))
def test_any_values(values, scale):
    obs = line(np.array(values) * scale)
    grid = Grid.of(obs, 3)
    check(grid, obs)
    span = max(obs.value_range[1] - obs.mean(), obs.mean() - obs.value_range[0])
    if span > 0:
        assert 2 ** (VALUE_BITS - 1) < span / grid.step <= 2**VALUE_BITS


@settings(deadline=None, max_examples=40)
@given(values=st.lists(st.integers(-(2**18), 2**18), min_size=1, max_size=20), halves=st.booleans())
def test_whole_numbers_and_half_stars_are_exact(values, halves):
    obs = line(np.array(values) / (2 if halves else 1))
    grid = Grid.of(obs, 3)
    ticks = check(grid, obs)
    np.testing.assert_array_equal(grid.offset + ticks * grid.step, obs.values)


def test_a_large_offset_costs_no_precision():
    x = 1e6 + np.random.default_rng(0).random(1000)
    obs = line(x)
    grid = Grid.of(obs, 3)
    check(grid, obs)
    assert grid.step <= 2.0**-VALUE_BITS
    assert np.abs(grid.offset + grid.ticks_of(obs.stored_values) * grid.step - x).max() <= grid.step / 2 + 2.0**-33


@pytest.mark.parametrize("value", [0.0, 5.0, -3.25, 0.1, 1e6 + 0.1, -1e12, 1e-12])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_constant_data(value, size):
    obs = line(np.full(size, value))
    grid = Grid.of(obs, 3)
    check(grid, obs)
    np.testing.assert_allclose(grid.offset + grid.ticks_of(obs.stored_values) * grid.step, value, rtol=2.0**-21)


@pytest.mark.parametrize("offset", [0.0, 3.5, -100.0, 1000.1])
def test_the_offset_may_be_given(offset):
    obs = line([1.0, 2.0, 5.0])
    grid = Grid.of(obs, 3, offset)
    check(grid, obs)
    assert abs(grid.offset - offset) <= grid.step / 2


def test_ticks_of_more_than_one_block():
    x = np.random.default_rng(0).normal(size=(1 << 16) + 5)
    obs = line(x)
    check(Grid.of(obs, 1), obs)


@pytest.mark.parametrize("n_stencils", [0, 1, 6, 100, 127, 128, 511, 5000])
def test_no_sum_of_stencils_can_overflow(n_stencils):
    """The data, all stencils, and one more while it is being taken out."""
    grid = Grid.of(line([1.0, 2.0, 5.0]), n_stencils)
    assert 1 <= grid.limit <= 2**24
    assert 2**VALUE_BITS + 1 + (n_stencils + 1) * grid.limit <= MAX_TICK
    if n_stencils <= 500:
        assert grid.limit >= 2**VALUE_BITS  # a template may hold any value of the data


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4), st.sampled_from([1, 100]))
def test_templates_are_rounded_and_bounded(entries, n_stencils):
    grid = Grid.of(line([1.0, 2.0, 5.0]), n_stencils)
    T = grid.template(np.array(entries).reshape(2, 2))
    assert T.dtype == np.int32
    expected = np.clip(entries, -grid.limit, grid.limit)
    assert np.abs(T.ravel() - expected).max() <= 0.5
    np.testing.assert_array_equal(grid.values(T).astype(np.float64), T * grid.step)  # float32 holds it exactly


positive = st.floats(1e-9, 1e9)


@settings(deadline=None, max_examples=40)
@given(weights=st.lists(positive, min_size=1, max_size=20))
def test_weights_are_never_zero(weights):
    obs = line(np.arange(len(weights)), weights)
    grid = Grid.of(obs, 3)
    ticks = obs.stored_weights.astype(np.int64)
    assert frexp(grid.weight_step)[0] == 0.5
    assert ticks.min() >= 1
    assert ticks.max() <= 2**24
    given_weights = np.array(weights)
    big = given_weights >= max(weights) * 2.0**-15
    np.testing.assert_allclose(ticks[big] * grid.weight_step, given_weights[big], rtol=2.0**-8)
    np.testing.assert_array_equal(ticks * grid.weight_step, obs.weights)


def test_simple_weights_are_exact():
    weights = [0.25, 0.5, 1, 2, 3, 4, 5, 8]
    np.testing.assert_array_equal(line(np.arange(8), weights).weights, weights)


def test_without_weights_the_step_is_one():
    assert Grid.of(line([1.0, 2.0]), 1).weight_step == 1.0


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-5, 1e-9])
def test_all_weights_together_leave_room_for_the_residual(smallest):
    """Sums of weight times residual must fit into 64 bits: 39 bits for all weights, 22 for a residual."""
    weights = np.ones((1024, 1024))
    weights[0, 0] = smallest
    obs = Observations.from_dense(np.ones((1024, 1024)), weights=weights)
    assert obs.stored_weights.sum(dtype=np.float64) <= 2.0**TOTAL_BITS * 1.01
