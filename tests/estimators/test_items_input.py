"""ItemACCAMS: input of every kind, and what is easily mistaken."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from item_choices import MATRIX, N_ITEMS, N_USERS, PENALTY, positional, regression, table, weights
from scipy import sparse

import accams
from accams import InputError, ItemACCAMS, Observations
from accams.use.records import POPULAR

# -- input --------------------------------------------------------------------------------------------------------


def test_usual_kinds_of_input():
    frame = table()
    pairs, ones = frame[["user", "item"]].to_numpy(), np.ones(len(frame))
    expected = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(pairs, ones).model_.item_map.to_dense()
    for X in (
        frame[["user", "item"]], pd.concat([frame[["user", "item"]]] * 2), frame[["user", "item"]].assign(count=1),
    ):  # fmt: skip
        model = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(X)
        np.testing.assert_allclose(model.model_.item_map.to_dense(), expected, atol=1e-6)
    likes = sparse.csr_array((MATRIX > 0).astype(float))
    by_position = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(likes)
    np.testing.assert_allclose(by_position.model_.item_map.to_dense()[:-1, :-1], expected, atol=1e-6)
    with_nan = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(np.where(MATRIX > 0, 1.0, np.nan))
    np.testing.assert_allclose(with_nan.model_.item_map.to_dense()[:-1, :-1], expected, atol=1e-6)


def test_weights_of_observations():
    frame = table()
    pairs, half = frame[["user", "item"]].to_numpy(), np.where(np.arange(len(frame)) % 2, 1.0, 0.5)
    X = np.zeros((N_USERS, N_ITEMS))
    i, j = np.nonzero(MATRIX)
    X[i, j] = half
    model = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(pairs, np.ones(len(frame)), half)
    np.testing.assert_allclose(model.model_.item_map.to_dense(), regression(X)[:-1, :-1], atol=1e-6)
    weighted = ItemACCAMS(None, penalty=PENALTY, dropout=0.0, feedback="weights").fit(pairs, half)
    np.testing.assert_allclose(weighted.model_.item_map.to_dense(), regression(X)[:-1, :-1], atol=1e-6)


@pytest.mark.parametrize(
    ("matrix", "how"),
    [
        (np.ones((1, 1)), {}), (np.ones((3, 1)), {}), (np.ones((1, 4)), {}), (np.eye(4), {"feedback": "counts"}),
        (np.ones((6, 5)), {}), (np.eye(5) + 1, {"feedback": "weights"}),
        (np.full((2, 2), 1e-6), {"feedback": "weights"}),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("max_bytes", [4000, None, "auto"])
def test_tiny_tables(matrix, how, max_bytes):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = ItemACCAMS(max_bytes, **how).fit(matrix)
        found = model.recommend(0, 3, exclude_seen=False)
        model.recommend(history=[0], n=2)
        model.recommend(history={}, n=2)
    assert np.isfinite(found["score"]).all()
    assert len(found) >= 1


def test_histories_longer_than_the_catalogue(named):
    everything = dict.fromkeys(named.model_.items.tolist(), 5.0)
    assert len(named.recommend(everything, 5)) == 0
    assert len(named.recommend(everything, 5, exclude_seen=False)) == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict([("u5", "i00")]), "predict needs a model that predicts values, and this one makes lists"),
        (lambda m: m.fold_in({"i00": 5}).predict(["i01"]), "predict needs a model that predicts values"),
        (lambda m: m.score(table()), "score needs a model that predicts values"),
        (lambda m: m.evaluate(table()), "evaluate needs a model that predicts values"),
        (lambda m: m.recommend("u5", by="value"), "ranking by value needs a model that predicts values"),
        (lambda m: m.recommend("u5", quantile=0.1), "ranking by value needs"),
        (lambda m: m.recommend("u5", return_std=True), "return_std needs a model that predicts values"),
        (lambda m: m.recommend("u5", by="taste"), "by must be 'auto' or 'choice' or 'value', not 'taste'"),
        (lambda m: m.recommend(), "name the users, or give a history"),
        (lambda m: m.recommend("u500"), "there is no user 'u500' in this model"),
        (lambda m: m.recommend("u5", history={"i00": 5}), "give the users, or the history of somebody new"),
        (lambda m: m.recommend({"i00": np.nan}), "missing"),
        (lambda m: m.recommend(history=["i00", "i00"]), "an item comes twice in the history"),
        (lambda m: m.recommend("u5", candidates=["nothing"]), "there is no item 'nothing' in this model"),
        (lambda m: m.explain("u5"), "name the item to explain"),
        (lambda m: m.explain("u5", "nothing"), "there is no item 'nothing'"),
        (lambda m: m.compress(10_000), "a model of lists is compressed as it is fitted"),
        (lambda m: m.distill(10_000), "distill needs a model that predicts values"),
        (lambda m: m.refine(table()), "refine needs a model that predicts values"),
        (lambda m: m.report("x.html"), "a report needs a model that predicts values"),
    ],
)  # fmt: skip
def test_what_lists_cannot_do(named, call, message):
    with pytest.raises(InputError, match=message):
        call(named)


@pytest.mark.parametrize(
    ("how", "fit", "message"),
    [
        ({"max_bytes": 0}, {}, "max_bytes must be"),
        ({"max_bytes": 200}, {}, "200 bytes are too few for lists: a file without any stencil takes"),
        ({"penalty": 0.0}, {}, "penalty must be"),
        ({"penalty": np.nan}, {}, "penalty must be"),
        ({"dropout": 1.0}, {}, "dropout must be"),
        ({"dropout": -0.1}, {}, "dropout must be"),
        ({"feedback": "stars"}, {}, "feedback must be"),
        ({"seen_weight": -1}, {}, "seen_weight must be"),
        ({"feedback": "counts"}, {"y": -1.0}, "counts must not be negative"),
        ({}, {"sample_weight": -1.0}, "sample_weight must be finite and not negative"),
        ({}, {"sample_weight": np.nan}, "sample_weight must be finite and not negative"),
        ({}, {"sample_weight": 0.0}, "every sample_weight is zero"),
        ({"feedback": "counts"}, {"y": 0.0}, "nobody chose anything: every weight is zero"),
        ({}, {"y": np.nan}, "missing"),
    ],
)
def test_bad_input(how, fit, message):
    given = {name: np.full(3, value) for name, value in fit.items()}
    given.setdefault("y", np.array([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=message):
        ItemACCAMS(**how).fit([("a", "x"), ("b", "x"), ("b", "y")], **given)


def test_unknown_items_are_named_and_ignored(named):
    with pytest.warns(UserWarning, match="2 items of the history are unknown to this model and ignored: 'p', 'q'"):
        found = named.recommend({"i00": 5, "p": 5, "q": 1}, 3)
    assert found["item"].tolist() == named.recommend({"i00": 5}, 3)["item"].tolist()
    with pytest.warns(UserWarning, match="1 item of the history is unknown"):
        assert named.recommend(history=["p"], n=2)["rule"].tolist() == [POPULAR] * 2


def test_more_items_than_memory(monkeypatch):
    monkeypatch.setattr("accams.estimators.items.memory_of_machine", lambda: 10_000.0)
    with pytest.raises(
        InputError, match=r"the regression of 23 items needs about 2.12e-05 GB, more than this machine has"
    ):
        ItemACCAMS().fit(table())


def test_more_items_than_the_regression_takes(dense):
    """The tail can be recommended, and the head is as without it."""
    model = ItemACCAMS(6000, penalty=PENALTY, dropout=0.0, max_items=15).fit(positional())
    masses = (weights() ** 2).sum(axis=0)
    head = np.sort(np.argsort(-masses, kind="stable")[:15])
    B = model.model_.item_map.to_dense()
    assert model.model_.file_size <= 6000
    np.testing.assert_allclose(B[np.ix_(head, head)], regression(weights()[:, head]), atol=0.02)
    rest = np.setdiff1d(np.arange(N_ITEMS), head)
    assert not B[rest].any()
    assert B[np.ix_(head, rest)].any()
    found = model.recommend(np.arange(1, N_USERS), 10)
    assert set(found["item"]) & set(rest.tolist())


# -- what is easily mistaken --------------------------------------------------------------------------------------


def test_likes_that_come_twice_are_likes():
    likes = table()[["user", "item"]]
    once, twice = (
        ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(likes),
        ItemACCAMS(None, penalty=PENALTY, dropout=0.0),
    )
    twice.fit(pd.concat([likes, likes.iloc[:7]]))
    assert twice.feedback_ == once.feedback_ == "likes"
    np.testing.assert_array_equal(twice.model_.item_map.dense, once.model_.item_map.dense)


def test_likes_of_a_map_of_ratings_weigh_as_likes(named):
    likes = pd.DataFrame({"user": ["new", "new"], "item": ["i00", "i03"]})
    expected = named.recommend(history=["i00", "i03"], n=3)
    for found in (named.recommend(history=likes, n=3), named.update(likes).recommend("new", 3)):
        np.testing.assert_allclose(found["score"], expected["score"])


@pytest.mark.parametrize("factor", [1e-30, 0.05, 1e12])
def test_only_ratios_of_weights_count(factor, tmp_path):
    frame = table()
    pairs, some = frame[["user", "item"]].to_numpy(), np.where(np.arange(len(frame)) % 2, 1.0, 0.5)
    one, two = (
        ItemACCAMS(3000, penalty=PENALTY, dropout=0.0).fit(pairs, np.ones(len(frame)), some * f) for f in (1.0, factor)
    )
    np.testing.assert_array_equal(one.model_.item_map.levels, two.model_.item_map.levels)
    two.save(tmp_path / "m")
    again = accams.load(tmp_path / "m")
    assert (
        again.recommend(history=["i00"], n=3)["item"].tolist() == one.recommend(history=["i00"], n=3)["item"].tolist()
    )
    assert len(np.unique(one.model_.item_map.levels)) > 5


def test_popularity_is_known_whatever_the_largest_weight_is():
    frame, random = table(), np.random.default_rng(0)
    weights = random.uniform(5, 60, len(frame))
    weights[0] = 1e5
    model = ItemACCAMS(None, penalty=1.0, dropout=0.0, feedback="weights").fit(
        frame[["user", "item"]].to_numpy(), weights
    )
    masses = pd.Series(weights[1:] ** 2).groupby(frame["item"][1:].to_numpy()).sum().sort_values(ascending=False)
    rest = [x for x in model.recommend(history=[], n=6)["item"] if x != frame["item"][0]]
    assert set(rest[:3]) <= set(masses.index[:5])


@pytest.mark.parametrize("max_bytes", [6000, None])
def test_who_chose_what_says_nothing_gets_popular_items(max_bytes):
    matrix = np.zeros((40, 12))
    matrix[:, :4] = np.random.default_rng(0).random((40, 4)) < 0.6
    matrix[0, 11] = 1.0  # alone
    matrix[0, :4] = 0.0
    how = {} if max_bytes is None else {"max_items": 4}
    model = ItemACCAMS(max_bytes, penalty=5.0, dropout=0.0, feedback="counts", **how).fit(sparse.csr_array(matrix))
    found = model.recommend(history=[11], n=3)
    assert found["rule"].tolist() == [POPULAR] * 3
    assert set(found["item"]) <= {0, 1, 2, 3}
    assert model.explain(item=2, history=[11]).terms == ()


def test_held_out_zeros_are_not_wanted():
    model = ItemACCAMS(feedback="counts", penalty=PENALTY, dropout=0.0).fit(table())
    with pytest.raises(InputError, match="nothing to find"):
        model.evaluate_lists(pd.DataFrame({"user": ["u5"], "item": ["i22"], "rating": [0.0]}))


def test_users_of_a_table_of_histories(named):
    frame = table()
    with pytest.raises(InputError, match="there is no user 'u500'"):
        named.recommend(["u5", "u500"], history=frame)
    assert named.recommend(["u500"], 1, history=frame, unknown="average")["rule"].tolist() == [POPULAR]
    asked = pd.DataFrame({"user": ["u5"]})
    assert named.recommend(asked, 2, history=frame)["item"].tolist() == named.recommend("u5", 2)["item"].tolist()


def test_predictions_beside_unknown_users(both):
    found = both.recommend(["u5", "nobody"], 1, unknown="average")
    assert np.isfinite(found[0].prediction)
    assert np.isnan(found[1].prediction)
    pairs = both.recommend(history=[("i00", 5.0), ("i03", 5.0)], n=2)
    assert pairs["prediction"].tolist() == both.recommend({"i00": 5.0, "i03": 5.0}, 2)["prediction"].tolist()


def test_histories_in_other_forms(named):
    expected = named.recommend({"i00": 5.0, "i03": 1.0}, 3)["item"].tolist()
    assert named.recommend(history=pd.Series({"i00": 5.0, "i03": 1.0}), n=3)["item"].tolist() == expected
    with pytest.raises(InputError, match="history takes data, not a path"):
        named.recommend(history=Path("likes.csv"))
    positional_model = ItemACCAMS(None, penalty=PENALTY, dropout=0.0).fit(positional())
    line = np.full((1, N_ITEMS), np.nan)
    line[0, [0, 3]] = 5.0
    assert positional_model.recommend(history=line, n=2)["item"].tolist()


def test_lists_alone_have_no_items_to_fold_in(named, tmp_path):
    with pytest.raises(InputError, match="folding in an item needs a model that predicts values"):
        named.fold_in({"u5": 5.0}, new="item")
    with pytest.raises(InputError, match="a transposed model needs"):
        _ = named.model_.transposed
    with pytest.raises(InputError, match="update needs the ids of users and items"):
        named.update(np.array([[4.0, np.nan]]))
    with pytest.raises(InputError, match="takes a fitted ItemACCAMS"):
        named.model_.with_lists("lists")
    named.save(tmp_path / "bare")
    with pytest.raises(InputError, match="this model holds no users"):
        accams.batch.recommend_all(tmp_path / "bare", tmp_path / "out")


def test_history_that_was_written_without_lists(both, tmp_path):
    values = replace(both, item_map=None, interactions=replace(both.interactions, weights=None))
    values.save(tmp_path / "values", history=tmp_path / "history")
    both.save(tmp_path / "both", history=False)
    with pytest.warns(UserWarning, match="does not say what users liked"):
        accams.load(tmp_path / "both", history=tmp_path / "history")
    bare = accams.load(tmp_path / "both")
    new = bare.update(pd.DataFrame({"user": ["new"] * 2, "item": ["i00", "i03"], "rating": [5.0, 5.0]}))
    assert new.recommend("new", 2)["item"].tolist() == both.recommend(history=["i00", "i03"], n=2)["item"].tolist()


def test_penalties_chosen_on_the_latest_choices():
    """Early, everybody chooses by taste; late, what is popular: the lists of later choices want a stronger dropout."""
    random = np.random.default_rng(0)
    taste = random.integers(3, size=300)[:, None] == np.arange(30) % 3
    early = random.random((300, 30)) < np.where(taste, 0.5, 0.03)
    late = ~early & (random.random((300, 30)) < np.where(np.arange(30) < 5, 0.5, 0.02))
    rows, cols = np.nonzero(early | late)
    times = late[rows, cols].astype(int)
    obs = Observations.from_coo(rows, cols, np.ones(len(rows)), times=times)
    at_random, latest = (ItemACCAMS(None, held_out=held_out).fit(obs) for held_out in ("random", "latest"))
    assert latest.dropout_ > at_random.dropout_
    head = np.sort(np.argsort(-np.bincount(cols), kind="stable")[:20])
    inside, place = np.isin(cols, head), np.searchsorted(head, cols)
    alone = Observations.from_coo(rows[inside], place[inside], np.ones(inside.sum()), times=times[inside])
    one, other = ItemACCAMS(6000, held_out="latest", max_items=20).fit(obs), ItemACCAMS(held_out="latest").fit(alone)
    assert (one.penalty_, one.dropout_) == (other.penalty_, other.dropout_)  # items beyond the head have times, too


def test_times_that_say_nothing():
    rows, cols = np.nonzero(MATRIX)
    ones, days = np.ones(len(rows)), np.arange(len(rows)).astype("datetime64[D]")
    given = ItemACCAMS(None, penalty=1.0, dropout=0.0, held_out="latest").fit(positional())  # nothing to choose
    assert (given.penalty_, given.dropout_) == (1.0, 0.0)
    assert ItemACCAMS(None, held_out="latest").fit(Observations.from_coo(rows, cols, ones, times=days)).penalty_ > 0
    for times, says in ((None, "needs the time"), (np.where(cols == 0, np.datetime64("NaT"), days), "have no time"),
                        (np.zeros(len(rows)), "every entry would be held out")):  # fmt: skip
        with pytest.raises(InputError, match=f"held_out='latest'.*{says}"):
            ItemACCAMS(held_out="latest").fit(Observations.from_coo(rows, cols, ones, times=times))
    early = Observations.from_coo(rows, cols, ones, times=(rows > 0.7 * N_USERS).astype(int))
    with pytest.warns(UserWarning, match="too few users have both early and late choices"):
        ItemACCAMS(held_out="latest").fit(early)
