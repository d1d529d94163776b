"""Row weights of a state against twins on the full matrices; and how a state is restored and read."""

from __future__ import annotations

import numpy as np
import pytest
import twins
import twins_sample
from twins_sample import assert_tables, brute_sums, busy, own_first

from accams.data.observations import Observations
from accams.engine import base
from accams.engine.grid import MAX_ROW_WEIGHT, Grid
from accams.engine.rules import Nearest, RowNoise

KEY = (2**62 + 12345, 2**61 + 678)
cases = pytest.mark.parametrize(("name", "kind"), twins.ALL)
weighted_cases = pytest.mark.parametrize(("name", "kind"), [case for case in twins.ALL if case[0] != "graph"])

# -- row weights ---------------------------------------------------------------------------------------------


def twin_weights(state, data, rule):
    """The draws for every row, from its squared residuals on the scale of the data."""
    grid = state.engine.grid
    W, R = twins.weight_ticks(state, data) * grid.weight_step, twins.residual_ticks(state, data) * grid.step
    cells = (data.W > 0).sum(axis=1)
    w = twins_sample.precisions((W * R**2).sum(axis=1), cells, rule.nu, 1 / rule.sigma2, rule.key)
    mass = W.sum(axis=1)
    return w * mass.sum() / (mass @ w) if rule.normalise else w


def assert_weights(state, expected) -> None:
    ticks = np.clip(np.rint(expected / state.engine.row_step), 1, MAX_ROW_WEIGHT)
    np.testing.assert_array_equal(state.row_weights, ticks)


@weighted_cases
@pytest.mark.parametrize("normalise", [False, True])
def test_draw_row_weights(name, kind, normalise):
    state, data = busy(name, kind, row_weights=True)
    state.end(np.zeros(state.k, np.int32))
    rule = RowNoise(2.5, 2.0, KEY, normalise)
    state.draw_row_weights(rule)
    assert_weights(state, twin_weights(state, data, rule))
    mass, step = twins.weight_ticks(state, data).sum(axis=1), state.engine.row_step
    mean = mass @ (state.row_weights * step) / mass.sum()
    assert (abs(mean - 1) <= step / 2) == normalise


@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_the_weight_of_a_row_without_observations_is_drawn_from_the_prior(name):
    data, rule = twins_sample.with_gaps(), RowNoise(3.0, 0.5, KEY)
    state = data.engine(name).new_state()
    state.draw_row_weights(rule)
    assert_weights(state, twin_weights(state, data, rule))


@pytest.mark.some(4)
@weighted_cases
def test_new_row_weights_count_at_once(name, kind):
    """Cached sums, tables and errors are discarded."""
    state, data = busy(name, kind, row_weights=True)
    before = state.tables(0), state.tables(1)
    state.set_row_weights(np.linspace(0.1, 3.0, state.shape[0]))
    after = state.tables(1)
    assert not np.array_equal(before[1].N, after.N)
    assert_tables(after, state, data, 1)
    assert_tables(state.tables(0), state, data, 0)


@weighted_cases
def test_units_of_the_tables(name, kind):
    """N times its unit is the weight of the cells times that of their rows."""
    state, data = busy(name, kind, row_weights=True)
    omega = data.W * (state.row_weights * state.engine.row_step)[:, None]
    assert (state.tables(0).N * state.weight_unit).sum() == pytest.approx(omega.sum(), rel=1e-12)
    state.row_weights = None
    assert (state.tables(0).N * state.weight_unit).sum() == pytest.approx(data.W.sum(), rel=1e-12)


@weighted_cases
def test_squared_error_with_row_weights(name, kind):
    state, data = busy(name, kind, row_weights=True)
    squares = data.W * (twins.residual_ticks(state, data) * state.engine.grid.step) ** 2
    w = state.row_weights * state.engine.row_step
    assert state.squared_error(row_weighted=True) == pytest.approx(w @ squares.sum(axis=1), rel=1e-12)
    assert state.squared_error() == pytest.approx(squares.sum(), rel=1e-12)
    state.row_weights = None
    assert state.squared_error(row_weighted=True) == state.squared_error()


@weighted_cases
def test_errors_and_draws_follow_the_residual(name, kind):
    """Squares are kept between the two, but not when a stencil goes in or out."""
    state, data = busy(name, kind, row_weights=True)
    rule, grid = RowNoise(2.5, 2.0, KEY), state.engine.grid
    T = np.full(state.k, 2**20, np.int32)
    for step in (lambda: None, lambda: state.end(T), lambda: state.begin(0), lambda: state.end(3 * state.templates[0])):
        step()
        squares = data.W * (twins.residual_ticks(state, data) * grid.step) ** 2
        assert state.squared_error() == pytest.approx(squares.sum(), rel=1e-12)
        state.draw_row_weights(rule)
        assert_weights(state, twin_weights(state, data, rule))


def test_row_weights_are_bounded_and_never_zero():
    state, _ = busy("cpu", "missing", row_weights=True)
    step = state.engine.row_step
    state.set_row_weights(np.array([0.0, 1e-9, step, 1.49 * step, 1.51 * step, 1.0, 1e9] + [1.0] * 16))
    assert state.row_weights[:7].tolist() == [1, 1, 1, 1, 2, round(1 / step), MAX_ROW_WEIGHT]


def extreme(shape=(20, 9)) -> twins.Case:
    """Weights from 1e-6 to 1e6, and values at both ends of the range."""
    rng = np.random.default_rng(0)
    X, W = rng.choice([-1.0, 1.0], shape), 10.0 ** rng.uniform(-6, 6, shape)
    X[0], W[0] = 1.0, 1e6
    return twins.Case(Observations.from_dense(X, weights=W), X, W)


def assert_total(state, data) -> None:
    """N and L of a single block, against Python's integers."""
    state.begin(0, (1, 1))
    ticks = state.engine.grid.weight_ticks(data.observations).reshape(data.X.shape)
    omega = ticks.astype(object) * state.row_weights.astype(object)[:, None]
    for axis in (0, 1):
        tables = state.tables(axis)
        assert int(tables.N[0, 0]) == omega.sum()
        assert int(tables.L[0, 0]) == (omega * twins.residual_ticks(state, data).astype(object)).sum()


@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_extreme_weights_do_not_overflow(name):
    data = extreme()
    state = data.engine(name, grid=Grid.of(data.observations, 6, 0.0, row_weights=True)).new_state()
    w = 10.0 ** np.random.default_rng(1).uniform(-3, 3, len(data.X))
    state.set_row_weights(w * data.W.sum() / (data.W.sum(axis=1) @ w))
    assert_total(state, data)


def test_large_row_weights_do_not_overflow():
    data = extreme()
    state = data.engine("cpu", grid=Grid.of(data.observations, 6, 0.0, row_weights=True)).new_state()
    state.set_row_weights(np.full(len(data.X), 50.0))
    assert_total(state, data)


@weighted_cases
@pytest.mark.parametrize("axis", [0, 1])
def test_the_nearest_label_with_row_weights(name, kind, axis):
    state, data = busy(name, kind, row_weights=True)
    n, l = brute_sums(state, data, axis)
    some = np.linspace(0, len(n) - 1, state.k[axis]).astype(int)
    T = np.rint(l[some] / np.maximum(n[some], 1)).astype(np.int32)
    cost = twins.costs(n.astype(object), l.astype(object), T.astype(object), 1)
    tables = state.update(axis, Nearest(own_first(T, axis)))
    np.testing.assert_array_equal(state.labels[axis], np.argmin(cost.astype(np.float64), axis=1))
    assert_tables(tables, state, data, axis)


# -- restore and predict_at ----------------------------------------------------------------------------------


@cases
def test_restore(name, kind):
    state, data = busy(name, kind)
    state.end(np.full(state.k, 12345, np.int32))
    again = state.engine.new_state()
    again.restore(state.templates, state.row_labels, state.col_labels)
    assert again.squared_error() == state.squared_error()
    for each in (state, again):
        each.begin(1)
    for axis in (0, 1):
        for one, other in zip(state.sums(axis), again.sums(axis), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(twins.residual_ticks(again, data), twins.residual_ticks(state, data))
    again.labels[0][:] = 0
    again.end(np.zeros(again.k, np.int32))
    state.end(state.templates[1])
    np.testing.assert_array_equal(state.templates[1], 12345)  # neither writes into the other


@cases
def test_predict_at(name, kind):
    """In integers up to the last step; the model file's single precision is as good as that here."""
    state, _ = busy(name, kind)
    state.end(np.full(state.k, 12345, np.int32))
    grid, (m, n) = state.engine.grid, state.shape
    rows, cols = np.divmod(np.random.default_rng(0).permutation(m * n), n)
    got = state.predict_at(rows, cols)
    np.testing.assert_array_equal(got, grid.offset + (twins.model_ticks(state) * grid.step)[rows, cols])
    np.testing.assert_allclose(got, state.stencils().predict(rows, cols), rtol=0, atol=1e-6)
    fresh = state.engine.new_state()
    assert (fresh.predict_at(rows[:5], cols[:5]) == grid.offset).all()


def test_weights_of_rows_are_added_up_in_pieces(monkeypatch):
    data = twins.case("missing weighted", (40, 30))
    for piece in (1, 7, 10**6):
        monkeypatch.setattr(base, "LARGE_PIECE", piece)
        engine = data.engine("cpu")
        np.testing.assert_array_equal(engine.row_mass, np.rint(data.W / engine.grid.weight_step).sum(axis=1))
