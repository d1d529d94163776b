"""Chains with slopes on features are the same on every engine."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import twins
from test_engine_latent import assert_same, residuals

from accams import InputError, Observations, memory_estimate
from accams.engine.base import Engine
from accams.engine.choose import make_engine
from accams.engine.grid import Grid
from accams.engine.ray.engine import RayEngine
from accams.engine.rules import Slopes
from accams.fit.gibbs import SLOPE_INTERVAL, Chain
from accams.fit.hyper import Hyperparameters
from accams.threads import Threads

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
SHAPES = [(3, 2), (2, 3)]
KINDS = {
    "plain": {},
    "row noise": {"row_noise": 4.0, "sample_sigma": True},
    "effects": {"continuous": True, "start": "accams"},
}
SIDES = {
    "rows": (False, True),
    "columns": (True, False),
    "both": (True, True),
}  # with features


def engine_of(data: twins.Case, name: str, sides: str, **more: Any) -> Engine:
    """Return an engine with features of rows, of columns or of both."""
    grid, random = Grid.of(data.observations, len(SHAPES), row_weights=True, slopes=True), np.random.default_rng(4)
    features = [grid.feature_ticks(random.normal(size=(size, d))) for size, d in zip(data.X.shape, (3, 4), strict=True)]
    rows, cols = (x if given else None for x, given in zip(features, SIDES[sides], strict=True))
    if name == "ray":
        return RayEngine(data.observations, grid, Threads(1), features=(rows, cols), **more)
    engine = data.engine(name, grid=grid, **more)
    engine.features = rows, cols
    return engine


def chain_of(engine: Engine, **more: Any) -> Chain:
    return Chain(engine.new_state(), Hyperparameters(SHAPES, [1.0] * 2, [2.0] * 2, seed=3, **more), 0, 0.8)


def compare(right: Chain, found: Chain, sweeps: int) -> None:
    for _ in range(sweeps):
        for chain in (right, found):
            chain.run_sweep()
        assert_same(right, found)
        for axis in (0, 1):
            if right.state.slopes[axis] is not None:
                np.testing.assert_array_equal(right.state.slopes[axis], found.state.slopes[axis])
                np.testing.assert_array_equal(right.slope_tau2[axis], found.slope_tau2[axis])


@pytest.mark.covering(strength=2)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", ["missing", "missing weighted", "complete"])
@pytest.mark.parametrize("name", ["dense", "disk", "ray"])
def test_the_same_chain(name: str, kind: str, how: str, sides: str) -> None:
    data = twins.case(kind, (31, 24))
    more = {"cluster": twins.InProcess(), "n_shards": 3} if name == "ray" else {}
    engines = engine_of(data, "cpu", sides), engine_of(data, name, sides, **more)
    compare(*(chain_of(engine, **KINDS[how]) for engine in engines), SLOPE_INTERVAL + 2)
    for engine in engines:
        engine.close()


@pytest.mark.some(1)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["missing weighted", "complete"])
def test_a_gpu(kind: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the simulator; with observations on the device or streamed in chunks."""
    pytest.importorskip("numba.cuda")
    if streamed:
        from accams.engine.cuda import data as cuda_data

        monkeypatch.setattr(cuda_data, "most_entries", lambda *_: 64)
    data = twins.case(kind, (9, 8))
    engines = engine_of(data, "cpu", "both"), engine_of(data, "cuda", "both")
    compare(*(chain_of(engine, row_noise=4.0) for engine in engines), 2)
    for engine in engines:
        engine.close()


def test_workers_that_are_lost() -> None:
    """A worker that is replaced is told the slopes."""
    data, cluster = twins.case("missing weighted", (31, 24)), twins.InProcess()
    cluster.losing = 0.2
    engines = engine_of(data, "cpu", "both"), engine_of(data, "ray", "both", cluster=cluster, n_shards=2)
    compare(*(chain_of(engine, row_noise=4.0) for engine in engines), SLOPE_INTERVAL + 2)
    assert sum(group.lost for group in cluster.groups) > 10


def test_the_residual_is_exact() -> None:
    """It is the data less stencils and slopes, and predictions are their sum."""
    data = twins.case("missing", (31, 24))
    engine = engine_of(data, "cpu", "both")
    chain = chain_of(engine)
    for _ in range(SLOPE_INTERVAL + 1):
        chain.run_sweep()
    state, grid = chain.state, engine.grid
    model = twins.model_ticks(state)
    model += state.slopes[0].astype(np.int64) @ engine.features[1].T + engine.features[0] @ state.slopes[1].T
    assert np.abs(state.slopes[0]).max() > 0
    right = np.rint((data.X - grid.offset) / grid.step) - model
    for found in residuals(state):
        np.testing.assert_array_equal(found, np.where(data.W > 0, right, 0))
    i, j = np.divmod(np.arange(31 * 24), 24)
    np.testing.assert_array_equal(state.predict_at(i, j), (model * grid.step + grid.offset).ravel())


def test_a_chain_goes_on_from_another() -> None:
    data = twins.case("missing", (31, 24))
    chain, other = (chain_of(engine_of(data, "cpu", "rows"), row_noise=4.0) for _ in range(2))
    for _ in range(3):
        chain.run_sweep()
    other.continue_from(chain)
    compare(chain, other, SLOPE_INTERVAL)


@pytest.mark.parametrize("threads", [Threads(2), Threads(2, 7)])
def test_threads_and_chunks_do_not_matter(threads: Threads) -> None:
    data = twins.case("missing", (31, 24))
    compare(*(chain_of(engine_of(data, "cpu", "both", threads=each)) for each in (Threads(1), threads)), 2)


def test_the_estimate_of_memory() -> None:
    """What two chains hold after a draw of slopes is within what the estimate adds for them."""
    random = np.random.default_rng(0)
    X = np.where(random.random((1_500, 400)) < 0.2, random.normal(size=(1_500, 400)), np.nan)
    obs, features = Observations.from_dense(X), (None, random.normal(size=(400, 16)))
    compiling, made = (make_engine(obs, "cpu", 1, 1, features=features) for _ in range(2))
    draw = 0, Slopes(1e-9, np.full(16, 100.0), 1e-9, (1, 2)), lambda Q, g: np.ones(16)
    compiling.new_state().draw_slopes(*draw)
    states = [made.new_state(chain) for chain in (0, 1)]
    tracemalloc.start()
    try:
        for state in states:
            state.draw_slopes(*draw)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    plain, more = (memory_estimate(obs.shape, obs.nnz, n_chains=2, n_features=d) for d in (0, 16))
    assert 0.5 * (more - plain) < held < more - plain


def test_observed_zeros_have_no_slopes() -> None:
    data = twins.case("graph", (31, 24))
    with pytest.raises(InputError, match="engine='graph' has no features"):
        chain_of(engine_of(data, "graph", "rows")).run_sweep()
