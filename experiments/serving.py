"""Load on `accams serve`: requests a second, waiting times, memory, and swaps of the model under load.

    python experiments/serving.py model.accams --history model.history --titles movies.csv

Needs wrk (apt-get install wrk), which shares the machine with the service, as clients of a small deployment do. The
model of the table in docs/serving.md is one of MovieLens 1M in 50 KB (`accams fit`, `accams compress --max-bytes 50k
--history`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import httpx

import accams

SECONDS, CONNECTIONS, ROUNDS = 5, 16, 5
KNOWN = """
local users = {%(users)s}
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  at = at + 1
  return wrk.format(nil, nil, nil, '{"user": ' .. users[at %% #users + 1] .. '%(more)s}')
end
"""
STRANGER = """
local items = {%(items)s}
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  at = at + 1
  local rated = {}
  for k = 1, 20 do
    rated[k] = string.format('"%%s": %%d', items[(at * 37 + k * 101) %% #items + 1], (at + k) %% 5 + 1)
  end
  return wrk.format(nil, nil, nil, '{"rated": {' .. table.concat(rated, ", ") .. '}%(more)s}')
end
"""
TOLD = ', "interval": 0.8, "explain": true'


class Load(NamedTuple):
    """What wrk has measured."""

    rate: float
    median: float
    p99: float
    requests: int
    failed: int


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def loaded(url: str, script: Path, seconds: int) -> Load:
    """Put load on the service."""
    words = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script), f"{url}/v1/recommend"]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = {name: re.search(pattern, out) for name, pattern in {
        "rate": r"Requests/sec:\s+([\d.]+)", "median": r"(?m)^\s+50%\s+(\S+)", "p99": r"(?m)^\s+99%\s+(\S+)",
        "requests": r"(\d+) requests in", "failed": r"Non-2xx or 3xx responses: (\d+)",
        "errors": r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",
    }.items()}  # fmt: skip
    errors = sum(map(int, found["errors"].groups())) if found["errors"] else 0
    failed = int(found["failed"][1]) if found["failed"] else 0
    both = (milliseconds(found[name][1]) for name in ("median", "p99"))  # type: ignore[index]
    return Load(float(found["rate"][1]), *both, int(found["requests"][1]), failed + errors)  # type: ignore[index]


def memory(process: int) -> float:
    """Return the resident memory of a process and of its workers, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    workers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + sum(memory(int(worker)) for worker in workers)


def scripts(model: accams.Model, folder: Path) -> dict[str, Path]:
    """Write a script for each kind of load."""
    rated = model.activity[1] if model.activity else None
    items = model.items[model.with_data(1)] if rated is None else model.items[rated.argsort()[::-1][:2000]]
    values = {
        "users": ", ".join(f"'{user}'" for user in model.users.tolist()),
        "items": ", ".join(f"'{item}'" for item in items.tolist()),
    }
    made = {}
    for name, text, more in (
        ("known users", KNOWN, ""), ("known users, with interval and explanation", KNOWN, TOLD),
        ("strangers with 20 ratings", STRANGER, ""), ("strangers, with interval and explanation", STRANGER, TOLD),
    ):  # fmt: skip
        made[name] = folder / f"{len(made)}.lua"
        made[name].write_text(text % {**values, "more": more})
    return made


def swapping(path: Path, other: bytes, done: threading.Event) -> list[int]:
    """Exchange the model file every second for another one."""
    both, number = (path.read_bytes(), other), [0]

    def work() -> None:
        while not done.wait(1.0):
            number[0] += 1
            temporary = path.with_suffix(".new")
            temporary.write_bytes(both[number[0] % 2])
            os.replace(temporary, path)

    threading.Thread(target=work, daemon=True).start()
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--history", type=Path)
    parser.add_argument("--titles", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--requests", type=int, default=200_000, help="for the memory")
    parser.add_argument("--swap-seconds", type=int, default=20)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.accams"
        shutil.copy(given.model, path)
        model = accams.load(path)
        words = [sys.executable, "-m", "accams", "serve", str(path), "--port", "8931", "--watch", "--no-access-log"]
        words += ["--workers", str(given.workers)]
        words += [] if given.history is None else ["--history", str(given.history)]
        words += [] if given.titles is None else ["--titles", str(given.titles)]
        process = subprocess.Popen(words, stderr=(folder / "log").open("w"))
        try:
            measure(process.pid, model, path, folder, given)
        finally:
            process.terminate()
            process.wait()
            print((folder / "log").read_text()[-500:])


def measure(process: int, model: accams.Model, path: Path, folder: Path, given: argparse.Namespace) -> None:
    url = "http://127.0.0.1:8931"
    while True:
        try:
            if httpx.get(f"{url}/health/ready").status_code == 200:
                break
        except httpx.TransportError:
            time.sleep(0.2)
    made = scripts(model, folder)
    print(f"{'':48}{'a second':>9}{'median':>9}{'p99':>9}{'failed':>8}   medians of {ROUNDS} rounds")
    rounds: dict[str, list[Load]] = {name: [] for name in made}
    for _ in range(ROUNDS):
        for name, script in made.items():
            rounds[name].append(loaded(url, script, SECONDS))
    for name, loads in rounds.items():
        rate, median, p99, _, _ = (statistics.median(x) for x in zip(*loads, strict=True))
        print(f"{name:48}{rate:9,.0f}{median:7.1f}ms{p99:7.1f}ms{sum(load.failed for load in loads):8}")
    sizes, total = [memory(process)], 0
    while total < given.requests:
        for script in made.values():
            total += loaded(url, script, SECONDS).requests
        sizes.append(memory(process))
    print(f"memory over {total:,} requests: {', '.join(f'{size:.0f}' for size in sizes)} MB")
    done = threading.Event()
    number = swapping(path, other_version(path), done)
    load = loaded(url, made["known users"], given.swap_seconds)
    done.set()
    text = httpx.get(f"{url}/metrics").text
    [loads] = re.findall(r'loads_total{model="model",result="loaded"} ([\d.]+)', text)
    told = f"{load.rate:,.0f} a second, p99 {load.p99:.1f} ms, {load.failed} of {load.requests:,} requests failed"
    print(f"{number[0]} swaps, {float(loads) - 1:.0f} loaded: {told}; {memory(process):.0f} MB")


def other_version(path: Path) -> bytes:
    """Return another file of the same model, whose templates are rounded."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other.accams")
        accams.load(path).save(other, templates="float16", history=False)
        return other.read_bytes()


if __name__ == "__main__":
    main()
