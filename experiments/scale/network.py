"""Bytes that travel between the machines of a cluster in a sweep, beside the cost model of docs/scale.md.

All machines are this one: a head, where the fit is started, and two with a worker each are `ray start` processes that
talk through the loopback device. Its counter is read at the end of each sweep; what travels while nothing is fitted is
taken off.

Run: python experiments/scale/network.py STORE [--stencils 10] [--sweeps 6]      (STORE by experiments/scale/on_ray.py)
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # before Ray is imported: nobody else can reach these machines

import ray

from accams import BayesianACCAMS, Observations, Priors, Schedule
from accams.engine.ray.cluster import join
from common import machine, table

MACHINES, K = 2, 10


def start(*options: str) -> subprocess.Popen[bytes]:
    """A machine."""
    command = str(Path(sys.executable).parent / "ray")
    more = ["--block", "--object-store-memory=1000000000", "--disable-usage-stats"]
    return subprocess.Popen([command, "start", *options, *more], start_new_session=True, stdout=subprocess.DEVNULL)


def stop(started: subprocess.Popen[bytes]) -> None:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rsplit(")", 1)[1].split()[3]) == started.pid:
                os.kill(int(path.parent.name), signal.SIGKILL)


def travelled() -> int:
    """Bytes that the loopback device has received."""
    line = next(each for each in Path("/proc/net/dev").read_text().splitlines() if each.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


def model_of(shape: tuple[int, int], stencils: int, row_noise: bool) -> dict[str, float]:
    """Bytes a sweep of one chain with one update a visit; the fit was started where no worker is."""
    m, n = shape
    return {
        "labels, from the workers": stencils * (m + n),
        "labels, to every machine": MACHINES * stencils * (m + n),
        "squared residuals of rows": 8 * m,
        "weights of rows": MACHINES * 4 * m if row_noise else 0,
        "tables and templates": MACHINES * stencils * 2 * (2 * 8 + 4) * K * K,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--stencils", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=6)
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    machines = [start("--head", f"--port={port}", "--include-dashboard=false", "--num-cpus=0")]
    try:
        for _ in range(MACHINES):
            sleep(8)
            machines.append(start(f"--address=127.0.0.1:{port}", "--num-cpus=1"))
        sleep(8)
        join(f"127.0.0.1:{port}")
        before = travelled()
        sleep(10)
        idle = (travelled() - before) / 10
        obs = Observations.open(given.store, trust=True)
        marks = list[tuple[float, int]]()

        def watch(_: Any) -> None:
            marks.append((perf_counter(), travelled()))

        model = BayesianACCAMS(
            given.stencils, K, engine="ray", noise="sampled", callbacks=[watch], n_sweeps=given.sweeps, n_chains=1,
            priors=Priors(row_noise=4.0), schedule=Schedule(n_burn_in=given.sweeps - 1, thin=1, n_shards=MACHINES),
            verbose=False,
        )  # fmt: skip
        assert sum(each["Alive"] for each in ray.nodes()) == 1 + MACHINES
        model.fit(obs)
    finally:
        for each in machines:
            stop(each)
    measured = [b[1] - a[1] - idle * (b[0] - a[0]) for a, b in pairwise(marks)]
    parts = model_of(obs.shape, given.stencils, row_noise=True)
    rows = [[what, f"{size / 1e6:.3f}"] for what, size in parts.items()]
    rows += [["cost model", f"{sum(parts.values()) / 1e6:.3f}"], ["measured, median", f"{median(measured) / 1e6:.3f}"]]
    print(table(["MB a sweep", ""], rows))
    print(f"measured / model: {median(measured) / sum(parts.values()):.3f}; {[round(x / 1e6, 2) for x in measured]} MB")
    print(f"{idle / 1e3:.1f} KB/s travel anyway. {obs}, s = {given.stencils}")
    print(machine())


if __name__ == "__main__":
    main()
