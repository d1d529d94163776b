"""Those who are new, by features and a few ratings: intervals hold, ratings do not make it worse, weights count."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accams
from accams import BayesianACCAMS, ItemACCAMS, Model
from accams.explore import Explorer
from accams.serve.answers import Answers
from accams.serve.schemas import RecommendAsk

pytestmark = pytest.mark.usefixtures("short_explanations")
M, N, NEW = 300, 60, 100
SETTINGS: dict[str, Any] = {
    "n_stencils": 4, "n_clusters": 3, "n_chains": 4, "n_sweeps": 40, "random_state": 0, "n_threads": 1, "verbose": False
}  # fmt: skip


class World:
    """People of two tastes, of which features tell with a probability; the last ones are new."""

    def __init__(self, told: float, weights: bool = False) -> None:
        random = np.random.default_rng(7)
        self.taste = random.integers(0, 2, M)
        self.genre = random.integers(0, 3, N)
        mean = 3.0 + np.array([[1.0, -1.0, 0.2], [-1.0, 0.6, 0.2]])[self.taste][:, self.genre]
        v = random.choice([0.25, 4.0], (M, N)) if weights else np.ones((M, N))
        self.weights = v
        self.values = mean + random.normal(0.0, 0.3, (M, 1)) + random.normal(0.0, 0.5, (M, N)) / np.sqrt(v)
        right = random.random(M) < told
        age = np.where(right == (self.taste == 1), 60, 20) + random.integers(-5, 6, M)
        self.users = pd.DataFrame({"user": range(M), "age": age, "shoe": random.integers(36, 47, M)})
        self.items = pd.DataFrame({"item": range(N), "genre": np.array(["a", "b", "c"])[self.genre]})
        self.seen = random.random((M, N)) < 0.5
        self.seen[-NEW:] = False
        self.order = [random.permutation(N) for _ in range(M)]

    def table(self, seen: np.ndarray) -> pd.DataFrame:
        i, j = np.nonzero(seen)
        return pd.DataFrame({"user": i, "item": j, "rating": self.values[i, j]})

    @cache  # noqa: B019
    def model(self, features: bool, noise: Any = "calibrated") -> Model:
        model, table = BayesianACCAMS(**SETTINGS, noise=noise), self.table(self.seen)
        given = {"user_features": self.users[:-NEW]} if features else {}
        weights = self.weights[np.nonzero(self.seen)]
        return model.fit(table[["user", "item"]], table["rating"], sample_weight=weights, **given).model_

    def covered(self, features: bool, k: int, placed: bool = False) -> float:
        """Share of the ratings of new people within intervals of 90 %, given k of their ratings."""
        model, inside = self.model(features), list[np.ndarray]()
        if placed:
            model = model.update(user_features=self.users)
        for i in range(M - NEW, M):
            known, rest = self.order[i][:k], self.order[i][k : k + 15]
            if placed:
                _, ends = model.predict([(i, j) for j in rest], quantiles=[0.05, 0.95])
            else:
                told = {"features": self.users.drop(columns="user").iloc[i].to_dict()} if features else {}
                row = model.fold_in(dict(zip(known.tolist(), self.values[i, known].tolist(), strict=True)), **told)
                _, ends = row.predict(rest, quantiles=[0.05, 0.95])
            y = np.clip(self.values[i, rest], *model.value_range)
            inside.append((y >= ends[:, 0]) & (y <= ends[:, 1]))
        return float(np.mean(inside))


full = partial(pytest.param, marks=pytest.mark.full)
HALF, WELL, WEIGHED = World(0.75), World(1.0), World(1.0, weights=True)


@pytest.mark.parametrize(
    ("world", "features", "k"),
    [
        full(HALF, True, 0),
        full(HALF, True, 1),
        (HALF, False, 3),
        full(HALF, False, 1),
        full(HALF, True, 10),
        full(WELL, True, 0),
        full(WELL, True, 10),
    ],
)
def test_intervals_of_guests_hold(world: World, features: bool, k: int) -> None:
    """1,500 ratings of 100 people who depend on their tastes: a standard error of about 2 %."""
    assert 0.84 < world.covered(features, k) < 0.97


def test_intervals_of_placed_ones_hold() -> None:
    assert 0.84 < HALF.covered(True, 0, placed=True) < 0.97


def test_weights_of_observations_are_no_doubt_about_features() -> None:
    """Ratings of little weight say little, and do not widen what features leave open."""
    plain, weighed = (world.model(True, 0.5).knowledge[0] for world in (WELL, WEIGHED))
    assert plain is not None
    assert weighed is not None
    assert weighed.spread < plain.spread + 0.15


def test_items_without_ratings_are_no_partners() -> None:
    """A catalogue of which most has no ratings: what users' features tell is calibrated on the rest."""
    table, many = HALF.table(HALF.seen), pd.DataFrame({"item": range(3000), "genre": ["a", "b", "c"] * 1000})
    model = BayesianACCAMS(**SETTINGS | {"n_sweeps": 12, "n_chains": 2, "noise": 0.5})
    model.fit(table, user_features=HALF.users[:-NEW], item_features=many)
    known = model.model_.knowledge[0]
    assert known is not None
    assert (known.penalty, known.spread) != (1.0, 0.0)


def test_ratings_do_not_make_what_features_tell_worse() -> None:
    """Few ratings an item, and the genre explains its effect: one rating more is hardly worth anything, but no harm."""
    random, n, m = np.random.default_rng(3), 150, 400
    genre = random.integers(0, 2, n)
    truth = 3.0 + np.array([-0.7, 0.7])[genre]
    pairs = pd.DataFrame({"user": np.repeat(np.arange(m), 2), "item": random.integers(50, n, 2 * m)}).drop_duplicates()
    y = truth[pairs["item"]] + random.normal(0.0, 1.0, len(pairs))
    films = pd.DataFrame({"item": range(n), "genre": np.array(["War", "Drama"])[genre]})
    with pytest.warns(UserWarning, match="effects of rows and columns alone"):
        model = BayesianACCAMS(n_chains=2, n_sweeps=20, random_state=0, verbose=False).fit(
            pairs, y, item_features=films
        )
    errors = []
    for k in (0, 1, 3):
        off = []
        for j in range(50):
            rated = dict(zip(range(k), (truth[j] + random.normal(0.0, 1.0, k)).tolist(), strict=True))
            row = model.fold_in(rated, new="item", features={"genre": films["genre"][j]})
            off.append(row.predict([399])[0] - truth[j])
        errors.append(float(np.sqrt(np.mean(np.square(off)))))
    assert max(errors) < 0.12  # 0.3 to 0.4 if ratings were weighed as those of an item of unknown genre


def test_files_keep_what_features_leave_open(tmp_path: Path) -> None:
    model = HALF.model(True).update(user_features=HALF.users)
    model.save(tmp_path / "m.accams")
    pairs = [(i, j) for i in (0, M - 1) for j in range(5)]
    for one, other in zip(model.predict(pairs, return_std=True), accams.load(tmp_path / "m.accams").predict(
        pairs, return_std=True), strict=True):  # fmt: skip
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_models_without_ids_take_more(tmp_path: Path) -> None:
    HALF.model(True).save(tmp_path / "m.accams", ids=False)
    model = accams.load(tmp_path / "m.accams")
    mean = model.predict([(M, 2)], user_features=pd.DataFrame({"user": [M], "age": [20], "shoe": [40]}))
    assert np.isfinite(mean).all()


def test_lists_of_those_who_have_chosen_nothing() -> None:
    """They are ranked by value, as their features say, not by what is popular."""
    table = HALF.table(HALF.seen)
    lists = ItemACCAMS(None, penalty=5.0, dropout=0.0, verbose=False, random_state=0).fit(table)
    model = HALF.model(True).with_lists(lists).update(user_features=HALF.users)
    guest = model.fold_in(features={"age": 20, "shoe": 40})
    assert [x.item for x in guest.recommend(3)] == [x.item for x in guest.recommend(3, by="value")]
    new = model.recommend(M - 1, 3)
    assert [x.item for x in new] == [x.item for x in model.recommend(M - 1, 3, by="value")]
    assert set(new.to_dict()["rule"]) == {""}
    mixed = model.recommend([0, M - 1, 1], 3)
    assert [x.user for x in mixed[::3]] == [0, M - 1, 1]
    assert [x.item for x in mixed[3:6]] == [x.item for x in new]
    assert [x.score for x in mixed[:3]] == [x.score for x in model.recommend(0, 3, by="choice")]
    assert type(model.explain(M - 1, 3)).__name__ == type(guest.explain(3)).__name__ == "Explanation"
    assert type(model.explain(0, 3)).__name__ == "ListExplanation"
    with pytest.raises(accams.InputError, match="there is nothing to take in"):
        model.update()
    served = Answers(model, Explorer(model, {}, "m", "0" * 12)).recommend(RecommendAsk(user=M - 1, n=3))
    assert (served["by"], [x["item"] for x in served["items"]]) == ("value", [x.item for x in new])


def test_explanations_of_new_items_name_users_as_users() -> None:
    told = WELL.model(True, 0.5)
    row = told.fold_in({0: 4.0, 1: 2.0}, new="item")
    why = row.explain(5)
    assert (why.user, why.item) == (5, "guest")
    assert why.total() == pytest.approx(row.predict([5])[0])
    assert all(term.users.size + 0 <= M and set(term.items.members) <= set(range(N)) for term in why.terms)


def test_features_that_are_all_missing() -> None:
    """Somebody of whom nothing is known is like anybody who is unknown, in mean and in doubt."""
    model = WELL.model(True, 0.5)
    mean, std = model.fold_in({}, features={"age": None}).predict(range(5), return_std=True)
    told = model.fold_in({}, features={"age": 20}).predict(range(5), return_std=True)[1]
    assert (std > told).all()
    np.testing.assert_allclose(mean, model.predict([(-5, j) for j in range(5)]), atol=0.35)
