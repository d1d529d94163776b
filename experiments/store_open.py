"""Time opening a store of random ratings with the full scan, beside reading its files once and opening it on trust.

Each is repeated in turn, with the files in the page cache and after they were dropped from it (where the system allows
that); medians and the ratio to reading are printed. Reading takes blocks of 16 MB, as `cat` does.

Run: python experiments/store_open.py [--millions N] [--repeats N] [--folder FOLDER] [--cores N]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from accams import Observations
from accams.data import store
from common import machine, table

BLOCK = 1 << 24


def write(path: Path, entries: int) -> Observations:
    """Write a store of half stars: as many users as the Netflix prize had for each rating, and 17,770 films."""
    random, n = np.random.default_rng(0), 17_770
    m = max(entries // 209, 1)
    cells = np.unique(random.integers(0, m * n, entries))
    rows, cols = np.divmod(cells, n)
    made = Observations.from_coo(rows, cols, random.integers(1, 11, len(cells)) / 2, shape=(m, n))
    made.to_store(path)
    return made


def read(path: Path) -> None:
    """Read all files once."""
    for file in sorted(path.iterdir()):
        with file.open("rb", buffering=0) as opened:
            while opened.read(BLOCK):
                pass


def drop(path: Path) -> None:
    """Drop the files from the page cache."""
    os.sync()
    for file in path.iterdir():
        opened = os.open(file, os.O_RDONLY)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(opened)


def opened(path: Path) -> None:
    store.PROVEN.clear()
    Observations.open(path)


def seconds(action: Callable[[Path], None], path: Path, cold: bool) -> float:
    if cold:
        drop(path)
    began = perf_counter()
    action(path)
    return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=100.0)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="where the store is written for a while")
    parser.add_argument("--cores", type=int, default=None)
    given = parser.parse_args()
    if given.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    with TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "ratings.store"
        entries = write(path, int(given.millions * 1e6)).nnz
        size = sum(file.stat().st_size for file in path.iterdir())
        opened(path)  # compiles
        actions = {"read": read, "open": opened, "open on trust": lambda p: Observations.open(p, trust=True) and None}
        rows = []
        for cold in (False, True):
            times: dict[str, list[float]] = {name: [] for name in actions}
            for _ in range(given.repeats):
                for name, action in actions.items():
                    times[name].append(seconds(action, path, cold))
            middle = {name: median(x) for name, x in times.items()}
            ratio = median(a / b for a, b in zip(times["open"], times["read"], strict=True))
            rows.append(["dropped" if cold else "cached", *(f"{middle[x]:.3f} s" for x in actions), f"{ratio:.2f}"])
        print(f"{entries:,} ratings, {size / 1e9:.2f} GB, {machine()}")
        print(table(["files", *actions, "open / read"], rows))


if __name__ == "__main__":
    main()
