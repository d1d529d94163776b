"""`accams update`: from a log, a table or a store; twice the same; in place of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import done_well, invoked, refusal

import accams
from accams import Observations
from accams.data import EventLog


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings, a model of them, and feedback of a new user, a known one and a new item, as a log and as a table."""
    folder, random = tmp_path_factory.mktemp("update"), np.random.default_rng(0)
    rows, cols = np.nonzero(random.random((30, 20)) < 0.6)
    value = np.clip(3 + np.where(rows % 2 == cols % 2, 1, -1) + random.integers(-1, 2, len(rows)), 1, 5)
    ratings = pd.DataFrame({"user": rows, "item": cols, "rating": value})
    ratings.to_csv(folder / "ratings.csv", index=False)
    Observations.from_frame(ratings).to_store(folder / "ratings.store")
    news = [(u, 77, 5.0 if u % 2 == 0 else 1.0) for u in range(6)] + [(99, j, 5.0 - 4 * (j % 2)) for j in range(8)]
    table = pd.DataFrame(news, columns=["user", "item", "rating"])
    table.to_csv(folder / "news.csv", index=False)
    log = EventLog(folder / "feedback.log", max_bytes=400)
    for event in news:
        log.append(*event)
    done_well("fit", folder / "ratings.csv", "-o", folder / "m.accams", "--model", "accams", "--for", "ratings", "-q")
    return folder


@pytest.mark.parametrize("history", [None, "ratings.csv", "ratings.store"])
def test_a_log(folder: Path, history: str | None, tmp_path: Path) -> None:
    out, given = tmp_path / "n.accams", [] if history is None else ["--history", folder / history]
    shown = done_well("update", folder / "m.accams", folder / "feedback.log", "-o", out, *given)
    assert "observations 14, 14 of them new to the model" in shown
    assert "users 6 of 30 placed anew, 1 new" in shown
    assert "items 1 new beside 20" in shown
    assert "fit again not yet: new observations are few" in shown
    model = accams.load(out)
    assert model.shape == (31, 21)
    assert model.predict([(8, 77)]) > model.predict([(9, 77)])
    again = tmp_path / "again.accams"
    shown = done_well("update", out, folder / "feedback.log", "-o", again, *given)
    assert "changed nothing: the model has taken them in before" in shown
    assert again.read_bytes() == out.read_bytes()


def test_a_table_in_place_of_the_model(folder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "m.accams", tmp_path / "n.accams"
    path.write_bytes((folder / "m.accams").read_bytes())
    done_well("update", path, folder / "news.csv", "-o", path)
    done_well("update", folder / "m.accams", folder / "feedback.log", "-o", out)
    assert path.read_bytes() == out.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.accams", "n.accams"]


def test_a_history_file(folder: Path, tmp_path: Path) -> None:
    """It says what was seen, and predictions stand in for the values."""
    path, history, out = tmp_path / "m.accams", tmp_path / "history.accams", tmp_path / "n.accams"
    done_well(
        *("fit", folder / "ratings.csv", "-o", path, "--history", history),
        *("--model", "accams", "--for", "ratings", "--test", "0", "-q"),
    )
    done_well("update", path, folder / "feedback.log", "-o", out, "--history", history)
    assert len(accams.load(out).interactions) == len(pd.read_csv(folder / "ratings.csv")) + 14
    done_well("update", out, folder / "feedback.log", "-o", path, "--history", history)
    assert path.read_bytes() == out.read_bytes()


def test_drift(folder: Path, tmp_path: Path) -> None:
    many = pd.DataFrame([(u, j, 3.0) for u in range(200, 220) for j in range(10)], columns=["user", "item", "rating"])
    many.to_csv(tmp_path / "many.csv", index=False)
    shown = done_well("update", folder / "m.accams", tmp_path / "many.csv", "-o", tmp_path / "n.accams")
    assert "fit again yes: new observations are" in shown
    assert "100% of the new observations are of users that the model does not know" in shown


def test_refusals(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "n.accams"
    words = "update", folder / "m.accams", folder / "feedback.log"
    assert "is what is to be read: give --output another name" in refusal(*words, "-o", folder / "feedback.log")
    assert "there is no folder" in refusal(*words, "-o", tmp_path / "no" / "n.accams")
    assert "--min-ratings must be" in refusal(*words, "-o", out, "--min-ratings", "0")
    EventLog(tmp_path / "empty.log")
    assert "without events" in refusal("update", folder / "m.accams", tmp_path / "empty.log", "-o", out)
    log = EventLog(tmp_path / "damaged.log")
    log.append([0, 1, 2], [3, 4, 5], 3.0)
    content = log.path.read_bytes()
    log.path.write_bytes(content.replace(b'"user":1', b'"user":9'))
    words = "update", folder / "m.accams", log.path, "-o", out
    assert "line 3 is damaged: skip such lines (--skip-damaged), or restore the file" in refusal(*words)
    assert "observations 2, " in done_well(*words, "--skip-damaged")
    log.append(1, 1, 99.0)
    assert "the value 99 lies outside the range" in refusal(*words, "--skip-damaged")
    assert invoked("update", "--help").exit_code == 0
