"""Tables of features: what is known of users or items beside their ratings, a line each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.data.columns import COL_NAMES, ROW_NAMES, as_table, plain_name
from accams.data.ids import Index, as_id_array, example
from accams.data.inputs import is_frame
from accams.data.observations import Observations
from accams.data.sniff import is_number
from accams.data.titles import read_table
from accams.errors import InputError

LARGEST = 1e30
PIECE = 1 << 14  # lines
SEPARATOR = "|"  # between several values of one cell, as in Action|Comedy
IDS = (("id", *ROW_NAMES), ("id", *COL_NAMES))  # usual names of the columns of ids
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

    Examples
    --------
    >>> import pandas as pd
    >>> films = pd.DataFrame({"movieId": [7, 9], "year": [1995, None], "genres": ["Comedy|Romance", "Action"]})
    >>> table = FeatureTable.of(films, 1, "movieId")
    >>> table.ids.tolist(), table.columns["year"].tolist(), table.columns["genres"]
    ([7, 9], [1995.0, nan], [['Comedy', 'Romance'], ['Action']])
    """

    ids: NDArray[Any]
    columns: Mapping[str, NDArray[np.float64] | list[list[str]]]

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
        if len({str(each) for each in others}) < len(others):
            raise InputError(f"{what} has two columns of the same name")
        found = cls(ids, {str(each): _column(table.get_column(each), str(each), what) for each in others})
        found.check(axis, what)
        return found

    @classmethod
    def read(cls, path: str | Path, axis: int, index: Index, name: str | None = None) -> Self:
        """Read the features of users or items from a file.

        The ids are in the column of this or a usual name, or else in the one that matches most of the index.
        """

        def by_name(header: list[str]) -> int | None:
            found = _id_column(header, axis, name)
            return None if found is None else header.index(found)

        table = read_table(path, index, f"{NOUNS[axis]} features", by_name)
        ids = np.array([index.own("" if x is None else str(x).strip()) for x in table.columns[table.ids]], object)
        columns = {}
        for p, (name, cells) in enumerate(zip(table.header, table.columns, strict=True)):
            if p != table.ids:
                stripped = ["" if cell is None else str(cell).strip() for cell in cells]
                numeric = any(stripped) and all(is_number(cell) for cell in stripped if cell)
                told = Path(path).name
                columns[name] = (
                    _numbers([cell or None for cell in stripped], name, told)
                    if numeric or not any(stripped)
                    else [_texts(cell) or [] for cell in stripped]
                )
        found = cls(as_id_array(ids, f"{NOUNS[axis]} id in {table.name}"), columns)
        found.check(axis, table.name)
        return found

    def check(self, axis: int, what: str) -> None:
        """Raise InputError for ids that come twice, and for a table without features."""
        if len(self.ids) == 0:
            raise InputError(f"{what} has no lines")
        _, places, counts = np.unique(Index.of(self.ids)[1], return_index=True, return_counts=True)
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
        columns: dict[str, Any] = {}
        for name, value in features.items():
            one = _texts(value)
            columns[str(name)] = _numbers([value], str(name), "features") if one is None else [one]
        return cls(np.array([NOUNS[axis]], object), columns)

    def pieces(self) -> Iterator[tuple[slice, Self]]:
        """Yield parts of the table, so that little is in memory at once of what is computed of its lines."""
        for first in range(0, len(self.ids), PIECE):
            part = slice(first, min(first + PIECE, len(self.ids)))
            columns = {name: x[part] for name, x in self.columns.items()}
            yield part, self if len(self.ids) <= PIECE else type(self)(self.ids[part], columns)

    def only(self, mask: NDArray[np.bool_]) -> Self:
        """Return some of the lines."""
        kept = np.flatnonzero(mask)
        columns = {
            name: x[kept] if isinstance(x, np.ndarray) else [x[p] for p in kept] for name, x in self.columns.items()
        }
        return type(self)(self.ids[kept], columns)

    def named_as(self, index: Index, axis: int) -> Self:
        """Return the table with its ids as an index has them: "7" is 7 where all ids are integers."""
        if self.ids.dtype.kind == "i" or not len(index):
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


def _column(series: Any, name: str, what: str) -> NDArray[np.float64] | list[list[str]]:
    """Return a column as numbers, or as lists of text."""
    cells = series.to_list()
    texts = [_texts(cell) for cell in cells]
    if all(text is None for text in texts):
        return _numbers(cells, name, what)
    both = zip(texts, cells, strict=True)
    return [text if text is not None else [] if _missing(cell) else [str(cell)] for text, cell in both]


def _numbers(cells: list[Any], name: str, what: str) -> NDArray[np.float64]:
    try:
        numbers = np.array([_number(cell) for cell in cells], np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"column {name!r} of {what} holds neither numbers nor text") from None
    if np.isinf(numbers).any():
        raise InputError(f"column {name!r} of {what} has an infinite value")
    if np.nanmax(np.abs(numbers), initial=0.0) > LARGEST:
        raise InputError(f"column {name!r} of {what} has a value beyond {LARGEST:g}: rescale it")
    return numbers


def _number(cell: Any) -> float:
    """Return a number, a date as a number of days, or NaN for a cell that is missing."""
    if _missing(cell):
        return np.nan
    if hasattr(cell, "toordinal"):
        return float(cell.toordinal())
    return float(cell)


def _missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _texts(cell: Any) -> list[str] | None:
    """Return the values of a cell of text, or None for a number or a cell that is missing."""
    if isinstance(cell, (list, tuple, set, frozenset)) or (isinstance(cell, np.ndarray) and cell.ndim):
        parts = [str(each) for each in cell if not _missing(each)]
    elif isinstance(cell, (str, bytes)):
        parts = (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell).split(SEPARATOR)
    else:
        return None
    whole = [part.encode("utf-8", "replace").decode().strip() for part in parts]  # without lone surrogates
    return [part for part in whole if part]


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
