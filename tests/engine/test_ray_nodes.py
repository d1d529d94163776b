"""A cluster of two machines (both of them this one), of which one is switched off during a fit."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import twins

from accams import BayesianACCAMS, Observations
from accams.engine.ray import cluster as ray_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed")
PAIRS = np.stack(np.unravel_index(np.arange(60 * 45), (60, 45)), axis=1)


def start(*options: str) -> subprocess.Popen[bytes]:
    """A machine with one core."""
    command = [str(Path(sys.executable).parent / "ray"), "start", *options, "--block", "--num-cpus=1"]
    more = ["--object-store-memory=100000000", "--disable-usage-stats"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, *more], start_new_session=True, **quiet)  # type: ignore[call-overload, no-any-return]


def switch_off(machine: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, which share a session."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rsplit(")", 1)[1].split()[3]) == machine.pid:
                os.kill(int(path.parent.name), signal.SIGKILL)
    machine.wait()


@pytest.fixture
def machines() -> Iterator[list[subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = [start("--head", f"--port={port}", "--include-dashboard=false")]
    try:
        until = monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)) and monotonic() < until:
            sleep(0.2)
        found.append(start(f"--address=127.0.0.1:{port}"))
        ray_cluster.join(f"127.0.0.1:{port}")
        while sum(each["Alive"] for each in ray.nodes()) < 2 and monotonic() < until:
            sleep(0.2)
        yield found
    finally:
        ray.shutdown()
        for each in found:
            switch_off(each)
        known = Path("/tmp/ray/ray_current_cluster")  # by which others would look for a cluster that is no more
        if known.is_file() and known.read_text().endswith(f":{port}"):
            known.unlink()


@pytest.mark.full  # half a minute of waiting; `test_ray_cluster` kills workers, and `test_ray_workers` loses them
def test_a_machine_that_is_switched_off(
    machines: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The other one takes over its shard, and the model is the same."""
    twins.case("missing weighted", (60, 45)).observations.to_store(tmp_path / "s")
    data = Observations.open(tmp_path / "s")
    settings: dict[str, Any] = {"n_sweeps": 5, "n_chains": 1, "noise": 0.7, "row_noise": 4.0, "verbose": False}
    right = BayesianACCAMS(3, 3, engine="cpu", **settings).fit(data).predict(PAIRS)
    monkeypatch.setattr(ray_cluster, "PATIENCE", 5.0)

    def watch(step: Any) -> None:
        if step.sweep == 2:
            switch_off(machines[1])

    with caplog.at_level(logging.WARNING, "accams.ray"):
        model = BayesianACCAMS(3, 3, engine="ray", callbacks=[watch], **settings).fit(data)  # a shard on each
    assert np.array_equal(model.predict(PAIRS), right)
    told = [record.getMessage() for record in caplog.records]
    assert any("is lost" in each for each in told)
    assert any("no core has become free for worker" in each for each in told)
