"""ingest: call the library, show progress."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from accams.cli.options import size_in_bytes
from accams.data import build
from accams.data.archives import with_home
from accams.data.ingest import ingest
from accams.data.observations import Observations
from accams.errors import MissingDataError
from accams.model.size import bytes_text

out = Console()


def ingest_files(
    sources: Sequence[Path], output: Path, row: str | None, col: str | None, value: str | None, weight: str | None,
    duplicates: str, zeros: str, zero_weight: float, memory: str,
) -> None:  # fmt: skip
    """Make a store and say what it holds."""
    allowed, began, console = size_in_bytes("--memory", memory), perf_counter(), Console(stderr=True)
    names = {"row": row, "col": col, "value": value, "weight": weight, "time": None}
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("ingesting", total=1.0)

        def show(what: str, share: float) -> None:
            progress.update(task, description=what, completed=share)

        blanks = build.blank_weight(zeros, zero_weight)
        ingest(_expanded(sources), output, names, duplicates, blanks, memory=allowed, progress=show)
    size = sum(each.stat().st_size for each in output.iterdir())
    found = Observations.open(output, trust=True)
    out.print(
        f"{found}\n{output} ({bytes_text(size)}) in {perf_counter() - began:.1f} s", highlight=False, markup=False
    )


def _expanded(sources: Sequence[Path]) -> list[Path]:
    """Files, with patterns like ratings-*.csv replaced by what they stand for."""
    found = list[Path]()
    for each in sources:
        if each.exists() or not any(sign in str(each) for sign in "*?["):
            found.append(each)
            continue
        matches = sorted(glob(str(with_home(each))))
        if not matches:
            raise MissingDataError(f"no file is called like {each}")
        found += map(Path, matches)
    return found
