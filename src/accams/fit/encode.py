"""A stencil sum that comes close to a target in few bits: labels and templates improved together.

What is lowered is the weighted squared error plus `price` times the bits of entropy-coded labels and of templates: all
labels of a row or column are looked at together (each the best given the others, until none changes), and all templates
are refitted at once. The bits of a label are those of its present frequency, and its share of the template entries that
it needs. At a price above zero labels that are not worth their bits die out, rows of little weight first.

With the codes of all stencils counted through, X the lines of all template rows spread over the columns and B = diag of
the column weights, a row's error needs only its products with X B and the table X B X^T, which is T C T^T with C the
weights of columns that have two codes in common. Nothing here has the size of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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
BLOCK = 1 << 14  # rows whose products are held at once
PASSES = 4  # over the stencils of a row, at most
ITERATIONS = 20  # of conjugate gradients
RIDGE = 1e-9  # of the largest weight: keeps templates of stencils that say the same from growing


@dataclass
class Encoding:
    """Templates and labels on their way.

    Attributes
    ----------
    target : Target
    labels : [array (m, s), array (n, s)]
    templates : list of arrays
    steps : list of float or None
        Of templates that have been rounded.
    """

    target: Target
    labels: list[Labels]
    templates: list[Floats]
    threads: Threads = field(default_factory=Threads)
    steps: list[float] | None = None
    _tables: dict[tuple[str, int], Floats] = field(default_factory=dict)

    @classmethod
    def empty(cls, target: Target, threads: Threads) -> Encoding:
        """No stencil yet."""
        return cls(target, [np.zeros((size, 0), np.uint16) for size in target.shape], [], threads)

    @classmethod
    def of(cls, model: StencilSum, target: Target, threads: Threads) -> Encoding:
        """The stencils of a sum."""
        labels = [
            np.array(each, np.uint16).reshape(len(model), size).T.copy()
            for each, size in zip((model.row_labels, model.col_labels), target.shape, strict=True)
        ]
        return cls(target, labels, [T.astype(np.float64) for T in model.templates], threads)

    # -- parts --------------------------------------------------------------------------------------------------

    def first(self, axis: int) -> NDArray[np.int64]:
        """Where the codes of each stencil begin, and how many there are in all."""
        return np.cumsum([0, *(T.shape[axis] for T in self.templates)], dtype=np.int64)

    def weights(self, axis: int) -> Floats:
        """Of rows or columns."""
        return self.target.row_weights if axis == 0 else self.target.col_weights

    def lines(self, axis: int) -> Floats:
        """The target's factor of rows or columns."""
        return self.target.left if axis == 0 else self.target.right

    def spread(self, axis: int, table: Floats) -> Floats:
        """All templates (axis 0), or their transposes (axis 1), as diagonal blocks, times a table by codes."""
        others = pairwise(self.first(1 - axis).tolist())
        return np.concatenate(
            [(T if axis == 0 else T.T) @ table[a:b] for T, (a, b) in zip(self.templates, others, strict=True)]
        )

    def cross(self, axis: int) -> Floats:
        """The weight of rows (columns) that have two codes in common."""
        if ("cross", axis) not in self._tables:
            first = self.first(axis)
            out = np.zeros((first[-1], first[-1]))
            kernels.cross_weights(self.labels[axis], first, self.weights(axis), out)
            self._tables["cross", axis] = out + out.T
        return self._tables["cross", axis]

    def sums(self, axis: int) -> Floats:
        """The target's lines, weighted and added up by code."""
        if ("sums", axis) not in self._tables:
            first, lines = self.first(axis), self.lines(axis)
            out = np.zeros((first[-1], lines.shape[1]))
            kernels.code_sums(self.labels[axis], first, self.weights(axis), lines, out)
            self._tables["sums", axis] = out
        return self._tables["sums", axis]

    def counts(self, axis: int) -> NDArray[np.int64]:
        """How many rows (columns) have each code."""
        labels, ends = self.labels[axis], self.first(axis).tolist()
        each = [np.bincount(labels[:, l], minlength=b - a) for l, (a, b) in enumerate(pairwise(ends))]
        return np.concatenate([np.zeros(0, np.int64), *each])

    def bits(self, axis: int) -> Floats:
        """What each code takes whenever it is used."""
        width = np.repeat([T.shape[1 - axis] for T in self.templates], [T.shape[axis] for T in self.templates])
        return code_bits(self.counts(axis), self.target.shape[axis], width)

    def all_bits(self) -> float:
        """Bits of labels and templates, about."""
        return float(sum(self._stencil_bits(l) for l in range(len(self.templates))))

    def left(self) -> tuple[float, float, float]:
        """Squared error: as it is, without any stencil, and the weight of all cells (the target's rest not counted)."""
        total = float(np.square(self.target.singular_values).sum())
        return total + self.error(), total, self.target.total_weight

    # -- moves --------------------------------------------------------------------------------------------------

    def round(self, price: float) -> int:
        """Labels of rows, templates, labels of columns, templates; then what does not pay is dropped."""
        moved = 0
        for axis in (0, 1):
            moved += self.improve_labels(axis, price)
            self.refit()
        self.compact()
        if self.drop_what_does_not_pay(price):
            self.refit()
        return moved

    def improve_labels(self, axis: int, price: float) -> int:
        """All labels of rows (columns); returns how many changed."""
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
        """Labels of these axes have changed."""
        self._tables = {key: table for key, table in self._tables.items() if key[1] not in axes}

    def refit(self, iterations: int = ITERATIONS) -> None:
        """All templates at once, by least squares."""
        if not self.templates:
            return
        rows, cols = self.first(0), self.first(1)
        R, C = self.cross(0), self.cross(1)
        wanted = self._right_side()
        diagonal = np.concatenate(
            [np.outer(np.diag(R)[a:b], np.diag(C)[c:d]).ravel() for (a, b), (c, d) in self._blocks(rows, cols)]
        )
        ridge = RIDGE * float(diagonal.max())

        def product(t: Floats) -> Floats:
            mixed, blocks = np.zeros((rows[-1], cols[-1])), self._unravelled(t)
            for T, (a, b), (c, d) in zip(blocks, pairwise(rows), pairwise(cols), strict=True):
                mixed[:, c:d] = R[a:b].T @ T
            parts = [(mixed[a:b] @ C[c:d].T).ravel() for (a, b), (c, d) in self._blocks(rows, cols)]
            return np.concatenate(parts) + ridge * t

        start = np.concatenate([T.ravel() for T in self.templates])
        found = conjugate_gradients(product, wanted, start, diagonal + ridge, iterations, 1e-6)
        self.templates = self._unravelled(found)

    def error(self) -> float:
        """Weighted squared error, less that of the target's rest and of no stencil at all."""
        if not self.templates:
            return 0.0
        pulls, wanted = self._pulls(), self._unravelled(self._right_side())
        products = [(pull - 2.0 * want) * T for pull, want, T in zip(pulls, wanted, self.templates, strict=True)]
        return float(sum(each.sum() for each in products))

    def drop(self, stencil: int) -> None:
        """Take a stencil out."""
        del self.templates[stencil]
        self.forget(0, 1)
        self.labels = [np.ascontiguousarray(np.delete(each, stencil, axis=1)) for each in self.labels]

    def compact(self) -> None:
        """Take out codes that no row (column) has."""
        for l in range(len(self.templates)):
            for axis in (0, 1):
                used, new = np.unique(self.labels[axis][:, l], return_inverse=True)
                self.templates[l] = np.take(self.templates[l], used.astype(np.int64), axis=axis)
                self.labels[axis][:, l] = new
        self.forget(0, 1)

    def drop_what_does_not_pay(self, price: float) -> int:
        """Take out stencils whose bits are worth more than the error they save, a quarter at most; returns how many."""
        if not self.templates:
            return 0
        bits = [self._stencil_bits(l) for l in range(len(self.templates))]
        worth = self._gains() - price * np.array(bits)
        worst = [int(l) for l in np.argsort(worth)[: max(1, len(worth) // 4)] if worth[l] < 0.0]
        for l in sorted(worst, reverse=True):
            self.drop(l)
        return len(worst)

    def copy(self) -> Encoding:
        """One that can go its own way."""
        labels, steps = [each.copy() for each in self.labels], None if self.steps is None else [*self.steps]
        return Encoding(self.target, labels, [*self.templates], self.threads, steps, dict(self._tables))

    def rounded(self, price: float) -> Encoding:
        """A copy with templates in whole steps, as coarse as the price allows, and labels chosen for those."""
        made, pairs = self.copy(), list(self._in_steps(price))
        made.templates, made.steps = [T.astype(np.float64) for T, _ in pairs], [step for _, step in pairs]
        for axis in (0, 1):
            made.improve_labels(axis, price)
        made.compact()
        return made

    def to_sum(self, price: float, unseen: tuple[Any, Any]) -> StencilSum:
        """The sum; templates in whole steps, unless bits cost nothing."""
        parts: list[tuple[NDArray[np.float32], float | None]] = [(T.astype(np.float32), None) for T in self.templates]
        if price > 0.0 or self.steps is not None:
            parts = [*self._in_steps(price)]
        stencils = [Stencil(T, self.labels[0][:, l], self.labels[1][:, l], step) for l, (T, step) in enumerate(parts)]
        return StencilSum(self.target.shape, self.target.offset, tuple(stencils), *unseen)

    # -- inside -------------------------------------------------------------------------------------------------

    def _blocks(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Any:
        return zip(pairwise(rows), pairwise(cols), strict=True)

    def _in_steps(self, price: float) -> Iterator[tuple[NDArray[np.float32], float]]:
        for l, T in enumerate(self.templates):
            if self.steps is not None:  # rounded already
                yield T.astype(np.float32), self.steps[l]
            else:
                yield in_steps(T, price, self.target.total_weight)

    def _right_side(self) -> Floats:
        rows, cols = self.first(0), self.first(1)
        left, right = self.sums(0), self.sums(1)
        parts = [(left[a:b] @ right[c:d].T).ravel() for (a, b), (c, d) in self._blocks(rows, cols)]
        return np.concatenate([np.zeros(0), *parts])

    def _unravelled(self, t: Floats) -> list[Floats]:
        ends = np.cumsum([0, *(T.size for T in self.templates)])
        return [t[a:b].reshape(T.shape) for T, (a, b) in zip(self.templates, pairwise(ends), strict=True)]

    def _pulls(self) -> list[Floats]:
        """A^T W A t of each template: what all stencils together put into each of its blocks."""
        rows, cols = self.first(0), self.first(1)
        mixed = self.spread(1, self.cross(0)).T  # R T, by row codes and column codes
        return [mixed[a:b] @ self.cross(1)[c:d].T for (a, b), (c, d) in self._blocks(rows, cols)]

    def _gains(self) -> Floats:
        """By how much the error would rise without each stencil, all others staying as they are."""
        R, C = np.diag(self.cross(0)), np.diag(self.cross(1))
        parts = zip(self.templates, self._unravelled(self._right_side()), self._pulls(), strict=True)
        blocks = self._blocks(self.first(0), self.first(1))
        gains = [
            2.0 * float(((want - pull) * T).sum()) + float((np.outer(R[a:b], C[c:d]) * T**2).sum())
            for (T, want, pull), ((a, b), (c, d)) in zip(parts, blocks, strict=True)
        ]
        return np.array(gains)

    def _stencil_bits(self, stencil: int) -> float:
        return stencil_bits(self.templates[stencil].size, [each[:, stencil] for each in self.labels])
