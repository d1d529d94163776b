"""DataFrames of any library, taken apart and made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.estimators.inputs import table_of


def ids_of_frame(frame: Any, name: str) -> NDArray[Any]:
    """The column called so, or the only one."""
    table = table_of(frame)
    if name not in table.columns and len(table.columns) > 1:
        raise InputError(f"the table has no column {name!r}: pass the ids alone, or a table with that column")
    return np.asarray(table.get_column(name if name in table.columns else table.columns[0]).to_numpy())


def frame_like(frame: Any, columns: dict[str, NDArray[Any]]) -> Any:
    """A DataFrame of the same library with these columns."""
    import narwhals.stable.v1 as nw

    kinds = {name: x.tolist() if x.dtype.kind == "O" else x for name, x in columns.items()}
    return nw.from_dict(kinds, backend=nw.get_native_namespace(frame)).to_native()
