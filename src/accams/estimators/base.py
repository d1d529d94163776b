"""What every estimator with stencils can do once it is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.inputs import (
    known_positions,
    observations_of,
    pair_names,
    pairs_of,
    values_of,
    weights_of,
)
from accams.estimators.params import Parameters
from accams.model.stencils import StencilSum


class StencilEstimator(Parameters):
    """Prediction, scoring and saving for fitted models that consist of stencils and ids.

    A fitted model has `stencils_` (a StencilSum), `row_index_` and `col_index_` (raw ids), and
    `value_range_`.
    """

    stencils_: StencilSum
    row_index_: Index
    col_index_: Index
    value_range_: tuple[float, float]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    clip: bool | tuple[float, float]

    def predict(self, pairs: Any) -> NDArray[np.float64]:
        """Predictions for pairs of (row id, column id).

        Parameters
        ----------
        pairs : array (n, 2), list of pairs, DataFrame or Observations
            Of Observations, the stored cells are predicted, in row order.

        Returns
        -------
        array (n,)
            A row (column) that was never seen in training is predicted as the average row (column) of the
            model; if both are new, that is the model's overall average. With `clip`, within the range of the
            training values.
        """
        self._check_is_fitted()
        return self._predict_ids(*pairs_of(pairs, getattr(self, "feature_names_in_", None)))

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Negative root mean squared error (higher is better).

        ``score(pairs, y)``, ``score(observations)``, or ``score(X)`` with a table of observations or a matrix
        like the one that was fitted.
        """
        self._check_is_fitted()
        if y is None:
            X = self._true_values(X, sample_weight)
        elif isinstance(X, Observations):
            raise InputError("Observations already hold values: pass no y with them")
        rows, cols = pairs_of(X, getattr(self, "feature_names_in_", None))
        if len(rows) == 0:
            raise InputError("there are no pairs to score")
        values = X.values if y is None else values_of(y, "y", len(rows))
        weights = X.weights if y is None else weights_of(sample_weight, len(rows))
        if not np.isfinite(values).all():
            raise InputError("y has values that are missing (NaN) or infinite")
        error = self._predict_ids(rows, cols) - values
        return -float(np.sqrt(np.average(error * error, weights=weights)))

    def save(self, path: str | Path) -> None:
        """Write the model with its ids to one file; `accams.load` reads it."""
        from accams.estimators.files import save

        self._check_is_fitted()
        save(self, path)

    def _summary(self) -> dict[str, Any]:
        """Fitted attributes that a saved model keeps."""
        raise NotImplementedError

    def _more_to_save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header entries and tensors that this kind of model needs beside its stencils."""
        return {}, {}

    def _load_more(self, header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take up what `_more_to_save` gave."""

    def _keep_input(self, X: Any, y: ArrayLike | None, observations: Observations) -> None:
        """Set what every fitted model knows of the data it was given."""
        self.row_index_, self.col_index_ = observations.row_index, observations.col_index
        self.value_range_ = observations.value_range
        names = pair_names(X, y)
        self.n_features_in_ = observations.shape[1] if y is None and names is None else 2
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _true_values(self, X: Any, sample_weight: ArrayLike | None) -> Observations:
        observations = observations_of(X, None, sample_weight)
        if isinstance(X, Observations):
            return X
        if observations.row_index.is_positional and observations.shape != self.stencils_.shape:
            m, n = self.stencils_.shape
            raise InputError(
                "score needs the true values: score(pairs, y), score(observations), or a matrix with the "
                f"model's {m:,} rows and {n:,} columns"
            )
        return observations

    def _predict_ids(self, rows: NDArray[Any], cols: NDArray[Any]) -> NDArray[np.float64]:
        return self._clipped(self.stencils_.predict(*known_positions(self.row_index_, self.col_index_, rows, cols)))

    def _clipped(self, prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        checks.clip(self.clip)
        if self.clip is False:
            return prediction
        low, high = self.value_range_ if self.clip is True else self.clip
        return np.clip(prediction, low, high)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stencils_")

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
