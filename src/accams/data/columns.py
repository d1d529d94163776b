"""Which column of a table holds what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from accams.errors import InputError

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
    "rating",
    "ratings",
    "score",
    "scores",
    "value",
    "values",
    "stars",
    "overall",
    "count",
    "plays",
    "listens",
    "x",
)
TIME_NAMES = ("timestamp", "time", "date", "datetime", "ts", "unixreviewtime")


@dataclass(frozen=True)
class Columns:
    """Names of the columns that hold rows, columns, values, weights and times (None where there is none)."""

    row: str
    col: str
    value: str | None
    weight: str | None = None
    time: str | None = None

    @classmethod
    def choose(
        cls, names: Sequence[str], row: str | None, col: str | None, value: str | None, weight: str | None = None,
        time: str | None = None, *, need_value: bool = True,
    ) -> Columns:  # fmt: skip
        """The columns asked for by name, the others recognised by their usual names.

        Examples
        --------
        >>> Columns.choose(["userId", "movieId", "rating", "timestamp"], None, None, None)
        Columns(row='userId', col='movieId', value='rating', weight=None, time='timestamp')
        """
        names = [str(name) for name in names]
        for asked in (row, col, value, weight, time):
            if asked is not None and asked not in names:
                raise InputError(f"there is no column {asked!r}; the columns are {_listed(names)}")
        given = [asked for asked in (row, col, value, weight, time) if asked is not None]
        if len(set(given)) < len(given):
            twice = next(asked for asked in given if given.count(asked) > 1)
            raise InputError(f"column {twice!r} is named for two purposes; each needs a column of its own")
        if row is not None and col is not None and _plain(row) in COL_NAMES and _plain(col) in ROW_NAMES:
            raise InputError(
                f"row={row!r} looks like items and col={col!r} like users: "
                "swap them (rows are users, columns are items)"
            )
        taken = {row, col, value, weight, time}
        free = [name for name in names if name not in taken]
        row = row or _recognise(free, ROW_NAMES)
        col = col or _recognise(free, COL_NAMES)
        value = value or _recognise(free, VALUE_NAMES)
        time = time or _recognise(free, TIME_NAMES)
        missing = [
            argument
            for argument, found in (("row", row), ("col", col), ("value", value))
            if found is None and (need_value or argument != "value")
        ]
        if row is None or col is None or missing:
            asks = ", ".join(f"{argument}='...'" for argument in missing)
            raise InputError(
                f"cannot tell which column holds the {_role(missing[0])}; the columns are {_listed(names)}: pass {asks}"
            )
        return cls(row, col, value, weight, time)

    def used(self) -> dict[str, str]:
        """Role to column name, for those that are there."""
        roles = {
            "row": self.row,
            "col": self.col,
            "value": self.value,
            "weight": self.weight,
            "time": self.time,
        }
        return {role: name for role, name in roles.items() if name is not None}


def recognised(names: Sequence[str]) -> bool:
    """Whether a table with these columns is a table of observations rather than a matrix."""
    plain = {_plain(str(name)) for name in names}
    return bool(plain & set(ROW_NAMES)) and bool(plain & set(COL_NAMES))


def _recognise(free: Sequence[str], known: Sequence[str]) -> str | None:
    plain = {_plain(name): name for name in reversed(free)}
    return next((plain[name] for name in known if name in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _role(argument: str) -> str:
    return {"row": "rows (users)", "col": "columns (items)", "value": "values (ratings)"}[argument]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (", ..." if len(names) > 12 else "")
