"""What every estimator with stencils can do once it is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators.distilling import activity
from accams.estimators.inputs import (
    known_positions,
    observations_of,
    pair_names,
    pairs_of,
    values_of,
    weights_of,
)
from accams.estimators.params import Parameters
from accams.estimators.usable import Usable
from accams.model.codes import Codes
from accams.model.stencils import StencilSum
from accams.use.scoring import Seen

if TYPE_CHECKING:
    from accams.estimators.quality import Quality
    from accams.estimators.small import StencilModel


class StencilEstimator(Usable, Parameters):
    """Prediction, scoring and saving for fitted models that consist of stencils and ids.

    A fitted model has `stencils_` (a StencilSum), `row_index_` and `col_index_` (raw ids), and
    `value_range_`.
    """

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
        rows, cols, values, weights = self._truth(X, y, sample_weight, "score")
        error = self._predict_ids(rows, cols) - values
        return -float(np.sqrt(np.average(error * error, weights=weights)))

    def quality(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Quality:
        """How good predictions are for data that was not fitted: errors, intervals, errors by activity.

        Parameters
        ----------
        X, y, sample_weight
            As for `score`.

        Returns
        -------
        Quality
            Of a model of observed zeros, only what is stored counts.
        """
        from accams.estimators.quality import quality_of

        self._check_is_fitted()
        return quality_of(self, *self._truth(X, y, sample_weight, "quality"))

    def save(
        self, path: str | Path, *, ids: bool = True, seen: bool | str = "auto", coding: str = "auto",
        templates: str | float = "float32",
    ) -> None:  # fmt: skip
        """Write the model to one file; `accams.load` reads it.

        Parameters
        ----------
        ids : bool
            False leaves out the ids: the loaded model then knows rows and columns by their positions.
        seen : bool or "auto"
            Whether the file tells which cells were observed, so that `recommend` can leave them out: about one byte for
            each. "auto" keeps it with many draws, beside which it is little.
        coding : {"auto", "entropy", "packed"}
            Of labels: entropy-coded, or packed, so that the file is opened without decoding anything; "auto" takes
            what is smaller.
        templates : {"float32", "float16", "int8", "int4"} or float
            How template entries are stored; a number is the largest error they may have (`StencilSum.rounded`).
        """
        from accams.estimators.files import save

        self._check_is_fitted()
        save(self, path, ids, coding, templates, seen)

    def distill(
        self, max_bytes: int, *, weights: Any = "activity", random_state: Any = 0, n_threads: int | None = None,
        verbose: bool | str = "auto",
    ) -> StencilSum:  # fmt: skip
        """One stencil sum that predicts as this model does, as closely as its file of at most `max_bytes` allows.

        Parameters
        ----------
        max_bytes : int
            Of the file that `save` writes of the sum.
        weights : {"activity", "uniform"} or (array, array)
            How much a cell counts: the product of a weight of its row and one of its column. "activity" takes how many
            observations they had: cells of active rows and columns are those that are asked for most.
        random_state, n_threads, verbose
            As for fitting.

        Returns
        -------
        StencilSum
            By position; `compress` gives a model with ids. What it comes close to is the mean over all draws by their
            labels; label probabilities (`rao_blackwell`) are not looked at.
        """
        from accams.estimators.distilling import distilled

        self._check_is_fitted()
        return distilled(self, max_bytes, weights, random_state, n_threads, verbose)

    def compress(self, max_bytes: int, *, ids: bool = True, **how: Any) -> StencilModel:
        """A small model in place of this one: distilled, with its ids, and of at most `max_bytes` on disk.

        Parameters
        ----------
        max_bytes : int
            Of the file that `save(path, ids=ids)` writes.
        ids : bool
            Whether that file has the ids in it.
        how
            `weights`, `random_state`, `n_threads` and `verbose`, as for `distill`.
        """
        from accams.estimators.files import room_for_stencils, to_bytes
        from accams.estimators.small import StencilModel

        self._check_is_fitted()
        room = room_for_stencils(self, max_bytes, ids)
        while True:
            made = StencilModel.of(self, self.distill(room, **how))
            excess = len(to_bytes(made, ids)) - max_bytes
            if excess <= 0:
                return made
            room -= excess

    def refine(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, **how: Any
    ) -> StencilModel:
        """A model moved closer to data: all labels and templates of all stencils improved together.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, with rows and columns that the model knows.
        how
            `max_bytes`, `shrinkage`, `n_rounds`, `n_threads` and `verbose`, as for `accams.refine`.
        """
        from accams.estimators.refining import refine, towards
        from accams.estimators.small import StencilModel

        self._check_is_fitted()
        if len(self._sums()) > 1:
            raise InputError("refine begins with one stencil sum, and this model has many: compress it first")
        return StencilModel.of(self, refine(self.stencils_, towards(self, X, y, sample_weight), **how))

    def _sums(self) -> list[Codes]:
        """The stencil sums whose mean this model predicts."""
        return [self.stencils_.codes]

    def _summary(self) -> dict[str, Any]:
        """Fitted attributes that a saved model keeps."""
        raise NotImplementedError

    def _more_to_save(self, coding: str, templates: str | float) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header entries and tensors that this kind of model needs beside its stencils."""
        return {}, {}

    def _load_more(self, header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take up what `_more_to_save` gave."""

    def _keep_input(self, X: Any, y: ArrayLike | None, observations: Observations) -> None:
        """Set what every fitted model knows of the data it was given."""
        self.__dict__.pop("quality_", None)  # that of an earlier fit
        self.row_index_, self.col_index_ = observations.row_index, observations.col_index
        self.value_range_ = observations.value_range
        self.activity_ = activity(observations.counts(0)), activity(observations.counts(1))
        self.seen_ = Seen(observations.row_starts, observations.cols)
        self.zero_weight_ = observations.blank_weight
        names = pair_names(X, y)
        self.n_features_in_ = observations.shape[1] if y is None and names is None else 2
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _truth(
        self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None, what: str
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64], NDArray[np.float64] | None]:
        """Row ids, column ids, values and weights to compare predictions with."""
        if y is None:
            X = self._true_values(X, sample_weight, what)
        elif isinstance(X, Observations):
            raise InputError("Observations already hold values: pass no y with them")
        rows, cols = pairs_of(X, getattr(self, "feature_names_in_", None))
        if len(rows) == 0:
            raise InputError(f"there are no pairs to {'score' if what == 'score' else 'compare predictions with'}")
        values = X.values if y is None else values_of(y, "y", len(rows))
        weights = X.weights if y is None else weights_of(sample_weight, len(rows))
        if not np.isfinite(values).all():
            raise InputError("y has values that are missing (NaN) or infinite")
        return rows, cols, values, weights

    def _true_values(self, X: Any, sample_weight: ArrayLike | None, what: str) -> Observations:
        observations = observations_of(X, None, sample_weight)
        if isinstance(X, Observations):
            return X
        if observations.row_index.is_positional and observations.shape != self.stencils_.shape:
            m, n = self.stencils_.shape
            raise InputError(
                f"{what} needs the true values: {what}(pairs, y), {what}(observations), or a matrix with the model's "
                f"{m:,} rows and {n:,} columns"
            )
        return observations

    def _predict_ids(self, rows: NDArray[Any], cols: NDArray[Any]) -> NDArray[np.float64]:
        return self._clipped(self.stencils_.predict(*known_positions(self.row_index_, self.col_index_, rows, cols)))

    def _clipped(self, prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        bounds = self._bounds()
        return prediction if bounds is None else np.clip(prediction, *bounds)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in self.__dict__.items() if name not in ("_view", "_likeness")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stencils_")

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
