"""Run `accams fit`: read, split, fit or resume, save, report."""

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from accams.cli.messages import show_warning
from accams.cli.options import check_outputs
from accams.cli.tasks import fit_report
from accams.data.features import FeatureTable
from accams.data.inputs import read_choices
from accams.data.observations import Observations
from accams.data.splits import random_split, some_positions
from accams.data.tables import id_columns
from accams.errors import CheckpointWarning, InputError, NoValuesError, WriteError
from accams.estimators.accams import ACCAMS
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.items import ItemACCAMS, weighed
from accams.fit import checkpoint
from accams.fit.keys import seed_of
from accams.fitted.list_evaluating import NothingToFindError
from accams.fitted.model import Model
from accams.fitted.progress import ProgressBar
from accams.model.container import damaged
from accams.settings.bayesian import present_names
from accams.settings.encoding import decoded
from accams.use.list_evaluation import ListEvaluation

Estimator = ACCAMS | BayesianACCAMS
MOST_OF_A_STORE = 1_000_000  # entries that are held out
MOST_OBSERVED = 0.5  # share of the cells up to which lists are fitted by default
out, err = Console(), Console(stderr=True)


@dataclass(frozen=True)
class Job:
    """What to fit and where to write it."""

    data: Path
    output: Path
    history: Path | None  # where to write what users have seen; None leaves it to the model file
    reading: dict[str, Any]  # arguments of `Observations.from_file`
    test: float  # share of the entries that is held out
    quiet: bool
    resume: Path | None  # checkpoint to go on from
    go_on: str  # command that would go on from a checkpoint of this fit
    purpose: str = "auto"  # ratings, lists or both
    features: Mapping[str, Path | None] = field(default_factory=dict)  # tables, by the arguments of `fit`


def new_estimator(kind: str, paper: bool, parameters: dict[str, Any]) -> Estimator:
    """Return an estimator with these parameters, and its own or the paper's defaults."""
    if paper:
        return BayesianACCAMS.paper(**parameters)
    return (BayesianACCAMS() if kind == "bayes" else ACCAMS()).set_params(**parameters)


def resumed_estimator(path: Path, parameters: dict[str, Any]) -> BayesianACCAMS:
    """Return the estimator whose fit the checkpoint is of, with a few parameters changed."""
    saved = present_names(checkpoint.read_header(path)["about"]["parameters"])
    known = BayesianACCAMS().get_params()
    try:
        old = {name: decoded(value) for name, value in saved.items() if name in known}
    except (LookupError, TypeError, ValueError) as error:
        raise damaged(path, "checkpoint", error) from None
    return BayesianACCAMS().set_params(**{**old, "checkpoint": str(path), **parameters})


def fit_file(job: Job, estimator: Estimator, lists: ItemACCAMS | None = None) -> None:
    """Read, split, fit, save, report."""
    saved = _check_paths(job, estimator)
    if estimator.random_state is None and job.resume is None:  # one that the checkpoint holds, for the split too
        estimator.set_params(random_state=seed_of(None))
    began = perf_counter()
    observations, purpose = _read(job)
    if not job.quiet:
        out.print(f"read {observations} in {perf_counter() - began:.1f} s", highlight=False, markup=False)
        _tell(observations, job.purpose, purpose)
    features = _features(job, purpose, observations)
    lists = (lists or ItemACCAMS()).set_params(random_state=estimator.random_state)
    with ProgressBar(False if job.quiet else "auto", "holding out", observations.nnz if job.test else 0):
        training, held_out = _split(observations, job.test, estimator.random_state)
    began, before = perf_counter(), _written(saved)
    with _told_later() as warned:
        model = _fitted(job, purpose, estimator, lists, training, features)
    seconds = perf_counter() - began
    if held_out is not None and model.predicts:
        model = replace(model, evaluation=model.evaluate(held_out))
    keep: Any = model.item_map is not None or "auto"
    whole = _with_whole_history(model, observations)
    _save(whole, job.output, keep if job.history is None else job.history)
    with_lists = None if model.item_map is None else _list_evaluation(model, held_out)
    if not job.quiet:
        out.print(fit_report(whole, held_out, with_lists, seconds, job.output))
        if held_out is not None:
            history = "" if model.item_map is None else " They are in its history: lists leave them out."
            out.print(f"[dim]The saved model has not seen the entries held out; --test 0 fits them all.{history}[/]")
    for message in warned:
        show_warning(message)
    if saved is not None and any(message.startswith("interrupted") for message in warned):
        written = _written(saved) != before or saved == job.resume
        hint = f"to go on: {job.go_on}" if written else f"{saved} was not written yet: see --checkpoint-every"
        err.print(hint, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _told_later() -> Iterator[list[str]]:
    """Collect warnings, to be shown below the results; that a checkpoint cannot be written is shown at once."""
    messages = list[str]()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, CheckpointWarning):
            show_warning(message)
        else:
            messages.append(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield messages


def _save(model: Model, path: Path, history: Any) -> None:
    """Save a model; where that fails, save it elsewhere, for a fit may have taken hours."""
    try:
        model.save(path, history=history)
    except WriteError as error:
        inside = model.interactions is not None if isinstance(history, Path) else history
        other = _saved_elsewhere(model, f"{path.stem}-{os.getpid()}{path.suffix}", inside)
        raise WriteError(f"{error}; the model is in {other} for now" if other else str(error)) from None


def _saved_elsewhere(model: Model, name: str, history: Any) -> Path | None:
    """Save a model where there is room: in the current folder, the home folder, or that of temporary files."""
    for place in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        with suppress(OSError, RuntimeError, WriteError):
            path = place() / name
            model.save(path, history=history)
            return path
    return None


def _read(job: Job) -> tuple[Observations, str]:
    """Return the data, and what to fit to it: a table without values is one of likes, for lists alone."""
    if job.purpose == "lists":
        return read_choices(job.data, **job.reading).observations, "lists"
    try:
        observations = Observations.from_file(job.data, **job.reading)
    except NoValuesError:
        if job.purpose != "auto":
            raise
        return read_choices(job.data, **job.reading).observations, "lists"
    if job.purpose != "auto":
        return observations, job.purpose
    return observations, "both" if _makes_lists(observations) else "ratings"


def _makes_lists(observations: Observations) -> bool:
    """Return whether lists are worth their time: there are items to choose among, and people choose."""
    m, n = observations.shape
    return n > 1 and observations.nnz < MOST_OBSERVED * m * n and observations.store is None


def _tell(observations: Observations, asked: str, purpose: str) -> None:
    """Say what is fitted, where that was not asked for."""
    if asked == "auto" and purpose == "lists":
        out.print("without values, these are likes: a model of lists is fitted (--for lists)", highlight=False)
    elif asked == "auto" and purpose == "ratings" and observations.store is not None:
        out.print("of a store, lists are not fitted by default: --for both adds them", highlight=False)


def _features(job: Job, purpose: str, observations: Observations) -> dict[str, Any]:
    """Read the tables of features, before anything is fitted."""
    paths = {name: path for name, path in job.features.items() if path is not None}
    if not paths:
        return {}
    if purpose == "lists":
        raise InputError("features are for predicted values, and only lists are fitted: leave out --item-features and "
                         "--user-features")  # fmt: skip
    names = [job.reading.get(side) for side in ("row", "col")]
    if None in names and observations.store is None:
        names = list(id_columns(job.data, *names) or names)
    indices = observations.row_index, observations.col_index
    axes = {name: axis for axis, name in enumerate(job.features)}
    return {
        name: FeatureTable.read(path, axes[name], indices[axes[name]], names[axes[name]])
        for name, path in paths.items()
    }


def _fitted(
    job: Job, purpose: str, estimator: Estimator, lists: ItemACCAMS, training: Observations,
    features: dict[str, Any],
) -> Model:  # fmt: skip
    """Fit what is asked for: lists first, which take less time to find that they cannot be."""
    if purpose != "ratings":
        lists.fit(training)
    if purpose == "lists":
        return lists.model_
    _fit(estimator, training, job.resume, features)
    return estimator.model_ if purpose == "ratings" else estimator.model_.with_lists(lists)


def _with_whole_history(model: Model, observations: Observations) -> Model:
    """Return the model with what was held out in the history, too: lists should not show what people have rated."""
    if model.item_map is None:
        return model
    try:
        return replace(model, interactions=weighed(observations, model.item_map.feedback))
    except InputError:  # what was held out cannot be weighed: measuring lists will say why
        return model


def _list_evaluation(model: Model, held_out: Observations | None) -> ListEvaluation | None:
    """Return how good lists are, where there is something to find."""
    try:
        return None if held_out is None else model.evaluate_lists(held_out)
    except NothingToFindError:
        return None
    except InputError as error:  # the model is saved: that it cannot be measured is no reason to fail
        show_warning(f"lists were not measured: {error}")
        return None


def _fit(estimator: Estimator, training: Observations, resume: Path | None, features: dict[str, Any]) -> None:
    if isinstance(estimator, ACCAMS):
        estimator.fit(training)
        return
    if resume is None:
        estimator.fit(training, **features)
        return
    try:
        estimator.fit(training, resume=resume, **features)
    except InputError as error:
        if checkpoint.read_header(resume)["about"]["data"] == checkpoint.fingerprint(training):
            raise
        raise InputError(f"{error}; --test, --seed and how the data is read must be as in the first run") from None


def _split(observations: Observations, test: float, seed: Any) -> tuple[Observations, Observations | None]:
    """What is fitted, and what is held out: of a store, no more than is needed to tell how good the model is."""
    if not test:
        return observations, None
    size = min(int(observations.nnz * test), MOST_OF_A_STORE)
    if observations.store is None or size == 0:
        return random_split(observations, test, seed)
    return observations.split(some_positions(observations.nnz, size, seed))


def _check_paths(job: Job, estimator: Estimator) -> Path | None:
    """Refuse what would fail only after the fit; returns the path of the checkpoint, if there is to be one."""
    name = getattr(estimator, "checkpoint", None)
    saved = None if name is None else Path(name)
    check_outputs({"model": job.output, "checkpoint": saved, "history": job.history})
    if not 0.0 <= job.test < 1.0:
        raise InputError(f"--test must be at least 0 and below 1, not {job.test:g}")
    return saved


def _written(path: Path | None) -> int | None:
    return path.stat().st_mtime_ns if path is not None and path.is_file() else None
