"""Which run is done when: each once, after what it builds on, one after another or several at a time."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from paper.runs import Result, Row, Run, do, kept

Key = tuple[str, ...]


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Every run once, after what it builds on."""
    found: dict[Key, Run] = {}
    for run in runs:
        for each in (*run.after, run):
            found.setdefault(each.key, each)
    return list(found.values())


def do_all(runs: Sequence[Run], folder: Path, jobs: int = 1) -> Iterator[tuple[Run, Result, bool]]:
    """All runs with their results as they come, and whether each was done now.

    One job does them in the order given; of several, each takes what the longest work hangs on. A run without what it
    builds on is not done; the reason is that of what it builds on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[Key, Result] = {}
    todo, ready = in_order(runs), list[Run]()
    urgency = urgencies(todo)
    with _Here() if jobs == 1 else _Processes(jobs) as workers:
        while todo or ready or workers.busy:
            new = [run for run in todo if all(each.key in results for each in run.after)]
            todo = [run for run in todo if run not in new]
            for run in new:
                found = without_work(run, folder, results)
                if found is None:
                    ready.append(run)
                else:
                    results[run.key] = found
                    yield run, found, False
            if new:
                continue  # others may have waited for what was found
            if jobs > 1:
                ready.sort(key=lambda run: -urgency[run.key])
            while ready and len(workers.busy) < jobs:
                run = ready.pop(0)
                workers.start(run, folder, given_to(run, results))
            for run, result in workers.finished():
                results[run.key] = result
                yield run, result, True


def urgencies(runs: Sequence[Run]) -> dict[Key, float]:
    """The seconds of each run, and of the longest that builds on it."""
    found = {run.key: run.seconds for run in runs}
    for run in runs:
        for each in run.after:
            found[each.key] = max(found[each.key], each.seconds + run.seconds)
    return found


def given_to(run: Run, results: Mapping[Key, Result]) -> list[Row]:
    return [row for each in run.after for row in results[each.key].rows]


def without_work(run: Run, folder: Path, results: Mapping[Key, Result]) -> Result | None:
    """What was kept of an earlier run; or nothing and why, if what it builds on gave nothing."""
    for each in run.after:
        if not results[each.key].rows:
            return replace(results[each.key], key=run.key)
    return kept(run, folder, given_to(run, results))


class _Here:
    """Work in this process, one run at a time."""

    def __init__(self) -> None:
        self.busy: list[tuple[Run, Path, list[Row]]] = []

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, run: Run, folder: Path, given: list[Row]) -> None:
        self.busy.append((run, folder, given))

    def finished(self) -> Iterator[tuple[Run, Result]]:
        run, folder, given = self.busy.pop()
        yield run, do(run, folder, given)


class _Processes:
    """Work in processes of their own, each with its share of the cores."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()
        self.busy: dict[Future[Result], Run] = {}

    def _new(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, spawn, initializer=_share, initargs=(self._jobs,))

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, run: Run, folder: Path, given: list[Row]) -> None:
        try:
            future = self._pool.submit(do, run, folder, given)
        except BrokenProcessPool:  # a process was killed; those of the others ended with it
            self._pool = self._new()
            future = self._pool.submit(do, run, folder, given)
        self.busy[future] = run

    def finished(self) -> Iterator[tuple[Run, Result]]:
        for future in wait(self.busy, return_when=FIRST_COMPLETED).done:
            run, error = self.busy.pop(future), future.exception()
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
