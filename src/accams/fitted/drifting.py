"""Compare new observations with what a model was fitted to, by raw ids."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from accams.data.deltas import latest
from accams.data.inputs import positions
from accams.fitted.parts import Parts
from accams.use.drift import Drift, drift_of
from accams.use.scoring import Positions


def drift(model: Parts, X: Any, y: ArrayLike | None = None) -> Drift:
    """Return how far these observations are from those that were fitted: see `Model.drift`."""
    choices = latest(X, y)
    given = choices.observations
    rows, cols, values = given.coo()
    i, j = positions(model.row_index, given.row_index.ids)[rows], positions(model.col_index, given.col_index.ids)[cols]
    fresh = ~_is_taken(model, i, j)
    i, j, values = i[fresh], j[fresh], values[fresh]
    errors = None
    if model.predicts and choices.valued:
        errors = model.clipped(model.moments(i, j)[0]) - values
    expected, judged = _expected(model)
    new_items = (j < 0) | np.isin(j, model.unseen[1])
    return drift_of(given.nnz, errors, i < 0, new_items, expected, judged, _share(model, len(i)))


def fitted_size(model: Parts) -> float | None:
    """Return about how many observations a model was fitted to, if it says so."""
    if model.interactions is not None:
        return float(max(len(model.interactions) - (0 if model.taken is None else model.taken.observations), 0))
    return None if model.activity is None else float(np.sum(model.activity[0] - 1.0))


def _share(model: Parts, n_new: int) -> float | None:
    size = fitted_size(model)
    before = 0 if model.taken is None else model.taken.observations
    return (before + n_new) / size if size else None


def _expected(model: Parts) -> tuple[float | None, bool]:
    """Return the error to expect, and whether it was measured on data that was not fitted."""
    if not model.predicts:
        return None, False
    if model.evaluation is not None:
        return model.evaluation.rmse, True
    if model.taken is not None and model.taken.rmse is not None:
        return model.taken.rmse, True
    return model.sigma, model.info.estimator == "BayesianACCAMS"


def _is_taken(model: Parts, i: Positions, j: Positions) -> Any:
    """Return which cells the model knows to have been observed."""
    seen, n = model.interactions, model.shape[1]
    if seen is None:
        return np.zeros(len(i), np.bool_)
    rows = np.unique(i[i >= 0])
    starts, columns = seen.of(rows)
    keys = np.repeat(rows, np.diff(starts)) * n + columns
    return (i >= 0) & (j >= 0) & np.isin(i * n + j, keys)
