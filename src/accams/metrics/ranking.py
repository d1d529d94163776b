"""How good ranked lists of items are.

All functions take `ranked`, one row a user with the positions of the items recommended to that user, best
first and filled up with -1, and `relevant`, the items that the user turned out to like: a scipy sparse matrix
(users x items, what is stored and not 0 is relevant) or one list of positions a user. Lists are cut after the
first `n` items (all by default). R is the set of relevant items of a user; h_k is 1 if the k-th item of the
list is in R, and 0 if not. The measures are averaged over the users who have relevant items; the others have
no say.
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
    """Normalised discounted cumulative gain.

    sum_k h_k / log2(k + 1), divided by the same sum for the best possible list, which has its first
    min(n, |R|) items in R.

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
    """Share of the relevant items that are in the list, sum_k h_k / |R|.

    Examples
    --------
    >>> recall([[7, 3, 5]], [[3, 5, 8, 9]])
    0.5
    """
    hits, counts = _hits(ranked, relevant, n)
    return float((hits.sum(axis=1) / counts).mean())


def precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Share of the list that is relevant, sum_k h_k / n; a list that is too short has misses at its end.

    Examples
    --------
    >>> precision([[7, 3, 5, -1]], [[3, 5, 8, 9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.mean())


def hit_rate(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Share of the users with at least one relevant item in the list.

    Examples
    --------
    >>> hit_rate([[7, 3], [1, 2]], [[3], [9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.any(axis=1).mean())


def mrr(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Mean reciprocal rank: 1 / k for the first k with h_k = 1, and 0 if there is none.

    Examples
    --------
    >>> mrr([[7, 3], [1, 2]], [[3], [9]])
    0.25
    """
    hits, _ = _hits(ranked, relevant, n)
    first = hits.argmax(axis=1)
    return float(np.where(hits.any(axis=1), 1 / (first + 1), 0.0).mean())


def mean_average_precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Mean average precision (MAP): the precision of the list up to each relevant item, averaged.

    sum_k h_k (h_1 + ... + h_k) / k, divided by min(n, |R|), the highest number of terms that there can be.

    Examples
    --------
    >>> mean_average_precision([[3, 7, 5]], [[3, 5]])
    0.8333333333333333
    """
    hits, counts = _hits(ranked, relevant, n)
    precisions = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return float(((hits * precisions).sum(axis=1) / np.minimum(counts, hits.shape[1])).mean())


def coverage(ranked: ArrayLike, n_items: int, n: int | None = None) -> float:
    """Share of all `n_items` items that come up in anybody's list.

    Examples
    --------
    >>> coverage([[0, 1], [1, -1]], 4)
    0.5
    """
    items = _lists(ranked, n)
    if items.max() >= n_items:
        raise InputError(f"there are {n_items:,} items, but position {items.max():,} is in a list")
    return len(np.unique(items[items >= 0])) / n_items


def _hits(ranked: ArrayLike, relevant: Relevant, n: int | None) -> tuple[Bools, Ints]:
    """h_k of every user who has relevant items, and |R|."""
    items = _lists(ranked, n)
    users, liked = _relevant(relevant, len(items))
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
        raise InputError(f"ranked must be a table of item positions, not {items.dtype} of shape {items.shape}")
    if n is not None and not 1 <= n <= items.shape[1]:
        raise InputError(f"n must be between 1 and the length of the lists ({items.shape[1]}), not {n}")
    items = items[:, :n].astype(np.int64)
    in_order = np.sort(items, axis=1)
    again = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if again.any():
        raise InputError(f"the list of user {int(again.any(axis=1).argmax())} has the same item twice")
    return items


def _relevant(relevant: Any, n_users: int) -> tuple[Ints, Ints]:
    """The pairs of user and relevant item."""
    if hasattr(relevant, "tocoo"):
        size, table = relevant.shape[0], relevant.tocoo()
        users, items = table.row[table.data != 0], table.col[table.data != 0]
    else:
        size, lists = len(relevant), [np.asarray(each, dtype=np.int64) for each in relevant]
        users = np.repeat(np.arange(size), [len(each) for each in lists])
        items = np.concatenate([*lists, np.empty(0, dtype=np.int64)])
    if size != n_users:
        raise InputError(f"there are lists for {n_users:,} users but relevant items for {size:,}")
    if items.size and items.min() < 0:
        raise InputError(f"relevant items are positions from 0, but {items.min()} is among them")
    return users.astype(np.int64), items.astype(np.int64)
