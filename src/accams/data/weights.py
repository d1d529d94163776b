"""Weights as integer multiples of a power-of-two step, so that weighted sums are exact."""

from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOTAL_BITS = 39  # of the total weight: its product with a residual of 22 bits fits an int64
LARGEST_BITS = 24
PIECE = 1 << 22  # observations squared at a time


def weight_step(values: NDArray[Any], weights: NDArray[Any] | None, blanks: float | None, cells: int) -> float:
    """Return the step of the weights for which sums of weight times residual fit in 64 bits.

    Such a sum is at most the total weight times the root mean square of the residual. The range bounds that;
    with observed zeros it is far smaller, which leaves room for a finer step.
    """
    if weights is None and blanks in (None, 1.0):
        return 1.0
    total = float(len(values)) if weights is None else float(weights.sum(dtype=np.float64))
    largest = max(1.0 if weights is None else float(weights.max()), blanks or 0.0)
    bits = TOTAL_BITS
    if blanks is not None:
        total += blanks * (cells - len(values))
        squares, range_ = 0.0, 0.0
        for first in range(0, len(values), PIECE):
            part = values[first : first + PIECE].astype(np.float64)
            squares, range_ = squares + float(np.square(part).sum()), max(range_, float(np.abs(part).max()))
        bits += min(12, max(0, int(np.log2(range_ / np.sqrt(largest * squares / total))) if squares else 0))
    return max(power_of_two_above(total) * 2.0**-bits, power_of_two_above(largest) * 2.0**-LARGEST_BITS)


def to_ticks(weights: NDArray[Any], step: float) -> NDArray[np.int32]:
    """Round weights to multiples of the step, at least 1."""
    return np.maximum(np.rint(weights / step), 1.0).astype(np.int32)


def power_of_two_above(x: float) -> float:
    """Return the smallest power of two that is at least x."""
    mantissa, exponent = frexp(x)
    return 2.0 ** (exponent - 1 if mantissa == 0.5 else exponent)
