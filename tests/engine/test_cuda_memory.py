"""The memory of a fit on a GPU is estimated beforehand."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from accams import ACCAMS, BayesianACCAMS, InputError, Observations, memory_estimate
from accams.engine.choose import make_engine
from accams.engine.cuda import data, device
from accams.engine.cuda.sums import PieceSums
from accams.engine.memory import piece_size

cuda = pytest.importorskip("numba.cuda")


def ratings(m: int, n: int, per_row: int, weighted: bool = False) -> Observations:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(m), per_row)
    cols = (rng.integers(0, n, m)[:, None] + np.arange(per_row) * 3) % n if per_row < n else np.tile(np.arange(n), m)
    values = rng.normal(size=len(rows))
    weights = rng.random(len(rows)) + 0.5 if weighted else None
    return Observations.from_coo(rows, np.ravel(cols), values, weights=weights, shape=(m, n))


@pytest.mark.some(3)
@pytest.mark.parametrize(("weighted", "ordinal"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("m", "n", "per_row"), [(20_000, 700, 60), (900, 800, 800)])
def test_the_estimate(
    m: int, n: int, per_row: int, weighted: bool, ordinal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within five percent of all arrays that an engine and two chains of two stencils have."""
    held: list[int] = []
    large = device.find_device()._replace(processors=132)  # pieces are as small as there
    monkeypatch.setattr(data, "find_device", lambda: large)

    def counted(original: Any) -> Any:
        return lambda array, **more: held.append(array.nbytes) or original(array, **more)

    for name in ("to_device", "device_array_like"):
        monkeypatch.setattr(device.cuda, name, counted(getattr(device.cuda, name)))
    obs = ratings(m, n, per_row, weighted)
    made = make_engine(obs, "cuda", 4, 1, n_chains=2, shapes=[(6, 5), (6, 5)])
    for chain in (0, 1):
        state = made.new_state(chain)
        if ordinal:  # latent values and levels, without a draw
            state._residual._initial(None)
            made.levels(np.arange(5.0))
        for axis in (0, 1):  # the sums of one stencil, without a pass
            PieceSums.empty(made.orders[axis].layout, (6, 5)[1 - axis], weighted, state.stream)
    expected = memory_estimate(
        (m, n),
        obs.nnz,
        n_stencils=2,
        n_clusters=(6, 5),
        n_chains=2,
        weights=weighted,
        engine="cuda",
        ordinal=ordinal,
    )
    assert 0.95 < sum(held) / expected < 1.05


@pytest.mark.parametrize(("nnz", "expected"), [(0, 32), (10**6, 32), (2 * 10**7, 64), (10**8, 512), (10**10, 512)])
def test_pieces_are_small_where_there_is_little_to_do(nnz: int, expected: int) -> None:
    assert piece_size(nnz) == expected


def small_device(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    found = device.find_device()._replace(memory=memory)
    monkeypatch.setattr(data, "find_device", lambda: found)


def test_too_little_memory_is_said_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = ratings(30, 20, 10)
    small_device(monkeypatch, 10_000)
    monkeypatch.setattr(device.cuda, "to_device", lambda *_, **__: pytest.fail("something was allocated"))
    with pytest.raises(InputError, match=r"needs .* GB on the GPU for this fit, or at least .* but only 1e-05 GB are"):
        ACCAMS(2, 3, engine="cuda", verbose=False).fit(obs)
    with pytest.raises(InputError, match=r"for this fit of 3 chains.*: use fewer stencils or chains, or engine='cpu'"):
        BayesianACCAMS(2, 3, engine="cuda", n_chains=3, noise=0.5, verbose=False).fit(obs)


def test_ratings_pass_by_where_they_alone_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = ratings(3_000, 400, 300)
    fixed = memory_estimate((3_000, 400), 0, n_stencils=2, n_clusters=3, engine="cuda")
    small_device(monkeypatch, fixed + 3_000_000)
    made = make_engine(obs, "cuda", 2, 1, shapes=[(3, 3)])
    chunks = made.orders[0].chunks  # type: ignore[attr-defined]
    assert len(chunks) > 3
    assert [chunk.first for chunk in chunks[1:]] == [chunk.last for chunk in chunks[:-1]]
    assert 12 * max(chunk.last - chunk.first for chunk in chunks) < 3_000_000


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_fit_leaves_nothing_on_the_device(interrupted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that ends nor one that is interrupted, which leaves a model that can be used."""
    held: list[Any] = []
    original = device.cuda.to_device

    def noted(array: Any, **more: Any) -> Any:
        made = original(array, **more)
        held.append(weakref.ref(made))
        return made

    def stop(step: Any) -> None:
        if interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(device.cuda, "to_device", noted)
    gc.collect()
    gc.disable()
    try:
        chosen = {"n_chains": 1, "n_sweeps": 2, "n_burn_in": 0, "noise": 0.5, "engine": "cuda", "init": "prior"}
        with pytest.warns(UserWarning, match="interrupted") if interrupted else nullcontext():
            model = BayesianACCAMS(1, 2, callbacks=[stop], verbose=False, **chosen).fit(ratings(8, 7, 4))
        assert len(held) > 10
        assert [each() for each in held if each() is not None] == []
    finally:
        gc.enable()
    assert np.isfinite(model.predict([(0, 1), (7, 3)])).all()
