"""On a real GPU, with more data than a simulator could do: NUMBA_ENABLE_CUDASIM=0 pytest tests/engine -m gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accams import ACCAMS, BayesianACCAMS, InputError, Observations, memory_estimate
from accams.data.planted import planted_stencils
from accams.engine.choose import make_engine
from accams.engine.cuda import device

cuda = pytest.importorskip("numba.cuda")


def a_gpu() -> bool:
    try:
        return not device.find_device().simulated
    except InputError:
        return False


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not a_gpu(), reason="no NVIDIA GPU")]
TALL, WIDE = (150_000, 300), (300, 150_000)  # more partners than one tile has


def data(shape: tuple[int, int], nnz: int) -> Observations:
    planted = planted_stencils(shape, 4, 6, nnz=nnz, noise=0.8, scale=0.4, offset=3.5, degrees="long-tailed")
    return planted.observations


def state_of(obs: Observations, name: str, k: int, weighted: bool) -> Any:
    """Return a state with two stencils, in which a third has been begun."""
    rng = np.random.default_rng(7)
    state = make_engine(obs, name, 3, shapes=[(k, k)] * 3).new_state()
    labels = [[rng.integers(0, k, size).astype(np.uint8) for _ in range(2)] for size in obs.shape]
    state.restore([rng.integers(-(2**12), 2**12, (k, k)).astype(np.int32) for _ in range(2)], *labels)
    if weighted:
        state.set_row_weights(rng.gamma(2.0, 0.5, obs.shape[0]))
    state.begin(2, (k, k))
    for axis, size in enumerate(obs.shape):
        state.set_labels(axis, rng.integers(0, k, size).astype(np.uint8))
    return state


@pytest.mark.parametrize("shape", [TALL, WIDE, (5_000, 4_000)])
@pytest.mark.parametrize("k", [3, 10, 32])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_tables_and_squares_are_those_of_the_cpu(shape: tuple[int, int], k: int, weighted: bool) -> None:
    obs = data(shape, 2_000_000)
    cpu, gpu = (state_of(obs, name, k, weighted) for name in ("cpu", "cuda"))
    for axis in (0, 1):
        for mine, theirs in zip(cpu.sums(axis), gpu.sums(axis), strict=True):
            assert np.array_equal(mine, theirs)
        assert np.array_equal(cpu.tables(axis).L, gpu.tables(axis).L)
    assert cpu.squared_error(row_weighted=weighted) == gpu.squared_error(row_weighted=weighted)
    gpu.engine.close()


def labels_that_differ(one: Any, other: Any) -> float:
    pairs = zip(one.stencils_.stencils, other.stencils_.stencils, strict=True)
    return float(np.mean([np.mean(a.row_labels != b.row_labels) for a, b in pairs]))


def test_fits_are_those_of_the_cpu() -> None:
    """Equal but for nearly tied labels, whose costs are rounded in another order."""
    obs = data((8_000, 2_000), 1_000_000)
    models = [ACCAMS(4, 8, engine=name, random_state=0, verbose=False).fit(obs) for name in ("cpu", "cuda")]
    assert labels_that_differ(*models) < 0.02
    assert models[0].train_rmse_ == pytest.approx(models[1].train_rmse_, abs=1e-4)
    chosen = {"n_chains": 2, "n_sweeps": 12, "n_burn_in": 6, "random_state": 0, "verbose": False}
    bayes = [BayesianACCAMS(4, 8, engine=name, noise="sampled", **chosen).fit(obs) for name in ("cpu", "cuda")]
    assert bayes[0].sigma_ == pytest.approx(bayes[1].sigma_, abs=2e-3)
    assert abs(bayes[1].sigma_ - 0.8) < 0.02


def predictions(obs: Observations, **more: Any) -> NDArray[np.float64]:
    chosen = {"n_chains": 2, "n_sweeps": 8, "n_burn_in": 3, "noise": "sampled", "n_sub": 3, "verbose": False}
    cells = np.random.default_rng(1).integers(0, min(obs.shape), (500, 2))
    return BayesianACCAMS(5, 10, engine="cuda", random_state=3, **(chosen | more)).fit(obs).predict(cells)


@pytest.mark.parametrize("more", [{}, {"row_noise": 6.0}, {"effects": "continuous"}])
def test_two_runs_are_the_same_to_the_bit(more: dict[str, Any]) -> None:
    obs = data(TALL, 1_000_000)
    assert np.array_equal(predictions(obs, **more), predictions(obs, **more))


def test_ratings_that_pass_by_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = data(TALL, 2_000_000)
    expected = predictions(obs)
    monkeypatch.setattr("accams.engine.cuda.data.most_entries", lambda *_: 300_000)
    assert np.array_equal(predictions(obs), expected)


def test_complete_matrices() -> None:
    X = planted_stencils((700, 900), 3, 5, noise=0.5).observations
    models = [ACCAMS(3, 5, engine=name, random_state=0, verbose=False).fit(X) for name in ("cpu", "cuda")]
    assert models[0].train_rmse_ == pytest.approx(models[1].train_rmse_, rel=1e-3)


def test_the_estimate_of_memory() -> None:
    """Within five percent of the memory that a chain takes on the GPU."""
    obs = data((300_000, 5_000), 20_000_000)
    device.free_unused()
    cuda.synchronize()
    before = cuda.current_context().get_memory_info()[0]
    state = state_of(obs, "cuda", 10, False)
    for axis in (0, 1):
        state.sums(axis)
    used = before - cuda.current_context().get_memory_info()[0]
    expected = memory_estimate(obs.shape, obs.nnz, n_stencils=1, n_clusters=10, engine="cuda")
    assert used == pytest.approx(expected, rel=0.05)
    state.engine.close()
    del state
    assert before - cuda.current_context().get_memory_info()[0] < 0.05 * used
