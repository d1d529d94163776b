"""Forgetting a user: id, labels, noise, probes and interactions leave the model and its file; the rest stays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zstandard
from bayes_models import make
from forms import MATRIX
from shared_inputs import model_of
from shared_use import ITEMS, TABLE

import accams
from accams import ACCAMS, InputError, Model
from accams.model import container, file

pytestmark = pytest.mark.usefixtures("short_explanations")
WHO = "user 21"
TINY = {"n_stencils": 3, "n_clusters": 4, "n_sweeps": 5}
KINDS: dict[str, Any] = {
    "accams": lambda: ACCAMS(3, 4).fit(TABLE),
    "draws": lambda: make(**TINY).fit(TABLE),
    "equal noise": lambda: make(**TINY, row_noise=None).fit(TABLE),
    "effects": lambda: make(**TINY, effects="continuous").fit(TABLE),
    "label probabilities": lambda: make(**TINY, rao_blackwell=True).fit(TABLE),
    "compressed": lambda: make(**TINY).fit(TABLE).compress(2500, verbose=False),
}


@pytest.fixture(scope="module", params=KINDS)
def whole(request: Any) -> Model:
    """A model that knows everybody, only to be read."""
    return model_of(KINDS[request.param]())


@pytest.fixture
def less(whole: Model) -> Model:
    """The same without one user."""
    return pickle.loads(pickle.dumps(whole)).forget(WHO)


def others(model: Model) -> list[tuple[str, str]]:
    users = [user for user in model.users if user != WHO]
    return [(user, item) for user in users for item in [*ITEMS, "unknown item"]]


def same_answers(one: Model, other: Model) -> None:
    """Assert that two models answer the same, to the bit, for all users but the forgotten one."""
    asked = {"return_std": True, "quantiles": [0.1]} if other.has_spread else {}
    answers = [each.predict(others(one), **asked) for each in (one, other)]
    for x, y in zip(*answers, strict=True) if asked else [answers]:
        np.testing.assert_array_equal(x, y)


@pytest.mark.some(2)
def test_it_happens_in_place_and_returns_the_model(whole: Model) -> None:
    model = pickle.loads(pickle.dumps(whole))
    model.recommend(WHO, 3), model.similar("user 03", side="users")  # what is derived is derived again
    assert model.forget(WHO) is model
    assert model.shape == (whole.shape[0] - 1, whole.shape[1])
    assert WHO not in model.similar("user 03", 100, side="users")["user"].tolist()
    assert WHO in whole.users


def test_nobody_else_is_predicted_otherwise(whole: Model, less: Model) -> None:
    same_answers(less, whole)
    for user in ("user 00", "user 22", "user 59"):
        assert list(less.recommend(user, 5)) == list(whole.recommend(user, 5))


def test_the_user_is_unknown_now(less: Model) -> None:
    with pytest.raises(InputError, match=f"there is no user '{WHO}' in this model"):
        less.recommend(WHO)
    np.testing.assert_array_equal(less.predict([(WHO, "item 03")]), less.predict([("nobody", "item 03")]))
    with pytest.raises(InputError, match=f"there is no user '{WHO}' in this model"):
        less.forget(WHO)


def test_every_part_has_one_row_less(whole: Model, less: Model) -> None:
    p = int(whole.row_index.find(np.array([WHO], object))[0])

    def cut(x: Any) -> Any:
        return np.delete(x, p, axis=0)

    np.testing.assert_array_equal(less.users, cut(whole.users))
    for one, other in zip(less.stencils.row_labels, whole.stencils.row_labels, strict=True):
        np.testing.assert_array_equal(one, cut(other))
    assert less.activity is not None
    assert whole.activity is not None
    np.testing.assert_array_equal(less.activity[0], cut(whole.activity[0]))
    if whole.spread is not None:
        np.testing.assert_array_equal(less.spread.row_classes, cut(whole.spread.row_classes))
    for q in range(less.shape[0]):
        rows = np.array([q]), np.array([q + (q >= p)])
        np.testing.assert_array_equal(less.interactions.of(rows[0])[1], whole.interactions.of(rows[1])[1])
    if whole.posterior is None:
        return
    for one, other in zip(less.posterior.draws, whole.posterior.draws, strict=True):
        np.testing.assert_array_equal(one.codes.rows[:-1], cut(other.codes.rows[:-1]))
        for name in ("row_noise", "row_shares"):
            x, y = getattr(one, name), getattr(other, name)
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_array_equal(x, cut(y))
        if other.codes.row_effects is not None:
            np.testing.assert_array_equal(one.codes.row_effects[:-1], cut(other.codes.row_effects[:-1]))
    follows = whole.posterior.probes[:, 0] != p
    assert not follows.all()  # some probe followed the user, or nothing is tested here
    np.testing.assert_array_equal(
        less.users[less.posterior.probes[:, 0]], whole.users[whole.posterior.probes[follows, 0]]
    )
    np.testing.assert_array_equal(less.posterior.traces["probes"], whole.posterior.traces["probes"][:, :, follows])


@pytest.mark.some(2)
def test_the_file_has_nothing_of_the_user(whole: Model, less: Model, tmp_path: Path) -> None:
    path = tmp_path / "m.accams"

    def ids() -> str:
        _, tensors = container.read(path, file.KIND, 2)
        return zstandard.ZstdDecompressor().decompress(tensors["ids/row"].tobytes()).decode()

    whole.save(path, history=True)
    assert WHO in ids()
    less.save(path, history=True)
    assert WHO not in ids()
    assert WHO.encode() not in path.read_bytes()
    loaded = accams.load(path)
    assert loaded.shape == less.shape
    assert len(loaded.interactions) == len(whole.interactions) - int((TABLE.user == WHO).sum())
    same_answers(loaded, less)
    assert list(loaded.recommend("user 22", 5)) == list(less.recommend("user 22", 5))
    less.save(path, history=tmp_path / "history")
    assert len(accams.load(path, history=tmp_path / "history").interactions) == len(loaded.interactions)


def test_a_model_that_forgot_is_used_like_any_other(whole: Model, less: Model) -> None:
    back = less.update(TABLE[TABLE.user == WHO])
    assert back.users.tolist()[-1] == WHO
    assert set(back.recommend(WHO, 30)["item"]) == set(whole.recommend(WHO, 30)["item"])
    assert less.fold_in({"item 03": 4.0}).predict(["item 04"]).shape == (1,)


@pytest.mark.some(1)
def test_explanations_do_not_name_who_was_forgotten(less: Model) -> None:
    why = less.explain("user 22", "item 03")
    assert why.total() == why.prediction
    members = [x for term in why.terms for x in term.users.members]
    assert WHO not in members


def test_estimators_forget_too(tmp_path: Path) -> None:
    estimator = make(**TINY).fit(TABLE)
    assert estimator.forget(WHO) is estimator.model_
    assert WHO not in estimator.row_index_.ids
    assert estimator.stencils_.shape[0] == estimator.posterior_.shape[0] == TABLE.user.nunique() - 1


def test_users_by_position_keep_their_numbers(tmp_path: Path) -> None:
    whole, model = (make(**TINY).fit(MATRIX).model_ for _ in range(2))
    stay = [(i, j) for i in range(len(MATRIX)) if i != 7 for j in range(20)]
    model.forget(7)
    assert model.users.tolist() == [i for i in range(len(MATRIX)) if i != 7]
    np.testing.assert_array_equal(model.predict(stay), whole.predict(stay))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(accams.load(tmp_path / "m").predict(stay), whole.predict(stay))
    with pytest.raises(InputError, match="there is no user 7 in this model"):
        accams.load(tmp_path / "m").recommend(7)


@pytest.mark.parametrize("kind", ["accams", "bayesian"])
def test_users_without_data(kind: str, tmp_path: Path) -> None:
    """Those after the forgotten one move up; they stay average users, and can be forgotten themselves."""
    matrix = MATRIX.copy()
    matrix[[4, 9]] = np.nan
    model = model_of((ACCAMS(3, 4) if kind == "accams" else make(**TINY)).fit(matrix))
    stay = [(i, j) for i in range(len(MATRIX)) if i not in (4, 7) for j in range(20)]
    average = [("new", j) for j in range(20)]
    before, new = model.predict(stay), model.predict(average)
    model.forget(4)
    np.testing.assert_array_equal(model.predict(stay), before)
    np.testing.assert_array_equal(model.predict(average), new)  # it had no share in the average user
    model.forget(7)
    known = [cell for cell in stay if cell[0] != 9]
    np.testing.assert_array_equal(model.predict(known), before[[cell[0] != 9 for cell in stay]])
    np.testing.assert_array_equal(model.predict([(9, j) for j in range(20)]), model.predict(average))
    assert not np.array_equal(model.predict(average), new)  # the one that had data had a share
    assert model.users[model.stencils.unseen_rows].tolist() == [9]
    model.save(tmp_path / "m")
    loaded = accams.load(tmp_path / "m")
    assert loaded.users[loaded.stencils.unseen_rows].tolist() == [9]
    np.testing.assert_array_equal(loaded.predict(stay), model.predict(stay))


def test_several_users_one_after_another() -> None:
    model = ACCAMS(2, 3).fit(TABLE).model_
    users, stay = model.users.tolist(), [("user 59", item) for item in ITEMS]
    before = model.predict(stay)
    for user in users[:-1]:
        model.forget(user)
    assert model.users.tolist() == users[-1:]
    np.testing.assert_array_equal(model.predict(stay), before)
    assert pd.Series(model.recommend("user 59", 3)["user"]).nunique() == 1
