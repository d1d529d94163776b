"""The residual is data less model, to the last bit, whatever was put in and taken out before."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.data.observations import Observations

cases = pytest.mark.parametrize(("name", "kind"), twins.ALL)
MANY = 6  # stencils; twins.Case.engine makes room for as many


def fit_anything(state, stencil, rng, biggest) -> None:
    """Put a random stencil of random shape in place of number `stencil`, sometimes with a pass or two."""
    old = stencil < len(state.templates)
    k = state.templates[stencil].shape if old else (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    state.begin(stencil, k)
    for axis in (0, 1):
        state.set_labels(axis, rng.integers(0, k[axis], state.shape[axis]))
        if rng.random() < 0.3:
            state.sums(int(rng.integers(2)))
    state.end(rng.integers(-biggest, biggest, k, endpoint=True).astype(np.int32))


def assert_exact(state, data) -> None:
    """Every row and column is a cluster of its own now, so the sums are the residual, in both orders."""
    W, R = twins.weight_ticks(state, data), twins.residual_ticks(state, data)
    state.begin(len(state.templates), state.shape)
    for axis in (0, 1):
        state.set_labels(axis, np.arange(state.shape[axis]))
    for axis, (w, r) in enumerate([(W, R), (W.T, R.T)]):
        n, sums = state.sums(axis)
        np.testing.assert_array_equal(n, w)
        np.testing.assert_array_equal(sums, w * r)
    state.end(np.zeros(state.shape, np.int32))


def assert_squared_error(state, data) -> None:
    grid = state.engine.grid
    R, model = twins.residual_ticks(state, data).astype(float), twins.model_ticks(state).astype(float)
    scale = grid.step**2
    biggest = (data.W * (R * R + model * model)).sum() * scale  # graphs subtract one from the other
    assert state.squared_error() == pytest.approx((data.W * R * R).sum() * scale, rel=1e-12, abs=1e-14 * biggest)


@pytest.mark.some(5)
@cases
@pytest.mark.parametrize("swaps", [500, pytest.param(3000, marks=pytest.mark.full)])
def test_many_swaps_leave_nothing_behind(name, kind, swaps):
    """An error of one bit in one swap stays in the residual, so hundreds show it as thousands do."""
    data, rng = twins.case(kind, (12, 9)), np.random.default_rng(1)
    state = data.engine(name).new_state()
    for step in range(swaps):
        fit_anything(state, min(int(rng.integers(MANY)), len(state.templates)), rng, 2**21)
        if step % 100 == 0:
            assert_squared_error(state, data)
    assert len(state.templates) == MANY
    assert_squared_error(state, data)
    assert_exact(state, data)


@cases
def test_the_largest_templates_do_not_overflow(name, kind):
    """All six stencils at the limit of the grid, with one sign: the residual just fits into 32 bits."""
    data = twins.case(kind, (12, 9))
    for sign in (1, -1):
        state = data.engine(name).new_state()
        limit = state.engine.grid.limit
        for stencil in range(MANY):
            state.begin(stencil, (1, 1))
            state.end(np.full((1, 1), sign * limit, np.int32))
        assert np.abs(twins.residual_ticks(state, data)).max() < 2**31
        assert_squared_error(state, data)
        assert_exact(state, data)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (1, 1), (2, 1)])
@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_a_single_row_or_column(name, shape):
    data, rng = twins.case("complete", shape, seed=3), np.random.default_rng(1)
    state = data.engine(name).new_state()
    for _ in range(20):
        fit_anything(state, min(int(rng.integers(MANY)), len(state.templates)), rng, 2**21)
    assert_exact(state, data)
    assert_squared_error(state, data)


@pytest.mark.covering
@cases
@pytest.mark.parametrize("waiting", range(6))
def test_a_pass_takes_up_all_that_is_waiting(name, kind, waiting):
    """No pass between the swaps: 0 to 12 shifts are waiting when sums are computed, of which two are fused."""
    data, rng = twins.case(kind), np.random.default_rng(waiting)
    states = [data.engine(name).new_state() for _ in range(2)]
    for stencil in range(waiting):
        c, d, T = rng.integers(0, 3, 23), rng.integers(0, 2, 17), rng.integers(-999, 999, (3, 2)).astype(np.int32)
        for lazy, state in zip((True, False), states, strict=True):
            for _ in range(2):  # in, out and in again
                state.begin(stencil, (3, 2))
                state.set_labels(0, c)
                state.set_labels(1, d)
                if not lazy:
                    state.sums(0), state.sums(1)
                state.end(T)
            if not lazy:
                state.squared_error()
    for state in states:
        assert_exact(state, data)
        assert_squared_error(state, data)


@pytest.mark.some(5)
@cases
@settings(deadline=None, max_examples=15)
@given(
    steps=st.lists(st.sampled_from(["swap", "rows", "columns", "error", "lines"]), max_size=25), seed=st.integers(0, 99)
)
def test_passes_in_any_order(name, kind, steps, seed):
    data, rng = twins.case(kind, (7, 6), seed), np.random.default_rng(seed)
    state = data.engine(name).new_state()
    fit_anything(state, 0, rng, 1000)
    for step in steps:
        if step == "swap":
            fit_anything(state, min(int(rng.integers(MANY)), len(state.templates)), rng, 1000)
        elif step == "error":
            assert_squared_error(state, data)
        elif step == "lines":
            state.lines(int(rng.integers(2)), np.array([0, 5]))
        else:
            state.begin(0)
            state.sums(0 if step == "rows" else 1)
            state.end(state.templates[0])
    assert_exact(state, data)


def test_states_of_one_engine_do_not_touch_each_other():
    for name, kind in (("cpu", "missing"), ("dense", "complete"), ("graph", "graph")):
        data, rng = twins.case(kind), np.random.default_rng(0)
        engine = data.engine(name)
        one, other = engine.new_state(0), engine.new_state(1)
        for stencil in range(4):
            fit_anything(one, stencil, rng, 2**20)
            one.squared_error()
        for state in (one, other):
            assert_exact(state, data)


def test_the_data_is_not_written_to():
    for name in ("cpu", "dense"):
        X = np.random.default_rng(0).integers(0, 5, (6, 5)).astype(float)
        obs = Observations.from_dense(X)
        before = obs.stored_values.copy()
        state = twins.Case(obs, X, np.ones(X.shape)).engine(name).new_state()
        fit_anything(state, 0, np.random.default_rng(1), 100)
        state.squared_error()
        np.testing.assert_array_equal(obs.stored_values, before)
