"""Validate and sort entries, tables and matrices into the arrays of `Observations`."""

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.columns import Columns, as_table
from accams.data.ids import Index, example
from accams.data.weights import to_ticks, weight_step
from accams.errors import InputError, warn
from accams.threads import Range, Threads

Fields = dict[str, Any]
Entries = tuple[Any, Any, Any, Any, Any]  # rows, columns, values, weights and times; the last two may be None
Array = NDArray[Any]
Starts = NDArray[np.int64]
Ids = ArrayLike | None

THREADS = Threads()  # threads start on first use


def from_entries(
    rows: ArrayLike, cols: ArrayLike, values: ArrayLike, shape: tuple[int, int] | None, weights: ArrayLike | None,
    times: ArrayLike | None, duplicates: str, blanks: float | None, row_index: Index | None = None,
    col_index: Index | None = None,
) -> Fields:  # fmt: skip
    """Return the fields of `Observations` for positions and values in any order."""
    i, j = _positions(rows, "row"), _positions(cols, "column")
    x = numbers(values, "value")
    w = None if weights is None else numbers(weights, "weight")
    t = None if times is None else np.asarray(times)
    for name, other in (("columns", j), ("values", x), ("weights", w), ("times", t)):
        if other is not None and len(other) != len(i):
            raise InputError(f"there are {len(i):,} rows but {len(other):,} {name}; they must be of equal length")
    if len(i) == 0:
        raise InputError("there are no observations: the data is empty")
    check_duplicates(duplicates)
    _check_values(x, i, j, row_index, col_index)
    if w is not None:
        i, j, x, w, t = check_weights(i, j, x, w, t)
        if len(i) == 0:
            raise InputError("there are no observations: every weight is 0")
    m, n = _shape(shape, i, j, row_index, col_index)

    row_index = row_index or Index(None, m)
    col_index = col_index or Index(None, n)
    row_starts, order = _row_order(i, j, (m, n))
    i, j, x = i[order], j[order], x[order]
    w = None if w is None else w[order]
    t = None if t is None else t[order]
    entries = len(i)
    i, j, x, w, t = without_duplicates(i, j, x, w, t, duplicates, row_index, col_index)
    if len(i) < entries:
        row_starts = _starts(i, m)
        tell_of_duplicates(duplicates, entries - len(i), entries)
    blanks = None if len(j) == m * n else blanks  # without blanks they need no weight
    step = weight_step(x, w, blanks, m * n)
    return {
        "shape": (m, n), "row_starts": row_starts, "cols": j.astype(index_type(n), copy=False),
        "stored_values": narrow(x), "row_index": row_index, "col_index": col_index, "times": t, "blank_weight": blanks,
        "stored_weights": None if w is None else to_ticks(w, step), "weight_step": step,
    }  # fmt: skip


def check_duplicates(duplicates: str) -> None:
    if duplicates not in ("auto", "error", "mean", "last", "sum"):
        raise InputError(f"duplicates must be 'auto', 'error', 'mean', 'last' or 'sum', not {duplicates!r}")


def without_duplicates(
    i: Any, j: Any, x: Any, w: Any, t: Any, duplicates: str, row_index: Index, col_index: Index
) -> Entries:
    """Merge duplicate pairs of entries sorted by row and column, or raise if there are any."""
    again = np.flatnonzero((i[1:] == i[:-1]) & (j[1:] == j[:-1])) + 1
    if len(again) == 0:
        return i, j, x, w, t
    if duplicates == "error":
        p = again[0]
        raise InputError(
            f"row {example(row_index.ids[i[p] :])} and column {example(col_index.ids[j[p] :])} occur together more "
            f"than once (values {x[p - 1]:g} and {x[p]:g}; {len(again):,} duplicates in all); "
            "pass duplicates='mean', 'last' or 'sum' to Observations.from_frame, from_file or from_coo"
        )
    return _merge(i, j, x, w, t, again, duplicates)


def tell_of_duplicates(duplicates: str, n: int, entries: int) -> None:
    """Say how many observations repeated a pair, unless the user has said what to do with those."""
    if duplicates == "auto" and n:
        warn(
            f"{n:,} of {entries:,} observations repeat a row and column: repeated ones are averaged "
            "(duplicates='mean' does so silently, 'last' and 'sum' merge them otherwise, 'error' refuses them)"
        )


def from_table(
    frame: Any, row: str | None, col: str | None, value: str | None, weight: str | None, time: str | None,
    duplicates: str, blanks: float | None,
) -> Fields:  # fmt: skip
    """Return the fields of `Observations` for a DataFrame of any library, one observation per line."""
    table = as_table(frame)
    native = {str(name): name for name in table.columns}
    names = Columns.choose(list(native), row, col, value, weight, time, need_value=blanks is None)
    column = {key: table.get_column(native[name]).to_numpy() for key, name in names.used().items()}
    row_index, i = Index.of(column["row"], names.row)
    col_index, j = Index.of(column["col"], names.col)
    x = numbers(column["value"], names.value) if names.value else np.ones(len(i))
    more = column.get("weight"), column.get("time"), duplicates, blanks, row_index, col_index
    return from_entries(i, j, x, (len(row_index), len(col_index)), *more)


def from_array(matrix: ArrayLike, weights: ArrayLike | None, row_ids: Ids, col_ids: Ids) -> Fields:
    """Return the fields of `Observations` for a two-dimensional array in which NaN is missing."""
    if hasattr(matrix, "tocoo"):
        raise InputError("from_dense takes a dense array; for a scipy sparse matrix use from_sparse")
    if isinstance(matrix, np.ma.MaskedArray):
        matrix = np.where(np.ma.getmaskarray(matrix), np.nan, matrix.data)
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise InputError("from_dense takes a two-dimensional array, but the rows differ in length") from None
    if array.dtype.kind not in "fiub":
        array = numbers(array.ravel(), "value", missing=True).reshape(array.shape)
    if array.ndim != 2:
        raise InputError(
            f"from_dense takes a two-dimensional array, not one of shape {array.shape}; "
            "for pairs and values use from_coo"
        )
    if array.size == 0:
        raise InputError(f"there are no observations: the array has shape {array.shape}")
    observed = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(array.shape, dtype=bool)
    if not observed.any():
        raise InputError("there are no observations: every cell is NaN")
    i, j = np.nonzero(observed)
    w = None
    if weights is not None:
        w = numbers(np.asarray(weights).ravel(), "weight").reshape(np.shape(weights))
        if w.shape != array.shape:
            raise InputError(f"weights have shape {w.shape} but the matrix has {array.shape}")
        w = w[observed]
    indices = _axis_index(array.shape[0], row_ids, "row"), _axis_index(array.shape[1], col_ids, "column")
    return from_entries(i, j, array[observed], array.shape, w, None, "error", None, *indices)


def from_scipy(matrix: Any, blanks: float | None, weights: Any, row_ids: Ids, col_ids: Ids) -> Fields:
    """Return the fields of `Observations` for a scipy sparse matrix or array."""
    from scipy import sparse

    if not sparse.issparse(matrix):
        raise InputError(f"from_sparse takes a scipy sparse matrix, not {type(matrix).__name__}; use from_dense")
    if matrix.ndim != 2:
        raise InputError(f"from_sparse takes a two-dimensional matrix, not one of shape {matrix.shape}")
    check_sparse(matrix)
    coo = matrix.tocoo()
    w = None
    if weights is not None:
        if sparse.issparse(weights):
            check_sparse(weights)
        given, pattern = sparse.csr_array(weights, copy=True), sparse.csr_array(matrix, copy=True)
        given.sum_duplicates()
        pattern.sum_duplicates()
        same = given.shape == pattern.shape and np.array_equal(given.indptr, pattern.indptr)
        if not same or not np.array_equal(given.indices, pattern.indices):
            raise InputError("weights must store exactly the cells that the matrix stores")
        coo, w = pattern.tocoo(), given.data
    indices = _axis_index(coo.shape[0], row_ids, "row"), _axis_index(coo.shape[1], col_ids, "column")
    return from_entries(coo.row, coo.col, coo.data, coo.shape, w, None, "sum", blanks, *indices)


def check_sparse(matrix: Any) -> None:
    """Raise if positions of a scipy matrix lie outside of it: scipy's own kernels have no bounds checks."""
    if matrix.dtype.kind not in "biuf" or matrix.dtype == np.float16:  # which scipy cannot convert
        raise InputError(f"the sparse matrix holds {matrix.dtype}, not integers or floats of 32 or 64 bits")
    if hasattr(matrix, "check_format"):
        starts, most = matrix.indptr, min(len(matrix.indices), len(matrix.data))
        if not (starts.size and starts[0] == 0 and starts[-1] <= most and (np.diff(starts) >= 0).all()):
            # scipy checks nothing where the last is not positive
            raise InputError("the sparse matrix is damaged: its index pointers do not ascend to its last entry")
        try:
            matrix.check_format(full_check=True)
        except (ValueError, IndexError, TypeError) as error:
            raise InputError(f"the sparse matrix is damaged: {error}") from None


def blank_weight(zeros: str, zero_weight: float) -> float | None:
    """Return the weight of a blank cell, or None where blanks are missing."""
    if zeros not in ("missing", "observed"):
        raise InputError(f"zeros must be 'missing' or 'observed', not {zeros!r}")
    if zeros == "missing":
        return None
    if not isinstance(zero_weight, Real) or not (np.isfinite(zero_weight) and zero_weight > 0):
        raise InputError(f"zero_weight must be positive, not {zero_weight!r}; to ignore blanks pass zeros='missing'")
    return float(zero_weight)


def index_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest index type for positions below `size`."""
    return np.uint16 if size <= 2**16 else np.uint32 if size <= 2**32 else np.uint64


def narrow(x: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
    """Cast to the narrowest float type whose rounding is below the grid of fitting (2^-22 of the range)."""
    return x.astype(narrowest(lambda: [x]), copy=False)


def narrowest(pieces: Callable[[], Iterable[NDArray[np.float64]]]) -> type[np.floating[Any]]:
    """Return the type of `narrow` for a vector in pieces; `pieces` is called once per pass."""
    low, high = np.inf, -np.inf
    for x in pieces():
        low, high = min(low, float(x.min())), max(high, float(x.max()))
    allowed = high * 2.0**-24 - low * 2.0**-24
    for dtype, most in ((np.float16, 0.0), (np.float32, allowed)):
        with np.errstate(over="ignore"):
            if all(np.all(np.abs(x.astype(dtype).astype(np.float64) - x) <= most) for x in pieces()):
                return dtype
    return np.float64


def numbers(raw: ArrayLike, name: str, missing: bool = False) -> NDArray[np.float64]:
    """Convert to double precision; the error names the first entry that is not a number."""
    array = np.asarray(raw)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: the {name}s must be real numbers")
    if array.dtype.kind in "mM":
        raise InputError(f"the {name}s are times, not numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    for position, x in enumerate(array.tolist()):
        if missing and x is None:
            continue
        try:
            float(x)
        except (TypeError, ValueError):
            what = "is missing" if x is None or type(x).__name__ == "NAType" else f"{x!r} is not a number"
            raise InputError(f"entry {position}: {name} {what}") from None
    return np.array([np.nan if x is None else float(x) for x in array.tolist()])


def _positions(raw: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(raw)
    if array.ndim != 1:
        raise InputError(f"{name} positions must be one-dimensional, not an array of shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        wrong = f"{name} positions must be nonnegative integers, not {array.dtype}"
        raise InputError(f"{wrong}; for ids of other types use from_frame")
    if array.size and int(array.min()) < 0:
        raise InputError(f"{name} positions must be nonnegative, not {int(array.min())}")
    return array if array.dtype != np.uint64 else array.astype(np.int64)


def _check_values(x: Array, i: Array, j: Array, row_index: Index | None, col_index: Index | None) -> None:
    bad = ~np.isfinite(x)
    if bad.any():
        p = int(np.argmax(bad))
        what = "is missing (NaN): remove the entry" if np.isnan(x[p]) else f"is {x[p]}: values must be finite"
        row = f"position {i[p]}" if row_index is None else example(row_index.ids[i[p] :])
        col = f"position {j[p]}" if col_index is None else example(col_index.ids[j[p] :])
        raise InputError(f"the value at row {row}, column {col} {what}")


def check_weights(i: Any, j: Any, x: Any, w: NDArray[np.float64], t: Any) -> Entries:
    """Validate weights, and drop entries of weight 0."""
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        p = int(np.argmax(bad))
        raise InputError(f"entry {p}: weight {w[p]} must be finite and nonnegative")
    keep = w > 0
    if keep.all():
        return i, j, x, w, t
    return i[keep], j[keep], x[keep], w[keep], None if t is None else t[keep]


def _shape(
    shape: tuple[int, int] | None, i: NDArray[Any], j: NDArray[Any], row_index: Index | None, col_index: Index | None
) -> tuple[int, int]:
    needed = int(i.max()) + 1, int(j.max()) + 1
    indices = row_index, col_index
    sizes = [size if ids is None else len(ids) for size, ids in zip(needed, indices, strict=True)]
    m, n = sizes if shape is None else (int(shape[0]), int(shape[1]))
    for size, index, name in ((m, row_index, "row"), (n, col_index, "column")):
        if index is not None and len(index) != size:
            raise InputError(f"there are {len(index)} {name} ids for {size} {name}s")
    if needed[0] > m or needed[1] > n:
        raise InputError(
            f"the shape is {m} x {n}, but row position {needed[0] - 1} and column position {needed[1] - 1} occur: "
            "did you swap rows and columns?"
        )
    return m, n


def _row_order(i: NDArray[Any], j: NDArray[Any], shape: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the starts of the rows and the stable order of the entries by (row, column)."""
    from accams.kernels import order as kernels

    row_starts = _starts(i, shape[0])
    step_i, step_j = np.diff(i.astype(np.int64, copy=False)), np.diff(j.astype(np.int64, copy=False))
    if np.all((step_i > 0) | ((step_i == 0) & (step_j >= 0))):
        return row_starts, np.arange(len(i))
    kind: type[np.integer[Any]] = np.uint32 if len(i) < 2**32 else np.int64
    by_col, by_row = np.empty(len(i), dtype=kind), np.empty(len(i), dtype=kind)
    kernels.stable_order(j, np.arange(len(i), dtype=kind), _starts(j, shape[1])[:-1].copy(), by_col)
    kernels.stable_order(i, by_col, row_starts[:-1].copy(), by_row)
    return row_starts, by_row


def _starts(keys: NDArray[Any], size: int) -> NDArray[np.int64]:
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=size), out=starts[1:])
    return starts


def _merge(i: Any, j: Any, x: Any, w: Any, t: Any, again: NDArray[np.int64], duplicates: str) -> Entries:
    """Merge runs of equal pairs; `again` lists the entries that repeat the one before."""
    first = np.ones(len(i), dtype=bool)
    first[again] = False
    heads = np.flatnonzero(first)
    lasts = np.concatenate([heads[1:], [len(i)]]) - 1
    if duplicates == "last":
        return i[lasts], j[lasts], x[lasts], None if w is None else w[lasts], None if t is None else t[lasts]
    if w is None or duplicates == "sum":
        merged = np.add.reduceat(x, heads)
        merged = merged if duplicates == "sum" else merged / (lasts - heads + 1)
        weight = None if w is None else np.add.reduceat(w, heads) / (lasts - heads + 1)
    else:
        weight = np.add.reduceat(w, heads)
        merged = np.add.reduceat(w * x, heads) / weight
    return i[heads], j[heads], merged, weight, None if t is None else t[lasts]


def _axis_index(size: int, ids: Ids, name: str) -> Index | None:
    index = None if ids is None else Index(ids)
    if index is not None and len(index) != size:
        raise InputError(f"there are {len(index)} {name} ids for {size} {name}s")
    if index is not None and len(set(index.ids.tolist())) != size:
        raise InputError(f"the {name} ids are not distinct")
    return index


def column_order(
    row_starts: Starts, cols: Array, n_cols: int, kind: Any, threads: Threads = THREADS
) -> tuple[Starts, Array]:
    """Return starts and rows (of type `kind`) of the same entries sorted by column."""
    from accams.kernels import order as kernels

    ranges, slots, starts = _slots(row_starts, cols, n_cols, threads)
    rows = np.empty(len(cols), kind)
    _run(threads, kernels.transpose_pattern, ranges, slots, row_starts, cols, rows)
    return starts, rows


def to_column_order(row_starts: Starts, cols: Array, n_cols: int, by_row: Array, threads: Threads = THREADS) -> Array:
    """Reorder one number per entry from row order to column order."""
    from accams.kernels import order as kernels

    ranges, slots, _ = _slots(row_starts, cols, n_cols, threads)
    out = np.empty(len(by_row), by_row.dtype)
    bits = f"u{by_row.dtype.itemsize}"  # numba has no float16: move the bits
    _run(threads, kernels.transpose_values, ranges, slots, row_starts, cols, by_row.view(bits), out.view(bits))
    return out


def _slots(row_starts: Starts, cols: Array, n_cols: int, threads: Threads) -> tuple[list[Range], list[Starts], Starts]:
    """Return ranges of rows, the first slot of each column for each range, and the starts of the columns.

    Each thread moves the entries of a range of rows, to slots of its own in every column.
    """
    from accams.kernels import order as kernels

    rows, entries = len(row_starts) - 1, len(cols)
    parts = max(1, min(threads.n_threads, entries // (4 * n_cols + 1), rows))
    inner = np.searchsorted(row_starts, np.linspace(0, entries, parts + 1)[1:-1])
    ranges = [(int(a), int(b)) for a, b in pairwise([0, *inner, rows])]
    counts = [np.zeros(n_cols, np.int64) for _ in ranges]
    _run(threads, kernels.count_columns, ranges, counts, row_starts, cols)
    starts = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0, dtype=np.int64))])
    slots = [slot.copy() for slot in accumulate(counts[:-1], initial=starts[:-1])]
    return ranges, slots, starts


def _run(threads: Threads, kernel: Any, ranges: list[Range], buffers: list[Starts], *args: Any) -> None:
    """Call ``kernel(lo, hi, buffer, *args)`` for every range with its buffer."""
    buffer_of = dict(zip(ranges, buffers, strict=True))
    threads.map(lambda lo, hi: kernel(lo, hi, buffer_of[lo, hi], *args), ranges)
