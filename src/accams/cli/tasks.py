"""Evaluate, predict, compress and info: load, call the library, print."""

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accams import metrics
from accams.cli.tables import coverage_text, posterior_rows, two_columns
from accams.cli.values import check_outputs
from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError
from accams.fitted.compressing import changed_parameters
from accams.fitted.loading import load
from accams.fitted.model import Model
from accams.model.container import write_atomically
from accams.model.size import bytes_text, factor_bits
from accams.model.stencils import StencilSum

out = Console()
CELLS = 2000  # at which a model is compared with a smaller one
MOST_SHAPES = 4  # of templates that are listed


def evaluate_file(model_path: Path, data: Path, row: str | None, col: str | None, value: str | None) -> None:
    """Print the error of a model on a file."""
    observations = Observations.from_file(data, row, col, value)
    result = load(model_path).evaluate(observations)
    table = two_columns()
    table.add_row("entries", f"{observations.nnz:,}")
    table.add_row("RMSE", f"{result.rmse:.4f}")
    table.add_row("MAE", f"{result.mae:.4f}")
    if result.coverage:
        table.add_row("coverage", coverage_text(result))
    table.add_row("always the mean", f"{result.rmse_of_mean:.4f} RMSE")
    shares = f"{100 * result.new[0]:.2g}% of rows, {100 * result.new[1]:.2g}% of columns"
    table.add_row("unseen in training", shares)
    out.print(table)


def predict_file(
    model_path: Path, pairs: Path, output: Path | None, row: str | None, col: str | None, std: bool = False,
    quantiles: list[float] | None = None,
) -> None:  # fmt: skip
    """Write predictions for a file of pairs, as CSV."""
    model = load(model_path)
    if (std or quantiles) and not model.has_spread:
        raise InputError(
            f"{model_path} has no predictive spread, which --std and --quantiles need: fit it with --model bayes"
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
    model: Model, pairs: list[Any], std: bool, quantiles: list[float] | None
) -> dict[str, NDArray[np.float64]]:
    """Return the columns of numbers that were asked for, by name."""
    if not (std or quantiles):
        return {"prediction": model.predict(pairs)}
    answers = iter(model.predict(pairs, return_std=std, quantiles=quantiles or None))
    columns = {"prediction": next(answers)}
    if std:
        columns["std"] = next(answers)
    if quantiles:
        columns.update({f"q{level}": column for level, column in zip(quantiles, next(answers).T, strict=True)})
    return columns


def compress_file(
    model_path: Path, output: Path, max_bytes: int, ids: bool, weights: str, seed: int, history: Path | None
) -> None:
    """Distil a model into a small one, as a file."""
    model, began, before = load(model_path), perf_counter(), model_path.stat().st_size
    check_outputs({"model": output, "history": history})
    small = model.compress(max_bytes, ids=ids, weights=weights, random_state=seed)
    small.save(output, ids=ids, history="auto" if history is None else history)
    pairs = _some_pairs(model, seed)
    away = metrics.rmse(model.predict(pairs), small.predict(pairs))
    table = two_columns()
    table.add_row("stencils", f"{len(small.stencils)}")
    table.add_row("difference", f"{away:.4f}  (root mean square, at random cells, from {model_path.name})")
    table.add_row("time", f"{perf_counter() - began:.1f} s")
    sizes = bytes_text(output.stat().st_size), bytes_text(before)
    table.add_row("saved", f"{output} ({sizes[0]}; {model_path.name} had {sizes[1]})")
    out.print(table)


def _some_pairs(model: Model, seed: int) -> list[tuple[Any, Any]]:
    """Return random pairs of ids."""
    random = np.random.default_rng(seed)
    rows, cols = (index.ids[random.integers(len(index), size=CELLS)] for index in model.indices)
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def show_info(model_path: Path) -> None:
    """Print shape, stencils and size of a model file."""
    model = load(model_path)
    stencils, (m, n) = model.stencils, model.shape
    table = two_columns()
    compressed = ", compressed" if model.info.estimator and not model.info.training else ""
    table.add_row("kind", (model.info.estimator or "StencilSum") + compressed)
    table.add_row("shape", f"{m:,} rows x {n:,} columns")
    table.add_row("stencils", f"{len(stencils)}, templates {_shapes(stencils)}")
    table.add_row("offset", f"{stencils.offset:.6g}")
    if model.posterior is not None:
        posterior_rows(table, model)
    _size_rows(table, model, model_path)
    if model.posterior is None:
        rank = stencils.bits / factor_bits((m, n), 1)
        also = f"rank {rank:.1f} with 32-bit numbers, rank {4 * rank:.1f} with 8-bit numbers"
        table.add_row("an SVD of that size", also)
    if model.info.estimator:
        _fitted_rows(table, model)
    out.print(table)


def _size_rows(table: Table, model: Model, path: Path) -> None:
    """Add bytes by the paper's formula, by entropy, and on disk, part by part."""
    which, size = "" if model.posterior is None else "one draw ", model.stencils.size
    table.add_row("size", f"{bytes_text(path.stat().st_size)} on disk")
    by_formula, by_entropy = bytes_text(size.bits / 8), bytes_text(size.entropy / 8)
    table.add_row(
        "", f"{which}{by_formula} by the paper's formula, {by_entropy} by the entropy of labels and templates"
    )
    parts = {
        "labels": sum(s.row_entropy + s.col_entropy for s in size.stencils) / 8,
        "templates": sum(s.template_entropy for s in size.stencils) / 8,
        "label frequencies": size.file.get("models", 0),
        "header": size.file["header"],
    }
    table.add_row("of that", ", ".join(f"{bytes_text(n)} {name}" for name, n in parts.items() if n))


def _fitted_rows(table: Table, model: Model) -> None:
    """Add what a model knows of its data and its fit."""
    rmse = model.info.training.get("train_rmse_")
    if rmse is not None:
        table.add_row("train RMSE", f"{rmse:.4f}")
    table.add_row("values", f"{model.value_range[0]:g} to {model.value_range[1]:g}")
    table.add_row("row ids", _examples(model.users))
    table.add_row("column ids", _examples(model.items))
    changed = changed_parameters(model.info)
    table.add_row("parameters", ", ".join(f"{name}={x!r}" for name, x in changed.items()) or "defaults")


def _shapes(stencils: StencilSum) -> str:
    """Return the shapes of templates; of many, the smallest and the largest."""
    by_size = sorted({T.shape for T in stencils.templates}, key=lambda shape: (shape[0] * shape[1], shape))
    texts = [f"{rows} x {cols}" for rows, cols in by_size]
    return f"from {texts[0]} to {texts[-1]}" if len(texts) > MOST_SHAPES else ", ".join(texts) or "-"


def _examples(ids: Any) -> str:
    shown = ", ".join(repr(x) for x in ids[:3].tolist())
    return shown + (", ..." if len(ids) > 3 else "")


def _csv(x: Any) -> str:
    text = str(x)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text
