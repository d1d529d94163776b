"""Simple baselines to compare with: means, biases, and a truncated SVD, quantised or not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.model.size import factor_bits

__all__ = ["Biases", "Factors", "biases", "column_means", "truncated_svd"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Biases:
    """A model that predicts mean + row bias + column bias.

    Attributes
    ----------
    mean : float
    rows, cols : arrays (m,) and (n,)
        The biases.

    Examples
    --------
    >>> model = biases(Observations.from_dense([[1.0, 3.0], [3.0, 5.0]]), 0.0, 0.0)
    >>> model.mean, model.cols
    (3.0, array([-1.,  1.]))
    >>> model.predict([0, 1], [1, 1])
    array([3., 5.])
    """

    mean: float
    rows: Floats
    cols: Floats

    def predict(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Floats:
        """Predict the cells at these positions.

        Parameters
        ----------
        rows, cols : array of int

        Returns
        -------
        array of float
        """
        return self.mean + self.rows[rows] + self.cols[cols]

    def dense(self) -> Floats:
        """Predict all cells."""
        return self.mean + self.rows[:, None] + self.cols[None, :]


def column_means(observations: Observations, damping: float = 5.0) -> Biases:
    """Estimate the mean of each column, shrunk towards the overall mean.

    Parameters
    ----------
    observations : Observations
    damping : float
        Number of observations of the overall mean that are added to each column.

    Returns
    -------
    Biases
        With row biases of zero.

    Examples
    --------
    >>> column_means(Observations.from_dense([[1.0, 5.0], [1.0, 5.0]]), damping=2.0).dense()
    array([[2., 4.],
           [2., 4.]])
    """
    _, cols, values = observations.coo()
    mean, n = float(values.mean()), observations.shape[1]
    totals = np.bincount(cols, weights=values - mean, minlength=n)
    bias = totals / (np.bincount(cols, minlength=n) + damping)
    return Biases(mean, np.zeros(observations.shape[0]), bias)


def biases(
    observations: Observations, row_damping: float = 15.0, col_damping: float = 10.0, n_iter: int = 10
) -> Biases:
    """Estimate row and column biases by alternating damped least squares (Koren's baseline estimates).

    Parameters
    ----------
    observations : Observations
    row_damping, col_damping : float
        Number of observations of bias zero that are added to each row (column).
    n_iter : int

    Returns
    -------
    Biases

    Examples
    --------
    >>> biases(Observations.from_dense([[1.0, 3.0], [3.0, 5.0]]), 0.0, 0.0).dense()
    array([[1., 3.],
           [3., 5.]])
    """
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
    """A matrix in factored form, left @ right.

    Attributes
    ----------
    left, right : arrays (m, rank) and (rank, n)
    bits_per_number : int
        Used for the size only.

    Examples
    --------
    >>> factors = truncated_svd(np.outer([1.0, 2.0, 3.0], [2.0, 1.0]), 1)
    >>> factors.left.shape, factors.right.shape, factors.bits
    ((3, 1), (1, 2), 160.0)
    >>> factors.quantised(8).dense().round(1)
    array([[2., 1.],
           [4., 2.],
           [6., 3.]])
    """

    left: Floats
    right: Floats
    bits_per_number: int = 32

    @property
    def bits(self) -> float:
        """Size of both factors; scales are not counted."""
        return factor_bits((len(self.left), self.right.shape[1]), self.left.shape[1], self.bits_per_number)

    def truncate(self, rank: int) -> "Factors":
        """Return the first `rank` components.

        Parameters
        ----------
        rank : int

        Returns
        -------
        Factors
        """
        return Factors(self.left[:, :rank], self.right[:rank], self.bits_per_number)

    def quantised(self, bits: int) -> "Factors":
        """Round every number to one of 2^bits - 1 evenly spaced levels of its component.

        Parameters
        ----------
        bits : int
            At least 2.

        Returns
        -------
        Factors
        """
        return Factors(_round(self.left, bits, 0), _round(self.right, bits, 1), bits)

    def dense(self) -> Floats:
        """Return the product of the factors."""
        return self.left @ self.right


def truncated_svd(matrix: Floats, rank: int) -> Factors:
    """Compute the best approximation of a rank, with the singular values shared evenly between the factors.

    Parameters
    ----------
    matrix : array
        A matrix without missing values.
    rank : int
        Reduced to min(matrix.shape) - 1 if it is larger, the most that the solver computes.

    Returns
    -------
    Factors

    Examples
    --------
    >>> truncated_svd(np.outer([1.0, 2.0, 3.0], [2.0, 1.0]), 1).dense().round(6)
    array([[2., 1.],
           [4., 2.],
           [6., 3.]])
    """
    from scipy.sparse.linalg import svds

    rank = min(rank, min(matrix.shape) - 1)
    u, s, vt = svds(matrix, k=rank, random_state=np.random.default_rng(0), solver="propack")
    order = np.argsort(-s)
    root = np.sqrt(s[order])
    return Factors(u[:, order] * root, root[:, None] * vt[order])


def _round(factor: Floats, bits: int, axis: int) -> Floats:
    step = np.abs(factor).max(axis=axis, keepdims=True) / (2 ** (bits - 1) - 1)
    step[step == 0] = 1.0
    return np.asarray(np.rint(factor / step) * step)
