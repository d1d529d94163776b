"""StencilSum: an offset and a sum of stencils, each a small template with one label per row and per column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.model.size import model_bits

if TYPE_CHECKING:
    from accams.data.observations import Observations

Labels = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Stencil:
    """S[i, j] = template[row_labels[i], col_labels[j]]."""

    template: NDArray[np.float32]
    row_labels: Labels
    col_labels: Labels

    def __post_init__(self) -> None:
        template = np.asarray(self.template, dtype=np.float32)
        if template.ndim != 2 or template.size == 0:
            raise InputError(f"a template is a matrix of at least one block, not an array of shape {template.shape}")
        object.__setattr__(self, "template", template)
        for name, k in (("row_labels", template.shape[0]), ("col_labels", template.shape[1])):
            labels = np.asarray(getattr(self, name))
            if labels.ndim != 1 or labels.dtype.kind not in "iu":
                raise InputError(f"{name} must be a vector of whole numbers")
            if labels.size and not (int(labels.min()) >= 0 and int(labels.max()) < k):
                raise InputError(f"{name} must lie between 0 and {k - 1}, the template's size less one")
            object.__setattr__(self, name, labels.astype(label_type(k), copy=False))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, not of the template."""
        return len(self.row_labels), len(self.col_labels)


@dataclass(frozen=True, eq=False, repr=False)
class StencilSum:
    """The model: ``offset + sum_l template_l[row_labels_l[i], col_labels_l[j]]``.

    Parameters
    ----------
    shape : (int, int)
    offset : float
    stencils : sequence of Stencil
    unseen_rows, unseen_cols : arrays of positions
        Rows and columns without any training data: they are predicted as the average row (column), like
        position -1.

    Examples
    --------
    >>> model = StencilSum((2, 3), offset=1.0).append([[0.5, -0.5]], [0, 0], [0, 1, 1])
    >>> model.dense()
    array([[1.5, 0.5, 0.5],
           [1.5, 0.5, 0.5]])
    >>> model.predict([0, 1], [0, 2])
    array([1.5, 0.5])
    >>> model.bits  # one bit per column, two numbers of 32 bits
    67.0
    """

    shape: tuple[int, int]
    offset: float = 0.0
    stencils: tuple[Stencil, ...] = ()
    unseen_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unseen_cols: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (int(self.shape[0]), int(self.shape[1])))
        object.__setattr__(self, "stencils", tuple(self.stencils))
        for stencil in self.stencils:
            if stencil.shape != self.shape:
                raise InputError(f"a stencil of shape {stencil.shape} does not fit a model of shape {self.shape}")
        object.__setattr__(self, "offset", float(self.offset))
        if not isfinite(self.offset):
            raise InputError(f"the offset must be a finite number, not {self.offset}")
        for name, size in (("unseen_rows", self.shape[0]), ("unseen_cols", self.shape[1])):
            unseen = np.asarray(getattr(self, name))
            if unseen.dtype.kind not in "iu" or (unseen.size and (int(unseen.min()) < 0 or int(unseen.max()) >= size)):
                raise InputError(f"{name} must be positions between 0 and {size - 1}")
            object.__setattr__(self, name, unseen.astype(np.int64, copy=False))

    # -- parts --------------------------------------------------------------------------------------------

    @property
    def templates(self) -> list[NDArray[np.float32]]:
        """The template of each stencil."""
        return [s.template for s in self.stencils]

    @property
    def row_labels(self) -> list[Labels]:
        """The row labels of each stencil."""
        return [s.row_labels for s in self.stencils]

    @property
    def col_labels(self) -> list[Labels]:
        """The column labels of each stencil."""
        return [s.col_labels for s in self.stencils]

    @property
    def bits(self) -> float:
        """Size by the paper's formula: sum of m log2 k_rows + n log2 k_cols + 32 k_rows k_cols."""
        return model_bits(self.shape, [(s.template.shape[0], s.template.shape[1]) for s in self.stencils])

    def __len__(self) -> int:
        return len(self.stencils)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"StencilSum({m:,} x {n:,}, {len(self)} stencils, {self.bits / 8000:,.1f} KB)"

    # -- building -----------------------------------------------------------------------------------------

    def append(self, template: ArrayLike, row_labels: ArrayLike, col_labels: ArrayLike) -> StencilSum:
        """A new sum with one more stencil at the end."""
        stencil = Stencil(np.asarray(template), np.asarray(row_labels), np.asarray(col_labels))
        return replace(self, stencils=(*self.stencils, stencil))

    def truncate(self, n_stencils: int) -> StencilSum:
        """A new sum of the first `n_stencils` stencils."""
        if not 0 <= n_stencils <= len(self):
            raise InputError(f"this model has {len(self)} stencils, so it cannot be cut to {n_stencils}")
        return replace(self, stencils=self.stencils[:n_stencils])

    # -- use ----------------------------------------------------------------------------------------------

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Predictions at the cells (rows[p], cols[p]).

        Position -1 stands for a row (column) that was never seen: the average of the template rows
        (columns), weighted by how many seen rows (columns) have each label.
        """
        from accams.kernels.predict import predict_pairs

        i, j = np.atleast_1d(np.asarray(rows)), np.atleast_1d(np.asarray(cols))
        if i.ndim != 1 or j.ndim != 1 or len(i) != len(j) != 1 != len(i):
            raise InputError(f"rows and columns must be of equal length, but have shapes {i.shape} and {j.shape}")
        for name, x in (("row", i), ("column", j)):
            if x.size and x.dtype.kind not in "iu":
                raise InputError(f"{name} positions must be whole numbers, not {x.dtype}")
        i, j = (np.ascontiguousarray(x, dtype=np.int64) for x in np.broadcast_arrays(i, j))
        for name, x, size in (("row", i, self.shape[0]), ("column", j, self.shape[1])):
            if x.size and (int(x.min()) < -1 or int(x.max()) >= size):
                raise InputError(f"{name} positions must lie between 0 and {size - 1} (or be -1 for one never seen)")
        out = np.empty(len(i), dtype=np.float64)
        predict_pairs(0, len(i), i, j, *self._codes, self.offset, out)
        return out

    def dense(self) -> NDArray[np.float64]:
        """The whole matrix of predictions (m x n numbers: only for matrices that fit in memory)."""
        out = np.full(self.shape, self.offset)
        row_codes, col_codes, flat, starts, widths = self._codes
        for s, stencil in enumerate(self.stencils):
            size = (stencil.template.shape[0] + 1) * widths[s]
            padded = flat[starts[s] : starts[s] + size].reshape(-1, widths[s])
            out += padded[row_codes[:-1, s]][:, col_codes[:-1, s]]
        return out

    def residual(self, observations: Observations) -> NDArray[np.float64]:
        """Observed value minus prediction for every stored entry, in row order."""
        if observations.shape != self.shape:
            raise InputError(f"the observations are {observations.shape} but the model is {self.shape}")
        rows, cols, values = observations.coo()
        return values - self.predict(rows, cols)

    def save(self, path: str | Path) -> None:
        """Write the model to one file; `accams.load` reads it."""
        from accams.model.file import save

        save(path, self)

    @cached_property
    def _codes(self) -> tuple[Labels, Labels, NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Labels as one line per row and column, padded by the average; templates in one array, padded likewise."""
        widest = max((max(s.template.shape) for s in self.stencils), default=1)
        row_codes = _padded_codes(
            self.row_labels, self.shape[0], self.unseen_rows, [len(t) for t in self.templates], widest
        )
        col_codes = _padded_codes(
            self.col_labels, self.shape[1], self.unseen_cols, [t.shape[1] for t in self.templates], widest
        )
        padded = [_with_averages(s, row_codes[:-1, p], col_codes[:-1, p]) for p, s in enumerate(self.stencils)]
        flat = np.concatenate([t.ravel() for t in padded]) if padded else np.zeros(0)
        starts = np.cumsum([0, *(t.size for t in padded)])[:-1].astype(np.int64)
        widths = np.array([t.shape[1] for t in padded], dtype=np.int64)
        return row_codes, col_codes, flat, starts, widths


def label_type(k: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type for labels below `k`."""
    return np.uint8 if k <= 2**8 else np.uint16 if k <= 2**16 else np.uint32


def _padded_codes(
    labels: Sequence[Labels], size: int, unseen: NDArray[np.int64], ks: Sequence[int], widest: int
) -> Labels:
    """One line of labels per position and one for position -1; label k stands for the average."""
    codes = np.zeros((size + 1, len(labels)), dtype=label_type(widest + 1))
    for p, (each, k) in enumerate(zip(labels, ks, strict=True)):
        codes[:size, p] = each
        codes[unseen, p] = k
        codes[size, p] = k
    return codes


def _with_averages(stencil: Stencil, row_codes: Labels, col_codes: Labels) -> NDArray[np.float64]:
    """The template with one more row and column: the averages over the seen rows and columns."""
    k_rows, k_cols = stencil.template.shape
    out = np.zeros((k_rows + 1, k_cols + 1))
    out[:k_rows, :k_cols] = stencil.template
    out[k_rows, :k_cols] = _shares(row_codes, k_rows) @ out[:k_rows, :k_cols]
    out[:, k_cols] = out[:, :k_cols] @ _shares(col_codes, k_cols)
    return out


def _shares(codes: Labels, k: int) -> NDArray[np.float64]:
    counts = np.bincount(codes, minlength=k + 1)[:k].astype(np.float64)
    return counts / counts.sum() if counts.sum() else np.full(k, 1.0 / k)
