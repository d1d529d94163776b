"""`accams fit` and `accams update` with tables of features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import done_well, refusal

import accams

M, N, NEW = 50, 30, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings of comedies and dramas by two kinds of people, and what these are; some films have no ratings."""
    folder, random = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    rows, cols = np.nonzero(random.random((M, N)) < 0.4)
    rows, cols = rows[cols >= NEW], cols[cols >= NEW]
    value = np.clip(3 + np.where(rows % 2 == cols % 2, 1, -1) + random.integers(-1, 2, len(rows)), 1, 5)
    pd.DataFrame({"user": rows, "item": cols, "rating": value}).to_csv(folder / "ratings.csv", index=False)
    users = pd.DataFrame({"user": range(M), "sex": np.array(["f", "m"])[np.arange(M) % 2]})
    users.to_csv(folder / "users.csv", index=False)
    films = pd.DataFrame(
        {"item": range(N), "genres": np.array(["Comedy|Short", "Drama"])[np.arange(N) % 2], "year": 1990}
    )
    films["year"] += films["item"] % 7
    films.to_parquet(folder / "films.parquet")
    pd.DataFrame({"item": [90, 91], "genres": ["Comedy|Short", "Drama"], "year": ["", 1993]}).to_csv(
        folder / "later.csv", index=False
    )
    news = pd.DataFrame({"user": [0, 2, 4], "item": [92] * 3, "rating": [4.0, 4.0, 5.0]})
    news.to_csv(folder / "news.csv", index=False)
    features = ["--user-features", folder / "users.csv", "--item-features", folder / "films.parquet"]
    small = ["--stencils", "3", "-k", "3", "--chains", "2", "--sweeps", "15", "--noise", "1", "-q", "--seed", "0"]
    done_well("fit", folder / "ratings.csv", "-o", folder / "m.accams", *features, *small)
    return folder


def test_films_without_ratings(folder: Path) -> None:
    """They are in the model, and its lists by value; lists by choice do not know them."""
    model = accams.load(folder / "m.accams")
    assert model.shape == (M, N)
    liked, other = (model.predict([(4, j), (5, j + 1)]).mean() for j in (0, 1))
    assert liked > other + 0.7
    assert 0 in [x.item for x in model.recommend(4, n=N, by="value", exclude_seen=False)][: N // 2]
    assert len(model.recommend(4, n=3, by="choice")) == 3


def test_an_update(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "n.accams"
    done_well("update", folder / "m.accams", folder / "news.csv", "-o", out, "--item-features", folder / "later.csv")
    model = accams.load(out)
    assert model.shape == (M, N + 3)
    assert model.predict([(4, 90), (5, 91)]).mean() > model.predict([(5, 90), (4, 91)]).mean() + 0.7


def test_users_whose_features_look_like_ids(folder: Path, tmp_path: Path) -> None:
    """New users of the ages 20 and 21 are not the users 20 and 21."""
    (folder / "more.csv").write_text("user,sex,age\n800,f,20\n801,m,21\n", "utf-8")
    out = tmp_path / "n.accams"
    done_well("update", folder / "m.accams", folder / "news.csv", "-o", out, "--user-features", folder / "more.csv")
    model = accams.load(out)
    assert {800, 801} <= set(model.users.tolist())


def test_an_update_by_features_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "n.accams"
    told = done_well("update", folder / "m.accams", "-o", out, "--item-features", folder / "later.csv")
    assert "2 new beside" in told
    model = accams.load(out)
    assert model.predict([(4, 90), (5, 91)]).mean() > model.predict([(5, 90), (4, 91)]).mean() + 0.7
    assert "there is nothing to take in: give FEEDBACK, --item-features or" in refusal(
        "update", folder / "m.accams", "-o", out
    )


def test_ids_are_in_the_column_that_is_called_as_in_the_ratings(folder: Path, tmp_path: Path) -> None:
    """Another column is called id, and holds other numbers."""
    ratings, films = pd.read_csv(folder / "ratings.csv"), pd.read_parquet(folder / "films.parquet")
    ratings.rename(columns={"item": "film"}).to_csv(tmp_path / "r.csv", index=False)
    films.rename(columns={"item": "film"}).assign(id=(films["item"] + 1) % N).to_csv(tmp_path / "f.csv", index=False)
    small = ["--stencils", "3", "-k", "3", "--chains", "2", "--sweeps", "15", "--noise", "1", "-q", "--seed", "0"]
    done_well("fit", tmp_path / "r.csv", "-o", tmp_path / "m.accams", "--item-features", tmp_path / "f.csv", *small)
    model = accams.load(tmp_path / "m.accams")
    assert model.predict([(4, 0), (5, 1)]).mean() > model.predict([(4, 1), (5, 0)]).mean() + 0.7


def test_what_is_refused(folder: Path) -> None:
    fit = "fit", folder / "ratings.csv", "-o", folder / "n.accams"
    assert "need --model bayes: ACCAMS knows none" in refusal(
        *fit, "--model", "accams", "--item-features", folder / "films.parquet"
    )
    assert "there is no" in refusal(*fit, "--item-features", folder / "nothing.csv")
    assert "features are for predicted values, and only lists are fitted" in refusal(
        *fit, "--for", "lists", "--item-features", folder / "films.parquet"
    )
    (folder / "other.csv").write_text("item,year\nx,1990\ny,1991\n", "utf-8")
    assert "no id of item_features is among those of the ratings" in refusal(
        *fit, "--item-features", folder / "other.csv"
    )
