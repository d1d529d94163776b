"""Fit the scale of ratings to held-out observations: cut points between their values on the scale of the model."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr

from accams.model.scale import Scale

Floats = NDArray[np.float64]
BINS = 200  # groups of observations whose predictions are nearly the same
PRIOR = 500.0  # observations as many of which the scale counts that was there before,
MEAN_PRIOR = 2000.0  # and for the mean, the one with the highest likelihood: a squared error tells less
SMALLEST = 1e-12  # probability, so that its logarithm is finite
LEAST_GAP = 1e-3  # of the range of values, between two cut points


def fit_scale(x: Floats, values: Floats, weights: Floats, before: Scale) -> Scale:
    """Return a scale for predictions x of observed values.

    The cut points for probabilities have the highest likelihood, those for the mean the lowest squared error. Where
    observations are few, both stay near the scale that was there `before`.
    """
    low, unit = float(before.values[0]), float(np.ptp(before.values))
    levels = np.searchsorted(before.values, values)
    found = _fitted((x - low) / unit, levels, weights, before.moved(-low / unit, 1.0 / unit))  # whatever the units are
    return replace(found.moved(low, unit), values=before.values)


def _fitted(x: Floats, levels: NDArray[np.int64], weights: Floats, before: Scale) -> Scale:
    """Return the scale for predictions of values from 0 to 1, which are given by their places."""
    at, seen = binned(x, levels, weights, len(before.values))
    share = seen.sum(axis=1, keepdims=True) / seen.sum()
    counted = seen + PRIOR * share * before.probabilities(at)

    def log_loss(parameters: Floats) -> float:
        p = np.diff(ndtr(_ends(at, *_cuts(parameters))), axis=1)
        return -float(np.sum(counted * np.log(np.maximum(p, SMALLEST))) / counted.sum())

    likely = _lowest(log_loss, _packed(before))
    cuts, spread = _cuts(likely)
    scale = replace(before, cuts=cuts, spread=spread, latents=_latents(at, counted, cuts, spread))
    known, prior = seen.sum(axis=1), MEAN_PRIOR * share[:, 0]
    means = (seen @ before.values + prior * scale.mean(at)) / (known + prior)

    def squared_loss(parameters: Floats) -> float:
        near = replace(scale, mean_cuts=(both := _cuts(parameters))[0], mean_spread=both[1])
        return float(np.average((near.mean(at) - means) ** 2, weights=known + prior))

    mean_cuts, mean_spread = _cuts(_lowest(squared_loss, likely))
    return replace(scale, mean_cuts=mean_cuts, mean_spread=mean_spread)


def binned(x: Floats, levels: NDArray[np.int64], weights: Floats, n_levels: int) -> tuple[Floats, Floats]:
    """Return the mean of each group of neighbouring numbers, and its weight by level (group, level)."""
    ends = np.unique(np.quantile(x, np.linspace(0.0, 1.0, BINS + 1)))
    group = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, max(len(ends) - 2, 0))
    size = max(len(ends) - 1, 1)
    seen = np.bincount(group * n_levels + levels, weights=weights, minlength=size * n_levels).reshape(size, n_levels)
    kept = seen.sum(axis=1) > 0.0
    at = np.bincount(group, weights=weights * x, minlength=size)[kept] / seen.sum(axis=1)[kept]
    return at, seen[kept]


def _packed(scale: Scale) -> Floats:
    """Return the first cut point, logarithms of the gaps between them, and that of the spread."""
    gaps = np.maximum(np.diff(scale.cuts), LEAST_GAP * np.ptp(scale.values))
    return np.array([scale.cuts[0], *np.log(gaps), np.log(scale.spread)])


def _cuts(parameters: Floats) -> tuple[Floats, float]:
    """Return cut points and spread."""
    return np.cumsum([parameters[0], *np.exp(parameters[1:-1])]), float(np.exp(parameters[-1]))


def _ends(at: Floats, cuts: Floats, spread: float) -> Floats:
    """Return the ends of all intervals as seen from each number, in standard deviations."""
    return np.asarray((np.array([-np.inf, *cuts, np.inf]) - at[:, None]) / spread)


def _latents(at: Floats, seen: Floats, cuts: Floats, spread: float) -> Floats:
    """Return the mean of the normal numbers in each interval, over numbers `at` that were seen so often in each."""
    ends = _ends(at, cuts, spread)
    density = np.exp(-0.5 * np.square(ends)) / np.sqrt(2.0 * np.pi)
    inside = at[:, None] - spread * np.diff(density, axis=1) / np.maximum(np.diff(ndtr(ends), axis=1), SMALLEST)
    middles = np.clip(inside, [-np.inf, *cuts], [*cuts, np.inf])  # where rounding has left nothing of an interval
    return np.asarray((seen * middles).sum(axis=0) / seen.sum(axis=0))


def _lowest(loss: Callable[[Floats], float], start: Floats) -> Floats:
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 500})
    return np.asarray(found.x if loss(found.x) < loss(start) else start)
