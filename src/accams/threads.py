"""Threads that run kernels over ranges of rows."""

import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event, Lock, Thread
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]
SMALLEST_PIECE = 1 << 15  # entries; below this a thread costs more than it saves
LARGE_PIECE = 1 << 22  # entries; above this there are several ranges per thread


def ranges_of(starts: NDArray[np.int64], most: int) -> list[Range]:
    """Return ranges of rows with at most `most` entries, or of a single row that has more."""
    rows, cuts = len(starts) - 1, [0]
    while cuts[-1] < rows:
        end = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
        cuts.append(min(rows, max(cuts[-1] + 1, end)))
    return list(pairwise(cuts))


_ALL: "WeakSet[Threads]" = WeakSet()


class Threads:
    """Pool of threads that runs a kernel over ranges; results never depend on the number of threads.

    Parameters
    ----------
    n_threads : int or None
        None: all cores that this process may use.
    chunk_size : int or None
        Entries per range; None: balanced by the number of threads.
    callers : int
        Number of threads that may call at once; each gets `n_threads`.
    """

    def __init__(self, n_threads: int | None = None, chunk_size: int | None = None, callers: int = 1) -> None:
        self.n_threads = n_threads or available_cores()
        self.chunk_size = chunk_size
        self.callers = callers
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        """Start without threads, as a forked process does: it inherits none, and perhaps a lock that nobody opens."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def split(self, starts: NDArray[np.int64], least: int = 1) -> list[Range]:
        """Return ranges of rows with about equally many entries; row i has the entries starts[i] .. starts[i+1].

        Without a chunk size, a range has about `least` rows or more.
        """
        rows, entries = len(starts) - 1, int(starts[-1])
        inner = np.searchsorted(starts, np.linspace(0, entries, self._pieces(rows, entries, least) + 1)[1:-1])
        cuts = np.unique(np.concatenate([[0], inner, [rows]]))
        return [(int(a), int(b)) for a, b in pairwise(cuts)]

    def split_evenly(self, rows: int, entries_per_row: int, least: int = 1) -> list[Range]:
        """Return ranges of rows that all have `entries_per_row` entries."""
        pieces = self._pieces(rows, rows * entries_per_row, least)
        return [(rows * p // pieces, rows * (p + 1) // pieces) for p in range(pieces)]

    def _pieces(self, rows: int, entries: int, least: int) -> int:
        """Return the number of ranges for so many rows and entries."""
        if self.chunk_size:
            pieces = -(-entries // self.chunk_size)
        elif self.n_threads == 1:
            pieces = 1
        else:  # one per thread; several where there is enough work to balance a slow core
            wanted = self.n_threads if entries < self.n_threads * LARGE_PIECE else 4 * self.n_threads
            pieces = min(wanted, entries // SMALLEST_PIECE, rows // least)
        return max(1, min(pieces, rows))

    def run(self, function: Callable[..., Any], ranges: list[Range], *args: Any) -> None:
        """Call ``function(lo, hi, *args)`` for every range."""
        self.map(lambda lo, hi: function(lo, hi, *args), ranges)

    def map(self, function: Callable[[int, int], Any], ranges: list[Range]) -> list[Any]:
        """Return the results of ``function(lo, hi)`` in the order of the ranges."""
        if len(ranges) == 1 or self.n_threads == 1:
            return [function(lo, hi) for lo, hi in ranges]
        with self._lock:
            if self._pool is None:
                size = (self.n_threads - 1) * self.callers
                self._pool = ThreadPoolExecutor(size, thread_name_prefix="accams")
            pool = self._pool
        todo, results = deque(range(len(ranges))), [None] * len(ranges)

        def work() -> None:
            while True:
                try:
                    piece = todo.popleft()
                except IndexError:
                    return
                results[piece] = function(*ranges[piece])

        helpers = [pool.submit(work) for _ in range(min(self.n_threads, len(ranges)) - 1)]
        try:
            work()  # this thread takes its share, so that work starts at once
        finally:
            todo.clear()
            for helper in helpers:
                helper.result()
        return results

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class SingleBLAS:
    """A context in which BLAS uses one thread, for any number of threads of this process at once.

    The limit is that of the process: whoever leaves first must not lift it for the others, and only the thread that has
    set it can lift it, so that a thread of its own does both.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._last_out = Lock(), 0, Event()
        self._holder = Thread()
        self._found: tuple[int, Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                limited, self._last_out = Event(), Event()
                self._holder = Thread(target=self._hold, args=(limited, self._last_out), daemon=True)
                self._holder.start()
                limited.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._last_out.set()
                self._holder.join()

    def _hold(self, limited: Event, last_out: Event) -> None:
        try:
            with self._libraries().limit(limits=1, user_api="blas"):
                limited.set()
                last_out.wait()
        finally:
            limited.set()

    def _libraries(self) -> Any:
        """Return the libraries of BLAS: finding them takes milliseconds, and only an import may load others."""
        from threadpoolctl import ThreadpoolController

        if self._found is None or self._found[0] != len(sys.modules):
            self._found = len(sys.modules), ThreadpoolController()
        return self._found[1]


SINGLE_BLAS = SingleBLAS()


def _begin_all() -> None:
    SINGLE_BLAS.__init__()  # type: ignore[misc]
    for each in list(_ALL):
        each._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
