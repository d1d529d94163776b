"""The contract of every engine, against brute force on the full residual."""

from __future__ import annotations

import numpy as np
import pytest
import twins

from accams.data.observations import Observations
from accams.engine.kmeans import Effort
from accams.engine.rules import Nearest

cases = pytest.mark.parametrize(("name", "kind"), twins.ALL + twins.IN_PROCESS + twins.SIMULATED)
axes = pytest.mark.parametrize("axis", [0, 1])


def busy(name: str, kind: str, shape=(23, 17), seed=0, k=(3, 4)):
    """A state with three stencils, of which number 1 is being fitted again, and its data."""
    data, rng = twins.case(kind, shape, seed), np.random.default_rng(seed)
    state = data.engine(name).new_state()
    for stencil, size in enumerate([(2, 3), k, (4, 2)]):
        state.begin(stencil, size)
        randomise(state, rng)
        state.end(rng.integers(-(2**20), 2**20, size).astype(np.int32))
    state.begin(1)
    randomise(state, rng)
    return state, data


def randomise(state, rng) -> None:
    for axis in (0, 1):
        state.set_labels(axis, rng.integers(0, state.k[axis], state.shape[axis]))


def own_first(matrix, axis):
    return matrix if axis == 0 else matrix.T


def brute_sums(state, data, axis):
    """n and l of every row (column), from the full matrices."""
    W, R = twins.weight_ticks(state, data), twins.residual_ticks(state, data)
    other, k = state.labels[1 - axis], state.k[1 - axis]
    return twins.by_label(own_first(W, axis), other, k), twins.by_label(own_first(W * R, axis), other, k)


def assert_sums(state, data, axis) -> None:
    for got, expected in zip(state.sums(axis), brute_sums(state, data, axis), strict=True):
        np.testing.assert_array_equal(got, expected)


def assert_tables(tables, state, data, axis) -> None:
    N, L, counts = twins.block_tables(*brute_sums(state, data, axis), state.labels[axis], state.k[axis])
    np.testing.assert_array_equal(own_first(tables.N, axis), N)
    np.testing.assert_array_equal(own_first(tables.L, axis), L)
    np.testing.assert_array_equal(tables.counts, counts)


@cases
@axes
def test_sums(name, kind, axis):
    state, data = busy(name, kind)
    assert_sums(state, data, axis)


@pytest.mark.some(13)
@cases
@axes
def test_tables(name, kind, axis):
    state, data = busy(name, kind)
    assert_tables(state.tables(axis), state, data, axis)


@pytest.mark.some(6)
@cases
def test_tables_of_both_axes_agree(name, kind):
    state, _ = busy(name, kind)
    by_rows, by_cols = state.tables(0), state.tables(1)
    np.testing.assert_array_equal(by_rows.N, by_cols.N)
    np.testing.assert_array_equal(by_rows.L, by_cols.L)


@pytest.mark.some(13)
@cases
@axes
def test_new_labels_empty_the_sums_of_the_other_axis(name, kind, axis):
    state, data = busy(name, kind)
    state.sums(0), state.sums(1)
    state.set_labels(axis, (state.labels[axis] + 1) % state.k[axis])
    assert_sums(state, data, 1 - axis)


@pytest.mark.some(6)
@pytest.mark.covering
@cases
@axes
@pytest.mark.parametrize("curvature", [1.0, 5.0])
def test_update_picks_the_cheapest_label(name, kind, axis, curvature):
    """The template rows are means of some rows of the data, so that no cluster stays empty."""
    state, data = busy(name, kind)
    n, sums = brute_sums(state, data, axis)
    some = np.linspace(0, len(n) - 1, state.k[axis]).astype(int)
    T = np.rint(sums[some] / np.maximum(n[some], 1) / curvature).astype(np.int32)
    cost = twins.costs(n.astype(object), sums.astype(object), T.astype(object), int(curvature))
    old = state.labels[axis].copy()
    state.sums(0), state.sums(1)  # those of the other axis must be recomputed

    tables = state.update(axis, Nearest(own_first(T, axis), curvature))

    np.testing.assert_array_equal(state.labels[axis], np.argmin(cost.astype(np.float64), axis=1))
    assert tables.moved == (old != state.labels[axis]).sum() > 0
    assert_tables(tables, state, data, axis)
    for each in (0, 1):
        assert_sums(state, data, each)
    assert state.update(axis, Nearest(own_first(T, axis), curvature)).moved == 0


@pytest.mark.some(6)
@cases
def test_squared_error(name, kind):
    state, data = busy(name, kind)
    grid, R = state.engine.grid, twins.residual_ticks(state, data)
    expected = (data.W * (R * grid.step) ** 2).sum()
    assert state.squared_error() == pytest.approx(expected, rel=1e-12)


@cases
@axes
def test_lines_and_costs_of_all_coordinates(name, kind, axis):
    state, data = busy(name, kind)
    W, R = own_first(twins.weight_ticks(state, data), axis), own_first(twins.residual_ticks(state, data), axis)
    positions = np.array([0, 2, 11])
    lines = state.lines(axis, positions)
    np.testing.assert_array_equal(lines, (R * (W > 0))[positions].T)
    V = lines + np.random.default_rng(0).normal(size=lines.shape)
    expected = (W @ (V * V)) - 2.0 * ((W * R) @ V)
    np.testing.assert_allclose(state.table_costs(axis, V), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.some(6)
@pytest.mark.covering
@cases
@axes
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_seeds_and_clusters_are_labels(name, kind, axis, init):
    state, data = busy(name, kind)
    rounds = 2 if name == "cuda" else 20  # the simulator is slow
    for k in ((3, 4), (1, 1), (40, 60) if name != "cuda" else (30, 32)):  # more clusters than rows, too
        state.end(np.zeros(state.k, np.int32))
        state.begin(len(state.templates), k)
        state.seed(axis, init, np.random.default_rng(0), Effort(rounds))
        state.cluster(1 - axis, init, np.random.default_rng(1), rounds)
        for each in (0, 1):
            assert state.labels[each].max() < k[each]
            assert_sums(state, data, each)
    assert len(np.unique(state.labels[axis])) > 3


@pytest.mark.some(6)
@pytest.mark.covering
@cases
@axes
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_seeding_one_axis_leaves_right_sums_for_both(name, kind, axis, init):
    """Also where sums were computed before."""
    state, data = busy(name, kind)
    state.sums(0), state.sums(1)
    state.seed(axis, init, np.random.default_rng(0))
    for each in (0, 1):
        assert_sums(state, data, each)


@pytest.mark.parametrize(("init", "share"), [("k-means++", 1.0), ("random", 1.0), ("random", 0.7)])
def test_a_seed_finds_the_clusters_of_a_clean_matrix(init, share):
    """In at least one of twenty starts. (With missing cells a sketch is a rougher start, so it is not among these.)"""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 8)
    X = rng.normal(size=(3, 30))[labels] * 5
    obs = Observations.from_dense(np.where(rng.random(X.shape) < share, X, np.nan))
    found = []
    for seed in range(20):
        state = twins.Case(obs, X, X).engine("cpu").new_state()
        state.begin(0, (3, 2))
        state.seed(0, init, np.random.default_rng(seed))
        table = twins.cross_counts(labels, state.labels[0], (3, 3))
        found.append((np.sort(table, axis=1) == [0, 0, 8]).all() and (table.sum(axis=0) == 8).all())
    assert any(found)


@cases
def test_the_model_is_without_the_stencil_that_was_begun(name, kind):
    state, _ = busy(name, kind)
    model, grid = state.stencils(), state.engine.grid
    assert len(model) == 2
    np.testing.assert_array_equal(model.dense(), grid.offset + twins.model_ticks(state) * grid.step)
    state.end(np.zeros((3, 4), np.int32))
    assert len(state.stencils()) == 3


def test_one_stencil_at_a_time():
    state, _ = busy("cpu", "missing")
    with pytest.raises(RuntimeError, match="end the current stencil"):
        state.begin(0)


def test_rows_without_data_are_named_in_the_model():
    obs = Observations.from_coo([0, 2], [1, 1], [1.0, 2.0], shape=(4, 3))
    for name in ("cpu", "dense"):
        model = twins.Case(obs, np.zeros((4, 3)), np.zeros((4, 3))).engine(name).new_state().stencils()
        assert model.unseen_rows.tolist() == [1, 3]
        assert model.unseen_cols.tolist() == [0, 2]
