"""Features of users and items: who is new is predicted by them, and every way to tell of them works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accams
from accams import BayesianACCAMS, InputError, Observations

M, N, NEW = 90, 60, 10
RANDOM = np.random.default_rng(0)
GENRE, AGE = RANDOM.integers(0, 3, N), RANDOM.integers(18, 70, M)
YOUNG = AGE < 40
MEAN = 3.0 + np.array([[1.0, -1.0, 0.3], [-1.0, 1.0, 0.3]])[np.where(YOUNG, 0, 1)][:, GENRE]
RATINGS = MEAN + RANDOM.normal(0.0, 0.4, MEAN.shape)
SEEN = RANDOM.random(MEAN.shape) < 0.5
SEEN[:NEW], SEEN[:, :NEW] = False, False  # the first of each are new
NAMES = np.array(["Action|Thriller", "Comedy", "Documentary"])
USERS = pd.DataFrame({"user": [f"u{i}" for i in range(M)], "age": AGE, "shoe": RANDOM.integers(35, 48, M)})
ITEMS = pd.DataFrame({"item": np.arange(N) * 10, "genres": NAMES[GENRE], "year": RANDOM.integers(1950, 2000, N)})


def table_of(cells: np.ndarray) -> pd.DataFrame:
    i, j = np.nonzero(cells)
    return pd.DataFrame(
        {"user": USERS["user"].to_numpy()[i], "item": ITEMS["item"].to_numpy()[j], "rating": RATINGS[i, j]}
    )


TRAIN = table_of(SEEN)
NEW_ITEMS, NEW_USERS = np.zeros(MEAN.shape, bool), np.zeros(MEAN.shape, bool)
NEW_ITEMS[NEW:, :NEW], NEW_USERS[:NEW, NEW:] = True, True
SETTINGS: dict[str, Any] = {"n_stencils": 3, "n_clusters": 3, "n_chains": 4, "n_sweeps": 40, "random_state": 0}


def make(**changes: Any) -> BayesianACCAMS:
    return BayesianACCAMS(verbose=False).set_params(**(SETTINGS | {"noise": 0.4} | changes))


@pytest.fixture(scope="module")
def fitted() -> BayesianACCAMS:
    return make().fit(TRAIN, user_features=USERS, item_features=ITEMS)


@pytest.fixture(scope="module")
def plain() -> BayesianACCAMS:
    return make().fit(TRAIN)


def error(model: Any, cells: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(table_of(cells)[["user", "item"]]) - MEAN[cells]) ** 2)))


@pytest.mark.parametrize("cells", [NEW_ITEMS, NEW_USERS], ids=["items", "users"])
def test_who_is_new_is_predicted_by_features(fitted: BayesianACCAMS, plain: BayesianACCAMS, cells: np.ndarray) -> None:
    assert error(fitted, cells) < 0.5 < 0.7 * error(plain, cells)


@pytest.mark.full  # those of placed ones and of guests are in test_new_by_features
def test_intervals_of_who_is_new_hold() -> None:
    """With calibrated noise; wider than those of who is known. 1,600 cells, but only 20 lines: from 82 to 97 %."""
    model = make(noise="calibrated", n_sweeps=60).fit(TRAIN, user_features=USERS, item_features=ITEMS)
    for cells in (NEW_ITEMS, NEW_USERS):
        pairs = table_of(cells)[["user", "item"]]
        _, std, ends = model.predict(pairs, return_std=True, quantiles=[0.05, 0.95])
        y = np.clip(RATINGS[cells], *model.value_range_)
        assert 0.82 < np.mean((y >= ends[:, 0]) & (y <= ends[:, 1])) < 0.97
        assert std.mean() > model.predict(table_of(SEEN)[["user", "item"]], return_std=True)[1].mean()


def test_new_items_are_recommended(fitted: BayesianACCAMS) -> None:
    user = int(np.flatnonzero(YOUNG)[-1])
    best = fitted.recommend(f"u{user}", n=30, exclude_seen=False)
    found = {x.item // 10 for x in best}
    actions = set(np.flatnonzero(GENRE[:NEW] == 0).tolist())
    assert actions <= found


def test_a_file(fitted: BayesianACCAMS, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m.accams")
    loaded, pairs = accams.load(tmp_path / "m.accams"), table_of(NEW_ITEMS)[["user", "item"]]
    np.testing.assert_allclose(loaded.predict(pairs), fitted.predict(pairs), rtol=1e-12)
    one, other = (x.fold_in(features={"age": 20}).predict([0, 10, 100]) for x in (loaded, fitted))
    np.testing.assert_allclose(one, other, rtol=1e-9)
    small = loaded.compress(4000, verbose=False)
    assert small.knowledge == (None, None)


def test_a_resumed_fit_is_the_same(tmp_path: Path, short_calibration: None) -> None:
    how, path = {"user_features": USERS, "item_features": ITEMS}, tmp_path / "c"
    short: dict[str, Any] = {"noise": "calibrated", "n_sweeps": 12, "n_chains": 2}
    settings = {**short, "checkpoint": path, "schedule__checkpoint_every": 4}
    whole = make(**short).fit(TRAIN, **how)
    make(callbacks=[lambda x: x.phase == "sampling" and x.sweep == 6]).set_params(**settings).fit(TRAIN, **how)
    again = make().set_params(**settings).fit(TRAIN, resume=path, **how)
    other = ITEMS.assign(year=ITEMS["year"].to_numpy()[::-1])
    with pytest.raises(InputError, match="is a checkpoint of other data"):
        make().set_params(**settings).fit(TRAIN, resume=path, user_features=USERS, item_features=other)
    pairs = table_of(NEW_USERS | SEEN)[["user", "item"]]
    np.testing.assert_array_equal(again.predict(pairs), whole.predict(pairs))


# -- afterwards -------------------------------------------------------------------------------------------------------


def test_features_alone_then_with_a_few_ratings(fitted: BayesianACCAMS) -> None:
    """Ratings that contradict what features say prevail."""
    items = np.array([np.flatnonzero(g == GENRE)[-4:] * 10 for g in (0, 1)])
    guest = fitted.fold_in(features={"age": 20})
    young = [guest.predict(each).mean() for each in items]
    assert young[0] > young[1] + 1.0
    told = {int(j): 2.0 if g == 0 else 4.0 for g in (0, 1) for j in np.flatnonzero(g == GENRE)[12:18] * 10}
    other = fitted.fold_in(told, features={"age": 20})
    assert other.predict(items[1]).mean() > other.predict(items[0]).mean() + 0.5
    assert guest.recommend(n=3)[0].score > 3.5
    assert guest.explain(int(items[0][0])).prediction == guest.predict([items[0][0]])[0]
    wide, narrow = (x.predict(items[0], return_std=True)[1].mean() for x in (guest, other))
    assert wide > narrow - 0.05


def test_explanations_name_features(fitted: BayesianACCAMS) -> None:
    """Of users and items without ratings, in the stencils that tell their features apart."""
    young, action = int(np.flatnonzero(YOUNG[:NEW])[0]), int(np.flatnonzero(GENRE[:NEW] == 0)[0]) * 10
    both = fitted.explain(f"u{young}", action)
    users, items = ({name for term in both.terms for name in getattr(term, side).traits} for side in ("users", "items"))
    assert any(name.startswith("age ") for name in users)
    assert "genres Action" in items
    assert ", by " in str(both)
    rated = fitted.explain(f"u{NEW}", NEW * 10)
    assert not any(term.users.traits or term.items.traits for term in rated.terms)
    guest = fitted.fold_in({NEW * 10: 3.0}, features={"age": 20}).explain(action)
    told = {name for term in guest.terms for name in term.users.traits}
    assert told == {name for name in told if name.startswith("age ")} != set()


def test_a_new_item_by_its_features(fitted: BayesianACCAMS) -> None:
    film = fitted.fold_in(new="item", features={"genres": "Action|Thriller", "year": 1980})
    likes = film.predict([f"u{i}" for i in range(NEW, M)])
    assert likes[YOUNG[NEW:]].mean() > likes[~YOUNG[NEW:]].mean() + 1.0


@pytest.mark.parametrize("how", ["predict", "update"])
def test_ids_that_came_after_the_fit(fitted: BayesianACCAMS, how: str) -> None:
    later = pd.DataFrame({"item": [5001, 5002], "genres": ["Comedy", "Action|Thriller"], "year": [1990, 1960]})
    users = [f"u{i}" for i in range(NEW, M)]
    pairs = pd.DataFrame({"user": users * 2, "item": [5001] * len(users) + [5002] * len(users)})
    if how == "predict":
        p = fitted.predict(pairs, item_features=later)
    else:
        model = fitted.update(item_features=later)
        p = model.predict(pairs)
        assert len(model.items) == N + 2
        assert len(model.recommend("u50", n=N, exclude_seen=True)) > 0
    comedy, action = np.split(p, 2)
    assert (action - comedy)[YOUNG[NEW:]].mean() > 1.0 > -1.0 > (action - comedy)[~YOUNG[NEW:]].mean()


def test_an_update_with_features_and_ratings(fitted: BayesianACCAMS) -> None:
    new = pd.DataFrame({"user": ["w"], "age": [25], "shoe": [40]})
    rated = pd.DataFrame({"user": ["w"] * 3, "item": [200, 210, 220], "rating": [3.0, 3.0, 3.0]})
    model = fitted.update(rated, user_features=new)
    assert "w" in model.users.tolist()
    model.forget("w")
    assert "w" not in model.users.tolist()
    assert model.knowledge[0] is not None
    assert len(model.knowledge[0].codes) == M


def test_what_clusters_stand_for(fitted: BayesianACCAMS) -> None:
    told = [x for s in range(len(fitted.model_.explainer.stencils)) for x in fitted.cluster_traits(s)]
    strong = [x for x in told if x.share > 0.9 and x.everywhere < 0.6]
    assert {x.trait for x in strong} & {"genres Action", "genres Comedy", "genres Documentary"}
    ages = [x for s in range(len(fitted.model_.explainer.stencils)) for x in fitted.cluster_traits(s, "users")]
    assert any(x.trait.startswith("age") and x.share > x.everywhere for x in ages)
    with pytest.raises(InputError, match="stencil must be an integer from 0 to"):
        fitted.cluster_traits(99)


# -- tables of many kinds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["polars", "index", "lists", "missing", "some"])
def test_usual_tables(kind: str) -> None:
    items: Any = ITEMS
    if kind == "polars":
        items = pl.DataFrame({name: ITEMS[name].to_list() for name in ITEMS})
    elif kind == "index":
        items = ITEMS.rename(columns={"item": "movieId"})  # another usual name
    elif kind == "lists":
        items = ITEMS.assign(genres=[x.split("|") for x in ITEMS["genres"]])
    elif kind == "missing":
        items = ITEMS.assign(year=ITEMS["year"].where(ITEMS["item"] % 20 == 0), genres=ITEMS["genres"].where(GENRE < 2))
    elif kind == "some":
        items = ITEMS[::2]
    model = make(n_sweeps=8, n_chains=1).fit(TRAIN, item_features=items)
    assert np.isfinite(model.predict(table_of(NEW_ITEMS)[["user", "item"]])).all()


def test_pairs_matrices_and_stores(tmp_path: Path) -> None:
    short: dict[str, Any] = {"n_sweeps": 4, "n_chains": 1}
    matrix = np.where(SEEN, RATINGS, np.nan)[NEW:]
    by_position = ITEMS.assign(item=np.arange(N))
    assert make(**short).fit(matrix, item_features=by_position).predict([(0, 3)]).shape == (1,)
    pairs = TRAIN[["user", "item"]]
    assert make(**short).fit(pairs, TRAIN["rating"], item_features=ITEMS).model_.shape == (M - NEW, N)
    Observations.from_frame(TRAIN).to_store(tmp_path / "store")
    with pytest.warns(UserWarning, match="10 items of the features have no ratings, and are left out"):
        model = make(**short).fit(Observations.open(tmp_path / "store"), item_features=ITEMS)
    assert model.model_.shape == (M - NEW, N - NEW)


def test_ids_as_text_are_the_same_ids(fitted: BayesianACCAMS) -> None:
    items = ITEMS.assign(item=ITEMS["item"].astype(str))
    assert make(n_sweeps=4, n_chains=1).fit(TRAIN, item_features=items).model_.shape[1] == N
    assert fitted.update(item_features=items[:4]).shape[1] == N


def test_a_part_of_the_features_leaves_the_others(fitted: BayesianACCAMS) -> None:
    updated = fitted.update(item_features=ITEMS[["item", "year"]])
    np.testing.assert_array_equal(updated.knowledge[1].codes, fitted.model_.knowledge[1].codes)


def test_who_is_asked_for_while_fitting() -> None:
    """Averages over the sweeps know nothing of features: who has no ratings is predicted by the model."""
    pairs = table_of(NEW_ITEMS)[["user", "item"]]
    model = make(n_sweeps=8, n_chains=2).fit(TRAIN, item_features=ITEMS, predict_at=pairs)
    np.testing.assert_allclose(model.predicted_at_, model.predict(pairs))


def test_one_value_only(tmp_path: Path) -> None:
    model = make(n_sweeps=8, n_chains=1).fit(TRAIN.assign(rating=3.0), item_features=ITEMS, user_features=USERS)
    model.save(tmp_path / "m.accams")
    assert model.predict(table_of(NEW_ITEMS)[["user", "item"]]).tolist() == [3.0] * int(NEW_ITEMS.sum())


def test_missing_cells_of_one_line(fitted: BayesianACCAMS) -> None:
    for item in ({"genres": None, "year": 1990}, {"genres": "Comedy", "year": None}, {"genres": [], "year": "1990"}):
        assert np.isfinite(fitted.fold_in(new="item", features=item).predict(["u20"])).all()


# -- bad input --------------------------------------------------------------------------------------------------------


def refused(match: str, **features: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        make().fit(TRAIN, **features)
    assert "\n" not in str(caught.value)


def test_tables_that_cannot_be() -> None:
    refused("item_features must be a DataFrame with a column of ids, not ndarray", item_features=np.ones((3, 2)))
    refused("cannot tell which column of item_features holds the ids: call it 'item'",
            item_features=ITEMS.rename(columns={"item": "what"}))  # fmt: skip
    refused("item_features has several lines for 30", item_features=pd.concat([ITEMS, ITEMS[3:4]]))
    refused("no id of item_features is among those of the ratings", item_features=ITEMS.assign(item=-1 - ITEMS["item"]))
    refused("item_features has no column beside the ids", item_features=ITEMS[["item"]])
    refused("item_features has no lines", item_features=ITEMS[:0])
    refused("column 'year' of item_features has a value beyond 1e.30", item_features=ITEMS.assign(year=1e200))
    refused("column 'year' of item_features has an infinite value", item_features=ITEMS.assign(year=np.inf))
    refused("the item id in item_features is missing", item_features=ITEMS.assign(item=ITEMS["item"].where(GENRE > 0)))
    with pytest.warns(UserWarning, match="features without two different values .* are left out: one, none, title"):
        make(n_sweeps=4, n_chains=1).fit(
            TRAIN, item_features=ITEMS.assign(one=1, none=np.nan, title=[f"film {j}" for j in range(N)])
        )
    refused("all features are without two different values", item_features=ITEMS[["item"]].assign(one=1))
    refused("has 1,001 columns, and 1,000 are the most",
            item_features=pd.concat([ITEMS, pd.DataFrame(RANDOM.random((N, 999)))], axis=1))  # fmt: skip


def test_thousands_of_categories() -> None:
    """The hundred most frequent ones count."""
    many = ITEMS.assign(code=[f"c{j % 40}" if j < 120 else f"x{j}" for j in range(N)])
    model = make(n_sweeps=4, n_chains=1).fit(TRAIN, item_features=many)
    assert len(model.model_.knowledge[1].encoder.labels) < 30


def test_wrong_features_later(fitted: BayesianACCAMS, plain: BayesianACCAMS) -> None:
    with pytest.raises(InputError, match="feature 'age' held numbers when the model was fitted, and now holds text"):
        fitted.fold_in(features={"age": "old"})
    with pytest.raises(InputError, match="none of the features that the model knows is given: age, shoe"):
        fitted.fold_in(features={"height": 180})
    with pytest.raises(InputError, match=r"features must be a dict such as \{'year': 1995\}"):
        fitted.fold_in(features=[1])
    with pytest.raises(InputError, match="the model knows no features of these"):
        plain.fold_in(features={"age": 20})
    with pytest.raises(InputError, match="the model knows no features of items: fit it with item_features"):
        plain.update(item_features=ITEMS)
    with pytest.raises(InputError, match="the model knows no features of items: fit it with item_features"):
        plain.cluster_traits()
    for odd in (10**400, {}, np.timedelta64(3, "D"), float("inf"), 1e200):
        with pytest.raises(InputError, match="'age'"):
            fitted.fold_in(features={"age": odd})
    with pytest.raises(InputError, match="the history is empty"):
        fitted.fold_in({})


def test_observed_zeros_have_no_features() -> None:
    likes = Observations.from_frame(TRAIN, zeros="observed")
    with pytest.raises(InputError, match="features need missing cells"):
        make(noise="sampled").fit(likes, item_features=ITEMS)


# -- few ratings ------------------------------------------------------------------------------------------------------


def test_effects_of_who_is_new_where_stencils_say_nothing() -> None:
    """Two ratings a user: a model of effects alone, which depend on the genre, of known films as of new ones."""
    random, m, n = np.random.default_rng(1), 400, 80
    genre = random.integers(0, 2, n)
    pairs = pd.DataFrame({"user": np.repeat(np.arange(m), 2), "item": random.integers(10, n, 2 * m)})
    pairs = pairs.drop_duplicates()
    y = 3.0 + np.array([-0.7, 0.7])[genre[pairs["item"]]] + random.normal(0.0, 1.0, len(pairs))
    films = pd.DataFrame({"item": range(n), "genre": np.array(["War", "Drama"])[genre]})
    settings: dict[str, Any] = {"n_chains": 2, "n_sweeps": 20, "random_state": 0, "verbose": False}
    with pytest.warns(UserWarning, match="effects of rows and columns alone"):
        told = BayesianACCAMS(**settings).fit(pairs, y, item_features=films)
    with pytest.warns(UserWarning, match="effects of rows and columns alone"):
        plain = BayesianACCAMS(**settings).fit(pairs, y)
    truth = 3.0 + np.array([-0.7, 0.7])[genre[pairs["item"]]]
    errors = [np.abs(model.predict(pairs) - truth).mean() for model in (told, plain)]
    assert errors[0] < 0.5 * errors[1]
    new = pd.DataFrame({"user": np.arange(10), "item": np.arange(10)})
    mean, std = told.predict(new, return_std=True)
    assert np.abs(mean - 3.0 - np.array([-0.7, 0.7])[genre[:10]]).max() < 0.35
    assert (std < plain.predict(new, return_std=True)[1]).all()
    for _, film in films[:10].iterrows():
        one = told.fold_in(new="item", features={"genre": film["genre"]})
        assert abs(one.predict([0])[0] - 3.0 - (0.7 if film["genre"] == "Drama" else -0.7)) < 0.35
    rated = told.fold_in(dict.fromkeys(range(200, 260), 2.0), new="item", features={"genre": "Drama"})
    assert rated.predict([0])[0] < 2.5
