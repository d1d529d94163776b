"""What the commands do: read, call the library, print."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from accams.errors import InputError
from accams.model.size import factor_bits

out = Console()


def fit_file(
    data: Path, output: Path, reading: dict[str, Any], parameters: dict[str, Any], test: float, seed: int
) -> None:
    """Read, split, fit, save, report."""
    from accams.data.observations import Observations
    from accams.data.splits import random_split
    from accams.estimators.accams import ACCAMS

    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent} to write {output.name} into")
    if not 0.0 <= test < 1.0:
        raise InputError(f"--test must be at least 0 and below 1, not {test:g}")
    began = perf_counter()
    observations = Observations.from_file(data, **reading)
    out.print(f"read {observations} in {perf_counter() - began:.1f} s", highlight=False)
    training, held_out = random_split(observations, test, seed) if test else (observations, None)
    began = perf_counter()
    model = ACCAMS(**parameters).fit(training)
    seconds = perf_counter() - began
    model.save(output)

    table = _table()
    table.add_row("train RMSE", f"{model.train_rmse_:.4f}" if model.train_rmse_ is not None else "-")
    if held_out is not None:
        table.add_row("test RMSE", f"{-model.score(held_out):.4f}  ({held_out.nnz:,} entries held out)")
    table.add_row("stencils", f"{model.n_stencils_}")
    table.add_row("size", f"{_bytes(model.stencils_.bits / 8)} by the paper's formula")
    table.add_row("time", f"{seconds:.1f} s on engine {model.engine_}")
    table.add_row("saved", f"{output} ({_bytes(output.stat().st_size)})")
    out.print(table)
    if held_out is not None:
        out.print("[dim]The saved model has not seen the entries held out; --test 0 fits them all.[/]")


def evaluate_file(model_path: Path, data: Path, row: str | None, col: str | None, value: str | None) -> None:
    """Error of a model on a file."""
    from accams import metrics
    from accams.data.observations import Observations
    from accams.estimators.files import load

    model = load(model_path)
    observations = Observations.from_file(data, row, col, value)
    prediction = model.predict(observations)
    i, j, values = observations.coo()
    known_rows = model.row_index_.positions(observations.row_index.ids)[i] >= 0
    known_cols = model.col_index_.positions(observations.col_index.ids)[j] >= 0
    table = _table()
    table.add_row("entries", f"{observations.nnz:,}")
    table.add_row("RMSE", f"{metrics.rmse(values, prediction):.4f}")
    table.add_row("MAE", f"{metrics.mae(values, prediction):.4f}")
    table.add_row("always the mean", f"{metrics.rmse(values, np.full(len(values), model.stencils_.offset)):.4f} RMSE")
    table.add_row(
        "unseen in training",
        f"{100 * np.mean(~known_rows):.2g}% of rows, {100 * np.mean(~known_cols):.2g}% of columns",
    )
    out.print(table)


def predict_file(model_path: Path, pairs: Path, output: Path | None, row: str | None, col: str | None) -> None:
    """Predictions for a file of pairs, as CSV."""
    from accams.data.readers import read_pairs
    from accams.estimators.files import load

    model = load(model_path)
    rows, cols, names = read_pairs(pairs, row, col)
    prediction = model.predict(list(zip(rows.tolist(), cols.tolist(), strict=True)))
    lines = [f"{names[0]},{names[1]},prediction"]
    lines += [f"{_csv(r)},{_csv(c)},{p:.6g}" for r, c, p in zip(rows.tolist(), cols.tolist(), prediction, strict=True)]
    text = "\n".join(lines) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    from accams.model.file import write_atomically

    write_atomically(output, text.encode())
    out.print(f"wrote {len(prediction):,} predictions to {output}", highlight=False)


def show_info(model_path: Path) -> None:
    """Shape, stencils and size of a model file."""
    from accams.estimators.files import load
    from accams.model.stencils import StencilSum

    model = load(model_path)
    stencils = model if isinstance(model, StencilSum) else model.stencils_
    m, n = stencils.shape
    table = _table()
    table.add_row("kind", type(model).__name__)
    table.add_row("shape", f"{m:,} rows x {n:,} columns")
    shapes = sorted({f"{T.shape[0]} x {T.shape[1]}" for T in stencils.templates})
    table.add_row("stencils", f"{len(stencils)}, templates {', '.join(shapes) or '-'}")
    table.add_row("offset", f"{stencils.offset:.6g}")
    table.add_row(
        "size",
        f"{_bytes(stencils.bits / 8)} by the paper's formula, {_bytes(model_path.stat().st_size)} on disk",
    )
    rank = stencils.bits / factor_bits((m, n), 1)
    table.add_row("an SVD of that size", f"rank {rank:.1f} with 32-bit numbers, rank {4 * rank:.1f} with 8-bit numbers")
    if not isinstance(model, StencilSum):
        if model.train_rmse_ is not None:
            table.add_row("train RMSE", f"{model.train_rmse_:.4f}")
        table.add_row("values", f"{model.value_range_[0]:g} to {model.value_range_[1]:g}")
        table.add_row("row ids", _examples(model.row_index_.ids))
        table.add_row("column ids", _examples(model.col_index_.ids))
        table.add_row("parameters", ", ".join(f"{k}={v!r}" for k, v in _changed(model).items()) or "defaults")
    out.print(table)


def _changed(model: Any) -> dict[str, Any]:
    """Parameters that are not at their defaults."""
    defaults = type(model)().get_params()
    return {k: v for k, v in model.get_params().items() if v != defaults[k]}


def _examples(ids: Any) -> str:
    shown = ", ".join(repr(x) for x in ids[:3].tolist())
    return shown + (", ..." if len(ids) > 3 else "")


def _table() -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def _bytes(n: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if n < 1000 or unit == "MB":
            return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:,.1f} {unit}"
        n /= 1000
    raise AssertionError


def _csv(x: Any) -> str:
    text = str(x)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text
