"""Feedback: how strongly a value says that somebody chose an item."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError

Floats = NDArray[np.float64]
UPPER = 0.75  # of the scale of ratings: from here on a rating is a like, however high the mean is
SKEW = 1.5  # mean by median from which integers beyond a rating scale are taken for counts
LARGEST_SCALE = 10.0  # of integers that may be ratings whatever their distribution


@dataclass(frozen=True)
class Feedback:
    """The rule that turns values into weights of what was chosen.

    Attributes
    ----------
    kind : {"likes", "ratings", "counts", "weights"}
        Likes weigh 1 whatever their value is; ratings 1 if they are at least `liked_from` and `seen_weight` below;
        counts 1 if they are positive; weights their value by `unit`, the largest one that was fitted.
    liked_from, seen_weight, unit : float

    Examples
    --------
    >>> rule = Feedback.of(np.array([1.0, 3, 4, 5, 5]))
    >>> rule
    Feedback(kind='ratings', liked_from=3.6, seen_weight=0.3, unit=1.0)
    >>> rule.weights(np.array([2.0, 4.0])).tolist()
    [0.3, 1.0]
    """

    kind: str
    liked_from: float = 0.0
    seen_weight: float = 0.3
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        values: NDArray[np.floating],
        kind: str = "auto",
        liked_from: float | str = "auto",
        seen_weight: float = 0.3,
    ) -> Self:
        """Return the rule for these values; "auto" recognises their kind, and likes ratings of at least the mean.

        Of a scale on which most ratings are high, the upper quarter is liked.
        """
        kind = kind_of(values) if kind == "auto" else kind
        if isinstance(liked_from, str):
            low, high = float(values.min()), float(values.max())
            liked_from = min(float(np.mean(values, dtype=np.float64)), low + UPPER * (high - low))
        unit = (float(values.max()) or 1.0) if kind == "weights" else 1.0
        return cls(kind, float(liked_from), float(seen_weight), unit)

    def weights(self, values: NDArray[np.floating]) -> Floats:
        """Return the weight of each value; raise InputError for values that cannot be weights."""
        if self.kind == "ratings":
            # in the precision of stored values: a mean of equal ratings must not exceed them by a rounding error
            liked = np.asarray(values, np.float32) >= np.float32(self.liked_from)
            return np.where(liked, 1.0, self.seen_weight)
        if self.kind == "likes":
            return np.ones(len(values))
        negative = values[values < 0.0]
        if len(negative):
            raise InputError(f"{self.kind} must not be negative, but one is {negative[0]:g}: say feedback='ratings'")
        return (
            (values > 0.0).astype(np.float64) if self.kind == "counts" else np.asarray(values / self.unit, np.float64)
        )

    def __str__(self) -> str:
        if self.kind == "ratings":
            return f"ratings: {self.liked_from:.3g} and more are likes, others weigh {self.seen_weight:g}"
        return self.kind


def kind_of(values: NDArray[np.floating]) -> str:
    """Return what values are: one value is a like, skewed integers are counts, anything else is a rating."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return "likes"
    if low < 0.0 or not np.array_equal(values, np.floor(values)):
        return "ratings"
    middle, mean = float(np.median(values)), float(np.mean(values, dtype=np.float64))
    mostly_one = middle == 1.0 == float(values[values > 0].min()) and high > 2.0
    return "counts" if mostly_one or (high > LARGEST_SCALE and mean >= SKEW * middle) else "ratings"
