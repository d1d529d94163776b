"""Everybody's recommendations and predictions of many pairs, as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import twins
from typer.testing import CliRunner

from accams import ACCAMS, BayesianACCAMS, InputError, Observations
from accams.batch import predict_all, recommend_all
from accams.cli.main import app
from accams.errors import AccamsError


@pytest.fixture(scope="module")
def ratings() -> pd.DataFrame:
    rows, cols, values = twins.case("missing", (30, 20)).observations.coo()
    return pd.DataFrame({"user": [f"u{i}" for i in rows], "item": cols + 100, "rating": values})


@pytest.fixture(scope="module")
def model(ratings: pd.DataFrame) -> Any:
    return BayesianACCAMS(2, 3, n_sweeps=4, n_chains=1, noise=0.7, verbose=False).fit(ratings)


@pytest.fixture
def path(model: Any, tmp_path: Path) -> Path:
    model.save(tmp_path / "it's a model.accams")
    return tmp_path / "it's a model.accams"


def read(folder: Path, order: str) -> list[tuple[Any, ...]]:
    return duckdb.read_parquet(str(folder / "*.parquet")).order(order).fetchall()


@pytest.mark.parametrize("include_seen", [False, True])
def test_recommend_all(path: Path, model: Any, tmp_path: Path, include_seen: bool) -> None:
    events = list[tuple[int, int]]()
    how: dict[str, Any] = {"include_seen": include_seen, "std": True, "rows_per_file": 8}
    lines = recommend_all(path, tmp_path / "top", 5, progress=lambda *done: events.append(done), **how)
    found = model.recommend(model.row_index_.ids, 5, exclude_seen=not include_seen, return_std=True)
    assert lines == len(found)
    assert events == [(1, 4), (2, 4), (3, 4), (4, 4)]
    right = {(r.user, r.rank): (r.item, r.score, r.std) for r in found}
    there = {(user, rank): (item, score, std) for user, item, rank, score, std, _ in read(tmp_path / "top", "rank")}
    assert there == right
    assert duckdb.read_parquet(str(tmp_path / "top" / "*.parquet")).columns[:2] == ["user", "item"]


def test_predict_all(path: Path, model: Any, ratings: pd.DataFrame, tmp_path: Path) -> None:
    rows, cols = ratings["user"].to_numpy(), ratings["item"].to_numpy()
    assert predict_all(path, rows, cols, tmp_path / "p", pairs_per_file=50) == len(rows)
    there = {(user, item): x for user, item, x in read(tmp_path / "p", "prediction")}
    right = dict(zip(zip(rows, cols, strict=True), model.predict(ratings[["user", "item"]]), strict=True))
    assert there == right
    predict_all(path, rows, cols, tmp_path / "q", names=("who", "what"))
    assert duckdb.read_parquet(str(tmp_path / "q" / "*.parquet")).columns == ["who", "what", "prediction"]


def test_nothing_half_written_is_left(path: Path, tmp_path: Path) -> None:
    def fail(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recommend_all(path, tmp_path / "top", progress=fail)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_bad_input(path: Path, tmp_path: Path, model: Any) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there exists already: remove it, or name another"):
        recommend_all(path, tmp_path / "there")
    with pytest.raises(InputError, match=r"there is no model .* on a cluster, every machine must see it"):
        recommend_all(tmp_path / "none.accams", tmp_path / "top")
    with pytest.raises(InputError, match="engine must be 'cpu' or 'ray', not 'gpu'"):
        recommend_all(path, tmp_path / "top", engine="gpu")
    with pytest.raises(InputError, match="0 row ids and 0 column ids: pass equally many, at least one"):
        predict_all(path, np.array([]), np.array([]), tmp_path / "p")
    model.stencils_.save(tmp_path / "bare.accams")
    with pytest.raises(InputError, match="does not know what its users have seen"):
        recommend_all(tmp_path / "bare.accams", tmp_path / "top")
    ACCAMS(1, 2, verbose=False).fit(twins.case("missing").observations).save(tmp_path / "plain.accams")
    with pytest.raises(InputError, match="return_std needs a model that knows its predictive spread"):
        recommend_all(tmp_path / "plain.accams", tmp_path / "top", std=True, include_seen=True)
    assert not (tmp_path / "top.partial").exists()


def test_on_the_command_line(path: Path, ratings: pd.DataFrame, tmp_path: Path) -> None:
    def run(*words: str | Path) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    assert "wrote 90 recommendations" in run("recommend", path, "--all", "-n", "3", "-o", tmp_path / "top").output
    ratings.to_csv(tmp_path / "pairs.csv", index=False)
    done = run("predict", path, tmp_path / "pairs.csv", "-o", tmp_path / "p.parquet", "--std")
    assert f"wrote {len(ratings):,} predictions" in " ".join(done.output.split())
    assert duckdb.read_parquet(str(tmp_path / "p.parquet" / "*.parquet")).columns == [
        "user",
        "item",
        "prediction",
        "std",
    ]
    for words, message in {
        ("recommend", path, "--all"): "--all writes Parquet files: name a folder for them with --output",
        ("recommend", path, "--all", "u1", "-o", "x"): "--all writes ids and scores of all users: leave out user ids",
        ("recommend", path, "u1", "-o", "x"): "--output, --engine and --address are for all users: add --all",
        ("predict", path, "x.csv", "--engine", "ray"): "a cluster writes Parquet: name an output that ends in .parquet",
        (
            "recommend",
            path,
            "--all",
            "-o",
            "x",
            "--address",
            "auto",
        ): "--address is that of a Ray cluster: add --engine ray",
    }.items():
        error = run(*words).exception
        assert isinstance(error, AccamsError)
        assert str(error) == message


@pytest.mark.some(2)
@pytest.mark.parametrize("form", ["store", "csv", "other ids", "history file", "history of others"])
def test_what_was_seen_is_in_another_file(ratings: pd.DataFrame, tmp_path: Path, form: str) -> None:
    """A model of ACCAMS does not keep it."""
    model = ACCAMS(2, 3, verbose=False).fit(ratings)
    model.save(tmp_path / "m")
    right = [(r.user, r.rank, r.item) for r in model.recommend(model.row_index_.ids, 4)]
    seen = tmp_path / "seen"
    if form == "history file":
        model.save(tmp_path / "m", history=seen)
    elif form == "history of others":  # the same users and items at other positions, and one more user
        more = pd.DataFrame({"user": ["a"], "item": [1], "rating": [3.0]})
        other = ACCAMS(1, 2, verbose=False).fit(pd.concat([more, ratings[::-1]]))
        other.save(tmp_path / "other", history=seen)
    elif form == "csv":
        ratings[["user", "item"]].to_csv(seen, index=False)
    else:  # one more user, in front of all others, is not in the model
        more = pd.DataFrame({"user": ["a"], "item": [1], "rating": [3.0]})
        Observations.from_frame(pd.concat([ratings, more]) if form == "other ids" else ratings).to_store(seen)
    with pytest.raises(InputError, match="does not know what its users have seen"):
        recommend_all(tmp_path / "m", tmp_path / "none", 4)
    recommend_all(tmp_path / "m", tmp_path / "top", 4, history=seen, rows_per_file=7)
    there = {(user, rank, item) for user, item, rank, *_ in read(tmp_path / "top", "rank")}
    assert there == set(right)


def test_what_was_seen_is_of_other_data(path: Path, tmp_path: Path) -> None:
    Observations.from_dense(np.eye(3) + 1.0).to_store(tmp_path / "s")
    with pytest.raises(InputError, match="has no user or no item of this model: is it the history of the same data"):
        recommend_all(path, tmp_path / "top", history=tmp_path / "s")
    assert not (tmp_path / "top.partial").exists()
