"""The approximation theorem and the storage lemma of the paper, with constants that hold."""

from __future__ import annotations

from math import ceil, log2, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.theory.entropy import CONSTANT, checked_values, entropy_number

Norm = Literal["max", "spectral"]
Template = Literal["centres", "means"]


class ApproximationBound(float):
    """A bound on an error: a float that knows what it is worth.

    Attributes
    ----------
    trivial : float
        The error of a stencil of zeros; where only singular values are known, what that is at most.
    vacuous : bool
        Whether the bound promises no more than that.
    """

    trivial: float

    def __new__(cls, value: float, trivial: float) -> ApproximationBound:
        """Both are errors in the same norm."""
        bound = super().__new__(cls, value)
        bound.trivial = trivial
        return bound

    @property
    def vacuous(self) -> bool:
        """Whether a stencil of zeros is as good."""
        return float(self) >= self.trivial

    def __repr__(self) -> str:
        return f"{float(self):.6g}" + (f" (vacuous: zeros have {self.trivial:.6g})" if self.vacuous else "")


def approximation_bound(
    matrix_or_singular_values: ArrayLike,
    n_clusters: int | tuple[int, int],
    norm: Norm = "max",
    *,
    template: Template | None = None,
    shape: tuple[int, int] | None = None,
) -> ApproximationBound:
    """How well some stencil with so many clusters a side approximates a complete matrix M.

    With e_l the entropy number of the roots of the singular values, some stencil M' has

    - ``max |M - M'| <= |M|^(1/2) (e_rows + e_cols)`` with a template of cover centres, twice that with block means;
    - ``|M - M'|_2 <= |M|^(1/2) (sqrt(m) e_rows + sqrt(n) e_cols)`` with a template of block means.

    |.| and |.|_2 are the largest singular value. For cover centres the second is not true (`docs/errata.md`).

    Parameters
    ----------
    matrix_or_singular_values : array-like
        A matrix without gaps, or a vector of singular values.
    n_clusters : int or (int, int)
        Of rows and of columns.
    norm : "max" or "spectral"
    template : "centres", "means" or None
        What the stencil holds; by default what the norm's bound is for.
    shape : (int, int), optional
        Of the matrix, where only its singular values are given and the norm is spectral.

    Examples
    --------
    >>> import numpy as np
    >>> spike = np.outer(np.arange(10.0), np.ones(8))
    >>> approximation_bound(spike, 10)
    57.2992 (vacuous: zeros have 9)
    >>> approximation_bound(spike, 100).vacuous
    False
    """
    values, shape, largest = _spectrum(matrix_or_singular_values, shape)
    rows, cols = both_sides(n_clusters)
    root = np.sqrt(values)
    e_rows, e_cols = entropy_number(root, rows), entropy_number(root, cols)
    top = float(values.max(initial=0.0))
    if norm == "max":
        factor = 2.0 if _checked(template, "centres") == "means" else 1.0
        return ApproximationBound(factor * sqrt(top) * (e_rows + e_cols), largest)
    if norm != "spectral":
        raise InputError(f"norm is 'max' or 'spectral', not {norm!r}")
    if _checked(template, "means") == "centres":
        raise InputError("in the spectral norm the bound holds for template='means' only; docs/errata.md shows why")
    if shape is None:
        raise InputError("singular values do not tell the shape of the matrix: give shape=(rows, columns) as well")
    m, n = shape
    return ApproximationBound(sqrt(top) * (sqrt(m) * e_rows + sqrt(n) * e_cols), top)


def rank_bound(spectral_norm: float, rank: int, n_clusters: int) -> float:
    """What the bound in the maximum norm comes to if only |M| and the rank are known: 12 |M| l^(-1/rank).

    Examples
    --------
    >>> rank_bound(1.0, 1, 24)
    0.5
    """
    if rank < 1 or n_clusters < 1:
        raise InputError(f"the rank and the number of clusters are at least 1, not {rank} and {n_clusters}")
    return float(2 * CONSTANT * spectral_norm * n_clusters ** (-1.0 / rank))


def storage_bits(shape: tuple[int, int], template_shape: tuple[int, int], largest: float, error: float) -> float:
    """Bits that are enough for one stencil whose template may be off by `error` (the paper's compression lemma).

    Labels take log2 of their number of clusters. A template within -largest..largest is cut into cells 2 * error wide,
    and an entry is the number of its cell.

    Examples
    --------
    >>> storage_bits((100, 50), (4, 2), largest=3.0, error=0.1)  # 200 + 50 + 8 log2 30
    289.25512...
    """
    if not (error > 0 and largest >= 0):
        raise InputError("the error must be above 0 and the largest entry at least 0")
    (m, n), (k_rows, k_cols) = shape, template_shape
    if min(k_rows, k_cols) < 1:
        raise InputError(f"a template has at least one row and one column, not {k_rows} x {k_cols}")
    cells = max(1, ceil(largest / error - 1e-9))
    return m * log2(k_rows) + n * log2(k_cols) + k_rows * k_cols * log2(cells)


def _spectrum(
    given: ArrayLike, shape: tuple[int, int] | None
) -> tuple[NDArray[np.float64], tuple[int, int] | None, float]:
    """Singular values, the shape if it is known, and the largest entry, or what it can be at most."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim == 1:
        checked_values(values)
        return values, shape, float(values.max(initial=0.0))
    matrix = checked_matrix(values)
    values = np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)
    return values, (matrix.shape[0], matrix.shape[1]), float(np.abs(matrix).max())


def checked_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """A matrix without gaps, or an error that says what is wrong with it."""
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError(f"a matrix has rows and columns; this is an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("the bounds are for matrices without gaps or infinities; complete the matrix first")
    return values


def both_sides(n_clusters: int | tuple[int, int]) -> tuple[int, int]:
    """One number for rows and columns, or one for each."""
    rows, cols = np.broadcast_to(n_clusters, 2)
    return int(rows), int(cols)


def _checked(template: Template | None, default: Template) -> Template:
    if template not in (None, "centres", "means"):
        raise InputError(f"template is 'centres' or 'means', not {template!r}")
    return template or default
