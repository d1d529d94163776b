"""Predict pairs of ids, and compare predictions with data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.inputs import known_positions, observations_of, pairs_of, values_of, weights_of
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fitted.folding import clip_answer, probabilities
from accams.fitted.knowing import informed_by
from accams.fitted.parts import Parts
from accams.model.posterior import with_spread
from accams.use.evaluation import Evaluation, evaluate

Floats = NDArray[np.float64]


class PredictingParts(Parts):
    """Parts of a model that predict by raw ids."""

    def predict(
        self, pairs: Any, *, return_std: bool = False, quantiles: Sequence[float] | None = None,
        user_features: Any = None, item_features: Any = None,
    ) -> Any:  # fmt: skip
        """Predict pairs of (user id, item id).

        Parameters
        ----------
        pairs : array (n, 2), list of pairs, DataFrame or Observations
            Of Observations, the stored cells are predicted, in row order.
        return_std : bool, default False
            Also return the standard deviation of an observation: the spread of the draws and the noise.
        quantiles : sequence of floats, optional
            Also return these quantiles of an observation, one column each.
        user_features, item_features : DataFrame, optional
            Features of users (items) that the model does not know, as for `update`.

        Returns
        -------
        array (n,), or a tuple (mean, std), (mean, quantiles) or (mean, std, quantiles)
            Mean and quantiles are clipped. An unknown user (item) is predicted as the average user (item) of the model;
            where both are unknown, that is the overall average.
        """
        self.need_values("predict")
        if return_std or quantiles is not None:
            self.need_spread("return_std" if return_std else "quantiles")
        model = informed_by(self, user_features, item_features)
        i, j = known_positions(*model.indices, *pairs_of(pairs, self.info.names))
        mean, variance = model.moments(i, j)
        return clip_answer(self, with_spread(mean, variance, np.zeros(1), return_std, quantiles), return_std)

    def predict_proba(self, pairs: Any, *, user_features: Any = None, item_features: Any = None) -> Floats:
        """Return the probability of each value of the scale, for a model of ordinal observations.

        Parameters
        ----------
        pairs, user_features, item_features : as in `predict`

        Returns
        -------
        array (n, n_values)
            In the order of ``scale.values``; ``predict_proba(pairs) @ scale.values`` is ``predict(pairs)``.

        Examples
        --------
        >>> import numpy as np
        >>> from accams import BayesianACCAMS
        >>> stars = np.random.default_rng(0).integers(1, 6, (30, 20)).astype(float)
        >>> model = BayesianACCAMS(2, 2, likelihood="ordinal", n_chains=2, n_sweeps=5, noise=1.0, random_state=0)
        >>> p = model.fit(stars).predict_proba([(0, 3)])
        >>> p.shape, round(float(p.sum()), 6), bool(abs(p @ model.model_.scale.values - model.predict([(0, 3)])) < 1e-9)
        ((1, 5), 1.0, True)
        """
        model = informed_by(self, user_features, item_features)
        i, j = known_positions(*model.indices, *pairs_of(pairs, self.info.names))
        return probabilities(model, *model.moments(i, j))

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the negative root mean squared error (higher is better).

        Parameters
        ----------
        X, y : pairs and their values
            Or X alone: Observations, a table of observations, or a matrix like the one that was fitted.
        sample_weight : array-like, optional

        Returns
        -------
        float
        """
        rows, cols, values, weights = self._truth(X, y, sample_weight, "score")
        mean = self.clipped(self.moments(*known_positions(*self.indices, rows, cols))[0])
        return -float(np.sqrt(np.average(np.square(mean - values), weights=weights)))

    def evaluate(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Evaluation:
        """Evaluate predictions on data that was not fitted: errors, coverage of intervals, errors by activity.

        With observed zeros, only stored cells count.

        Parameters
        ----------
        X, y, sample_weight
            As for `score`.

        Returns
        -------
        Evaluation
        """
        rows, cols, values, weights = self._truth(X, y, sample_weight, "evaluate")
        places = known_positions(*self.indices, rows, cols)

        def predict(i: NDArray[np.int64], j: NDArray[np.int64], levels: list[float]) -> tuple[Floats, Floats]:
            mean, ends = with_spread(*self.moments(i, j), np.zeros(1), False, levels)
            return self.clipped(mean), self.placed(ends)

        return evaluate(predict, places, values, weights, self.stencils.offset, self.activity, self.has_spread)

    def _truth(
        self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None, what: str
    ) -> tuple[NDArray[Any], NDArray[Any], Floats, Floats | None]:
        """Return user ids, item ids, values and weights to compare predictions with."""
        self.need_values(what)
        if y is not None and isinstance(X, Observations):
            raise InputError("Observations already hold values: pass no y with them")
        if y is None:
            X = self._observed(X, sample_weight, what)
        rows, cols = pairs_of(X, self.info.names)
        if len(rows) == 0:
            raise InputError(f"there are no pairs to {what}")
        values = X.values if y is None else values_of(y, "y", len(rows))
        weights = X.weights if y is None else weights_of(sample_weight, len(rows))
        if not np.isfinite(values).all():
            raise InputError("y has values that are missing (NaN) or infinite")
        return rows, cols, values, weights

    def _observed(self, X: Any, sample_weight: ArrayLike | None, what: str) -> Observations:
        observations = observations_of(X, None, sample_weight)
        (rows, cols), (m, n) = observations.shape, self.shape
        is_matrix = not isinstance(X, Observations) and observations.row_index.is_positional
        # features may have added rows and columns to the matrix that was fitted
        was_fitted = any(self.knowledge) and rows <= m and cols == self.info.training.get("n_features_in_")
        if is_matrix and (rows, cols) != (m, n) and not was_fitted:
            raise InputError(
                f"{what} needs the true values: {what}(pairs, y), {what}(observations), or a matrix with the model's "
                f"{m:,} rows and {n:,} columns"
            )
        return observations
