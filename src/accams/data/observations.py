"""Observations: the observed entries of a matrix, indexed by row and by column."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data import build, holdout, store
from accams.data.entries import Entries
from accams.data.ids import Index
from accams.errors import InputError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from scipy import sparse

Duplicates = Literal["auto", "error", "mean", "last", "sum"]
Zeros = Literal["missing", "observed"]


class Observations(Entries):
    """Observed entries of a sparse or dense matrix, the training data of a model.

    Rows are users and columns are items. Construct with `from_frame`, `from_dense`, `from_sparse`, `from_coo`,
    `from_file` or `open`. Cells without an entry are missing, or observed zeros if ``zeros="observed"``.

    Attributes
    ----------
    shape : (int, int)
        Number of rows and columns.
    row_starts, cols : ndarray
        Row i has the columns ``cols[row_starts[i]:row_starts[i + 1]]``, ascending.
    col_starts, rows : ndarray
        Column j has the rows ``rows[col_starts[j]:col_starts[j + 1]]``, ascending.
    row_index, col_index : Index
        Raw ids and their positions.
    times : ndarray or None
        Time of each entry, in row order.
    blank_weight : float or None
        Weight of a blank that counts as an observed zero; None where blanks are missing.

    Examples
    --------
    >>> obs = Observations.from_coo([0, 0, 1], [0, 1, 1], [5.0, 3.0, 4.0])
    >>> obs
    Observations(2 x 2, 3 observed (75%), values 3 to 5)
    >>> obs.cols.tolist(), obs.rows.tolist(), obs.values.tolist()
    ([0, 1, 1], [0, 0, 1], [5.0, 3.0, 4.0])
    """

    @classmethod
    def from_coo(
        cls, rows: ArrayLike, cols: ArrayLike, values: ArrayLike, *, shape: tuple[int, int] | None = None,
        weights: ArrayLike | None = None, times: ArrayLike | None = None, duplicates: Duplicates = "auto",
        zeros: Zeros = "missing", zero_weight: float = 1.0, row_index: Index | None = None,
        col_index: Index | None = None,
    ) -> Self:  # fmt: skip
        """Construct observations from row positions, column positions and values.

        Parameters
        ----------
        rows, cols, values : array-like
            Positions (counted from 0) and value of each observation.
        shape : (int, int), optional
            Defaults to the number of ids, or else to the largest positions plus one.
        weights : array-like of float, optional
            Nonnegative weight of each observation; observations of weight 0 are dropped.
        times : array-like, optional
            Time of each observation, for splits by time.
        duplicates : {"auto", "error", "mean", "last", "sum"}
            How to merge entries of the same row and column. "auto" is "mean", and says how many there are.
        zeros : {"missing", "observed"}
            Whether blanks are missing, or observed zeros.
        zero_weight : float
            Weight of an observed zero that is not stored.
        row_index, col_index : Index, optional
            Ids of rows and columns; positions by default.

        Returns
        -------
        Observations
        """
        blanks, axes = build.blank_weight(zeros, zero_weight), (row_index, col_index)
        return cls(**build.from_entries(rows, cols, values, shape, weights, times, duplicates, blanks, *axes))

    @classmethod
    def from_frame(
        cls, frame: "IntoDataFrame", row: str | None = None, col: str | None = None, value: str | None = None, *,
        weight: str | None = None, time: str | None = None, duplicates: Duplicates = "auto",
        zeros: Zeros = "missing", zero_weight: float = 1.0,
    ) -> Self:  # fmt: skip
        """Construct observations from a DataFrame with one observation per line.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, polars, pyarrow or any other library that narwhals supports.
        row, col, value, weight, time : str, optional
            Column names. Common names (user, userId, item, movieId, rating, score, timestamp, ...) are recognised.
        duplicates, zeros, zero_weight
            See `from_coo`.

        Returns
        -------
        Observations

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"userId": ["ann", "bob"], "movieId": [7, 9], "rating": [4.5, 3.0]})
        >>> Observations.from_frame(table).row_index.ids.tolist()
        ['ann', 'bob']
        """
        blanks = build.blank_weight(zeros, zero_weight)
        return cls(**build.from_table(frame, row, col, value, weight, time, duplicates, blanks))

    @classmethod
    def from_dense(
        cls, matrix: ArrayLike, *, weights: ArrayLike | None = None, row_ids: ArrayLike | None = None,
        col_ids: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Construct observations from a two-dimensional array in which NaN is missing.

        Parameters
        ----------
        matrix : array-like of shape (n_rows, n_cols)
        weights : array-like of the same shape, optional
        row_ids, col_ids : array-like, optional
            Distinct ids; positions by default.

        Returns
        -------
        Observations

        Examples
        --------
        >>> Observations.from_dense([[1.0, float("nan")], [2.0, 3.0]]).nnz
        3
        """
        return cls(**build.from_array(matrix, weights, row_ids, col_ids))

    @classmethod
    def from_sparse(
        cls, matrix: "sparse.sparray | sparse.spmatrix", *, zeros: Zeros = "missing", zero_weight: float = 1.0,
        weights: "sparse.sparray | sparse.spmatrix | None" = None, row_ids: ArrayLike | None = None,
        col_ids: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Construct observations from a scipy sparse matrix or array, whose stored cells (zeros included) are observed.

        Parameters
        ----------
        matrix : scipy sparse matrix or array
            Entries stored twice are summed, as in scipy.
        zeros, zero_weight
            See `from_coo`; ``zeros="observed"`` is for graphs, counts and implicit feedback.
        weights : scipy sparse matrix or array, optional
            Must store the same cells as `matrix`.
        row_ids, col_ids : array-like, optional
            Distinct ids; positions by default.

        Returns
        -------
        Observations

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
        cls, path: str | Path, row: str | None = None, col: str | None = None, value: str | None = None, *,
        weight: str | None = None, time: str | None = None, duplicates: Duplicates = "auto",
        zeros: Zeros = "missing", zero_weight: float = 1.0,
    ) -> Self:  # fmt: skip
        """Construct observations from a table (CSV, TSV, ``::``-separated, Parquet), a matrix (NPZ, NPY) or a store.

        Parameters
        ----------
        path : str or Path
            Plain, gzipped, or inside a .zip (``ratings.zip``, or ``ratings.zip/folder/ratings.dat`` to choose a
            member). The folder of a store is opened as by `open`.
        row, col, value, weight, time : str, optional
            Column names as in `from_frame`. Without a header line the columns are row, col, value and time.
        duplicates, zeros, zero_weight
            See `from_coo`.

        Returns
        -------
        Observations

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "ratings.csv")
        ...     _ = path.write_text("user,item,rating\\nann,7,4.5\\nbob,7,3\\n")
        ...     Observations.from_file(path)
        Observations(2 x 1, 2 observed (100%), values 3 to 4.5)
        """
        from accams.data import readers

        if store.is_store(Path(path)):
            named = any(name is not None for name in (row, col, value, weight, time))
            if named or (duplicates, zeros, zero_weight) != ("auto", "missing", 1.0):
                raise InputError(f"{path} is a store, with fixed columns, duplicates and zeros: pass its path only")
            return cls.open(path)
        blanks = build.blank_weight(zeros, zero_weight)
        return cls(**readers.read(Path(path), row, col, value, weight, time, duplicates, blanks))

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Open a store of `to_store` or ``accams ingest`` as memory-mapped files; it may exceed the memory.

        Parameters
        ----------
        path : str or Path
        trust : bool
            Skip the checksums and the scan of all entries, which are done once for the same files: only for a store
            that nobody else can have written or changed.

        Returns
        -------
        Observations

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Observations.from_dense([[1.0, 2.0]]).to_store(Path(folder, "ratings.store"))
        ...     Observations.open(Path(folder, "ratings.store"))
        Observations(1 x 2, 2 observed (100%), values 1 to 2)
        """
        return cls(**store.read(Path(path).resolve(), trust=trust))

    def select(self, chosen: NDArray[Any]) -> Self:
        """Return the entries with these positions (or this mask) in row order; shape and ids are kept.

        Parameters
        ----------
        chosen : array of int, or of bool

        Returns
        -------
        Observations
        """
        mask = np.zeros(self.nnz, dtype=bool)
        mask[chosen] = True
        if not mask.any():
            raise InputError("the selection leaves no observations")
        before = np.concatenate([[0], np.cumsum(mask)])
        arrays = {name: getattr(self, name) for name in ("cols", "stored_values", "stored_weights", "times")}
        selected: dict[str, Any] = {name: None if x is None else x[mask] for name, x in arrays.items()}
        return replace(self, row_starts=before[self.row_starts], **selected, _cache={})

    def split(self, held: NDArray[Any]) -> tuple[Self, Self]:
        """Split into (rest, selected) by positions in row order, or by a mask.

        The rest of a store is a temporary store beside it, removed when no longer in use.

        Parameters
        ----------
        held : array of int, or of bool
            Some of the entries, but not all.

        Returns
        -------
        rest, selected : Observations
        """
        held = np.unique(np.flatnonzero(held) if held.dtype == bool else held)
        if not 0 < len(held) < self.nnz or not 0 <= held[0] <= held[-1] < self.nnz:
            raise InputError(f"held must select some, but not all, of the positions 0 .. {self.nnz - 1}")
        if self.store is None or not holdout.can_split(self.store):
            mask = np.ones(self.nnz, dtype=bool)
            mask[held] = False
            return self.select(mask), self.select(~mask)
        rest, selected = holdout.split(self.store, held)
        ids = {"row_index": self.row_index, "col_index": self.col_index}
        return replace(self, **{**rest, **ids}), replace(self, **selected)

    def to_store(self, path: str | Path) -> None:
        """Write a store, to be opened by `open`; for files larger than memory use ``accams ingest``.

        Parameters
        ----------
        path : str or Path
            Folder to create.
        """
        if Path(path).exists():
            raise InputError(f"{path} already exists: remove it, or choose another path")
        store.save(Path(path), vars(self), self._by_column())
