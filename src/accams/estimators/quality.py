"""How good a model is on data that it has not seen: errors, intervals, and for whom it errs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams import metrics
from accams.estimators.inputs import known_positions

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of intervals
LEAST = 0.01  # of the entries, in a group of their own
Floats = NDArray[np.float64]
Coverage = tuple[tuple[float, float], ...]


class Group(NamedTuple):
    """Entries of rows (columns) that had at least `low` and less than `high` observations in training, about."""

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
        Errors by how many observations the row (column) had in training; those that had none are a group of their own.
    new : (float, float)
        Share of the observations whose row (column) the model does not know.
    """

    n: int
    rmse: float
    mae: float
    rmse_of_mean: float
    coverage: Coverage
    by_row: tuple[Group, ...]
    by_col: tuple[Group, ...]
    new: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Quality:
        """From what `dataclasses.asdict` made of it, through JSON; refuses what cannot be."""
        by_row, by_col = (
            tuple(Group(float(low), float(high), int(n), float(error)) for low, high, n, error in found[name])
            for name in ("by_row", "by_col")
        )
        coverage = tuple((float(level), float(share)) for level, share in found["coverage"])
        rmse, mae, of_mean = (float(found[name]) for name in ("rmse", "mae", "rmse_of_mean"))
        rows, cols = found.get("new", (0.0, 0.0))  # not in the first files that had a quality
        new = float(rows), float(cols)
        errors = [rmse, mae, of_mean, *(group.rmse for group in (*by_row, *by_col))]
        shares = [*new, *(x for pair in coverage for x in pair)]
        counts = [int(found["n"]), *(group.n for group in (*by_row, *by_col))]
        if min(counts) < 1 or not all(0.0 <= x < np.inf for x in errors) or not all(0.0 <= x <= 1.0 for x in shares):
            raise ValueError("its quality makes no sense")
        if not all(0.0 <= group.low < group.high < np.inf for group in (*by_row, *by_col)):
            raise ValueError("its quality makes no sense")
        return cls(counts[0], rmse, mae, of_mean, coverage, by_row, by_col, new)

    def covered(self, level: float) -> float | None:
        """The share of observations within intervals of this level."""
        return dict(self.coverage).get(level)


def quality_of(model: Any, rows: NDArray[Any], cols: NDArray[Any], values: Floats, weights: Floats | None) -> Quality:
    """What `quality` of a fitted model gives for these ids and values."""
    places = known_positions(model.row_index_, model.col_index_, rows, cols)
    mean, coverage = _predicted(model, places, values, weights)
    squares, known = (mean - values) ** 2, getattr(model, "activity_", None)
    by_row, by_col = (
        () if known is None else _groups(np.append(known[axis], 1.0)[place], squares, weights)
        for axis, place in enumerate(places)
    )
    average = np.full(len(values), model.stencils_.offset)
    return Quality(
        len(values), metrics.rmse(values, mean, weights), metrics.mae(values, mean, weights),
        metrics.rmse(values, average, weights), coverage, by_row, by_col,
        (float(np.mean(places[0] < 0)), float(np.mean(places[1] < 0))),
    )  # fmt: skip


def _predicted(model: Any, places: Any, values: Floats, weights: Floats | None) -> tuple[Floats, Coverage]:
    """Predictions, and how many of the values lie within intervals of each level."""
    posterior = getattr(model, "posterior_", None)
    if posterior is None:
        return model._clipped(model.stencils_.predict(*places)), ()
    ends = [0.5 + side * level / 2.0 for level in LEVELS for side in (-1, 1)]
    mean, found = map(model._clipped, posterior.predict(*places, quantiles=ends))
    pairs = found.reshape(len(values), len(LEVELS), 2)
    inside = (pairs[:, :, 0] <= values[:, None]) & (values[:, None] <= pairs[:, :, 1])
    shares = np.average(inside, axis=0, weights=weights)
    return mean, tuple((level, float(share)) for level, share in zip(LEVELS, shares, strict=True))


def _groups(activity: Floats, squares: Floats, weights: Floats | None) -> tuple[Group, ...]:
    """Errors by activity, which is one more than the number of observations: a group for each doubling of it.

    Small groups go with the next one, a small last one with that before; those without observations stay apart.
    """
    doubling = np.floor(np.log2(activity) + 1e-9).astype(int)
    parts, pending = list[NDArray[np.bool_]](), np.zeros(len(activity), bool)
    for level in np.unique(doubling):
        pending = pending | (doubling == level)
        if level == 0 or pending.sum() >= LEAST * len(activity):
            parts.append(pending)
            pending = np.zeros(len(activity), bool)
    if pending.any():
        joins = len(parts) > 0 and doubling[parts[-1]].max() > 0
        parts = [*parts[:-1], parts[-1] | pending] if joins else [*parts, pending]
    return tuple(_group(part, doubling[part], squares, weights) for part in parts)


def _group(inside: NDArray[np.bool_], doubling: NDArray[np.int64], squares: Floats, weights: Floats | None) -> Group:
    w = None if weights is None or not weights[inside].any() else weights[inside]
    error = float(np.sqrt(np.average(squares[inside], weights=w)))
    return Group(
        2.0 ** float(doubling.min()) - 1.0, 2.0 ** (float(doubling.max()) + 1.0) - 1.0, int(inside.sum()), error
    )
