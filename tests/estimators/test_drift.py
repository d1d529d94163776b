"""Drift: new observations beside those that were fitted, and whether to fit again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from shared_inputs import model_of

from accams import ACCAMS, Drift, InputError, ItemACCAMS, Model
from accams.use.drift import ENOUGH, drift_of

M, N = 60, 30


def ratings(seed: int, share: float) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows, cols = np.nonzero(random.random((M, N)) < share)
    values = 3.0 + np.where(rows % 2 == cols % 2, 0.8, -0.8) + random.normal(0, 0.4, len(rows))
    values = np.clip(np.rint(4 * values) / 4, 1.5, 4.5)
    return pd.DataFrame({"user": rows, "item": cols, "rating": values})


OLD = ratings(0, 0.6)
LATER = ratings(1, 0.5).merge(OLD[["user", "item"]], how="left", indicator=True).query("_merge == 'left_only'")
LATER = LATER.drop(columns="_merge").reset_index(drop=True).iloc[:200]


@pytest.fixture(scope="module")
def model() -> Model:
    fitted = model_of(ACCAMS(3, 3, learning_rate=0.5).fit(OLD))
    return replace(fitted, evaluation=fitted.evaluate(LATER))


def test_the_same_as_before(model: Model) -> None:
    found = model.drift(LATER)
    assert isinstance(found, Drift)
    assert (found.n, found.n_new, found.new_users, found.new_items) == (200, 200, 0.0, 0.0)
    assert found.rmse == pytest.approx(-model.score(LATER))
    assert found.expected == model.evaluation.rmse
    assert found.rmse_new is None
    assert found.share == pytest.approx(200 / len(OLD))
    assert not found.refit
    assert found.reason == "new observations are few, and much like those that were fitted"


def test_other_values(model: Model) -> None:
    other = LATER.assign(rating=np.clip(LATER.rating + 1.0, *model.value_range))
    found = model.drift(other)
    assert found.refit
    assert "predictions of new observations are off by" in found.reason
    assert not model.drift(other.iloc[: ENOUGH - 1]).refit  # too few to say
    unmeasured = replace(model, evaluation=None)
    assert unmeasured.drift(other).expected == model.sigma
    assert not unmeasured.drift(other).refit  # the error on what was fitted says nothing


def test_unknown_users_and_items(model: Model) -> None:
    users = model.drift(LATER.assign(user=LATER.user + 1000))
    assert (users.new_users, users.new_items, users.rmse) == (1.0, 0.0, None)
    assert users.rmse_new is not None
    assert users.refit
    numbers = np.arange(200)
    items = model.drift(LATER.assign(item=np.where(numbers % 4 == 0, 1000 + numbers, LATER.item)))
    assert items.new_items == 0.25
    assert "of items that the model does not know" in items.reason
    few = model.drift(LATER.assign(item=np.where(numbers % 8 == 0, 1000 + numbers, LATER.item)))
    assert not few.refit


def test_what_was_taken_in_is_new_no_more(model: Model) -> None:
    updated = model.update(LATER, history="model")
    again = updated.drift(LATER)
    assert (again.n, again.n_new, again.rmse) == (200, 0, None)
    assert again.share == pytest.approx(200 / len(OLD))
    assert again.expected == model.evaluation.rmse  # kept for that
    more = updated.drift(OLD.assign(user=OLD.user + 1000).iloc[:40])
    assert more.share == pytest.approx(240 / len(OLD))
    assert "new observations are 22% of those that were fitted" in more.reason


def test_models_of_lists() -> None:
    lists = ItemACCAMS(max_bytes=3000, penalty=5.0).fit(OLD)
    found = lists.drift(LATER)
    assert (found.rmse, found.expected, found.refit) == (None, None, False)
    assert found.share == pytest.approx(200 / len(OLD))


def test_bad_input(model: Model) -> None:
    with pytest.raises(InputError):
        model.drift("feedback.log")


def test_the_bound_is_not_crossed_by_chance() -> None:
    """Errors of nine tenths of the expected size: 1.1 times it is 7 standard errors away, a false alarm in 10^11."""
    random = np.random.default_rng(0)
    none = np.zeros(400, bool)
    for _ in range(200):
        assert not drift_of(400, 0.9 * random.normal(size=400), none, none, 1.0, True, None).refit
