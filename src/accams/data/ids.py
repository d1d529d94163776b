"""Map raw ids of rows and columns, of any type, to positions."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError

Positions = NDArray[np.int64]
INT64 = np.iinfo(np.int64)
LONGEST = 40  # digits of a number that may be an id; Python refuses to read thousands of them


class Index:
    """Distinct ids of one axis in order of their positions, with lookup of the position of an id.

    Without `ids` they are 0 .. size - 1.

    Examples
    --------
    >>> index, positions = Index.of(["b", "a", "b"])
    >>> index.ids.tolist(), positions.tolist()
    (['a', 'b'], [1, 0, 1])
    >>> index.positions(["b", "z"]).tolist()
    [1, -1]
    """

    def __init__(self, ids: ArrayLike | None, size: int | None = None) -> None:
        self._ids = None if ids is None else as_id_array(ids)
        if self._ids is None and size is None:
            raise TypeError("an Index needs ids or a size")
        self.size = int(size) if self._ids is None else len(self._ids)  # type: ignore[arg-type]

    @classmethod
    def of(cls, raw: ArrayLike, name: str = "id") -> tuple[Self, Positions]:
        """Return the index of the distinct ids of `raw` (sorted if comparable) and the position of each entry."""
        array = as_id_array(raw, name)
        if array.dtype.kind in "iu" and array.size:
            ids, positions = _distinct_integers(array)
        else:
            try:
                ids, positions = np.unique(array, return_inverse=True)
            except TypeError:  # mixed types cannot be sorted: order of first appearance
                table: dict[Any, int] = {}
                positions = np.array([table.setdefault(x, len(table)) for x in array.tolist()], dtype=np.int64)
                ids = _object_array(list(table))
        return cls(ids), positions.astype(np.int64, copy=False)

    @property
    def is_positional(self) -> bool:
        """Whether the ids are the positions 0 .. size - 1."""
        return self._ids is None

    @cached_property
    def ids(self) -> NDArray[Any]:
        """All ids, in order of their positions."""
        return np.arange(self.size) if self._ids is None else self._ids

    def positions(self, raw: ArrayLike) -> Positions:
        """Return the position of each id, -1 if unknown."""
        array = _plain(np.atleast_1d(_asarray(raw)))
        if array.dtype.kind != "O" and self.ids.dtype.kind == "i":
            return self._integer_positions(array)
        table = self._table
        return np.array([table.get(x, -1) for x in array.tolist()], dtype=np.int64)

    def find(self, raw: ArrayLike) -> Positions:
        """Return the position of each id, -1 if unknown; an integer and its text ("7" and 7) are the same id.

        NumPy turns all elements of an array with one string into strings.
        """
        array = _asarray(raw)
        positions = self.positions(array)
        unknown = np.flatnonzero(positions < 0)
        if len(unknown) and array.dtype.kind == "U":
            positions[unknown] = self.positions(_object_array([parsed(x) for x in array[unknown].tolist()]))
        elif len(unknown) and array.dtype.kind in "iu" and self.ids.dtype.kind == "O":
            positions[unknown] = self.positions(_object_array([str(x) for x in array[unknown].tolist()]))
        return positions

    def place(self, one: float | str) -> int:
        """Return the position of one id as `find` does, in less time.

        Examples
        --------
        >>> Index([5, 7]).place("7"), Index(["a", "7"]).place(7), Index(None, 3).place(3)
        (1, 1, -1)
        """
        if self.ids.dtype.kind != "i":
            place = self._table.get(one, -1)
            return self._table.get(parsed(one) if isinstance(one, str) else str(one), -1) if place < 0 else place
        number = parsed(one) if isinstance(one, str) else one
        if isinstance(number, np.integer) or (isinstance(number, float) and number.is_integer()):
            number = int(number)
        if not isinstance(number, int) or not INT64.min <= number <= INT64.max:
            return -1
        if self.is_positional:
            return number if 0 <= number < self.size else -1
        order, sorted_ids = self._sorted
        at = int(sorted_ids.searchsorted(number))
        return int(order[at]) if at < self.size and sorted_ids[at] == number else -1

    def own(self, one: float | str) -> Any:
        """Return one id as this index has it, or as it would have a new one.

        "7" is 7 where all ids are integers, and 7 is "7" where all are text.

        Examples
        --------
        >>> Index([5, 7]).own("7"), Index([5, 7]).own("8"), Index(["a", "7"]).own(7), Index(["a", "7"]).own(8)
        (7, 8, '7', '8')
        """
        place = self.place(one)
        if place >= 0:
            return self.ids[place : place + 1].tolist()[0]
        if isinstance(one, (int, np.integer)) and self._is_text:
            return str(one)
        number = parsed(one) if isinstance(one, str) and self.ids.dtype.kind == "i" else one
        return number if not isinstance(number, int) or INT64.min <= number <= INT64.max else one

    def __len__(self) -> int:
        return self.size

    def begins_with(self, other: "Index") -> bool:
        """Return whether the first ids are those of another index."""
        return len(self) >= len(other) and bool(np.all(self.ids[: len(other)] == other.ids))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.size == other.size and bool(np.all(self.ids == other.ids))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Index({self.size} ids)" if self.is_positional else f"Index({self.size} ids, {example(self.ids)} ...)"

    def _integer_positions(self, array: NDArray[Any]) -> Positions:
        if array.dtype.kind not in "if":
            return np.full(array.size, -1, dtype=np.int64)
        if self.is_positional:
            integral = array == np.floor(array) if array.dtype.kind == "f" else np.ones(array.shape, bool)
            known = integral & (array >= 0) & (array < self.size)
            return np.where(known, np.where(known, array, 0).astype(np.int64), -1)
        order, sorted_ids = self._sorted
        place = np.minimum(np.searchsorted(sorted_ids, array), self.size - 1)
        return np.where(sorted_ids[place] == array, order[place], -1).astype(np.int64)

    @cached_property
    def _sorted(self) -> tuple[Positions, NDArray[Any]]:
        order = np.argsort(self.ids, kind="stable").astype(np.int64)
        return order, self.ids[order]

    @cached_property
    def _is_text(self) -> bool:
        """Whether there are ids, and all of them are text."""
        return self.ids.dtype.kind == "O" and self.size > 0 and all(isinstance(x, str) for x in self.ids.tolist())

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {x: p for p, x in enumerate(self.ids.tolist())}


class LazyIndex(Index):
    """Index whose ids are read on first use; fitting does not need them."""

    def __init__(self, read: Callable[[], NDArray[Any]], size: int) -> None:
        self._read, self.size = read, size

    @property
    def is_positional(self) -> bool:
        return False

    @cached_property
    def ids(self) -> NDArray[Any]:
        return self._read()


def as_id_array(raw: ArrayLike, name: str = "id") -> NDArray[Any]:
    """Convert to a one-dimensional array of ids: int64, or objects for other types; missing ids raise."""
    array = _asarray(raw)
    if array.ndim != 1:
        raise InputError(f"{name}s must be one-dimensional, but the array has shape {array.shape}")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array)
        if bad.any():
            raise InputError(f"entry {int(np.argmax(bad))}: the {name} is missing")
        integral = bool(np.all((array == np.floor(array)) & (np.abs(array) < 2.0**63)))
        return array.astype(np.int64) if integral else array
    if array.dtype.kind in "mM" and np.isnat(array).any():
        raise InputError(f"entry {int(np.argmax(np.isnat(array)))}: the {name} is missing")
    array = _plain(array)
    if array.dtype.kind in "UST":
        array = array.astype(object)
    if array.dtype.kind == "O" and array.size:
        items = array.tolist()
        for position, x in enumerate(items):
            if x is None or type(x).__name__ in ("NAType", "NaTType") or x != x:
                raise InputError(f"entry {position}: the {name} is missing")
        integral = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in items)
        if integral and INT64.min <= min(items) and max(items) <= INT64.max:
            return array.astype(np.int64)
    return array


def example(ids: NDArray[Any]) -> str:
    """Return the repr of the first id, for messages."""
    return repr(ids[:1].tolist()[0]) if len(ids) else "none"


def _distinct_integers(array: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    """Compute np.unique with inverse, in linear time if the range of the ids is small."""
    low, high = int(array.min()), int(array.max())
    if high - low > 4 * array.size + 1000:
        ids, positions = np.unique(array, return_inverse=True)
        return ids, positions.astype(np.int64, copy=False)
    present = np.zeros(high - low + 1, dtype=bool)
    present[array - low] = True
    return np.flatnonzero(present) + low, (np.cumsum(present, dtype=np.int64) - 1)[array - low]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Convert integers to int64 if they fit, and dates and times to Python objects."""
    kind = array.dtype.kind
    if kind in "mM":
        days = kind == "M" and np.datetime_data(array.dtype)[0] in ("Y", "M", "W", "D")
        return array.astype(f"{kind}8[{'D' if days else 'us'}]").astype(object)
    if kind == "u" and array.size and int(array.max()) > INT64.max:
        return array.astype(object)
    return array.astype(np.int64, copy=False) if kind in "iub" else array


def _asarray(raw: ArrayLike) -> NDArray[Any]:
    """Convert to an array; of objects if NumPy would turn ids into text, or large integers into floats."""
    if not isinstance(raw, (list, tuple)):
        return np.asarray(raw)
    changes = any(isinstance(x, str) or (isinstance(x, int) and not INT64.min <= x <= INT64.max) for x in raw)
    return _object_array(list(raw)) if changes else np.asarray(raw)


def _object_array(items: list[Any]) -> NDArray[Any]:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def parsed(text: str) -> Any:
    """Return the integer that the text is the canonical form of, else the text."""
    digits = text.removeprefix("-")
    plain = len(digits) <= LONGEST and digits.isascii() and digits.isdecimal()
    return int(text) if plain and str(int(text)) == text else text
