"""update: read a log or a table, call the library, print what has changed."""

from pathlib import Path
from typing import Any

from rich.console import Console

from accams.batch import with_history
from accams.cli.messages import two_columns
from accams.cli.options import check_outputs
from accams.data import store
from accams.data.deltas import latest
from accams.data.events import is_log, read_events
from accams.data.features import NOUNS, FeatureTable
from accams.data.inputs import Choices, read_choices
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fitted.loading import load_model
from accams.fitted.merging import OF_MODEL
from accams.fitted.model import Model
from accams.model import container
from accams.model.size import bytes_text
from accams.use.drift import Drift
from accams.writing import locked_file

out = Console()


def update_file(
    path: Path, feedback: Path | None, output: Path, history: Path | None, min_ratings: int, seed: int,
    skip_damaged: bool, user_features: Path | None, item_features: Path | None, row: str | None, col: str | None,
    value: str | None,
) -> None:  # fmt: skip
    """Write a model that has taken in what is new."""
    if feedback is None and user_features is None and item_features is None:
        raise InputError("there is nothing to take in: give FEEDBACK, --item-features or --user-features")
    _check_paths(feedback, history, output)
    how, features = {"row": row, "col": col, "value": value}, (user_features, item_features)
    with locked_file(output):  # a service that forgets somebody waits, and so does this
        _update(path, feedback, output, history, min_ratings, seed, skip_damaged, how, features)


def _update(
    path: Path, feedback: Path | None, output: Path, history: Path | None, min_ratings: int, seed: int,
    skip_damaged: bool, how: dict[str, str | None], features: tuple[Path | None, Path | None],
) -> None:  # fmt: skip
    with Console(stderr=True).status("reading"):
        model = load_model(path)
        known = _features(model, features)
        news, earlier = None if feedback is None else _read(feedback, how, skip_damaged), OF_MODEL
    if history is not None and container.is_container(history):
        model = model if model.interactions is not None else with_history(model, history)
    elif history is not None:
        earlier = _read(history, how, skip_damaged)
    with Console(stderr=True).status("placing users and items"):
        drift = None if news is None else model.drift(news)
        new = model.update(news, history=earlier, min_ratings=min_ratings, random_state=seed, **known)
    new.save(output, history=new.interactions is not None)
    out.print(_report(model, new, news, drift, output))


def _read(path: Path, columns: dict[str, str | None], skip_damaged: bool) -> Any:
    """Return what a log, a store or a table holds; of a pair that comes again the latest value."""
    if is_log(path):
        events = read_events(path, damaged="skip" if skip_damaged else "error")
        if not len(events):
            raise InputError(f"{path} is a log without events: there is nothing to do")
        return latest(events)
    if store.is_store(path):
        return Choices(Observations.open(path))
    return read_choices(path, **columns, duplicates="last")


def _features(model: Model, paths: tuple[Path | None, Path | None]) -> dict[str, Any]:
    """Read tables of features, by the arguments of `update`."""
    tables = dict[str, Any]()
    for axis, path in enumerate(paths):
        if path is not None:
            known = model.knowledge[axis]
            kinds = None if known is None else known.kinds
            index, name = model.indices[axis], model.id_names[axis]
            tables[f"{NOUNS[axis]}_features"] = FeatureTable.read(path, axis, index, name, kinds)
    return tables


def _check_paths(feedback: Path | None, history: Path | None, output: Path) -> None:
    for each in (feedback, history):
        if each is not None and each.resolve() == output.resolve():
            raise InputError(f"{output} is what is to be read: give --output another name")
    check_outputs({"model": output})


def _report(model: Model, new: Model, news: Choices | None, drift: Drift | None, output: Path) -> Any:
    """Return the table of what has changed."""
    table = two_columns()
    (m, n), (more_users, more_items) = model.shape, (a - b for a, b in zip(new.shape, model.shape, strict=True))
    if news is None or drift is None:
        table.add_row("users", f"{more_users:,} new beside {m:,}, by their features")
        table.add_row("items", f"{more_items:,} new beside {n:,}, by their features")
        table.add_row("saved", f"{output} ({bytes_text(output.stat().st_size)})")
        return table
    table.add_row("observations", f"{drift.n:,}, {drift.n_new:,} of them new to the model")
    if new is model:
        table.add_row("changed", "nothing: the model has taken them in before")
    else:
        users = len(news.observations.row_index.ids) - more_users
        table.add_row("users", f"{users:,} of {m:,} placed anew, {more_users:,} new")
        table.add_row("items", f"{more_items:,} new beside {n:,}")
    if drift.n_new:
        unknown = f"{drift.new_users:.1%} are of unknown users, {drift.new_items:.1%} of unknown items"
        table.add_row("of the new ones", unknown)
    if drift.rmse is not None:
        beside = "" if drift.expected is None else f"  (held out when it was fitted: {drift.expected:.4f})"
        table.add_row("RMSE before", f"{drift.rmse:.4f}{beside}")
    if drift.share is not None:
        table.add_row("since the fit", f"{drift.share:.1%} of what was fitted")
    table.add_row("fit again", f"{'yes' if drift.refit else 'not yet'}: {drift.reason}")
    table.add_row("saved", f"{output} ({bytes_text(output.stat().st_size)})")
    return table
