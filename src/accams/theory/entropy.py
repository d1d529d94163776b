"""Entropy and covering numbers of diagonal operators and of balls (theorem of Gordon, König and Schütt)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

Side = Literal["upper", "lower"]
CONSTANT = 6.0  # the theorem's: what its upper bound is above its lower one


def entropy_number(singular_values: ArrayLike, n: int, side: Side = "upper") -> float:
    """How finely n balls cover the image of the unit ball under a diagonal operator.

    With s_1 >= s_2 >= ... the smallest radius lies between ``sup_j (s_1 ... s_j / n)^(1/j)`` and six times that, which
    is what the theorem says; for few balls s_1, the radius of one around zero, can be less.

    Parameters
    ----------
    singular_values : array-like
        In any order; zeros do not matter.
    n : int
        Balls, at least one.
    side : "upper" or "lower"
        Which end of that interval.

    Examples
    --------
    >>> round(entropy_number([1.0, 1.0], 100), 6)  # a disc by 100 discs
    0.6
    >>> round(entropy_number([1.0, 1.0], 100, "lower"), 6)
    0.1
    """
    logs = _logarithms(singular_values)
    if isinstance(n, bool) or n != int(n) or n < 1:
        raise InputError(f"a cover has at least one ball, not {n}")
    if not logs.size:
        return 0.0
    j = np.arange(1, len(logs) + 1)
    return _factor(side) * float(np.exp(np.max((np.cumsum(logs) - np.log(n)) / j)))


def covering_number(singular_values: ArrayLike, radius: float, side: Side = "upper") -> float:
    """How many balls of a radius it takes to cover the image of the unit ball: the inverse of `entropy_number`.

    A float, because it is soon beyond all integers; infinite where it is beyond all floats.

    Examples
    --------
    >>> covering_number([1.0, 1.0], 0.6), covering_number([1.0, 1.0], 0.6, "lower")
    (100.0, 3.0)
    """
    logs = _logarithms(singular_values)
    if not radius > 0:
        raise InputError(f"the radius of a ball is above 0, not {radius}")
    beyond = logs + np.log(_factor(side) / radius)
    with np.errstate(over="ignore"):
        balls = float(np.exp(np.sum(beyond[beyond > 0])))
    return float(np.ceil(balls * (1 - 1e-12)))  # a product of roots is a little off the whole number that it is


def ball_entropy_number(radius: float, dimension: int, n: int, side: Side = "upper") -> float:
    """The same of a ball in so many dimensions: between r n^(-1/d) and six times that.

    Examples
    --------
    >>> round(ball_entropy_number(2.0, 1, 4, "lower"), 6)  # the interval from -2 to 2 by four of radius 1/2
    0.5
    """
    if dimension < 1:
        raise InputError(f"a ball has at least one dimension, not {dimension}")
    return entropy_number(np.full(dimension, radius), n, side)


def checked_values(singular_values: ArrayLike) -> NDArray[np.float64]:
    """A vector of singular values, or an error that says what is wrong with it."""
    values = np.asarray(singular_values, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("singular values are a vector of finite numbers, none below 0")
    return values


def _logarithms(singular_values: ArrayLike) -> NDArray[np.float64]:
    """Of those above zero, falling."""
    values = checked_values(singular_values)
    return np.log(-np.sort(-values[values > 0]))


def _factor(side: Side) -> float:
    if side not in ("upper", "lower"):
        raise InputError(f"side is 'upper' or 'lower', not {side!r}")
    return CONSTANT if side == "upper" else 1.0
