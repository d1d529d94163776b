"""Chains of ordinal observations are the same on every engine: latent values are drawn cell by cell."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import twins

from accams import InputError, Observations, memory_estimate
from accams.engine.base import Engine, State
from accams.engine.choose import make_engine
from accams.engine.grid import Grid
from accams.engine.ray.engine import RayEngine
from accams.engine.rules import Latent
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.model.scale import Scale
from accams.threads import Threads

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
SHAPES = [(3, 2), (2, 3), (1, 2)]
KINDS = {
    "plain": {},
    "row noise": {"row_noise": 4.0, "sample_sigma": True},
    "effects": {"continuous": True, "start": "accams", "sub": (2,)},
}


def engine_of(data: twins.Case, name: str, **more: Any) -> Engine:
    """Return an engine with room for latent values."""
    grid = Grid.of(data.observations, len(SHAPES), row_weights=True, latent=True)
    if name == "ray":
        return RayEngine(data.observations, grid, Threads(1), **more)
    return data.engine(name, grid=grid, **more)


def chain_of(engine: Engine, data: twins.Case, **more: Any) -> Chain:
    """Return a chain of three stencils of ordinal observations."""
    values = np.unique(data.observations.stored_values).astype(float)
    scale = Scale.of_shares(values, 1.0 + np.arange(len(values)) % 3, 1.0)
    hyper = Hyperparameters(SHAPES, [1.0] * 3, [2.0] * 3, scale=scale, seed=3, **more)
    return Chain(engine.new_state(), hyper, 0, 0.8)


def residuals(state: State) -> list[np.ndarray]:
    """Return the residuals of all cells, by an order along each axis."""
    by_row, by_col = (state.lines(axis, np.arange(state.shape[axis])) for axis in (0, 1))
    return [by_row.T, by_col]


def assert_same(one: Chain, other: Chain) -> None:
    assert one.sigma2 == other.sigma2
    for name in ("templates", "row_labels", "col_labels"):
        for mine, theirs in zip(getattr(one.state, name), getattr(other.state, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(residuals(one.state), residuals(other.state), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.covering
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", ["missing", "missing weighted", "complete"])
@pytest.mark.parametrize("name", ["dense", "disk", "ray"])
def test_the_same_chain(name: str, kind: str, how: str) -> None:
    data = twins.case(kind, (31, 24))
    more = {"cluster": twins.InProcess(), "n_shards": 3} if name == "ray" else {}
    engines = engine_of(data, "cpu"), engine_of(data, name, **more)
    right, found = (chain_of(engine, data, **KINDS[how]) for engine in engines)
    for _ in range(3):
        for chain in (right, found):
            chain.run_sweep()
        assert_same(right, found)
    for engine in engines:
        engine.close()


@pytest.mark.some(2)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("kind", "how"),
    [("missing", "row noise"), ("missing weighted", "plain"), ("complete", "plain"), ("missing weighted", "row noise")],
)
def test_a_gpu(kind: str, how: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the simulator; with observations on the device or streamed in chunks."""
    pytest.importorskip("numba.cuda")
    if streamed:
        from accams.engine.cuda import data as cuda_data

        monkeypatch.setattr(cuda_data, "most_entries", lambda *_: 64)
    data = twins.case(kind, (9, 8))
    engines = engine_of(data, "cpu"), engine_of(data, "cuda")
    right, found = (chain_of(engine, data, **KINDS[how]) for engine in engines)
    for _ in range(2):
        for chain in (right, found):
            chain.run_sweep()
        assert_same(right, found)
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("how", KINDS)
def test_workers_that_are_lost(how: str) -> None:
    """A worker that is replaced in the middle of a sweep has the latent values that were drawn at its beginning."""
    data, cluster = twins.case("missing weighted", (31, 24)), twins.InProcess()
    cluster.losing = 0.2
    engines = engine_of(data, "cpu"), engine_of(data, "ray", cluster=cluster, n_shards=2)
    right, found = (chain_of(engine, data, **KINDS[how]) for engine in engines)
    for _ in range(4):
        for chain in (right, found):
            chain.run_sweep()
        assert_same(right, found)
    assert sum(group.lost for group in cluster.groups) > 10


@pytest.mark.parametrize("threads", [Threads(2), Threads(2, 7)])
def test_threads_and_chunks_do_not_matter(threads: Threads) -> None:
    data = twins.case("missing", (31, 24))
    chains = [chain_of(engine_of(data, "cpu", threads=each), data, row_noise=4.0) for each in (Threads(1), threads)]
    for chain in chains:
        chain.run_sweep()
    assert_same(*chains)


def test_observed_zeros_are_not_ordinal() -> None:
    data = twins.case("graph", (31, 24))
    with pytest.raises(InputError, match="engine='graph' has no ordinal likelihood: use"):
        chain_of(engine_of(data, "graph"), data).run_sweep()


@pytest.mark.parametrize(("engine", "density"), [("cpu", 0.2), ("dense", 1.0)])
def test_the_estimate_of_memory(engine: str, density: float) -> None:
    """What two chains hold after a draw, and did not before, is what the estimate adds for ordinal observations."""
    random = np.random.default_rng(0)
    X = random.integers(1, 6, (1_500, 400)).astype(float)
    X[random.random(X.shape) > density] = np.nan
    obs = Observations.from_dense(X)
    compiling, made = (make_engine(obs, engine, 1, 1, latent=True) for _ in range(2))  # which takes memory of its own
    states = [made.new_state(chain) for chain in (0, 1)]
    cuts = made.grid.cut_points(np.array([1.5, 2.5, 3.5, 4.5]))
    rule = Latent(np.arange(1.0, 6.0), cuts, 1.0 / made.grid.step, 1.0, (1, 2))
    compiling.new_state().draw_latent(rule)
    tracemalloc.start()
    try:
        for state in states:
            state.draw_latent(rule)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    plain, ordinal = (
        memory_estimate(obs.shape, obs.nnz, n_chains=2, engine=engine, ordinal=each) for each in (False, True)
    )
    assert held == pytest.approx(ordinal - plain, rel=0.1)


def test_estimates_of_workers_and_streamed_ratings() -> None:
    """Two orders on workers; what is at hand when ratings stay on disk."""
    more = {"n_chains": 3, "n_clusters": 5}
    for engine, expected in (("ray", 26 * 10**7), ("cuda", 26 * 10**7)):
        plain, ordinal = (
            memory_estimate((10**5, 10**4), 10**7, engine=engine, ordinal=each, **more) for each in (False, True)
        )
        assert ordinal - plain == expected
    streamed = [memory_estimate((10**5, 10**4), 10**9, engine="disk", ordinal=each) for each in (False, True)]
    assert 0 < streamed[1] - streamed[0] < 10**9
