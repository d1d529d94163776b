"""Model files with an invalid fit history or evaluation: refused when they are opened, not later."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import changed, parts, refused, rewritten

import accams
from accams import ACCAMS, BayesianACCAMS

DATA = np.random.default_rng(0).normal(size=(12, 9)).round(1)
GOLDEN = Path(__file__).parent / "golden"
STEPS, SWEEPS = ["accams", "accams-evaluated"], ["bayesian", "bayesian-evaluated"]  # the second ones are of 0.1.0
INTEGERS = {"accams": ["sweep", "stencil", "n_stencils", "iterations"], "bayesian": ["sweep", "n_sweeps"]}


@pytest.fixture(params=[*STEPS, *SWEEPS])
def fitted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "m.accams"
    if request.param.endswith("evaluated"):
        shutil.copy(GOLDEN / f"{request.param}.accams", path)
        return path
    if request.param == "accams":
        model: Any = ACCAMS(n_stencils=2, n_clusters=2, n_relearn=1).fit(DATA)
    else:
        model = BayesianACCAMS(n_stencils=2, n_clusters=2, n_chains=1, n_sweeps=4, noise=1.0).fit(DATA)
    replace(model.model_, evaluation=model.evaluate(DATA)).save(path)
    return path


def is_old(path: Path) -> bool:
    return bool(parts(path)[0]["format"] == 1)


def names(path: Path) -> list[str]:
    """The recorded quantities."""
    header = parts(path)[0]
    recorded: list[str] = header["history"] if is_old(path) else header["parts"]["history"]["names"]
    return recorded


def tensors_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """History and visits."""
    prefix, tensors = "" if is_old(path) else "history/", parts(path)[1]
    return tensors[f"{prefix}history"], tensors[f"{prefix}visits"]


def with_tensors(path: Path, **changes: Any) -> Path:
    prefix = "" if is_old(path) else "history/"
    new = {f"{prefix}{name}": x if x is ... else np.ascontiguousarray(x) for name, x in changes.items()}
    return rewritten(path, tensors=new)


def with_names(path: Path, recorded: Any) -> Path:
    return rewritten(path, {"history": recorded} if is_old(path) else changed(path, "history", {"names": recorded}))


def with_number(path: Path, name: str, value: float, line: int = 1) -> Path:
    """The history with another number in it."""
    history = tensors_of(path)[0]
    history[line, names(path).index(name)] = value
    return with_tensors(path, history=history)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.5, 1e12])
@pytest.mark.parametrize(
    ("fitted", "name"),
    [(kind, name) for kind in (*STEPS, *SWEEPS) for name in INTEGERS[kind.removesuffix("-evaluated")]],
    indirect=["fitted"],
)
def test_integers(fitted: Path, name: str, value: float) -> None:
    if name == "n_sweeps" and np.isnan(value):  # a run that has no end set
        assert accams.load(with_number(fitted, name, value)).fit_history[1].n_sweeps is None  # type: ignore[union-attr]
    else:
        refused(with_number(fitted, name, value), "history", accams.load)


@pytest.mark.parametrize("fitted", STEPS, indirect=True)
def test_stencils_out_of_order(fitted: Path) -> None:
    refused(with_number(fitted, "stencil", 99), "history", accams.load)
    refused(with_number(fitted, "stencil", 0), "history", accams.load)


def test_an_error_that_is_missing(fitted: Path) -> None:
    refused(with_number(fitted, "rmse", np.nan), "history lacks rmse", accams.load)


def test_visits_of_another_shape(fitted: Path) -> None:
    visits = tensors_of(fitted)[1]
    for other in (visits[:-1], visits[..., :-1], visits[None], visits[:, :0], np.full_like(visits, np.inf)):
        refused(with_tensors(fitted, visits=other), "history", accams.load)


def test_no_history(fitted: Path) -> None:
    history, visits = tensors_of(fitted)
    refused(with_tensors(fitted, history=history[:0], visits=visits[:0]), "history", accams.load)
    refused(with_tensors(fitted, visits=...), "visits", accams.load)


def test_names_of_columns(fitted: Path) -> None:
    refused(with_names(fitted, ["sweep"]), "history", accams.load)
    for wrong in (5, None, "sweep", [5], ["sweep"] * 101, {}):
        refused(with_names(fitted, wrong), "'names' of part 'history' must be a list", accams.load)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": -5}, {"n": 0}, {"rmse": float("nan")}, {"rmse": -1.0}, {"mae": "many"}, {"coverage": [[5, 7]]},
        {"coverage": 3}, {"by_row": [[0, 1, 0, 1.0]]}, {"by_col": [[float("nan"), 1, 2, 1.0]]}, {"new": [2, 0]},
        {"by_col": [[3, 1, 2, 1.0]]}, {"rmse": None},
    ],
)  # fmt: skip
def test_invalid_evaluations(fitted: Path, changes: dict[str, Any]) -> None:
    header = parts(fitted)[0]
    if is_old(fitted):
        new = {"quality": {**header["quality"], **changes}}
    else:
        new = changed(fitted, "evaluation", {"result": {**header["parts"]["evaluation"]["result"], **changes}})
    refused(rewritten(fitted, new), None, accams.load)


@pytest.mark.parametrize("given", [["user"], ["user"] * 3, [1, 2], "us", 5, ["x" * 10_001, "item"]])
def test_names_of_rows_and_columns(fitted: Path, given: Any) -> None:
    new = {"feature_names": given} if is_old(fitted) else changed(fitted, "fit", {"names": given})
    refused(rewritten(fitted, new), "'names' of part 'fit' must be None or a list of 2", accams.load)


def test_what_is_right_is_read(fitted: Path) -> None:
    loaded = accams.load(rewritten(fitted))
    assert loaded.evaluation is not None
    assert loaded.evaluation.n == (41 if is_old(fitted) else DATA.size)
    assert len(loaded.fit_history) in (3, 4, 6)
    assert 0 < len(loaded.diagnostics().rmse) <= len(loaded.fit_history)
