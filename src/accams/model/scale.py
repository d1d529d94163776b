"""The scale of ratings: which values there are, and how a model of real numbers speaks of them.

A model predicts a real number x. A rating is the value in whose interval x plus normal noise falls, the intervals being
those between neighbouring cut points: the ordinal probit model. Ratings are never quite so, and the cut points with
which their probabilities are right are not those with which their mean is: a scale may have cut points of its own for
the mean. Probabilities are then those of the number at which they have that mean.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
SMALLEST_SHARE = 1e-9  # of a level, so that cut points stay finite
REACH = 8.0  # standard deviations beyond the cut points where a rating is certain
HALVINGS = 50


@dataclass(frozen=True, eq=False)
class Scale:
    """The values of a rating scale, the cut points between them, and the spread of the noise on the model's scale.

    Examples
    --------
    >>> import numpy as np
    >>> stars = Scale(np.arange(1.0, 6.0), np.array([1.5, 2.5, 3.5, 4.5]), 1.0, np.arange(1.0, 6.0))
    >>> stars.mean(np.array([3.0, 9.0])).round(3).tolist()
    [3.0, 5.0]
    >>> stars.probabilities(np.array([3.0])).round(2).tolist()
    [[0.07, 0.24, 0.38, 0.24, 0.07]]
    """

    values: Floats  # (K,), increasing
    cuts: Floats  # (K - 1,), increasing
    spread: float
    latents: Floats  # (K,), what the model is on average where each value is observed, noise included
    mean_cuts: Floats | None = None  # cut points for the mean, if they are others,
    mean_spread: float = 1.0  # and their spread

    @classmethod
    def of_shares(cls, values: Floats, shares: Floats, spread: float) -> Self:
        """Return the scale on which values of these shares come from a normal distribution of their mean and variance.

        Examples
        --------
        >>> import numpy as np
        >>> Scale.of_shares(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 1.0).cuts.tolist()
        [0.5]
        """
        shares = shares / shares.sum()
        mean = float(shares @ values)
        deviation = float(np.sqrt(shares @ np.square(values - mean)))
        below = np.clip(np.cumsum(shares)[:-1], SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
        ends = np.array([-np.inf, *ndtri(below), np.inf])
        density = np.exp(-0.5 * np.square(ends)) / np.sqrt(2.0 * np.pi)
        latents = mean - deviation * np.diff(density) / np.diff(ndtr(ends))
        return cls(values, mean + deviation * ends[1:-1], spread, latents)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Undo `to_dict`; raise ValueError for numbers that do not go together or are not in order."""
        lists = {name: np.array(fields[name], np.float64) for name in ("values", "cuts", "latents", "mean_cuts")}
        sizes, spreads = [len(x) for x in lists.values()], [float(fields[name]) for name in ("spread", "mean_spread")]
        right = sizes[1] > 0 and sizes == [sizes[0], sizes[0] - 1, sizes[0], sizes[0] - 1] and min(spreads) > 0.0
        if not right or any(x.ndim != 1 or not (np.diff(x) >= 0.0).all() for x in lists.values()):
            raise ValueError("its scale cannot be")
        return cls(**lists, spread=spreads[0], mean_spread=spreads[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the scale as lists and numbers."""
        mean = (self.cuts, self.spread) if self.mean_cuts is None else (self.mean_cuts, self.mean_spread)
        lists = {"values": self.values, "cuts": self.cuts, "latents": self.latents, "mean_cuts": mean[0]}
        return {**{name: x.tolist() for name, x in lists.items()}, "spread": self.spread, "mean_spread": mean[1]}

    def moved(self, shift: float, factor: float) -> Self:
        """Return the scale of numbers that are multiplied by a factor, and then shifted."""
        values, cuts, latents = (factor * x + shift for x in (self.values, self.cuts, self.latents))
        mean_cuts = None if self.mean_cuts is None else factor * self.mean_cuts + shift
        return type(self)(values, cuts, factor * self.spread, latents, mean_cuts, factor * self.mean_spread)

    def mean(self, x: Floats) -> Floats:
        """Return the expected rating where the model predicts x."""
        if self.mean_cuts is None:
            return self._mean(x, self.cuts, self.spread)
        return self._mean(x, self.mean_cuts, self.mean_spread)

    def probabilities(self, x: Floats, spread: Floats | float | None = None) -> Floats:
        """Return the probability of each value (cell, value), with noise of this spread; they have the mean above."""
        spread = np.broadcast_to(self.spread if spread is None else spread, np.shape(x))
        x = self._where(self.mean(x), spread)
        ends = np.array([-np.inf, *self.cuts, np.inf])
        z = (ends - x[:, None]) / spread[:, None]
        # differences of upper tails above the mean, of lower ones below: neither is a difference of numbers near one
        upper = z[:, :-1] > 0.0
        below, above = z[:, :-1], z[:, 1:]
        return np.asarray(np.where(upper, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below)))

    def latent(self, values: Floats) -> Floats:
        """Return observed values as numbers of the model's scale."""
        return np.asarray(np.interp(values, self.values, self.latents))

    def deviation(self, x: Floats, spread: Floats) -> Floats:
        """Return the standard deviation of a rating where the model predicts x, with noise of this spread."""
        p = self.probabilities(x, spread)
        return np.asarray(np.sqrt(np.maximum(p @ np.square(self.values) - np.square(p @ self.values), 0.0)))

    def place(self, x: Floats) -> Floats:
        """Return numbers of the model's scale as places on that of the values.

        Cut points go to the middles between values, and what lies in between is interpolated, so that a place is nearer
        to the value in whose interval the number lies than to any other.
        """
        middles = 0.5 * (self.values[1:] + self.values[:-1])
        below, above = x < self.cuts[0], x > self.cuts[-1]
        out = np.interp(x, self.cuts, middles)
        out = np.where(below, middles[0] + (x - self.cuts[0]), out)
        out = np.where(above, middles[-1] + (x - self.cuts[-1]), out)
        return np.clip(out, self.values[0], self.values[-1])

    def _mean(self, x: Floats, cuts: Floats, spread: Floats | float) -> Floats:
        out = np.full(np.shape(x), self.values[0])
        for cut, rise in zip(cuts, np.diff(self.values), strict=True):
            out += rise * ndtr((x - cut) / spread)
        return out

    def _where(self, mean: Floats, spread: Floats) -> Floats:
        """Return the numbers at which ratings with noise of this spread have these means, by bisection."""
        low, high = self.cuts[0] - REACH * spread, self.cuts[-1] + REACH * spread
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            more = self._mean(middle, self.cuts, spread) < mean
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        return np.asarray(0.5 * (low + high))
