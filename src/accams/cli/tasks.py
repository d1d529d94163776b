"""What the commands do with a fitted model: read, call the library, print."""

from __future__ import annotations

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
from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError
from accams.estimators.base import StencilEstimator
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.files import load
from accams.model.container import write_atomically
from accams.model.size import bytes_text, factor_bits
from accams.model.stencils import StencilSum

out = Console()
CELLS = 2000  # at which a model is compared with a smaller one


def evaluate_file(model_path: Path, data: Path, row: str | None, col: str | None, value: str | None) -> None:
    """Error of a model on a file."""
    model = estimator(model_path)
    observations = Observations.from_file(data, row, col, value)
    found = model.quality(observations)
    i, j, _ = observations.coo()
    known_rows = model.row_index_.positions(observations.row_index.ids)[i] >= 0
    known_cols = model.col_index_.positions(observations.col_index.ids)[j] >= 0
    table = two_columns()
    table.add_row("entries", f"{observations.nnz:,}")
    table.add_row("RMSE", f"{found.rmse:.4f}")
    table.add_row("MAE", f"{found.mae:.4f}")
    if found.coverage:
        table.add_row("coverage", coverage_text(found))
    table.add_row("always the mean", f"{found.rmse_of_mean:.4f} RMSE")
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
    model = estimator(model_path)
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


def compress_file(model_path: Path, output: Path, max_bytes: int, ids: bool, weights: str, seed: int) -> None:
    """A model distilled into a small one, as a file."""
    model, began, before = estimator(model_path), perf_counter(), model_path.stat().st_size
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent} to write {output.name} into")
    small = model.compress(max_bytes, ids=ids, weights=weights, random_state=seed)
    small.save(output, ids=ids)
    pairs = _some_pairs(model, seed)
    away = metrics.rmse(model.predict(pairs), small.predict(pairs))
    table = two_columns()
    table.add_row("stencils", f"{len(small.stencils_)}")
    table.add_row("difference", f"{away:.4f}  (root mean square, at random cells, from {model_path.name})")
    table.add_row("time", f"{perf_counter() - began:.1f} s")
    sizes = bytes_text(output.stat().st_size), bytes_text(before)
    table.add_row("saved", f"{output} ({sizes[0]}; {model_path.name} had {sizes[1]})")
    out.print(table)


def _some_pairs(model: StencilEstimator, seed: int) -> list[tuple[Any, Any]]:
    """Pairs of ids at random."""
    random = np.random.default_rng(seed)
    rows, cols = (index.ids[random.integers(len(index), size=CELLS)] for index in (model.row_index_, model.col_index_))
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


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
    _size_rows(table, model, stencils, model_path)
    if not isinstance(model, BayesianACCAMS):
        rank = stencils.bits / factor_bits((m, n), 1)
        also = f"rank {rank:.1f} with 32-bit numbers, rank {4 * rank:.1f} with 8-bit numbers"
        table.add_row("an SVD of that size", also)
    if not isinstance(model, StencilSum):
        _fitted_rows(table, model)
    out.print(table)


def _size_rows(table: Table, model: Any, stencils: StencilSum, path: Path) -> None:
    """Bytes by the paper's formula, by entropy, and on disk, part by part."""
    which, size = "one draw " if isinstance(model, BayesianACCAMS) else "", stencils.size
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


def _fitted_rows(table: Table, model: Any) -> None:
    """What a fitted model knows of its data and its fit."""
    if getattr(model, "train_rmse_", None) is not None:
        table.add_row("train RMSE", f"{model.train_rmse_:.4f}")
    table.add_row("values", f"{model.value_range_[0]:g} to {model.value_range_[1]:g}")
    table.add_row("row ids", _examples(model.row_index_.ids))
    table.add_row("column ids", _examples(model.col_index_.ids))
    table.add_row("parameters", ", ".join(f"{k}={v!r}" for k, v in _changed(model).items()) or "defaults")


def estimator(path: Path) -> StencilEstimator:
    """A model with ids."""
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
