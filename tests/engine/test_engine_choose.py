"""Choice of the engine, threads, and refilling of empty clusters."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from accams.data.observations import Observations
from accams.engine.choose import choose, make_engine
from accams.engine.dense import DenseEngine
from accams.engine.graph import GraphEngine
from accams.engine.grid import Grid
from accams.engine.rules import Nearest
from accams.errors import InputError
from accams.fit.backfit import BackfitSettings, best_template
from accams.threads import Threads


def some(nnz: int) -> Observations:
    cells = np.random.default_rng(0).permutation(100)[:nnz]
    return Observations.from_coo(cells // 10, cells % 10, np.arange(nnz), shape=(10, 10))


def graph() -> Observations:
    return Observations.from_sparse(sparse.eye_array(6).tocsr(), zeros="observed")


def test_auto():
    assert choose(some(100), "auto") == "dense"
    assert choose(some(99), "auto") == choose(some(1), "auto") == "cpu"
    assert choose(graph(), "auto") == "graph"


@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_a_name_is_taken_at_its_word(name):
    assert choose(some(100), name) == choose(some(3), name) == make_engine(some(3), name, 1).name == name


@pytest.mark.parametrize("name", ["gpu", "", "CPU", None])
def test_unknown_engines(name):
    with pytest.raises(InputError, match="engine must be"):
        choose(some(3), name)


def test_engines_that_do_not_fit_the_data():
    with pytest.raises(InputError, match="needs zeros='observed'"):
        choose(some(3), "graph")
    for name in ("cpu", "dense"):
        with pytest.raises(InputError, match="engine='graph'"):
            choose(graph(), name)
    for engine, obs in ((DenseEngine, graph()), (GraphEngine, some(3))):
        with pytest.raises(InputError, match="graph"):
            engine(obs, Grid.of(obs, 1), Threads(1))


def test_what_make_engine_passes_on():
    engine = make_engine(some(50), "cpu", 2, 3, chunk_size=5, offset=7.0)
    assert engine.threads.n_threads == 3
    assert engine.threads.chunk_size == 5
    assert engine.grid.offset == pytest.approx(7.0, abs=engine.grid.step)
    assert engine.grid == Grid.of(some(50), 2, 7.0)


def test_a_full_matrix_with_observed_zeros_far_from_zero():
    """No blank is left, so 0 need not be in the range of the values: it is a complete matrix like any other."""
    X = 1e4 + np.random.default_rng(0).random((6, 5))
    data = twins.Case(Observations.from_sparse(sparse.csr_array(X), zeros="observed"), X, np.ones(X.shape))
    assert choose(data.observations, "auto") == "dense"
    state = data.engine("dense").new_state()
    expected = ((X - state.engine.grid.offset) ** 2).sum()
    assert state.squared_error() == pytest.approx(expected, rel=1e-5)


# -- threads ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    degrees=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    threads=st.integers(1, 4),
    chunk=st.one_of(st.none(), st.integers(1, 200)),
)
def test_ranges_cover_every_row_once(degrees, threads, chunk):
    ranges = Threads(threads, chunk).split(np.concatenate([[0], np.cumsum(degrees)]))
    assert all(lo < hi for lo, hi in ranges)
    assert [row for lo, hi in ranges for row in range(lo, hi)] == list(range(len(degrees)))


def test_small_work_is_not_split():
    assert Threads(4).split_evenly(100, 10) == [(0, 100)]
    assert len(Threads(4).split_evenly(100_000, 10)) == 4
    assert len(Threads(4).split_evenly(100_000, 1000)) == 16
    assert Threads(1).split_evenly(100_000, 10) == [(0, 100_000)]
    assert Threads(1, 1).split_evenly(5, 10) == [(i, i + 1) for i in range(5)]


def test_results_come_in_the_order_of_the_ranges():
    threads = Threads(2)
    ranges = [(i, i + 1) for i in range(50)]
    assert threads.map(lambda lo, hi: lo, ranges) == list(range(50))
    threads.close()
    threads.close()
    assert threads.map(lambda lo, hi: hi, ranges) == list(range(1, 51))  # threads come back when needed
    threads.close()


def test_errors_in_threads_are_raised():
    def fail(lo: int, hi: int) -> None:
        raise ZeroDivisionError

    threads = Threads(2)
    with pytest.raises(ZeroDivisionError):
        threads.map(fail, [(0, 1), (1, 2)])
    threads.close()


# -- empty clusters -----------------------------------------------------------------------------------------------


def error_of(state, rule: Nearest, tables, T) -> float:
    """Penalised squared error in ticks, less a constant, of these tables and this template."""
    t = T.astype(np.float64)
    return float(np.sum(rule.curvature * (tables.N + rule.shrinkage) * t * t - 2.0 * tables.L * t))


@pytest.mark.parametrize(("name", "kind"), twins.ALL)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("rate", "shrinkage"), [(1.0, 0.0), (0.5, 2.0)])
def test_empty_clusters_get_a_row_and_the_error_falls(name, kind, axis, rate, shrinkage):
    state = twins.case(kind).engine(name).new_state()
    grid, options = state.engine.grid, BackfitSettings([(4, 5)], learning_rate=rate, shrinkage=shrinkage)
    state.begin(0, (4, 5))
    other = 1 - axis
    state.set_labels(other, np.arange(state.shape[other]) % state.k[other])
    before = state.tables(axis)  # all in cluster 0
    T = best_template(before, grid, options)[0]
    rule = Nearest(T, 1.0 / rate, shrinkage / grid.weight_step)
    assert (before.counts > 0).sum() == 1

    after = state.update(axis, rule)

    assert (after.counts > 0).all()
    np.testing.assert_array_equal(after.counts, np.bincount(state.labels[axis], minlength=state.k[axis]))
    again = state.tables(axis)
    np.testing.assert_array_equal(after.N, again.N)
    np.testing.assert_array_equal(after.L, again.L)
    assert error_of(state, rule, after, best_template(after, grid, options)[0]) < error_of(state, rule, before, T)


def test_the_row_with_most_to_gain_is_taken_unless_it_is_alone():
    """Row 0 fits worst but is alone in its cluster; of the others, row 2 fits worst."""
    X = np.array([[90.0], [1.0], [4.0], [2.0]]) + np.zeros((1, 3))
    state = (
        twins.Case(Observations.from_dense(X), X, np.ones(X.shape))
        .engine("cpu", grid=Grid(0.5, 0.0, 2**20))
        .new_state()
    )
    state.begin(0, (3, 1))
    tables = state.update(0, Nearest(np.array([[100], [0], [-100]], np.int32)))
    assert state.labels[0].tolist() == [0, 1, 2, 1]
    assert tables.counts.tolist() == [1, 2, 1]


@pytest.mark.parametrize("name", ["cpu", "dense"])
def test_equal_rows_leave_clusters_empty(name):
    X = np.tile(np.arange(6.0), (8, 1))
    state = twins.Case(Observations.from_dense(X), X, np.ones(X.shape)).engine(name).new_state()
    state.begin(0, (3, 6))
    state.set_labels(1, np.arange(6))
    T = best_template(state.tables(0), state.engine.grid, BackfitSettings([]))[0]
    tables = state.update(0, Nearest(T))
    assert tables.counts.tolist() == [8, 0, 0]
    assert tables.moved == 0


def test_more_clusters_than_rows():
    X = np.arange(12.0).reshape(3, 4)
    state = twins.Case(Observations.from_dense(X), X, np.ones(X.shape)).engine("dense").new_state()
    state.begin(0, (5, 4))
    state.set_labels(1, np.arange(4))
    T = np.zeros((5, 4), np.int32)
    assert state.update(0, Nearest(T)).counts.sum() == 3


def test_sums_of_weights_and_residuals_fit_into_64_bits():
    """A million cells of weight 1 and one of 1e-5: two blocks of -1 and 1."""
    X, W = np.ones((1024, 1024)), np.ones((1024, 1024))
    X[:, :512], W[0, 0] = -1.0, 1e-5
    state = twins.Case(Observations.from_dense(X, weights=W), X, W).engine("dense").new_state()
    state.begin(0, (1, 2))
    state.set_labels(1, np.repeat([0, 1], 512))
    grid = state.engine.grid
    T = best_template(state.tables(0), grid, BackfitSettings([]))[0]
    np.testing.assert_allclose(grid.offset + T * grid.step, [[-1.0, 1.0]], atol=1e-5)
