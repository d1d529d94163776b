"""Ratings as plain arrays, and the same by row and by column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ints = NDArray[np.integer]


class Lines(NamedTuple):
    """Ratings line by line: line i has the entries starts[i] .. starts[i + 1] of `others` and `values`."""

    starts: NDArray[np.int64]
    others: NDArray[np.int32]
    values: Vector

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings of each line."""
        return np.diff(self.starts)


class Ratings(NamedTuple):
    """Observed cells of a matrix, in any order.

    Attributes
    ----------
    rows, cols : array of int
        Positions, from 0.
    values : array of float
    shape : tuple of int
    """

    rows: Ints
    cols: Ints
    values: Vector
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Ints, cols: Ints, values: NDArray[np.floating], shape: tuple[int, int]) -> Ratings:
        """Ratings from arrays of any fitting type, checked."""
        if not len(rows) == len(cols) == len(values):
            raise ValueError(f"rows, cols and values differ in length: {len(rows)}, {len(cols)}, {len(values)}")
        for name, given, n in (("row", rows, shape[0]), ("column", cols, shape[1])):
            if len(given) and not 0 <= np.min(given) <= np.max(given) < n:
                raise ValueError(f"{name} positions must lie between 0 and {n - 1}")
        return cls(np.asarray(rows, np.int32), np.asarray(cols, np.int32), np.asarray(values, np.float64), shape)

    @property
    def mean(self) -> float:
        """The mean of all values; a ValueError where there are none."""
        if not len(self.values):
            raise ValueError("there are no ratings: nothing can be learned from an empty set")
        return float(self.values.mean())

    def coo(self) -> tuple[Ints, Ints, Vector]:
        """Rows, columns and values: what `accams.baselines` asks of observations."""
        return self.rows, self.cols, self.values

    def by_row(self) -> Lines:
        """The columns and values of each row."""
        return lines(self.rows, self.cols, self.values, self.shape[0])

    def by_col(self) -> Lines:
        """The rows and values of each column."""
        return lines(self.cols, self.rows, self.values, self.shape[1])

    def take(self, which: NDArray[np.bool_] | Ints) -> Ratings:
        """Some of the ratings, of the same matrix."""
        return Ratings(self.rows[which], self.cols[which], self.values[which], self.shape)

    def hold_out(self, share: float = 0.1, seed: int = 0) -> tuple[Ratings, Ratings]:
        """Two parts: what is left, and a share drawn at random."""
        order = np.random.default_rng(seed).permutation(len(self.values))
        cut = int(len(order) * share)
        return self.take(np.sort(order[cut:])), self.take(np.sort(order[:cut]))


def lines(keys: Ints, others: Ints, values: Vector, n: int) -> Lines:
    """Ratings sorted by `keys`, which are less than n."""
    order = np.argsort(keys, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))])
    return Lines(starts, others[order].astype(np.int32), values[order])
