"""Read matrices and entries from NumPy files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import build
from accams.data.archives import DataFile
from accams.data.columns import Columns
from accams.data.ids import Index
from accams.errors import InputError


def read(file: DataFile, asked: dict[str, str | None], duplicates: str, blanks: float | None) -> build.Fields:
    """Return the fields of `Observations` for a sparse or dense matrix, or for arrays of rows, columns, values."""
    arrays = _load(file)
    if "format" in arrays and "shape" in arrays:
        _no_names(file, asked)
        return build.from_scipy(_sparse(file), blanks, None, None, None)
    if len(arrays) == 1:
        (matrix,) = arrays.values()
        _no_names(file, asked)
        if blanks is not None:
            raise InputError(
                f"{file.name} holds a dense matrix, in which every cell but NaN is observed: "
                "do not pass zeros='observed', or save a sparse matrix"
            )
        if matrix.ndim != 2:
            raise InputError(f"{file.name} holds an array of shape {matrix.shape}; a matrix has two dimensions")
        return build.from_array(matrix, None, None, None)
    return _entries(file, arrays, asked, duplicates, blanks)


def _entries(
    file: DataFile, arrays: dict[str, NDArray[Any]], asked: dict[str, str | None], duplicates: str,
    blanks: float | None,
) -> build.Fields:  # fmt: skip
    """Return the fields for one array per role; ids are positions if there is an array ``shape``."""
    names = Columns.choose([n for n in arrays if n != "shape"], **asked, need_value=blanks is None)
    column = {role: arrays[name] for role, name in names.used().items()}
    lengths = {name: arrays[name].shape for name in names.used().values()}
    if len(set(lengths.values())) > 1 or any(array.ndim != 1 for array in column.values()):
        shown = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise InputError(f"{file.name}: the arrays must be one-dimensional and of equal length, not {shown}")
    values = column["value"] if "value" in column else np.ones(len(column["row"]))
    rest = (column.get("weight"), column.get("time"), duplicates, blanks)
    if "shape" in arrays:
        m, n = (int(size) for size in arrays["shape"])
        return build.from_entries(column["row"], column["col"], values, (m, n), *rest)
    row_index, i = Index.of(column["row"], names.row)
    col_index, j = Index.of(column["col"], names.col)
    values = build.numbers(values, names.value or "value")
    return build.from_entries(i, j, values, None, *rest, row_index, col_index)


def _load(file: DataFile) -> dict[str, NDArray[Any]]:
    """Load all arrays by name, without unpickling."""
    try:
        loaded = np.load(file.path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"matrix": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except MemoryError:
        raise InputError(f"{file.name} is damaged, or too large for this machine's memory") from None
    except Exception as error:  # NumPy raises various errors for damaged files
        if "pickle" in str(error):
            raise InputError(f"{file.name} holds Python objects; save numbers and text only") from None
        raise InputError(f"{file.name} is damaged or truncated: download it again") from None


def _sparse(file: DataFile) -> Any:
    from scipy import sparse

    try:
        return sparse.load_npz(file.path)
    except Exception as error:  # scipy raises various errors for foreign files
        raise InputError(f"{file.name} is not a matrix that scipy.sparse.save_npz wrote: {error}") from None


def _no_names(file: DataFile, asked: dict[str, str | None]) -> None:
    named = [f"{role}={name!r}" for role, name in asked.items() if name is not None]
    if named:
        raise InputError(f"{file.name} holds a matrix, which has no named columns: do not pass {', '.join(named)}")
