"""Targets of distillation: complete matrices as products of two thin ones.

The weight of cell (i, j) is the product of a row and a column weight. A matrix M is then represented by its leading
singular vectors under these weights, which take only products of M with vectors: M is never formed. A posterior mean
computes them through its stencils, any other predictor in blocks of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.fit.keys import Purpose, generator
from accams.kernels.encode import add_stencil_products
from accams.model.codes import Codes
from accams.model.linear import Linear
from accams.threads import Threads

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]
MOST_EXACT = 1024  # shorter side of a matrix up to which its full SVD is computed
ROUNDING = 1e-7  # singular values below, relative to the largest, are rounding errors
EXTRA = 10  # oversampling of the randomised SVD
POWER = 1  # power iterations of the randomised SVD


@dataclass(frozen=True)
class Target:
    """The matrix offset + left @ right.T, with weights of rows and columns.

    Columns of `right` have weighted norm 1, those of `left` the singular values, in decreasing order.
    """

    offset: float
    left: Floats  # (m, r)
    right: Floats  # (n, r)
    row_weights: Floats
    col_weights: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def total_weight(self) -> float:
        return float(self.row_weights.sum() * self.col_weights.sum())

    @cached_property
    def singular_values(self) -> Floats:
        """Return the weighted singular values in decreasing order."""
        return np.asarray(np.sqrt(self.row_weights @ self.left**2))


def of_matrix(matrix: Floats, row_weights: Floats, col_weights: Floats, rank: int, seed: int = 0) -> Target:
    offset = float(row_weights @ matrix @ col_weights / (row_weights.sum() * col_weights.sum()))
    a, b = np.sqrt(row_weights), np.sqrt(col_weights)
    scaled = matrix - offset
    scaled *= a[:, None]  # in place, since the matrix may be large
    scaled *= b
    if min(matrix.shape) <= MOST_EXACT:
        parts = _all_singular(scaled) if scaled.shape[0] <= scaled.shape[1] else _all_singular(scaled.T)[::-1]
    else:
        parts = leading(lambda x: scaled @ x, lambda y: scaled.T @ y, matrix.shape[1], rank, seed)
    return _target(offset, parts, row_weights, col_weights)


def _all_singular(wide: Floats) -> tuple[Floats, Floats, Floats]:
    """Return all singular vectors and values of a matrix with more columns than rows, by its rows' products.

    That is much faster than a singular value decomposition, and leaves out what is below rounding errors.
    """
    squares, U = np.linalg.eigh(wide @ wide.T)
    S = np.sqrt(np.maximum(squares[::-1], 0.0))
    rank = max(1, int(np.count_nonzero(ROUNDING * S.max(initial=0.0) < S)))
    S, U = S[:rank], U[:, ::-1][:, :rank]
    return U, S, wide.T @ (U / np.where(S > 0.0, S, 1.0))


def of_mean(
    sums: list[Codes], row_weights: Floats, col_weights: Floats, rank: int, seed: int = 0,
    threads: Threads | None = None, linear: Linear | None = None,
) -> Target:  # fmt: skip
    """Return the target of the mean of several stencil sums and a linear part, computed through their stencils."""
    a, b = np.sqrt(row_weights)[:, None], np.sqrt(col_weights)[:, None]
    threads, total = threads or Threads(), row_weights.sum() * col_weights.sum()
    offset = float(row_weights @ mean_product(sums, col_weights[:, None], threads, linear=linear)[:, 0]) / total

    def product(x: Floats) -> Floats:
        return np.asarray(a * (mean_product(sums, b * x, threads, linear=linear) - offset * (b * x).sum(axis=0)))

    def transposed(y: Floats) -> Floats:
        return np.asarray(b * (mean_product(sums, a * y, threads, True, linear) - offset * (a * y).sum(axis=0)))

    return _target(offset, leading(product, transposed, len(b), rank, seed), row_weights, col_weights)


def of_predictor(
    predict: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats], row_weights: Floats, col_weights: Floats,
    rank: int, seed: int = 0, block: int = 1 << 22,
) -> Target:  # fmt: skip
    """Return the target of a function of cells, evaluated in blocks of rows."""
    m, n = len(row_weights), len(col_weights)
    a, b = np.sqrt(row_weights)[:, None], np.sqrt(col_weights)[:, None]
    step = max(1, block // n)

    def blocks(function: Callable[[slice, Floats], None]) -> None:
        for lo in range(0, m, step):
            rows = np.arange(lo, min(lo + step, m))
            cells = np.repeat(rows, n), np.tile(np.arange(n), len(rows))
            function(slice(lo, lo + len(rows)), np.asarray(predict(*cells), np.float64).reshape(len(rows), n))

    sums = np.zeros(m)
    blocks(lambda part, M: sums.__setitem__(part, M @ col_weights))
    offset = float(row_weights @ sums) / (row_weights.sum() * col_weights.sum())

    def product(x: Floats) -> Floats:
        out = np.zeros((m, x.shape[1]))
        blocks(lambda part, M: out.__setitem__(part, a[part] * ((M - offset) @ (b * x))))
        return out

    def transposed(y: Floats) -> Floats:
        out = np.zeros((n, y.shape[1]))
        blocks(lambda part, M: out.__iadd__(b * ((M - offset).T @ (a[part] * y[part]))))  # type: ignore[arg-type]
        return out

    return _target(offset, leading(product, transposed, n, rank, seed), row_weights, col_weights)


def leading(product: Product, transposed: Product, n_cols: int, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the leading singular vectors and values of an operator by a randomised SVD."""
    random = generator(seed, Purpose.PROJECTION)
    basis = np.linalg.qr(product(random.normal(size=(n_cols, min(rank + EXTRA, n_cols)))))[0]
    for _ in range(POWER):
        basis = np.linalg.qr(product(np.linalg.qr(transposed(basis))[0]))[0]
    u, s, vt = np.linalg.svd(transposed(basis).T, full_matrices=False)
    keep = slice(0, min(rank, len(s)))
    return (basis @ u)[:, keep], s[keep], vt[keep].T


def mean_product(
    sums: list[Codes], lines: Floats, threads: Threads, transposed: bool = False, linear: Linear | None = None
) -> Floats:
    """Multiply the mean of several stencil sums, plus a linear part, or the transpose, by `lines`.

    Each thread takes some columns of these.
    """
    size = (len(sums[0].cols) if transposed else len(sums[0].rows)) - 1
    out = np.zeros((size, lines.shape[1]))

    def part(lo: int, hi: int) -> None:
        out[:, lo:hi] = _product(sums, np.ascontiguousarray(lines[:, lo:hi], np.float32), size, transposed)

    n, pieces = lines.shape[1], min(threads.n_threads, lines.shape[1])
    threads.map(part, [(n * p // pieces, n * (p + 1) // pieces) for p in range(pieces)])
    if linear is not None:
        own, other = (linear.cols, linear.rows) if transposed else (linear.rows, linear.cols)
        out += own[:-1] @ (other[:-1].T @ lines)
    return out


def _product(sums: list[Codes], lines: NDArray[np.float32], size: int, transposed: bool) -> Floats:
    total = np.zeros((size, lines.shape[1]))
    for codes in sums:
        lhs, rhs = (codes.cols, codes.rows) if transposed else (codes.rows, codes.cols)
        out = np.zeros((size, lines.shape[1]), np.float32)
        flat = codes.flat.astype(np.float32, copy=False)
        add_stencil_products(lhs[:-1], rhs[:-1], flat, codes.starts, codes.widths, transposed, lines, out)
        total += out
        total += codes.offset * lines.sum(axis=0)
        for effects, of_lines in ((codes.row_effects, transposed), (codes.col_effects, not transposed)):
            if effects is not None:
                total += effects[:-1] @ lines if of_lines else np.outer(effects[:-1], lines.sum(axis=0))
    return total / len(sums)


def _target(offset: float, parts: tuple[Floats, Floats, Floats], row_weights: Floats, col_weights: Floats) -> Target:
    U, S, V = parts
    left, right = U * S / np.sqrt(row_weights)[:, None], V / np.sqrt(col_weights)[:, None]
    return Target(offset, np.ascontiguousarray(left), np.ascontiguousarray(right), row_weights, col_weights)
