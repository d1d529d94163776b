"""Items that come after the fit, in lists by choice: from the first choices on, in every form of a model."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import accams
from accams import ACCAMS, ItemACCAMS, Model
from accams.data import Events
from accams.fitted.files import to_bytes
from accams.model.itemmap import NOBODY

M, N = 80, 24
SAME, OTHER = "u 70", "u 71"  # two users of two tastes
KINDS = ("lists", "whole map", "both")


def chosen() -> pd.DataFrame:
    """Two tastes: items of even and of odd numbers; nobody chooses everything of a taste."""
    random = np.random.default_rng(0)
    rows, cols = np.nonzero(random.random((M, N)) < np.where(np.add.outer(np.arange(M), np.arange(N)) % 2, 0.1, 0.6))
    rating = np.where(rows % 2 == cols % 2, 5.0, 2.0)
    return table([f"u {x:02}" for x in rows], [f"i {x:02}" for x in cols], rating)


def table(users: list[str], items: list[str], ratings: object = 5.0) -> pd.DataFrame:
    return pd.DataFrame({"user": users, "item": items, "rating": ratings})


OLD = chosen()
FIVE = table([f"u {2 * x:02}" for x in range(5)], ["new"] * 5)


@cache
def model(kind: str) -> Model:
    size = None if kind == "whole map" else 4000
    made = ItemACCAMS(max_bytes=size, penalty=10.0, dropout=0.3, random_state=0).fit(OLD).model_
    return ACCAMS(3, 4).fit(OLD).model_.with_lists(made) if kind == "both" else made


@cache
def updated(kind: str) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model(kind).update(FIVE, history="model")


def bare(kind: str, folder: Path) -> Model:
    model(kind).save(folder / "bare.accams", history=False)
    return accams.load(folder / "bare.accams")


def rank(of: Model, user: str, item: str = "new") -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = of.recommend(user, N + 5)["item"].tolist()
    return found.index(item) + 1 if item in found else len(of.items) + 1


@pytest.mark.parametrize("kind", KINDS)
class TestFiveChoosers:
    def test_it_is_in_the_list_of_those_whom_it_suits(self, kind: str) -> None:
        new = updated(kind)
        assert rank(new, SAME) <= 5
        assert rank(new, SAME) < rank(new, OTHER)
        assert rank(new, FIVE.user[0]) == len(new.items) + 1  # who has it already
        scores = {user: new.recommend(user, candidates=["new"])[0].score for user in (SAME, OTHER)}
        assert scores[SAME] > scores[OTHER] + 0.05

    def test_others_keep_their_lists(self, kind: str) -> None:
        before, after = (x.recommend(SAME, 20, candidates=OLD.item.unique()) for x in (model(kind), updated(kind)))
        assert before["item"].tolist() == after["item"].tolist()
        np.testing.assert_allclose(before["score"], after["score"], rtol=1e-6)

    def test_it_speaks_for_others(self, kind: str) -> None:
        found = updated(kind).recommend(history=["new"], n=3)
        assert found[0].rule == ""
        assert sum(int(x.item[2:]) % 2 == 0 for x in found) >= 2

    def test_explanations_add_up(self, kind: str) -> None:
        new = updated(kind)
        for user, item in ((SAME, "new"), (FIVE.user[1], "i 01"), (FIVE.user[1], "new")):
            why = new.explain(user, item, by="choice")
            assert len(why.terms) > 0
            found = new.recommend(user, candidates=[item], exclude_seen=False)[0].score
            assert sum(term.value for term in why.terms) == pytest.approx(found, abs=1e-6)

    def test_what_is_similar(self, kind: str) -> None:
        found = updated(kind).similar("new", 6)["item"].tolist()
        assert sum(int(x[2:]) % 2 == 0 for x in found) >= 4

    def test_files(self, kind: str, tmp_path: Path) -> None:
        new = updated(kind)
        new.save(tmp_path / "new.accams", history=True)
        again = accams.load(tmp_path / "new.accams")
        assert again.item_map.dropout == new.item_map.dropout == 0.3
        assert to_bytes(again) == to_bytes(new)
        assert list(again.recommend(SAME, 8)) == list(new.recommend(SAME, 8))

    def test_more_choices_later(self, kind: str) -> None:
        """Six more of the same taste, then everybody of it: the item climbs, the map does not grow."""
        more = table([f"u {2 * x:02}" for x in range(5, 11)], ["new"] * 6)
        twice = updated(kind).update(more, history="model")
        at_once = model(kind).update(pd.concat([FIVE, more]), history="model")
        assert twice.items.tolist() == at_once.items.tolist()
        gap = abs(rank(twice, SAME) - rank(at_once, SAME))
        assert gap <= 3
        assert twice.item_map.levels[-1] == pytest.approx(at_once.item_map.levels[-1], abs=8)
        assert twice.update(more, history="model") is twice
        if kind != "whole map":
            shapes = ([T.shape for T in x.item_map.stencils.templates] for x in (updated(kind), twice))
            assert next(shapes) == next(shapes)

    def test_forgetting_one_of_them(self, kind: str) -> None:
        new = model(kind).update(FIVE, history="model").forget(FIVE.user[0])
        assert FIVE.user[0] not in new.users
        assert rank(new, SAME) == rank(updated(kind), SAME)

    def test_the_history_may_come_with_the_update(self, kind: str, tmp_path: Path) -> None:
        found = bare(kind, tmp_path).update(FIVE, history=OLD)
        one, other = (x.item_map.to_dense() for x in (found, updated(kind)))
        np.testing.assert_allclose(one, other, atol=1e-6)

    def test_without_a_history_it_stays_out(self, kind: str, tmp_path: Path) -> None:
        message = "1 new item is not in lists by choice, which takes what users chose before: pass that as history"
        with pytest.warns(UserWarning, match=message):
            found = bare(kind, tmp_path).update(FIVE, history="model")
        assert found.item_map.levels[-1] == NOBODY
        mine = table([SAME], ["i 02"])
        assert "new" not in found.recommend(history=mine, n=10)["item"].tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # known items are where they were
            bare(kind, tmp_path).update(mine, history="model")

    def test_too_few_choosers(self, kind: str) -> None:
        with pytest.warns(UserWarning, match="1 new item was left out for now, with ratings by fewer than 3 users"):
            found = model(kind).update(FIVE[:2], history="model")
        assert "new" not in found.items
        with pytest.warns(UserWarning, match="with ratings by fewer than 6 users: 'new'"):
            model(kind).update(FIVE, history="model", min_ratings=6)


def test_compressed_models_keep_it() -> None:
    small = updated("both").compress(9000, verbose=False)
    assert rank(small, SAME) == rank(updated("both"), SAME)
    assert small.predict([(SAME, "new")]).shape == (1,)


def test_they_can_be_joined_with_a_model_of_values() -> None:
    every = pd.concat([OLD, FIVE])
    values = ACCAMS(3, 4).fit(every).model_
    lists = ItemACCAMS(max_bytes=4000, penalty=10.0).fit(every)
    more = table([f"u {x:02}" for x in range(10)], ["newer"] * 10)
    both = values.with_lists(lists).update(more, history="model")
    assert rank(both, SAME, "newer") <= len(both.items)
    np.testing.assert_array_equal(
        both.item_map.to_dense(), lists.model_.update(more, history="model").item_map.to_dense()
    )


def test_few_among_few_are_not_few_among_all() -> None:
    """Five of ten who were there have chosen it: more than five of eighty."""
    there = [f"u {x:02}" for x in range(10)]
    some = pd.concat([FIVE, table(there, ["i 20"] * 10)])
    all_of_them = pd.concat([FIVE, table([f"u {x:02}" for x in range(M)], ["i 20"] * M)])
    few, many = (model("lists").update(x, history="model") for x in (some, all_of_them))
    assert few.item_map.popularity[-1] > 2 * many.item_map.popularity[-1]
    one, other = (x.recommend(SAME, candidates=["new"])[0].score for x in (few, many))
    assert one > other


def test_times_say_who_was_there() -> None:
    users = [f"u {x:02}" for x in range(M)] + FIVE.user.tolist()
    items, values = ["i 20"] * M + ["new"] * 5, np.full(M + 5, 5.0)
    early = np.append(np.arange(M), M + np.arange(5.0))  # the item came after most had gone
    late = np.append(np.arange(M), np.zeros(5))
    found = [
        model("lists").update(Events(np.array(users), np.array(items), values, when), history="model")
        for when in (early, late)
    ]
    assert found[0].item_map.popularity[-1] > 2 * found[1].item_map.popularity[-1]


def test_what_nobody_liked_stays_out() -> None:
    made = ItemACCAMS(max_bytes=4000, penalty=10.0, seen_weight=0.0).fit(OLD).model_
    found = made.update(FIVE.assign(rating=1.0), history="model")
    assert found.item_map.levels[-1] == NOBODY
    assert rank(found, SAME) > N
