"""Recommendations for all users and predictions of many pairs: call the library, show progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import Progress

from accams import batch
from accams.cli.values import join_cluster
from accams.data.readers import read_pairs
from accams.errors import InputError

out = Console()


def recommend_everybody(
    model: Path, output: Path | None, n: int, history: Path | None, include_seen: bool, std: bool, engine: str,
    address: str | None,
) -> None:  # fmt: skip
    """Write the best items of all users, as a folder of Parquet files."""
    if output is None:
        raise InputError("--all writes Parquet files: name a folder for them with --output")
    join_cluster(engine, address)
    with _progress("recommending") as progress:
        lines = batch.recommend_all(
            model, output, n, history=history, include_seen=include_seen, std=std, engine=engine, progress=progress
        )
    out.print(f"wrote {lines:,} recommendations to {output}", highlight=False)


def predict_pairs(
    model: Path, pairs: Path, output: Path, row: str | None, col: str | None, std: bool, engine: str,
    address: str | None,
) -> None:  # fmt: skip
    """Write predictions for a file of pairs, as a folder of Parquet files."""
    rows, cols, names = read_pairs(pairs, row, col)
    join_cluster(engine, address)
    with _progress("predicting") as progress:
        given = names[0], names[1]
        lines = batch.predict_all(model, rows, cols, output, std=std, names=given, engine=engine, progress=progress)
    out.print(f"wrote {lines:,} predictions to {output}", highlight=False)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar, if it takes more than two seconds on a terminal."""
    began = perf_counter()
    with Progress(console=out, transient=True, disable=not out.is_terminal) as bar:
        shown = bar.add_task(what, total=None, visible=False)

        def report(done: int, of: int) -> None:
            bar.update(shown, completed=done, total=of, visible=perf_counter() - began > 2.0)

        yield report
