"""The item-item regression in closed form, and its leading directions.

The map B minimises |X - X B|^2 + lambda |B|^2 with a diagonal of zeros (EASE, Steck 2019). With P the inverse of
A = X'X + lambda I it is B_ij = -P_ij / P_jj off the diagonal, so that A B = A - diag(1 / P_jj).

Dropout asks for a map that does as well when each choice is missing from a history with probability p (EDLAE, Steck
2020). In expectation, and up to a factor, that multiplies entries of X'X off its diagonal by 1 - p (`dropped`). So X'X
below stands for what dropout makes of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from accams.errors import InputError

Floats = NDArray[np.float64]
MORE = 10  # random directions beyond those that are asked for
ITERATIONS = 4  # of the subspace


class Ridge(NamedTuple):
    """What holds the regression back: lambda, and the share of choices that it must do without."""

    penalty: float
    dropout: float


class Directions(NamedTuple):
    """The best map of low rank in the metric A: ``rows @ cols.T``, with orthonormal columns of `cols`."""

    rows: Floats
    cols: Floats
    sizes: Floats  # the metric's length of each column of `rows`, largest first


def dropped(gram: Floats, dropout: float, overwrite: bool = False) -> Floats:
    """Return X'X under dropout, in place of X'X itself if that may be overwritten.

    Examples
    --------
    >>> dropped(np.array([[4.0, 2.0], [2.0, 3.0]]), 0.5)
    array([[4., 1.],
           [1., 3.]])
    """
    diagonal = np.diagonal(gram).copy()
    out = np.multiply(gram, 1.0 - dropout, out=gram if overwrite else None)
    np.fill_diagonal(out, diagonal)
    return out


def solved(gram: Floats, penalty: float) -> Floats:
    """Return the map, given X'X and lambda.

    Examples
    --------
    >>> X = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
    >>> solved(X.T @ X, 1.0)[:2, :2].round(2)
    array([[0.  , 0.67],
           [0.67, 0.  ]])
    """
    metric = np.array(gram, np.float64, order="F")
    metric[np.diag_indices_from(metric)] += penalty
    factor, failed = lapack.dpotrf(metric, lower=True, overwrite_a=True)
    if not failed:
        factor, failed = lapack.dpotri(factor, lower=True, overwrite_c=True)
    if failed:
        raise InputError(f"the item-item regression cannot be solved with a penalty of {penalty:g}: give a larger one")
    inverse: Floats = np.tril(factor)
    inverse += np.tril(factor, -1).T
    inverse /= -np.diagonal(inverse).copy()
    np.fill_diagonal(inverse, 0.0)
    return inverse


def leading(gram: Floats, penalty: float, best: Floats, number: int, random: np.random.Generator) -> Directions:
    """Return the best map of rank `number` in the metric, given X'X, lambda and the map.

    Its columns are the leading eigenvectors V of B'AB, and its lines B V: found by iterating a subspace.
    """
    number = min(number, len(gram))
    product = gram @ best + penalty * best
    basis = random.normal(size=(len(gram), min(number + MORE, len(gram))))
    for _ in range(ITERATIONS):
        basis = np.linalg.qr(product.T @ (best @ basis))[0]
    values, vectors = np.linalg.eigh((best @ basis).T @ (product @ basis))
    order = np.argsort(-values)[:number]
    cols = basis @ vectors[:, order]
    return Directions(best @ cols, cols, np.sqrt(np.maximum(values[order], 0.0)))
