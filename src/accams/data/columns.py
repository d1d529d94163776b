"""Recognise the columns of a table: row ids, column ids, values, weights, times."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from accams.errors import InputError, NoValuesError

ROW_NAMES = tuple(
    ["user", "users", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid"]
    + ["member", "memberid", "person", "row", "rows", "rowid", "i"]
)
COL_NAMES = tuple(
    ["item", "items", "itemid", "iid", "movie", "movieid", "film", "filmid", "title", "joke", "jokeid", "product"]
    + ["productid", "book", "bookid", "isbn", "asin", "song", "songid", "track", "trackid", "artist", "artistid"]
    + ["show", "showid", "game", "gameid", "business", "businessid", "col", "cols", "column", "columns", "colid", "j"]
)
VALUE_NAMES = (
    "rating", "ratings", "score", "scores", "value", "values", "stars", "overall", "count", "plays", "listens", "x",
)  # fmt: skip
TIME_NAMES = ("timestamp", "time", "date", "datetime", "ts", "unixreviewtime")
CONTENTS = {"row": "rows (users)", "col": "columns (items)", "value": "values (ratings)"}


@dataclass(frozen=True)
class Columns:
    """Names of the columns that hold row ids, column ids, values, weights and times (None if absent)."""

    row: str
    col: str
    value: str | None
    weight: str | None = None
    time: str | None = None

    @classmethod
    def choose(
        cls, names: Sequence[str], row: str | None, col: str | None, value: str | None, weight: str | None = None,
        time: str | None = None, *, need_value: bool = True,
    ) -> Self:  # fmt: skip
        """Take columns by the names passed, and recognise the others by common names."""
        names = [str(name) for name in names]
        given = [name for name in (row, col, value, weight, time) if name is not None]
        for name in given:
            if name not in names:
                raise InputError(f"there is no column {name!r}; the columns are {_listed(names)}")
        for name in given:
            if given.count(name) > 1:
                raise InputError(f"column {name!r} is passed for two parameters; each needs a column of its own")
        if row is not None and col is not None and plain_name(row) in COL_NAMES and plain_name(col) in ROW_NAMES:
            raise InputError(
                f"row={row!r} looks like items and col={col!r} like users: "
                "swap them (rows are users, columns are items)"
            )
        free = [name for name in names if name not in given]
        row = row or _recognise(free, ROW_NAMES)
        col = col or _recognise(free, COL_NAMES)
        value = value or _recognise(free, VALUE_NAMES)
        time = time or _recognise(free, TIME_NAMES)
        needed = {"row": row, "col": col} | ({"value": value} if need_value else {})
        missing = [argument for argument, name in needed.items() if name is None]
        if row is None or col is None or missing:
            asks = ", ".join(f"{argument}='...'" for argument in missing)
            kind = NoValuesError if missing == ["value"] else InputError
            raise kind(
                f"cannot tell which column holds the {CONTENTS[missing[0]]}; the columns are {_listed(names)}; "
                f"pass {asks} to Observations.from_frame or from_file"
            )
        return cls(row, col, value, weight, time)

    def used(self) -> dict[str, str]:
        """Return the column name of each role that is present."""
        return {role: name for role, name in vars(self).items() if name is not None}


def as_table(frame: Any) -> Any:
    """Wrap a DataFrame of any library with narwhals; one that is wrapped already is returned as it is."""
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError:
        advice = "; collect it first" if hasattr(frame, "collect") else ""
        if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
            advice = "; pyarrow.table(...) makes one of it"
        raise InputError(f"{type(frame).__name__} is not a DataFrame of pandas, polars or pyarrow{advice}") from None
    except DuplicateError as error:
        raise InputError(f"column names must differ: {' '.join(str(error).split())}") from None


def recognised(names: Sequence[str]) -> bool:
    """Return whether these are the columns of a table of observations rather than of a matrix."""
    plain = {plain_name(str(name)) for name in names}
    return bool(plain & set(ROW_NAMES)) and bool(plain & set(COL_NAMES))


def _recognise(free: Sequence[str], known: Sequence[str]) -> str | None:
    plain = {plain_name(name): name for name in reversed(free)}
    return next((plain[name] for name in known if name in plain), None)


def plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (", ..." if len(names) > 12 else "")
