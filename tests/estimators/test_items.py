"""ItemACCAMS: lists from histories, against the regression in closed form."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import accams
from accams import ACCAMS, BayesianACCAMS, InputError, ItemACCAMS, ListExplanation, Observations
from accams.fitted.files import to_bytes
from accams.fitted.parts import FitInfo
from accams.use.records import POPULAR

PENALTY = 30.0
N_USERS, N_ITEMS = 120, 24


def chosen(seed: int = 0) -> np.ndarray:
    """Ratings of people of three tastes, who mostly rate what they like; 0 is none."""
    random = np.random.default_rng(seed)
    taste, kind = np.arange(N_USERS) % 3, np.arange(N_ITEMS) % 3
    fits = taste[:, None] == kind
    rated = random.random(fits.shape) < np.where(fits, 0.55, 0.12)
    rated[0] = False  # nobody to be known by
    rated[:, N_ITEMS - 1] = False  # an item that nobody chose
    return np.where(rated, np.clip(np.rint(3 + fits + random.normal(0, 0.9, fits.shape)), 1, 5), 0.0)


MATRIX = chosen()


def table() -> pd.DataFrame:
    i, j = np.nonzero(MATRIX)
    return pd.DataFrame({"user": [f"u{a}" for a in i], "item": [f"i{b:02}" for b in j], "rating": MATRIX[i, j]})


def positional() -> Observations:
    """With the user without ratings and the item without any."""
    return Observations.from_sparse(sparse.csr_array(MATRIX))


def weights() -> np.ndarray:
    values = MATRIX[MATRIX > 0]
    return np.where(np.float32(values.mean()) <= MATRIX, 1.0, np.where(MATRIX > 0, np.float32(0.3), 0.0))


def regression(X: np.ndarray, penalty: float = PENALTY) -> np.ndarray:
    inverse = np.linalg.inv(X.T @ X + penalty * np.eye(X.shape[1]))
    B = -inverse / np.diagonal(inverse)
    np.fill_diagonal(B, 0.0)
    return B


@pytest.fixture(scope="module")
def dense() -> ItemACCAMS:
    return ItemACCAMS(None, penalty=PENALTY).fit(positional())


@pytest.fixture(scope="module")
def small() -> ItemACCAMS:
    return ItemACCAMS(3000, penalty=PENALTY).fit(positional())


@pytest.fixture(scope="module")
def named() -> ItemACCAMS:
    return ItemACCAMS(3000, penalty=PENALTY).fit(table())


# -- the map and its scores ---------------------------------------------------------------------------------------


def test_the_whole_map_is_that_of_the_regression(dense):
    np.testing.assert_allclose(dense.model_.item_map.to_dense(), regression(weights()), atol=1e-6)
    assert dense.feedback_.startswith("ratings: 3.")


@pytest.mark.parametrize("which", ["dense", "small"])
@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("candidates", [None, [3, 1, 9, 15, 22, 23]])
def test_lists_by_brute_force(which, exclude_seen, candidates, request):
    model = request.getfixturevalue(which)
    scores = weights() @ model.model_.item_map.to_dense()
    users = np.arange(1, N_USERS)
    found = model.recommend(users, 30, exclude_seen=exclude_seen, candidates=candidates)
    allowed = np.setdiff1d(np.arange(N_ITEMS), [N_ITEMS - 1] if candidates is None else [])
    allowed = allowed if candidates is None else np.intersect1d(allowed, candidates)
    for user in users:
        mine = found["user"] == user
        left = allowed[MATRIX[user, allowed] == 0] if exclude_seen else allowed
        assert sorted(found["item"][mine]) == left.tolist()
        np.testing.assert_allclose(found["score"][mine], scores[user, found["item"][mine]], atol=1e-6)
        assert (np.diff(found["score"][mine]) <= 1e-6).all()
    assert not found["rule"].astype(str).any()


def test_a_small_map_ranks_nearly_as_the_whole_one(dense, small):
    users = np.arange(1, N_USERS)
    firsts = [dict(zip(x["user"], x["item"], strict=True)) for x in (m.recommend(users, 1) for m in (dense, small))]
    assert np.mean([firsts[0][user] == firsts[1][user] for user in users]) > 0.8
    assert small.model_.file_size <= 3000 < dense.model_.file_size + 3000
    assert small.n_stencils_ > 0 == dense.n_stencils_


def test_the_same_history_gives_the_same_list(named):
    frame = table()
    expected = named.recommend("u5", 6)
    own = frame[frame["user"] == "u5"]
    rated = dict(zip(own["item"], own["rating"], strict=True))
    for found in (
        named.recommend(rated, 6), named.recommend(history=rated, n=6), named.fold_in(rated).recommend(6),
        named.recommend(named.fold_in(rated), 6), named.recommend(history=own, n=6),
        named.recommend("u5", 6, history=frame), named.recommend(history=list(rated.items()), n=6),
    ):  # fmt: skip
        assert found["item"].tolist() == expected["item"].tolist()
        np.testing.assert_allclose(found["score"], expected["score"])


def test_tables_of_histories(named):
    found = named.recommend(history=table(), n=3)
    expected = named.recommend(named.model_.users, 3)
    assert found["user"].tolist() == expected["user"].tolist()
    assert found["item"].tolist() == expected["item"].tolist()
    some = named.recommend(["u9", "stranger"], 2, history=table(), unknown="average")
    assert some["user"].tolist() == ["u9", "u9", "stranger", "stranger"]
    assert some["rule"].tolist() == ["", "", POPULAR, POPULAR]


def test_items_without_values_are_likes(named):
    liked = named.recommend(history=["i00", "i03"], n=5)
    assert liked["item"].tolist() == named.recommend({"i00": 5, "i03": 5}, 5)["item"].tolist()
    assert {int(x[1:]) % 3 for x in liked["item"][:3]} == {0}


def test_who_has_no_history_gets_popular_items(named, small):
    popular = np.argsort(-(weights() ** 2).sum(axis=0))
    for found in (named.recommend(history={}, n=4), named.recommend("nobody", 4, unknown="average")):
        assert found["rule"].tolist() == [POPULAR] * 4
        assert (np.diff(found["score"]) <= 0).all()
        assert 0 < found[0].score <= 1
    found = small.recommend(0, 4)  # a row without ratings
    assert found["rule"].tolist() == [POPULAR] * 4
    assert set(found["item"][:2]) <= set(popular[:3].tolist())
    assert "popular items" in repr(found)


def test_reasons_sum_to_the_score(named, small, dense):
    for model, user in ((named, "u5"), (small, 5), (dense, 5)):
        for line in model.recommend(user, 3):
            why = model.explain(user, line.item)
            assert isinstance(why, ListExplanation)
            assert why.total() == why.score == pytest.approx(line.score, abs=1e-12)
            values = [reason.value for reason in why.terms]
            assert values == sorted(values, reverse=True)
    why = named.explain(item="i03", history=["i00", "i06"])
    assert [reason.item for reason in why.terms] in (["i00", "i06"], ["i06", "i00"])
    assert "because of" in repr(why)
    assert "<table>" in why._repr_html_()
    nothing = named.explain(item="i03", history={})
    assert nothing.terms == ()
    assert nothing.total() == nothing.score > 0
    assert "there is no history" in repr(nothing)


def test_similar_items_are_of_one_taste(named, dense):
    for model, item in ((named, "i00"), (dense, 0)):
        found = model.similar(item, 5)
        assert {int(str(x).removeprefix("i")) % 3 for x in found["item"]} == {0}
        assert item not in found["item"]
        assert (np.diff(found["score"]) <= 0).all()
        assert len(model.similar(item, 2, candidates=model.model_.items[:6])) == 2
    assert len(named.similar("i00", 3, by="hamming")) == 3
    with pytest.raises(InputError, match="compares labels"):
        dense.similar(0, by="hamming")
    with pytest.raises(InputError, match="knows of no users that are more alike"):
        named.similar("u1", side="users")


def test_the_tree_of_items(named, dense):
    root = named.hierarchy(depth=2)
    assert root.size == N_ITEMS - 1
    assert root.children
    with pytest.raises(InputError, match="a tree follows labels"):
        dense.hierarchy()
    with pytest.raises(InputError, match="no labels of users"):
        named.hierarchy(side="users")


# -- histories change, files are written --------------------------------------------------------------------------


def test_new_histories_need_no_fit(named):
    more = pd.DataFrame({"user": ["new", "new", "u5"], "item": ["i00", "i03", "i01"], "rating": [5.0, 5.0, 5.0]})
    new = named.update(more)
    assert new.recommend("new", 4)["item"].tolist() == named.recommend(history=["i00", "i03"], n=4)["item"].tolist()
    assert new.recommend("u5", 4)["item"].tolist() == named.recommend(history=["i01"], n=4)["item"].tolist()
    assert new.recommend("u6", 4)["item"].tolist() == named.recommend("u6", 4)["item"].tolist()
    assert new.shape[0] == named.model_.shape[0] + 1
    with pytest.warns(UserWarning, match="unknown to this model and ignored: 'nothing'"):
        named.update(pd.DataFrame({"user": ["a", "a"], "item": ["i00", "nothing"]}))


def test_users_are_forgotten():
    model = ItemACCAMS(3000, penalty=PENALTY).fit(table()).model_
    before = model.recommend("u6", 4)["item"].tolist()
    model.forget("u5")
    assert model.recommend("u6", 4)["item"].tolist() == before
    with pytest.raises(InputError, match="there is no user 'u5'"):
        model.recommend("u5")


@pytest.mark.parametrize("max_bytes", [3000, None])
def test_files(max_bytes, tmp_path):
    one = ItemACCAMS(max_bytes, penalty=PENALTY).fit(table())
    expected = one.recommend("u5", 5)
    one.save(tmp_path / "all", history=True)
    one.save(tmp_path / "bare", history=tmp_path / "history")
    full, bare = accams.load(tmp_path / "all"), accams.load(tmp_path / "bare")
    joined = accams.load(tmp_path / "bare", history=tmp_path / "history")
    for model in (full, joined, pickle.loads(pickle.dumps(one)).model_):
        found = model.recommend("u5", 5)
        assert found["item"].tolist() == expected["item"].tolist()
        np.testing.assert_array_equal(found["score"], expected["score"])
    assert (bare.shape, len(bare.users), bare.interactions) == ((0, N_ITEMS - 1), 0, None)
    assert b"u5" not in (tmp_path / "bare").read_bytes()
    if max_bytes is not None:
        assert (tmp_path / "bare").stat().st_size == one.model_.file_size <= max_bytes
    with pytest.raises(InputError, match="this model holds no history: pass history"):
        bare.recommend("u5")
    own = table()[lambda x: x["user"] == "u5"]
    assert bare.recommend(history=own, n=5)["item"].tolist() == expected["item"].tolist()
    grown = bare.update(own)
    assert grown.recommend("u5", 5)["item"].tolist() == expected["item"].tolist()
    assert ItemACCAMS().set_params(**full.parameters).max_bytes == max_bytes
    assert "an item map" in repr(full)
    assert "item map" in full._repr_html_()


def test_the_same_seed_gives_the_same_file():
    frames = [table(), table().sample(frac=1.0, random_state=1)]
    made = [ItemACCAMS(3000, n_threads=n).fit(frame) for n, frame in zip((1, 2), frames, strict=True)]
    one, two = (to_bytes(replace(x.model_, info=FitInfo()), interactions=True) for x in made)
    assert one == two


# -- models of values and lists -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(named) -> accams.Model:
    values = BayesianACCAMS(4, (4, 3), noise="sampled", n_chains=2, n_sweeps=6).fit(table())
    return values.model_.with_lists(named)


def test_lists_by_choice_with_predicted_values(both, named, tmp_path):
    found, expected = both.recommend("u5", 5), named.recommend("u5", 5)
    assert found["item"].tolist() == expected["item"].tolist()
    np.testing.assert_array_equal(found["score"], expected["score"])
    pairs = [("u5", item) for item in found["item"]]
    np.testing.assert_array_equal(found["prediction"], both.predict(pairs))
    assert found[0].prediction is not None
    assert expected[0].prediction is None
    with_std = both.recommend("u5", 5, return_std=True)
    np.testing.assert_allclose(with_std["std"], both.predict(pairs, return_std=True)[1])
    guest = both.fold_in({"i00": 5.0, "i03": 5.0})
    for line in (guest.recommend(3), both.recommend({"i00": 5.0, "i03": 5.0}, 3)):
        np.testing.assert_allclose(line["prediction"], guest.predict(line["item"]))
    both.save(tmp_path / "both")
    again = accams.load(tmp_path / "both")
    assert again.recommend("u5", 5)["item"].tolist() == expected["item"].tolist()
    assert both.similar("i00", 3)["item"].tolist() == named.similar("i00", 3)["item"].tolist()


def test_lists_by_value(both):
    found = both.recommend("u5", 5, by="value")
    np.testing.assert_array_equal(found["score"], both.predict([("u5", item) for item in found["item"]]))
    assert both.recommend("u5", 5, quantile=0.1)["item"].tolist()  # by value as well
    assert isinstance(both.explain("u5", "i03", by="value"), accams.Explanation)
    assert isinstance(both.explain("u5", "i03"), ListExplanation)
    with pytest.raises(InputError, match="a quantile is one of predicted values"):
        both.recommend("u5", quantile=0.1, by="choice")


def test_users_of_both_are_updated_and_compressed(both):
    new = both.update(pd.DataFrame({"user": ["new"] * 2, "item": ["i00", "i03"], "rating": [5.0, 5.0]}))
    line = new.recommend("new", 3)
    assert line["item"].tolist() == both.recommend(history=["i00", "i03"], n=3)["item"].tolist()
    assert line[0].prediction is not None
    small = both.compress(8000)
    assert small.recommend("u5", 3)["item"].tolist() == both.recommend("u5", 3)["item"].tolist()
    assert small.file_size <= 8000


def test_lists_of_other_data():
    values = ACCAMS(2, 2).fit(table())
    other = ItemACCAMS(3000, penalty=PENALTY).fit(table()[lambda x: x["user"] != "u5"])
    with pytest.raises(InputError, match="the same users and items"):
        values.model_.with_lists(other)
    with pytest.raises(InputError, match="takes a fitted ItemACCAMS"):
        values.model_.with_lists(values)


# -- input --------------------------------------------------------------------------------------------------------


def test_usual_kinds_of_input():
    frame = table()
    pairs, ones = frame[["user", "item"]].to_numpy(), np.ones(len(frame))
    expected = ItemACCAMS(None, penalty=PENALTY).fit(pairs, ones).model_.item_map.to_dense()
    for X in (
        frame[["user", "item"]], pd.concat([frame[["user", "item"]]] * 2), frame[["user", "item"]].assign(count=1),
    ):  # fmt: skip
        model = ItemACCAMS(None, penalty=PENALTY).fit(X)
        np.testing.assert_allclose(model.model_.item_map.to_dense(), expected, atol=1e-6)
    likes = sparse.csr_array((MATRIX > 0).astype(float))
    by_position = ItemACCAMS(None, penalty=PENALTY).fit(likes)
    np.testing.assert_allclose(by_position.model_.item_map.to_dense()[:-1, :-1], expected, atol=1e-6)
    with_nan = ItemACCAMS(None, penalty=PENALTY).fit(np.where(MATRIX > 0, 1.0, np.nan))
    np.testing.assert_allclose(with_nan.model_.item_map.to_dense()[:-1, :-1], expected, atol=1e-6)


def test_weights_of_observations():
    frame = table()
    pairs, half = frame[["user", "item"]].to_numpy(), np.where(np.arange(len(frame)) % 2, 1.0, 0.5)
    X = np.zeros((N_USERS, N_ITEMS))
    i, j = np.nonzero(MATRIX)
    X[i, j] = half
    model = ItemACCAMS(None, penalty=PENALTY).fit(pairs, np.ones(len(frame)), half)
    np.testing.assert_allclose(model.model_.item_map.to_dense(), regression(X)[:-1, :-1], atol=1e-6)
    weighted = ItemACCAMS(None, penalty=PENALTY, feedback="weights").fit(pairs, half)
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
        InputError, match=r"the regression of 23 items needs about 1.69e-05 GB, more than this machine has"
    ):
        ItemACCAMS().fit(table())


# -- evaluation ---------------------------------------------------------------------------------------------------


def test_lists_are_evaluated_beside_popularity():
    frame = table()
    held = np.random.default_rng(0).random(len(frame)) < 0.2
    model = ItemACCAMS(3000).fit(frame[~held])
    result = model.evaluate_lists(frame[held])
    assert result.lists.ndcg_10 > result.popularity.ndcg_10
    assert result.lists.coverage > result.popularity.coverage
    liked = frame[held & (frame["rating"] >= model.model_.item_map.feedback.liked_from)]
    known = liked[liked["user"].isin(model.model_.users) & liked["item"].isin(model.model_.items)]
    assert (result.n_users, result.n_choices) == (known["user"].nunique(), len(known))
    found = model.recommend(known["user"].unique(), 10)
    hits = {(x.user, x.item) for x in found} & set(known[["user", "item"]].itertuples(index=False, name=None))
    by_user = pd.Series([user for user, _ in hits]).value_counts()
    wanted = known["user"].value_counts()
    recall = (by_user.reindex(wanted.index, fill_value=0) / np.minimum(wanted, 10)).mean()
    assert result.lists.recall_10 == pytest.approx(recall)
    bare = model.update(frame[~held])
    assert bare.evaluate_lists(frame[held], history=frame[~held]).lists == result.lists
    with pytest.raises(InputError, match="there is nothing to find"):
        model.evaluate_lists(frame[~held])


def test_lists_by_value_are_evaluated(both):
    held = pd.DataFrame({"user": ["u5", "u6"], "item": ["i22", "i21"], "rating": [5.0, 5.0]})
    seen = set(table()[["user", "item"]].itertuples(index=False, name=None))
    held = held[[pair not in seen for pair in held[["user", "item"]].itertuples(index=False, name=None)]]
    if len(held):
        assert both.evaluate_lists(held, by="value").n_users == len(held)


def test_more_items_than_the_regression_takes(dense):
    """The tail can be recommended, and the head is as without it."""
    model = ItemACCAMS(6000, penalty=PENALTY, max_items=15).fit(positional())
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
    once, twice = ItemACCAMS(None, penalty=PENALTY).fit(likes), ItemACCAMS(None, penalty=PENALTY)
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
    one, two = (ItemACCAMS(3000, penalty=PENALTY).fit(pairs, np.ones(len(frame)), some * f) for f in (1.0, factor))
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
    model = ItemACCAMS(None, penalty=1.0, feedback="weights").fit(frame[["user", "item"]].to_numpy(), weights)
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
    model = ItemACCAMS(max_bytes, penalty=5.0, feedback="counts", **how).fit(sparse.csr_array(matrix))
    found = model.recommend(history=[11], n=3)
    assert found["rule"].tolist() == [POPULAR] * 3
    assert set(found["item"]) <= {0, 1, 2, 3}
    assert model.explain(item=2, history=[11]).terms == ()


def test_held_out_zeros_are_not_wanted():
    model = ItemACCAMS(feedback="counts", penalty=PENALTY).fit(table())
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
    positional_model = ItemACCAMS(None, penalty=PENALTY).fit(positional())
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
