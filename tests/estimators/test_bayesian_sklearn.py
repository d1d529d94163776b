"""BayesianACCAMS among scikit-learn's tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bayes_models import make, placed
from forms import PAIRS, VALUES, WEIGHTS
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_sklearn import EXPECTED, EXPECTED_ON_PAIRS, FOLDS, KINDS, _first_two

from accams import BayesianACCAMS, Priors

pytestmark = pytest.mark.filterwarnings("ignore:none of these ids was seen in training")
TINY = placed(n_stencils=1, n_clusters=2, n_chains=1, n_sweeps=2, n_burn_in=0, thin=1, noise=0.8, init="prior")


@pytest.mark.some(14)
@parametrize_with_checks([BayesianACCAMS().set_params(**TINY)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


class FirstTwoColumns(BayesianACCAMS):
    """On the first two columns, so that the checks that make wider matrices say something too."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianACCAMS:  # type: ignore[override]
        return super().fit(_first_two(X), y, sample_weight)

    def predict(self, pairs: Any) -> Any:  # type: ignore[override]
        return super().predict(_first_two(pairs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        return super().score(_first_two(X), y, sample_weight)


@pytest.mark.some(8)
@parametrize_with_checks([FirstTwoColumns().set_params(**TINY)], expected_failed_checks=lambda _: EXPECTED_ON_PAIRS)
def test_scikit_learn_checks_on_pairs(estimator: Any, check: Any) -> None:
    check(estimator)


# -- validation over pairs -------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_cross_validation(kind: str) -> None:
    X, model = KINDS[kind], make(n_stencils=2)
    scores = cross_val_score(model, X, VALUES, cv=FOLDS)
    rmse = cross_val_score(model, X, VALUES, cv=FOLDS, scoring="neg_root_mean_squared_error")
    np.testing.assert_allclose(scores, rmse, rtol=1e-12)
    assert ((scores > -1.5) & (scores < 0)).all()
    if kind == "array":
        train, test = next(iter(FOLDS.split(PAIRS)))
        assert scores[0] == clone(model).fit(PAIRS[train], VALUES[train]).score(PAIRS[test], VALUES[test])


def test_cross_validated_predictions() -> None:
    predictions = cross_val_predict(make(n_sweeps=20, noise=1.0), PAIRS, VALUES, cv=FOLDS)
    assert np.sqrt(np.mean((predictions - VALUES) ** 2)) < VALUES.std()


def test_grid_search() -> None:
    grid = {
        "n_clusters": np.array([1, 3]),
        "noise": [0.9, np.float64(20.0)],
        "schedule__rao_blackwell": np.array([False]),
    }
    search = GridSearchCV(make(n_sweeps=10), grid, cv=FOLDS).fit(PAIRS, VALUES)
    assert search.best_params_["n_clusters"] == 3  # with one cluster there is but the mean
    assert search.best_params_["noise"] == 0.9  # with so much noise too
    assert len(search.cv_results_["mean_test_score"]) == 4
    best = clone(search.best_estimator_).fit(PAIRS, VALUES)
    np.testing.assert_array_equal(search.predict(PAIRS), best.predict(PAIRS))
    assert search.score(PAIRS, VALUES) == best.score(PAIRS, VALUES)


def test_grid_search_with_weights() -> None:
    search = GridSearchCV(make(), {"n_clusters": [2, (3, 2)]}, cv=FOLDS).fit(PAIRS, VALUES, sample_weight=WEIGHTS)
    best = make(**search.best_params_).fit(PAIRS, VALUES, WEIGHTS)
    np.testing.assert_array_equal(search.predict(PAIRS), best.predict(PAIRS))


def test_clones() -> None:
    model = make(alpha=[2.0, 1.0], n_sub=(2, 1), clip=(1, 4), eta=(2.0, 0.3), checkpoint="never")
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    changed = BayesianACCAMS(n_clusters=3, priors=Priors(alpha=[2.0]))
    assert repr(changed) == "BayesianACCAMS(n_clusters=3, priors=Priors(alpha=[2.0]))"
    assert clone(BayesianACCAMS.paper()).get_params() == BayesianACCAMS.paper().get_params()


def test_what_scikit_learn_is_told() -> None:
    tags = BayesianACCAMS().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert not tags.target_tags.required
    assert not is_regressor(BayesianACCAMS())
