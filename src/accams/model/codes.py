"""A stencil sum laid out for prediction: all labels of a row side by side, all templates in one array."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.model.stencil import Labels, Positions, label_type
from accams.threads import Threads

THREADS = Threads()  # for predictions: one per core, started on first use
Floats = NDArray[np.float64]
Stacked = Sequence[Labels] | NDArray[np.uint8]  # one vector per stencil, or an array (stencil, position)


@dataclass(frozen=True, eq=False)
class Codes:
    """Labels and templates of a stencil sum, with an average row and column added to each template.

    The averages predict rows and columns without observations, and position -1. `rows` (m + 1, s) and `cols` (n + 1, s)
    hold the labels of each row (column) in all stencils, contiguous, so that a prediction reads two runs of memory;
    label k is the average, and the last line, which position -1 addresses, holds averages only. Template s begins at
    flat[starts[s]] and has rows of widths[s] numbers. Effects are zero for rows (columns) without observations.
    """

    rows: Labels
    cols: Labels
    flat: NDArray[np.floating]
    starts: Positions
    widths: Positions
    row_effects: NDArray[np.floating] | None
    col_effects: NDArray[np.floating] | None
    offset: float

    @classmethod
    def of(
        cls, templates: Sequence[NDArray[np.floating]], labels: tuple[Stacked, Stacked],
        shape: tuple[int, int], unseen: tuple[Positions, Positions],
        effects: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None], offset: float,
    ) -> Self:  # fmt: skip
        """Lay out one template and two label vectors per stencil; `unseen` are positions without observations."""
        widest = max((max(T.shape) for T in templates), default=1)
        (rows, row_sizes), (cols, col_sizes) = (
            _coded(labels[axis], shape[axis], unseen[axis], [T.shape[axis] for T in templates], widest)
            for axis in (0, 1)
        )
        padded = [_with_averages(T, row_sizes[p], col_sizes[p]) for p, T in enumerate(templates)]
        flat = np.concatenate([T.ravel() for T in padded]) if padded else np.zeros(0)
        starts = np.cumsum([0, *(T.size for T in padded)])[:-1].astype(np.int64)
        widths = np.array([T.shape[1] for T in padded], dtype=np.int64)
        row_effects, col_effects = (_padded_effects(effects[axis], unseen[axis]) for axis in (0, 1))
        return cls(rows, cols, flat, starts, widths, row_effects, col_effects, offset)

    def compact(self) -> Self:
        """Return a copy with templates in single precision."""
        return replace(self, flat=self.flat.astype(np.float32))

    def transposed(self) -> Self:
        """Return the codes of the transposed matrix."""
        templates = [self.template(stencil).T.ravel() for stencil in range(len(self.starts))]
        flat = np.concatenate(templates) if templates else self.flat
        labels, effects = (self.cols, self.rows), (self.col_effects, self.row_effects)
        return type(self)(*labels, flat, self.starts, self.heights, *effects, self.offset)

    def scaled(self, shift: float, factor: float) -> Self:
        """Return a copy that predicts shift + factor times what this one does."""
        flat = (factor * self.flat).astype(self.flat.dtype)
        effects = [None if x is None else (factor * x).astype(x.dtype) for x in (self.row_effects, self.col_effects)]
        offset = shift + factor * self.offset
        return replace(self, flat=flat, row_effects=effects[0], col_effects=effects[1], offset=offset)

    def stretched(self, factor: float) -> Self:
        """Return a copy in which the interactions of every template are multiplied by this factor.

        The interaction of a block is its entry less the averages of its row and its column, plus the average of all.
        Averages stay: those of interactions are zero.
        """
        flat = self.flat.copy()
        for stencil in range(len(self.starts)):
            T = self.template(stencil).astype(np.float64)
            more = (factor - 1.0) * (T - T[:, -1:] - T[-1:] + T[-1, -1])
            start = self.starts[stencil]
            flat[start : start + T.size] = (T + more).ravel()
        return replace(self, flat=flat)

    @property
    def heights(self) -> Positions:
        """Number of rows of each template, the average included."""
        return (np.diff(np.append(self.starts, len(self.flat))) // self.widths).astype(np.int64)

    def template(self, stencil: int) -> NDArray[np.floating]:
        """Return one template, with the averages as its last row and column."""
        ends = [*self.starts[1:], len(self.flat)]
        return self.flat[self.starts[stencil] : ends[stencil]].reshape(-1, self.widths[stencil])

    def predict(self, i: Positions, j: Positions) -> Floats:
        """Predict the cells (i[p], j[p]); -1 is the average row (column)."""
        from accams.kernels.predict import predict_pairs

        out = np.empty(len(i), dtype=np.float64)
        tables = self.rows, self.cols, self.flat, self.starts, self.widths
        THREADS.run(predict_pairs, THREADS.split_evenly(len(i), len(self.starts) + 1), i, j, *tables, self.offset, out)
        return self._with_effects(out, i, j)

    def predict_probable(self, shares: NDArray[np.uint8], i: Positions, j: Positions) -> Floats:
        """Predict with probabilities of all labels (one line of `shares` per row) in place of each row's labels."""
        from accams.kernels.predict import predict_probable

        out = np.empty(len(i), dtype=np.float64)
        tables = shares, self.cols, self.flat, self.starts, self.widths
        predict_probable(0, len(i), i, j, *tables, self.offset, out)
        return self._with_effects(out, i, j)

    @property
    def nbytes(self) -> int:
        parts = self.rows, self.cols, self.flat, self.row_effects, self.col_effects
        return sum(part.nbytes for part in parts if part is not None)

    def _with_effects(self, out: Floats, i: Positions, j: Positions) -> Floats:
        if self.row_effects is not None:
            out += self.row_effects[i]
        if self.col_effects is not None:
            out += self.col_effects[j]
        return out


def position_pairs(rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> tuple[Positions, Positions]:
    """Validate positions of cells: two vectors of equal length, each position within the matrix or -1."""
    i, j = np.atleast_1d(np.asarray(rows)), np.atleast_1d(np.asarray(cols))
    if i.ndim != 1 or j.ndim != 1 or len(i) != len(j) != 1 != len(i):
        raise InputError(f"rows and columns must be of equal length, but have shapes {i.shape} and {j.shape}")
    for name, x in (("row", i), ("column", j)):
        if x.size and x.dtype.kind not in "iu":
            raise InputError(f"{name} positions must be integers, not {x.dtype}")
    i, j = (np.ascontiguousarray(x, dtype=np.int64) for x in np.broadcast_arrays(i, j))
    for name, x, size in (("row", i, shape[0]), ("column", j, shape[1])):
        if x.size and (int(x.min()) < -1 or int(x.max()) >= size):
            raise InputError(f"{name} positions must lie between 0 and {size - 1} (or be -1 for an unknown one)")
    return i, j


def _coded(labels: Stacked, size: int, unseen: Positions, ks: Sequence[int], widest: int) -> tuple[Labels, Positions]:
    """Return the labels of each position and of -1, and how many positions with observations have each label.

    Label k is the average.
    """
    from accams.kernels.predict import interleave

    codes = np.zeros((size + 1, len(labels)), dtype=label_type(widest + 1))
    if not len(labels):
        return codes, np.zeros((0, widest + 1), np.int64)
    if isinstance(labels, np.ndarray):
        stacked: Labels = labels
    else:
        stacked = np.stack([x.astype(codes.dtype, copy=False) for x in labels])

    def run(lo: int, hi: int) -> Positions:
        counts = np.zeros((len(labels), widest + 1), np.int64)
        interleave(lo, hi, stacked, codes, counts)
        return counts

    parts = THREADS.map(run, THREADS.split_evenly(size, len(labels)))
    counts = np.sum(parts, axis=0) if parts else np.zeros((len(labels), widest + 1), np.int64)
    if len(unseen):
        counts -= np.stack([np.bincount(line, minlength=widest + 1) for line in stacked[:, unseen]])
        codes[unseen] = ks
    codes[size] = ks
    return codes, counts


def _with_averages(template: NDArray[np.float32], row_sizes: Positions, col_sizes: Positions) -> Floats:
    """Add a row and a column to the template: the averages over rows and columns with observations."""
    k_rows, k_cols = template.shape
    out = np.zeros((k_rows + 1, k_cols + 1))
    out[:k_rows, :k_cols] = template
    out[k_rows, :k_cols] = _shares(row_sizes[:k_rows]) @ out[:k_rows, :k_cols]
    out[:, k_cols] = out[:, :k_cols] @ _shares(col_sizes[:k_cols])
    return out


def _shares(sizes: Positions) -> Floats:
    total = sizes.sum()
    return sizes / total if total else np.full(len(sizes), 1.0 / len(sizes))


def _padded_effects(effects: NDArray[np.float32] | None, unseen: Positions) -> NDArray[np.float32] | None:
    """Return one effect per position, 0 for positions without observations and for -1."""
    if effects is None:
        return None
    out = np.append(effects, np.float32(0.0))
    out[unseen] = 0.0
    return out
