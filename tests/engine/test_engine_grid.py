"""Values, templates and weights on the grid."""

from __future__ import annotations

from math import frexp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from accams.data.observations import Observations
from accams.data.weights import TOTAL_BITS
from accams.engine.grid import (
    MAX_ROW_WEIGHT,
    MAX_TICK,
    ROW_TOTAL_BITS,
    ROW_WEIGHT_BITS,
    VALUE_BITS,
    WEIGHT_TOTAL_BITS,
    Grid,
    row_weight_step,
)


def line(values, weights=None) -> Observations:
    values = np.asarray(values, dtype=np.float64)[None, :]
    return Observations.from_dense(values, weights=None if weights is None else np.asarray(weights)[None, :])


def check(grid: Grid, obs: Observations) -> np.ndarray:
    """Assert properties of any grid, and return the ticks."""
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


@pytest.mark.some(2)
@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-5, 1e-9])
def test_all_weights_together_leave_room_for_the_residual(smallest):
    """Sums of weight times residual must fit into 64 bits: 39 bits for all weights, 22 for a residual."""
    weights = np.ones((1024, 1024))
    weights[0, 0] = smallest
    obs = Observations.from_dense(np.ones((1024, 1024)), weights=weights)
    assert obs.stored_weights.sum(dtype=np.float64) <= 2.0**TOTAL_BITS * 1.01


# -- with row weights ----------------------------------------------------------------------------------------


CELLS = 300


def rows_of(weights) -> Observations:
    """Three hundred equal cells per row, with this weight: enough for all together to be beyond the coarse grid."""
    weights = np.repeat(np.asarray(weights, dtype=np.float64)[:, None], CELLS, axis=1)
    return Observations.from_dense(np.ones(weights.shape) * np.arange(len(weights))[:, None], weights=weights)


@settings(deadline=None, max_examples=60)
@given(weights=st.lists(positive, min_size=1, max_size=30))
def test_row_weights_make_weights_coarser_but_never_zero(weights):
    obs = rows_of(weights)
    fine, coarse = Grid.of(obs, 3), Grid.of(obs, 3, row_weights=True)
    ticks = coarse.weight_ticks(obs)
    assert coarse.weight_step >= fine.weight_step
    assert frexp(coarse.weight_step)[0] == 0.5
    assert ticks.dtype == np.int32
    assert ticks.min() >= 1
    assert ticks.sum(dtype=np.float64) <= 2.0**WEIGHT_TOTAL_BITS + ticks.size
    assert np.abs(np.maximum(obs.weights.ravel(), coarse.weight_step) - ticks * coarse.weight_step).max() <= (
        coarse.weight_step / 2
    )
    assert row_weight_step(obs, coarse) <= 2.0 ** (1 - ROW_WEIGHT_BITS)  # what was left is for the row weights
    assert (coarse.step, coarse.offset, coarse.limit) == (fine.step, fine.offset, fine.limit)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=30))
def test_all_weights_times_row_weights_leave_room_for_the_residual(pairs):
    """Their sum times the largest value is within 64 bits, for row weights of mean one (each counted by its weight)."""
    weights, row_weights = np.array(pairs).T
    obs = rows_of(weights)
    grid = Grid.of(obs, 3, row_weights=True)
    step = row_weight_step(obs, grid)
    row_weights = row_weights * weights.sum() / (weights @ row_weights)
    ticks = np.clip(np.rint(row_weights / step), 1, MAX_ROW_WEIGHT).astype(int)
    total = sum(int(w) * row for w, row in zip(grid.weight_ticks(obs), np.repeat(ticks, CELLS).tolist(), strict=True))
    assert total * (2**VALUE_BITS + 1) < 2**63


def test_weights_that_are_coarse_enough_stay_as_they_are():
    obs = line([1.0, 2.0], [1.0, 2.0])
    grid = Grid.of(obs, 1)
    assert grid.weight_ticks(obs) is obs.stored_weights
    coarser = Grid(grid.step, grid.offset, grid.limit, 4 * grid.weight_step)
    np.testing.assert_array_equal(coarser.weight_ticks(obs), obs.stored_weights // 4)


def test_without_weights_row_weights_change_nothing():
    obs = line([1.0, 2.0])
    assert Grid.of(obs, 1, row_weights=True) == Grid.of(obs, 1)


@pytest.mark.parametrize(("side", "bits"), [(4, -10), (2**15, -7), (2**17, -3), (2**18, -1)])
def test_the_step_of_row_weights_grows_with_the_data(side, bits):
    """A thousandth, or so coarse that all cells together have 37 bits."""
    one = sparse.coo_array(([1.0], ([0], [0])), shape=(side, side))
    obs = Observations.from_sparse(one, zeros="observed")
    step = row_weight_step(obs, Grid.of(obs, 1))
    assert step == 2.0**bits
    assert side * side / step <= 2.0**ROW_TOTAL_BITS
