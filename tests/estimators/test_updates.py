"""Deltas: new observations of known and new users and items are merged with what was there, and taken in once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bayes_models import make
from shared_inputs import model_of

import accams
from accams import ACCAMS, InputError, ItemACCAMS, Model, Observations
from accams.data.eventlog import EventLog, read_events
from accams.fitted.files import to_bytes

M, N = 40, 24
TINY = {"n_stencils": 3, "n_clusters": 4, "n_sweeps": 5}
KINDS: dict[str, Any] = {
    "accams": lambda table: ACCAMS(3, 4).fit(table),
    "draws": lambda table: make(**TINY).fit(table),
    "equal noise": lambda table: make(**TINY, row_noise=None).fit(table),
    "effects": lambda table: make(**TINY, effects="continuous").fit(table),
    "label probabilities": lambda table: make(**TINY, rao_blackwell=True).fit(table),
    "compressed": lambda table: make(**TINY).fit(table).compress(2500, verbose=False),
}


def ratings() -> pd.DataFrame:
    """Two kinds of users, who like items of even and of odd numbers, and lenient and strict ones."""
    random = np.random.default_rng(0)
    rows, cols = np.nonzero(random.random((M + 2, N + 2)) < 0.5)
    likes = np.where(rows % 2 == cols % 2, 1.2, -1.2)
    value = np.clip(np.rint(3.0 + likes + 0.5 * (rows % 3 - 1) + 0.3 * random.normal(size=len(rows))), 1, 5)
    users, items = ([f"{what} {x:02}" for x in each] for what, each in (("u", rows), ("i", cols)))
    return pd.DataFrame({"user": users, "item": items, "rating": value})


ALL = ratings()
OLD = ALL[(ALL.user < f"u {M:02}") & (ALL.item < f"i {N:02}")].reset_index(drop=True)
NEWS = ALL[(ALL.user >= f"u {M:02}") | (ALL.item >= f"i {N:02}")].reset_index(drop=True)  # two new users, two items


@pytest.fixture(scope="module", params=KINDS)
def model(request: Any) -> Model:
    return model_of(KINDS[request.param](OLD))


@pytest.fixture(scope="module")
def plain() -> Model:
    return model_of(ACCAMS(3, 4).fit(OLD))


@pytest.fixture(scope="module")
def lists() -> ItemACCAMS:
    return ItemACCAMS(max_bytes=3000, penalty=5.0, random_state=0).fit(OLD)


def same(one: Model, other: Model) -> bool:
    return to_bytes(one) == to_bytes(other)


class TestNewItems:
    @pytest.mark.covering
    @pytest.mark.parametrize("history", ["data", "model"])
    def test_they_are_columns_like_any_other(self, model: Model, history: str, tmp_path: Path) -> None:
        new = model.update(NEWS, history=OLD if history == "data" else "model")
        assert new.items.tolist() == [*model.items.tolist(), "i 24", "i 25"]
        assert new.users.tolist() == [*model.users.tolist(), "u 40", "u 41"]
        assert new.shape == (M + 2, N + 2)
        assert model.shape == (M, N)
        for even, odd in (("u 06", "u 07"), ("u 40", "u 41")):  # old users and new ones
            likes, dislikes = new.predict([(even, "i 24"), (odd, "i 25")]), new.predict([(even, "i 25"), (odd, "i 24")])
            assert (likes > dislikes + 0.7).all()
        assert "i 24" in new.recommend("u 06", 13, exclude_seen=False)["item"].tolist()
        alike = new.similar("i 24", 4)["item"].tolist()
        assert all(int(item[2:]) % 2 == 0 for item in alike)
        assert new.similar("u 40", 4, side="users")["user"].tolist() != []
        assert new.explain("u 06", "i 24").total() == pytest.approx(new.predict([("u 06", "i 24")])[0])
        assert new.fold_in({"i 24": 5.0, "i 02": 5.0}).predict(["i 04"])[0] > 3.0
        new.save(tmp_path / "m.accams", history=True)
        loaded = accams.load(tmp_path / "m.accams")
        cells = [(user, item) for user in ("u 00", "u 07", "u 41") for item in new.items.tolist()]
        np.testing.assert_array_equal(loaded.predict(cells), new.predict(cells))
        assert list(loaded.recommend("u 41", 5)) == list(new.recommend("u 41", 5))
        if new.has_spread:
            std = new.predict(cells, return_std=True)[1]
            np.testing.assert_allclose(loaded.predict(cells, return_std=True)[1], std, rtol=1e-6)

    @pytest.mark.some(3)
    def test_other_users_stay_as_they_are(self, model: Model) -> None:
        some = NEWS[NEWS.user < "u 20"]
        new = model.update(some, history=OLD)
        cells = [(user, item) for user in ("u 20", "u 33") for item in model.items.tolist()]
        np.testing.assert_array_equal(new.predict(cells), model.predict(cells))
        assert new.predict([("u 20", "i 24")]) > new.predict([("u 21", "i 24")])

    def test_few_ratings(self, plain: Model) -> None:
        few = NEWS[NEWS.item == "i 24"].iloc[:2]
        with pytest.warns(UserWarning, match="1 new item was left out for now, with ratings by fewer than 3 users"):
            new = plain.update(few, history=OLD)
        assert new.shape == plain.shape
        with pytest.warns(UserWarning, match="left out"):
            stranger = plain.update(few.assign(user="stranger").iloc[:1], history=OLD)
        assert "stranger" not in stranger.users
        assert stranger.taken.observations == 0
        assert plain.update(few, history=OLD, min_ratings=2).shape == (M, N + 1)
        with pytest.raises(InputError, match="min_ratings"):
            plain.update(few, history=OLD, min_ratings=0)

    def test_users_without_data_stay_so_while_they_have_none(self) -> None:
        table = pd.concat([OLD, pd.DataFrame({"user": ["empty"], "item": ["i 00"], "rating": [3.0]})])
        cells = Observations.from_frame(table)
        model = model_of(ACCAMS(3, 4).fit(cells.select(cells.pairs()[:, 0] != "empty")))
        assert len(model.unseen[0]) == 1
        with pytest.warns(UserWarning, match="left out"):
            new = model.update([("empty", "i 24")], [3.0], history="model")
        assert len(new.unseen[0]) == 1
        assert not len(model.update([("empty", "i 03")], [3.0], history="model").unseen[0])

    def test_ratings_of_the_history_count(self, plain: Model) -> None:
        mine = NEWS[NEWS.item == "i 24"]
        new = plain.update(mine.iloc[:1], history=pd.concat([OLD, mine.iloc[1:3]]))
        assert "i 24" in new.items

    def test_items_without_data_and_with_few_are_placed_anew(self) -> None:
        rare = OLD[(OLD.item != "i 03") | (OLD.user == "u 00")]
        model = model_of(ACCAMS(3, 4).fit(rare))
        more = OLD[OLD.item == "i 03"]
        new = model.update(more, history=rare)
        assert (new.predict([("u 07", "i 03")]) > new.predict([("u 06", "i 03")]) + 0.7).all()
        less = model.update(OLD[OLD.item == "i 05"].iloc[:1], history=rare)
        for before, after in zip(model.stencils.col_labels, less.stencils.col_labels, strict=True):
            np.testing.assert_array_equal(before, after)

    def test_without_a_history_they_are_refused(self, plain: Model) -> None:
        with pytest.raises(InputError, match="there is no item 'i 24' in this model"):
            plain.update(NEWS)


class TestMerging:
    @pytest.mark.some(3)
    def test_a_history_and_what_is_new_are_all_there_is(self, model: Model) -> None:
        own = OLD[OLD.user == "u 03"]
        new = own.iloc[:2].assign(rating=[1.0, 5.0])
        expected = model.update(pd.concat([own.iloc[2:], new]))
        for history in (OLD, Observations.from_frame(OLD)):
            found = model.update(new, history=history)
            cells = [("u 03", item) for item in model.items.tolist()]
            np.testing.assert_allclose(found.predict(cells), expected.predict(cells))
            assert found.recommend("u 03", 30)["item"].tolist() == expected.recommend("u 03", 30)["item"].tolist()

    def test_the_latest_value_counts(self, plain: Model) -> None:
        pair = OLD.iloc[:1]
        low, high = (pair.assign(rating=x, timestamp=t) for x, t in ((1.0, 20), (5.0, 10)))
        by_time = plain.update(pd.concat([low, high]), history=OLD)
        by_place = plain.update(pd.concat([low, high])[["user", "item", "rating"]], history=OLD)
        assert _labels(by_time) == _labels(plain.update(low, history=OLD))
        assert _labels(by_place) == _labels(plain.update(high, history=OLD))
        pairs = [tuple(pair[["user", "item"]].iloc[0])] * 2
        assert _labels(plain.update(pairs, [1.0, 5.0], history=OLD)) == _labels(by_place)

    def test_events_of_a_log(self, plain: Model, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "feedback.log")
        log.append(NEWS.user.tolist(), NEWS.item.tolist(), NEWS.rating.tolist())
        found = plain.update(read_events(log.path), history=OLD)
        assert _labels(found) == _labels(plain.update(NEWS, history=OLD))

    def test_what_the_history_lacks_the_model_may_know(self, plain: Model) -> None:
        """Interactions that are not in the history stand in, so that nothing is lost."""
        first = plain.update(NEWS, history=OLD)
        second = first.update(OLD[OLD.user == "u 06"].iloc[:1], history=OLD)
        seen = set(NEWS[NEWS.user == "u 06"].item) | set(OLD[OLD.user == "u 06"].item)
        assert seen.isdisjoint(second.recommend("u 06", 26)["item"].tolist())

    @pytest.mark.parametrize("history", ["data", "model"])
    @pytest.mark.some(4)
    def test_the_same_again_changes_nothing(self, model: Model, history: str, tmp_path: Path) -> None:
        earlier = OLD if history == "data" else "model"
        once = model.update(NEWS, history=earlier)
        assert once.taken is not None
        assert once.taken.observations == len(NEWS)
        once.save(tmp_path / "m.accams", history=True)
        loaded = accams.load(tmp_path / "m.accams")
        assert loaded.taken == once.taken
        assert same(loaded.update(NEWS, history=earlier), loaded)
        more = loaded.update(pd.concat([NEWS, OLD.iloc[:1]]), history=earlier)
        assert more.taken is not None
        assert more.taken.observations == len(NEWS)  # nothing that was not known
        assert more.taken.digest != once.taken.digest

    @pytest.mark.parametrize(
        ("history", "message"),
        [("models", "history must be the earlier observations, or 'model'"), (3, "Expected 2D array")],
    )
    def test_bad_histories(self, plain: Model, history: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            plain.update(NEWS, history=history)

    def test_bad_news(self, plain: Model) -> None:
        with pytest.raises(InputError, match="the value 99 lies outside"):
            plain.update(NEWS.assign(rating=99.0), history=OLD)
        with pytest.raises(InputError, match="update needs values"):
            plain.update(NEWS[["user", "item"]], history=OLD)


class TestStandIns:
    @pytest.mark.some(3)
    def test_a_rating_as_predicted_changes_little(self, model: Model) -> None:
        cells = [(user, item) for user in model.users.tolist() for item in model.items.tolist()]
        before = model.predict(cells)
        pairs = OLD.drop_duplicates("user")[["user", "item"]]
        told = pairs.assign(rating=np.clip(model.predict(pairs), *model.value_range))
        after = model
        for seed in range(3):
            after = after.update(told, history="model", random_state=seed)
        away = np.sqrt(np.mean((after.predict(cells) - before) ** 2))
        assert away < 0.4 * before.std()
        assert after.predict(cells).std() > 0.85 * before.std()  # not drawn to the average again and again

    @pytest.mark.some(2)
    def test_new_ratings_have_an_effect(self, model: Model) -> None:
        mine = [("u 06", f"i {j:02}") for j in range(1, N, 2)]
        after = model.update(mine, [5.0] * len(mine), history="model")
        assert after.predict(mine).mean() > model.predict(mine).mean() + 0.3

    def test_without_interactions(self, tmp_path: Path) -> None:
        plain = model_of(ACCAMS(3, 4).fit(OLD))
        plain.save(tmp_path / "m.accams", history=False)
        bare = accams.load(tmp_path / "m.accams")
        assert bare.interactions is None
        new = bare.update([("u 06", "i 01")], [4.0], history="model")
        cells = [("u 06", item) for item in plain.items.tolist()]
        assert np.abs(new.predict(cells) - plain.predict(cells)).mean() < 0.5
        assert new.interactions is None


class TestLists:
    def test_histories_are_merged(self, lists: ItemACCAMS) -> None:
        new = [("u 06", "i 01"), ("u 40", "i 02")]
        assert {"i 01", "i 02"} <= set(lists.model_.items)
        before = set(OLD[OLD.user == "u 06"].item)
        for history in (OLD, "model"):
            found = lists.model_.update(new, [5.0, 5.0], history=history)
            own = found.interactions.take(found.row_index.positions(["u 06", "u 40"]))
            assert set(found.items[own.columns[: own.starts[1]]]) == before | {"i 01"}
            assert found.items[own.columns[own.starts[1] :]].tolist() == ["i 02"]
            assert same(found.update(new, [5.0, 5.0], history=history), found)
            item, rating = OLD[OLD.user == "u 06"].iloc[1][["item", "rating"]]
            feedback = found.item_map.feedback
            column = found.col_index.positions([item])[0]
            weight = own.weights[: own.starts[1]][own.columns[: own.starts[1]] == column]
            assert weight[0] == pytest.approx(feedback.weights(np.array([rating]))[0])


def test_zeros_that_are_observed() -> None:
    cells = Observations.from_frame(OLD[["user", "item"]].assign(rating=1.0), zeros="observed")
    model = model_of(ACCAMS(3, 4).fit(cells))
    new = model.update(NEWS.assign(rating=1.0), history=OLD.assign(rating=1.0))
    assert new.shape == (M + 2, N + 2)


def test_positions_as_ids() -> None:
    matrix = OLD.pivot_table(index="user", columns="item", values="rating").to_numpy()
    model = model_of(ACCAMS(3, 4).fit(matrix))
    more = [(user, N) for user in range(6)]
    new = model.update(more, [5.0, 1.0] * 3, history=matrix)
    assert new.col_index.is_positional
    assert new.shape == (M, N + 1)
    assert new.predict([(8, N)]) > new.predict([(9, N)])


def _labels(model: Model) -> list[list[int]]:
    return [x.tolist() for s in model.stencils.stencils for x in (s.row_labels, s.col_labels)]
