"""Every kind of model, put to use."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bayes_models import make
from scipy.sparse import csr_array
from shared_inputs import same_sums
from shared_use import SEEN, TABLE, UseTests

import accams
from accams import ACCAMS, BayesianACCAMS, InputError, Model, Observations, StencilSum
from accams.model import interactions
from accams.model.interactions import Interactions
from accams.use.scoring import Sums
from accams.use.similar import likeness

pytestmark = pytest.mark.usefixtures("short_explanations")
BAYES = {"n_stencils": 3, "n_clusters": 4, "n_sweeps": 12, "noise": 0.5}


@pytest.fixture(scope="module")
def bayes():
    """A model with draws, only to be read."""
    return make(**BAYES).fit(TABLE)


class TestACCAMS(UseTests):
    def fit(self) -> ACCAMS:
        return ACCAMS(5, 4, shrinkage=1.0, verbose=False).fit(TABLE)


class TestBayes(UseTests):
    has_draws = has_spread = True
    quick = ("fitted",)

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES).fit(TABLE)


class TestEffects(UseTests):
    has_draws = has_spread = True
    quick = ("loaded",)

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES, effects="continuous").fit(TABLE)


class TestProbabilities(UseTests):
    has_draws = has_spread = True
    quick = ("fitted",)

    def fit(self) -> BayesianACCAMS:
        return make(**BAYES, rao_blackwell=True, row_noise=None, clip=False).fit(TABLE)


class TestCompressed(UseTests):
    has_spread = True
    quick = ("loaded",)

    def fit(self) -> Model:
        return make(**BAYES).fit(TABLE).compress(2500, verbose=False)


def test_rows_that_have_a_place_but_no_data():
    matrix = np.arange(30.0).reshape(6, 5) % 7
    matrix[3] = np.nan
    model = ACCAMS(2, 2).fit(matrix)
    found = model.recommend([3, 2], 2, exclude_seen=False)
    assert found["rule"].tolist() == ["average row"] * 2 + [""] * 2
    assert 3 not in dict(model.similar(1, 10, side="users"))


MATRIX = np.arange(30.0).reshape(6, 5) % 7


def fitted(matrix=MATRIX, **how):
    return ACCAMS(2, 2, **how).fit(matrix)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_guests_are_recommended_whole_numbers_of_columns(n):
    with pytest.raises(InputError, match="n must be "):
        fitted().fold_in({0: 3.0}).recommend(n)


def test_as_many_as_nobody_has():
    assert len(fitted().recommend(0, 10**12, exclude_seen=False)) == 5
    assert len(fitted().fold_in({0: 3.0}).recommend(10**12)) == 4


@pytest.mark.some(1)
@pytest.mark.parametrize("clip", [(-0.1, 0.1), False])
def test_explanations_end_and_add_up_when_little_is_left(clip):
    matrix = np.random.default_rng(0).normal(size=(30, 20))
    for model in (fitted(matrix, clip=clip), make(**BAYES, clip=clip).fit(matrix)):
        for j in range(10):
            why = model.explain(j, j)
            assert why.total() == why.prediction == model.predict([(j, j)])[0]
            why = model.fold_in({0: 0.3, 1: -0.4}).explain(j)
            assert why.total() == why.prediction
            assert abs(why.rounding) < 1e-14


@pytest.mark.parametrize("kind", ["accams", "bayesian"])
def test_someone_new_where_blanks_are_zeros(kind, tmp_path):
    """Two crowds, each with its own half of the items; a newcomer with two likes belongs to one of them."""
    likes = np.kron(np.eye(2), np.ones((20, 12))) * (np.random.default_rng(0).random((40, 24)) < 0.7)
    data = Observations.from_sparse(csr_array(likes), zeros="observed", zero_weight=0.3)
    kinds = {
        "accams": ACCAMS(2, 2, learning_rate=1.0),
        "bayesian": make(n_stencils=2, n_clusters=2, n_sweeps=20, noise=0.4),
    }
    model = kinds[kind].fit(data)
    model.save(tmp_path / "m.accams")
    for each in (model, accams.load(tmp_path / "m.accams"), model.compress(3000, verbose=False)):
        guest = each.fold_in({0: 1.0, 5: 1.0})
        assert all(r.item < 12 for r in guest.recommend(10))
        assert guest.predict([3])[0] > 0.4 > 0.2 > guest.predict([20])[0]
        new = each.fold_in({30: 1.0, 31: 1.0, 32: 1.0}, new="item")
        assert new.predict([35])[0] > new.predict([5])[0] + 0.2
    taken = model.update([(40, 0), (40, 5)], [1.0, 1.0])
    assert taken.predict([(40, 3)])[0] > taken.predict([(40, 20)])[0] + 0.2


def test_the_ends_of_the_scale_belong_to_it():
    model = fitted(np.where(MATRIX > 3, 0.9, 0.1))
    assert len(model.fold_in({0: 0.9, 1: 0.1}).predict([2])) == 1


def test_rows_without_data_change_nothing_about_what_is_similar():
    random = np.random.default_rng(0)
    labels, cols = random.integers(0, 3, 20), np.repeat(np.arange(4), 3)
    template = random.normal(size=(3, 4))
    one = StencilSum((20, 12)).append(template, labels, cols)
    other = StencilSum((50, 12), unseen_rows=np.arange(20, 50)).append(template, np.append(labels, [0] * 30), cols)
    tables = [likeness(Sums([each.codes], [None]), 1, "weighted").codes[0] for each in (one, other)]
    np.testing.assert_allclose(tables[0].flat, tables[1].flat, rtol=1e-6, atol=1e-6)


def test_what_was_seen_is_not_ignored_silently():
    model = fitted()
    with pytest.warns(UserWarning, match="none of these ids was seen"):
        model.recommend(0, seen=[("x", "y")])
    names = ACCAMS(1, 2).fit(TABLE)
    with pytest.raises(InputError, match="if swapped"):
        names.recommend("user 02", seen=[("item 03", "user 02")])
    new = names.recommend("nobody", 40, unknown="average", seen=[("nobody", "item 03"), ("nobody", "item 04")])
    assert not {"item 03", "item 04"} & set(new["item"])
    assert 0 not in model.recommend(0, seen=np.array([["0", "0"]]))["item"]
    assert len(model.recommend([0, 1], seen=MATRIX)) == 0


def test_candidates_that_come_twice():
    model = ACCAMS(1, 2).fit(TABLE)
    seen = sorted(SEEN["user 02"])[0]
    found = model.recommend("user 02", candidates=[seen, seen, "item 03", "item 03"], seen=[("user 02", seen)])
    assert found["item"].tolist() == ["item 03"]
    assert model.fold_in({seen: 3.0}).recommend(candidates={"item 03"})["item"].tolist() == ["item 03"]


def test_ids_of_mixed_types_and_tuples():
    mixed = ACCAMS(1, 2).fit([("a", "x"), (5, "y"), ("a", "y"), (5, "x")], [1.0, 2.0, 3.0, 4.0])
    assert mixed.recommend(5, exclude_seen=False)["user"].tolist() == [5, 5]
    assert mixed.update([(7, "x")], [2.0]).recommend(7)["item"].tolist() == ["y"]
    assert mixed.recommend(np.array("a"), exclude_seen=False)["user"].tolist() == ["a", "a"]
    with pytest.raises(InputError, match="one column"):
        mixed.recommend(np.array([["a"]]))
    with pytest.raises(InputError, match="ids must be numbers, text"):
        mixed.explain(["a"], "x")
    with pytest.raises(InputError, match="it is missing"):
        mixed.recommend(pd.DataFrame({"row": [np.nan]}))


def test_days_are_ids_too():
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    model = ACCAMS(1, 2).fit(pd.DataFrame({"user": days, "item": ["x", "y"], "rating": [1.0, 2.0]}))
    assert len(model.recommend(days, exclude_seen=False)) == 4


def test_a_matrix_grows_twice():
    model = fitted()
    twice = model.update(np.vstack([MATRIX, MATRIX[:1]])).update(np.vstack([MATRIX, MATRIX[:2]]))
    assert twice.shape == (8, 5)
    assert twice.row_index.is_positional
    weighted = Observations.from_dense(MATRIX, weights=1.0 + MATRIX)
    with pytest.raises(InputError, match="update does not take weights"):
        model.update(weighted)


def test_a_changed_model_derives_everything_anew(bayes):
    before = bayes.recommend("user 03", 5, exclude_seen=False)
    model = replace(bayes.model_, posterior=bayes.posterior_.thin(2))
    after = model.recommend("user 03", 5, exclude_seen=False)
    np.testing.assert_array_equal(after["score"], model.predict([("user 03", item) for item in after["item"]]))
    assert list(before) != list(after)


def test_a_guest_can_be_pickled(bayes):
    guest = bayes.fold_in({"item 03": 4.0})
    again = pickle.loads(pickle.dumps(guest))
    np.testing.assert_array_equal(again.predict(["item 04"]), guest.predict(["item 04"]))


def test_columns_without_data_are_not_recommended():
    matrix = MATRIX.copy()
    matrix[:, 2] = np.nan
    assert 2 not in fitted(matrix).recommend(0, exclude_seen=False)["item"]


def test_what_a_guest_is_not_asked(bayes):
    model = fitted()
    guest = model.fold_in({0: 3.0})
    with pytest.raises(InputError, match="the history of a folded-in user is known"):
        model.recommend(guest, seen=[(0, 1)])
    for history in (Observations.from_dense(MATRIX), 3):
        with pytest.raises(InputError, match=r"fold_in takes the values of one user|the history must be"):
            model.fold_in(history)
    with pytest.raises(InputError, match="quantile must be a number"):
        bayes.recommend("user 02", quantile="low")


def test_what_was_observed_is_checked_when_it_is_read():
    seen = Interactions(np.array([0, 2, 2, 3]), np.array([1, 4, 0]))
    n, data = interactions.pack(seen)
    again = interactions.unpack(n, data, (3, 5))
    np.testing.assert_array_equal(again.starts, seen.starts)
    np.testing.assert_array_equal(again.columns, seen.columns)
    for n_cells, shape in ((n + 1, (3, 5)), (n, (2, 5)), (n, (3, 4))):
        with pytest.raises(ValueError, match=r"do not fit the shape|cannot come from|cut short"):
            interactions.unpack(n_cells, data, shape)


@pytest.mark.some(2)
@pytest.mark.parametrize("piece", [1, 7, 30])
def test_what_many_have_observed_is_packed_piece_by_piece(piece, tmp_path, monkeypatch, bayes):
    model = bayes
    monkeypatch.setattr(interactions, "PIECE", piece)
    sizes, data = interactions.pack(model.seen_)
    assert len(sizes) == len(data) > 1
    assert sum(cells for _, cells in sizes) == len(TABLE)
    assert all(cells <= piece or rows == 1 for rows, cells in sizes)
    model.save(tmp_path / "m.accams")
    loaded = accams.load(tmp_path / "m.accams")
    np.testing.assert_array_equal(loaded.interactions.starts, model.seen_.starts)
    np.testing.assert_array_equal(loaded.interactions.columns, model.seen_.columns)
    with pytest.raises(ValueError, match="do not fit the shape"):
        interactions.unpack(sizes[:-1], data, (len(model.row_index_), len(model.col_index_)))


@pytest.mark.parametrize("ids", [True, False])
def test_a_file_with_many_draws_knows_what_was_seen_unless_ids_are_left_out(ids, tmp_path, bayes):
    bayes.save(tmp_path / "m.accams", ids=ids)
    loaded = accams.load(tmp_path / "m.accams")
    assert (loaded.interactions is not None) == ids
    assert len(SEEN) == 59


def test_rows_taken_in_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ACCAMS(n_stencils=3, n_clusters=3).fit(TABLE)
    new = TABLE.assign(user="new " + TABLE["user"])
    at_once = model.update(new)
    monkeypatch.setattr("accams.use.fold.ROWS_AT_ONCE", 7)
    in_parts = model.update(new)
    assert same_sums(at_once.stencils, in_parts.stencils)
