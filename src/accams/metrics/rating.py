"""Errors of predicted values: RMSE, MAE, RMSE per user, and the fraction of concordant pairs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

Floats = NDArray[np.float64]

BLOCK = 1024  # rows of a table of pairs that are made at once


def rmse(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Root mean squared error, sqrt( sum w (x - p)^2 / sum w ).

    Parameters
    ----------
    truth, predicted : array-like of equal shape
    weights : array-like, optional
        All 1 by default.

    Examples
    --------
    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.sqrt(np.average((x - p) ** 2, weights=w)))


def mae(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean absolute error, sum w |x - p| / sum w.

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.average(np.abs(x - p), weights=w))


def rmse_per_user(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """The RMSE of each user, averaged over users: every user counts the same, however active.

    Parameters
    ----------
    users : array-like
        Whose each value is: positions or ids.
    truth, predicted : array-like of equal length

    Examples
    --------
    >>> rmse_per_user([0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0])
    1.0
    """
    x, p, _ = _checked(truth, predicted, None)
    of, size = _groups(users, x)
    squares = np.bincount(of, (x - p) ** 2, minlength=size)
    return float(np.sqrt(squares / np.bincount(of, minlength=size)).mean())


def fcp(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Fraction of concordant pairs: how often two values of one user are predicted in the right order.

    With n_c the number of pairs of entries (i, j) of the same user with x_i > x_j and p_i > p_j, and n_d the
    number of those with x_i > x_j and p_i <= p_j, both summed over all users, it is

        n_c / (n_c + n_d)

    so that a user counts by the number of pairs. Equal values make no pair; equal predictions of different
    values count as wrong. NaN if no user has two different values.

    References
    ----------
    Y. Koren and J. Sill. Collaborative Filtering on Ordinal User Feedback. IJCAI 2013.

    Examples
    --------
    >>> fcp([0, 0, 0, 1, 1], [1.0, 2.0, 3.0, 5.0, 4.0], [1.0, 3.0, 2.0, 9.0, 8.0])
    0.75
    """
    x, p, _ = _checked(truth, predicted, None)
    of, size = _groups(users, x)
    order = np.argsort(of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=size))]).tolist()
    x, p = x[order], p[order]
    concordant = pairs = 0
    for start, end in pairwise(starts):
        right, all_pairs = _concordant(x[start:end], p[start:end])
        concordant += right
        pairs += all_pairs
    return concordant / pairs if pairs else float("nan")


def _concordant(x: Floats, p: Floats) -> tuple[int, int]:
    """Pairs in the right order, and pairs of different values."""
    right = pairs = 0
    for start in range(0, len(x), BLOCK):
        above = x[start : start + BLOCK, None] > x
        pairs += int(np.count_nonzero(above))
        right += int(np.count_nonzero(above & (p[start : start + BLOCK, None] > p)))
    return right, pairs


def _groups(users: ArrayLike, x: Floats) -> tuple[NDArray[np.int64], int]:
    """The place of each entry's user among all users, and how many there are."""
    from accams.data.ids import Index

    index, of = Index.of(users, "user")
    if of.shape != x.shape:
        raise InputError(f"there are {len(of):,} users for values of shape {x.shape}; name one a value")
    return of, len(index)


def _checked(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Any]:
    x, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    for name, other in (("predictions", p), ("weights", w)):
        if other is not None and other.shape != x.shape:
            raise InputError(f"the values have shape {x.shape} but the {name} have {other.shape}")
    if x.size == 0:
        raise InputError("there is nothing to measure: no values were given")
    return x, p, w
