"""ACCAMS among scikit-learn's tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from forms import NAMES, PAIRS, VALUES, WEIGHTS, I, J
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from accams import ACCAMS, ItemACCAMS

pytestmark = [
    pytest.mark.filterwarnings("ignore:none of these ids was seen in training"),
    pytest.mark.filterwarnings("ignore:.*observations repeat a row and column"),
]

NOT_PAIRS = "passes y with a matrix of 3 columns or more; with y, X must be pairs (row id, column id)"
WIDE = [
    "check_all_zero_sample_weights_error",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
]
EXPECTED = {
    **dict.fromkeys(WIDE, NOT_PAIRS),
    "check_estimator_sparse_tag": "passes y with a sparse matrix; sparse matrices are fitted without y",
    "check_sample_weight_equivalence_on_sparse_data": "passes y with a sparse matrix",
}


@pytest.mark.some(10)
@parametrize_with_checks([ACCAMS(n_stencils=2, n_clusters=2)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


NO_VALUES = {"check_fit_idempotent": "predicts; a model of lists has no values to predict"}


@pytest.mark.some(6)
@parametrize_with_checks(
    [ItemACCAMS(4000, penalty=1.0, dropout=0.0)], expected_failed_checks=lambda _: EXPECTED | NO_VALUES
)
def test_scikit_learn_checks_of_lists(estimator: Any, check: Any) -> None:
    check(estimator)


class FirstTwoColumns(ACCAMS):
    """ACCAMS on the first two columns, so that the checks above that make wider matrices say something too."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ACCAMS:
        return super().fit(_first_two(X), y, sample_weight)

    def predict(self, pairs: Any) -> Any:
        return super().predict(_first_two(pairs))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        return super().score(_first_two(X), y, sample_weight)


def _first_two(X: Any) -> Any:
    return X[:, :2] if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind != "i" else X


EXPECTED_ON_PAIRS = {
    "check_n_features_in_after_fitting": "counts all columns, not the first two",
    "check_estimators_dtypes": "has integers too, of which the first two columns are not taken",
    "check_sample_weight_equivalence_on_dense_data": "repeats pairs, which are averaged; a weight of two counts twice",
    "check_dtype_object": "wants a TypeError for a dict; it is an InputError that says what ids may be",
    "check_estimators_pickle": "has NaN among the ids; a missing id is refused",
    **{name: EXPECTED[name] for name in EXPECTED if name not in WIDE},
}


@pytest.mark.some(8)
@parametrize_with_checks(
    [FirstTwoColumns(n_stencils=2, n_clusters=2)], expected_failed_checks=lambda _: EXPECTED_ON_PAIRS
)
def test_scikit_learn_checks_on_pairs(estimator: Any, check: Any) -> None:
    check(estimator)


# -- validation over pairs -------------------------------------------------------------------------------------

TEXT = pd.DataFrame({"user": NAMES[0][I], "item": NAMES[1][J]})
KINDS = {
    "array": PAIRS,
    "text": TEXT.to_numpy(),
    "frame": pd.DataFrame(PAIRS, columns=["client", "sku"]),
    "frame of text": TEXT,
    "list of tuples": list(zip(TEXT["user"], J.tolist(), strict=True)),
}
FOLDS = KFold(3, shuffle=True, random_state=0)


@pytest.fixture
def model() -> ACCAMS:
    return ACCAMS(n_stencils=3, n_clusters=3)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_cross_validation(kind: str, model: ACCAMS) -> None:
    X = KINDS[kind]
    scores = cross_val_score(model, X, VALUES, cv=FOLDS)
    rmse = cross_val_score(model, X, VALUES, cv=FOLDS, scoring="neg_root_mean_squared_error")
    np.testing.assert_allclose(scores, rmse, rtol=1e-12)
    np.testing.assert_allclose(scores, cross_val_score(model, PAIRS, VALUES, cv=FOLDS), atol=0.05)
    assert (scores < 0).all()
    train, test = next(iter(FOLDS.split(PAIRS)))
    by_hand = clone(model).fit(PAIRS[train], VALUES[train]).score(PAIRS[test], VALUES[test])
    if kind == "array":
        assert scores[0] == by_hand


def test_cross_validated_predictions(model: ACCAMS) -> None:
    predictions = cross_val_predict(model, PAIRS, VALUES, cv=FOLDS)
    assert predictions.shape == VALUES.shape
    assert np.sqrt(np.mean((predictions - VALUES) ** 2)) < VALUES.std()


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_grid_search(kind: str, model: ACCAMS) -> None:
    grid = {"n_clusters": np.array([1, 3]), "learning_rate": [0.2, 1.0], "refit": np.array([False])}
    search = GridSearchCV(model, grid, cv=FOLDS).fit(KINDS[kind], VALUES)
    assert search.best_params_["n_clusters"] == 3  # with one cluster there is but the mean
    assert len(search.cv_results_["mean_test_score"]) == 4
    best = clone(model).set_params(**search.best_params_).fit(KINDS[kind], VALUES)
    np.testing.assert_array_equal(search.predict(KINDS[kind]), best.predict(KINDS[kind]))
    assert search.score(KINDS[kind], VALUES) == best.score(KINDS[kind], VALUES)


def test_grid_search_with_weights(model: ACCAMS) -> None:
    search = GridSearchCV(model, {"n_clusters": [2, (3, 2)]}, cv=FOLDS)
    search.fit(PAIRS, VALUES, sample_weight=WEIGHTS)
    best = clone(model).set_params(**search.best_params_).fit(PAIRS, VALUES, WEIGHTS)
    np.testing.assert_array_equal(search.predict(PAIRS), best.predict(PAIRS))


def test_what_scikit_learn_is_told() -> None:
    tags = ACCAMS().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert not tags.target_tags.required
    assert not is_regressor(ACCAMS())
    assert repr(ACCAMS(n_clusters=3)) == "ACCAMS(n_clusters=3)"
