"""Evaluate predictions on held-out data: errors, coverage of intervals, errors by activity."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from accams import metrics
from accams.html import html_table

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of intervals
LEAST = 0.01  # share of the entries in the smallest group
Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Predictor = Callable[[Positions, Positions, list[float]], tuple[Floats, Floats]]
Coverage = tuple[tuple[float, float], ...]


class ActivityGroup(NamedTuple):
    """Entries whose row (column) had at least `low` and less than `high` training observations, approximately."""

    low: float
    high: float
    n: int
    rmse: float


@dataclass(frozen=True)
class Evaluation:
    """Errors and coverage of predictions on held-out data.

    Attributes
    ----------
    n : int
        Observations.
    rmse, mae : float
    rmse_of_mean : float
        RMSE of predicting the model's average everywhere, the baseline.
    coverage : tuple of (float, float)
        Nominal level of an interval and the share of observations inside (models with a predictive spread).
    by_row, by_col : tuple of ActivityGroup
        Errors by the number of training observations of the row (column); those without any form a group.
    new : (float, float)
        Share of the observations whose row (column) is unknown to the model.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> evaluation = model.evaluate([[0, 0], [3, 2]], [1.0, 4.0])
    >>> evaluation.n, bool(evaluation.rmse < 0.01)
    (2, True)
    """

    n: int
    rmse: float
    mae: float
    rmse_of_mean: float
    coverage: Coverage
    by_row: tuple[ActivityGroup, ...]
    by_col: tuple[ActivityGroup, ...]
    new: tuple[float, float] = (0.0, 0.0)

    def _repr_html_(self) -> str:
        rows = {"observations": f"{self.n:,}", "RMSE": f"{self.rmse:.4f}", "MAE": f"{self.mae:.4f}"}
        rows["RMSE of the mean"] = f"{self.rmse_of_mean:.4f}"
        rows |= {f"in {level:.0%} intervals": f"{share:.1%}" for level, share in self.coverage}
        return html_table("evaluation", rows)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild from the JSON of `dataclasses.asdict`; raise ValueError for an invalid record.

        Parameters
        ----------
        record : dict

        Returns
        -------
        Evaluation
        """
        by_row, by_col = (
            tuple(ActivityGroup(float(low), float(high), int(n), float(error)) for low, high, n, error in record[name])
            for name in ("by_row", "by_col")
        )
        groups = (*by_row, *by_col)
        coverage = tuple((float(level), float(share)) for level, share in record["coverage"])
        n, rmse, mae, of_mean = int(record["n"]), *(float(record[name]) for name in ("rmse", "mae", "rmse_of_mean"))
        rows, cols = record.get("new", (0.0, 0.0))  # missing in the first files of format 1
        new = float(rows), float(cols)
        if not (
            all(0.0 <= x < np.inf for x in (rmse, mae, of_mean, *(group.rmse for group in groups)))
            and all(0.0 <= x <= 1.0 for x in (*new, *(x for pair in coverage for x in pair)))
            and all(count >= 1 for count in (n, *(group.n for group in groups)))
            and all(0.0 <= group.low < group.high < np.inf for group in groups)
        ):
            raise ValueError("invalid evaluation record")
        return cls(n, rmse, mae, of_mean, coverage, by_row, by_col, new)

    def covered(self, level: float) -> float | None:
        """Return the share of observations inside intervals of this level.

        Parameters
        ----------
        level : float
            One of those in `coverage`, such as 0.9.

        Returns
        -------
        float or None
            None for another level, or a model without a predictive spread.
        """
        return dict(self.coverage).get(level)


def evaluate(
    predict: Predictor, places: tuple[Positions, Positions], values: Floats, weights: Floats | None, average: float,
    activity: tuple[Floats, Floats] | None, intervals: bool,
) -> Evaluation:  # fmt: skip
    """Evaluate predictions at these positions (-1: unknown).

    `predict` takes positions and quantiles, and returns the mean and, with quantiles, the values of those.
    """
    coverage: Coverage = ()
    if intervals:
        ends = [0.5 + side * level / 2.0 for level in LEVELS for side in (-1, 1)]
        mean, quantiles = predict(*places, ends)
        bounds = quantiles.reshape(len(values), len(LEVELS), 2)
        inside = (bounds[:, :, 0] <= values[:, None]) & (values[:, None] <= bounds[:, :, 1])
        shares = np.average(inside, axis=0, weights=weights)
        coverage = tuple((level, float(share)) for level, share in zip(LEVELS, shares, strict=True))
    else:
        mean, _ = predict(*places, [])
    squares = (mean - values) ** 2
    by_row, by_col = (
        () if activity is None else _groups(np.append(activity[axis], 1.0)[place], squares, weights)
        for axis, place in enumerate(places)
    )
    return Evaluation(
        len(values), metrics.rmse(values, mean, weights), metrics.mae(values, mean, weights),
        metrics.rmse(values, np.full(len(values), average), weights), coverage, by_row, by_col,
        (float(np.mean(places[0] < 0)), float(np.mean(places[1] < 0))),
    )  # fmt: skip


def _groups(activity: Floats, squares: Floats, weights: Floats | None) -> tuple[ActivityGroup, ...]:
    """Group errors by activity (observations plus one): a group for each doubling.

    Small groups are merged with the next one, a small last one with the one before; entries of rows (columns) without
    observations stay apart.
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
    groups = list[ActivityGroup]()
    for inside in parts:
        w = None if weights is None or not weights[inside].any() else weights[inside]
        error = float(np.sqrt(np.average(squares[inside], weights=w)))
        low, high = (2.0 ** float(x) - 1.0 for x in (doubling[inside].min(), doubling[inside].max() + 1))
        groups.append(ActivityGroup(low, high, int(inside.sum()), error))
    return tuple(groups)
