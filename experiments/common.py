"""What the experiments share: where the data is, medians of timings, tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

from paper.pages import table

__all__ = ["machine", "ratio", "seconds", "table", "use_local_data"]

ROOT = Path(__file__).resolve().parent.parent


def use_local_data() -> None:
    """Look for data sets in $ACCAMS_DATA, else in ../shared/data beside the project."""
    beside = ROOT.parent / "shared" / "data"
    if "ACCAMS_DATA" not in os.environ and beside.is_dir():
        os.environ["ACCAMS_DATA"] = str(beside)


def seconds(work: Callable[[], object], repeats: int = 5, warm_up: int = 1) -> float:
    """Median wall time of `work`."""
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return median(times)


def ratio(one: Callable[[], object], other: Callable[[], object], repeats: int = 11) -> tuple[float, float, float]:
    """Median times of two pieces of work done in turn, and the median of their ratios (noise hits both alike)."""
    pairs = [(seconds(one, 5), seconds(other, 5)) for _ in range(repeats)]
    return median(a for a, _ in pairs), median(b for _, b in pairs), median(a / b for a, b in pairs)


def machine(*packages: str) -> str:
    """One line on what this was run with."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("accams", "numpy", "numba", *packages))
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"
