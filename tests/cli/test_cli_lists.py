"""Lists by the command line: fitted beside values or alone, used, evaluated."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import FAST, done_well, from_json, refusal
from rich.console import Console

import accams
from accams.cli import tasks
from accams.cli.messages import two_columns


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings of users of three tastes, most cells missing."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("lists")
    lines = []
    for u in range(90):
        for f in range(30):
            fits = u % 3 == f % 3
            if random.random() < (0.5 if fits else 0.1):
                lines.append((f"u{u}", f"film {f}", float(np.clip(round(3 + fits + random.normal(0, 0.7)), 1, 5))))
    (folder / "ratings.csv").write_text("userId,movieId,rating\n" + "".join(f"{u},{f},{x}\n" for u, f, x in lines))
    (folder / "likes.csv").write_text("userId,movieId\n" + "".join(f"{u},{f}\n" for u, f, _ in lines))
    return folder


@pytest.fixture(scope="module")
def both(sparse: Path) -> Path:
    path = sparse / "both.accams"
    shown = done_well("fit", sparse / "ratings.csv", "-o", path, *FAST, "--sweeps", "6")
    for word in ("test RMSE", "lists", "NDCG@10", "popular items", "item map", "history"):
        assert word in shown
    return path


@pytest.fixture(scope="module")
def lists(sparse: Path) -> Path:
    path = sparse / "lists.accams"
    shown = done_well("fit", sparse / "likes.csv", "-o", path, "--list-bytes", "4k", "--test", "0.2")
    assert "without values, these are likes" in shown
    assert "NDCG@10" in shown
    assert "RMSE" not in shown
    return path


def test_by_default_lists_are_by_choice_with_predictions(both):
    found = from_json("recommend", both, "u4", "-n", "3")
    expected = accams.load(both).recommend("u4", 3)
    assert [line["item"] for line in found] == expected["item"].tolist()
    assert [line["prediction"] for line in found] == expected["prediction"].tolist()
    assert "predicted" in done_well("recommend", both, "u4", "-n", "3", "--std")
    by_value = from_json("recommend", both, "u4", "-n", "3", "--by", "value")
    assert "prediction" not in by_value[0]
    assert [line["score"] for line in by_value] != [line["score"] for line in found]
    guest = from_json("recommend", both, "--rated", "film 0=5", "--rated", "film 3=5", "-n", "3")
    assert all(int(line["item"].removeprefix("film ")) % 3 == 0 for line in guest)


@pytest.mark.parametrize("ours", [0.1, 0.3])
def test_popular_items_that_make_better_lists_are_called_so(both, ours):
    found = [SimpleNamespace(ndcg_10=x, recall_10=x) for x in (ours, 0.2)]
    table, shown = two_columns(), StringIO()
    tasks._list_rows(table, accams.load(both), SimpleNamespace(lists=found[0], popularity=found[1], n_users=9))
    Console(file=shown, width=120).print(table)
    assert ("(popular items, which do better here)" in shown.getvalue()) == (ours < 0.2)


def test_too_few_bytes_for_lists(both, tmp_path):
    told = refusal("compress", both, "--max-bytes", "100", "-o", tmp_path / "small.accams")
    assert "for lists by choice, which can be left out with --no-lists" in told
    done_well("compress", both, "--max-bytes", "4k", "--no-lists", "-o", tmp_path / "small.accams")
    assert accams.load(tmp_path / "small.accams").item_map is None


def test_values_alone(sparse):
    path = sparse / "values.accams"
    assert "NDCG" not in done_well(
        "fit", sparse / "ratings.csv", "-o", path, *FAST, "--sweeps", "6", "--for", "ratings"
    )
    assert accams.load(path).item_map is None
    assert "fit one with --for both" in refusal("recommend", path, "u4", "--by", "choice")


def test_lists_alone(lists, sparse, tmp_path):
    model = accams.load(lists)
    assert (model.predicts, model.info.estimator) == (False, "ItemACCAMS")
    found = from_json("recommend", lists, "u4", "-n", "3")
    assert [line["item"] for line in found] == model.recommend("u4", 3)["item"].tolist()
    assert found[0].keys() == {"user", "rank", "item", "title", "score", "rule"}
    why = from_json("explain", lists, found[0]["item"], "--user", "u4")
    assert sum(reason["value"] for reason in why["terms"]) == pytest.approx(found[0]["score"])
    assert "because of" in done_well("explain", lists, found[0]["item"], "--user", "u4")
    assert "item map" in done_well("info", lists)
    assert "film" in done_well("similar", lists, "film 0", "-n", "2")
    assert "film" in done_well("hierarchy", lists, "--depth", "2")
    assert "wrote 270 recommendations" in done_well("recommend", lists, "--all", "-n", "3", "-o", tmp_path / "top")


def test_what_was_held_out_is_not_recommended(both, sparse):
    rated = pd.read_csv(sparse / "ratings.csv").groupby("userId")["movieId"].agg(set)
    model = accams.load(both)
    found = model.recommend(rated.index.tolist(), 5)
    assert len(found) == 5 * len(rated)
    assert not any(line.item in rated[line.user] for line in found)


def test_history_apart(sparse, lists):
    path, history = sparse / "bare.accams", sparse / "bare.history"
    how = ["--list-bytes", "4k", "--test", "0.2", "-q"]
    done_well("fit", sparse / "likes.csv", "--for", "lists", "-o", path, "--history", history, *how)
    assert path.stat().st_size <= 4000
    assert path.stat().st_size < lists.stat().st_size  # which holds the history
    wanted = from_json("recommend", lists, "u4", "-n", "3")
    assert from_json("recommend", path, "u4", "-n", "3", "--history", history) == wanted
    assert "name a history file or the ratings with --history" in refusal("recommend", path, "u4")
    table = from_json("recommend", path, "u4", "-n", "3", "--history", sparse / "likes.csv")  # all of it, held out too
    assert {line["user"] for line in table} == {"u4"}
    everybody = done_well("recommend", path, "--all", "-n", "2", "--history", history, "-o", sparse / "everybody")
    assert "wrote 180 recommendations" in everybody


def test_weights_from_a_table_of_ratings(sparse, tmp_path):
    path = tmp_path / "m.accams"
    done_well(
        "fit", sparse / "ratings.csv", "--for", "lists", "-o", path, "--test", "0", "--history", tmp_path / "h", "-q"
    )
    expected = from_json("recommend", path, "u4", "--history", tmp_path / "h")
    assert from_json("recommend", path, "u4", "--history", sparse / "ratings.csv") == expected
    done_well("ingest", sparse / "ratings.csv", "-o", tmp_path / "store")
    assert from_json("recommend", path, "u4", "--history", tmp_path / "store") == expected


def test_evaluation(both, sparse, tmp_path):
    assert "there is nothing to find" in refusal("evaluate", both, sparse / "ratings.csv", "--lists")  # all is known
    lines = [
        f"{line['user']},{line['item']},5"
        for u in range(20)
        for line in from_json("recommend", both, f"u{u}", "-n", "3")
    ]
    later = tmp_path / "later.csv"
    later.write_text("userId,movieId,rating\n" + "\n".join(lines) + "\n")
    shown = done_well("evaluate", both, later, "--lists")
    for word in ("likes to find", "recall@10", "NDCG@100", "coverage", "long tail", "popularity"):
        assert word in shown
    bare = tmp_path / "bare.accams"
    accams.load(both).save(bare, history=False)
    assert "--history" in refusal("evaluate", bare, sparse / "ratings.csv", "--lists")
    new = tmp_path / "new.csv"
    new.write_text("userId,movieId\nme,film 6\n")
    before = tmp_path / "before.csv"
    before.write_text("userId,movieId\nme,film 0\nme,film 3\n")
    assert "1 users, 1 likes" in done_well("evaluate", bare, new, "--lists", "--history", before)
    assert "for lists: add --lists" in refusal("evaluate", both, new, "--history", before)
    assert "there is nothing to find" in refusal("evaluate", both, before, "--lists")


def test_options(sparse, tmp_path):
    data = sparse / "ratings.csv"
    assert "--stencils is not for lists" in refusal("fit", data, "--for", "lists", "--stencils", "3")
    assert "--model is not for lists" in refusal("fit", data, "--for", "lists", "--model", "bayes")
    assert "--liked-from needs lists" in refusal("fit", data, "--for", "ratings", "--liked-from", "3")
    assert "--liked-from must be" in refusal("fit", data, "--liked-from", "high")
    assert "bytes are too few for lists" in refusal("fit", data, "--for", "lists", "--list-bytes", "100")
    assert "which column holds the values" in refusal("fit", sparse / "likes.csv", "--for", "both")
    config = tmp_path / "fit.toml"
    config.write_text('for = "lists"\nlist-bytes = "4k"\nliked_from = 4\nquiet = true\n')
    done_well("fit", data, "--config", config, "-o", tmp_path / "m.accams")
    model = accams.load(tmp_path / "m.accams")
    assert (model.predicts, model.parameters["max_bytes"], model.item_map.feedback.liked_from) == (False, 4000, 4.0)


def test_a_model_is_not_lost_because_lists_cannot_be_measured(tmp_path):
    """The only negative count is held out: the rest are counts, which it cannot be."""
    random = np.random.default_rng(0)
    lines = [(u, f, int(random.integers(1, 4)) if random.random() < 0.3 else 1) for u in range(40) for f in range(20)]
    lines = [line for line in lines if random.random() < 0.3]
    for place in range(len(lines)):
        changed = [(u, f, -1 if p == place else x) for p, (u, f, x) in enumerate(lines)]
        (tmp_path / "r.csv").write_text("user,item,count\n" + "".join(f"{u},{f},{x}\n" for u, f, x in changed))
        data = accams.Observations.from_file(tmp_path / "r.csv")
        if accams.data.splits.random_split(data, 0.1, 0)[1].values.min() < 0:
            break
    shown = done_well("fit", tmp_path / "r.csv", "--for", "lists", "-o", tmp_path / "m.accams")
    assert "saved" in shown
    assert accams.load(tmp_path / "m.accams").item_map.feedback.kind == "counts"
