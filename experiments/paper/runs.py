"""Runs: pieces of work that are done once, kept as JSON, and not repeated."""

from __future__ import annotations

import json
import os
import platform
import re
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
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
    after : tuple of Run
        What it builds on.
    settings : object
        What else decides what comes out: with others, a kept result does not count.
    """

    key: tuple[str, ...]
    work: Callable[[Path, list[Row]], list[Row]]
    seconds: float = 10.0
    after: tuple[Run, ...] = ()
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
