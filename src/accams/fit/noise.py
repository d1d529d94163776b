"""The noise of a prediction: how far observations are from their predictions, beside the spread that these have.

It is chosen by the coverage of prediction intervals of held-out observations, not by their mean squared error: ratings
are not quite normal, and intervals by their mean squared error would be too wide.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from accams.model.scale import Scale

Floats = NDArray[np.float64]
COVERED = 0.9  # coverage of prediction intervals by which the noise is chosen,
ALL = (0.8, 0.95, 0.95)  # and those for values of a scale
MOST_STEPS = 50  # of at most so many steps
MOST_NOISE = 1.5  # times the error is the largest noise on a scale
FEW = 20  # observations as many of which the mean squared error counts


def noise_of(
    values: Floats, error: Floats, spread: Floats, precision: Floats, blended: bool, scale: Scale | None = None
) -> float:
    """Return the predictive noise, from errors at held-out observations and what spread the predictions have.

    The coverage of a handful of observations says little, so their mean squared error counts too. Where stencils are
    blended, values of a scale of few steps count as such; so do those of a `scale`, whose cut points are known.
    """
    weighted = precision > 0.0
    if not weighted.any():
        return 0.0
    values, error, spread, precision = (x[weighted] for x in (values, error, spread, precision))
    levels = np.unique(values) if blended else values[:0]
    if scale is not None:
        covering = discrete_noise(values, values - error, spread, precision, scale.values, scale.cuts)
    elif 1 < len(levels) <= MOST_STEPS:
        middles = (levels[1:] + levels[:-1]) / 2.0
        covering = discrete_noise(values, values - error, spread, precision, levels, middles)
    else:
        covering = predictive_noise(error, spread, precision)
    left = max(float(np.mean(precision * (error**2 - spread))), 0.0)
    return float(np.sqrt((len(error) * covering**2 + FEW * left) / (len(error) + FEW)))


def predictive_noise(error: Floats, spread: Floats, precision: Floats) -> float:
    """Return the noise with which normal prediction intervals of probability `COVERED` contain that many errors."""
    reach = float(ndtri(0.5 + 0.5 * COVERED)) ** 2

    def enough(noise2: float) -> bool:
        return bool(np.mean(error**2 <= reach * (spread + noise2 / precision)) >= COVERED)

    return _least(enough, 0.0, float(np.max(precision * error**2)) / reach + 1e-300)  # which contains every error


def discrete_noise(
    values: Floats, mean: Floats, spread: Floats, precision: Floats, levels: Floats, cuts: Floats
) -> float:
    """Return the noise with which as many values as they should lie within the intervals of 80 and 95 %.

    A value of a scale of few steps stands for all between two neighbouring cut points. A step that lies partly within
    an interval counts by the share of its probability that does (the randomised probability integral transform).
    """
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    at = np.searchsorted(levels, values)
    below, above = edges[at] - mean, edges[at + 1] - mean

    def enough(noise2: float) -> bool:
        scale = np.sqrt(spread + noise2 / precision)
        low, high = ndtr(below / scale), ndtr(above / scale)
        mass = np.maximum(high - low, 1e-300)
        inside = [np.clip(np.minimum(high, 0.5 + p / 2) - np.maximum(low, 0.5 - p / 2), 0.0, None) for p in ALL]
        return float(np.mean(np.sum(inside, axis=0) / mass)) >= sum(ALL)

    # With very much noise every step gets its share again: take the first noise that is enough, not any.
    noise2 = 1e-4 * float(np.mean(precision * (values - mean) ** 2)) + 1e-300
    most = MOST_NOISE**2 * float(np.mean(precision * (values - mean) ** 2))
    while noise2 < most and not enough(noise2):
        noise2 *= 1.1
    return _least(enough, 0.0, noise2) if noise2 < most else float(np.sqrt(most))


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the root of the least variance that is enough, by bisection; `high` is enough."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(np.sqrt(high))
