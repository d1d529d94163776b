"""Divide-Factor-Combine (Mackey, Talwalkar and Jordan 2011): parts of a matrix completed apart, then put together.

The columns are dealt at random into t parts, and each part is completed by the base factorisation. DFC-Proj projects
all parts onto the column space of one of them; DFC-Nys needs one part of the columns, C, and one of the rows, R, and
is C W^+ R, where W is the rows of R in the completed C. The ensembles average over all choices of the part, or of the
pair. Everything stays in factored form. Dividing rows is the same of the transposed matrix.

Shrunken biases of rows and columns are taken off the whole matrix first: a part sees too little of a line that is cut.
That takes a few passes over the data, and is counted with the combination. The base may have biases of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from accams.baselines import biases
from accams.threads import Threads
from rivals.factors import Factorisation
from rivals.mf import ALS
from rivals.ratings import Ints, Matrix, Ratings, Vector

NOTHING = 1e-9  # singular values below this share of the largest are zeros


class Product(NamedTuple):
    """The matrix left right'."""

    left: Matrix
    right: Matrix


@dataclass(frozen=True)
class Divided:
    """A combined factorisation, and what it took.

    Attributes
    ----------
    model : Factorisation
    part_seconds : list of float
        Time of each part, one after another.
    combine_seconds : float
        All that is not the parts.
    """

    model: Factorisation
    part_seconds: list[float]
    combine_seconds: float

    @property
    def parallel_seconds(self) -> float:
        """With a machine for each part: the longest part and the combination."""
        return max(self.part_seconds) + self.combine_seconds

    @property
    def serial_seconds(self) -> float:
        """On one machine."""
        return sum(self.part_seconds) + self.combine_seconds

    @property
    def n_bytes(self) -> int:
        return self.model.n_bytes

    def predict(self, rows: Ints, cols: Ints) -> Vector:
        """Predictions at cells given by position."""
        return self.model.predict(rows, cols)


@dataclass(frozen=True)
class DFC:
    """Divide, factor, combine.

    Parameters
    ----------
    parts : int
        How many parts there are (for "nys" of rows and of columns).
    method : "proj" or "nys"
    divide : "rows" or "cols"
        What is dealt into parts. "rows", the same of the transposed matrix, leaves all ratings of a row together.
    ensemble : bool
        Average over the part that is projected onto, or over pairs of parts of columns and of rows.
    base : ALS
        The factorisation of a part. It sees what the biases leave.
    row_damping, col_damping : float
        Ratings of the mean that draw a bias towards zero.
    """

    parts: int = 2
    method: Literal["proj", "nys"] = "proj"
    ensemble: bool = True
    divide: Literal["rows", "cols"] = "rows"
    base: ALS = field(default_factory=lambda: ALS(ridge=6.0, bias_ridge=5.0))
    row_damping: float = 5.0
    col_damping: float = 5.0

    def fit(self, ratings: Ratings, *, seed: int = 0, threads: Threads | None = None) -> Divided:
        """Learn from ratings; parts are completed in turn, so that their times are their own."""
        began, random, threads = perf_counter(), np.random.default_rng(seed), threads or Threads()
        m, n = ratings.shape
        if not 1 <= self.parts <= min(m, n):
            raise ValueError(f"{self.parts} parts of a {m} x {n} matrix: there must be 1 to {min(m, n)}")
        mean = ratings.mean
        base = biases(ratings, self.row_damping, self.col_damping, n_iter=4)
        left = ratings._replace(values=ratings.values - base.predict(ratings.rows, ratings.cols))
        turned = self.divide == "rows"
        with threadpool_limits(1, "blas"):  # on thin matrices its threads cost more than they bring
            found, times = self._divided(transposed(left) if turned else left, random, seed, threads)
        found = Product(found.right, found.left) if turned else found
        model = Factorisation(mean, *found, base.rows, base.cols)
        return Divided(model, times, perf_counter() - began - sum(times))

    def _divided(
        self, left: Ratings, random: np.random.Generator, seed: int, threads: Threads
    ) -> tuple[Product, list[float]]:
        """What biases leave, by its columns in parts, and the seconds of each part."""
        col_parts, row_parts = (
            [np.sort(p) for p in np.array_split(random.permutation(size), self.parts)] for size in left.shape[::-1]
        )
        used = self.parts if self.ensemble else 1
        if self.method == "proj":
            found, times = self._complete((columns_of(left, p) for p in col_parts), seed, threads)
            return projected(found, col_parts, used), times
        pairs = list(zip(col_parts, row_parts, strict=True))[:used]
        pieces = (piece for C, R in pairs for piece in (columns_of(left, C), rows_of(left, R)))
        found, times = self._complete(pieces, seed, threads)
        return average([nystrom(found[2 * p], found[2 * p + 1], R) for p, (_, R) in enumerate(pairs)]), times

    def _complete(self, pieces: Iterable[Ratings], seed: int, threads: Threads) -> tuple[list[Product], list[float]]:
        """Each piece by the base factorisation, and the seconds it took to pick it out and factor it."""
        found, times, began = list[Product](), list[float](), perf_counter()
        for p, piece in enumerate(pieces):
            empty = len(piece.values) == 0  # nothing is known of it: zeros, as for a row without ratings
            zeros = Product(*(np.zeros((size, 0)) for size in piece.shape))
            found.append(zeros if empty else Product(*self.base.fit(piece, seed=seed + p, threads=threads).factored()))
            times.append(perf_counter() - began)
            began = perf_counter()
        return found, times


def columns_of(ratings: Ratings, which: Ints) -> Ratings:
    """The matrix of some columns, in the order given."""
    place = np.full(ratings.shape[1], -1, np.int32)
    place[which] = np.arange(len(which))
    part = ratings.take(place[ratings.cols] >= 0)
    return part._replace(cols=place[part.cols], shape=(ratings.shape[0], len(which)))


def rows_of(ratings: Ratings, which: Ints) -> Ratings:
    """The matrix of some rows, in the order given."""
    return transposed(columns_of(transposed(ratings), which))


def transposed(ratings: Ratings) -> Ratings:
    """Rows as columns."""
    return Ratings(ratings.cols, ratings.rows, ratings.values, ratings.shape[::-1])


def orthonormal(product: Product) -> tuple[Matrix, Vector, Matrix]:
    """The singular value decomposition of a product, without its zeros."""
    (Q, R), (S, T) = np.linalg.qr(product.left), np.linalg.qr(product.right)
    U, s, Vt = np.linalg.svd(R @ T.T)
    keep = s > NOTHING * max(s.max(initial=0.0), 1e-300)
    return Q @ U[:, keep], s[keep], S @ Vt[keep].T


def projected(found: list[Product], where: list[Ints], used: int) -> Product:
    """All parts projected onto the column spaces of the first `used`, and the average of that."""
    n = sum(len(cols) for cols in where)
    products = []
    for space in (orthonormal(each)[0] for each in found[:used]):
        right = np.zeros((n, space.shape[1]))
        for part, cols in zip(found, where, strict=True):
            right[cols] = part.right @ (part.left.T @ space)
        products.append(Product(space, right))
    return average(products)


def nystrom(C: Product, R: Product, rows: Ints) -> Product:
    """C W^+ R, where R has the given rows of the matrix and W is those rows of C."""
    U, s, _ = orthonormal(C)
    middle = np.linalg.pinv(U[rows] * s, rcond=NOTHING) @ R.left
    return Product(U * s, R.right @ middle.T)


def average(products: list[Product]) -> Product:
    """The mean of products, side by side."""
    lefts, rights = zip(*products, strict=True)
    return Product(np.hstack(lefts) / len(products), np.hstack(rights))
