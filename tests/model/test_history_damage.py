"""Model files whose history or quality cannot be: refused when they are opened, not later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import parts, refused, rewritten

import accams
from accams import ACCAMS, BayesianACCAMS

DATA = np.random.default_rng(0).normal(size=(12, 9)).round(1)


@pytest.fixture(params=["accams", "bayesian"])
def fitted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "accams":
        model: Any = ACCAMS(n_stencils=2, n_clusters=2, n_relearn=1).fit(DATA)
    else:
        model = BayesianACCAMS(n_stencils=2, n_clusters=2, n_chains=1, n_sweeps=4, noise=1.0).fit(DATA)
    model.quality_ = model.quality(DATA)
    model.save(tmp_path / "m.accams")
    return tmp_path / "m.accams"


def column(path: Path, name: str, value: float, line: int = 1) -> dict[str, Any]:
    """The history with another number in it."""
    header, tensors = parts(path)
    tensors["history"][line, header["history"].index(name)] = value
    return {"history": tensors["history"]}


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.5, 1e12])
@pytest.mark.parametrize("name", ["sweep", "stencil", "n_stencils"])
def test_whole_numbers(fitted: Path, name: str, value: float) -> None:
    if name in parts(fitted)[0]["history"]:
        refused(rewritten(fitted, tensors=column(fitted, name, value)), "history", accams.load)


def test_stencils_out_of_order(fitted: Path) -> None:
    if "stencil" in parts(fitted)[0]["history"]:
        refused(rewritten(fitted, tensors=column(fitted, "stencil", 99)), "history", accams.load)


def test_an_error_that_is_missing(fitted: Path) -> None:
    refused(rewritten(fitted, tensors=column(fitted, "rmse", np.nan)), "history lacks rmse", accams.load)


def test_visits_of_another_shape(fitted: Path) -> None:
    visits = parts(fitted)[1]["visits"]
    for other in (visits[:-1], visits[..., :-1], visits[None], visits[:, :0], np.full_like(visits, np.inf)):
        refused(rewritten(fitted, tensors={"visits": np.ascontiguousarray(other)}), "history", accams.load)


def test_no_history(fitted: Path) -> None:
    _header, tensors = parts(fitted)
    empty = {"history": tensors["history"][:0], "visits": tensors["visits"][:0]}
    refused(rewritten(fitted, tensors=empty), "history", accams.load)
    refused(rewritten(fitted, tensors={"visits": ...}), None, accams.load)


def test_names_of_columns(fitted: Path) -> None:
    refused(rewritten(fitted, {"history": ["sweep"]}), "history", accams.load)
    refused(rewritten(fitted, {"history": 5}), None, accams.load)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": -5}, {"n": 0}, {"rmse": float("nan")}, {"rmse": -1.0}, {"mae": "many"}, {"coverage": [[5, 7]]},
        {"coverage": 3}, {"by_row": [[0, 1, 0, 1.0]]}, {"by_col": [[float("nan"), 1, 2, 1.0]]}, {"new": [2, 0]},
        {"by_col": [[3, 1, 2, 1.0]]}, {"rmse": None},
    ],
)  # fmt: skip
def test_quality_that_makes_no_sense(fitted: Path, changes: dict[str, Any]) -> None:
    about = parts(fitted)[0]["quality"]
    refused(rewritten(fitted, {"quality": {**about, **changes}}), None, accams.load)


def test_names_of_rows_and_columns(fitted: Path) -> None:
    refused(rewritten(fitted, {"feature_names": ["user"]}), "name two columns", accams.load)


def test_what_is_right_is_read(fitted: Path) -> None:
    loaded = accams.load(rewritten(fitted))
    assert loaded.quality_.n == DATA.size
    assert len(loaded.diagnostics().rmse) in (2, 4)
