"""How good a model is on data that it has not seen: errors, intervals, and for whom it errs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams import metrics
from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators.inputs import positions

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of intervals
LEAST = 0.01  # of the entries, in a group of their own
Floats = NDArray[np.float64]
Coverage = tuple[tuple[float, float], ...]


class Group(NamedTuple):
    """Entries of rows (columns) that had between `low` and `high` observations in training, about, and their error."""

    low: float
    high: float
    n: int
    rmse: float


@dataclass(frozen=True)
class Quality:
    """What predictions for a table of observations are worth.

    Attributes
    ----------
    n : int
        Observations.
    rmse, mae : float
    rmse_of_mean : float
        Of the model's average in place of a prediction: what any model must beat.
    coverage : tuple of (float, float)
        How much an interval should cover, and how many of the observations it does (models with draws).
    by_row, by_col : tuple of Group
        Errors by how many observations the row (column) had in training.
    """

    n: int
    rmse: float
    mae: float
    rmse_of_mean: float
    coverage: Coverage
    by_row: tuple[Group, ...]
    by_col: tuple[Group, ...]

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Quality:
        """From what `dataclasses.asdict` made of it, through JSON."""
        by_row, by_col = (
            tuple(Group(float(low), float(high), int(n), float(error)) for low, high, n, error in found[name])
            for name in ("by_row", "by_col")
        )
        coverage = tuple((float(level), float(share)) for level, share in found["coverage"])
        rmse, mae, of_mean = (float(found[name]) for name in ("rmse", "mae", "rmse_of_mean"))
        return cls(int(found["n"]), rmse, mae, of_mean, coverage, by_row, by_col)

    def covered(self, level: float) -> float | None:
        """The share of observations within intervals of this level."""
        return dict(self.coverage).get(level)


def quality_of(model: Any, observations: Observations) -> Quality:
    """What `quality` of a fitted model gives."""
    if observations.nnz == 0:
        raise InputError("there are no observations to compare predictions with")
    i, j, values = observations.coo()
    weights = observations.weights
    mean, coverage = _predicted(model, observations, values)
    squares = (mean - values) ** 2
    known = getattr(model, "activity_", None)
    groups = []
    for axis, (own, index) in enumerate(((i, observations.row_index), (j, observations.col_index))):
        there = positions((model.row_index_, model.col_index_)[axis], index.ids)
        groups.append(() if known is None else _groups(np.append(known[axis], 0.0)[there][own], squares, weights))
    average = np.full(len(values), model.stencils_.offset)
    return Quality(
        len(values), metrics.rmse(values, mean, weights), metrics.mae(values, mean, weights),
        metrics.rmse(values, average, weights), coverage, *groups,
    )  # fmt: skip


def _predicted(model: Any, observations: Observations, values: Floats) -> tuple[Floats, Coverage]:
    """Predictions, and how many of the values lie within intervals of each level."""
    if getattr(model, "posterior_", None) is None:
        return model.predict(observations), ()
    ends = [0.5 + side * level / 2.0 for level in LEVELS for side in (-1, 1)]
    mean, found = model.predict(observations, quantiles=ends)
    pairs = found.reshape(len(values), len(LEVELS), 2)
    inside = (pairs[:, :, 0] <= values[:, None]) & (values[:, None] <= pairs[:, :, 1])
    return mean, tuple((level, float(share)) for level, share in zip(LEVELS, inside.mean(axis=0), strict=True))


def _groups(activity: Floats, squares: Floats, weights: Floats | None) -> tuple[Group, ...]:
    """Errors by activity, a group for each doubling of it; small groups go with the next one."""
    doubling = np.floor(np.log2(np.maximum(activity, 0.5))).astype(int)  # never seen: -1
    found, pending = list[Group](), np.zeros(len(activity), bool)
    for level in np.unique(doubling):
        pending |= doubling == level
        last = level == doubling.max()
        if pending.sum() >= max(1.0, LEAST * len(activity)) or last:
            w = None if weights is None else weights[pending]
            low = 0.0 if doubling[pending].min() < 0 else 2.0 ** float(doubling[pending].min())
            error = float(np.sqrt(np.average(squares[pending], weights=w)))
            found.append(Group(low, 2.0 ** (float(level) + 1.0), int(pending.sum()), error))
            pending = np.zeros(len(activity), bool)
    return tuple(found)
