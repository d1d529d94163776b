"""Measures of ranked lists of items.

R is the set of relevant items of a user; h_k is 1 if the k-th item of the user's list is in R, else 0. All measures are
averaged over the users who have relevant items; other users are ignored. `ranked` holds the positions of the items
recommended to each user, best first, padded with -1; `relevant` the items that the user turned out to like, as a scipy
sparse matrix (users x items, stored entries that are not 0) or as one list of positions per user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

    Relevant: TypeAlias = sparse.sparray | sparse.spmatrix | Sequence[ArrayLike]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def ndcg(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the normalised discounted cumulative gain.

    sum_k h_k / log2(k + 1), divided by the same sum for the best possible list, which has its first
    min(n, |R|) items in R.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> round(ndcg([[7, 3, 5]], [[3, 5]]), 4)
    0.6934
    """
    hits, counts = _hits(ranked, relevant, n)
    discount = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.cumsum(discount)[np.minimum(counts, hits.shape[1]) - 1]
    return float((hits @ discount / ideal).mean())


def recall(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of the relevant items that are in the list, sum_k h_k / |R|.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> recall([[7, 3, 5]], [[3, 5, 8, 9]])
    0.5
    """
    hits, counts = _hits(ranked, relevant, n)
    return float((hits.sum(axis=1) / counts).mean())


def precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of the list that is relevant, sum_k h_k / n; padding counts as misses.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> precision([[7, 3, 5, -1]], [[3, 5, 8, 9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.mean())


def hit_rate(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of users with at least one relevant item in the list.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> hit_rate([[7, 3], [1, 2]], [[3], [9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.any(axis=1).mean())


def mrr(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the mean reciprocal rank: 1 / k for the first k with h_k = 1, and 0 if there is none.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> mrr([[7, 3], [1, 2]], [[3], [9]])
    0.25
    """
    hits, _ = _hits(ranked, relevant, n)
    first = hits.argmax(axis=1)
    return float(np.where(hits.any(axis=1), 1 / (first + 1), 0.0).mean())


def mean_average_precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the mean average precision (MAP): the precision up to each relevant item, averaged.

    sum_k h_k (h_1 + ... + h_k) / k, divided by min(n, |R|), the largest possible number of terms.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    relevant : sparse matrix, or one list of item positions per user
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> mean_average_precision([[3, 7, 5]], [[3, 5]])
    0.8333333333333333
    """
    hits, counts = _hits(ranked, relevant, n)
    precisions = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return float(((hits * precisions).sum(axis=1) / np.minimum(counts, hits.shape[1])).mean())


def coverage(ranked: ArrayLike, n_items: int, n: int | None = None) -> float:
    """Compute the share of all items that are in the list of at least one user.

    Parameters
    ----------
    ranked : array-like of int, shape (n_users, length)
    n_items : int
        Number of items in the catalogue.
    n : int, optional
        Cut the lists after n items.

    Returns
    -------
    float

    Examples
    --------
    >>> coverage([[0, 1], [1, -1]], 4)
    0.5
    """
    items = _lists(ranked, n)
    if items.max() >= n_items:
        raise InputError(f"a list has position {items.max():,}, but there are only {n_items:,} items")
    return len(np.unique(items[items >= 0])) / n_items


def _hits(ranked: ArrayLike, relevant: Relevant, n: int | None) -> tuple[Bools, Ints]:
    """Return h_k and |R| of every user who has relevant items."""
    items = _lists(ranked, n)
    users, liked = _relevant(relevant, len(items))
    # A pair of user and item is one integer, user * width + item, so that membership is one search in a sorted array.
    width = int(max(items.max(), liked.max(initial=0))) + 1
    pairs = np.unique(users * width + liked)
    hits = np.isin(np.arange(len(items))[:, None] * width + items, pairs) & (items >= 0)
    counts = np.bincount(pairs // width, minlength=len(items))
    if not counts.any():
        raise InputError("no user has relevant items, so there is nothing to measure")
    return hits[counts > 0], counts[counts > 0]


def _lists(ranked: ArrayLike, n: int | None) -> Ints:
    items = np.asarray(ranked)
    if items.ndim != 2 or items.size == 0 or items.dtype.kind not in "iu":
        raise InputError(f"ranked must be a 2-d array of item positions, not {items.dtype} of shape {items.shape}")
    if n is not None and not 1 <= n <= items.shape[1]:
        raise InputError(f"n must be between 1 and the length of the lists ({items.shape[1]}), not {n}")
    items = items[:, :n].astype(np.int64)
    in_order = np.sort(items, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if repeated.any():
        raise InputError(f"the list of user {int(repeated.any(axis=1).argmax())} has the same item twice")
    return items


def _relevant(relevant: Any, n_users: int) -> tuple[Ints, Ints]:
    """Return the pairs of user and relevant item as two vectors."""
    if hasattr(relevant, "tocoo"):
        size, matrix = relevant.shape[0], relevant.tocoo()
        users, items = matrix.row[matrix.data != 0], matrix.col[matrix.data != 0]
    else:
        size, lists = len(relevant), [np.asarray(items, dtype=np.int64) for items in relevant]
        users = np.repeat(np.arange(size), [len(items) for items in lists])
        items = np.concatenate([*lists, np.empty(0, dtype=np.int64)])
    if size != n_users:
        raise InputError(f"there are lists for {n_users:,} users but relevant items for {size:,}")
    if items.size and items.min() < 0:
        raise InputError(f"relevant items must be positions from 0, but {items.min()} is among them")
    return users.astype(np.int64), items.astype(np.int64)
