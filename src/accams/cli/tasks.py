"""evaluate, info, report and compress: load, call the library, print; and the table of `accams fit`."""

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accams import metrics
from accams.cli.messages import two_columns
from accams.cli.options import check_outputs, size_in_bytes
from accams.cli.using import names_of
from accams.data.inputs import read_choices
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fitted.compressing import changed_parameters
from accams.fitted.files import bytes_for_lists
from accams.fitted.loading import load_model
from accams.fitted.model import Model
from accams.model.itemmap import ItemMap
from accams.model.size import bytes_text, factor_bits
from accams.model.stencils import StencilSum
from accams.use.evaluation import Evaluation
from accams.use.list_evaluation import ListEvaluation

out = Console()
COVERAGE = 0.9
CELLS = 2000  # at which a model is compared with a smaller one
FEW = 30  # held-out entries, whose error says little
MOST_SHAPES = 4  # of templates that are listed


def evaluate_file(
    path: Path, data: Path, row: str | None, col: str | None, value: str | None, lists: bool, history: Path | None,
    by: str,
) -> None:  # fmt: skip
    """Print errors of predictions, or how good lists are."""
    if lists:
        evaluate_lists(path, data, {"row": row, "col": col, "value": value}, history, by)
        return
    if history is not None or by != "auto":
        raise InputError("--history and --by are for lists: add --lists")
    observations = Observations.from_file(data, row, col, value)
    result = load_model(path).evaluate(observations)
    table = two_columns()
    table.add_row("entries", f"{observations.nnz:,}")
    table.add_row("RMSE", f"{result.rmse:.4f}")
    table.add_row("MAE", f"{result.mae:.4f}")
    if result.coverage:
        table.add_row("coverage", coverage_text(result))
    table.add_row("always the mean", f"{result.rmse_of_mean:.4f} RMSE")
    table.add_row("unseen in training", "{:.3g}% of rows, {:.3g}% of columns".format(*(100 * x for x in result.new)))
    out.print(table)


def evaluate_lists(path: Path, data: Path, reading: dict[str, Any], history: Path | None, by: str) -> None:
    """Print how well lists find what users chose, beside popularity."""
    model, held_out = load_model(path), read_choices(data, **reading)
    before = None if history is None else read_choices(history, **reading)
    result = model.evaluate_lists(held_out, history=before, by=by)
    names = {"recall_10": "recall@10", "recall_20": "recall@20", "ndcg_10": "NDCG@10", "ndcg_100": "NDCG@100"}
    title = f"{result.n_users:,} users, {result.n_choices:,} likes to find"
    table = Table("", "lists", "popularity", title=title, title_justify="left")
    for field in result.lists._fields:
        name = names.get(field, field.replace("_", " "))
        table.add_row(name, *(f"{getattr(x, field):.4f}" for x in (result.lists, result.popularity)))
    out.print(table)


def compress_file(
    path: Path, max_bytes: str, output: Path, ids: bool, lists: bool, weights: str, seed: int, history: Path | None
) -> None:
    """Distil a model into a small one, as a file."""
    size = size_in_bytes("--max-bytes", max_bytes)
    model, began, before = load_model(path), perf_counter(), path.stat().st_size
    check_outputs({"model": output, "history": history})
    small = model.compress(size, ids=ids, lists=lists, weights=weights, random_state=seed)
    small.save(output, ids=ids, history="auto" if history is None else history)
    pairs = _some_pairs(model, seed)
    away = metrics.rmse(model.predict(pairs), small.predict(pairs))
    table = two_columns()
    table.add_row("stencils", f"{len(small.stencils)}")
    table.add_row("difference", f"{away:.4f}  (root mean square, at random cells, from {path.name})")
    table.add_row("time", f"{perf_counter() - began:.1f} s")
    sizes = bytes_text(output.stat().st_size), bytes_text(before)
    table.add_row("saved", f"{output} ({sizes[0]}; {path.name} had {sizes[1]})")
    if model.interactions is not None and history is None:
        table.add_row("history", "left out: lists for known users need it (--history FILE writes one)")
    out.print(table)


def _some_pairs(model: Model, seed: int) -> list[tuple[Any, Any]]:
    random = np.random.default_rng(seed)
    rows, cols = (index.ids[random.integers(len(index), size=CELLS)] for index in model.indices)
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def show_info(path: Path) -> None:
    """Print what a model file contains."""
    model = load_model(path)
    stencils, (m, n) = model.stencils, model.shape
    table = two_columns()
    compressed = ", compressed" if model.info.estimator and not model.info.training else ""
    table.add_row("kind", (model.info.estimator or "StencilSum") + compressed)
    table.add_row("shape", f"{m:,} rows x {n:,} columns")
    if model.predicts:
        table.add_row("stencils", f"{len(stencils)}, templates {_shapes(stencils)}")
        table.add_row("offset", f"{stencils.offset:.6g}")
    if model.posterior is not None:
        posterior_rows(table, model)
    if model.item_map is not None:
        _map_rows(table, model, model.item_map)
    _size_rows(table, model, path)
    if model.posterior is None and model.predicts:
        rank = stencils.bits / factor_bits((m, n), 1)
        also = f"rank {rank:.1f} with 32-bit numbers, rank {4 * rank:.1f} with 8-bit numbers"
        table.add_row("an SVD of that size", also)
    if model.info.estimator:
        _fitted_rows(table, model)
    out.print(table)


def _map_rows(table: Table, model: Model, item_map: ItemMap) -> None:
    """Add what lists are made from."""
    form = "all pairs of items"
    if item_map.stencils is not None:
        form = f"{len(item_map.stencils)} stencils, templates {_shapes(item_map.stencils)}"
    table.add_row("item map", f"{form}; penalty {item_map.penalty:.4g}, from {item_map.n_users:,} users")
    table.add_row("feedback", str(item_map.feedback))
    sizes = ", ".join(f"{bytes_text(size)} {name}" for name, size in bytes_for_lists(model).items())
    table.add_row("for lists", sizes)


def _size_rows(table: Table, model: Model, path: Path) -> None:
    """Add bytes by the paper's formula, by entropy, and on disk, part by part."""
    which, size = "" if model.posterior is None else "one draw ", model.stencils.size
    table.add_row("size", f"{bytes_text(path.stat().st_size)} on disk")
    if not model.predicts:
        return
    by_formula, by_entropy = f"{bytes_text(size.bits / 8)} by the paper's formula", bytes_text(size.entropy / 8)
    table.add_row("", f"{which}{by_formula}, {by_entropy} by the entropy of labels and templates")
    parts = {
        "labels": sum(s.row_entropy + s.col_entropy for s in size.stencils) / 8,
        "templates": sum(s.template_entropy for s in size.stencils) / 8,
        "label frequencies": size.file.get("models", 0),
        "header": size.file["header"],
    }
    table.add_row("of that", ", ".join(f"{bytes_text(n)} {name}" for name, n in parts.items() if n))


def _fitted_rows(table: Table, model: Model) -> None:
    if model.train_rmse is not None:
        table.add_row("train RMSE", f"{model.train_rmse:.4f}")
    if model.predicts:
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


def write_report(
    path: Path, output: Path | None, titles: Path | None, test: Path | None, figures: Path | None, row: str | None,
    col: str | None, value: str | None,
) -> None:  # fmt: skip
    """A page about a model, and its figures if asked."""
    from accams.report.facts import gather
    from accams.report.page import plotly_js, write_page

    began, page = perf_counter(), output or path.with_suffix(".html")
    _check_paths(page, [path, titles, test], figures)
    library = plotly_js()
    model = load_model(path)
    called = names_of(titles, model.col_index)
    with Console(stderr=True).status("gathering what the model knows (with many draws, this takes a minute)"):
        evaluation = None if test is None else model.evaluate(Observations.from_file(test, row, col, value))
        facts = gather(model, called, evaluation, path.stat().st_size)
        write_page(facts, page, path.stem, library)
        drawn = list[Path]()
        if figures is not None:
            from accams.report.figures import save_all

            drawn = save_all(facts, figures)
    size, seconds = bytes_text(page.stat().st_size), perf_counter() - began
    out.print(f"wrote {page} ({size}) in {seconds:.1f} s", highlight=False, markup=False)
    if drawn:
        out.print(f"and {len(drawn)} figures into {figures}", highlight=False, markup=False)


def _check_paths(page: Path, read: list[Path | None], figures: Path | None) -> None:
    """Refuse to write over what is read, or into folders that are not there."""
    for each in read:
        if each is not None and each.resolve() == page.resolve():
            raise InputError(f"{page} is what is to be read: give --output another name")
    for folder in (page.parent, *([] if figures is None else [figures.parent])):
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder} to write into")


def fit_report(
    model: Model, held_out: Observations | None, lists: ListEvaluation | None, seconds: float, output: Path
) -> Any:
    """Return the table that `accams fit` ends with."""
    table = two_columns()
    if model.predicts:
        _value_rows(table, model, held_out)
    if model.item_map is not None:
        _list_rows(table, model, lists)
    engine = f" on engine {model.info.training.get('engine_', '-')}" if model.predicts else ""
    table.add_row("time", f"{seconds:.1f} s{engine}")
    table.add_row("saved", f"{output} ({bytes_text(output.stat().st_size)})")
    return table


def _value_rows(table: Table, model: Model, held_out: Observations | None) -> None:
    """Add errors and size of the model of values."""
    training, result, single = model.info.training, model.evaluation, model.posterior is None
    table.add_row("train RMSE", number(training["train_rmse_"]) + ("" if single else "  (of single draws)"))
    if held_out is not None and result is not None:
        what, entries = "" if single else "of the posterior mean; ", "entry" if held_out.nnz == 1 else "entries"
        doubt = ": too few to tell" if held_out.nnz < FEW else ""
        table.add_row("test RMSE", f"{result.rmse:.4f}  ({what}{held_out.nnz:,} {entries} held out{doubt})")
        if not single:
            table.add_row("", f"{error_of_one_draw(model, held_out):.4f}  (of one draw)")
            table.add_row("coverage", coverage_text(result))
    if single:
        table.add_row("stencils", f"{len(model.stencils)}")
        table.add_row("size", f"{bytes_text(model.stencils.bits / 8)} by the paper's formula")
    else:
        posterior_rows(table, model)


def _list_rows(table: Table, model: Model, lists: ListEvaluation | None) -> None:
    """Add how good lists are, and what their parts take of the file."""
    assert model.item_map is not None
    if lists is not None:
        own, popular = lists.lists, lists.popularity
        table.add_row("lists", f"NDCG@10 {own.ndcg_10:.4f}, recall@10 {own.recall_10:.4f}  ({lists.n_users:,} users)")
        better = ", which do better here" if popular.ndcg_10 > own.ndcg_10 else ""
        table.add_row("", f"NDCG@10 {popular.ndcg_10:.4f}, recall@10 {popular.recall_10:.4f}  (popular items{better})")
    sizes = ", ".join(f"{bytes_text(size)} {name}" for name, size in bytes_for_lists(model).items())
    table.add_row("of the file", sizes)


def coverage_text(result: Evaluation) -> str:
    return f"{100 * (result.covered(COVERAGE) or 0.0):.1f}%  (of the entries, by {COVERAGE:.0%} intervals)"


def posterior_rows(table: Table, model: Model) -> None:
    """Add noise, length and agreement of the chains."""
    assert model.posterior is not None
    draws, training = model.posterior.draws, model.info.training
    table.add_row("sigma", f"{number(training.get('sigma_'))}  (noise of the sampler)")
    table.add_row("predictive sigma", f"{model.posterior.noise:.4f}  (noise of a new observation)")
    table.add_row("sweeps", f"{training.get('n_sweeps_', 0):,}")
    table.add_row("draws", f"{len(draws):,}")
    table.add_row("chains", f"{len({draw.chain for draw in draws}):,}")
    table.add_row("R-hat", f"{number((training.get('r_hat_') or {}).get('probes'), 2)}  (of the probes, median)")


def error_of_one_draw(model: Model, held_out: Observations) -> float:
    """Return the RMSE of the draw that is kept as `stencils`, on data of the same shape as the training data."""
    i, j, values = held_out.coo()
    prediction: NDArray[np.float64] = np.clip(model.stencils.predict(i, j), *model.value_range)
    return metrics.rmse(values, prediction, held_out.weights)


def number(x: Any, digits: int = 4) -> str:
    return "-" if x is None else f"{x:.{digits}f}"
