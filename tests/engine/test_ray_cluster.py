"""Fits on a real Ray cluster (of this machine) equal those of one process, also when workers are killed."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from time import sleep
from typing import Any

import duckdb
import numpy as np
import pytest
import twins

from accams import ACCAMS, BayesianACCAMS, InputError, ItemACCAMS, Observations
from accams.batch import predict_all, recommend_all

ray = pytest.importorskip("ray", reason="Ray is not installed")
PAIRS = np.stack(np.unravel_index(np.arange(60 * 45), (60, 45)), axis=1)
SETTINGS: dict[str, Any] = {"n_sweeps": 4, "n_chains": 2, "noise": 0.7, "row_noise": 4.0, "verbose": False}


@pytest.fixture(scope="module", autouse=True)
def cluster(is_quick: bool) -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=2 if is_quick else 4,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    path = tmp_path_factory.mktemp("ray") / "s"
    twins.case("missing weighted", (60, 45)).observations.to_store(path)
    return Observations.open(path)


@pytest.fixture(scope="module")
def right(data: Observations) -> Any:
    return BayesianACCAMS(3, 3, engine="cpu", **SETTINGS).fit(data).predict(PAIRS)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def workers() -> list[int]:
    """Return the worker processes of this cluster, which are grandchildren of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(path.parent.name)
        with suppress(OSError):
            if path.read_bytes().startswith(b"ray::_Remote") and parent(parent(pid)) == os.getpid():
                found.append(pid)
    return found


@pytest.mark.some(1)
@pytest.mark.parametrize("n_shards", [2, 1, 4])
def test_the_same_model(n_shards: int, data: Observations, right: Any) -> None:
    model = BayesianACCAMS(3, 3, engine="ray", n_shards=n_shards, **SETTINGS).fit(data)
    assert np.array_equal(model.predict(PAIRS), right)


@pytest.mark.full
def test_from_memory() -> None:
    """The shards travel through the object store then."""
    obs = twins.case("missing", (60, 45)).observations
    right = ACCAMS(2, 3, engine="cpu", verbose=False).fit(obs).predict(PAIRS)
    assert np.array_equal(ACCAMS(2, 3, engine="ray", n_shards=2, verbose=False).fit(obs).predict(PAIRS), right)


@pytest.mark.full
def test_a_worker_that_is_killed(data: Observations, right: Any, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a sweep, and again in a later one."""
    killed = []

    def kill() -> None:
        for pid in workers()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    def watch(step: Any) -> None:
        if step.sweep in (1, 3):
            Timer(0.01, kill).start()

    with caplog.at_level(logging.WARNING, "accams.ray"):
        model = BayesianACCAMS(3, 3, engine="ray", n_shards=2, callbacks=[watch], **SETTINGS).fit(data)
    assert np.array_equal(model.predict(PAIRS), right)
    assert killed
    assert any("is lost" in record.getMessage() for record in caplog.records)


@pytest.mark.full
def test_workers_that_die_again_and_again(data: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.engine.ray.cluster.TRIES", 0)

    def watch(step: Any) -> None:
        for pid in workers():
            os.kill(pid, signal.SIGKILL)

    model = BayesianACCAMS(3, 3, engine="ray", n_shards=1, callbacks=[watch], **SETTINGS)
    with pytest.raises(
        InputError, match=r"^worker 0 of the cluster died 1 times in a row \(.*\): if its machine is out"
    ):
        model.fit(data)


@pytest.mark.full
def test_an_error_of_a_worker_is_told_in_its_own_words(
    data: Observations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data.store is not None
    shutil.copytree(data.store, tmp_path / "s")
    opened = Observations.open(tmp_path / "s")
    monkeypatch.setattr("accams.data.store.stamp", lambda path: 0)  # here, not where the workers are
    model = BayesianACCAMS(2, 2, engine="ray", n_shards=1, **SETTINGS)
    with pytest.raises(InputError, match="differs from the one where the fit was started"):
        model.fit(opened)
    shutil.move(tmp_path / "s", tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"is not visible from .*: put it where every machine"):
        model.fit(opened)


@pytest.mark.full
def test_batches(data: Observations, tmp_path: Path) -> None:
    """Files written by a cluster are those written here, also if a writer is killed."""
    BayesianACCAMS(2, 3, **SETTINGS).fit(data).save(tmp_path / "m.accams")
    told, killed = list[tuple[int, int]](), list[int]()

    def kill(done: int, of: int) -> None:
        told.append((done, of))
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                pid = int(path.parent.name)
                if done == 1 and path.read_bytes().startswith(b"ray::Server") and parent(parent(pid)) == os.getpid():
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return

    for engine, watch in (("cpu", None), ("ray", kill)):
        how: dict[str, Any] = {"engine": engine, "progress": watch}
        assert recommend_all(tmp_path / "m.accams", tmp_path / f"{engine}-top", 5, rows_per_file=7, **how) == 300
        predict_all(tmp_path / "m.accams", *PAIRS.T, tmp_path / f"{engine}-all", pairs_per_file=500, std=True, **how)
    for what in ("top", "all"):
        mine, theirs = (sorted((tmp_path / f"{engine}-{what}").iterdir()) for engine in ("cpu", "ray"))
        assert [path.name for path in mine] == [path.name for path in theirs]
        for a, b in zip(mine, theirs, strict=True):
            assert duckdb.sql(f"FROM '{a}'").fetchall() == duckdb.sql(f"FROM '{b}'").fetchall()
    assert told[:9] == [(done, 9) for done in range(1, 10)]
    assert len(killed) == 2


@pytest.mark.full
@pytest.mark.parametrize("apart", [False, True])
def test_batches_of_lists(apart: bool, data: Observations, tmp_path: Path) -> None:
    """Lists by choice too, with the history in the model's file or in one of its own."""
    history = tmp_path / "h.accams" if apart else None
    ItemACCAMS(max_bytes=2000, penalty=2.0, dropout=0.5, verbose=False).fit(data).save(
        tmp_path / "m.accams", history=history or True
    )
    written = []
    for engine in ("cpu", "ray"):
        folder = tmp_path / engine
        recommend_all(tmp_path / "m.accams", folder, 5, history=history, rows_per_file=7, engine=engine)
        written.append([duckdb.sql(f"FROM '{path}'").fetchall() for path in sorted(folder.iterdir())])
    assert written[0] == written[1]
    assert sum(map(len, written[0])) == 300


@pytest.mark.full
def test_machines_with_too_little_memory(data: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.engine.ray.engine.memory_estimate", lambda *_, **__: 10**14)
    with pytest.raises(InputError, match=r"^the workers on .* need about 2e\+05 GB for this fit, but Ray has"):
        BayesianACCAMS(2, 2, engine="ray", n_shards=2, **SETTINGS | {"n_chains": 1}).fit(data)


@pytest.mark.full
def test_nothing_is_left_running() -> None:
    """Workers end with the fit."""
    for _ in range(50):
        if not workers():
            break
        sleep(0.1)
    assert workers() == []
