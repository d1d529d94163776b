"""The constructive side: a greedy cover of a matrix's factors, and the stencil that it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.model.stencils import StencilSum
from accams.theory.bounds import Template, both_sides, checked_matrix

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Cover:
    """Points in balls around some of them.

    Attributes
    ----------
    centres : array of int
        Which points.
    labels : array of int
        For each point, which centre is nearest.
    radius : float
        The largest distance to it.
    """

    centres: NDArray[np.int64]
    labels: NDArray[np.int64]
    radius: float


def greedy_cover(points: ArrayLike, n: int) -> Cover:
    """Take the point nearest to the mean, and then n - 1 times the point farthest from those taken.

    No cover by n balls, wherever their centres are, has a radius below half of this one: the centres and the point
    that is farthest from them in the end are n + 1 points, no two nearer than that, and two of them share a ball.

    Examples
    --------
    >>> cover = greedy_cover([[0.0], [1.0], [9.0], [10.0]], 2)
    >>> cover.labels, cover.radius
    (array([0, 0, 1, 1]), 1.0)
    """
    x = checked_matrix(points)
    if n < 1:
        raise InputError(f"a cover has at least one ball, not {n}")
    first = int(np.argmin(np.square(x - x.mean(axis=0)).sum(axis=1)))
    centres, labels = [first], np.zeros(len(x), dtype=np.int64)
    distance = _distances(x, first)
    while len(centres) < min(n, len(x)) and distance.max() > 0:
        centres.append(int(distance.argmax()))
        other = _distances(x, centres[-1])
        nearer = other < distance
        labels[nearer], distance[nearer] = len(centres) - 1, other[nearer]
    return Cover(np.array(centres), labels, float(distance.max()))


def _distances(x: Matrix, centre: int) -> Matrix:
    return np.asarray(np.sqrt(np.square(x - x[centre]).sum(axis=1)))


@dataclass(frozen=True)
class CoverStencil:
    """A stencil from covers of both factors of a matrix.

    Attributes
    ----------
    model : StencilSum
        One stencil, offset 0.
    rows, cols : Cover
        Of the factors Q = U S^(1/2) and R = V S^(1/2).
    guarantee : float
        What the covers' own radii promise: no entry is off by more.
    """

    model: StencilSum
    rows: Cover
    cols: Cover
    guarantee: float


def cover_stencil(matrix: ArrayLike, n_clusters: int | tuple[int, int], template: Template = "centres") -> CoverStencil:
    """A stencil that keeps twice the bound of the approximation theorem, by greedy covers of the factors.

    Parameters
    ----------
    matrix : array-like
        Without gaps.
    n_clusters : int or (int, int)
        Of rows and of columns.
    template : "centres" or "means"
        Inner products of the covers' centres (twice the bound in the maximum norm), or block means of the matrix
        (twice the bound in the spectral norm, and the least squared error for these labels).

    Examples
    --------
    >>> found = cover_stencil([[1.0, 1.0, 5.0], [1.0, 1.0, 5.0]], 2)
    >>> found.model.dense().round(6) + 0.0
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
        T, spread = block_means(M, rows.labels, cols.labels), 2.0  # a mean may be as far off as the ball is wide
    else:
        raise InputError(f"template is 'centres' or 'means', not {template!r}")
    longest_q, longest_r = (float(np.sqrt(np.square(each).sum(axis=1).max())) for each in (Q, R))
    guarantee = spread * (rows.radius * longest_r + longest_q * cols.radius)
    model = StencilSum((M.shape[0], M.shape[1])).append(T, rows.labels, cols.labels)
    return CoverStencil(model, rows, cols, guarantee)


def block_means(M: Matrix, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Matrix:
    """The mean of each block; every label up to the largest is in use."""
    H, G = (np.eye(labels.max() + 1)[labels] for labels in (rows, cols))
    return np.asarray(H.T @ M @ G / np.outer(H.sum(axis=0), G.sum(axis=0)))
