"""Reports of models at the edge: small, flat, sparse, with effects, without ids, of any scale."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import accams
from accams import ACCAMS, BayesianACCAMS, Observations, Priors, Schedule
from accams.report import figures

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.normal(size=(12, 9)) + 3.0
DAYS = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=d) for d in range(30)]


def bayes(**more: Any) -> BayesianACCAMS:
    return BayesianACCAMS(**{"n_stencils": 2, "n_clusters": 2, "n_chains": 1, "n_sweeps": 3, "noise": 1.0, **more})


def dated() -> ACCAMS:
    table = pd.DataFrame({"day": DAYS * 3, "place": [f"{p % 7}" for p in range(90)], "value": RANDOM.normal(size=90)})
    table = table.drop_duplicates(["day", "place"])
    return ACCAMS(n_stencils=2, n_clusters=2).fit(Observations.from_frame(table, row="day", col="place", value="value"))


MODELS: dict[str, Any] = {
    "one chain": lambda: bayes().fit(MATRIX),
    "one sweep": lambda: bayes(n_sweeps=1, n_chains=2).fit(MATRIX),
    "no clusters": lambda: bayes(n_clusters=1).fit(MATRIX),
    "backfitted": lambda: bayes(schedule=Schedule(backfit=3)).fit(MATRIX),
    "effects": lambda: bayes(priors=Priors(effects="continuous")).fit(MATRIX),
    "few": lambda: ACCAMS(n_stencils=1, n_clusters=2).fit(MATRIX[:3, :2]),
    "one row": lambda: ACCAMS(n_stencils=1, n_clusters=2).fit(MATRIX[:1]),
    "tiny values": lambda: ACCAMS(n_stencils=2, n_clusters=2).fit(1e-4 * MATRIX),
    "huge values": lambda: ACCAMS(n_stencils=2, n_clusters=2).fit(1e12 * MATRIX),
    "zeros": lambda: ACCAMS(n_stencils=2, n_clusters=2).fit(
        Observations.from_sparse(csr_array(np.eye(20)), zeros="observed")
    ),
    "flat": lambda: ACCAMS(n_stencils=2, n_clusters=2).fit(np.full((5, 5), 3.0)),
    "dates": dated,
}


def gathered(kind: str) -> accams.report.Facts:
    return accams.report.gather(MODELS[kind](), {0: None, 1: 5, 2: float("nan"), 3: "\ud800"})  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", MODELS)
def test_a_page(kind: str, tmp_path: Path) -> None:
    facts = gathered(kind)
    page = accams.report.page.html(facts, kind, "")
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert "tree" in json.loads(found[1])
    accams.report.page.write_page(facts, tmp_path / "r.html", kind, "")


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", MODELS)
def test_figures(kind: str, tmp_path: Path) -> None:
    assert len(figures.save_all(gathered(kind), tmp_path / "figures", ("svg",))) >= 3


def test_a_file_without_ids(tmp_path: Path) -> None:
    bayes().fit(MATRIX).save(tmp_path / "m.accams", ids=False)
    facts = accams.report.gather(accams.load(tmp_path / "m.accams"))
    assert facts.course is None
    assert facts.sides == ("users", "items")


def test_numbers_are_shown_at_their_scale() -> None:
    held = 1e-4 * RANDOM.normal(size=(12, 9)) + 3e-4
    model = MODELS["tiny values"]()
    text = accams.report.page.html(accams.report.gather(model, evaluation=model.evaluate(held)), "m", "")
    assert "off by 0.000 " not in text
    assert "that is no worse than the model" in text


def test_what_the_model_does_not_know_is_told() -> None:
    model = MODELS["few"]()
    found = model.evaluate([(0, 0), (7, 0), (8, 1)], [1.0, 2.0, 3.0])
    assert found.new == pytest.approx((2 / 3, 0.0))
    text = accams.report.page.html(accams.report.gather(model, evaluation=found), "m", "")
    assert "67 % of them are of users that the model does not know" in text


def test_without_arviz_chains_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bayes(n_chains=2, n_sweeps=12).fit(MATRIX)
    assert "effective draws" in accams.report.page.html(accams.report.gather(model), "m", "")

    def missing(_: Any) -> None:
        raise accams.InputError("to_arviz needs ArviZ")

    monkeypatch.setattr(accams.Posterior, "to_arviz", missing)
    assert "effective draws" not in accams.report.page.html(accams.report.gather(model), "m", "")


def test_one_chain_is_not_judged() -> None:
    text = accams.report.page.html(accams.report.gather(MODELS["one chain"]()), "m", "")
    assert "too few sweeps, to tell" in text
