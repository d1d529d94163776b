"""Measures of predicted values: RMSE, MAE, RMSE per user, and the fraction of concordant pairs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

Floats = NDArray[np.float64]

BLOCK = 1024  # rows of the table of pairs held at once, which bounds memory


def rmse(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Compute the root mean squared error, sqrt( sum w (x - p)^2 / sum w ).

    Parameters
    ----------
    truth, predicted : array-like of equal shape
    weights : array-like of that shape, optional
        All 1 by default.

    Returns
    -------
    float

    Examples
    --------
    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.sqrt(np.average((x - p) ** 2, weights=w)))


def mae(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Compute the mean absolute error, sum w |x - p| / sum w.

    Parameters
    ----------
    truth, predicted : array-like of equal shape
    weights : array-like of that shape, optional
        All 1 by default.

    Returns
    -------
    float

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.average(np.abs(x - p), weights=w))


def rmse_per_user(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Compute the RMSE of each user, averaged over users with equal weight.

    Parameters
    ----------
    users : array-like
        The user of each value, by position or id.
    truth, predicted : array-like of equal length

    Returns
    -------
    float

    Examples
    --------
    >>> rmse_per_user([0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0])
    1.0
    """
    x, p, _ = _checked(truth, predicted, None)
    user, n_users = _groups(users, x)
    squares = np.bincount(user, (x - p) ** 2, minlength=n_users)
    return float(np.sqrt(squares / np.bincount(user, minlength=n_users)).mean())


def fcp(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Compute the fraction of concordant pairs: pairs of values of one user that are predicted in the right order.

    With n_c the number of pairs (i, j) of the same user with x_i > x_j and p_i > p_j, and n_d the number of those with
    x_i > x_j and p_i <= p_j, both summed over all users, it is n_c / (n_c + n_d). Equal values make no pair; equal
    predictions of different values count as wrong.

    Parameters
    ----------
    users : array-like
        The user of each value, by position or id.
    truth, predicted : array-like of equal length

    Returns
    -------
    float
        NaN if no user has two different values.

    References
    ----------
    Y. Koren and J. Sill. Collaborative Filtering on Ordinal User Feedback. IJCAI 2013.

    Examples
    --------
    >>> fcp([0, 0, 0, 1, 1], [1.0, 2.0, 3.0, 5.0, 4.0], [1.0, 3.0, 2.0, 9.0, 8.0])
    0.75
    """
    x, p, _ = _checked(truth, predicted, None)
    user, n_users = _groups(users, x)
    order = np.argsort(user, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=n_users))]).tolist()
    x, p = x[order], p[order]
    concordant = pairs = 0
    for start, end in pairwise(starts):
        right, all_pairs = _concordant(x[start:end], p[start:end])
        concordant += right
        pairs += all_pairs
    return concordant / pairs if pairs else float("nan")


def _concordant(x: Floats, p: Floats) -> tuple[int, int]:
    """Count the pairs in the right order, and the pairs of different values."""
    right = pairs = 0
    for start in range(0, len(x), BLOCK):
        above = x[start : start + BLOCK, None] > x
        pairs += int(np.count_nonzero(above))
        right += int(np.count_nonzero(above & (p[start : start + BLOCK, None] > p)))
    return right, pairs


def _groups(users: ArrayLike, x: Floats) -> tuple[NDArray[np.int64], int]:
    """Return the position of each value's user among the distinct users, and the number of users."""
    from accams.data.ids import Index

    index, user = Index.of(users, "user")
    if user.shape != x.shape:
        raise InputError(f"there are {len(user):,} users for values of shape {x.shape}; give one user per value")
    return user, len(index)


def _checked(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Any]:
    x, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    for name, other in (("predictions", p), ("weights", w)):
        if other is not None and other.shape != x.shape:
            raise InputError(f"the values have shape {x.shape} but the {name} have shape {other.shape}")
    if x.size == 0:
        raise InputError("no values were given, so there is nothing to measure")
    return x, p, w
