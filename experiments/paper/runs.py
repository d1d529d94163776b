"""Runs: pieces of work that are done once, kept as JSON, and not repeated."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha1
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from accams import __version__
from accams.errors import MissingDataError

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "scikit-surprise", "myfm")
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
        Called with the folder of all runs (for files of its own, which its rows name as "file") and the rows of
        `after`; gives rows. A function of a module or a `partial` of one, so that it can be sent to another process.
    seconds : float
        About how long it takes on two cores; only for the time that is left.
    after : Run, optional
        What it builds on.
    settings : object
        What else decides what comes out: with others, a kept result does not count.
    """

    key: tuple[str, ...]
    work: Callable[[Path, list[Row]], list[Row]]
    seconds: float = 10.0
    after: Run | None = None
    settings: object = None

    @property
    def name(self) -> str:
        return ", ".join(self.key)

    @property
    def file(self) -> str:
        """Its name as that of a file, and a few letters that keep like names apart."""
        plain = re.sub(r"[^\w.-]+", "-", "_".join(self.key)).strip("-")[:100]
        return f"{plain}-{sha1(repr(self.key).encode()).hexdigest()[:6]}"

    def digest(self, given: list[Row]) -> str:
        """Changes with the settings, the arguments of the work, and what it builds on."""
        arguments = self.work.args if isinstance(self.work, partial) else ()
        return sha1(json.dumps([self.key, self.settings, arguments, given], default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Result:
    """What a run gave, or why it gave nothing."""

    key: tuple[str, ...]
    rows: list[Row]
    seconds: float = 0.0
    digest: str = ""
    version: str = __version__
    machine: str = ""
    note: str = ""


def kept(run: Run, folder: Path, given: list[Row]) -> Result | None:
    """The result of an earlier run by the same version of accams, with the same settings, if all of it is there."""
    try:
        found = Result(**json.loads((folder / f"{run.file}.json").read_text()))
    except (OSError, ValueError, TypeError):  # none, or one that was cut short
        return None
    same = (found.digest, found.version) == (run.digest(given), __version__)
    whole = all((folder / row["file"]).is_file() for row in found.rows if "file" in row)
    return found if same and whole else None


def do(run: Run, folder: Path, given: list[Row]) -> Result:
    """Do a run and keep what it gives; a run that cannot be done says why, and the others go on."""
    began = perf_counter()
    try:
        rows = run.work(folder, given)
    except (UnavailableError, MissingDataError) as reason:
        return Result(run.key, [], note=str(reason))
    except Exception as error:  # the other runs shall go on
        (folder / f"{run.file}.failed.txt").write_text(traceback.format_exc())
        return Result(run.key, [], note=f"{type(error).__name__}: {error}")
    result = Result(run.key, rows, perf_counter() - began, run.digest(given), machine=machine())
    unfinished = folder / f"{run.file}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(result), indent=1))
    unfinished.replace(folder / f"{run.file}.json")
    return result


def machine() -> str:
    """The cores that this process may use, and what they run."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    python = f"Python {platform.python_version()}"
    return f"{cores} core{'s' if cores != 1 else ''}, {platform.machine()}, {python}, {', '.join(found)}"


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Every run once, after what it builds on."""
    found: dict[tuple[str, ...], Run] = {}
    for run in runs:
        for each in (run.after, run):
            if each is not None:
                found.setdefault(each.key, each)
    return list(found.values())


def do_all(runs: Sequence[Run], folder: Path, jobs: int = 1) -> Iterator[tuple[Run, Result, bool]]:
    """All runs with their results as they come, and whether each was done now; several jobs are so many at a time.

    A run without what it builds on is not done; the reason is that of what it builds on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[tuple[str, ...], Result] = {}
    todo = in_order(runs)
    with _Pool(jobs) as pool:
        while todo:
            ready = [run for run in todo if run.after is None or run.after.key in results]
            todo = [run for run in todo if run not in ready]
            waiting = list[tuple[Run, list[Row]]]()
            for run in ready:
                before = results[run.after.key] if run.after is not None else None
                given = before.rows if before is not None else []
                found = kept(run, folder, given)
                if found is None and before is not None and not before.rows:
                    found = replace(before, key=run.key)
                if found is None:
                    waiting.append((run, given))
                else:
                    results[run.key] = found
                    yield run, found, False
            for run, result in pool.done(waiting, folder):
                results[run.key] = result
                yield run, result, True


class _Pool:
    """Runs one after another in this process, or several at a time in processes of their own."""

    def __init__(self, jobs: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, spawn, initializer=_share, initargs=(jobs,)) if jobs > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def done(self, waiting: Sequence[tuple[Run, list[Row]]], folder: Path) -> Iterator[tuple[Run, Result]]:
        if self._pool is None:
            for run, given in waiting:
                yield run, do(run, folder, given)
            return
        longest_first = sorted(waiting, key=lambda each: -each[0].seconds)
        futures = {self._pool.submit(do, run, folder, given): run for run, given in longest_first}
        for future in as_completed(futures):
            run = futures[future]
            error = future.exception()  # of the process itself, which was killed
            yield (
                run,
                future.result() if error is None else Result(run.key, [], note=f"{type(error).__name__}: {error}"),
            )


def _share(jobs: int) -> None:
    """Each process keeps to its share of the cores, and so do all threads that it starts."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // jobs)
    first = (multiprocessing.current_process()._identity[0] - 1) * each % len(cores)
    os.sched_setaffinity(0, cores[first : first + each])
