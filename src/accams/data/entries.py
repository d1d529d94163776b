"""Stored entries of a matrix in both orders, and what follows from them."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accams.data import build, store
from accams.data.ids import Index
from accams.data.pages import release_pages
from accams.html import html_table


@dataclass(frozen=True, eq=False, repr=False)
class Entries:
    """Arrays of `accams.Observations`, which documents them, with what is computed from them alone."""

    shape: tuple[int, int]
    row_starts: NDArray[np.int64]
    cols: NDArray[np.unsignedinteger[Any]]
    stored_values: NDArray[np.floating[Any]]
    row_index: Index
    col_index: Index
    stored_weights: NDArray[np.int32] | None = None
    weight_step: float = 1.0
    times: NDArray[Any] | None = None
    blank_weight: float | None = None
    # by_column and about are computed on first use; store and scratch are set for data on disk
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.cols)

    @property
    def values(self) -> NDArray[np.float64]:
        """Values in row order, as a copy in double precision."""
        return self.stored_values.astype(np.float64)

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights in row order, or None if all are 1."""
        step = self.weight_step
        return None if self.stored_weights is None else np.asarray(self.stored_weights * step, dtype=np.float64)

    @cached_property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest value, observed zeros included."""
        low, high = self._summary["value_range"]
        if self.blank_weight is not None and self.nnz < self.shape[0] * self.shape[1]:
            low, high = min(low, 0.0), max(high, 0.0)
        return low, high

    @property
    def is_complete(self) -> bool:
        """Whether every cell is observed."""
        return self.blank_weight is not None or self.nnz == self.shape[0] * self.shape[1]

    @property
    def col_starts(self) -> NDArray[np.int64]:
        """Start of each column in column order."""
        return self._by_column()[0]

    @property
    def rows(self) -> NDArray[np.unsignedinteger[Any]]:
        """Row of each entry, in column order."""
        return self._by_column()[1]

    def mean(self) -> float:
        """Return the weighted mean of all observed cells, observed zeros included."""
        weighted = self._summary["weighted_sum"]
        total = self._summary["sum"] if weighted is None else weighted * self.weight_step
        return float(total / self.total_weight())

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of stored entries of each row."""
        return np.diff(self.row_starts)

    @property
    def n_observed(self) -> int:
        """Number of observed cells, observed zeros included."""
        return self.nnz if self.blank_weight is None else self.shape[0] * self.shape[1]

    def total_weight(self) -> float:
        """Return the total weight of all observed cells, observed zeros included."""
        weight = self._summary["weight"]
        stored = float(self.nnz) if weight is None else float(weight * self.weight_step)
        if self.blank_weight is None:
            return stored
        return stored + self.blank_weight * (self.shape[0] * self.shape[1] - self.nnz)

    def coo(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return row positions, column positions and values of the stored entries, in row order."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.row_starts))
        return rows, self.cols.astype(np.int64), self.values

    def pairs(self) -> NDArray[Any]:
        """Return the (row id, column id) pairs of the stored entries, as `predict` takes them."""
        rows, cols, _ = self.coo()
        row_ids, col_ids = self.row_index.ids[rows], self.col_index.ids[cols]
        out = np.empty((self.nnz, 2), row_ids.dtype if row_ids.dtype == col_ids.dtype else np.dtype(object))
        out[:, 0], out[:, 1] = row_ids, col_ids
        return out

    def counts(self, axis: int) -> NDArray[np.int64]:
        """Return the number of observed cells of each row (axis 0) or column (axis 1), observed zeros included.

        Parameters
        ----------
        axis : {0, 1}

        Returns
        -------
        array of int
        """
        if self.blank_weight is not None:
            return np.full(self.shape[axis], self.shape[1 - axis], dtype=np.int64)
        return np.diff(self.row_starts if axis == 0 else self.col_starts)

    def empty(self, axis: int) -> NDArray[np.int64]:
        """Return the positions of rows (axis 0) or columns (axis 1) without observed cells.

        Parameters
        ----------
        axis : {0, 1}

        Returns
        -------
        array of int
        """
        return np.flatnonzero(self.counts(axis) == 0)

    @property
    def nbytes(self) -> int:
        """Bytes of values, weights and both orders (without ids and times)."""
        arrays = self.row_starts, self.cols, self.stored_values, self.stored_weights, *self._by_column()
        return sum(array.nbytes for array in arrays if array is not None)

    def _repr_html_(self) -> str:
        (m, n), (low, high) = self.shape, self.value_range
        blanks = "missing" if self.blank_weight is None else f"zeros of weight {self.blank_weight:g}"
        rows = {"shape": f"{m:,} x {n:,}", "stored": f"{self.nnz:,} ({100 * self.nnz / (m * n):.3g}%)"}
        return html_table("observations", rows | {"values": f"{low:g} to {high:g}", "blanks": blanks})

    def __repr__(self) -> str:
        m, n = self.shape
        low, high = self.value_range
        if self.blank_weight is None:
            kind = f"{self.nnz:,} observed ({100 * self.nnz / (m * n):.3g}%)"
        else:
            kind = f"{self.nnz:,} stored, blanks are zeros of weight {self.blank_weight:g}"
            low, high = float(self.stored_values.min()), float(self.stored_values.max())
        weighted = ", weighted" if self.stored_weights is not None else ""
        return f"Observations({m:,} x {n:,}, {kind}, values {low:g} to {high:g}{weighted})"

    @property
    def store(self) -> Path | None:
        """Folder of the store, or None for data in memory."""
        return self._cache.get("store")

    def release_pages(self) -> None:
        """Drop mapped pages of a store from resident memory; they are read again when needed."""
        if self.store is not None:
            release_pages(self.cols, self.stored_values, self.stored_weights, self.times, self.rows)

    @property
    def _summary(self) -> dict[str, Any]:
        if "about" not in self._cache:
            self._cache["about"] = store.summarize(self.stored_values, self.stored_weights)
        return cast("dict[str, Any]", self._cache["about"])

    def _by_column(self) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]]:
        if "by_column" not in self._cache:
            m, n = self.shape
            self._cache["by_column"] = build.column_order(self.row_starts, self.cols, n, build.index_type(m))
        return cast("tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]]", self._cache["by_column"])
