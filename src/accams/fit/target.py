"""What a stencil sum is to come close to, everywhere: a complete matrix, as the product of two thin ones.

Distilling looks at a whole matrix M with the weight of cell (i, j) the product of a row weight and a column weight.
Then all it needs of M are products with vectors, so M is never written out: its leading singular vectors, with those
weights, stand for it. A posterior mean multiplies vectors through its stencils, any other predictor row block by row
block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.fit.keys import Purpose, generator
from accams.kernels.encode import add_stencil_products
from accams.model.codes import Codes
from accams.threads import Threads

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]
MOST_EXACT = 1024  # the shorter side of a matrix up to which all its singular vectors are taken
EXTRA = 10  # vectors beyond those wanted, for accuracy
POWER = 1  # times that the matrix is applied again, for accuracy


@dataclass(frozen=True)
class Target:
    """offset + left @ right.T, with weights of rows and columns.

    Attributes
    ----------
    left, right : arrays (m, r) and (n, r)
        Scaled so that the columns of `right` have weighted length 1 and those of `left` the singular values, falling.
    rest : float
        Weighted squares of what the product leaves of the matrix (nan where that is not known).
    """

    offset: float
    left: Floats
    right: Floats
    row_weights: Floats
    col_weights: Floats
    rest: float = float("nan")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.left), len(self.right)

    @property
    def total_weight(self) -> float:
        """Of all cells."""
        return float(self.row_weights.sum() * self.col_weights.sum())

    @cached_property
    def singular_values(self) -> Floats:
        """Weighted, falling."""
        return np.asarray(np.sqrt(self.row_weights @ self.left**2))


def of_matrix(matrix: Floats, row_weights: Floats, col_weights: Floats, rank: int, seed: int = 0) -> Target:
    """A matrix that is there in full."""
    offset = float(row_weights @ matrix @ col_weights / (row_weights.sum() * col_weights.sum()))
    a, b = np.sqrt(row_weights), np.sqrt(col_weights)
    scaled = (matrix - offset) * a[:, None] * b
    if min(matrix.shape) <= MOST_EXACT:
        U, S, Vt = np.linalg.svd(scaled, full_matrices=False)
        parts = U, S, Vt.T
    else:
        parts = leading(lambda x: scaled @ x, lambda y: scaled.T @ y, matrix.shape[1], rank, seed)
    rest = float(np.square(scaled).sum() - np.square(parts[1]).sum())
    return _target(offset, parts, row_weights, col_weights, rest)


def of_mean(
    sums: list[Codes],
    row_weights: Floats,
    col_weights: Floats,
    rank: int,
    seed: int = 0,
    threads: Threads | None = None,
) -> Target:
    """The mean of several stencil sums, through their stencils alone."""
    a, b = np.sqrt(row_weights)[:, None], np.sqrt(col_weights)[:, None]
    mean = Mean(sums, threads or Threads())
    offset = float(row_weights @ mean.product(col_weights[:, None])[:, 0]) / (row_weights.sum() * col_weights.sum())

    def product(x: Floats) -> Floats:
        return np.asarray(a * (mean.product(b * x) - offset * (b * x).sum(axis=0)))

    def transposed(y: Floats) -> Floats:
        return np.asarray(b * (mean.transposed(a * y) - offset * (a * y).sum(axis=0)))

    return _target(offset, leading(product, transposed, len(b), rank, seed), row_weights, col_weights)


def of_predictor(
    predict: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats], row_weights: Floats, col_weights: Floats,
    rank: int, seed: int = 0, block: int = 1 << 22,
) -> Target:  # fmt: skip
    """Any function of cells, asked for blocks of rows."""
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
    """Leading singular vectors and values of an operator, by random projection."""
    random = generator(seed, Purpose.PROJECTION)
    basis = np.linalg.qr(product(random.normal(size=(n_cols, min(rank + EXTRA, n_cols)))))[0]
    for _ in range(POWER):
        basis = np.linalg.qr(product(np.linalg.qr(transposed(basis))[0]))[0]
    u, s, vt = np.linalg.svd(transposed(basis).T, full_matrices=False)
    keep = slice(0, min(rank, len(s)))
    return (basis @ u)[:, keep], s[keep], vt[keep].T


class Mean:
    """The mean of several stencil sums as an operator on vectors."""

    def __init__(self, sums: list[Codes], threads: Threads) -> None:
        self.sums, self.threads = sums, threads

    def product(self, x: Floats) -> Floats:
        """The mean matrix times x."""
        return self._apply(x, transposed=False)

    def transposed(self, y: Floats) -> Floats:
        """Its transpose times y."""
        return self._apply(y, transposed=True)

    def _apply(self, lines: Floats, transposed: bool) -> Floats:
        """A part of the columns on each thread."""
        size = (len(self.sums[0].cols) if transposed else len(self.sums[0].rows)) - 1
        out = np.zeros((size, lines.shape[1]))

        def part(lo: int, hi: int) -> None:
            out[:, lo:hi] = self._part(np.ascontiguousarray(lines[:, lo:hi], np.float32), size, transposed)

        n, pieces = lines.shape[1], min(self.threads.n_threads, lines.shape[1])
        self.threads.map(part, [(n * p // pieces, n * (p + 1) // pieces) for p in range(pieces)])
        return out

    def _part(self, lines: NDArray[np.float32], size: int, transposed: bool) -> Floats:
        total = np.zeros((size, lines.shape[1]))
        for codes in self.sums:
            own, other = (codes.cols, codes.rows) if transposed else (codes.rows, codes.cols)
            out = np.zeros((size, lines.shape[1]), np.float32)
            flat = codes.flat.astype(np.float32, copy=False)
            add_stencil_products(own[:-1], other[:-1], flat, codes.starts, codes.widths, transposed, lines, out)
            total += out
            total += codes.offset * lines.sum(axis=0)
            for effects, of_lines in ((codes.row_effects, transposed), (codes.col_effects, not transposed)):
                if effects is not None:
                    total += effects[:-1] @ lines if of_lines else np.outer(effects[:-1], lines.sum(axis=0))
        return total / len(self.sums)


def _target(
    offset: float, parts: tuple[Floats, Floats, Floats], row_weights: Floats, col_weights: Floats,
    rest: float = float("nan"),
) -> Target:  # fmt: skip
    U, S, V = parts
    left, right = U * S / np.sqrt(row_weights)[:, None], V / np.sqrt(col_weights)[:, None]
    return Target(offset, np.ascontiguousarray(left), np.ascontiguousarray(right), row_weights, col_weights, rest)
