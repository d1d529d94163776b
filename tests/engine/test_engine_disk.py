"""Fits of a streamed store equal those of the same data in memory, and leave no files behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import twins

from accams import ACCAMS, BayesianACCAMS, InputError, Observations, memory_estimate
from accams.engine import disk, memory
from accams.estimators import memory as estimator_memory
from accams.estimators import planning
from accams.fit import calibrate
from accams.fit.running import Running
from accams.threads import ranges_of


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Observations:
    """Weighted ratings, with a store of them in ``tmp_path / "s"``."""
    monkeypatch.setattr(disk, "DISK_BLOCK", 100)
    obs = twins.case("missing weighted", (60, 45)).observations
    obs.to_store(tmp_path / "s")
    return obs


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "model",
    [
        ACCAMS(3, 3, n_relearn=1, verbose=False),
        ACCAMS(2, (3, 4), init="random", verbose=False),
        BayesianACCAMS(3, 3, n_sweeps=6, n_chains=3, n_threads=3, noise=0.7, verbose=False),
        BayesianACCAMS(2, 2, n_sweeps=4, n_chains=1, effects="continuous", noise="sampled", verbose=False),
        BayesianACCAMS(2, 2, n_sweeps=4, n_chains=1, sampler="collapsed", noise=0.7, n_threads=2, verbose=False),
        BayesianACCAMS(2, 2, n_sweeps=3, n_chains=1, verbose=False),
        ACCAMS(4, 2, early_stopping=True, verbose=False),
        BayesianACCAMS(2, 2, n_sweeps=4, n_chains=2, early_stopping=True, noise=0.7, verbose=False),
    ],
    ids=["accams", "random", "blocked", "effects", "collapsed", "calibrated", "early", "early bayes"],
)
@pytest.mark.usefixtures("short_calibration", "chains_at_once")
def test_the_same_model(model: Any, data: Observations, tmp_path: Path) -> None:
    pairs = np.stack(np.unravel_index(np.arange(60 * 45), (60, 45)), axis=1)
    right = model.set_params(engine="cpu").fit(data).predict(pairs)
    found = model.set_params(engine="disk").fit(Observations.open(tmp_path / "s")).predict(pairs)
    assert np.array_equal(found, right)
    assert model.engine_ == "disk"
    assert [path.name for path in tmp_path.iterdir()] == ["s"]  # residuals are gone


def test_ranges_hold_every_row_once() -> None:
    starts = np.concatenate([[0], np.cumsum([3, 0, 9, 1, 1, 1, 0, 20, 2])])
    found = ranges_of(starts, 5)
    assert [lo for lo, _ in found] == [0, *(hi for _, hi in found)][:-1]
    assert found[-1][1] == 9
    assert all(starts[hi] - starts[lo] <= 5 or hi == lo + 1 for lo, hi in found)


def test_what_is_no_store(data: Observations) -> None:
    with pytest.raises(InputError, match=r"engine='disk' takes a store: create one with Observations\.to_store"):
        ACCAMS(2, 2, engine="disk").fit(data)


def test_a_store_that_shrinks(data: Observations, tmp_path: Path) -> None:
    obs = Observations.open(tmp_path / "s")
    content = (tmp_path / "s" / "cols.npy").read_bytes()
    (tmp_path / "s" / "cols.npy").write_bytes(content[:-40])
    with pytest.raises(InputError, match="a file of the store was truncated: ingest the data again"):
        ACCAMS(2, 2, engine="disk", verbose=False).fit(obs)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_residuals_may_be_elsewhere(data: Observations, tmp_path: Path, made_elsewhere: list[str]) -> None:
    """Residuals go elsewhere if no folder can be created beside the store."""
    ACCAMS(1, 2, engine="disk", verbose=False).fit(Observations.open(tmp_path / "s"))
    assert len(made_elsewhere) == 1
    assert not Path(made_elsewhere[0]).exists()


@pytest.mark.usefixtures("short_calibration")
def test_a_store_too_large_for_memory_is_streamed(
    data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it would not help."""
    monkeypatch.setattr(memory, "PYTHON", 0)
    monkeypatch.setattr(memory, "DISK_BLOCK", 1)
    settings: dict[str, Any] = {"n_sweeps": 2, "n_chains": 1, "verbose": False, "n_threads": 1}
    obs = Observations.open(tmp_path / "s")
    in_memory = memory_estimate(obs.shape, obs.nnz, n_stencils=2, n_clusters=2, weights=True)
    on_disk = memory_estimate(obs.shape, obs.nnz, n_stencils=2, n_clusters=2, engine="disk")
    assert on_disk < in_memory
    for limit, name in ((in_memory, "cpu"), (in_memory - 1, "disk")):
        model = BayesianACCAMS(2, 2, noise=0.7, memory_limit=limit, **settings).fit(obs)
        assert model.engine_ == name
    with pytest.raises(InputError, match="even if the ratings stay on disk"):
        BayesianACCAMS(2, 2, noise=0.7, memory_limit=on_disk - 1, **settings).fit(obs)
    with pytest.raises(InputError, match="even one chain does not fit"):
        BayesianACCAMS(2, 2, noise=0.7, memory_limit=in_memory - 1, **settings).fit(data)
    with pytest.raises(InputError, match=r"even if the ratings stay on disk.*: set noise='sampled' or a number"):
        BayesianACCAMS(2, 2, memory_limit=in_memory - 1, **settings).fit(obs)
    monkeypatch.setattr(memory, "PYTHON", -(10**9))
    model = BayesianACCAMS(2, 2, early_stopping=True, memory_limit=in_memory - 1, **settings).fit(obs)
    assert model.engine_ == "disk"


def test_pages_are_let_go(data: Observations, tmp_path: Path) -> None:
    obs = Observations.open(tmp_path / "s")
    before = obs.stored_values.sum()
    obs.release_pages()
    assert obs.stored_values.sum() == before
    data.release_pages()  # a no-op


def test_what_cannot_be_streamed(data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that `disk` does not support is not switched to it."""
    monkeypatch.setattr(memory, "PYTHON", -(10**9))
    settings: dict[str, Any] = {"n_sweeps": 2, "n_chains": 1, "noise": 0.7, "verbose": False, "memory_limit": 100.0}
    zeros = twins.case("graph", (60, 45)).observations
    zeros.to_store(tmp_path / "z")
    with pytest.raises(InputError, match="even one chain does not fit"):
        BayesianACCAMS(2, 2, row_noise=None, **settings).fit(Observations.open(tmp_path / "z"))


def test_a_full_disk(data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "pwrite", full)
    with pytest.raises(InputError, match="cannot write residuals beside the store: No space left on device; they take"):
        ACCAMS(2, 2, engine="disk", verbose=False).fit(Observations.open(tmp_path / "s"))
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_store_by_a_path_from_here(data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    obs = Observations.open("s")
    monkeypatch.chdir(tmp_path.parent)
    streamed, in_memory = (ACCAMS(1, 2, engine=name, verbose=False) for name in ("disk", "cpu"))
    assert np.array_equal(streamed.fit(obs).predict(data.pairs()), in_memory.fit(data).predict(data.pairs()))


def test_where_files_cannot_be_read_so(data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(disk.os, "preadv")
    with pytest.raises(InputError, match="engine='disk' needs Linux or macOS: use engine='cpu'"):
        ACCAMS(2, 2, engine="disk", verbose=False).fit(Observations.open(tmp_path / "s"))


def test_what_is_held_out_counts(data: Observations) -> None:
    """At least what watched cells keep of every chain (sums and squares of 32 pieces), and held-out ones of eight."""
    plain = BayesianACCAMS(2, 2, n_chains=3, noise=0.7)
    watching = BayesianACCAMS(2, 2, n_chains=3, noise=0.7, early_stopping=True, validation_fraction=0.5)
    found = dict[str, int]()
    for name, model in (("plain", plain), ("watching", watching)):
        plan = planning.plan_of(model, data, 0)
        found[name] = estimator_memory._streamed(model, data, plan, 3, (2, 2))
        found["eight"] = estimator_memory._streamed(plain, data, plan, 8, (2, 2))
        found["calibrated"] = estimator_memory._streamed(plain, data, replace(plan, calibrated=True), 8, (2, 2))
    assert found["watching"] - found["plain"] > data.nnz // 2 * 3 * 32 * 16
    assert found["calibrated"] - found["eight"] >= calibrate.held_out_size(data.nnz) * 8 * 40
    kept = Running(np.arange(10), np.arange(10))
    for sweep in range(500):
        kept.add(sweep, np.ones((3, 10)))
    assert len(kept.blocks) <= 32
