"""What every estimator takes for data, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from forms import MATRIX, PAIRS, VALUES, WEIGHTS, I, J, M, N, forms
from scipy import sparse

from accams import InputError, Observations
from accams.estimators.base import StencilEstimator
from accams.fitted.model import Model
from accams.model.stencils import StencilSum

FORMS = forms()


def model_of(fitted: Any) -> Model:
    """Return the model of a fitted estimator, or the model itself."""
    return fitted if isinstance(fitted, Model) else fitted.model_


def same_sums(one: StencilSum, two: StencilSum) -> bool:
    """Whether two models are equal, bit for bit."""
    parts = zip(one.stencils, two.stencils, strict=False)
    return (one.shape, one.offset, len(one)) == (two.shape, two.offset, len(two)) and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in parts
        for name in ("template", "row_labels", "col_labels")
    )


def plain_params(estimator: Any) -> dict[str, Any]:
    """Return all parameters by name, less the records, of which None stands for the defaults."""
    return {name: x for name, x in estimator.get_params().items() if name not in ("priors", "schedule")}


class InputTests:
    """Tests of `fit` on all kinds of data; a subclass overrides `make`."""

    def make(self, **parameters: Any) -> StencilEstimator:
        """A small, quick estimator with these parameters changed."""
        raise NotImplementedError

    def same(self, one: Any, two: Any) -> bool:
        """Whether two fitted estimators or models are equal, bit for bit."""
        return same_sums(model_of(one).stencils, model_of(two).stencils)

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls) -> Any:
        """A model of the matrix as an array, only to be read."""
        return cls().make().fit(MATRIX)

    @pytest.mark.some(11)
    @pytest.mark.parametrize("name", FORMS)
    def test_every_form_of_the_same_data_gives_the_same_model(self, name: str, reference: Any) -> None:
        form = FORMS[name]
        model = self.make().fit(*form.fit)
        assert self.same(model, reference)
        np.testing.assert_array_equal(model.predict(form.pairs), reference.predict(PAIRS))
        columns = 2 if len(form.fit) == 2 or "table" in name else N
        assert model.n_features_in_ == columns

    def test_weights_in_every_form(self) -> None:
        cells = np.full((M, N), np.nan)
        cells[I, J] = WEIGHTS
        stored, weights = (sparse.csr_array(np.nan_to_num(x)) for x in (MATRIX, cells))
        table = pd.DataFrame({"user": I, "item": J, "rating": VALUES, "w": WEIGHTS})
        expected = self.make().fit(Observations.from_coo(I, J, VALUES, weights=WEIGHTS))
        for model in (
            self.make().fit(PAIRS, VALUES, sample_weight=WEIGHTS),
            self.make().fit(PAIRS, VALUES, WEIGHTS.tolist()),
            self.make().fit(PAIRS, VALUES, pd.Series(WEIGHTS)),
            self.make().fit(MATRIX, sample_weight=np.nan_to_num(cells)),
            self.make().fit(stored, sample_weight=weights),
            self.make().fit(Observations.from_frame(table, weight="w")),
        ):
            assert self.same(model, expected)
        assert not self.same(expected, self.make().fit(MATRIX))

    def test_a_weight_of_two_is_the_observation_twice(self) -> None:
        twice = self.make().fit(PAIRS, VALUES, np.full(len(VALUES), 2.0))
        assert self.same(twice, self.make().fit(PAIRS, VALUES))

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.empty((0, 3)), "no observations"),
            (np.empty((3, 0)), "no observations"),
            (pd.DataFrame(), "no observations"),
            (sparse.csr_array((3, 3)), "no observations"),
            (np.full((3, 3), np.nan), "every cell is NaN"),
            (np.array([[1.0, np.inf]]), "is inf"),
            (np.array([[1.0, -1e300]]), "rescale"),
            (np.array([[1.0, 1.0 + 0j]]), "Complex data not supported"),
            (np.array([["a", "b"]]), "'a' is not a number"),
            (pd.DataFrame({"a": [1.0], "b": ["x"]}), "column 'b' of the matrix is not numeric"),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), "names must differ"),
            (pd.DataFrame({"user": [1], "item": [2]}), "pass value='...' to Observations.from_frame"),
            (pl.DataFrame({"a": [1.0]}).lazy(), "collect it first"),
            (np.zeros((2, 2, 2)), "3D array"),
            (np.zeros(4), "1D array"),
            ([[1.0, 2.0], [3.0]], "not equally long"),
            ("ratings.csv", r"from_file\('ratings.csv'\)"),
            (None, "Expected 2D array"),
            (3.0, "Expected 2D array"),
        ],
    )
    def test_data_that_cannot_be_fitted(self, X: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.make().fit(X)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (PAIRS, VALUES[:-1], "pairs but"),
            (PAIRS, np.stack([VALUES, VALUES], axis=1), "one column"),
            (PAIRS, 3.0, "one column"),
            (PAIRS, np.where(I == 0, np.nan, VALUES), r"row 0, column 0 is missing"),
            (PAIRS, ["five"] * len(I), "'five' is not a number"),
            (MATRIX, MATRIX[:, 0], "pairs must have two columns"),
            (MATRIX[:, :1], MATRIX[:, 0], r"1 feature\(s\) .* minimum of 2"),
            (pd.DataFrame(MATRIX), MATRIX[:, 0], "pairs must have two columns"),
            (sparse.csr_array(np.eye(3)), np.ones(3), "Sparse data was passed where pairs"),
            (I, VALUES, "Expected 2D array of pairs"),
            ([], [], "no observations"),
            ([[0, 1], [None, 1]], [1, 2], "row id is missing"),
            ([[{}, 1], [0, 1]], [1, 2], "ids must be numbers, text"),
            (np.ones((2, 2)) * 1j, [1, 2], "Complex data not supported"),
            (Observations.from_dense(MATRIX), VALUES, "already hold values"),
        ],
    )
    def test_pairs_that_cannot_be_fitted(self, X: Any, y: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.make().fit(X, y)

    @pytest.mark.parametrize(
        ("X", "y", "weights", "message"),
        [
            (PAIRS, VALUES, WEIGHTS[:-1], "pairs but"),
            (PAIRS, VALUES, -WEIGHTS, "not negative"),
            (PAIRS, VALUES, 0 * WEIGHTS, "zero"),
            (PAIRS, VALUES, ["x"] * len(I), "not a number"),
            (MATRIX, None, np.ones(M), "weights have shape"),
            (sparse.csr_array(np.eye(3)), None, np.ones(3), "sparse matrix of the same cells"),
            (Observations.from_dense(MATRIX), None, WEIGHTS, "already hold values and weights"),
            (FORMS["polars table"].fit[0], None, WEIGHTS, "weights as a column"),
        ],
    )
    def test_weights_that_cannot_be_used(self, X: Any, y: Any, weights: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.make().fit(X, y, sample_weight=weights)

    def test_a_failed_fit_leaves_the_fitted_model_as_it_was(self, reference: Any) -> None:
        model = self.make().fit(MATRIX)
        with pytest.raises(InputError):
            model.fit(np.array([[1.0, np.inf]]))
        assert self.same(model, reference)
