"""Kill processes at random moments, and look at what they leave and at what the next run makes of it.

A victim is a process that begins some work, and is killed (SIGKILL) at a random moment of it. Then the same work is
done again: does it give what it would have given without the kill, to the bit? Was the file that was there before still
whole? Is anything left over?

Run: python experiments/kills.py [--kills 50] [--seed 0] [KIND ...]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count as count_from
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread, Timer
from time import perf_counter, sleep
from typing import Any

import numpy as np

import accams
from accams import ACCAMS, BayesianACCAMS, Observations
from accams.batch import recommend_all
from accams.data.eventlog import EventLog, read_events
from accams.data.ingest import ingest
from common import machine, table

NAMES = {"row": "user", "col": "item", "value": "rating", "weight": None, "time": None}
SWEEPS = 15


@dataclass
class Count:
    """What was seen of one kind of work."""

    kills: int = 0
    amid: int | None = 0  # kills that left something half-written
    same: int = 0
    intact: int | None = 0
    leftovers: int | None = 0  # files and folders that the next run has not removed


@dataclass(frozen=True)
class Kind:
    """Work that is killed. All take the folder that holds their files, and answer for the one called ``out``."""

    work: Callable[[Path], None]
    content: Callable[[Path], Any]  # what the work has written
    before: Callable[[Path], None] = lambda folder: None  # writes what the work replaces


def ratings(n: int = 4000) -> Observations:
    random = np.random.default_rng(0)
    rows, cols = random.integers(0, 300, n), random.integers(0, 80, n)
    return Observations.from_coo(rows, cols, 3.0 + (rows % 3 - cols % 3) + random.normal(0, 0.3, n), duplicates="mean")


def bytes_in(path: Path) -> Any:
    """Return the content of a file, or of all files in a folder."""
    if path.is_dir():
        return {each.name: each.read_bytes() for each in path.iterdir()}
    return path.read_bytes() if path.exists() else None


def written(folder: Path) -> Any:
    return bytes_in(folder / "out")


# -- kinds of work -----------------------------------------------------------------------------------------------


def fitted(folder: Path) -> BayesianACCAMS:
    run = folder / "run.ckpt"
    settings = {"n_sweeps": SWEEPS, "n_chains": 2, "noise": 0.4, "checkpoint": run, "verbose": False}
    model = BayesianACCAMS(3, 3, **settings).set_params(schedule__checkpoint_every=1)
    return model.fit(ratings(), resume=run if run.exists() else None)


def fit(folder: Path) -> None:
    """Fit with a checkpoint after each sweep, and resume where there is one."""
    fitted(folder).save(folder / "out")


def saved(folder: Path) -> Any:
    """Return the file of the saved model, which must be whole."""
    if (folder / "out").exists():
        accams.load(folder / "out")
    return written(folder)


def first_model(folder: Path) -> None:
    ACCAMS(2, 3, random_state=0, verbose=False).fit(ratings(3999)).save(folder / "out", history=True)


def save(folder: Path) -> None:
    """Save a model over another one, again and again."""
    model = accams.load(folder.parent / "model.accams")
    for _ in range(30):
        model.save(folder / "out")


def update(folder: Path) -> None:
    """Load a model, take in new ratings of some users, and save it in its place; those of the same users again."""
    news = [(user, item) for user in range(40) for item in range(0, 80, 7)]
    for _ in range(6):
        accams.load(folder / "out").update(news, [1.0 + item % 5 for _, item in news]).save(folder / "out")


def ingested(folder: Path) -> None:
    ingested_from(folder.parent / "ratings.csv", folder / "out")


def ingested_from(source: Path, out: Path) -> None:
    if not out.exists():
        ingest([source], out, NAMES, "mean")


def store(folder: Path) -> None:
    if not (folder / "out").exists():
        ratings(60_000).to_store(folder / "out")


def recommend(folder: Path) -> None:
    if not (folder / "out").exists():
        recommend_all(folder.parent / "model.accams", folder / "out", rows_per_file=20, include_seen=True)


KINDS = {
    "fit": Kind(fit, saved),
    "save": Kind(save, saved, first_model),
    "update": Kind(update, saved, first_model),
    "ingest": Kind(ingested, written),
    "store": Kind(store, written),
    "recommend": Kind(recommend, written),
}


# -- victims -----------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Write what the kinds of work read."""
    rows, cols, values = ratings(60_000).coo()
    lines = [f"u{i},{j},{x:.3f}" for i, j, x in zip(rows, cols, values, strict=True)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    ACCAMS(2, 3, random_state=0, verbose=False).fit(ratings()).save(folder / "model.accams")


def victim(name: str, folder: Path) -> None:
    KINDS[name].work(folder)


def state(folder: Path) -> dict[str, int]:
    """Return what is in a folder, and when it was changed."""
    found = dict[str, int]()
    for path in folder.iterdir():
        with suppress(OSError):
            found[path.name] = path.stat().st_mtime_ns
    return found


def starter() -> Any:
    """Return what starts processes at once: from a server that has loaded this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kills"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), before]))  # where it looks
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        os.environ.update({} if before is None else {"PYTHONPATH": before})
    return context


def kill_one(name: str, folder: Path, moment: float) -> None:
    """Begin the work in another process, and kill it that many seconds after it has first written something."""
    context = starter()
    before, process = state(folder), context.Process(target=victim, args=(name, folder))
    process.start()
    while state(folder) == before and process.is_alive():
        sleep(0.0005)
    sleep(moment)
    process.kill()
    process.join()


def try_kind(name: str, kills: int, folder: Path, random: np.random.Generator) -> Count:
    """Kill so many victims of a kind, each in a folder of its own, and do their work again."""
    kind, count = KINDS[name], Count()
    straight = folder / f"{name}-straight"
    straight.mkdir()
    kind.before(straight)
    old = kind.content(straight)
    kind.work(straight)  # for the first time, with all that has to be loaded
    right, expected = kind.content(straight), {path.name for path in straight.iterdir()}
    again = folder / f"{name}-again"
    again.mkdir()
    kind.before(again)
    began = perf_counter()
    kind.work(again)
    seconds = perf_counter() - began
    amid = intact = leftovers = 0
    for number in range(kills):
        place = folder / f"{name}-{number}"
        place.mkdir()
        kind.before(place)
        kill_one(name, place, float(random.uniform(0.0, seconds)))
        amid += bool({path.name for path in place.iterdir()} - expected)
        intact += kind.content(place) in (old, right)
        kind.work(place)
        count.same += kind.content(place) == right
        leftovers += len({path.name for path in place.iterdir()} - expected)
    count.kills, count.amid, count.intact, count.leftovers = kills, amid, intact, leftovers
    return count


def try_workers(kills: int, folder: Path, random: np.random.Generator) -> Count:
    """Kill workers of a Ray cluster on this machine, several in each fit."""
    import ray

    ratings().to_store(folder / "ray.store")
    data = Observations.open(folder / "ray.store")
    settings: dict[str, Any] = {"n_sweeps": 12, "n_chains": 2, "noise": 0.4, "verbose": False}
    pairs = np.argwhere(np.ones((300, 80)))
    right = BayesianACCAMS(3, 3, engine="cpu", **settings).fit(data).predict(pairs)
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    count, killed = Count(), list[int]()

    def kill(_: object) -> None:
        Timer(float(random.uniform(0.0, 0.05)), lambda: killed.extend(_kill_worker(random))).start()

    try:
        while len(killed) < kills:
            before = len(killed)
            model = BayesianACCAMS(3, 3, engine="ray", callbacks=[kill], **settings).fit(data)
            is_same = np.array_equal(model.predict(pairs), right)
            count.same += is_same * (len(killed) - before)
    finally:
        ray.shutdown()
    count.kills = len(killed)
    count.amid = count.intact = count.leftovers = None  # workers write no files
    return count


def _kill_worker(random: np.random.Generator) -> Iterable[int]:
    """Kill one worker of this process's cluster; return its process id, if there was one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            pid = int(path.parent.name)
            if path.read_bytes().startswith(b"ray::_Remote") and _parent(_parent(pid)) == os.getpid():
                found.append(pid)
    if not found:
        return []
    chosen = int(random.choice(found))
    with suppress(OSError):
        os.kill(chosen, signal.SIGKILL)
        return [chosen]
    return []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def write_log(path: Path, acknowledged: Connection) -> None:
    """Append to a log with several threads, in small segments, and tell of each event that is on disk."""
    log, sending = EventLog(path, max_bytes=20_000), Lock()

    def append(thread: int) -> None:
        for number in count_from(0):
            event = f"{os.getpid()}-{thread}", number
            log.append(*event, 1.0)
            with sending:
                acknowledged.send(event)

    threads = [Thread(target=append, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def try_log(kills: int, folder: Path, random: np.random.Generator) -> Count:
    """Kill processes that append to the same log, one after the other: `same` counts those that lost nothing."""
    context = starter()
    count, path, expected = Count(amid=None, intact=None, leftovers=None), folder / "feedback.log", set[Any]()
    for _ in range(kills):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=write_log, args=(path, theirs))
        process.start()
        theirs.close()
        end = None
        with suppress(EOFError, OSError):  # a message that was cut short
            while True:
                expected.add(ours.recv())
                end = end or perf_counter() + float(random.uniform(0.0, 0.1))
                if perf_counter() > end:
                    process.kill()
        process.join()
        events = read_events(path)
        count.same += expected <= set(zip(events.users.tolist(), events.items.tolist(), strict=True))
    count.kills = kills
    return count


OTHERS = {"log": try_log, "ray worker": try_workers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=[*KINDS, *OTHERS], metavar="KIND")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    lines = []
    for name in given.kinds:
        random = np.random.default_rng(given.seed)
        with TemporaryDirectory() as place:
            folder = Path(place)
            prepare(folder)
            if name in OTHERS:
                count = OTHERS[name](given.kills, folder, random)
            else:
                count = try_kind(name, given.kills, folder, random)
        seen = (count.kills, count.amid, count.same, count.intact, count.leftovers)
        lines.append([name, *("" if x is None else str(x) for x in seen)])
        print(lines[-1], flush=True)
    heads = ["killed", "kills", "amid writing", "same result to the bit", "old file intact", "left over"]
    print(table(heads, lines))
    print(machine())


if __name__ == "__main__":
    main()
