"""Entropy and covering numbers of diagonal operators and of balls (theorem of Gordon, König and Schütt)."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

Side = Literal["upper", "lower"]
CONSTANT = 6.0  # of the theorem: ratio of its upper to its lower bound


def entropy_number(singular_values: ArrayLike, n: int, side: Side = "upper") -> float:
    """Bound the smallest radius with which n balls cover the image of the unit ball under a diagonal operator.

    With s_1 >= s_2 >= ... the theorem says that it lies between ``sup_j (s_1 ... s_j / n)^(1/j)`` and six times that.
    For few balls s_1, the radius of a single ball around zero, can be less.

    Parameters
    ----------
    singular_values : array-like
        In any order; zeros are ignored.
    n : int
        Number of balls, at least 1.
    side : "upper" or "lower"
        The bound to return.

    Returns
    -------
    float

    Examples
    --------
    >>> round(entropy_number([1.0, 1.0], 100), 6)  # a disc by 100 discs
    0.6
    >>> round(entropy_number([1.0, 1.0], 100, "lower"), 6)
    0.1
    """
    logs = _logarithms(singular_values)
    if isinstance(n, bool) or n != int(n) or n < 1:
        raise InputError(f"n must be an integer of at least 1, not {n}")
    if not logs.size:
        return 0.0
    j = np.arange(1, len(logs) + 1)  # in logarithms, since products of many values overflow
    return _factor(side) * float(np.exp(np.max((np.cumsum(logs) - np.log(n)) / j)))


def covering_number(singular_values: ArrayLike, radius: float, side: Side = "upper") -> float:
    """Bound the number of balls of a radius that cover the image of the unit ball: the inverse of `entropy_number`.

    Parameters
    ----------
    singular_values : array-like
        In any order; zeros are ignored.
    radius : float
    side : "upper" or "lower"
        The bound to return.

    Returns
    -------
    float
        An integer, but as a float, since it can exceed 64 bits; infinite beyond the range of floats.

    Examples
    --------
    >>> covering_number([1.0, 1.0], 0.6), covering_number([1.0, 1.0], 0.6, "lower")
    (100.0, 3.0)
    """
    logs = _logarithms(singular_values)
    if not radius > 0:
        raise InputError(f"radius must be above 0, not {radius}")
    beyond = logs + np.log(_factor(side) / radius)  # axes no longer than the radius take one ball
    with np.errstate(over="ignore"):
        balls = float(np.exp(np.sum(beyond[beyond > 0])))
    return float(np.ceil(balls * (1 - 1e-12)))  # less rounding, so that an exact integer is kept


def ball_entropy_number(radius: float, dimension: int, n: int, side: Side = "upper") -> float:
    """Bound the entropy number of a ball: between radius * n^(-1 / dimension) and six times that.

    Parameters
    ----------
    radius : float
    dimension, n : int
        Dimension of the ball, and number of balls that cover it.
    side : "upper" or "lower"
        The bound to return.

    Returns
    -------
    float

    Examples
    --------
    >>> round(ball_entropy_number(2.0, 1, 4, "lower"), 6)  # [-2, 2] by four intervals of radius 1/2
    0.5
    """
    if dimension < 1:
        raise InputError(f"dimension must be at least 1, not {dimension}")
    return entropy_number(np.full(dimension, radius), n, side)


def checked_values(singular_values: ArrayLike) -> NDArray[np.float64]:
    """Validate a vector of singular values."""
    values = np.asarray(singular_values, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("singular values must be a vector of finite numbers, none below 0")
    return values


def _logarithms(singular_values: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithms of the positive values in descending order."""
    values = checked_values(singular_values)
    return np.log(-np.sort(-values[values > 0]))


def _factor(side: Side) -> float:
    if side not in ("upper", "lower"):
        raise InputError(f"side must be 'upper' or 'lower', not {side!r}")
    return CONSTANT if side == "upper" else 1.0
