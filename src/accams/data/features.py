"""Tables of features: what is known of users or items beside their ratings, a line each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.data.cells import Column, column_of, column_of_text
from accams.data.columns import COL_NAMES, ROW_NAMES, as_table, plain_name
from accams.data.ids import Index, as_id_array, example
from accams.data.inputs import is_frame
from accams.data.observations import Observations
from accams.data.tables import read_table, text_of
from accams.errors import InputError

PIECE = 1 << 14  # lines
IDS = ("id", *ROW_NAMES), ("id", *(name for name in COL_NAMES if name != "title"))  # usual names of columns of ids
NOUNS = ("user", "item")


@dataclass(frozen=True)
class FeatureTable:
    """Ids and columns of a table of features.

    Attributes
    ----------
    ids : array
        Distinct, in the order of the table.
    columns : dict
        Of numbers (NaN is missing), or of lists of text (an empty one is missing), by name.
    dates : set
        Names of columns of numbers that are dates, as numbers of days.

    Examples
    --------
    >>> import pandas as pd
    >>> films = pd.DataFrame({"movieId": [7, 9], "year": [1995, None], "genres": ["Comedy|Romance", "Action"]})
    >>> table = FeatureTable.of(films, 1, "movieId")
    >>> table.ids.tolist(), table.columns["year"].tolist(), table.columns["genres"]
    ([7, 9], [1995.0, nan], [['Comedy', 'Romance'], ['Action']])
    """

    ids: NDArray[Any]
    columns: Mapping[str, Column]
    dates: frozenset[str] = frozenset()

    @classmethod
    def of(cls, frame: Any, axis: int, name: str | None = None) -> Self:
        """Read the features of users (axis 0) or items from a DataFrame of any library.

        The ids are in the column `name`, so called in the ratings, or in one with a usual name.
        """
        what = f"{NOUNS[axis]}_features"
        if isinstance(frame, cls):
            return frame
        if not is_frame(frame):
            raise InputError(f"{what} must be a DataFrame with a column of ids, not {type(frame).__name__}")
        table = as_table(frame)
        ids_in = _column_of_ids(table.columns, axis, name, what)
        ids = as_id_array(table.get_column(ids_in).to_numpy(), f"{NOUNS[axis]} id in {what}")
        others = [each for each in table.columns if each != ids_in]
        _check_names([str(each) for each in others], what)
        parsed = {str(each): _of_series(table.get_column(each), str(each), what) for each in others}
        return cls._checked(ids, parsed, axis, what)

    @classmethod
    def read(
        cls, path: str | Path, axis: int, index: Index, name: str | None = None, kinds: Mapping[str, bool] | None = None
    ) -> Self:
        """Read the features of users or items from a file.

        The ids are in the column of this name, in one of a usual name that has some of the index, or else in the one
        that matches most of it. `kinds` says of columns that a model knows whether they hold numbers.
        """

        def by_name(header: list[str], matches: list[int]) -> int | None:
            usual = _id_column([each for each, n in zip(header, matches, strict=True) if n], axis, name)
            found = name if name in header else usual if any(matches) else _id_column(header, axis, name)
            return None if found is None else header.index(found)

        table = read_table(path, index, f"{NOUNS[axis]} features", by_name, True, (name, *IDS[axis]))
        _check_names(table.header, table.name)
        texts = [text_of(x).strip() for x in table.columns[table.ids]]
        if not all(texts):
            raise InputError(
                f"{table.name} has a line without an id in column {table.header[table.ids]!r} "
                f"(line {texts.index('') + 1} below the header)"
            )
        read, kinds = column_of if table.typed else column_of_text, kinds or {}
        parsed = {
            each: read(cells, each, table.name, is_category=not kinds.get(each, True))
            for p, (each, cells) in enumerate(zip(table.header, table.columns, strict=True))
            if p != table.ids
        }
        ids = np.array([index.own(x) for x in texts], object)
        return cls._checked(as_id_array(ids, f"{NOUNS[axis]} id in {table.name}"), parsed, axis, table.name)

    @classmethod
    def _checked(cls, ids: NDArray[Any], parsed: Mapping[str, tuple[Column, bool]], axis: int, what: str) -> Self:
        found = cls(ids, {name: x for name, (x, _) in parsed.items()}, frozenset(x for x in parsed if parsed[x][1]))
        found.check(axis, what)
        return found

    def check(self, axis: int, what: str) -> None:
        """Raise InputError for ids that come twice, and for a table without features."""
        if len(self.ids) == 0:
            raise InputError(f"{what} has no lines")
        try:
            _, places, counts = np.unique(Index.of(self.ids)[1], return_index=True, return_counts=True)
        except TypeError:
            raise InputError(f"ids must be numbers or text, but {what} has {self.ids[0]!r:.60}") from None
        if (counts > 1).any():
            again = example(self.ids[places[np.argmax(counts > 1)] :])
            raise InputError(f"{what} has several lines for {again}: give one line for each {NOUNS[axis]}")
        if not self.columns:
            raise InputError(f"{what} has no column beside the ids")

    @classmethod
    def of_one(cls, features: Any, axis: int) -> Self:
        """Read the features of one user or item from a dict by name."""
        if not isinstance(features, Mapping):
            raise InputError(f"features must be a dict such as {{'year': 1995}}, not {type(features).__name__}")
        parsed = {str(name): column_of([value], str(name), "features") for name, value in features.items()}
        dates = frozenset(name for name in parsed if parsed[name][1])
        return cls(np.array([NOUNS[axis]], object), {name: x for name, (x, _) in parsed.items()}, dates)

    def pieces(self) -> Iterator[tuple[slice, Self]]:
        """Yield parts of the table, so that little is in memory at once of what is computed of its lines."""
        for first in range(0, len(self.ids), PIECE):
            part = slice(first, min(first + PIECE, len(self.ids)))
            columns = {name: x[part] for name, x in self.columns.items()}
            yield part, self if len(self.ids) <= PIECE else replace(self, ids=self.ids[part], columns=columns)

    def only(self, mask: NDArray[np.bool_]) -> Self:
        """Return some of the lines."""
        kept = np.flatnonzero(mask)
        columns = {
            name: x[kept] if isinstance(x, np.ndarray) else [x[p] for p in kept] for name, x in self.columns.items()
        }
        return replace(self, ids=self.ids[kept], columns=columns)

    def named_as(self, index: Index, axis: int) -> Self:
        """Return the table with its ids as an index has them: "7" is 7 where all ids are integers, and 7 text "7"."""
        if not len(index) or (self.ids.dtype.kind == "i" and index.ids.dtype.kind == "i"):
            return self
        found = replace(self, ids=as_id_array(np.array([index.own(x) for x in self.ids.tolist()], object)))
        found.check(axis, f"{NOUNS[axis]}_features")
        return found

    def positions(self, index: Index, axis: int) -> NDArray[np.int64]:
        """Return the position of each id; raise InputError where none is known, as of the wrong column."""
        found = index.find(self.ids)
        if not (found >= 0).any():
            raise InputError(
                f"no id of {NOUNS[axis]}_features is among those of the ratings, which look like {example(index.ids)}, "
                f"and these like {example(self.ids)}: is it the right column of ids?"
            )
        return found


def _id_column(columns: list[str], axis: int, name: str | None) -> str | None:
    """Return the column of ids: the one of this name, or of a usual one."""
    if name is not None and name in columns:
        return name
    plain = {plain_name(str(each)): each for each in reversed(columns)}
    return next((plain[each] for each in IDS[axis] if each in plain), None)


def _column_of_ids(columns: list[str], axis: int, name: str | None, what: str) -> str:
    """Return the name of the column of ids, or raise InputError."""
    found = _id_column(columns, axis, name)
    if found is None:
        called = "" if name is None else f" {name!r}, as in the ratings, or"
        raise InputError(
            f"cannot tell which column of {what} holds the ids: call it{called} 'id'; the columns are "
            f"{', '.join(map(repr, columns[:12]))}"
        )
    return found


def _of_series(series: Any, name: str, what: str) -> tuple[Column, bool]:
    """Return a column of a DataFrame."""
    return column_of(series.to_list(), name, what, str(series.dtype).startswith(("Categorical", "Enum")))


def _check_names(names: list[str], what: str) -> None:
    """Raise InputError for two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} has two columns called {twice!r}: rename or drop one")


def grown(observations: Observations, axis: int, index: Index) -> Observations:
    """Return observations with more rows (axis 0) or columns, all empty; the index begins with the one they have."""
    obs, more = observations, len(index) - observations.shape[axis]
    if not more:
        return obs
    if axis == 1:
        shape = obs.shape[0], len(index)
        return replace(obs, shape=shape, cols=obs.cols.astype(index_type(shape[1])), col_index=index, _cache={})
    starts = np.append(obs.row_starts, np.full(more, obs.row_starts[-1]))
    return replace(obs, shape=(len(index), obs.shape[1]), row_starts=starts, row_index=index, _cache={})
