"""The same data, grid and seed give the same model, bit for bit: on every engine, with any threads and chunks."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from scipy import sparse

from accams.data.observations import Observations
from accams.engine.grid import Grid
from accams.fit.backfit import BackfitSettings, backfit
from accams.fit.refit import refit
from accams.threads import Threads

inits = pytest.mark.parametrize("init", ["k-means++", "random"])


def fitted(
    data: twins.Case, name: str, settings: BackfitSettings, grid: Grid | None = None, threads: Threads | None = None
):
    engine = data.engine(name, threads, grid)
    try:
        state = engine.new_state()
        steps = backfit(state, settings)
        return state, steps
    finally:
        engine.close()


def assert_same(one, other) -> None:
    assert len(one.templates) == len(other.templates)
    for parts, others in (
        (one.templates, other.templates),
        (one.row_labels, other.row_labels),
        (one.col_labels, other.col_labels),
    ):
        for part, same in zip(parts, others, strict=True):
            assert part.dtype == same.dtype
            np.testing.assert_array_equal(part, same)


def graph_and_matrix(values: str, zero_weight: float, seed: int) -> tuple[twins.Case, twins.Case]:
    """The same matrix twice: stored cells with observed zeros, and every cell with its weight."""
    rng = np.random.default_rng(seed)
    shape = (41, 33)
    seen = rng.random(shape) < 0.35
    if values == "twins":  # many equal rows and columns: ties everywhere
        X = (rng.integers(0, 3, (4, 3))[rng.integers(0, 4, 41)][:, rng.integers(0, 3, 33)]).astype(float)
    else:
        X = (
            seen
            * {"links": np.ones(shape), "stars": rng.integers(1, 11, shape) / 2, "real": rng.normal(size=shape)}[values]
        )
    W = np.where(X != 0, 1.0, zero_weight)
    graph = Observations.from_sparse(sparse.csr_array(X), zeros="observed", zero_weight=zero_weight)
    matrix = Observations.from_dense(X, weights=None if zero_weight == 1.0 else W)
    return twins.Case(graph, X, W), twins.Case(matrix, X, W)


@pytest.mark.some(5)
@inits
@pytest.mark.parametrize("values", ["links", "stars", "real", "twins"])
@pytest.mark.parametrize("zero_weight", [1.0, 0.25])
def test_all_engines_agree_on_complete_data(values, zero_weight, init):
    for seed in range(3):
        graph, matrix = graph_and_matrix(values, zero_weight, seed)
        grid = Grid.of(graph.observations, 4)
        settings = BackfitSettings([(5, 4), (3, 2), (1, 4), (4, 1)], init=init, seed=seed, n_relearn=1, n_init=2)
        state, steps = fitted(graph, "graph", settings, grid)
        for name in ("cpu", "dense"):
            other, others = fitted(matrix, name, settings, grid)
            assert_same(state, other)
            for step, same in zip(steps, others, strict=True):
                assert step.rmse == pytest.approx(same.rmse, rel=1e-9, abs=1e-9)


@pytest.mark.some(2)
@inits
@pytest.mark.parametrize("kind", ["missing", "missing weighted", "complete weighted"])
def test_cpu_and_dense_agree_with_missing_cells_and_weights(kind, init):
    for seed in range(3):
        data = twins.case(kind, (31, 27), seed)
        settings = BackfitSettings([(5, 4), (3, 2), (2, 6)], init=init, seed=seed, learning_rate=0.5, shrinkage=0.3)
        assert_same(fitted(data, "cpu", settings)[0], fitted(data, "dense", settings)[0])


@pytest.mark.some(3)
@inits
@pytest.mark.parametrize(
    ("name", "kind"),
    [("cpu", "missing weighted"), ("dense", "complete"), ("dense", "missing"), ("graph", "graph light")],
)
def test_threads_and_chunks_do_not_matter(name, kind, init):
    data = twins.case(kind, (61, 47))
    settings = BackfitSettings([(6, 5), (3, 4)], init=init, n_relearn=1)
    state, steps = fitted(data, name, settings, threads=Threads(1))
    for threads in (Threads(2), *(Threads(n, chunk) for n in (1, 2) for chunk in (1, 7, 1000))):
        other, others = fitted(data, name, settings, threads=threads)
        assert_same(state, other)
        assert [s.rmse for s in steps] == [s.rmse for s in others]
        assert [s.iterations for s in steps] == [s.iterations for s in others]


@pytest.mark.parametrize(
    ("name", "kind"), [("cpu", "missing weighted"), ("dense", "complete"), ("graph", "graph light")]
)
def test_refit_does_not_depend_on_threads(name, kind):
    data, states = twins.case(kind, (61, 47)), []
    for threads in (Threads(1), Threads(2), Threads(2, 7)):
        state = data.engine(name, threads).new_state()
        backfit(state, BackfitSettings([(6, 5), (3, 4)]))
        refit(state)
        state.engine.close()
        states.append(state)
    for other in states[1:]:
        assert_same(states[0], other)


def test_a_matrix_large_enough_for_several_threads_of_its_own():
    """Without a chunk size, threads are used from 2^15 entries on."""
    X = np.random.default_rng(0).normal(size=(400, 300))
    data = twins.Case(Observations.from_dense(X), X, np.ones(X.shape))
    settings = BackfitSettings([(7, 5), (4, 4)])
    for name in ("cpu", "dense"):
        threads = Threads(2)
        assert len(threads.split_evenly(400, 300)) > 1
        assert_same(
            fitted(data, name, settings, threads=Threads(1))[0], fitted(data, name, settings, threads=threads)[0]
        )


@inits
def test_the_seed_decides(init):
    data = twins.case("missing", (61, 47))
    runs = [fitted(data, "cpu", BackfitSettings([(6, 5)], init=init, seed=seed, max_iter=1))[0] for seed in (0, 0, 1)]
    assert_same(runs[0], runs[1])
    assert not np.array_equal(runs[0].row_labels[0], runs[2].row_labels[0])
