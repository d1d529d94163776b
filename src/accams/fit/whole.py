"""Rate-distortion optimisation of a stencil sum that approximates a complete matrix in memory.

As in `fit/encode.py`, the objective is the squared error plus `price` times bits, and labels and templates are improved
in turn. Here the residual of every cell is kept, and stencils are visited one after another: a visit chooses the labels
of all rows, and of all columns, given all other stencils, and the template is the mean of the residual by block. A
visit takes three passes over the cells, whatever the number of stencils, so time is in proportion to their number, and
to the size of the file.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.fit.price import code_bits, in_steps, stencil_bits
from accams.kernels import whole as kernels
from accams.kernels.cross import cross_counts, cross_sums
from accams.model.stencils import Stencil, StencilSum
from accams.threads import Threads

Floats = NDArray[np.float64]
Labels = NDArray[np.uint16]
Cells = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Part:
    """One stencil, while it is improved."""

    rows: Labels
    cols: Labels
    template: Floats
    step: float | None = None

    def lines(self) -> Cells:
        """Return the template with a column for each column of the matrix."""
        return np.take(self.template.astype(np.float32), self.cols, axis=1)

    def compacted(self) -> "Part":
        """Return the part without clusters that nothing belongs to."""
        kept = [np.unique(labels, return_inverse=True) for labels in (self.rows, self.cols)]
        template = self.template[np.ix_(*(used.astype(np.int64) for used, _ in kept))]
        rows, cols = (new.astype(np.uint16) for _, new in kept)
        return Part(rows, cols, template, self.step)

    @cached_property
    def bits(self) -> float:
        """Approximate bits."""
        return stencil_bits(self.template.size, (self.rows, self.cols))

    def square(self) -> float:
        """Return the sum of the squares of all cells."""
        mass = [np.bincount(x, minlength=k) for x, k in zip((self.rows, self.cols), self.template.shape, strict=True)]
        return float(mass[0] @ np.square(self.template) @ mass[1])


@dataclass
class Whole:
    """Stencils that approximate a matrix, and what they leave of it."""

    offset: float
    rest: Cells
    total: float  # squared error without stencils
    parts: list[Part] = field(default_factory=list)
    threads: Threads = field(default_factory=Threads)

    @classmethod
    def of(cls, matrix: NDArray[np.floating], offset: float, threads: Threads) -> Self:
        """Return the matrix without any stencil."""
        rest = np.subtract(matrix, offset, dtype=np.float64).astype(np.float32)
        return cls(offset, rest, float(np.einsum("ij,ij->", rest, rest, dtype=np.float64)), [], threads)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rest.shape[0], self.rest.shape[1]

    # -- optimisation -------------------------------------------------------------------------------------------

    def round(self, price: float) -> int:
        """Visit all stencils; drop those that are not worth their bits. Return the number of labels changed."""
        moved, p = 0, 0
        while p < len(self.parts):
            moved += self.visit(p, price)
            self.compact(p)
            if self.parts[p].square() < price * self.parts[p].bits:
                self.drop(p)
            else:
                p += 1
        return moved

    def visit(self, p: int, price: float, step: bool = False) -> int:
        """Improve the labels and the template of a stencil; return the number of labels changed.

        With `step`, the template is then quantised for this price, and labels are chosen anew for what it becomes.
        """
        old = self.parts[p]
        new = self._improved(old, price)
        if step:
            template, size = in_steps(new.template, price, float(self.rest.size))
            new = self._improved(Part(new.rows, new.cols, template.astype(np.float64), size), price, old)
        self._exchange(old, new)
        self.parts[p] = new
        return int((old.rows != new.rows).sum() + (old.cols != new.cols).sum())

    def _improved(self, part: Part, price: float, present: Part | None = None) -> Part:
        """Return a part with better labels, and unless its template has a step, with the best template for them.

        `present` is the part that the residual is without, by default the same.
        """
        present = present or part
        T, fixed = part.template, part.step is not None
        mass = np.bincount(part.cols, minlength=T.shape[1]).astype(np.float64)
        sums = self._by_column_label(part.cols, T.shape[1])
        both = _cross(present.cols, part.cols, present.template.shape[1], T.shape[1])
        sums += (present.template @ both)[present.rows]
        rows = _nearest(sums, T, mass, price, part.rows)
        if not fixed:
            T = _means(rows, sums, mass, len(T))
        mass = np.bincount(rows, minlength=len(T)).astype(np.float64)
        sums = self._by_row_label(rows, len(T))
        both = _cross(rows, present.rows, len(T), len(present.template))
        sums += np.take(both @ present.template, present.cols, axis=1)
        cols = _nearest(sums.T, T.T, mass, price, part.cols)
        if not fixed:
            T = _ratio(_summed(sums, cols, T.shape[1]), np.outer(mass, np.bincount(cols, minlength=T.shape[1])))
        return Part(rows, cols, T, part.step)

    def error(self) -> float:
        """Return the change of the squared error by all stencils."""
        return self.left()[0] - self.total

    def all_bits(self) -> float:
        return float(sum(part.bits for part in self.parts))

    def __len__(self) -> int:
        return len(self.parts)

    def means(self, rows: Labels, cols: Labels, shape: tuple[int, int]) -> Floats:
        """Return the means of the residual by block: the best template of a new stencil with these labels."""
        mass = np.bincount(cols, minlength=shape[1]).astype(np.float64)
        return _means(rows, self._by_column_label(cols, shape[1]), mass, shape[0])

    def add(self, part: Part) -> None:
        """Add a stencil, and take it out of the residual."""
        nothing = Part(part.rows, part.cols, np.zeros_like(part.template))
        self._exchange(nothing, part)
        self.parts.append(part)

    def compact(self, p: int) -> None:
        """Remove the clusters of a stencil that nothing belongs to."""
        self.parts[p] = self.parts[p].compacted()

    def drop(self, p: int) -> None:
        """Remove a stencil, and put it back into the residual."""
        part = self.parts.pop(p)
        self._exchange(part, Part(part.rows, part.cols, np.zeros_like(part.template)))

    # -- for the search (`fit/search.py`) -------------------------------------------------------------------------

    def left(self) -> tuple[float, float, float]:
        """Return the squared error, the squared error without stencils, and the number of cells."""
        return float(np.einsum("ij,ij->", self.rest, self.rest, dtype=np.float64)), self.total, float(self.rest.size)

    def copy(self) -> "Whole":
        return Whole(self.offset, self.rest.copy(), self.total, [*self.parts], self.threads)

    def rounded(self, price: float) -> "Whole":
        """Return a copy with quantised templates: each stencil makes up for the rounding of those before."""
        result = self.copy()
        for p in range(len(result.parts)):
            result.visit(p, price, step=True)
        result.parts = [part.compacted() for part in result.parts]
        return result

    def to_sum(self, price: float, unseen: tuple[Any, Any]) -> StencilSum:
        """Return the stencil sum, with templates quantised for the price where they are not yet."""
        stencils = []
        for part in map(Part.compacted, self.parts):
            T, step = part.template.astype(np.float32), part.step
            if step is None and price > 0.0:
                T, step = in_steps(part.template, price, float(self.rest.size))
            stencils.append(Stencil(T, part.rows, part.cols, step))
        return StencilSum(self.shape, self.offset, tuple(stencils), *unseen)

    # -- passes -------------------------------------------------------------------------------------------------

    def _by_column_label(self, labels: Labels, k: int) -> Floats:
        out = np.empty((len(self.rest), k))
        ranges = self.threads.split_evenly(len(out), self.rest.shape[1])
        self.threads.run(kernels.sums_by_column_label, ranges, self.rest, labels, out)
        return out

    def _by_row_label(self, labels: Labels, k: int) -> Floats:
        out = np.empty((k, self.rest.shape[1]))
        ranges = self.threads.split_evenly(out.shape[1], len(self.rest))
        self.threads.run(kernels.sums_by_row_label, ranges, self.rest, labels, out)
        return out

    def _exchange(self, old: Part, new: Part) -> None:
        ranges = self.threads.split_evenly(*self.shape)
        self.threads.run(kernels.exchange, ranges, old.rows, old.lines(), new.rows, new.lines(), self.rest)


def _cross(a: Labels, b: Labels, k_a: int, k_b: int) -> Floats:
    out = np.zeros((k_a, k_b), np.int64)
    cross_counts(a, b, out)
    return out.astype(np.float64)


def _nearest(sums: Floats, T: Floats, mass: Floats, price: float, labels: Labels) -> Labels:
    """Return the label of least error plus price * bits for each row of `sums`; the present one if it is as good."""
    bits = code_bits(np.bincount(labels, minlength=len(T)), len(labels), T.shape[1])
    cost = sums @ (-2.0 * T.T) + (np.square(T) @ mass + price * bits)
    best, at = cost.argmin(axis=1), np.arange(len(labels))
    least, present = cost[at, best], cost[at, labels]
    return np.where(least < present - 1e-12 * np.abs(present), best, labels).astype(np.uint16)


def _means(labels: Labels, sums: Floats, mass: Floats, k: int) -> Floats:
    """Return the means of blocks, given the sums of each row by column label."""
    total = np.zeros((k, sums.shape[1]))
    cross_sums(labels.astype(np.int64), sums, total)
    return _ratio(total, np.outer(np.bincount(labels, minlength=k), mass))


def _summed(cells: NDArray[np.floating], labels: Labels, k: int) -> Floats:
    out = np.empty((len(cells), k))
    kernels.sums_by_column_label(0, len(cells), cells, labels, out)
    return out


def _ratio(total: Floats, weight: Floats) -> Floats:
    """Return total / weight; 0 where there is no weight."""
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0.0)
