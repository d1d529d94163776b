"""The scale of ratings: which values there are, and how a model of real numbers speaks of them.

A model predicts a real number x. A rating is the value in whose interval x plus normal noise falls, the intervals being
those between neighbouring cut points: the ordinal probit model.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
SMALLEST_SHARE = 1e-9  # of a level, so that cut points stay finite


@dataclass(frozen=True, eq=False)
class Scale:
    """The values of a rating scale, the cut points between them, and the spread of the noise on the model's scale.

    Examples
    --------
    >>> import numpy as np
    >>> stars = Scale(np.arange(1.0, 6.0), np.array([1.5, 2.5, 3.5, 4.5]), 1.0)
    >>> stars.mean(np.array([3.0, 9.0])).round(3).tolist()
    [3.0, 5.0]
    >>> stars.probabilities(np.array([3.0])).round(2).tolist()
    [[0.07, 0.24, 0.38, 0.24, 0.07]]
    """

    values: Floats  # (K,), increasing
    cuts: Floats  # (K - 1,), increasing
    spread: float

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
        return cls(values, mean + deviation * ndtri(below), spread)

    def mean(self, x: Floats) -> Floats:
        """Return the expected rating where the model predicts x."""
        out = np.full(np.shape(x), self.values[0])
        for cut, rise in zip(self.cuts, np.diff(self.values), strict=True):
            out += rise * ndtr((x - cut) / self.spread)
        return out

    def probabilities(self, x: Floats, spread: Floats | float | None = None) -> Floats:
        """Return the probability of each value (cell, value), with noise of this spread."""
        spread = self.spread if spread is None else spread
        ends = np.array([-np.inf, *self.cuts, np.inf])
        z = (ends - np.asarray(x)[:, None]) / np.broadcast_to(spread, np.shape(x))[:, None]
        # differences of upper tails above the mean, of lower ones below: neither is a difference of numbers near one
        upper = z[:, :-1] > 0.0
        below, above = z[:, :-1], z[:, 1:]
        return np.asarray(np.where(upper, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below)))

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
