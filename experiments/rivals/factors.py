"""What every factorisation comes to, and half a sweep of those that solve or draw one side given the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accams.threads import Threads
from rivals.kernels import dot_pairs, solve_rows
from rivals.ratings import Ints, Lines, Matrix, Vector

FLOAT = 4  # bytes of a parameter, as the paper counts them


def dots(P: Matrix, Q: Matrix, rows: Ints, cols: Ints) -> Vector:
    """P[i] . Q[j] for pairs of i and j."""
    out = np.empty(len(rows))
    dot_pairs(0, len(rows), rows, cols, P, Q, out)
    return out


@dataclass(frozen=True)
class Factorisation:
    """mean + row bias + column bias + P Q', with biases of zero where there are none.

    Attributes
    ----------
    mean : float
    P, Q : array
        Factors of rows and columns.
    row_bias, col_bias : array
    n_bytes : int
        4 R (m + n), where R counts the bias, if there is one, beside the factors.
    """

    mean: float
    P: Matrix
    Q: Matrix
    row_bias: Vector
    col_bias: Vector
    biases: bool = True

    @property
    def n_bytes(self) -> int:
        return FLOAT * (self.P.shape[1] + self.biases) * (len(self.P) + len(self.Q))

    def predict(self, rows: Ints, cols: Ints) -> Vector:
        """Predictions at cells given by position."""
        return self.mean + self.row_bias[rows] + self.col_bias[cols] + dots(self.P, self.Q, rows, cols)

    def factored(self) -> tuple[Matrix, Matrix]:
        """Two matrices whose product, left right', is every prediction, mean and biases included."""
        if self.mean == 0 and not self.biases:
            return self.P, self.Q
        ones = np.ones(len(self.P)), np.ones(len(self.Q))
        return np.c_[self.P, self.row_bias + self.mean, ones[0]], np.c_[self.Q, ones[1], self.col_bias]

    @classmethod
    def of(cls, mean: float, X: Matrix, Y: Matrix, biases: bool) -> Factorisation:
        """From vectors whose last coordinate is the bias, where there are biases."""
        r = X.shape[1] - biases
        row_bias, col_bias = (Z[:, r].copy() if biases else np.zeros(len(Z)) for Z in (X, Y))
        return cls(mean, np.ascontiguousarray(X[:, :r]), np.ascontiguousarray(Y[:, :r]), row_bias, col_bias, biases)


class Prior(NamedTuple):
    """A Gaussian prior of all vectors of one side; `scale` is what a row's precision is multiplied by."""

    precision: Matrix
    mean: Vector
    scale: Vector


def solve_side(
    lines: Lines, Y: Matrix, mean: float, biases: bool, prior: Prior, threads: Threads, *,
    weights: Vector | None = None, row_weights: Vector | None = None, noise: Matrix | None = None,
) -> Matrix:  # fmt: skip
    """Vectors of all lines given those of the other side: the least squares, or drawn where there is noise.

    The last coordinate of a vector is its bias, where there are biases; what it meets on the other side is a one.
    """
    r = Y.shape[1] - biases
    design = np.c_[Y[:, :r], np.ones(len(Y))] if biases else np.ascontiguousarray(Y)
    offsets = mean + Y[:, r] if biases else np.full(len(Y), mean)
    out = np.empty((len(lines.starts) - 1, Y.shape[1]))
    pull = prior.precision @ prior.mean
    threads.run(
        solve_rows, threads.split(lines.starts), *lines, design, offsets, weights, row_weights,
        prior.precision, pull, prior.scale, noise, out,
    )  # fmt: skip
    return out


def average_unseen(X: Matrix, counts: Ints) -> Matrix:
    """Vectors with those of lines that have no ratings replaced by the average of the others."""
    unseen = np.asarray(counts) == 0
    if unseen.any():
        X[unseen] = X[~unseen].mean(axis=0)
    return X
