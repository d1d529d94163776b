"""reproduce: the paper's evaluation, by the studies in `experiments/paper`."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from accams.data.datasets._base import DATA_FOLDER
from accams.errors import InputError
from accams.threads import available_cores

STUDIES = (
    "table", "prediction", "training-error", "faces", "graph", "hierarchy", "similar", "face-images", "analysis",
    "bounds",
)  # fmt: skip


def reproduce_paper(what: list[str], data: Path | None, out: Path, quick: bool, jobs: int | None) -> bool:
    """Run the studies that were asked for; whether all of them are complete."""
    names = _asked(what)
    if jobs is None:
        jobs = available_cores() if quick else 1
    if jobs < 1:
        raise InputError(f"--jobs is how many runs go on at a time, at least 1, not {jobs}")
    if data is not None:
        if not data.is_dir():
            raise InputError(f"there is no folder {data}; --data is the folder with the archives of the data sets")
        os.environ[DATA_FOLDER] = str(data)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {out}: {error.strerror}") from None
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib: pip install 'accams[bench,plot]'")
    console = Console(stderr=True)
    study = _studies_package()
    studies = [_imported(name.replace("-", "_")).STUDY for name in names]
    missing = study.conduct(studies, study.Plan(quick, out, jobs), console)
    for each in missing:
        console.print(f"[bold yellow]not complete:[/] {each}", highlight=False, soft_wrap=True)
    return not missing


def _asked(what: list[str] | None) -> tuple[str, ...]:
    """The names of studies; without any, or with `all`, every one."""
    for name in what or ():
        if name not in (*STUDIES, "all"):
            raise InputError(f"there is no study {name!r}; choose from {', '.join(STUDIES)} and all")
    return STUDIES if not what or "all" in what else tuple(dict.fromkeys(what))


def _studies_package() -> Any:
    """The module that runs studies: beside the source in a clone, inside the package where it is installed."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "experiments", package / "_experiments"):
        if (folder / "paper" / "study.py").is_file():
            sys.path.insert(0, str(folder))
            return _imported("study")
    raise InputError("the studies are not part of this installation; install accams from a clone or a wheel")


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(f"paper.{name}")
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed; the studies need it: pip install 'accams[bench,plot]'"
        raise InputError(text) from None
