"""The stencils of a chain laid out for sums over all cells of the matrix: see `accams.kernels.blanks`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.rules import Template
from accams.engine.tables import Table
from accams.kernels import blanks as kernels
from accams.model.stencils import Labels, label_type
from accams.threads import Threads

MOST_CODES = 256  # per group and axis: codes are one byte, and tables stay in the cache
PER_ENTRY = 4  # labels counted in the time that a pass takes for one entry: what is done soon is not split over threads


class Blanks:
    """An offset and stencils, each of which can be put in, taken out and replaced.

    The offset is a stencil of one block, number 0 in all arrays; so stencil l of the chain is number l + 1. A stencil
    that is out has a template of zeros.
    """

    def __init__(self, shape: tuple[int, int], offset: int) -> None:
        self.shape, self.offset = shape, offset
        self._clear()

    def take(self, stencil: int) -> None:
        """Take a stencil out, but keep its labels."""
        self._write(stencil + 1, np.zeros(self.k[:, stencil + 1], np.int32))

    def put(self, stencil: int, templates: Sequence[Template], labels: Sequence[Sequence[Labels]]) -> None:
        """Put a stencil in, in place of the one of that number if there is one, given all that are in the chain."""
        number, T = stencil + 1, np.ascontiguousarray(templates[stencil])
        if number == len(self.start):
            self._append(T.shape)
        elif T.shape != tuple(self.k[:, number]):  # codes have no room for more labels: lay out all of them anew
            self._clear()
            for each in range(len(templates)):
                self.put(each, templates, labels)
            return
        kernels.replace(number, T, labels[0][stencil], labels[1][stencil], *self.codes, *self.layout)
        self.stale[number] = True

    def lines(self, axis: int, labels: Labels, k: int, factor: int, threads: Threads) -> Table:
        """Return the lines of all groups, by `labels` (below k) of the other axis."""
        out: Table = kernels.room_for_lines(axis, self.first, k)
        ranges = threads.split_evenly(len(self.members) - 1, -(-self.shape[1 - axis] // PER_ENTRY))
        threads.run(kernels.group_lines, ranges, axis, self.codes[1 - axis], labels, *self.layout, factor, out)
        return out

    def squares(self, threads: Threads) -> float:
        """Return the sum of the squared model over all cells, from inner products of its stencils."""
        ranges = threads.split_evenly(len(self.start), sum(self.shape) * len(self.members))
        threads.run(kernels.inner_products, ranges, *self.codes, *self.layout, self.stale, self.gram)
        self.stale[:] = False
        return float(2.0 * self.gram.sum() - np.trace(self.gram))

    def _clear(self) -> None:
        """Remove all stencils but the offset."""
        self.codes: list[NDArray[np.unsignedinteger[Any]]] = [np.zeros((1, size), np.uint8) for size in self.shape]
        self.k, self.unit = np.ones((2, 1), np.int64), np.ones((2, 1), np.int64)
        self.members, self.start, self.flat = np.array([0, 1]), np.zeros(1, np.int64), np.array([self.offset])
        self.stale, self.gram = np.ones(1, np.bool_), np.zeros((1, 1))
        self._count_lines()

    @property
    def layout(self) -> tuple[NDArray[Any], ...]:
        """Arrays of the same names in `accams.kernels.blanks`."""
        return self.k, self.unit, self.first, self.members, self.start, self.flat

    def _write(self, number: int, T: Template) -> None:
        begin = self.start[number]
        self.flat[begin : begin + T.size] = T.ravel()
        self.stale[number] = True

    def _append(self, shape: tuple[int, ...]) -> None:
        """Make room for a stencil of this shape: in the last group, if its codes allow it, or in a new one."""
        k, group = np.array(shape)[:, None], len(self.members) - 2
        if (np.diff(self.first)[:, group:] * k).max() <= MOST_CODES:
            for axis in (0, 1):
                codes = self.codes[axis][group]
                codes[:] = codes.astype(np.int64) * shape[axis]  # 256 does not fit their type, but the product does
            self.unit[:, self.members[group] :] *= k
            self.members[-1] += 1
        else:
            self.members = np.append(self.members, self.members[-1] + 1)
            for axis in (0, 1):
                self.codes[axis] = _with_room(self.codes[axis], group + 2, shape[axis])
        self.start, self.flat = np.append(self.start, len(self.flat)), np.append(self.flat, np.zeros(k.prod(), int))
        self.k, self.unit = np.hstack([self.k, k]), np.hstack([self.unit, np.ones_like(k)])
        self.stale, self.gram = np.append(self.stale, True), np.pad(self.gram, (0, 1))
        self._count_lines()

    def _count_lines(self) -> None:
        """Number the lines of all groups: as many as each has codes."""
        sizes = np.multiply.reduceat(self.k, self.members[:-1], axis=1)
        self.first = np.hstack([np.zeros((2, 1), np.int64), np.cumsum(sizes, axis=1)])


def _with_room(codes: NDArray[Any], groups: int, k: int) -> NDArray[Any]:
    """Return the codes with room for so many groups (twice as many when they are moved), the last of k codes."""
    kind = np.promote_types(codes.dtype, label_type(k))
    if groups > len(codes) or kind != codes.dtype:
        moved = np.zeros((2 * groups, codes.shape[1]), kind)  # untouched memory takes no room
        moved[: len(codes)] = codes
        codes = moved
    codes[groups - 1] = 0
    return codes
