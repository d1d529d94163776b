"""Parameters in records: read, changed, cloned and searched as scikit-learn does with nested estimators."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from bayes_models import make, same
from forms import MATRIX, PAIRS, VALUES
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from accams import ACCAMS, BayesianACCAMS, InputError, Priors, Schedule


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """None of this is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        yield


def test_deep_and_shallow_parameters() -> None:
    model = BayesianACCAMS(priors=Priors(alpha=3.0), schedule=None)
    deep, shallow = model.get_params(), model.get_params(deep=False)
    assert len(shallow) == 16
    assert set(shallow) < set(deep)
    assert {name for name in deep if "__" in name} == {
        *(f"priors__{name}" for name in Priors().get_params()),
        *(f"schedule__{name}" for name in Schedule().get_params()),
    }
    assert (deep["priors"], deep["priors__alpha"], deep["priors__tau"]) == (Priors(alpha=3.0), 3.0, "scaled")
    assert (deep["schedule"], deep["schedule__n_sub"]) == (None, 1)  # None stands for the defaults
    assert ACCAMS().get_params() == ACCAMS().get_params(deep=False)


def test_one_setting_of_a_record_is_changed() -> None:
    priors = Priors(alpha=3.0)
    model = BayesianACCAMS(priors=priors)
    assert model.set_params(priors__beta=2.0, schedule__n_sub=4, n_chains=3) is model
    assert model.priors == Priors(alpha=3.0, beta=2.0)
    assert (model.schedule, model.n_chains) == (Schedule(n_sub=4), 3)
    assert priors == Priors(alpha=3.0)  # records are values: the one that was passed stays
    assert model.get_params()["schedule__n_sub"] == 4


def test_a_record_and_one_of_its_settings_together() -> None:
    model = BayesianACCAMS().set_params(priors=Priors(beta=2.0), priors__alpha=5.0)
    assert model.priors == Priors(alpha=5.0, beta=2.0)
    assert model.set_params(priors=None).get_params()["priors__alpha"] == 1.0


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("priors__alfa", "priors__alpha"),
        ("schedule__nsub", "schedule__n_sub"),
        ("n_chain", "n_chains"),
        ("priors__alpha__x", "priors__alpha"),
    ],
)
def test_names_that_do_not_exist(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}' .*; did you mean '{near}'"):
        BayesianACCAMS().set_params(**{name: 1})


def test_records_are_immutable_and_comparable() -> None:
    with pytest.raises(FrozenInstanceError):
        Priors().alpha = 2.0  # type: ignore[misc]
    assert Priors() == Priors(alpha=1.0) != Priors(alpha=2.0)
    assert replace(Schedule(), thin=3) == Schedule(thin=3)
    assert repr(Schedule(n_sub=[2, 1], thin=3)) == "Schedule(thin=3, n_sub=[2, 1])"
    with pytest.raises(TypeError, match="alfa"):
        Priors(alfa=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"priors__alpha": 0.0}, "alpha must be a number above 0 or a list of those, not 0.0"),
        ({"schedule__n_sub": 0}, "n_sub must be an integer of at least 1 or a list of those, not 0"),
        ({"n_chains": 0}, "n_chains must be an integer of at least 1, not 0"),
        ({"priors": Schedule()}, "priors must be .*Priors"),
    ],
)
def test_fit_says_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make().set_params(**given).fit(MATRIX)


def test_clones_have_records_of_their_own() -> None:
    model = make(alpha=[2.0, 1.0], n_sub=(2, 1))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    copy.set_params(priors__alpha=9.0)
    assert model.priors.alpha == [2.0, 1.0]
    for again in (pickle.loads(pickle.dumps(model)), clone(model)):
        assert again.priors == model.priors
        assert again.schedule == model.schedule


def test_records_and_single_settings_fit_the_same_model() -> None:
    one = BayesianACCAMS(
        3, (4, 3), noise=0.8, n_chains=2, n_sweeps=4, priors=Priors(alpha=2.0), schedule=Schedule(n_burn_in=1, thin=1)
    )
    assert same(one.fit(MATRIX), make(alpha=2.0).fit(MATRIX))


def test_grid_search_over_records() -> None:
    grid = {"priors__alpha": [0.5, 2.0], "schedule__n_sub": np.array([1, 2])}
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(make(n_stencils=2), grid, cv=folds).fit(PAIRS, VALUES)
    assert len(search.cv_results_["params"]) == 4
    assert len(set(search.cv_results_["mean_test_score"])) == 4  # each was used
    best = make(n_stencils=2).set_params(**search.best_params_)
    assert search.best_estimator_.get_params()["priors__alpha"] == search.best_params_["priors__alpha"]
    np.testing.assert_array_equal(search.predict(PAIRS), best.fit(PAIRS, VALUES).predict(PAIRS))
    whole = GridSearchCV(make(n_stencils=2), {"priors": [Priors(alpha=0.5), Priors(tau=0.1)]}, cv=folds)
    assert whole.fit(PAIRS, VALUES).best_params_["priors"] in (Priors(alpha=0.5), Priors(tau=0.1))
