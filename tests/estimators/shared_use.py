"""What every model can be asked for: subclass `UseTests` and say how to fit one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from shared_inputs import model_of
from shared_reading import ReadingTests

import accams
from accams import InputError, Model
from accams.data.planted import planted_stencils
from accams.estimators.base import StencilEstimator

M, N = 60, 40
PLANTED = planted_stencils((M, N), 3, 4, nnz=900, noise=0.3, random_state=0)
USERS, ITEMS = ([f"{name} {p:02}" for p in range(size)] for name, size in (("user", M), ("item", N)))


def table() -> pd.DataFrame:
    """Planted values between 1 and 5, with one user and one item less."""
    i, j, y = PLANTED.observations.coo()
    keep = (i != 7) & (j != 5)
    y = np.clip(3.0 + y / y.std(), 1.0, 5.0)
    return pd.DataFrame(
        {"user": np.array(USERS, object)[i[keep]], "item": np.array(ITEMS, object)[j[keep]], "rating": y[keep]}
    )


TABLE = table()
SEEN = TABLE.groupby("user").item.agg(set).to_dict()


class UseTests(ReadingTests):
    """Tests of one kind of model, fitted and loaded; a subclass overrides `fit`, and may leave one form to `full`."""

    quick = ("fitted", "loaded")

    def fit(self) -> StencilEstimator:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> Any:
        return cls().fit()

    @pytest.fixture(scope="class", params=["fitted", "loaded"])
    @classmethod
    def model(cls, request: Any, fitted: Any, tmp_path_factory: Any) -> Any:
        """A model that is only read, so that what it derives (as to explain) is derived once."""
        if request.param == "fitted":
            return fitted
        path = tmp_path_factory.mktemp("models") / "m.accams"
        fitted.save(path, history=True)
        return accams.load(path)

    def everything(self, model: Any, user: str) -> pd.Series:
        """The predictions of all items for a user."""
        items = model_of(model).items.tolist()
        return pd.Series(model.predict([(user, item) for item in items]), items)

    # -- recommend -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("user", ["user 00", "user 31"])
    def test_recommended_are_the_best_of_what_is_new(self, model: Any, user: str) -> None:
        found = model.recommend(user, 5)
        new = self.everything(model, user).drop(list(SEEN[user]))
        assert found["user"].tolist() == [user] * 5
        assert found["rank"].tolist() == [1, 2, 3, 4, 5]
        np.testing.assert_allclose(found["score"], new.sort_values(ascending=False)[:5], rtol=1e-6)
        np.testing.assert_array_equal(found["score"], model.predict([(user, item) for item in found["item"]]))
        assert not set(found["item"]) & SEEN[user]
        assert set(found["rule"]) == {""}

    def test_with_what_was_seen(self, model: Any) -> None:
        found = model.recommend("user 03", 4, exclude_seen=False)
        best = self.everything(model, "user 03").sort_values(ascending=False)[:4]
        np.testing.assert_allclose(found["score"], best, rtol=1e-6)

    def test_what_was_seen_can_be_said(self, model: Any) -> None:
        free = model.recommend("user 03", 3, exclude_seen=False)
        pairs = [("user 03", item) for item in free["item"]] + [("user 04", "item 00"), ("nobody", "nothing")]
        found = model.recommend("user 03", 3, seen=pairs)
        best = self.everything(model, "user 03").drop(free["item"].tolist()).sort_values(ascending=False)[:3]
        np.testing.assert_allclose(found["score"], best, rtol=1e-6)

    def test_several_users_in_their_order(self, model: Any) -> None:
        users = ["user 09", "user 02", "user 09"]
        found = model.recommend(users, 3)
        assert found["user"].tolist() == [user for user in users for _ in range(3)]
        alone = [model.recommend(user, 3) for user in users]
        assert found["item"].tolist() == [item for each in alone for item in each["item"]]

    def test_candidates(self, model: Any) -> None:
        among = ["item 11", "item 02", "item 30"]
        found = model.recommend("user 03", 10, exclude_seen=False, candidates=among)
        best = self.everything(model, "user 03")[among].sort_values(ascending=False)
        np.testing.assert_allclose(found["score"], best, rtol=1e-6)
        assert sorted(found["item"]) == sorted(among)

    def test_more_than_there_are(self, model: Any) -> None:
        with pytest.warns(UserWarning, match="n=1,000 is more than the 39 items of this model: there are no more"):
            found = model.recommend(["user 03", "user 04"], 1000)
        left = [len(model_of(model).col_index) - len(SEEN[user]) for user in ("user 03", "user 04")]
        assert pd.Series(found["user"]).value_counts()[["user 03", "user 04"]].tolist() == left

    @pytest.mark.parametrize("library", [pd, pl])
    def test_tables_in_and_out(self, model: Any, library: Any) -> None:
        asked = library.DataFrame({"user": ["user 05", "user 01"], "age": [30, 40]})
        found = model.recommend(asked, 2)
        table = found.to_pandas() if library is pd else found.to_polars()
        assert type(table) is type(asked)
        assert list(table.columns) == ["user", "item", "rank", "score", "rule"]
        expected = model.recommend(["user 05", "user 01"], 2)
        assert list(found) == list(expected)
        assert table["item"].to_list() == expected["item"].tolist()
        np.testing.assert_array_equal(table["score"].to_numpy(), expected["score"])

    def test_users_without_data_fall_back_to_the_average_one(self, model: Any) -> None:
        found = model.recommend(["nobody", "user 02"], 3, unknown="average")
        assert found["rule"].tolist() == ["average row"] * 3 + [""] * 3
        best = self.everything(model, "nobody").sort_values(ascending=False)[:3]
        np.testing.assert_allclose(found["score"][:3], best, rtol=1e-6)

    def test_lines(self, model: Any) -> None:
        first = next(iter(model.recommend("user 03", 2)))
        assert (first.user, first.rank, first.rule, first.std) == ("user 03", 1, "", None)
        lines = repr(model.recommend("user 03", 2)).splitlines()
        assert lines[0].split() == ["user", "item", "rank", "score"]
        assert lines[1].startswith(f"user 03  {first.item}  1     {first.score:.4g}")

    def test_nobody_is_asked_for(self, model: Any) -> None:
        assert len(model.recommend([], 3)) == 0
        assert repr(model.recommend([])) == "no results"

    def test_deviations_and_cautious_order(self, model: Any) -> None:
        if not self.has_spread:
            for how in ({"return_std": True}, {"quantile": 0.1}):
                with pytest.raises(InputError, match="needs a model that knows its predictive spread"):
                    model.recommend("user 03", **how)
            return
        items = model_of(model).items.tolist()
        mean, variance = model_of(model).moments(*self.cells(model, "user 03", items))
        std = np.sqrt(variance)
        if self.has_draws:
            expected = model_of(model).posterior.predict(*self.cells(model, "user 03", items), return_std=True)
            np.testing.assert_allclose([mean, std], expected)
        lower = pd.Series(mean - 1.2815515655446004 * std, items)
        found = model.recommend("user 03", 5, exclude_seen=False, return_std=True, quantile=0.1)
        assert found["item"].tolist() == lower.sort_values(ascending=False, kind="stable").index[:5].tolist()
        np.testing.assert_allclose(found["std"], pd.Series(std, items)[found["item"].tolist()])

    def cells(self, model: Any, user: str, items: list[str]) -> Any:
        return model_of(model).row_index.positions([user] * len(items)), model_of(model).col_index.positions(items)

    # -- fold in -------------------------------------------------------------------------------------------

    def test_a_guest_with_a_users_values_is_predicted_much_like_that_user(self, model: Any) -> None:
        away, users = [], TABLE.user.unique()[:20]
        for user in users:
            own = TABLE[TABLE.user == user]
            guest = model.fold_in(dict(zip(own.item, own.rating, strict=True)))
            all_items = self.everything(model, user)
            away.append(np.mean((guest.predict(all_items.index.tolist()) - all_items) ** 2))
        spread = np.mean([self.everything(model, user).var() for user in users])
        assert np.mean(away) < 0.5 * spread

    @pytest.mark.parametrize(
        "history",
        [
            {"item 01": 5.0, "item 02": 1.0},
            [("item 01", 5.0), ("item 02", 1.0)],
            (["item 01", "item 02"], [5.0, 1.0]),
            (pd.Series(["item 01", "item 02"]), pd.Series([5.0, 1.0])),
        ],
    )
    def test_forms_of_a_history(self, model: Any, history: Any) -> None:
        guest = model.fold_in(*history) if isinstance(history, tuple) else model.fold_in(history)
        assert guest.items.tolist() == ["item 01", "item 02"]
        one = model.fold_in({"item 01": 5.0, "item 02": 1.0})
        np.testing.assert_array_equal(guest.predict(ITEMS), one.predict(ITEMS))

    def test_a_guest_is_recommended_what_it_is_predicted_to_like(self, model: Any) -> None:
        guest = model.fold_in({"item 01": 5.0, "item 02": 1.0, "item 20": 4.0})
        found = guest.recommend(4)
        known = pd.Series(guest.predict(model_of(model).items), model_of(model).items)
        best = known.drop(["item 01", "item 02", "item 20"]).sort_values(ascending=False)[:4]
        np.testing.assert_allclose(found["score"], best, rtol=1e-6)
        assert set(found["user"]) == {"guest"}
        same = model.recommend(guest, 4)
        assert same["item"].tolist() == found["item"].tolist()
        both = model.recommend(guest, 2, exclude_seen=False, candidates=["item 01", "item 09"])
        assert sorted(both["item"]) == ["item 01", "item 09"]

    def test_a_new_item(self, model: Any) -> None:
        item = model.fold_in({"user 00": 5.0, "user 01": 1.0}, new="item")
        known = pd.Series(item.predict(model_of(model).users), model_of(model).users).drop(["user 00", "user 01"])
        np.testing.assert_allclose(item.recommend(3)["score"], known.sort_values(ascending=False)[:3], rtol=1e-6)
        why = item.explain("user 04")
        assert why.total() == why.prediction == item.predict(["user 04"])[0]

    def test_deviations_of_a_guest(self, model: Any) -> None:
        guest = model.fold_in({"item 01": 5.0})
        if not self.has_spread:
            with pytest.raises(InputError, match="needs a model that knows its predictive spread"):
                guest.predict(["item 03"], return_std=True)
            return
        _, std = guest.predict(["item 03"], return_std=True)
        found = guest.recommend(3, return_std=True, quantile=0.2)
        assert (found["std"] > 0).all()
        assert (std > 0).all()
        new = [item for item in model_of(model).items.tolist() if item != "item 01"]
        mean, std = guest.predict(new, return_std=True)
        if model_of(model).clip is None or (mean.max() < 5.0 and mean.min() > 1.0):
            lower = pd.Series(mean - 0.8416212335729143 * std, new)
            best = lower.sort_values(ascending=False)[:3]
            np.testing.assert_allclose(lower[found["item"].tolist()], best, rtol=1e-6)  # some are equal

    # -- update --------------------------------------------------------------------------------------------

    @pytest.mark.some(1)
    def test_rows_are_taken_in(self, model: Any) -> None:
        changed, other = TABLE[TABLE.user == "user 03"], TABLE[TABLE.user == "user 04"]
        more = pd.concat([changed.assign(user="user 04"), other.assign(user="somebody new")])
        new = model.update(more)
        assert type(new) is Model
        assert new.users.tolist() == [*model_of(model).users.tolist(), "somebody new"]
        assert set(new.recommend("user 04", 99)["item"]) == set(model.recommend("user 03", 99)["item"])
        stay = [(user, item) for user in ("user 00", "user 03", "user 50") for item in ITEMS]
        np.testing.assert_array_equal(new.predict(stay), model.predict(stay))
        for user, own in (("user 04", changed), ("somebody new", other)):
            guest = model.fold_in(own.item, own.rating, n_draws=1000)
            if not self.has_draws:
                labels = [each[new.row_index.positions([user])[0]] for each in new.stencils.row_labels]
                assert labels == guest.labels.tolist()
                continue
            expected, found = guest.predict(ITEMS), new.predict([(user, item) for item in ITEMS])
            assert np.sqrt(np.mean((found - expected) ** 2)) < 0.5 * expected.std()
        assert new.explain("somebody new", "item 03").total() == new.predict([("somebody new", "item 03")])[0]
        again = new.update(TABLE)
        assert len(again.row_index) == len(new.row_index)

    def test_an_updated_model_is_saved_like_any_other(self, model: Any, tmp_path: Any) -> None:
        new = model.update(TABLE[TABLE.user == "user 03"].assign(user="somebody new"))
        new.save(tmp_path / "new.accams", history=True)
        loaded = accams.load(tmp_path / "new.accams")
        cells = [(user, item) for user in ("somebody new", "user 11") for item in ITEMS]
        np.testing.assert_array_equal(loaded.predict(cells), new.predict(cells))
        assert loaded.recommend("somebody new")["item"].tolist() == new.recommend("somebody new")["item"].tolist()

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (TABLE.assign(item="item 99"), "no item 'item 99'"),
            (TABLE.assign(rating=99.0), "the value 99 lies outside the range of the training values"),
            (np.ones((3, N)), "update needs the ids"),
        ],
    )
    def test_bad_updates(self, model: Any, table: Any, message: str) -> None:
        if isinstance(table, pd.DataFrame):
            table = table.drop_duplicates(["user", "item"])
        with pytest.raises(InputError, match=message):
            model.update(table)

    # -- bad input -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda m: m.recommend("user 99"), "no user 'user 99' in this model; the nearest ids are 'user 59'"),
            (lambda m: m.recommend("user 00", 0), "n must be"),
            (lambda m: m.recommend("user 00", candidates=["item 00", "item 77"]), "no item 'item 77'"),
            (lambda m: m.recommend("user 00", unknown="guess"), "unknown must be"),
            (lambda m: m.recommend(pd.DataFrame({"a": ["user 00"], "b": [1]})), "has no column 'user'"),
            (lambda m: m.fold_in({}), "history is empty"),
            (
                lambda m: m.fold_in({"item 01": 9.0}),
                r"the value 9 lies outside the range of the training values \(1 to 5\)",
            ),
            (lambda m: m.fold_in({"item 01": np.nan}), "missing"),
            (lambda m: m.fold_in({"item 99": 3.0}), "no item 'item 99'"),
            (lambda m: m.fold_in([("item 01", 3.0), ("item 01", 4.0)]), "comes twice"),
            (lambda m: m.fold_in(["item 01", "item 02"]), "the history must be"),
            (lambda m: m.fold_in(TABLE), "apart"),
            (lambda m: m.fold_in({"item 01": 3.0}, new="row"), "new must be 'user' or 'item', not 'row'"),
            (lambda m: m.similar("item 99"), "no item 'item 99'"),
            (lambda m: m.similar("item 01", by="looks"), "by must be"),
            (lambda m: m.similar("user 99", side="users"), "no user 'user 99'"),
            (lambda m: m.explain("user 00", "item 99"), "no item 'item 99'"),
            (lambda m: m.hierarchy(0), "depth must be"),
            (lambda m: m.hierarchy(branches=0), "branches must be"),
            (lambda m: m.hierarchy(stencils=[999]), "stencils must be numbers between 0 and"),
            (lambda m: m.hierarchy(candidates=["item 99"]), "no item 'item 99'"),
            (lambda m: m.explain("item 00", "user 00"), "no user 'item 00'"),
        ],
    )
    def test_bad_input(self, model: Any, call: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            call(model)

    # -- where it is kept ----------------------------------------------------------------------------------

    def test_a_small_file_does_not_know_what_was_seen(self, fitted: Any, tmp_path: Any) -> None:
        fitted.save(tmp_path / "m.accams", history=False)
        small = accams.load(tmp_path / "m.accams")
        with pytest.raises(InputError, match="does not know what its users have seen: pass seen"):
            small.recommend("user 00")
        assert len(small.recommend("user 00", exclude_seen=False)) == 10
        with pytest.raises(InputError, match="save it with history=False"):
            small.save(tmp_path / "again.accams", history=True)
        with pytest.raises(InputError, match="history must be True, False, 'auto' or a path, not 3"):
            fitted.save(tmp_path / "m.accams", history=3)

    def test_what_was_seen_is_read_back(self, model: Any) -> None:
        for user, items in SEEN.items():
            starts, columns = model_of(model).interactions.of(model_of(model).row_index.positions([user]))
            assert starts.tolist() == [0, len(items)]
            assert set(model_of(model).items[columns]) == items

    def test_a_model_in_use_can_be_pickled(self, model: Any) -> None:
        model.similar("item 03", 1), model.recommend("user 03", 1)
        again = pickle.loads(pickle.dumps(model))
        assert again.recommend("user 03", 3)["item"].tolist() == model.recommend("user 03", 3)["item"].tolist()

    def test_a_model_that_is_fitted_again_forgets(self) -> None:
        model = self.fit()
        if not hasattr(model, "fit"):
            return
        model.recommend("user 03", 1), model.similar("item 03", 1)
        model.fit(np.arange(12.0).reshape(4, 3))
        assert model.recommend(2, 3, exclude_seen=False)["user"].tolist() == [2, 2, 2]
        assert len(model.similar(1)) == 2
