"""ItemACCAMS: lists from histories, against the regression in closed form."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from item_choices import MATRIX, N_ITEMS, N_USERS, PENALTY, regression, table, weights

import accams
from accams import ACCAMS, InputError, ItemACCAMS, ListExplanation
from accams.fitted.files import to_bytes
from accams.fitted.parts import FitInfo
from accams.threads import Threads
from accams.use import lists
from accams.use.records import POPULAR

pytestmark = pytest.mark.usefixtures("short_explanations")

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


@pytest.mark.parametrize("n", [1, 4, N_ITEMS])
@pytest.mark.parametrize("history", [[3, 9], [3, 9, 4, 5, 20, 21], [N_ITEMS - 1]])
def test_threads_may_share_the_items(n, history, small, monkeypatch):
    """A list of a large catalogue is the same by parts: also where a part has fewer than are asked for, and of ties."""
    merged, merge = list[int](), lists.Best.merge
    monkeypatch.setattr(lists.Best, "merge", lambda best, parts: merged.append(len(parts)) or merge(best, parts))
    for exclude_seen in (True, False):
        found = []
        for threads in (Threads(1), *(Threads(3, chunk_size=size) for size in (3, 20, 60))):
            monkeypatch.setattr(lists, "THREADS", threads)
            best = small.recommend(history=history, n=n, exclude_seen=exclude_seen)
            found.append(list(zip(best["item"].tolist(), best["score"].tolist(), best["rule"].tolist(), strict=True)))
        assert found[0] == found[1] == found[2] == found[3]
    assert len(set(merged)) > 1


def test_a_small_map_ranks_nearly_as_the_whole_one(dense, small):
    users = np.arange(1, N_USERS)
    firsts = [dict(zip(x["user"], x["item"], strict=True)) for x in (m.recommend(users, 1) for m in (dense, small))]
    assert np.mean([firsts[0][user] == firsts[1][user] for user in users]) > 0.8
    assert small.model_.file_size <= 3000
    assert small.model_.item_map.dense is dense.model_.item_map.stencils is None
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
    model = ItemACCAMS(3000, penalty=PENALTY, dropout=0.0).fit(table()).model_
    before = model.recommend("u6", 4)["item"].tolist()
    model.forget("u5")
    assert model.recommend("u6", 4)["item"].tolist() == before
    with pytest.raises(InputError, match="there is no user 'u5'"):
        model.recommend("u5")


@pytest.mark.parametrize("max_bytes", [3000, None])
def test_files(max_bytes, tmp_path):
    one = ItemACCAMS(max_bytes, penalty=PENALTY, dropout=0.0).fit(table())
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


@pytest.mark.full  # test_lists_by_value has both, and updates and compression are tested apart
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
    other = ItemACCAMS(3000, penalty=PENALTY, dropout=0.0).fit(table()[lambda x: x["user"] != "u5"])
    with pytest.raises(InputError, match="the same users and items"):
        values.model_.with_lists(other)
    with pytest.raises(InputError, match="takes a fitted ItemACCAMS"):
        values.model_.with_lists(values)


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
    unseen = both.recommend(["u5", "u6"], 1)
    held = pd.DataFrame({"user": unseen["user"], "item": unseen["item"], "rating": [5.0, 5.0]})
    by_choice, by_value = (both.evaluate_lists(held, by=by) for by in ("choice", "value"))
    assert by_choice.n_users == by_value.n_users == by_value.n_choices == 2
    assert by_choice.lists.ndcg_10 == 1.0  # what is first in the list is all that is wanted
    first = [both.recommend(user, 1, by="value")[0].item for user in ("u5", "u6")]
    assert (by_value.lists.ndcg_10 == 1.0) == (first == unseen["item"].tolist())


def test_a_size_that_the_map_alone_exceeds(both):
    with pytest.raises(
        InputError, match=r"takes [\d,]+, [\d,]+ of them for ids, .+, [\d,]+ for lists by choice, which"
    ):
        both.compress(100)


def test_lists_can_be_left_out_of_a_small_model(both, tmp_path):
    small, whole = (both.compress(4_000, lists=lists, verbose=False) for lists in (False, True))
    assert whole.item_map is not None
    assert small.item_map is None
    small.save(tmp_path / "m.accams")
    assert (tmp_path / "m.accams").stat().st_size <= 4_000
    loaded = accams.load(tmp_path / "m.accams")
    found = loaded.recommend("u5", 2, exclude_seen=False)  # by value
    pairs = [("u5", item) for item in found["item"].tolist()]
    np.testing.assert_allclose(found["score"], loaded.predict(pairs), rtol=1e-5)


def test_an_item_of_the_history_does_not_speak_for_itself(both):
    known = both.interactions
    chosen = both.col_index.ids[known.columns[known.starts[5] : known.starts[6]]].tolist()
    told = both.explain(both.row_index.ids[5], chosen[0], by="choice")
    assert {reason.item for reason in told.terms} == set(chosen[1:])
    assert told.popularity == 0.0
    assert abs(told.rounding) < 1e-6
    alone = both.explain(history={chosen[0]: 5.0}, item=chosen[0], by="choice")
    assert not alone.terms
    assert "nothing else in the history speaks for it" in str(alone)
