"""Workers without a cluster: any number of shards, and workers that are lost on the way."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import twins

from accams import ACCAMS, BayesianACCAMS, InputError, Observations
from accams.data import store
from accams.engine.grid import Grid
from accams.engine.ray import cluster as ray_cluster
from accams.engine.ray import engine as ray_engine
from accams.engine.ray import shards
from accams.engine.ray.engine import RayEngine, cores_each
from accams.engine.ray.meter import size_of
from accams.engine.rules import Nearest
from accams.threads import Threads

MODELS = {
    "accams": ACCAMS(3, 3, n_relearn=1, verbose=False),
    "random": ACCAMS(2, (3, 4), init="random", verbose=False),
    "blocked": BayesianACCAMS(3, 3, n_sweeps=5, n_chains=2, noise=0.7, row_noise=4.0, verbose=False),
    "effects": BayesianACCAMS(2, 2, n_sweeps=4, n_chains=1, effects="continuous", noise="sampled", verbose=False),
    "calibrated": BayesianACCAMS(2, 2, n_sweeps=3, n_chains=1, verbose=False),
    "early": ACCAMS(4, 2, early_stopping=True, verbose=False),
    "shares": BayesianACCAMS(2, 3, n_sweeps=3, n_chains=1, noise=0.7, rao_blackwell=True, verbose=False),
}
PAIRS = np.stack(np.unravel_index(np.arange(60 * 45), (60, 45)), axis=1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> twins.InProcess:
    """Workers of this process, in place of a cluster."""
    found = twins.InProcess()
    monkeypatch.setattr(ray_engine, "connect", lambda: found)
    return found


def of(kind: str) -> Observations:
    return twins.case(kind, (60, 45)).observations


@pytest.mark.some(2)
@pytest.mark.covering
@pytest.mark.usefixtures("short_calibration")
@pytest.mark.parametrize("n_shards", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_model(name: str, n_shards: int, cluster: twins.InProcess) -> None:
    data, model = of("missing weighted"), MODELS[name]
    right = model.set_params(engine="cpu").fit(data).predict(PAIRS)
    found = model.set_params(engine="ray", n_shards=n_shards).fit(data).predict(PAIRS)
    assert np.array_equal(found, right)
    assert len(cluster.groups[-1]) == n_shards
    assert model.engine_ == "ray"


@pytest.mark.some(2)
@pytest.mark.covering
@pytest.mark.usefixtures("short_calibration")
@pytest.mark.parametrize("kind", ["missing", "complete"])
@pytest.mark.parametrize("name", MODELS)
def test_workers_that_are_lost(name: str, kind: str, cluster: twins.InProcess) -> None:
    """A tenth of all replies comes from a worker to which all events have just been replayed."""
    data, model = of(kind), MODELS[name]
    right = model.set_params(engine="cpu").fit(data).predict(PAIRS)
    cluster.losing = 0.1
    found = model.set_params(engine="ray", n_shards=None).fit(data).predict(PAIRS)
    assert np.array_equal(found, right)
    assert sum(group.lost for group in cluster.groups) > 3


@pytest.mark.some(2)
@pytest.mark.usefixtures("short_calibration")
@pytest.mark.parametrize("name", ["blocked", "calibrated", "early"])
def test_from_a_store(name: str, cluster: twins.InProcess, tmp_path: Path) -> None:
    """Workers read it, and its training part when some is held out; the driver has no ratings."""
    data, model = of("missing weighted"), MODELS[name]
    data.to_store(tmp_path / "s")
    right = model.set_params(engine="cpu").fit(data).predict(PAIRS)
    opened = Observations.open(tmp_path / "s")
    assert np.array_equal(model.set_params(engine="ray").fit(opened).predict(PAIRS), right)
    for group in cluster.groups:
        assert isinstance(group.workers[0]._data[0].shard.partners, np.memmap)


def test_shards_without_rows(cluster: twins.InProcess, is_quick: bool) -> None:
    """A column with most of the ratings leaves nothing for the shards beside it."""
    rows, cols = np.append(np.arange(40), np.arange(11)), np.append(np.zeros(40, int), np.arange(1, 12))
    data = Observations.from_coo(rows, cols, np.arange(51.0) % 5)
    assert any(lo == hi for lo, hi in shards.cuts(data.col_starts, 6))
    for name in ("effects",) if is_quick else ("accams", "blocked", "effects"):
        model = MODELS[name]
        right = model.set_params(engine="cpu", n_shards=None).fit(data).predict(data.pairs())
        assert np.array_equal(model.set_params(engine="ray", n_shards=6).fit(data).predict(data.pairs()), right)


@pytest.mark.parametrize("seed", [920, 2455, 3148])
def test_a_worker_that_is_lost_in_k_means(seed: int, cluster: twins.InProcess) -> None:
    """It cannot count the labels that have changed: at these seeds that once ended k-means too early."""
    data = twins.case("missing", (12, 10), seed)
    cluster.losing, labels = 0.3, []
    for engine in (data.engine("cpu"), RayEngine(data.observations, Grid.of(data.observations, 6), Threads(1),
                                                 n_shards=6, cluster=cluster)):  # fmt: skip
        state = engine.new_state()
        state.begin(0, (3, 4))
        for turn in range(2):
            state.seed(0, "k-means++", np.random.default_rng(turn))
        labels.append(state.labels)
    assert all(np.array_equal(a, b) for a, b in zip(*labels, strict=True))


@pytest.mark.parametrize(
    ("machines", "workers", "most", "each"),
    [
        ([2, 2], 1, None, 2), ([8, 8], 3, None, 4), ([8, 4, 4], 3, None, 4), ([4], 2, None, 2), ([1, 1], 4, None, 0.5),
        ([2], 3, None, 0.5), ([8, 8], 2, 4, 2), ([2], 1, 8, 8), ([2], 4, 1, 0.25),
    ],
)  # fmt: skip
def test_cores_of_each_worker(machines: list[int], workers: int, most: int | None, each: float) -> None:
    assert cores_each(machines, workers, most) == each


def test_cuts_hold_every_row_once() -> None:
    starts = np.concatenate([[0], np.cumsum([3, 0, 9, 1, 1, 1, 0, 20, 2])])
    for n in (1, 2, 3, 9):
        found = shards.cuts(starts, n)
        assert len(found) == n
        assert [lo for lo, _ in found] == [0, *(hi for _, hi in found)][:-1]
        assert found[-1][1] == 9


@pytest.mark.parametrize("axis", [0, 1])
def test_shards_of_a_store_are_those_of_memory(axis: int, tmp_path: Path) -> None:
    data = of("missing weighted")
    data.to_store(tmp_path / "s")
    ranges = shards.cuts(data.row_starts, 3), shards.cuts(data.col_starts, 3)
    both = (shards.loaders(each, ranges) for each in (data, Observations.open(tmp_path / "s")))
    for mine, theirs in zip(*both, strict=True):
        for a, b in zip(mine[axis](), theirs[axis](), strict=True):
            assert np.array_equal(a, b)


def test_a_store_that_workers_do_not_see(cluster: twins.InProcess, tmp_path: Path) -> None:
    of("missing").to_store(tmp_path / "s")
    opened = Observations.open(tmp_path / "s")
    model = BayesianACCAMS(2, 2, n_sweeps=2, n_chains=1, noise=0.7, engine="ray", verbose=False)
    stamp, original = store.stamp(tmp_path / "s"), store.stamp
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards.store, "is_store", lambda path: False)
        with pytest.raises(InputError, match=r"is not visible from .*: put it where every machine"):
            model.fit(opened)
        with pytest.raises(InputError, match=r"the training part of the store .* is not visible from .*: put the"):
            shards.from_store(tmp_path / ".s-1", 0, 0, 0, 1)
    calls = iter([stamp, stamp, stamp + 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards.store, "stamp", lambda path: next(calls, original(path)))
        with pytest.raises(InputError, match=r"differs from the one where the fit was started: copy it again"):
            model.fit(opened)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_shards": 46}, "n_shards=46 is more than there are rows or columns: use 45 at most"),
        ({"n_shards": 0}, "n_shards must be"),
        ({"sampler": "collapsed"}, "engine='ray' has no collapsed sampler: use sampler='blocked' or engine='cpu'"),
    ],
)
def test_what_does_not_fit(settings: dict[str, Any], message: str, cluster: twins.InProcess) -> None:
    with pytest.raises(InputError, match=message):
        BayesianACCAMS(2, 2, engine="ray", noise=0.7, verbose=False, **settings).fit(of("missing"))


def test_a_run_that_goes_on(cluster: twins.InProcess, tmp_path: Path) -> None:
    """From a checkpoint, with other shards than before."""
    data, settings = of("missing"), {"n_chains": 2, "noise": 0.7, "row_noise": 4.0, "verbose": False}
    right = BayesianACCAMS(3, 3, n_sweeps=6, engine="cpu", **settings).fit(data).predict(PAIRS)
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 3, "engine": "ray", **settings}
    BayesianACCAMS(3, 3, n_sweeps=3, n_shards=2, **kept).fit(data)
    model = BayesianACCAMS(3, 3, n_sweeps=6, n_shards=4, **kept).fit(data, resume=tmp_path / "run")
    assert np.array_equal(model.predict(PAIRS), right)


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^engine='ray' needs Ray: pip install 'accams\[ray\]', or use engine='cpu'$"):
        ACCAMS(2, 2, engine="ray").fit(of("missing"))


def test_what_is_said_of_lost_workers() -> None:
    missing = ray_cluster._lost(2, 1, RuntimeError("The actor died: failed to import it\nNo module named 'accams'"))
    assert str(missing) == "a machine of the cluster cannot import accams: install the same version on all of them"
    told = str(ray_cluster._lost(2, 6, RuntimeError("\nkilled\nmore")))
    assert told.startswith("worker 2 of the cluster died 6 times in a row (killed): if its machine is out of memory")


def test_observed_zeros_stay_on_one_machine(cluster: twins.InProcess) -> None:
    with pytest.raises(InputError, match="observed zeros need engine='graph'"):
        ACCAMS(2, 2, engine="ray").fit(twins.case("graph").observations)


def test_what_a_sweep_costs(cluster: twins.InProcess, caplog: pytest.LogCaptureFixture) -> None:
    """Every sweep has a line in the log, with the bytes of labels, squared residuals and tables."""
    m, n, s, k, shards = 60, 45, 4, 3, 2
    model = BayesianACCAMS(s, k, n_sweeps=3, n_chains=1, noise=0.7, row_noise=4.0, engine="ray", n_shards=shards)
    with caplog.at_level(logging.INFO, "accams.ray"):
        model.set_params(verbose=False).fit(of("missing"))
    told = [record.getMessage() for record in caplog.records]
    assert [each.split(":")[0] for each in told] == [f"chain 0, sweep {sweep}" for sweep in (1, 2, 3)]
    tables = shards * s * 2 * 8 * (2 * k * k + k)
    received = (s * (m + n) + 8 * m + tables) / 1e6
    assert all(f"{2 * s + 1} requests (squares " in each for each in told[1:])
    assert all(each.endswith(f"{received:.3f} MB received") for each in told[1:])


def test_sizes() -> None:
    assert size_of([np.zeros(3), ("labels", 0, np.zeros(5, np.uint8)), None, 7]) == 29
    assert size_of(Nearest(np.zeros((2, 3), np.int32), prices=np.zeros(2))) == 40
