"""The best of several noise levels, by the errors that were measured with each."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Tried = list[list[float]]  # one list per stage


def lowest_point(levels: Floats, errors: Floats) -> tuple[float, bool]:
    """Return the minimum of the parabola through the best level and its neighbours, and whether one is missing."""
    best = int(np.argmin(errors))
    if best in (0, len(levels) - 1) or not (np.diff(levels[best - 1 : best + 2]) > 0.0).all():
        return float(levels[best]), True
    x, y = np.log(levels[best - 1 : best + 2]), errors[best - 1 : best + 2]
    curvature, slope, _ = np.polyfit(x - x[1], y, 2)
    shift = -slope / (2.0 * curvature) if curvature > 0.0 else 0.0
    return float(np.exp(x[1] + np.clip(shift, x[0] - x[1], x[2] - x[1]))), False


def smooth_lowest_point(levels: Tried, errors: Tried) -> float:
    """Return the minimum of a parabola fitted to all levels, which varies less than the best level alone.

    Each stage has its own constant, because errors fall from stage to stage.
    """
    x, y = np.log(np.concatenate(levels)), np.concatenate(errors)
    best = float(levels[-1][int(np.argmin(errors[-1]))])
    if len(np.unique(x)) < len(levels) + 2:  # clipping to the bounds has left too few distinct levels
        return best
    stage = np.repeat(np.arange(len(levels)), [len(tried) for tried in levels])
    terms = np.column_stack([(x - x.mean()) ** 2, x - x.mean(), stage[:, None] == np.arange(len(levels))])
    curvature, slope = np.linalg.lstsq(terms, y, rcond=None)[0][:2]
    if curvature <= 0.0:
        return best
    return float(np.exp(np.clip(x.mean() - slope / (2.0 * curvature), x.min(), x.max())))
