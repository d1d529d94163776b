"""Convert the input of `fit` and `predict` to observations and ids."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.build import numbers
from accams.data.columns import Columns, as_table, recognised
from accams.data.ids import Index, example
from accams.data.observations import Observations
from accams.errors import InputError, NoValuesError, warn

MATRIX_HINT = "a matrix goes to fit without y"
INT64 = np.iinfo(np.int64)


def observations_of(X: Any, y: ArrayLike | None = None, sample_weight: Any = None) -> Observations:
    """Return observations from any input of `fit`.

    That is Observations; with `y`, pairs of ids and their values; without, a DataFrame of observations or of cells, a
    scipy sparse matrix (unstored is missing) or an array (NaN is missing).
    """
    if isinstance(X, Observations):
        if y is not None or sample_weight is not None:
            raise InputError("Observations already hold values and weights: pass no y and no sample_weight")
        return X
    if y is not None:
        return _from_pairs(X, y, sample_weight)
    if is_sparse(X):
        if sample_weight is not None and not is_sparse(sample_weight):
            raise InputError("the weights of a sparse matrix must be a sparse matrix of the same cells")
        return Observations.from_sparse(X, weights=sample_weight)
    if is_frame(X):
        return _from_frame(X, sample_weight)
    if isinstance(X, (str, Path)):
        raise InputError(f"fit takes data, not a path: read it first, Observations.from_file({str(X)!r})")
    array = X if isinstance(X, np.ndarray) else _array(X)
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {_dimensions(array)} instead: fit takes a matrix "
            "(NaN is missing), or pairs of ids and their values y. "
            "Reshape your data if it is a single row: X.reshape(1, -1)"
        )
    return Observations.from_dense(array, weights=sample_weight)


class Choices(NamedTuple):
    """Who chose what; `valued` is False for a table without values, which holds likes."""

    observations: Observations
    valued: bool = True


def choices_of(X: Any, y: ArrayLike | None = None, sample_weight: Any = None) -> Choices:
    """Return who chose what, from any input of `fit`; a table without a column of values holds likes."""
    if isinstance(X, Choices):
        return X
    if y is None and sample_weight is None and is_frame(X):
        table = as_table(X)
        if (
            recognised(table.columns)
            and Columns.choose(table.columns, None, None, None, need_value=False).value is None
        ):
            return Choices(Observations.from_frame(table, zeros="observed", duplicates="mean"), False)
    return Choices(observations_of(X, y, sample_weight))


def read_choices(path: str | Path, **reading: Any) -> Choices:
    """Read who chose what from a file; a table without a column of values holds likes."""
    try:
        return Choices(Observations.from_file(path, **reading))
    except NoValuesError:
        return Choices(Observations.from_file(path, **{**reading, "zeros": "observed", "duplicates": "mean"}), False)


def pairs_of(pairs: Any, names: Sequence[Any] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return row ids and column ids from an n x 2 array, a list of pairs, a DataFrame or Observations.

    `names` are the columns of a DataFrame that held them when the model was fitted, if any.
    """
    if isinstance(pairs, Observations):
        rows, cols, _ = pairs.coo()
        return pairs.row_index.ids[rows], pairs.col_index.ids[cols]
    if is_frame(pairs):
        table = as_table(pairs)
        row, col = pair_columns(table.columns, names)
        return table.get_column(row).to_numpy(), table.get_column(col).to_numpy()
    if is_sparse(pairs):
        raise InputError(f"Sparse data was passed where pairs are needed (n x 2: row id, column id); {MATRIX_HINT}")
    if isinstance(pairs, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs):
        return _column([p[0] for p in pairs]), _column([p[1] for p in pairs])
    array = _array(pairs)
    if array.ndim == 1 and array.size == 2 and not isinstance(pairs, np.ndarray):
        return _column([pairs[0]]), _column([pairs[1]])
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: ids are integers, text or dates")
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array of pairs (n x 2: row id, column id), got {_dimensions(array)} instead. "
            "Reshape your data if it is a single pair: [[row, column]]"
        )
    n, shape = array.shape[1], f"(shape={array.shape})"
    if n != 2:
        what = f"{n} {shape}" if n > 2 else f"{n} feature(s) {shape} while a minimum of 2 is required"  # scikit-learn's
        raise InputError(f"pairs must have two columns (row id, column id), but X has {what}; {MATRIX_HINT}")
    return array[:, 0], array[:, 1]


def pair_columns(columns: Sequence[Any], names: Sequence[Any] | None = None) -> tuple[Any, Any]:
    """Return the columns of row ids and column ids: `names`, those with usual names, or the only two."""
    if names is not None and all(name in columns for name in names):
        return names[0], names[1]
    if recognised(columns):
        chosen = Columns.choose(columns, None, None, None, need_value=False)
        return chosen.row, chosen.col
    if len(columns) != 2:
        raise InputError(
            "pairs must have two columns, one of row ids and one of column ids, but the columns are "
            f"{', '.join(repr(name) for name in columns[:12])}; {MATRIX_HINT}"
        )
    return columns[0], columns[1]


def pair_names(X: Any, y: ArrayLike | None) -> NDArray[Any] | None:
    """Return the columns of row ids and column ids, where X is a table of pairs or of observations."""
    if not is_frame(X):
        return None
    columns = as_table(X).columns
    if y is None and not recognised(columns):
        return None
    names = pair_columns(columns)
    return np.array(names, dtype=object) if all(isinstance(name, str) for name in names) else None


def values_of(raw: ArrayLike, name: str, size: int) -> NDArray[np.float64]:
    """Return `raw` as one column of `size` numbers."""
    array = np.asarray(raw)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} must be one column of values, not an array of shape {array.shape}")
    if len(array) != size:
        raise InputError(f"there are {size:,} pairs but {len(array):,} values in {name}")
    return numbers(array, f"{name} value")


def weights_of(raw: ArrayLike | None, size: int) -> NDArray[np.float64] | None:
    """Return one weight per pair, or None."""
    if raw is None:
        return None
    weights = values_of(raw, "sample_weight", size)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError("sample_weight must be finite and not negative")
    if size and not weights.any():
        raise InputError("every sample_weight is zero: at least one must count")
    return weights


def positions(index: Index, raw: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each id; -1 for an unknown one."""
    with usable_ids():
        return index.find(raw)


def known_positions(
    row_index: Index, col_index: Index, rows: NDArray[Any], cols: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions of pairs of ids, -1 for unknown ones; refuse pairs known only if swapped, warn if none is."""
    i, j = positions(row_index, rows), positions(col_index, cols)
    if len(i) == 0 or (i >= 0).any() or (j >= 0).any():
        return i, j
    if (positions(row_index, cols) >= 0).any() and (positions(col_index, rows) >= 0).any():
        raise InputError(
            "none of these pairs is known, but they are if swapped: pass (row id, column id); rows are users"
        )
    warn(
        f"none of these ids was seen in training: the model's row ids look like {example(row_index.ids)} and "
        f"its column ids like {example(col_index.ids)}, but these like {example(rows)} and {example(cols)}"
    )
    return i, j


def ids_of_frame(frame: Any, name: str) -> NDArray[Any]:
    """Return the column of ids: the one called `name`, or the only one."""
    table = as_table(frame)
    if name not in table.columns and len(table.columns) > 1:
        raise InputError(f"the table has no column {name!r}: pass the ids alone, or a table with that column")
    return np.asarray(table.get_column(name if name in table.columns else table.columns[0]).to_numpy())


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns."""
    return not isinstance(X, np.ndarray) and hasattr(type(X), "columns")


def _from_pairs(X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Observations:
    rows, cols = pairs_of(X)
    values = values_of(y, "y", len(rows))
    weights = weights_of(sample_weight, len(rows))
    with usable_ids():
        row_index, i = Index.of(rows, "row id")
        col_index, j = Index.of(cols, "column id")
    return Observations.from_coo(i, j, values, weights=weights, row_index=row_index, col_index=col_index)


def _from_frame(X: Any, sample_weight: ArrayLike | None) -> Observations:
    table = as_table(X)
    if recognised(table.columns):
        if sample_weight is not None:
            raise InputError("give the weights as a column: Observations.from_frame(table, weight='...')")
        return Observations.from_frame(table)
    columns = [np.asarray(table.get_column(name).to_numpy()) for name in table.columns]
    for name, column in zip(table.columns, columns, strict=True):
        if column.dtype.kind not in "fiub":
            raise InputError(
                f"column {name!r} of the matrix is not numeric; for a table of observations name its "
                "columns: Observations.from_frame(table, row=..., col=..., value=...)"
            )
    matrix = np.stack([c.astype(np.float64) for c in columns], axis=1) if columns else np.zeros((0, 0))
    row_ids = np.asarray(X.index) if hasattr(X, "index") and hasattr(X, "iloc") else None
    return Observations.from_dense(matrix, weights=sample_weight, row_ids=row_ids, col_ids=list(table.columns))


@contextmanager
def usable_ids() -> Iterator[None]:
    try:
        yield
    except TypeError as error:  # unhashable: lists, dicts
        raise InputError(f"ids must be numbers, text, dates or the like ({error})") from None


def _array(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError:
        raise InputError("Expected 2D array, but the rows are not equally long") from None


def _dimensions(array: NDArray[Any]) -> str:
    return f"{array.ndim}D array" if array.ndim else "scalar array"


def _column(items: list[Any]) -> NDArray[Any]:
    """Return ids as an array; of objects where NumPy would change them or take them apart."""

    def plain(x: Any) -> bool:
        return isinstance(x, (float, np.number)) or (isinstance(x, int) and abs(x) <= INT64.max)

    return np.asarray(items) if all(map(plain, items)) else np.fromiter(items, dtype=object, count=len(items))


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix, or works like one."""
    return hasattr(X, "tocoo") and hasattr(X, "shape")
