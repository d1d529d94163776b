"""What every model can be asked for: subclass `UseTests` and say how to fit one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from shared_reading import ReadingTests

import accams
from accams import InputError
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
    """Tests of one kind of model, fitted and loaded; a subclass overrides `fit`."""

    def fit(self) -> StencilEstimator:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> Any:
        return cls().fit()

    @pytest.fixture(params=["fitted", "loaded"])
    def model(self, request: Any, fitted: Any, tmp_path_factory: Any) -> Any:
        if request.param == "fitted":
            return fitted
        path = tmp_path_factory.mktemp("models") / "m.accams"
        fitted.save(path, seen=True)
        return accams.load(path)

    def everything(self, model: Any, user: str) -> pd.Series:
        """The predictions of all items for a user."""
        items = model.col_index_.ids.tolist()
        return pd.Series(model.predict([(user, item) for item in items]), items)

    # -- recommend -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("user", ["user 00", "user 31"])
    def test_recommended_are_the_best_of_what_is_new(self, model: Any, user: str) -> None:
        found = model.recommend(user, 5)
        new = self.everything(model, user).drop(list(SEEN[user]))
        assert found.rows.tolist() == [user] * 5
        assert found.ranks.tolist() == [1, 2, 3, 4, 5]
        np.testing.assert_allclose(found.scores, new.sort_values(ascending=False)[:5], rtol=1e-6)
        np.testing.assert_array_equal(found.scores, model.predict([(user, item) for item in found.cols]))
        assert not set(found.cols) & SEEN[user]
        assert set(found.rules) == {""}

    def test_with_what_was_seen(self, model: Any) -> None:
        found = model.recommend("user 03", 4, exclude_seen=False)
        best = self.everything(model, "user 03").sort_values(ascending=False)[:4]
        np.testing.assert_allclose(found.scores, best, rtol=1e-6)

    def test_what_was_seen_can_be_said(self, model: Any) -> None:
        free = model.recommend("user 03", 3, exclude_seen=False)
        pairs = [("user 03", item) for item in free.cols] + [("user 04", "item 00"), ("nobody", "nothing")]
        found = model.recommend("user 03", 3, seen=pairs)
        best = self.everything(model, "user 03").drop(free.cols.tolist()).sort_values(ascending=False)[:3]
        np.testing.assert_allclose(found.scores, best, rtol=1e-6)

    def test_several_users_in_their_order(self, model: Any) -> None:
        users = ["user 09", "user 02", "user 09"]
        found = model.recommend(users, 3)
        assert found.rows.tolist() == [user for user in users for _ in range(3)]
        alone = [model.recommend(user, 3) for user in users]
        assert found.cols.tolist() == [item for each in alone for item in each.cols]

    def test_candidates(self, model: Any) -> None:
        among = ["item 11", "item 02", "item 30"]
        found = model.recommend("user 03", 10, exclude_seen=False, candidates=among)
        best = self.everything(model, "user 03")[among].sort_values(ascending=False)
        np.testing.assert_allclose(found.scores, best, rtol=1e-6)
        assert sorted(found.cols) == sorted(among)

    def test_more_than_there_are(self, model: Any) -> None:
        with pytest.warns(UserWarning, match="n=1,000 is more than the 39 columns of this model: there are no more"):
            found = model.recommend(["user 03", "user 04"], 1000)
        left = [len(model.col_index_) - len(SEEN[user]) for user in ("user 03", "user 04")]
        assert pd.Series(found.rows).value_counts()[["user 03", "user 04"]].tolist() == left

    @pytest.mark.parametrize("library", [pd, pl])
    def test_tables_in_and_out(self, model: Any, library: Any) -> None:
        asked = library.DataFrame({"user": ["user 05", "user 01"], "age": [30, 40]})
        found = model.recommend(asked, 2)
        assert type(found) is type(asked)
        assert list(found.columns) == ["user", "item", "rank", "score", "rule"]
        expected = model.recommend(["user 05", "user 01"], 2)
        assert found["item"].to_list() == expected.cols.tolist()
        np.testing.assert_array_equal(found["score"].to_numpy(), expected.scores)

    def test_users_without_data_fall_back_to_the_average_one(self, model: Any) -> None:
        found = model.recommend(["nobody", "user 02"], 3, unknown="average")
        assert found.rules.tolist() == ["average row"] * 3 + [""] * 3
        best = self.everything(model, "nobody").sort_values(ascending=False)[:3]
        np.testing.assert_allclose(found.scores[:3], best, rtol=1e-6)

    def test_lines(self, model: Any) -> None:
        first = next(iter(model.recommend("user 03", 2)))
        assert (first.row, first.rank, first.rule, first.std) == ("user 03", 1, "", None)
        assert "'user 03':   1." in repr(model.recommend("user 03", 2))

    def test_nobody_is_asked_for(self, model: Any) -> None:
        assert len(model.recommend([], 3)) == 0
        assert repr(model.recommend([])) == "no recommendations"

    def test_deviations_and_cautious_order(self, model: Any) -> None:
        if not self.has_draws:
            for how in ({"return_std": True}, {"quantile": 0.1}):
                with pytest.raises(InputError, match="needs a model with draws"):
                    model.recommend("user 03", **how)
            return
        items = model.col_index_.ids.tolist()
        mean, std = model.posterior_.predict(*self.cells(model, "user 03", items), return_std=True)
        lower = pd.Series(mean - 1.2815515655446004 * std, items)
        found = model.recommend("user 03", 5, exclude_seen=False, return_std=True, quantile=0.1)
        assert found.cols.tolist() == lower.sort_values(ascending=False).index[:5].tolist()
        np.testing.assert_allclose(found.std, pd.Series(std, items)[found.cols.tolist()])

    def cells(self, model: Any, user: str, items: list[str]) -> Any:
        return model.row_index_.positions([user] * len(items)), model.col_index_.positions(items)

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
        assert guest.columns.tolist() == ["item 01", "item 02"]
        one = model.fold_in({"item 01": 5.0, "item 02": 1.0})
        np.testing.assert_array_equal(guest.predict(ITEMS), one.predict(ITEMS))

    def test_a_guest_is_recommended_what_it_is_predicted_to_like(self, model: Any) -> None:
        guest = model.fold_in({"item 01": 5.0, "item 02": 1.0, "item 20": 4.0})
        found = guest.recommend(4)
        known = pd.Series(guest.predict(model.col_index_.ids), model.col_index_.ids)
        best = known.drop(["item 01", "item 02", "item 20"]).sort_values(ascending=False)[:4]
        np.testing.assert_allclose(found.scores, best, rtol=1e-6)
        assert set(found.rows) == {"guest"}
        same = model.recommend(guest, 4)
        assert same.cols.tolist() == found.cols.tolist()
        both = model.recommend(guest, 2, exclude_seen=False, candidates=["item 01", "item 09"])
        assert sorted(both.cols) == ["item 01", "item 09"]

    def test_a_new_item(self, model: Any) -> None:
        item = model.fold_in({"user 00": 5.0, "user 01": 1.0}, side="cols")
        known = pd.Series(item.predict(model.row_index_.ids), model.row_index_.ids).drop(["user 00", "user 01"])
        np.testing.assert_allclose(item.recommend(3).scores, known.sort_values(ascending=False)[:3], rtol=1e-6)
        why = item.explain("user 04")
        assert why.total() == why.prediction == item.predict(["user 04"])[0]

    def test_deviations_of_a_guest(self, model: Any) -> None:
        guest = model.fold_in({"item 01": 5.0})
        if not self.has_draws:
            with pytest.raises(InputError, match="needs a model with draws"):
                guest.predict(["item 03"], return_std=True)
            return
        _, std = guest.predict(["item 03"], return_std=True)
        found = guest.recommend(3, return_std=True, quantile=0.2)
        assert (found.std > 0).all()
        assert (std > 0).all()

    # -- update --------------------------------------------------------------------------------------------

    def test_rows_are_taken_in(self, model: Any) -> None:
        changed, other = TABLE[TABLE.user == "user 03"], TABLE[TABLE.user == "user 04"]
        more = pd.concat([changed.assign(user="user 04"), other.assign(user="somebody new")])
        new = model.update(more)
        assert type(new) is type(model)
        assert new.row_index_.ids.tolist() == [*model.row_index_.ids.tolist(), "somebody new"]
        assert set(new.recommend("user 04", 99).cols) == set(model.recommend("user 03", 99).cols)
        stay = [(user, item) for user in ("user 00", "user 03", "user 50") for item in ITEMS]
        np.testing.assert_array_equal(new.predict(stay), model.predict(stay))
        for user, own in (("user 04", changed), ("somebody new", other)):
            guest = model.fold_in(own.item, own.rating, n_draws=1000)
            if not self.has_draws:
                labels = [each[new.row_index_.positions([user])[0]] for each in new.stencils_.row_labels]
                assert labels == guest.labels.tolist()
                continue
            expected, found = guest.predict(ITEMS), new.predict([(user, item) for item in ITEMS])
            assert np.sqrt(np.mean((found - expected) ** 2)) < 0.5 * expected.std()
        assert new.explain("somebody new", "item 03").total() == new.predict([("somebody new", "item 03")])[0]
        again = new.update(TABLE)
        assert len(again.row_index_) == len(new.row_index_)

    def test_an_updated_model_is_saved_like_any_other(self, model: Any, tmp_path: Any) -> None:
        new = model.update(TABLE[TABLE.user == "user 03"].assign(user="somebody new"))
        new.save(tmp_path / "new.accams", seen=True)
        loaded = accams.load(tmp_path / "new.accams")
        cells = [(user, item) for user in ("somebody new", "user 11") for item in ITEMS]
        np.testing.assert_array_equal(loaded.predict(cells), new.predict(cells))
        assert loaded.recommend("somebody new").cols.tolist() == new.recommend("somebody new").cols.tolist()

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (TABLE.assign(item="item 99"), "no column 'item 99'"),
            (TABLE.assign(rating=99.0), "a value 99, but"),
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
            (lambda m: m.recommend("user 99"), "no row 'user 99' in this model; the nearest ids are 'user 59'"),
            (lambda m: m.recommend("user 00", 0), "n must be"),
            (lambda m: m.recommend("user 00", candidates=["item 00", "item 77"]), "no column 'item 77'"),
            (lambda m: m.recommend("user 00", unknown="guess"), "unknown must be"),
            (lambda m: m.recommend(pd.DataFrame({"a": ["user 00"], "b": [1]})), "has no column 'user'"),
            (lambda m: m.fold_in({}), "history is empty"),
            (lambda m: m.fold_in({"item 01": 9.0}), "a value 9, but the model's values lie between 1 and 5"),
            (lambda m: m.fold_in({"item 01": np.nan}), "missing"),
            (lambda m: m.fold_in({"item 99": 3.0}), "no column 'item 99'"),
            (lambda m: m.fold_in([("item 01", 3.0), ("item 01", 4.0)]), "comes twice"),
            (lambda m: m.fold_in(["item 01", "item 02"]), "the history must be"),
            (lambda m: m.fold_in(TABLE), "apart"),
            (lambda m: m.fold_in({"item 01": 3.0}, side="left"), "side must be"),
            (lambda m: m.similar("item 99"), "no column 'item 99'"),
            (lambda m: m.similar("item 01", by="looks"), "by must be"),
            (lambda m: m.similar("user 99", side="rows"), "no row 'user 99'"),
            (lambda m: m.explain("user 00", "item 99"), "no column 'item 99'"),
            (lambda m: m.hierarchy(0), "depth must be"),
            (lambda m: m.hierarchy(branches=0), "branches must be"),
            (lambda m: m.hierarchy(stencils=[999]), "stencils must be numbers between 0 and"),
            (lambda m: m.hierarchy(candidates=["item 99"]), "no column 'item 99'"),
            (lambda m: m.explain("item 00", "user 00"), "no row 'item 00'"),
        ],
    )
    def test_bad_input(self, model: Any, call: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            call(model)

    # -- where it is kept ----------------------------------------------------------------------------------

    def test_a_small_file_does_not_know_what_was_seen(self, fitted: Any, tmp_path: Any) -> None:
        fitted.save(tmp_path / "m.accams", seen=False)
        small = accams.load(tmp_path / "m.accams")
        with pytest.raises(InputError, match="does not know what its rows have observed: pass seen="):
            small.recommend("user 00")
        assert len(small.recommend("user 00", exclude_seen=False)) == 10
        with pytest.raises(InputError, match="save it with seen=False"):
            small.save(tmp_path / "again.accams", seen=True)
        with pytest.raises(InputError, match="seen must be"):
            fitted.save(tmp_path / "m.accams", seen="yes")

    def test_what_was_seen_is_read_back(self, model: Any) -> None:
        for user, items in SEEN.items():
            starts, columns = model.seen_.of(model.row_index_.positions([user]))
            assert starts.tolist() == [0, len(items)]
            assert set(model.col_index_.ids[columns]) == items

    def test_a_model_in_use_can_be_pickled(self, model: Any) -> None:
        model.similar("item 03", 1), model.recommend("user 03", 1)
        again = pickle.loads(pickle.dumps(model))
        assert again.recommend("user 03", 3).cols.tolist() == model.recommend("user 03", 3).cols.tolist()

    def test_a_model_that_is_fitted_again_forgets(self) -> None:
        model = self.fit()
        if not hasattr(model, "fit"):
            return
        model.recommend("user 03", 1), model.similar("item 03", 1)
        model.fit(np.arange(12.0).reshape(4, 3))
        assert model.recommend(2, 3, exclude_seen=False).rows.tolist() == [2, 2, 2]
        assert len(model.similar(1)) == 2
