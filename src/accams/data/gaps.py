"""Matrices with gaps: arrays and DataFrames in, the same kind with gaps filled out."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.columns import as_table
from accams.data.inputs import is_frame, is_sparse
from accams.errors import InputError

Floats = NDArray[np.float64]
LARGEST = 1e100  # whose squares and products are finite
ROWS_AT_ONCE = 1 << 14
FEW = 20  # different values of a column of floats that may be a scale of integers
TIMES = "make numbers of it, such as days since the first, or drop it"
ADVICE = "encode it (OrdinalEncoder or OneHotEncoder of scikit-learn) or drop it"


class NotNumbersError(InputError, TypeError):
    """Cells that are not numbers; a TypeError too, as scikit-learn has it."""


@dataclass(frozen=True)
class Gaps:
    """A matrix with gaps.

    Attributes
    ----------
    values : array (row, column) of floats
        NaN is missing.
    dtype : dtype or None
        Of the array it came from; None for a DataFrame.
    integers : array or None
        That array where it holds integers, some of which double precision may not.
    frame : object
        The DataFrame it came from, wrapped by narwhals, or None.
    """

    values: NDArray[np.floating]
    dtype: Any = None
    integers: Any = None
    frame: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def integral(self) -> NDArray[np.bool_]:
        """Which columns are integers or booleans by their type."""
        if self.frame is not None:
            types = [self.frame.get_column(name).dtype for name in self.frame.columns]
            return np.array([kind.is_integer() or kind == _narwhals().Boolean for kind in types], np.bool_)
        return np.full(self.shape[1], self.dtype is not None and self.dtype.kind in "iub")

    def block(self, lo: int, hi: int) -> Floats:
        """Return some of the rows in double precision."""
        return np.asarray(self.values[lo:hi], np.float64)

    def filled(self, columns: NDArray[np.int64], full: NDArray[np.floating], flags: "Flags | None" = None) -> Any:
        """Return these columns with their gaps filled from `full` (row, one of the columns), in the kind that came in.

        Known cells stay as they are. `flags` are columns of what was missing that are put behind.
        """
        if self.frame is not None:
            return self._filled_frame(columns, full, flags)
        if self.integers is None:
            made = full.astype(self.dtype, copy=False)
        else:
            made, gone = self.integers[:, columns], np.isnan(self.values[:, columns])
            made[gone] = _whole(full[gone], self.dtype)
        return made if flags is None else np.concatenate([made, flags.values.astype(self.dtype)], axis=1)

    def _filled_frame(self, columns: NDArray[np.int64], full: NDArray[np.floating], flags: "Flags | None") -> Any:
        names, made = self.frame.columns, list[Any]()
        for p, j in enumerate(columns.tolist()):
            column, gaps = self.frame.get_column(names[j]), np.flatnonzero(np.isnan(self.values[:, j]))
            made.append(_with_cells(column, gaps, full[gaps, p]) if len(gaps) else column)
        chosen = self.frame.select(made) if made else self.frame.select([])
        if flags is not None:
            both = set(flags.names) & set(chosen.columns)
            if both:
                raise InputError(f"add_indicator adds a column {min(both)!r}, and there is one of this name: rename it")
            series = [
                _series_like(self.frame.get_column(names[0]), name, flag)
                for name, flag in zip(flags.names, flags.values.T, strict=True)
            ]
            chosen = chosen.with_columns(series)
        return chosen.to_native()


@dataclass(frozen=True)
class Flags:
    """Columns that tell which cells were missing."""

    names: list[str]
    values: NDArray[np.bool_]


def gaps_of(X: Any, missing: float = np.nan) -> Gaps:
    """Return a matrix with gaps from an array or a DataFrame: NaN, null and cells equal to `missing` are missing."""
    if is_sparse(X):
        raise InputError("sparse data is not supported: the imputer takes arrays and DataFrames, see BayesianACCAMS")
    gaps = _of_frame(X, missing) if is_frame(X) else _of_array(X, missing)
    rows, columns = gaps.shape
    if columns == 0 or rows == 0:
        what, count = ("feature", columns) if columns == 0 else ("sample", rows)
        raise InputError(f"Found array with {count} {what}(s) (shape={gaps.shape}) while a minimum of 1 is required.")
    for lo in range(0, rows, ROWS_AT_ONCE):
        _check_finite(gaps, lo, gaps.values[lo : lo + ROWS_AT_ONCE])
    return gaps


def whole_columns(gaps: Gaps, floats: bool = True) -> NDArray[np.bool_]:
    """Return which columns hold integers: by their type, or few different `floats` that are all whole numbers."""
    whole = gaps.integral
    for j in np.flatnonzero(~whole) if floats else []:
        head = np.asarray(gaps.values[:ROWS_AT_ONCE, j], np.float64)
        if not _all_whole(head):
            continue
        known = np.asarray(gaps.values[:, j], np.float64)
        whole[j] = _all_whole(known) and 2 <= len(np.unique(known[~np.isnan(known)])) <= FEW
    return whole


def _all_whole(values: Floats) -> bool:
    return bool((np.isnan(values) | (values == np.rint(values))).all())


def _check_finite(gaps: Gaps, lo: int, part: NDArray[np.floating]) -> None:
    """Raise InputError for infinities and for what squares would make infinite."""
    with np.errstate(invalid="ignore"):
        wrong = np.abs(part) > min(LARGEST, float(np.finfo(part.dtype).max))
    if wrong.any():
        i, j = (int(x[0]) for x in np.nonzero(wrong))
        name = j if gaps.frame is None else gaps.frame.columns[j]
        what = "infinity" if np.isinf(part[i, j]) else f"a value beyond {LARGEST:g}"
        raise InputError(f"column {name!r} has {what} in row {lo + i} (inf is not missing: set it to NaN)")


def _of_array(X: Any, missing: float) -> Gaps:
    masked = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    try:
        array = np.asarray(X)
    except ValueError:
        raise InputError("Expected 2D array, but the rows are not equally long") from None
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: impute real and imaginary parts as columns of their own")
    if array.ndim != 2:
        kind = f"{array.ndim}D" if array.ndim else "scalar"
        raise InputError(
            f"Expected 2D array, got {kind} array instead. Reshape your data: X.reshape(-1, 1) if it has a single "
            "feature, X.reshape(1, -1) if it is a single sample"
        )
    if array.dtype.kind not in "fiub":
        array = _numbers(array)
    dtype = array.dtype if array.dtype.kind != "f" or array.dtype.itemsize <= 8 else np.dtype(np.float64)
    values = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    if not np.isnan(missing):
        values = np.where(array == missing, np.nan, values)
    if masked is not None:
        values = np.where(masked, np.nan, values)
    return Gaps(values, dtype, array if array.dtype.kind in "iub" else None)


def _numbers(array: NDArray[Any]) -> Floats:
    """Return an array of objects as numbers, with None and pandas.NA missing."""
    if array.dtype.kind != "O":
        advice = TIMES if array.dtype.kind in "mM" else ADVICE
        raise InputError(f"the array holds {array.dtype}, not numbers: {advice.replace('it ', 'its columns ', 1)}")
    cells = [np.nan if _is_null(x) else x for x in array.ravel()]
    wrong = next((x for x in cells if not _is_number(x)), None)
    if wrong is not None:
        raise NotNumbersError(
            f"the array holds objects that are not numbers, such as {wrong!r}: the argument must be free of strings, "
            "with numbers and None alone"
        )
    return np.array([float(x) for x in cells]).reshape(array.shape)


def _is_number(x: Any) -> bool:
    return hasattr(x, "__float__") and not isinstance(x, (complex, np.complexfloating, np.ndarray))


def _is_null(x: Any) -> bool:
    return x is None or type(x).__name__ in ("NAType", "NaTType")


def _of_frame(X: Any, missing: float) -> Gaps:
    frame = as_table(X)
    columns = [_cells(name, frame.get_column(name), missing) for name in frame.columns]
    values = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
    return Gaps(values, frame=frame)


def _cells(name: Any, column: Any, missing: float) -> Floats:
    """Return a column of a DataFrame as floats, with NaN where it has none or what is `missing`."""
    values = _numbers_of(name, column)
    if not np.isnan(missing):
        single = column.dtype == _narwhals().Float32
        values = np.where(values == (float(np.float32(missing)) if single else missing), np.nan, values)
    return values


def _numbers_of(name: Any, column: Any) -> Floats:
    nw, kind = _narwhals(), column.dtype
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    if kind == nw.Object:
        return _of_objects(name, column)
    if not (kind.is_numeric() or kind == nw.Boolean):
        what, advice = kind, TIMES if kind.is_temporal() else ADVICE
        if kind == nw.Unknown:  # of pandas: sparse or complex numbers, periods, intervals
            what = column.to_native().dtype
            advice = "call X.sparse.to_dense()" if "Sparse" in str(what) else ADVICE
        raise InputError(f"column {name!r} holds {what}, not numbers: {advice}")
    values = column.cast(nw.Float64).to_numpy()
    return np.asarray(values, np.float64)


def _of_objects(name: Any, column: Any) -> Floats:
    """Return a column of Python objects that are all numbers or missing."""
    cells = [np.nan if _is_null(x) else x for x in column.to_list()]
    if not all(map(_is_number, cells)):
        raise InputError(f"column {name!r} holds objects that are not numbers: {ADVICE}")
    return np.array([float(x) for x in cells])


def _with_cells(column: Any, gaps: NDArray[np.int64], values: Floats) -> Any:
    """Return a column with other values in some cells, of its own type."""
    nw, kind = _narwhals(), column.dtype
    if column.null_count() == len(column) and not (kind.is_numeric() or kind == nw.Boolean):
        return _series_like(column, column.name, values)
    if kind == nw.Boolean:
        cells: NDArray[Any] = values > 0.5
    elif kind.is_integer():
        width = int("".join(filter(str.isdigit, str(kind))))
        cells = _whole(values, np.dtype(f"{'u' if kind.is_unsigned_integer() else ''}int{min(width, 64)}"))
    elif kind == nw.Object:
        cells = _objects_like(column.to_list(), values)
    else:
        cells = values.astype(np.float32) if kind == nw.Float32 else values
    implementation = column.implementation
    if implementation.is_pyarrow():  # which converts nothing by itself
        return column.scatter(gaps, nw.new_series(column.name, cells, backend=implementation).cast(kind))
    if implementation.is_pandas_like():
        native = column.to_native()
        cells = cells.astype(native.dtype) if native.dtype == np.float16 else cells
    return column.scatter(gaps, cells)


def _series_like(column: Any, name: str, values: NDArray[Any]) -> Any:
    """Return a series of other values beside a column, whatever its index."""
    nw = _narwhals()
    made = nw.new_series(name, values, backend=column.implementation)
    if column.implementation.is_pandas_like():
        made = nw.from_native(made.to_native().set_axis(column.to_native().index), series_only=True)
    return made


def _whole(values: Floats, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values rounded to integers of a type, or the nearest it has."""
    if dtype.kind == "b":
        return np.asarray(values > 0.5)
    info = np.iinfo(dtype)
    high = float(info.max) if int(float(info.max)) <= info.max else float(np.nextafter(float(info.max), 0.0))
    return np.asarray(np.clip(np.rint(values), float(info.min), high).astype(dtype))


def _objects_like(cells: list[Any], values: Floats) -> NDArray[Any]:
    """Return values as the kind of Python objects that a column holds: booleans, integers, decimals or floats."""
    known = [x for x in cells if not _is_null(x) and x == x]
    if known and all(isinstance(x, (bool, np.bool_)) for x in known):
        return np.asarray(values > 0.5, object)
    if known and all(isinstance(x, (int, np.integer)) for x in known):
        return np.array([int(x) for x in np.rint(values)] + [None], object)[:-1]
    if known and all(isinstance(x, Decimal) for x in known):
        return np.array([Decimal(repr(x)) for x in values.tolist()] + [None], object)[:-1]
    return np.asarray(values, object)


def _narwhals() -> Any:
    import narwhals.stable.v1 as nw

    return nw
