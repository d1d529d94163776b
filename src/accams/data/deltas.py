"""New observations in the order in which they came: of a pair that comes again, the latest value counts."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.columns import Columns, as_table, recognised
from accams.data.events import Events
from accams.data.ids import Index
from accams.data.inputs import Choices, choices_of, is_frame, pairs_of, usable_ids, values_of
from accams.data.observations import Observations


def latest(X: Any, y: ArrayLike | None = None) -> Choices:
    """Return observations from any input of `fit` or from events, with the latest value of each pair.

    The latest is that of the latest time, where there are times, and else the last one.

    Examples
    --------
    >>> latest([("ann", "Alien"), ("bob", "Heat"), ("ann", "Alien")], [2.0, 3.0, 5.0]).observations.values.tolist()
    [5.0, 3.0]
    """
    if isinstance(X, Events):
        return Choices(_observations(X.users, X.items, X.values, X.times))
    if y is not None and not isinstance(X, Observations):
        users, items = pairs_of(X)
        return Choices(_observations(users, items, values_of(y, "y", len(users)), None))
    if y is None and is_frame(X):
        table = as_table(X)
        if recognised(table.columns):
            return choices_of(_latest_rows(table))
    return choices_of(X, y)


def _observations(users: Any, items: Any, values: NDArray[np.float64], times: Any) -> Observations:
    with usable_ids():
        (row_index, i), (col_index, j) = Index.of(users, "row id"), Index.of(items, "column id")
    keep = _last_of_each(i, j, len(col_index), times)
    when = None if times is None else times[keep]
    return Observations.from_coo(i[keep], j[keep], values[keep], row_index=row_index, col_index=col_index, times=when)


def _latest_rows(table: Any) -> Any:
    """Return the rows of a table that no later one replaces."""
    names = Columns.choose(table.columns, None, None, None, need_value=False)
    with usable_ids():
        pairs = [Index.of(table.get_column(name).to_numpy(), f"{name} id") for name in (names.row, names.col)]
    (_, i), (col_index, j) = pairs
    times = None if names.time is None else np.asarray(table.get_column(names.time).to_numpy())
    keep = np.zeros(len(i), np.bool_)
    keep[_last_of_each(i, j, len(col_index), times)] = True
    return table if keep.all() else table.filter(keep.tolist())


def _last_of_each(i: NDArray[Any], j: NDArray[Any], n: int, times: Any) -> NDArray[np.int64]:
    """Return where the latest entry of each pair is, in the order of the entries."""
    order = np.arange(len(i))
    if times is not None:
        with suppress(TypeError):  # dates and None cannot be compared: then in the order of the table
            order = np.argsort(times, kind="stable")
    key = (i * n + j)[order]
    _, last = np.unique(key[::-1], return_index=True)
    return np.sort(order[len(key) - 1 - last])
