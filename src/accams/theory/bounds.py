"""The approximation theorem and the storage lemma of the paper, with corrected constants."""

from math import ceil, log2, sqrt
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.theory.entropy import CONSTANT, checked_values, entropy_number

Norm = Literal["max", "spectral"]
Template = Literal["centres", "means"]


class ApproximationBound(float):
    """A bound on an error: a float that also tells whether it says anything.

    Attributes
    ----------
    trivial : float
        The error of a stencil of zeros, or an upper bound of it where only singular values are known.
    vacuous : bool
        Whether the bound is no lower than that.

    Examples
    --------
    >>> bound = approximation_bound([[1.0, 1.0], [2.0, 2.0]], 10)
    >>> bound.trivial, bound.vacuous
    (2.0, True)
    >>> 2 * ApproximationBound(0.5, trivial=2.0)
    1.0
    """

    trivial: float

    def __new__(cls, value: float, trivial: float) -> Self:
        """Create a bound; `value` and `trivial` are errors in the same norm."""
        bound = super().__new__(cls, value)
        bound.trivial = trivial
        return bound

    @property
    def vacuous(self) -> bool:
        """Whether a stencil of zeros meets the bound too."""
        return float(self) >= self.trivial

    def __repr__(self) -> str:
        return f"{float(self):.6g}" + (f" (vacuous: zeros have {self.trivial:.6g})" if self.vacuous else "")


def approximation_bound(
    matrix_or_singular_values: ArrayLike, n_clusters: int | tuple[int, int], norm: Norm = "max", *,
    template: Template | None = None, shape: tuple[int, int] | None = None,
) -> ApproximationBound:  # fmt: skip
    """Bound the error of the best stencil with this number of clusters for a complete matrix M.

    With e_l the entropy number of the square roots of the singular values, there is a stencil M' with

    - ``max |M - M'| <= |M|^(1/2) (e_rows + e_cols)`` with a template of cover centres, twice that with block means;
    - ``|M - M'|_2 <= |M|^(1/2) (sqrt(m) e_rows + sqrt(n) e_cols)`` with a template of block means.

    where |.| and |.|_2 are the largest singular value. For cover centres the second does not hold (`docs/errata.md`).

    Parameters
    ----------
    matrix_or_singular_values : array-like
        A matrix without missing values, or a vector of singular values.
    n_clusters : int or (int, int)
        Number of row and column clusters.
    norm : "max" or "spectral"
    template : "centres", "means" or None
        The kind of template; by default "centres" for norm "max" and "means" for "spectral".
    shape : (int, int), optional
        Shape of the matrix; needed for the spectral norm if singular values are given.

    Returns
    -------
    ApproximationBound

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
        raise InputError(f"norm must be 'max' or 'spectral', not {norm!r}")
    if _checked(template, "means") == "centres":
        raise InputError("in the spectral norm the bound holds for template='means' only; docs/errata.md shows why")
    if shape is None:
        raise InputError("singular values do not determine the shape of the matrix: pass shape=(rows, columns) as well")
    m, n = shape
    return ApproximationBound(sqrt(top) * (sqrt(m) * e_rows + sqrt(n) * e_cols), top)


def rank_bound(spectral_norm: float, rank: int, n_clusters: int) -> float:
    """Bound the error in the maximum norm from |M| and the rank alone: 12 |M| l^(-1/rank).

    Parameters
    ----------
    spectral_norm : float
        |M|, the largest singular value.
    rank, n_clusters : int
        Rank of M, and number of clusters l of rows and of columns.

    Returns
    -------
    float

    Examples
    --------
    >>> rank_bound(1.0, 1, 24)
    0.5
    """
    if rank < 1 or n_clusters < 1:
        raise InputError(f"rank and n_clusters must be at least 1, not {rank} and {n_clusters}")
    return float(2 * CONSTANT * spectral_norm * n_clusters ** (-1.0 / rank))


def storage_bits(shape: tuple[int, int], template_shape: tuple[int, int], largest: float, error: float) -> float:
    """Compute the bits that store one stencil with template entries within `error` (the paper's compression lemma).

    A label takes log2 of the number of clusters. The range from -largest to largest is cut into cells of width
    2 * error, and a template entry is stored as the number of its cell.

    Parameters
    ----------
    shape, template_shape : (int, int)
        Of the matrix and of the template.
    largest, error : float
        Largest absolute value of a template entry, and the error allowed.

    Returns
    -------
    float

    Examples
    --------
    >>> storage_bits((100, 50), (4, 2), largest=3.0, error=0.1)  # 200 + 50 + 8 log2 30
    289.25512...
    """
    if not (error > 0 and largest >= 0):
        raise InputError("error must be above 0 and largest at least 0")
    (m, n), (k_rows, k_cols) = shape, template_shape
    if min(k_rows, k_cols) < 1:
        raise InputError(f"template_shape must be at least (1, 1), not ({k_rows}, {k_cols})")
    cells = max(1, ceil(largest / error - 1e-9))  # less rounding, so that an exact ratio is kept
    return m * log2(k_rows) + n * log2(k_cols) + k_rows * k_cols * log2(cells)


def _spectrum(
    given: ArrayLike, shape: tuple[int, int] | None
) -> tuple[NDArray[np.float64], tuple[int, int] | None, float]:
    """Return the singular values, the shape if known, and the largest absolute entry or a bound of it."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim == 1:
        checked_values(values)
        return values, shape, float(values.max(initial=0.0))
    matrix = checked_matrix(values)
    values = np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)
    return values, (matrix.shape[0], matrix.shape[1]), float(np.abs(matrix).max())


def checked_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """Validate a matrix without missing values."""
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError(f"expected a non-empty 2-d array, not one of shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("the matrix must have no missing or infinite values; complete it first")
    return values


def both_sides(n_clusters: int | tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of row and column clusters from one number or two."""
    rows, cols = np.broadcast_to(n_clusters, 2)
    if min(rows, cols) < 1:
        raise InputError(f"n_clusters must be at least 1, not {n_clusters}")
    return int(rows), int(cols)


def _checked(template: Template | None, default: Template) -> Template:
    if template not in (None, "centres", "means"):
        raise InputError(f"template must be 'centres' or 'means', not {template!r}")
    return template or default
