"""Rate-distortion optimisation of a stencil sum that approximates a complete matrix.

The objective is the weighted squared error plus `price` times the bits of entropy-coded labels and of templates. All
labels of a row or column are improved together (each the best given the others, until none changes), and all templates
are refitted jointly. The bits of a label are the code length of its current frequency and its part of the template
entries it needs (`fit/price.py`). At a positive price, labels that are not worth their bits die out.

Number the labels of all stencils consecutively (codes), let row a of X be template row a expanded to all columns, and B
the diagonal matrix of column weights. The error of a row then depends only on its products with X B and on the table
X B X^T = T C T^T, where C holds the weight of columns that share two codes. Nothing here has the size of the matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.fit.price import code_bits, in_steps, stencil_bits
from accams.fit.refit import conjugate_gradients
from accams.fit.target import Target
from accams.kernels import encode as kernels
from accams.model.stencils import Stencil, StencilSum
from accams.threads import Threads

Floats = NDArray[np.float64]
Labels = NDArray[np.uint16]
BLOCK = 1 << 14  # rows whose products are in memory at a time
PASSES = 4  # passes over the stencils of a row, at most
ITERATIONS = 20  # iterations of conjugate gradients
RIDGE = 1e-9  # relative to the largest weight: keeps templates of redundant stencils bounded


@dataclass
class Encoding:
    """Templates and labels that approximate a target."""

    target: Target
    labels: list[Labels]  # of shapes (m, s) and (n, s)
    templates: list[Floats]
    threads: Threads = field(default_factory=Threads)
    steps: list[float] | None = None  # steps of the templates, if they are quantised
    _tables: dict[tuple[str, int], Floats] = field(default_factory=dict)

    @classmethod
    def empty(cls, target: Target, threads: Threads) -> Self:
        return cls(target, [np.zeros((size, 0), np.uint16) for size in target.shape], [], threads)

    @classmethod
    def of(cls, model: StencilSum, target: Target, threads: Threads) -> Self:
        labels = [
            np.array(of_axis, np.uint16).reshape(len(model), size).T.copy()
            for of_axis, size in zip((model.row_labels, model.col_labels), target.shape, strict=True)
        ]
        return cls(target, labels, [T.astype(np.float64) for T in model.templates], threads)

    # -- parts --------------------------------------------------------------------------------------------------

    def first(self, axis: int) -> NDArray[np.int64]:
        """Return the first code of each stencil, followed by the total number of codes."""
        return np.cumsum([0, *(T.shape[axis] for T in self.templates)], dtype=np.int64)

    def weights(self, axis: int) -> Floats:
        return self.target.row_weights if axis == 0 else self.target.col_weights

    def lines(self, axis: int) -> Floats:
        return self.target.left if axis == 0 else self.target.right

    def spread(self, axis: int, table: Floats) -> Floats:
        """Multiply a table by codes with the block diagonal of all templates (axis 0) or their transposes (axis 1)."""
        others = pairwise(self.first(1 - axis).tolist())
        return np.concatenate(
            [(T if axis == 0 else T.T) @ table[a:b] for T, (a, b) in zip(self.templates, others, strict=True)]
        )

    def cross(self, axis: int) -> Floats:
        """Return the table of the weight of rows (columns) that have both of two codes."""
        if ("cross", axis) not in self._tables:
            first = self.first(axis)
            out = np.zeros((first[-1], first[-1]))
            kernels.cross_weights(self.labels[axis], first, self.weights(axis), out)
            self._tables["cross", axis] = out + out.T
        return self._tables["cross", axis]

    def sums(self, axis: int) -> Floats:
        """Return the weighted sums of the target's factor by code."""
        if ("sums", axis) not in self._tables:
            first, lines = self.first(axis), self.lines(axis)
            out = np.zeros((first[-1], lines.shape[1]))
            kernels.code_sums(self.labels[axis], first, self.weights(axis), lines, out)
            self._tables["sums", axis] = out
        return self._tables["sums", axis]

    def counts(self, axis: int) -> NDArray[np.int64]:
        labels, ends = self.labels[axis], self.first(axis).tolist()
        counts = [np.bincount(labels[:, l], minlength=b - a) for l, (a, b) in enumerate(pairwise(ends))]
        return np.concatenate([np.zeros(0, np.int64), *counts])

    def bits(self, axis: int) -> Floats:
        """Return the bits of each use of a code."""
        width = np.repeat([T.shape[1 - axis] for T in self.templates], [T.shape[axis] for T in self.templates])
        return code_bits(self.counts(axis), self.target.shape[axis], width)

    def all_bits(self) -> float:
        return float(sum(self._stencil_bits(l) for l in range(len(self.templates))))

    def left(self) -> tuple[float, float, float]:
        total = float(np.square(self.target.singular_values).sum())
        return total + self.error(), total, self.target.total_weight

    # -- optimisation -------------------------------------------------------------------------------------------

    def round(self, price: float) -> int:
        """Improve row labels, templates, column labels, templates, then prune; return the number of labels changed."""
        moved = 0
        for axis in (0, 1):
            moved += self.improve_labels(axis, price)
            self.refit()
        self.compact()
        if self.prune(price):
            self.refit()
        return moved

    def improve_labels(self, axis: int, price: float) -> int:
        """Improve all labels of rows (columns); return how many changed."""
        if not self.templates:
            return 0
        labels, first, weights = self.labels[axis], self.first(axis), self.weights(axis)
        gram = self.spread(axis, self.spread(axis, self.cross(1 - axis)).T)
        gram = np.ascontiguousarray(0.5 * (gram + gram.T))
        spread = self.spread(axis, self.sums(1 - axis)).T
        prices, moved = price * self.bits(axis), np.zeros(len(labels), np.int64)
        for lo in range(0, len(labels), BLOCK):
            hi = min(lo + BLOCK, len(labels))
            fits = self.lines(axis)[lo:hi] @ spread

            def run(a: int, b: int, lo: int = lo, fits: Floats = fits) -> None:
                kernels.improve_labels(lo + a, lo + b, labels, first, gram, fits[a:b], prices, weights, PASSES, moved)

            self.threads.map(run, self.threads.split_evenly(hi - lo, 8 * int(first[-1])))
        self.forget(axis)
        return int(moved.sum())

    def forget(self, *axes: int) -> None:
        """Drop cached tables of axes whose labels have changed."""
        self._tables = {key: table for key, table in self._tables.items() if key[1] not in axes}

    def refit(self, iterations: int = ITERATIONS) -> None:
        """Refit all templates jointly by least squares."""
        if not self.templates:
            return
        rows, cols = self.first(0), self.first(1)
        R, C = self.cross(0), self.cross(1)
        b = self._right_side()
        diagonal = np.concatenate(
            [np.outer(np.diag(R)[a:b], np.diag(C)[c:d]).ravel() for (a, b), (c, d) in self._blocks()]
        )
        ridge = RIDGE * float(diagonal.max())

        def product(t: Floats) -> Floats:
            mixed, blocks = np.zeros((rows[-1], cols[-1])), self._unravelled(t)
            for T, (a, b), (c, d) in zip(blocks, pairwise(rows), pairwise(cols), strict=True):
                mixed[:, c:d] = R[a:b].T @ T
            parts = [(mixed[a:b] @ C[c:d].T).ravel() for (a, b), (c, d) in self._blocks()]
            return np.concatenate(parts) + ridge * t

        start = np.concatenate([T.ravel() for T in self.templates])
        self.templates = self._unravelled(conjugate_gradients(product, b, start, diagonal + ridge, iterations, 1e-6))

    def error(self) -> float:
        """Return the change of the weighted squared error by all stencils, t^T A^T W A t - 2 t^T A^T W y."""
        if not self.templates:
            return 0.0
        products, sides = self._normal_products(), self._unravelled(self._right_side())
        terms = zip(products, sides, self.templates, strict=True)
        return float(sum(((product - 2.0 * side) * T).sum() for product, side, T in terms))

    def __len__(self) -> int:
        return len(self.templates)

    def drop(self, stencil: int) -> None:
        del self.templates[stencil]
        self.forget(0, 1)
        self.labels = [np.ascontiguousarray(np.delete(labels, stencil, axis=1)) for labels in self.labels]

    def compact(self) -> None:
        for l in range(len(self.templates)):
            for axis in (0, 1):
                used, new = np.unique(self.labels[axis][:, l], return_inverse=True)
                self.templates[l] = np.take(self.templates[l], used.astype(np.int64), axis=axis)
                self.labels[axis][:, l] = new
        self.forget(0, 1)

    def prune(self, price: float) -> int:
        """Remove stencils that save less error than their bits cost, a quarter at most; return how many."""
        if not self.templates:
            return 0
        bits = [self._stencil_bits(l) for l in range(len(self.templates))]
        worth = self._gains() - price * np.array(bits)
        worst = [int(l) for l in np.argsort(worth)[: max(1, len(worth) // 4)] if worth[l] < 0.0]
        for l in sorted(worst, reverse=True):
            self.drop(l)
        return len(worst)

    def copy(self) -> "Encoding":
        labels, steps = [x.copy() for x in self.labels], None if self.steps is None else [*self.steps]
        return Encoding(self.target, labels, [*self.templates], self.threads, steps, dict(self._tables))

    def rounded(self, price: float) -> "Encoding":
        result, pairs = self.copy(), list(self._quantised(price))
        result.templates, result.steps = [T.astype(np.float64) for T, _ in pairs], [step for _, step in pairs]
        for axis in (0, 1):
            result.improve_labels(axis, price)
        result.compact()
        return result

    def to_sum(self, price: float, unseen: tuple[Any, Any]) -> StencilSum:
        parts: list[tuple[NDArray[np.float32], float | None]] = [(T.astype(np.float32), None) for T in self.templates]
        if price > 0.0 or self.steps is not None:
            parts = [*self._quantised(price)]
        stencils = [Stencil(T, self.labels[0][:, l], self.labels[1][:, l], step) for l, (T, step) in enumerate(parts)]
        return StencilSum(self.target.shape, self.target.offset, tuple(stencils), *unseen)

    # -- linear algebra and bits --------------------------------------------------------------------------------

    def _blocks(self) -> Any:
        """Iterate over the ranges of row codes and of column codes of each stencil."""
        return zip(pairwise(self.first(0)), pairwise(self.first(1)), strict=True)

    def _quantised(self, price: float) -> Iterator[tuple[NDArray[np.float32], float]]:
        for l, T in enumerate(self.templates):
            if self.steps is not None:
                yield T.astype(np.float32), self.steps[l]
            else:
                yield in_steps(T, price, self.target.total_weight)

    def _right_side(self) -> Floats:
        """Return A^T W y."""
        left, right = self.sums(0), self.sums(1)
        parts = [(left[a:b] @ right[c:d].T).ravel() for (a, b), (c, d) in self._blocks()]
        return np.concatenate([np.zeros(0), *parts])

    def _unravelled(self, t: Floats) -> list[Floats]:
        ends = np.cumsum([0, *(T.size for T in self.templates)])
        return [t[a:b].reshape(T.shape) for T, (a, b) in zip(self.templates, pairwise(ends), strict=True)]

    def _normal_products(self) -> list[Floats]:
        """Return A^T W A t, one array per template."""
        mixed = self.spread(1, self.cross(0)).T  # R T, by row codes and column codes
        return [mixed[a:b] @ self.cross(1)[c:d].T for (a, b), (c, d) in self._blocks()]

    def _gains(self) -> Floats:
        """Return the increase of the error if each stencil were removed and all others kept."""
        R, C = np.diag(self.cross(0)), np.diag(self.cross(1))
        parts = zip(self.templates, self._unravelled(self._right_side()), self._normal_products(), strict=True)
        gains = [
            2.0 * float(((side - product) * T).sum()) + float((np.outer(R[a:b], C[c:d]) * T**2).sum())
            for (T, side, product), ((a, b), (c, d)) in zip(parts, self._blocks(), strict=True)
        ]
        return np.array(gains)

    def _stencil_bits(self, stencil: int) -> float:
        return stencil_bits(self.templates[stencil].size, [labels[:, stencil] for labels in self.labels])
