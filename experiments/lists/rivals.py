"""Rivals: popularity, EASE, RP3beta, nearest neighbours and ALS.

Bytes are those of what it takes to make a list from a history: 4 for a number, 4 more for its column where a matrix is
sparse, and 4 for each row of that. Factors of users are not counted, because they follow from the history.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from accams.fit.regression import dropped, leading, solved
from lists.protocols import INPUTS, Lists, Task, best, weigh
from rivals.quantise import encode

Matrix = sparse.csr_array
Users = NDArray[np.int64] | None  # rows of the training data, or None for users who are not in it


class Fitted(NamedTuple):
    """A function that makes lists from histories, and the size of the model."""

    lists: Callable[[Matrix, Users], Lists]
    n_bytes: int


@dataclass(frozen=True)
class Method:
    """A method with its grid of parameters.

    `fit` takes ratings, their times if it is `timed`, and the parameters named in `start`, where the search begins.
    `grid` has the values that are tried, parameter by parameter in this order.
    """

    name: str
    fit: Callable[..., Fitted]
    start: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    timed: bool = False

    def fitted(self, task: Task, setting: Mapping[str, Any]) -> Fitted:
        """Fit to the training data of a task."""
        return self.fit(task.ratings, **setting, **({"times": task.times} if self.timed else {}))


def popularity(ratings: Matrix, input: str) -> Fitted:
    """Rank by the number of likes, the same for everybody."""
    counts = np.asarray(weigh(ratings, input).sum(axis=0)).ravel()
    return Fitted(lambda history, _: best(history, lambda who: np.tile(counts, (len(who), 1))), 4 * len(counts))


def ease(ratings: Matrix, input: str, penalty: float, dropout: float = 0.0) -> Fitted:
    """Regress each item on all others, in closed form (Steck, WWW 2019), with dropout (Steck, NeurIPS 2020)."""
    return by_map(solved(dropped(gram(ratings, input), dropout), penalty), input)


def low_rank(ratings: Matrix, input: str, penalty: float, dropout: float, bits: int, size: int) -> Fitted:
    """Compress EASE to `size` bytes: the best map of low rank in its metric, quantised, with a 16-bit scale a row."""
    products = dropped(gram(ratings, input), dropout)
    rank = (size // (2 * len(products)) - 2) * 8 // bits  # a vector takes whole bytes and its scale
    found = leading(products, penalty, solved(products, penalty), rank, np.random.default_rng(0))
    balance = np.sqrt(np.linalg.norm(found.rows, axis=0) + 1e-30)  # equal lengths on both sides lose least in rounding
    rows, cols = encode(found.rows / balance, bits, "float16"), encode(found.cols * balance, bits, "float16")
    approximate = rows.decoded() @ cols.decoded().T
    np.fill_diagonal(approximate, 0.0)
    return by_map(approximate, input)._replace(n_bytes=rows.n_bytes + cols.n_bytes)


def rp3beta(ratings: Matrix, input: str, alpha: float, beta: float, K: int, normalised: bool) -> Fitted:
    """Walk from item to user to item at random, and discount popular items (Paudel et al., TiiS 2016)."""
    weighed = weigh(ratings, input)
    counts = np.diff(weighed.tocsc().indptr)
    there, back = (stochastic(x) for x in ((weighed != 0).astype(float).T.tocsr(), weighed))
    there.data, back.data = there.data**alpha, back.data**alpha
    walks = (there @ back).toarray() / np.maximum(counts, 1) ** beta
    np.fill_diagonal(walks, 0.0)
    kept = largest(walks, K)
    return by_map(stochastic(kept) if normalised else kept, input)


def neighbours(ratings: Matrix, input: str, kind: str, K: int) -> Fitted:
    """Score by the nearest neighbours of the items in the history, with implicit."""
    from implicit import nearest_neighbours

    model = getattr(nearest_neighbours, f"{kind}Recommender")(K=K)
    with warnings.catch_warnings():  # it warns of a conversion of its own
        warnings.simplefilter("ignore")
        model.fit(single(weigh(ratings, input)), show_progress=False)
    return by_map(sparse.csr_array(model.similarity), input)


def als(ratings: Matrix, input: str, factors: int, alpha: float, regularization: float, iterations: int) -> Fitted:
    """Factorise by weighted alternating least squares (Hu et al., ICDM 2008), with implicit."""
    from implicit.als import AlternatingLeastSquares

    with threadpool_limits(1, "blas"):  # implicit has threads of its own, which BLAS would slow down
        how: dict[str, Any] = {"factors": factors, "alpha": alpha, "regularization": regularization}
        model = AlternatingLeastSquares(**how, iterations=iterations, random_state=0)
        model.fit(single(weigh(ratings, input)), show_progress=False)

    def lists(history: Matrix, users: Users) -> Lists:
        if users is not None:
            left = model.user_factors[users]
        else:
            with threadpool_limits(1, "blas"):
                left = model.recalculate_user(np.arange(history.shape[0]), single(weigh(history, input)))
        return best(history, lambda who: left[who] @ model.item_factors.T)

    return Fitted(lists, model.item_factors.nbytes)


EASE = Method(
    "EASE",
    ease,
    {"input": "weighted", "penalty": 400.0},
    {"input": tuple(INPUTS), "penalty": (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0, 12800.0)},
)
DROPOUT = Method(
    "EASE with dropout",
    ease,
    {"input": "weighted", "penalty": 200.0, "dropout": 0.5},
    {
        "input": tuple(INPUTS),
        "dropout": (0.0, 0.5, 0.75, 0.875, 0.9375, 0.96875, 0.984375),
        "penalty": tuple(3.125 * 2.0**step for step in range(10)),
    },
)
RIVALS = (
    Method("popularity", popularity, {"input": "likes"}, {"input": tuple(INPUTS)}),
    EASE,
    DROPOUT,
    Method(
        "RP3beta",
        rp3beta,
        {"input": "likes", "alpha": 0.8, "beta": 0.6, "K": 500, "normalised": True},
        {
            "input": tuple(INPUTS),
            "beta": (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            "alpha": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5),
            "K": (50, 100, 200, 500, 1000, 2000),
            "normalised": (False, True),
        },
    ),
    Method(
        "item-kNN (implicit)",
        neighbours,
        {"input": "likes", "kind": "TFIDF", "K": 20},
        {"input": tuple(INPUTS), "kind": ("Cosine", "TFIDF", "BM25"), "K": (5, 10, 20, 50, 100, 200, 500)},
    ),
    Method(
        "ALS (implicit)",
        als,
        {"input": "weighted", "factors": 128, "alpha": 2.0, "regularization": 30.0, "iterations": 15},
        {
            "input": tuple(INPUTS),
            "regularization": (1.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0, 200.0),
            "alpha": (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0),
            "factors": (16, 32, 64, 128, 256, 512),
            "iterations": (5, 8, 15, 30),
        },
    ),
)


def compressed_ease(setting: Mapping[str, Any], size: int) -> Method:
    """Return the rival of the same size as ours: EASE with dropout as it was set, in the best number of bits."""
    start = {**setting, "size": size, "bits": 4}
    return Method(f"EASE of low rank, {size:,} bytes", low_rank, start, {"bits": (3, 4, 5, 6, 8)})


def by_map(item_map: NDArray[np.floating] | Matrix, input: str) -> Fitted:
    """Score by x B, with x the history and B an item-item map."""
    item_map = item_map.astype(np.float32)
    is_sparse = sparse.issparse(item_map)
    n_bytes = 8 * item_map.nnz + 4 * (item_map.shape[0] + 1) if is_sparse else item_map.nbytes

    def lists(history: Matrix, _: Users) -> Lists:
        x = weigh(history, input).astype(np.float32)
        return best(history, lambda who: (x[who] @ item_map).toarray() if is_sparse else x[who] @ item_map)

    return Fitted(lists, n_bytes)


def gram(ratings: Matrix, input: str) -> NDArray[np.float64]:
    """Return X'X of the input X."""
    x = weigh(ratings, input)
    return (x.T @ x).toarray()


def stochastic(x: Matrix) -> Matrix:
    """Divide each row by its sum."""
    out = sparse.csr_array(x)
    sums = np.repeat(np.asarray(out.sum(axis=1)).ravel(), np.diff(out.indptr))
    out.data = out.data / sums
    return out


def largest(x: NDArray[np.float64], K: int) -> Matrix:
    """Keep the K largest numbers of each row."""
    K = min(K, x.shape[1])
    cols = np.argpartition(-x, K - 1, axis=1)[:, :K]
    starts = np.arange(0, K * len(x) + 1, K)
    out = sparse.csr_array((np.take_along_axis(x, cols, axis=1).ravel(), cols.ravel(), starts), shape=x.shape)
    out.eliminate_zeros()
    return out


def single(x: Matrix) -> sparse.csr_matrix:
    """Convert to the types that implicit's compiled code takes."""
    out = sparse.csr_matrix(x.astype(np.float32))
    out.indices, out.indptr = out.indices.astype(np.int32), out.indptr.astype(np.int32)
    return out
