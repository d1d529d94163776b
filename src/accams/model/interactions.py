"""Interactions: the observed columns of each row, coded in about a byte each."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.model.coding import decode_ints, encode_ints
from accams.threads import ranges_of

Positions = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Sizes = int | list[list[int]]  # cells, or rows and cells of each piece
PIECE = 1 << 22  # cells that are coded at a time, to bound memory
DAMAGED = "the interactions do not fit the shape"


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed columns of each row: those of row i are ``columns[starts[i]:starts[i + 1]]``."""

    starts: Positions
    columns: NDArray[np.integer[Any]]

    @classmethod
    def at(cls, rows: Positions, columns: Positions, n_rows: int) -> Self:
        """Build from cells in any order; cells with row -1 or column -1 are left out."""
        inside = (rows >= 0) & (columns >= 0)
        order = np.argsort(rows[inside], kind="stable")
        starts = np.searchsorted(rows[inside][order], np.arange(n_rows + 1))
        return cls(starts.astype(np.int64), columns[inside][order])

    def __len__(self) -> int:
        return len(self.columns)

    def of(self, rows: Positions) -> tuple[Positions, Positions]:
        """Return (starts, columns) of some rows alone; row -1 has none.

        Examples
        --------
        >>> starts, columns = Interactions(np.array([0, 2, 3]), np.array([4, 7, 5])).of(np.array([1, -1, 0]))
        >>> starts.tolist(), columns.tolist()
        ([0, 1, 1, 3], [5, 4, 7])
        """
        counts = np.where(rows < 0, 0, np.diff(self.starts)[rows])
        starts = np.concatenate([[0], np.cumsum(counts)])
        inner = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return starts, self.columns[np.repeat(self.starts[:-1][rows], counts) + inner].astype(np.int64)

    def put(self, rows: Positions, size: int, begins: Positions, columns: Positions) -> "Interactions":
        """Return a copy of `size` rows in which `rows` have observed ``columns[begins[p]:begins[p + 1]]`` instead."""
        old = len(self.starts) - 1
        source = np.full(size, -1, np.int64)
        source[:old] = np.arange(old)
        source[rows] = old + np.arange(len(rows))
        starts = np.concatenate([self.starts, begins[1:] - begins[0] + self.starts[-1]])
        taken = columns[begins[0] : begins[-1]].astype(self.columns.dtype)
        joined = Interactions(starts, np.concatenate([self.columns, taken]))
        new_starts, new_columns = joined.of(source)
        return Interactions(new_starts.astype(np.int64), new_columns.astype(self.columns.dtype))

    def without(self, row: int) -> "Interactions":
        """Return a copy without one row."""
        lo, hi = self.starts[row], self.starts[row + 1]
        starts = np.concatenate([self.starts[:row], self.starts[row + 1 :] - (hi - lo)])
        return Interactions(starts, np.delete(self.columns, slice(int(lo), int(hi))))


def pack(interactions: Interactions) -> tuple[Sizes, list[Bytes]]:
    """Return sizes and bytes, in pieces of some millions of cells."""
    ranges = ranges_of(interactions.starts, PIECE)
    if len(ranges) <= 1:
        return int(interactions.starts[-1]), [_packed(interactions)]
    starts, columns = interactions.starts, interactions.columns
    pieces = [Interactions(starts[lo : hi + 1] - starts[lo], columns[starts[lo] : starts[hi]]) for lo, hi in ranges]
    return [[len(x.starts) - 1, len(x.columns)] for x in pieces], list(map(_packed, pieces))


def unpack(sizes: Sizes, tensors: list[NDArray[Any]], shape: tuple[int, int]) -> Interactions:
    """Undo `pack`; raise ValueError for damaged data."""
    if isinstance(sizes, int):
        return _unpacked(tensors[0], shape[0], sizes, shape[1])
    if sum(rows for rows, _ in sizes) != shape[0] or len(tensors) != len(sizes):
        raise ValueError(DAMAGED)
    pieces = [_unpacked(x, rows, cells, shape[1]) for x, (rows, cells) in zip(tensors, sizes, strict=True)]
    counts = np.concatenate([np.diff(x.starts) for x in pieces])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Interactions(starts, np.concatenate([x.columns for x in pieces]))


def _packed(interactions: Interactions) -> Bytes:
    """Code the number of columns of each row, then each column by its distance from the one before."""
    counts, columns = np.diff(interactions.starts), interactions.columns.astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = columns[np.lexsort((columns, rows))]
    steps = np.diff(columns, prepend=-1)
    first = interactions.starts[:-1][counts > 0]
    steps[first] = columns[first] + 1
    return encode_ints(np.concatenate([counts, steps]))


def _unpacked(data: NDArray[Any], n_rows: int, n_cells: int, n_cols: int) -> Interactions:
    numbers = decode_ints(data, n_rows + n_cells)
    counts, steps = numbers[:n_rows], numbers[n_rows:]
    starts = np.concatenate([[0], np.cumsum(counts)])
    if (counts < 0).any() or starts[-1] != n_cells or (steps < 1).any() or (steps > n_cols).any():
        raise ValueError(DAMAGED)
    total = np.cumsum(steps)
    before = np.concatenate([[0], total])[starts[:-1]]
    columns = total - np.repeat(before, counts) - 1
    if columns.size and int(columns.max()) >= n_cols:
        raise ValueError(DAMAGED)
    return Interactions(starts.astype(np.int64), columns.astype(index_type(n_cols)))
