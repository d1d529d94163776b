"""Stencils that satisfy the bounds up to a factor of two, from greedy covers of a matrix's factors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.model.stencils import StencilSum
from accams.theory.bounds import Template, both_sides, checked_matrix

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Cover:
    """A cover of points by balls around some of them.

    Attributes
    ----------
    centres : array of int
        Positions of the points that are centres.
    labels : array of int
        For each point, the index of its nearest centre in `centres`.
    radius : float
        The largest distance of a point from its nearest centre.

    Examples
    --------
    >>> cover = greedy_cover([[0.0], [1.0], [9.0], [10.0]], 2)
    >>> cover.centres.shape, cover.labels.tolist(), cover.radius
    ((2,), [0, 0, 1, 1], 1.0)
    """

    centres: NDArray[np.int64]
    labels: NDArray[np.int64]
    radius: float


def greedy_cover(points: ArrayLike, n: int) -> Cover:
    """Cover points greedily: take the point nearest to the mean, then n - 1 times the point farthest from all taken.

    No cover by n balls, wherever their centres are, has less than half this radius: the centres and the point farthest
    from them are n + 1 points at least a radius apart, and two of them share a ball.

    Parameters
    ----------
    points : array-like of shape (n_points, dimension)
    n : int
        Number of balls.

    Returns
    -------
    Cover

    Examples
    --------
    >>> cover = greedy_cover([[0.0], [1.0], [9.0], [10.0]], 2)
    >>> cover.labels, cover.radius
    (array([0, 0, 1, 1]), 1.0)
    """
    x = checked_matrix(points)
    if n < 1:
        raise InputError(f"n must be an integer of at least 1, not {n}")
    first = int(np.argmin(np.square(x - x.mean(axis=0)).sum(axis=1)))
    centres, labels = [first], np.zeros(len(x), dtype=np.int64)
    distance = np.sqrt(np.square(x - x[first]).sum(axis=1))
    while len(centres) < min(n, len(x)) and distance.max() > 0:
        centres.append(int(distance.argmax()))
        other = np.sqrt(np.square(x - x[centres[-1]]).sum(axis=1))
        nearer = other < distance
        labels[nearer], distance[nearer] = len(centres) - 1, other[nearer]
    return Cover(np.array(centres), labels, float(distance.max()))


@dataclass(frozen=True)
class CoverStencil:
    """A stencil from covers of both factors of a matrix.

    Attributes
    ----------
    model : StencilSum
        One stencil, offset 0.
    rows, cols : Cover
        Covers of the factors Q = U S^(1/2) and R = V S^(1/2).
    guarantee : float
        Bound on the error of every entry, from the radii of these covers.

    Examples
    --------
    >>> stencil = cover_stencil([[1.0, 1.0, 5.0], [1.0, 1.0, 5.0]], 2)
    >>> stencil.cols.labels.tolist(), bool(stencil.guarantee < 1e-6)
    ([0, 0, 1], True)
    """

    model: StencilSum
    rows: Cover
    cols: Cover
    guarantee: float


def cover_stencil(matrix: ArrayLike, n_clusters: int | tuple[int, int], template: Template = "centres") -> CoverStencil:
    """Construct a stencil with at most twice the error bound of the approximation theorem, by greedy covers.

    Parameters
    ----------
    matrix : array-like
        A matrix without missing values.
    n_clusters : int or (int, int)
        Number of row and column clusters.
    template : "centres" or "means"
        Inner products of the covers' centres (twice the bound in the maximum norm), or block means of the matrix
        (twice the bound in the spectral norm, and the least squared error for these labels).

    Returns
    -------
    CoverStencil

    Examples
    --------
    >>> stencil = cover_stencil([[1.0, 1.0, 5.0], [1.0, 1.0, 5.0]], 2)
    >>> stencil.model.dense().round(6) + 0.0
    array([[1., 1., 5.],
           [1., 1., 5.]])
    """
    M = checked_matrix(matrix)
    k_rows, k_cols = both_sides(n_clusters)
    u, s, vt = np.linalg.svd(M, full_matrices=False)
    root = np.sqrt(s)
    Q, R = u * root, vt.T * root
    rows, cols = greedy_cover(Q, k_rows), greedy_cover(R, k_cols)
    if template == "centres":
        T, spread = Q[rows.centres] @ R[cols.centres].T, 1.0
    elif template == "means":
        T, spread = block_means(M, rows.labels, cols.labels), 2.0  # a mean can be a diameter away
    else:
        raise InputError(f"template must be 'centres' or 'means', not {template!r}")
    longest_q, longest_r = (float(np.sqrt(np.square(factor).sum(axis=1).max())) for factor in (Q, R))
    guarantee = spread * (rows.radius * longest_r + longest_q * cols.radius)
    model = StencilSum((M.shape[0], M.shape[1])).append(T, rows.labels, cols.labels)
    return CoverStencil(model, rows, cols, guarantee)


def block_means(M: Matrix, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Matrix:
    """Return the mean of each block; every label up to the largest must be in use."""
    H, G = (np.eye(labels.max() + 1)[labels] for labels in (rows, cols))
    return np.asarray(H.T @ M @ G / np.outer(H.sum(axis=0), G.sum(axis=0)))
