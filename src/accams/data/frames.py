"""DataFrames of any library as arrays of one type, with the names of rows and columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.columns import as_table
from accams.data.ids import Index
from accams.errors import InputError


def values_of_frame(frame: Any) -> tuple[NDArray[Any], tuple[Index | None, Index | None]]:
    """Return the values of a table of numbers, missing ones as NaN, and the names of its rows and columns.

    Examples
    --------
    >>> import pandas as pd
    >>> values, (rows, columns) = values_of_frame(pd.DataFrame({"a": [1, 2], "b": [3.5, None]}))
    >>> values.tolist(), rows, columns.ids.tolist()
    ([[1.0, 3.5], [2.0, nan]], None, ['a', 'b'])
    """
    series = list(as_table(frame).iter_columns())
    columns = [_numbers(each, str(each.name)) for each in series]
    if not columns:
        raise InputError("the table has no columns")
    values = np.stack(columns, axis=1)
    return values, (_row_names(frame), _index([str(each.name) for each in series]))


def _numbers(column: Any, name: str) -> NDArray[Any]:
    """Return a column as an array of numbers; raise InputError if it holds something else."""
    import narwhals.stable.v1 as nw

    kind = column.dtype
    if not (kind.is_numeric() or kind == nw.Boolean) or kind == nw.Decimal:
        what = column.to_native().dtype if kind == nw.Unknown else kind
        raise InputError(f"column {name!r} holds {what}, not numbers: leave it out, or convert it")
    if column.null_count():
        return np.asarray(column.cast(nw.Float64).to_numpy(), np.float64)
    return np.asarray(column.to_numpy())


def _row_names(frame: Any) -> Index | None:
    """Return the names that pandas has for rows, if they are more than positions."""
    index = getattr(frame, "index", None)
    if index is None or type(index).__name__ in ("RangeIndex", "builtin_function_or_method", "method"):
        return None
    return _index(list(index))


def _index(names: list[Any]) -> Index | None:
    """Return names as an index; None where a name comes twice, or is no string or number."""
    plain = [x.item() if isinstance(x, np.generic) else x for x in names]
    if any(not isinstance(x, (str, int, float)) or x != x for x in plain) or len(set(plain)) < len(plain):
        return None
    return Index(np.fromiter(plain, dtype=object, count=len(plain)))
