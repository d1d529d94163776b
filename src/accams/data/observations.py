"""Observations: the observed entries of a matrix, indexed by row and by column."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data import build
from accams.data.ids import Index
from accams.errors import InputError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from scipy import sparse

Duplicates = Literal["error", "mean", "last", "sum"]
Zeros = Literal["missing", "observed"]


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """The observed entries of a matrix: what a model learns from.

    Rows are users and columns are items, always. Make one with `from_frame`, `from_dense`, `from_sparse`,
    `from_coo`, `from_file` or `open`. What is not an entry is missing, except with ``zeros="observed"``, where
    every blank is an observed zero.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns.
    row_starts, cols : arrays
        Row i has the columns ``cols[row_starts[i]:row_starts[i + 1]]``, ascending.
    col_starts, rows : arrays
        Column j has the rows ``rows[col_starts[j]:col_starts[j + 1]]``, ascending.
    row_index, col_index : Index
        The raw ids and their positions.
    blank_weight : float or None
        None when blanks are missing; otherwise the weight of a blank, which counts as an observed zero.

    Examples
    --------
    >>> obs = Observations.from_coo([0, 0, 1], [0, 1, 1], [5.0, 3.0, 4.0])
    >>> obs
    Observations(2 x 2, 3 observed (75%), values 3 to 5)
    >>> obs.cols.tolist(), obs.rows.tolist(), obs.values.tolist()
    ([0, 1, 1], [0, 0, 1], [5.0, 3.0, 4.0])
    """

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
    _pattern: dict[str, Any] = field(default_factory=dict)

    # -- making one -----------------------------------------------------------------------------------------

    @classmethod
    def from_coo(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        weights: ArrayLike | None = None,
        times: ArrayLike | None = None,
        duplicates: Duplicates = "error",
        zeros: Zeros = "missing",
        zero_weight: float = 1.0,
        row_index: Index | None = None,
        col_index: Index | None = None,
    ) -> Observations:
        """Entries at positions (`rows`, `cols`), counted from 0.

        Parameters
        ----------
        rows, cols, values : array-like, one entry per observation
        shape : (int, int), optional
            Defaults to the largest positions seen.
        weights : array-like, optional
            How much each observation counts; positive, and finite. A weight of 0 drops the observation.
        times : array-like, optional
            When each observation was made; kept for splits by time.
        duplicates : {"error", "mean", "last", "sum"}
            What to do when a (row, column) pair comes twice.
        zeros : {"missing", "observed"}
            Whether a blank is missing, or an observed zero of weight `zero_weight`.
        """
        return cls(
            **build.from_entries(
                rows, cols, values, shape, weights, times, duplicates,
                build.blank_weight(zeros, zero_weight), row_index, col_index,
            )
        )  # fmt: skip

    @classmethod
    def from_frame(
        cls,
        frame: IntoDataFrame,
        row: str | None = None,
        col: str | None = None,
        value: str | None = None,
        *,
        weight: str | None = None,
        time: str | None = None,
        duplicates: Duplicates = "error",
        zeros: Zeros = "missing",
        zero_weight: float = 1.0,
    ) -> Observations:
        """A table with one observation a line (pandas, polars, pyarrow or any frame narwhals knows).

        Usual column names (user, userId, user_id, item, movieId, rating, score, ...) are recognised; others
        are named by `row`, `col` and `value`.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"userId": ["ann", "bob"], "movieId": [7, 9], "rating": [4.5, 3.0]})
        >>> Observations.from_frame(table).row_index.ids.tolist()
        ['ann', 'bob']
        """
        return cls(
            **build.from_table(frame, row, col, value, weight, time, duplicates, build.blank_weight(zeros, zero_weight))
        )

    @classmethod
    def from_dense(
        cls, matrix: ArrayLike, *, weights: ArrayLike | None = None, row_ids: ArrayLike | None = None,
        col_ids: ArrayLike | None = None,
    ) -> Observations:  # fmt: skip
        """A two-dimensional array; NaN is missing.

        Examples
        --------
        >>> Observations.from_dense([[1.0, float("nan")], [2.0, 3.0]]).nnz
        3
        """
        return cls(**build.from_array(matrix, weights, row_ids, col_ids))

    @classmethod
    def from_sparse(
        cls, matrix: sparse.sparray | sparse.spmatrix, *, zeros: Zeros = "missing", zero_weight: float = 1.0,
        weights: sparse.sparray | sparse.spmatrix | None = None, row_ids: ArrayLike | None = None,
        col_ids: ArrayLike | None = None,
    ) -> Observations:  # fmt: skip
        """A scipy sparse matrix or array: what is stored is observed, a stored zero too; the rest is missing.

        With ``zeros="observed"`` the rest is an observed zero instead (graphs, counts, implicit feedback), each
        with weight `zero_weight`. Entries stored twice are summed, as scipy does.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> graph = csr_array([[0, 1], [1, 0]])
        >>> Observations.from_sparse(graph, zeros="observed", zero_weight=0.1)
        Observations(2 x 2, 2 stored, blanks are zeros of weight 0.1, values 1 to 1)
        """
        return cls(**build.from_scipy(matrix, build.blank_weight(zeros, zero_weight), weights, row_ids, col_ids))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        row: str | None = None,
        col: str | None = None,
        value: str | None = None,
        *,
        weight: str | None = None,
        time: str | None = None,
        duplicates: Duplicates = "error",
        zeros: Zeros = "missing",
        zero_weight: float = 1.0,
    ) -> Observations:
        """A file of observations, one a line: CSV, TSV, ``::``-separated, Parquet; or a matrix in an NPZ.

        The file may be plain, gzipped, or inside a .zip (``ratings.zip``, or ``ratings.zip/folder/ratings.dat``
        to choose a member). Columns are recognised or named as in `from_frame`; without a header line they are
        row, column, value and (if there is a fourth) time. The folder of a store is opened as by `open`.
        """
        from accams.data import readers, store

        if store.is_store(Path(path)):
            named = any(name is not None for name in (row, col, value, weight, time))
            if named or (duplicates, zeros, zero_weight) != ("error", "missing", 1.0):
                raise InputError(f"{path} is a store: columns, duplicates and zeros were settled when it was made")
            return cls.open(path)
        return cls(
            **readers.read(
                Path(path), row, col, value, weight, time, duplicates, build.blank_weight(zeros, zero_weight)
            )
        )

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> Observations:
        """A store that `accams ingest` has made, larger than memory if need be: its files are mapped, not read.

        With `verify`, every byte is read once and compared with its checksum.
        """
        from accams.data import store

        return cls(**store.read(Path(path).resolve(), verify=verify))

    # -- looking at one -------------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """How many entries are stored."""
        return len(self.cols)

    @property
    def values(self) -> NDArray[np.float64]:
        """The values in row order (a copy in double precision; they are kept in the narrowest type that holds them)."""
        return self.stored_values.astype(np.float64)

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights in row order, or None if all are 1."""
        step = self.weight_step
        return None if self.stored_weights is None else np.asarray(self.stored_weights * step, dtype=np.float64)

    @cached_property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest value; with observed zeros, 0 is among them."""
        low, high = self._about["value_range"]
        if self.blank_weight is not None and self.nnz < self.shape[0] * self.shape[1]:
            low, high = min(low, 0.0), max(high, 0.0)
        return low, high

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""
        return self.blank_weight is not None or self.nnz == self.shape[0] * self.shape[1]

    @property
    def col_starts(self) -> NDArray[np.int64]:
        """Where each column begins in column order."""
        return self._by_column()[0]

    @property
    def rows(self) -> NDArray[np.unsignedinteger[Any]]:
        """The row of each entry, in column order."""
        return self._by_column()[1]

    def mean(self) -> float:
        """The weighted mean of all observed cells (blanks included where they are observed zeros)."""
        weighted = self._about["weighted_sum"]
        total = self._about["sum"] if weighted is None else weighted * self.weight_step
        return float(total / self.total_weight())

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """Stored entries of each row."""
        return np.diff(self.row_starts)

    @property
    def n_observed(self) -> int:
        """Observed cells, blanks included where they are observed zeros."""
        return self.nnz if self.blank_weight is None else self.shape[0] * self.shape[1]

    def total_weight(self) -> float:
        """The weight of all observed cells (blanks included where they are observed zeros)."""
        weight = self._about["weight"]
        stored = float(self.nnz) if weight is None else float(weight * self.weight_step)
        if self.blank_weight is None:
            return stored
        return stored + self.blank_weight * (self.shape[0] * self.shape[1] - self.nnz)

    def coo(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Row positions, column positions and values of all stored entries, in row order."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.row_starts))
        return rows, self.cols.astype(np.int64), self.values

    def pairs(self) -> NDArray[Any]:
        """The (row id, column id) of every stored entry: what `predict` takes."""
        rows, cols, _ = self.coo()
        row_ids, col_ids = self.row_index.ids[rows], self.col_index.ids[cols]
        out = np.empty((self.nnz, 2), row_ids.dtype if row_ids.dtype == col_ids.dtype else np.dtype(object))
        out[:, 0], out[:, 1] = row_ids, col_ids
        return out

    def select(self, chosen: NDArray[Any]) -> Observations:
        """The entries with these positions (or this mask) in row order; shape and ids stay as they are."""
        mask = np.zeros(self.nnz, dtype=bool)
        mask[chosen] = True
        if not mask.any():
            raise InputError("this selection leaves no observations")
        before = np.concatenate([[0], np.cumsum(mask)])
        return replace(
            self,
            row_starts=before[self.row_starts],
            cols=self.cols[mask],
            stored_values=self.stored_values[mask],
            stored_weights=None if self.stored_weights is None else self.stored_weights[mask],
            times=None if self.times is None else self.times[mask],
            _pattern={},
        )

    def split(self, held: NDArray[Any]) -> tuple[Observations, Observations]:
        """All entries but those with these positions (or this mask) in row order, and those.

        What is left of a store is a store too: a copy beside it, which is removed when it is no longer in use.
        """
        from accams.data import parts

        held = np.unique(np.flatnonzero(held) if held.dtype == bool else held)
        if not 0 < len(held) < self.nnz or not 0 <= held[0] <= held[-1] < self.nnz:
            raise InputError(f"positions must be some, and not all, of 0 .. {self.nnz - 1}")
        if self.store is None or not parts.can_part(self.store):
            mask = np.ones(self.nnz, dtype=bool)
            mask[held] = False
            return self.select(mask), self.select(~mask)
        rest, taken = parts.split(self.store, held)
        ids = {"row_index": self.row_index, "col_index": self.col_index}
        return replace(self, **{**rest, **ids}), replace(self, **taken)

    def counts(self, axis: int) -> NDArray[np.int64]:
        """How many observations each row (axis 0) or column (axis 1) has; blanks count where they are zeros."""
        if self.blank_weight is not None:
            return np.full(self.shape[axis], self.shape[1 - axis], dtype=np.int64)
        return np.diff(self.row_starts if axis == 0 else self.col_starts)

    def empty(self, axis: int) -> NDArray[np.int64]:
        """Positions of rows (axis 0) or columns (axis 1) with no observed cell."""
        return np.flatnonzero(self.counts(axis) == 0)

    @property
    def nbytes(self) -> int:
        """Bytes held: values, both orders, weights (ids and times not counted)."""
        parts = self.row_starts, self.cols, self.stored_values, self.stored_weights, *self._by_column()
        return sum(a.nbytes for a in parts if a is not None)

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
        """The folder of the store, where they come from one."""
        return self._pattern.get("store")

    def release_pages(self) -> None:
        """Let go of the memory of what was read of a store so far; it is read again when it is needed."""
        from accams.data import store

        if self.store is not None:
            store.release_pages(self.cols, self.stored_values, self.stored_weights, self.times, self.rows)

    def to_store(self, path: str | Path) -> None:
        """Write a store, which `open` opens; `accams ingest` makes one of files that are larger than memory."""
        from accams.data import store, transpose

        if Path(path).exists():
            raise InputError(f"{path} is there already: remove it, or name another")
        by_row = {"values": self.stored_values, "weights": self.stored_weights}
        pattern = self.row_starts, self.cols, self.shape[1]
        by_col = {
            f"col_{name}": None if each is None else transpose.to_column_order(*pattern, each)
            for name, each in by_row.items()
        }
        starts = {"row_starts": self.row_starts, "col_starts": self.col_starts}
        fields = {**starts, "cols": self.cols, "rows": self.rows, "times": self.times, **by_row, **by_col}
        told = {"shape": list(self.shape), "weight_step": self.weight_step, "blank_weight": self.blank_weight}
        store.save(Path(path), fields, (self.row_index, self.col_index), **told)

    @property
    def _about(self) -> dict[str, Any]:
        """What is asked of the values and weights as a whole."""
        from accams.data import store

        if "about" not in self._pattern:
            self._pattern["about"] = store.about(self.stored_values, self.stored_weights)
        found: dict[str, Any] = self._pattern["about"]
        return found

    def _by_column(self) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]]:
        if "by_column" not in self._pattern:
            self._pattern["by_column"] = build.column_order(self.row_starts, self.cols, self.shape)
        by_column: tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]] = self._pattern["by_column"]
        return by_column
