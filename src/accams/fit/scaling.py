"""Standardise the columns of a matrix with gaps robustly, so that one outlier ruins nothing."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PER_QUARTILES = 1.349  # interquartile range of a normal distribution of standard deviation 1
LEAST = 0.1  # share of the standard deviation that a robust scale must have, else that is taken
TAIL = 2.0  # percent on each side that this deviation leaves out
ROUNDING = 1e-15  # share of the standard deviation that is the rounding of a constant
FAR = 10.0  # scales from the median beyond which values are cut while fitting, if they are among the outermost too
WIDE = 5.0  # values by which the range of a column of n values may be exceeded, as a share of n
SPREAD_OF_CENTRES, SPREAD_OF_SCALES = 3.0, 0.2  # of columns that have one unit, in those of a typical column


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of each column, the limits of its values while fitting, and the range of what is filled in.

    Attributes
    ----------
    centre, scale : arrays (column,)
    limits : array (2, column)
        On the fitted scale.
    bounds : array (2, column)
        In the units of the data.
    """

    centre: Floats
    scale: Floats
    limits: Floats
    bounds: Floats

    @classmethod
    def of(cls, X: Floats, scale: str | None = "auto") -> Self:
        """From a matrix of which every column has values, and not all the same; NaN is missing."""
        centre, robust, trimmed, tails = moments(X)
        low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        widening = (high - low) * WIDE / np.maximum((~np.isnan(X)).sum(axis=0), 1)
        reach = np.stack([np.minimum(-FAR * robust, tails[0]), np.maximum(FAR * robust, tails[1])])
        if scale == "columns" or (scale == "auto" and not one_unit(centre, trimmed)):
            return cls(centre, robust, reach / robust, np.stack([low - widening, high + widening]))
        largest = float(trimmed.max()) or 1.0
        middle, typical = float(np.median(centre)), largest * float(np.sqrt(np.mean((trimmed / largest) ** 2)) or 1.0)
        limits = (centre + reach - middle) / typical
        bounds = np.stack([np.full_like(low, low.min()), np.full_like(high, high.max())])
        return cls(np.full_like(centre, middle), np.full_like(centre, typical), limits, bounds)

    def scaled(self, X: Floats) -> Floats:
        """Return values on the fitted scale, cut at the limits."""
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((X - self.centre) / self.scale, *self.limits))

    def unscaled(self, Z: Floats) -> Floats:
        """Return values in the units of the data, within the bounds."""
        return np.asarray(np.clip(Z * self.scale + self.centre, *self.bounds))


def moments(X: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the median of each column, a robust standard deviation, one without the outermost values, and tails.

    Tails are the differences of the lowest and highest of the other values to the median.
    """
    lower, centre, upper = np.nanpercentile(X, [25.0, 50.0, 75.0], axis=0)
    least = np.nanpercentile(X, TAIL, axis=0, method="higher")
    most = np.nanpercentile(X, 100.0 - TAIL, axis=0, method="lower")
    trimmed = deviations(np.clip(X, least, most), centre)
    overall = deviations(X, centre)
    trimmed = np.where(trimmed > ROUNDING * overall, trimmed, overall)  # nearly all values are one
    robust = (upper - lower) / PER_QUARTILES
    tails = np.stack([least - centre, most - centre])
    return centre, np.where(robust > LEAST * trimmed, robust, trimmed), trimmed, tails


def deviations(X: Floats, centre: Floats) -> Floats:
    """Return the standard deviation of each column, computed so that squares cannot overflow."""
    largest = np.nanmax(np.abs(X - centre), axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)
    return np.asarray(largest * np.nanstd((X - centre) / unit, axis=0))


def one_unit(centre: Floats, spread: Floats) -> bool:
    """Return whether columns look as if they had one unit: their medians lie together, and none is all but constant.

    Examples
    --------
    >>> one_unit(np.array([3.0, 5.0, 4.0]), np.array([1.0, 2.0, 1.5]))
    True
    >>> one_unit(np.array([0.1, 170.0, 65.0]), np.array([0.02, 10.0, 12.0]))
    False
    """
    typical = float(np.sqrt(np.mean(spread**2)))
    together = float(np.std(centre)) <= SPREAD_OF_CENTRES * typical
    return together and float(np.median(spread)) >= SPREAD_OF_SCALES * typical
