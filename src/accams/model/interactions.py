"""Interactions: the observed columns of each row, and how much each counts, coded in about a byte each."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.model.coding import decode_ints, decode_labels, encode_ints, encode_labels
from accams.model.container import Tensors
from accams.threads import ranges_of

Positions = NDArray[np.int64]
Weights = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Sizes = int | list[list[int]]  # cells, or rows and cells of each piece
PIECE = 1 << 22  # cells that are coded at a time, to bound memory
LEVELS = 256  # most distinct weights that are stored
OCTAVE = 8  # steps of a factor of two, where there are more
DAMAGED = "the interactions do not fit the shape"


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed columns of each row: those of row i are ``columns[starts[i]:starts[i + 1]]``.

    Parameters
    ----------
    starts : array of int (n_rows + 1,)
    columns : array of int
    weights : array of float32, optional
        How strongly each was chosen, for models that make lists of it.

    Examples
    --------
    >>> import numpy as np
    >>> interactions = Interactions.at(np.array([1, 0, 1]), np.array([7, 4, 5]), n_rows=2)
    >>> interactions.starts.tolist(), interactions.columns.tolist()
    ([0, 1, 3], [4, 7, 5])
    """

    starts: Positions
    columns: NDArray[np.integer[Any]]
    weights: Weights | None = None

    @classmethod
    def at(cls, rows: Positions, columns: Positions, n_rows: int, weights: Weights | None = None) -> Self:
        """Build from cells in any order; cells with row -1 or column -1 are left out.

        Parameters
        ----------
        rows, columns : array of int
            Row and column of each cell.
        n_rows : int
        weights : array of float32, optional
            Weight of each cell.

        Returns
        -------
        Interactions
        """
        inside = (rows >= 0) & (columns >= 0)
        order = np.argsort(rows[inside], kind="stable")
        starts = np.searchsorted(rows[inside][order], np.arange(n_rows + 1))
        kept = None if weights is None else weights[inside][order]
        return cls(starts.astype(np.int64), columns[inside][order], kept)

    def __len__(self) -> int:
        return len(self.columns)

    def of(self, rows: Positions) -> tuple[Positions, Positions]:
        """Return (starts, columns) of some rows alone; row -1 has none.

        Parameters
        ----------
        rows : array of int

        Returns
        -------
        starts, columns : arrays of int

        Examples
        --------
        >>> starts, columns = Interactions(np.array([0, 2, 3]), np.array([4, 7, 5])).of(np.array([1, -1, 0]))
        >>> starts.tolist(), columns.tolist()
        ([0, 1, 1, 3], [5, 4, 7])
        """
        if len(rows) == 1 and rows[0] >= 0:  # most often, and in haste
            own = self.columns[self.starts[rows[0]] : self.starts[rows[0] + 1]]
            return np.array([0, len(own)]), own.astype(np.int64)
        starts, where = self._where(rows)
        return starts, self.columns[where].astype(np.int64)

    def take(self, rows: Positions) -> "Interactions":
        """Return the interactions of some rows alone, with their weights.

        Parameters
        ----------
        rows : array of int
            -1 is a row without any.

        Returns
        -------
        Interactions
        """
        starts, where = self._where(rows)
        return Interactions(starts, self.columns[where], None if self.weights is None else self.weights[where])

    def only(self, mask: NDArray[np.bool_]) -> "Interactions":
        """Return the same rows with some of their cells.

        Parameters
        ----------
        mask : array of bool
            Whether to keep each cell.

        Returns
        -------
        Interactions
        """
        ends = np.concatenate([[0], np.cumsum(mask)])
        return Interactions(ends[self.starts], self.columns[mask], None if self.weights is None else self.weights[mask])

    def put(self, rows: Positions, size: int, new: "Interactions") -> "Interactions":
        """Return a copy of `size` rows in which `rows` have the interactions `new` instead of their own.

        Parameters
        ----------
        rows : array of int
        size : int
            At least as many rows as there are.
        new : Interactions
            As many rows as are in `rows`, in their order.

        Returns
        -------
        Interactions
        """
        old = len(self.starts) - 1
        source = np.full(size, -1, np.int64)
        source[:old] = np.arange(old)
        source[rows] = old + np.arange(len(rows))
        starts = np.concatenate([self.starts, new.starts[1:] - new.starts[0] + self.starts[-1]])
        widest = int(max(self.columns.max(initial=0), new.columns.max(initial=0)))
        kind = np.promote_types(self.columns.dtype, index_type(widest + 1))
        columns = np.concatenate([self.columns.astype(kind), new.columns.astype(kind)])
        weights = None
        if self.weights is not None or new.weights is not None:
            weights = np.concatenate(
                [np.ones(len(x), np.float32) if x.weights is None else x.weights for x in (self, new)]
            )
        return Interactions(starts, columns, weights).take(source)

    def without(self, row: int) -> "Interactions":
        """Return a copy without one row.

        Parameters
        ----------
        row : int

        Returns
        -------
        Interactions
        """
        return self.take(np.delete(np.arange(len(self.starts) - 1), row))

    def _where(self, rows: Positions) -> tuple[Positions, Positions]:
        """Return the starts of some rows alone, and the places of their cells."""
        inside = rows >= 0
        begins = self.starts[np.where(inside, rows, 0)]  # not those of all rows: most often few are asked for
        counts = np.where(inside, self.starts[np.where(inside, rows + 1, 0)] - begins, 0)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        inner = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return starts, np.repeat(begins, counts) + inner

    def ordered(self) -> "Interactions":
        """Return the same with the columns of each row in ascending order."""
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.lexsort((self.columns, rows))
        return Interactions(self.starts, self.columns[order], None if self.weights is None else self.weights[order])

    def _cut(self, lo: int, hi: int) -> "Interactions":
        """Return rows lo .. hi alone."""
        cells = slice(int(self.starts[lo]), int(self.starts[hi]))
        weights = None if self.weights is None else self.weights[cells]
        return Interactions(self.starts[lo : hi + 1] - self.starts[lo], self.columns[cells], weights)


def few(weights: NDArray[np.floating]) -> Weights:
    """Return weights rounded so that files can hold them: to steps of 9 % of the largest, where many differ.

    Examples
    --------
    >>> few(np.array([1.0, 0.3])).tolist() == [1.0, np.float32(0.3)]
    True
    >>> len(np.unique(few(np.linspace(0.1, 1.0, 1000))))
    28
    """
    single = weights.astype(np.float32)
    if len(np.unique(single)) <= LEVELS:
        return single
    top, positive = float(single.max()), single > 0
    steps = np.rint(OCTAVE * np.log2(top / np.where(positive, single, top).astype(np.float64)))
    rounded = top * 2.0 ** (-np.minimum(steps, LEVELS - 2) / OCTAVE)
    return np.where(positive, rounded, 0.0).astype(np.float32)


def pack(interactions: Interactions) -> tuple[Sizes, Tensors]:
    """Return sizes and tensors, in pieces of some millions of cells."""
    if interactions.weights is not None:
        interactions = replace(interactions, weights=few(interactions.weights))
    cuts = ranges_of(interactions.starts, PIECE) or [(0, 0)]
    pieces = [interactions._cut(lo, hi).ordered() for lo, hi in cuts]
    tensors: Tensors = {str(p): _packed(piece) for p, piece in enumerate(pieces)}
    if interactions.weights is not None:
        table = np.unique(np.append(interactions.weights, np.float32(1.0)))  # not empty, though all rows may be
        levels = [np.searchsorted(table, piece.weights).astype(np.uint16) for piece in pieces]  # type: ignore[arg-type]
        stream, models = encode_labels(levels, [len(table)] * len(pieces))
        tensors |= {"weights": table, "levels": stream, "level_models": models}
    sizes = [[len(x.starts) - 1, len(x.columns)] for x in pieces]
    return sizes if len(pieces) > 1 else int(interactions.starts[-1]), tensors


def unpack(sizes: Sizes, tensors: Tensors, shape: tuple[int, int]) -> Interactions:
    """Undo `pack`; raise ValueError for damaged data."""
    each = [[shape[0], sizes]] if isinstance(sizes, int) else sizes
    coded = [tensors[name] for name in tensors if name.isdecimal()]
    if sum(rows for rows, _ in each) != shape[0] or len(coded) != len(each):
        raise ValueError(DAMAGED)
    pieces = [_unpacked(tensors[str(p)], rows, cells, shape[1]) for p, (rows, cells) in enumerate(each)]
    counts = np.concatenate([np.diff(x.starts) for x in pieces])
    starts = np.concatenate([[0], np.cumsum(counts)])
    weights = _unpacked_weights(tensors, [cells for _, cells in each]) if "weights" in tensors else None
    return Interactions(starts, np.concatenate([x.columns for x in pieces]), weights)


def _packed(interactions: Interactions) -> Bytes:
    """Code the number of columns of each row, then each column by its distance from the one before."""
    counts, columns = np.diff(interactions.starts), interactions.columns.astype(np.int64)
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


def _unpacked_weights(tensors: Tensors, cells: list[int]) -> Weights:
    table = tensors["weights"]
    right = table.dtype == np.float32 and table.ndim == 1 and 1 <= len(table) <= LEVELS + 1
    if not right or not (np.isfinite(table) & (table >= 0)).all():
        raise ValueError("the weights of interactions cannot be")
    levels = decode_labels(tensors["levels"], tensors["level_models"], cells, [len(table)] * len(cells))
    return np.asarray(table[np.concatenate(levels)])
