"""What the commands do with a fitted model: read, call the library, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accams import metrics
from accams.cli.report import COVERAGE, bytes_text, mean_and_coverage, posterior_rows, two_columns
from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.files import load
from accams.model.file import write_atomically
from accams.model.size import factor_bits
from accams.model.stencils import StencilSum

out = Console()


def evaluate_file(model_path: Path, data: Path, row: str | None, col: str | None, value: str | None) -> None:
    """Error of a model on a file."""
    model = _estimator(model_path)
    observations = Observations.from_file(data, row, col, value)
    if isinstance(model, BayesianACCAMS):
        prediction, covered = mean_and_coverage(model, observations)
    else:
        prediction, covered = model.predict(observations), None
    i, j, values = observations.coo()
    known_rows = model.row_index_.positions(observations.row_index.ids)[i] >= 0
    known_cols = model.col_index_.positions(observations.col_index.ids)[j] >= 0
    table = two_columns()
    table.add_row("entries", f"{observations.nnz:,}")
    table.add_row("RMSE", f"{metrics.rmse(values, prediction):.4f}")
    table.add_row("MAE", f"{metrics.mae(values, prediction):.4f}")
    if covered is not None:
        table.add_row("coverage", f"{100 * covered:.1f}%  (of the entries, by {COVERAGE:.0%} intervals)")
    table.add_row("always the mean", f"{metrics.rmse(values, np.full(len(values), model.stencils_.offset)):.4f} RMSE")
    table.add_row(
        "unseen in training",
        f"{100 * np.mean(~known_rows):.2g}% of rows, {100 * np.mean(~known_cols):.2g}% of columns",
    )
    out.print(table)


def predict_file(
    model_path: Path, pairs: Path, output: Path | None, row: str | None, col: str | None, std: bool = False,
    quantiles: list[float] | None = None,
) -> None:  # fmt: skip
    """Predictions for a file of pairs, as CSV."""
    model = _estimator(model_path)
    if (std or quantiles) and not isinstance(model, BayesianACCAMS):
        raise InputError(
            f"{model_path} has no draws, which --std and --quantiles need: fit it with `accams fit --model bayes`"
        )
    rows, cols, names = read_pairs(pairs, row, col)
    columns = _columns(model, list(zip(rows.tolist(), cols.tolist(), strict=True)), std, quantiles)
    lines = [",".join([names[0], names[1], *columns])]
    for r, c, *numbers in zip(rows.tolist(), cols.tolist(), *columns.values(), strict=True):
        lines.append(",".join([_csv(r), _csv(c), *(f"{x:.6g}" for x in numbers)]))
    text = "\n".join(lines) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    write_atomically(output, text.encode())
    out.print(f"wrote {len(rows):,} predictions to {output}", highlight=False)


def _columns(
    model: StencilEstimator, pairs: list[Any], std: bool, quantiles: list[float] | None
) -> dict[str, NDArray[np.float64]]:
    """The columns of numbers that were asked for, by name."""
    if not isinstance(model, BayesianACCAMS) or not (std or quantiles):
        return {"prediction": model.predict(pairs)}
    answers = iter(model.predict(pairs, return_std=std, quantiles=quantiles))
    found = {"prediction": next(answers)}
    if std:
        found["std"] = next(answers)
    if quantiles:
        found.update({f"q{level}": column for level, column in zip(quantiles, next(answers).T, strict=True)})
    return found


def show_info(model_path: Path) -> None:
    """Shape, stencils and size of a model file."""
    model = load(model_path)
    stencils = model if isinstance(model, StencilSum) else model.stencils_
    m, n = stencils.shape
    table = two_columns()
    table.add_row("kind", type(model).__name__)
    table.add_row("shape", f"{m:,} rows x {n:,} columns")
    shapes = sorted({f"{T.shape[0]} x {T.shape[1]}" for T in stencils.templates})
    table.add_row("stencils", f"{len(stencils)}, templates {', '.join(shapes) or '-'}")
    table.add_row("offset", f"{stencils.offset:.6g}")
    if isinstance(model, BayesianACCAMS):
        posterior_rows(table, model)
    which = "one draw " if isinstance(model, BayesianACCAMS) else ""
    on_disk = bytes_text(model_path.stat().st_size)
    table.add_row("size", f"{which}{bytes_text(stencils.bits / 8)} by the paper's formula, {on_disk} on disk")
    if not isinstance(model, BayesianACCAMS):
        rank = stencils.bits / factor_bits((m, n), 1)
        also = f"rank {rank:.1f} with 32-bit numbers, rank {4 * rank:.1f} with 8-bit numbers"
        table.add_row("an SVD of that size", also)
    if not isinstance(model, StencilSum):
        _fitted_rows(table, model)
    out.print(table)


def _fitted_rows(table: Table, model: Any) -> None:
    """What a fitted model knows of its data and its fit."""
    if model.train_rmse_ is not None:
        table.add_row("train RMSE", f"{model.train_rmse_:.4f}")
    table.add_row("values", f"{model.value_range_[0]:g} to {model.value_range_[1]:g}")
    table.add_row("row ids", _examples(model.row_index_.ids))
    table.add_row("column ids", _examples(model.col_index_.ids))
    table.add_row("parameters", ", ".join(f"{k}={v!r}" for k, v in _changed(model).items()) or "defaults")


def _estimator(path: Path) -> StencilEstimator:
    model = load(path)
    if not isinstance(model, StencilEstimator):
        raise InputError(f"{path} holds stencils without ids, which only `accams info` can show")
    return model


def _changed(model: Any) -> dict[str, Any]:
    """Parameters that are not at their defaults."""
    defaults = type(model)().get_params()
    return {k: v for k, v in model.get_params().items() if v != defaults[k]}


def _examples(ids: Any) -> str:
    shown = ", ".join(repr(x) for x in ids[:3].tolist())
    return shown + (", ..." if len(ids) > 3 else "")


def _csv(x: Any) -> str:
    text = str(x)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text
