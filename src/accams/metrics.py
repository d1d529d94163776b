"""Measures of predicted values and of ranked recommendations.

In measures of ranked lists R is the set of relevant items of a user; h_k is 1 if the k-th item of the user's list is in
R, else 0. All these measures are averaged over the users who have relevant items; other users are ignored. `ranked`
holds the positions of the items recommended to each user, best first, padded with -1; `relevant` the items that the
user turned out to like, as a scipy sparse matrix (users x items, stored entries that are not 0) or as one list of
positions per user.
"""

from collections.abc import Callable, Sequence
from inspect import cleandoc
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

__all__ = [
    "coverage", "fcp", "hit_rate", "mae", "mean_average_precision", "mrr", "ndcg", "precision", "recall", "rmse",
    "rmse_per_user",
]  # fmt: skip

Relevant: TypeAlias = "sparse.sparray | sparse.spmatrix | Sequence[ArrayLike]"
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Measure = TypeVar("Measure", bound=Callable[..., float])

BLOCK = 1024  # rows of the table of pairs held at once, which bounds memory
PARAMETERS = {
    "values": """
        truth, predicted : array-like of equal shape
        weights : array-like of that shape, optional
            All 1 by default.""",
    "users": """
        users : array-like
            The user of each value, by position or id.
        truth, predicted : array-like of equal length""",
    "lists": """
        ranked : array-like of int, shape (n_users, length)
        relevant : sparse matrix, or one list of item positions per user
        n : int, optional
            Cut the lists after n items.""",
}


def with_sections(measure: Measure) -> Measure:
    """Replace the name of shared sections in a docstring, such as ``{lists}``, by their text."""
    section = "Parameters\n----------\n{}\n\nReturns\n-------\nfloat"
    sections = {name: section.format(cleandoc(text)) for name, text in PARAMETERS.items()}
    measure.__doc__ = cleandoc(measure.__doc__ or "").format(**sections)
    return measure


@with_sections
def rmse(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Compute the root mean squared error, sqrt( sum w (x - p)^2 / sum w ).

    {values}

    Examples
    --------
    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.sqrt(np.average((x - p) ** 2, weights=w)))


@with_sections
def mae(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Compute the mean absolute error, sum w |x - p| / sum w.

    {values}

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    x, p, w = _checked(truth, predicted, weights)
    return float(np.average(np.abs(x - p), weights=w))


@with_sections
def rmse_per_user(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Compute the RMSE of each user, averaged over users with equal weight.

    {users}

    Examples
    --------
    >>> rmse_per_user([0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0])
    1.0
    """
    x, p, _ = _checked(truth, predicted, None)
    user, n_users = _groups(users, x)
    squares = np.bincount(user, (x - p) ** 2, minlength=n_users)
    return float(np.sqrt(squares / np.bincount(user, minlength=n_users)).mean())


@with_sections
def fcp(users: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Compute the fraction of concordant pairs: pairs of values of one user that are predicted in the right order.

    With n_c the number of pairs (i, j) of the same user with x_i > x_j and p_i > p_j, and n_d the number of those with
    x_i > x_j and p_i <= p_j, both summed over all users, it is n_c / (n_c + n_d). Equal values make no pair; equal
    predictions of different values count as wrong.

    {users}
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


@with_sections
def ndcg(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the normalised discounted cumulative gain.

    sum_k h_k / log2(k + 1), divided by the same sum for the best possible list, which has its first
    min(n, |R|) items in R.

    {lists}

    Examples
    --------
    >>> round(ndcg([[7, 3, 5]], [[3, 5]]), 4)
    0.6934
    """
    hits, counts = _hits(ranked, relevant, n)
    discount = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.cumsum(discount)[np.minimum(counts, hits.shape[1]) - 1]
    return float((hits @ discount / ideal).mean())


@with_sections
def recall(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of the relevant items that are in the list, sum_k h_k / |R|.

    {lists}

    Examples
    --------
    >>> recall([[7, 3, 5]], [[3, 5, 8, 9]])
    0.5
    """
    hits, counts = _hits(ranked, relevant, n)
    return float((hits.sum(axis=1) / counts).mean())


@with_sections
def precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of the list that is relevant, sum_k h_k / n; padding counts as misses.

    {lists}

    Examples
    --------
    >>> precision([[7, 3, 5, -1]], [[3, 5, 8, 9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.mean())


@with_sections
def hit_rate(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the share of users with at least one relevant item in the list.

    {lists}

    Examples
    --------
    >>> hit_rate([[7, 3], [1, 2]], [[3], [9]])
    0.5
    """
    hits, _ = _hits(ranked, relevant, n)
    return float(hits.any(axis=1).mean())


@with_sections
def mrr(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the mean reciprocal rank: 1 / k for the first k with h_k = 1, and 0 if there is none.

    {lists}

    Examples
    --------
    >>> mrr([[7, 3], [1, 2]], [[3], [9]])
    0.25
    """
    hits, _ = _hits(ranked, relevant, n)
    first = hits.argmax(axis=1)
    return float(np.where(hits.any(axis=1), 1 / (first + 1), 0.0).mean())


@with_sections
def mean_average_precision(ranked: ArrayLike, relevant: Relevant, n: int | None = None) -> float:
    """Compute the mean average precision (MAP): the precision up to each relevant item, averaged.

    sum_k h_k (h_1 + ... + h_k) / k, divided by min(n, |R|), the largest possible number of terms.

    {lists}

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


def _concordant(x: Floats, p: Floats) -> tuple[int, int]:
    """Count the pairs in the right order, and the pairs of different values."""
    right = pairs = 0
    for start in range(0, len(x), BLOCK):
        above = x[start : start + BLOCK, None] > x
        pairs += int(np.count_nonzero(above))
        right += int(np.count_nonzero(above & (p[start : start + BLOCK, None] > p)))
    return right, pairs


def _groups(users: ArrayLike, x: Floats) -> tuple[Ints, int]:
    """Return the position of each value's user among the distinct users, and the number of users."""
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


def _hits(ranked: ArrayLike, relevant: Relevant, n: int | None) -> tuple[NDArray[np.bool_], Ints]:
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
