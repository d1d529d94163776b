"""predict and recommend --all: call the library for whole tables, show progress."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import Progress

from accams import batch
from accams.cli.options import join_cluster, quantile_levels
from accams.data.readers import read_pairs
from accams.errors import InputError
from accams.fitted.loading import load_model
from accams.writing import write_atomically

out = Console()


def predict_file(
    path: Path, pairs: Path, output: Path | None, std: bool, quantiles: str | None, row: str | None, col: str | None,
    engine: str, address: str | None,
) -> None:  # fmt: skip
    """Write predictions for a file of pairs, as CSV or as a folder of Parquet files."""
    levels = quantile_levels(quantiles)
    if output is not None and output.suffix == ".parquet":
        if levels:
            raise InputError("--quantiles are only written as CSV: name an output that does not end in .parquet")
        rows, cols, names = read_pairs(pairs, row, col)
        join_cluster(engine, address)
        with _progress("predicting") as progress:
            given = names[0], names[1]
            lines = batch.predict_all(path, rows, cols, output, std=std, names=given, engine=engine, progress=progress)
        out.print(f"wrote {lines:,} predictions to {output}", highlight=False, markup=False)
    elif engine != "cpu" or address is not None:
        raise InputError("a cluster writes Parquet: name an output that ends in .parquet")
    else:
        _write_csv(path, pairs, output, std, levels, row, col)


def _write_csv(
    path: Path, pairs: Path, output: Path | None, std: bool, levels: list[float], row: str | None, col: str | None
) -> None:
    model = load_model(path)
    if (std or levels) and not model.has_spread:
        raise InputError(
            f"{path} has no predictive spread, which --std and --quantiles need: fit it with --model bayes"
        )
    rows, cols, names = read_pairs(pairs, row, col)
    ids = list(zip(rows.tolist(), cols.tolist(), strict=True))
    if std or levels:
        answers = iter(model.predict(ids, return_std=std, quantiles=levels or None))
        columns = {"prediction": next(answers)} | ({"std": next(answers)} if std else {})
        if levels:
            columns.update({f"q{level}": column for level, column in zip(levels, next(answers).T, strict=True)})
    else:
        columns = {"prediction": model.predict(ids)}
    lines = [",".join([_csv(names[0]), _csv(names[1]), *columns])]
    for (r, c), *numbers in zip(ids, *columns.values(), strict=True):
        lines.append(",".join([_csv(r), _csv(c), *(f"{x:.6g}" for x in numbers)]))
    text = "\n".join(lines) + "\n"
    if output is None or output == Path("-"):
        sys.stdout.write(text)
        return
    write_atomically(output, text.encode())
    out.print(f"wrote {len(rows):,} predictions to {output}", highlight=False, markup=False)


def _csv(x: object) -> str:
    """Return a cell that every reader of CSV takes for this text: quoted where need be, and never altered."""
    text = str(x)
    quoted = not text or text != text.strip() or any(c in text for c in ',"\n\r')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def recommend_everybody(
    path: Path, output: Path | None, n: int, history: Path | None, include_seen: bool, std: bool, engine: str,
    address: str | None,
) -> None:  # fmt: skip
    """Write the best items of all users, as a folder of Parquet files."""
    if output is None:
        raise InputError("--all writes Parquet files: name a folder for them with --output")
    join_cluster(engine, address)
    with _progress("recommending") as progress:
        lines = batch.recommend_all(
            path, output, n, history=history, include_seen=include_seen, std=std, engine=engine, progress=progress
        )
    out.print(f"wrote {lines:,} recommendations to {output}", highlight=False, markup=False)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar, if it takes more than two seconds on a terminal."""
    began = perf_counter()
    with Progress(console=out, transient=True, disable=not out.is_terminal) as bar:
        shown = bar.add_task(what, total=None, visible=False)

        def report(done: int, of: int) -> None:
            bar.update(shown, completed=done, total=of, visible=perf_counter() - began > 2.0)

        yield report
