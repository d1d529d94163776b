"""Former names: each works, with one FutureWarning that names the new one, and gives the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bayes_models import QUICK, make, placed, same
from forms import MATRIX, PAIRS, VALUES

import accams
from accams import ACCAMS, BayesianACCAMS, Model, Priors, Schedule
from accams.settings.bayesian import MOVED

RECORDS = [name for name in QUICK if name in MOVED]


@contextmanager
def warned(*texts: str) -> Iterator[None]:
    """Assert that there is one FutureWarning, which has these texts in it and points to this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [each.category for each in caught] == [FutureWarning]
    message = str(caught[0].message)
    for text in (*texts, "deprecated", "to be removed in 0.3"):
        assert text in message
    assert caught[0].filename == __file__


@pytest.fixture(scope="module")
def estimator() -> BayesianACCAMS:
    return make().fit(MATRIX)


@pytest.fixture(scope="module")
def model(estimator: BayesianACCAMS) -> Model:
    return estimator.model_


# -- parameters ----------------------------------------------------------------------------------------------

VALUES_OF: dict[str, Any] = {
    "prior": "dirichlet", "alpha": 2.0, "beta": [2.0, 1.0], "eta": (2.0, 0.3), "sigma_max": 3.0, "row_noise": None,
    "tau": "sampled", "gamma": (5.0, 0.3), "effects": "continuous", "schedule": "backfit", "sampler": "collapsed",
    "init": "prior", "n_burn_in": 2, "thin": 2, "max_draws": 7, "n_sub": 2, "tol": 0.1, "validation_fraction": 0.2,
    "patience": 3, "rao_blackwell": True, "checkpoint_every": 9, "memory_limit": 1e9, "n_shards": 2,
}  # fmt: skip


def test_every_moved_parameter_is_tried() -> None:
    assert set(VALUES_OF) == set(MOVED)


@pytest.mark.parametrize("name", VALUES_OF)
def test_parameters_that_have_moved(name: str) -> None:
    value, place = VALUES_OF[name], MOVED[name]
    kept = 4 if name == "schedule" else value  # the visits, which n_sweeps used to give
    expected = BayesianACCAMS(n_sweeps=4).set_params(**{place: kept})
    with warned(f"{name} (now {place.replace('__', '.')})"):
        made = BayesianACCAMS(n_sweeps=4, **{name: value})
    assert made.get_params() == expected.get_params()
    changed = BayesianACCAMS(n_sweeps=4)
    with warned(f"{name} (now {place.replace('__', '.')})"):
        assert changed.set_params(**{name: value}) is changed
    assert changed.get_params() == expected.get_params()
    if name != "schedule":  # is a record now
        with warned(name, place.replace("__", ".")):
            assert getattr(made, name) == value


def test_several_at_once_are_one_warning() -> None:
    flat = {name: QUICK[name] for name in RECORDS} | {"alpha": 2.0, "prior": "dirichlet"}
    rest = {name: value for name, value in QUICK.items() if name not in RECORDS}
    with warned("alpha (now priors.alpha)", "prior (now priors.labels)", "thin (now schedule.thin)"):
        old = BayesianACCAMS(**rest, **flat)
    new = BayesianACCAMS(**rest).set_params(**placed(alpha=2.0, labels="dirichlet", n_burn_in=1, thin=1))
    assert same(old.fit(MATRIX), new.fit(MATRIX))


@pytest.mark.parametrize(("given", "visits"), [({}, 20), ({"n_sweeps": 7}, 7), ({"schedule": "gibbs"}, None)])
def test_words_for_the_schedule(given: dict[str, Any], visits: int | None) -> None:
    with warned("schedule (now schedule.backfit)"):
        model = BayesianACCAMS(**{"schedule": "backfit", **given})
    assert model.get_params()["schedule__backfit"] == visits


def test_new_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BayesianACCAMS(priors=Priors(alpha=2.0), schedule=Schedule(thin=2)).set_params(schedule=None, priors=Priors())


# -- attributes and methods ----------------------------------------------------------------------------------

FORMER = {
    "stencils_": "stencils", "posterior_": "posterior", "row_index_": "row_index", "col_index_": "col_index",
    "value_range_": "value_range", "activity_": "activity", "seen_": "interactions", "history_": "fit_history",
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), FORMER.items())
def test_parts_of_models(old: str, new: str, model: Model, estimator: BayesianACCAMS) -> None:
    with warned(old, f"use Model.{new}"):
        assert getattr(model, old) is getattr(model, new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(estimator, old) is getattr(model, new)  # estimators keep these names


@pytest.mark.parametrize(("old", "new"), [("quality_", "evaluation"), ("zero_weight_", "zero_weight")])
def test_parts_that_may_be_missing(old: str, new: str, model: Model) -> None:
    with warned(old, f"use Model.{new}"):
        assert getattr(model, old) is getattr(model, new) is None


@pytest.mark.parametrize("name", ["sigma_", "predictive_sigma_", "n_sweeps_", "n_stencils_", "train_rmse_", "engine_"])
def test_what_the_fit_reported(name: str, model: Model, estimator: BayesianACCAMS) -> None:
    with warned(name, f"use Model.info.training[{name!r}]"):
        assert getattr(model, name) == getattr(estimator, name)


def test_a_stencil_sum_in_a_file(tmp_path: Path, estimator: BayesianACCAMS) -> None:
    estimator.stencils_.save(tmp_path / "sum")
    loaded = accams.load(tmp_path / "sum")
    with warned("dense", "use Model.stencils.dense"):
        np.testing.assert_array_equal(loaded.dense(), estimator.stencils_.dense())


def same_as(old: Callable[[], Any], new: Callable[[], Any], *texts: str) -> None:
    with warned(*texts):
        found = old()
    assert found == new()


def test_quality(model: Model, estimator: BayesianACCAMS) -> None:
    for each in (model, estimator):
        same_as(
            lambda e=each: e.quality(PAIRS, VALUES), lambda e=each: e.evaluate(PAIRS, VALUES), "quality", "evaluate"
        )


@pytest.mark.parametrize(("old", "new"), [("rows", "users"), ("cols", "items"), ("columns", "items")])
def test_sides(old: str, new: str, model: Model, estimator: BayesianACCAMS) -> None:
    use = f"use side='{new}'"
    same_as(lambda: list(model.similar(3, side=old)), lambda: list(model.similar(3, side=new)), f"side='{old}'", use)
    same_as(lambda: str(model.hierarchy(2, old)), lambda: str(model.hierarchy(2, new)), f"side='{old}'", use)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.similar(3, side=old)
    assert [(each.category, each.filename) for each in caught] == [(FutureWarning, __file__)]


def test_warnings_point_to_the_call(model: Model, estimator: BayesianACCAMS) -> None:
    """Whether it reaches the model through an estimator or not."""
    for each in (model, estimator):
        for call in (lambda: each.predict([("nobody", "nothing")]), lambda: each.recommend(3, 10_000)):  # noqa: B023
            with pytest.warns(UserWarning, match=r"none of these ids|there are no more") as caught:
                call()
            assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(("old", "new"), [("rows", "user"), ("cols", "item"), ("items", "item"), ("users", "user")])
def test_sides_of_who_is_new(old: str, new: str, model: Model) -> None:
    history = {3: 4.0, 5: 1.0}
    with warned("side of fold_in is deprecated", "new='user' or new='item'"):
        guest = model.fold_in(history, side=old)
    np.testing.assert_array_equal(guest.predict([1, 2]), model.fold_in(history, new=new).predict([1, 2]))
    same_as(lambda: guest.columns.tolist(), lambda: guest.items.tolist(), "columns", "use items")


def test_recommendations(model: Model) -> None:
    first = model.recommend(3, 1)[0]
    same_as(lambda: first.row, lambda: first.user, "row", "use user")
    same_as(lambda: first.col, lambda: first.item, "col", "use item")


@pytest.mark.parametrize("keep", [True, False])
def test_saving_what_was_seen(keep: bool, model: Model, tmp_path: Path) -> None:
    with warned("seen of save is deprecated", "use history"):
        model.save(tmp_path / "old", seen=keep)
    model.save(tmp_path / "new", history=keep)
    assert (tmp_path / "old").read_bytes() == (tmp_path / "new").read_bytes()


def test_names_that_never_were(model: Model, estimator: BayesianACCAMS) -> None:
    for each in (model, estimator, ACCAMS()):
        with pytest.raises(AttributeError, match="no attribute 'nonsense_'"):
            each.nonsense_  # noqa: B018
    assert not hasattr(ACCAMS(), "alpha")  # of the other estimator
