"""Simple rivals that every result should be shown beside: means, biases, and a (quantised) truncated SVD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.model.size import factor_bits

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Biases:
    """mean + row bias + column bias."""

    mean: float
    rows: Vector
    cols: Vector

    def predict(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Vector:
        """Predictions at cells given by position."""
        return self.mean + self.rows[rows] + self.cols[cols]

    def dense(self) -> Vector:
        """Predictions at all cells."""
        return self.mean + self.rows[:, None] + self.cols[None, :]


def column_means(observations: Observations, damping: float = 5.0) -> Biases:
    """The mean of each column, drawn towards the overall mean by `damping` observations of it."""
    _, cols, values = observations.coo()
    mean, n = float(values.mean()), observations.shape[1]
    totals = np.bincount(cols, weights=values - mean, minlength=n)
    bias = totals / (np.bincount(cols, minlength=n) + damping)
    return Biases(mean, np.zeros(observations.shape[0]), bias)


def biases(
    observations: Observations, row_damping: float = 15.0, col_damping: float = 10.0, n_iter: int = 10
) -> Biases:
    """Row and column biases by alternating least squares with damping (Koren's baseline estimates)."""
    i, j, values = observations.coo()
    m, n = observations.shape
    mean = float(values.mean())
    rows, cols = np.zeros(m), np.zeros(n)
    row_counts, col_counts = np.bincount(i, minlength=m), np.bincount(j, minlength=n)
    for _ in range(n_iter):
        cols = np.bincount(j, weights=values - mean - rows[i], minlength=n) / (col_counts + col_damping)
        rows = np.bincount(i, weights=values - mean - cols[j], minlength=m) / (row_counts + row_damping)
    return Biases(mean, rows, cols)


@dataclass(frozen=True)
class Factors:
    """A truncated SVD, left @ right, and the bits it takes."""

    left: Vector
    right: Vector
    bits_per_number: int = 32

    @property
    def bits(self) -> float:
        """Both factors at `bits_per_number`; scales are not counted."""
        return factor_bits((len(self.left), self.right.shape[1]), self.left.shape[1], self.bits_per_number)

    def truncate(self, rank: int) -> Factors:
        """The first `rank` components."""
        return Factors(self.left[:, :rank], self.right[:rank], self.bits_per_number)

    def quantised(self, bits: int) -> Factors:
        """Every number rounded to one of 2^bits - 1 evenly spaced levels of its component."""
        return Factors(_round(self.left, bits, 0), _round(self.right, bits, 1), bits)

    def dense(self) -> Vector:
        """The approximation."""
        return self.left @ self.right


def truncated_svd(matrix: Vector, rank: int) -> Factors:
    """The best approximation of this rank, its singular values shared evenly between the factors."""
    from scipy.sparse.linalg import svds

    rank = min(rank, min(matrix.shape) - 1)
    u, s, vt = svds(matrix, k=rank, random_state=np.random.default_rng(0), solver="propack")
    order = np.argsort(-s)
    root = np.sqrt(s[order])
    return Factors(u[:, order] * root, root[:, None] * vt[order])


def _round(factor: Vector, bits: int, axis: int) -> Vector:
    step = np.abs(factor).max(axis=axis, keepdims=True) / (2 ** (bits - 1) - 1)
    step[step == 0] = 1.0
    return np.asarray(np.rint(factor / step) * step)
