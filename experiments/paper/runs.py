"""Runs: pieces of work that are done once, kept as JSON, and not repeated."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha1
from pathlib import Path
from time import perf_counter
from typing import Any

from accams import __version__
from accams.errors import MissingDataError

Row = dict[str, Any]


class UnavailableError(Exception):
    """Something that a run needs is not installed, or it is not made for data of this size; says what to do."""


@dataclass(frozen=True)
class Run:
    """One piece of work.

    Attributes
    ----------
    key : tuple of str
        Names it: data set, seed, method, setting, ...
    work : callable
        Called with the folder of all runs (for files of its own) and the rows of `after`; gives rows. A function of a
        module or a `partial` of one, so that it can be sent to another process.
    seconds : float
        About how long it takes on two cores; only for the time that is left.
    after : Run, optional
        What it builds on.
    """

    key: tuple[str, ...]
    work: Callable[[Path, list[Row]], list[Row]]
    seconds: float = 10.0
    after: Run | None = None

    @property
    def name(self) -> str:
        return ", ".join(self.key)

    @property
    def file(self) -> str:
        """Its name as that of a file, and a few letters that keep like names apart."""
        plain = re.sub(r"[^\w.=-]+", "-", "_".join(self.key)).strip("-")[:100]
        return f"{plain}-{sha1(repr(self.key).encode()).hexdigest()[:6]}"


@dataclass(frozen=True)
class Result:
    """What a run gave, or why it gave nothing."""

    key: tuple[str, ...]
    rows: list[Row]
    seconds: float = 0.0
    version: str = __version__
    machine: str = ""
    note: str = ""
    failed: bool = False


def kept(run: Run, folder: Path) -> Result | None:
    """The result of an earlier run by the same version of accams, if there is one."""
    try:
        found = Result(**json.loads((folder / f"{run.file}.json").read_text()))
    except (OSError, ValueError, TypeError):  # none, or one that was cut short
        return None
    return found if tuple(found.key) == run.key and found.version == __version__ else None


def do(run: Run, folder: Path, given: list[Row]) -> Result:
    """Do a run and keep what it gives; a run that cannot be done says why, and the others go on."""
    began = perf_counter()
    try:
        rows = run.work(folder, given)
    except (UnavailableError, MissingDataError) as reason:
        return Result(run.key, [], note=str(reason))
    except Exception as error:  # the other runs shall go on
        return Result(run.key, [], note=f"{type(error).__name__}: {error}", failed=True)
    result = Result(run.key, rows, perf_counter() - began, machine=machine())
    unfinished = folder / f"{run.file}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(result), indent=1))
    unfinished.replace(folder / f"{run.file}.json")
    return result


def machine() -> str:
    """The cores that this process may use, and what they run."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} core{'s' if cores != 1 else ''}, {platform.machine()}, Python {platform.python_version()}"


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Every run once, after what it builds on."""
    found: dict[tuple[str, ...], Run] = {}
    for run in runs:
        for each in (run.after, run):
            if each is not None:
                found.setdefault(each.key, each)
    return list(found.values())


def do_all(runs: Sequence[Run], folder: Path, jobs: int = 1) -> Iterator[tuple[Run, Result]]:
    """All runs, done or kept, as they come; with several jobs, so many at a time in processes of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[tuple[str, ...], Result] = {}
    todo = []
    for run in in_order(runs):
        found = kept(run, folder)
        if found is None:
            todo.append(run)
        else:
            results[run.key] = found
            yield run, found

    def given(run: Run) -> list[Row]:
        return results[run.after.key].rows if run.after is not None else []

    if jobs == 1:
        for run in todo:
            results[run.key] = do(run, folder, given(run))
            yield run, results[run.key]
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_share, initargs=(jobs,)) as pool:
        while todo:  # a run waits for what it builds on
            ready = [run for run in todo if run.after is None or run.after.key in results]
            todo = [run for run in todo if run not in ready]
            longest_first = sorted(ready, key=lambda run: -run.seconds)
            waiting = {pool.submit(do, run, folder, given(run)): run for run in longest_first}
            for done in as_completed(waiting):
                run = waiting[done]
                results[run.key] = done.result()
                yield run, results[run.key]


def _share(jobs: int) -> None:
    """Each process keeps to its share of the cores, and so do all threads that it starts."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    each = max(1, len(cores) // jobs)
    first = (multiprocessing.current_process()._identity[0] - 1) % jobs * each
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores[first : first + each])
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(each))
