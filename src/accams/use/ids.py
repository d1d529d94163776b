"""Look up raw ids, and suggest the nearest ones for an unknown id."""

from bisect import bisect_left
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.data.inputs import positions
from accams.errors import InputError, UnknownIdError, warn
from accams.use.scoring import Positions

NEAR = 3  # ids that are suggested
USUAL = 10  # default of n
LOOKED_AT = 200  # ids on either side of an unknown one, in alphabetical order, that are compared with it


def as_ids(ids: Any) -> NDArray[Any]:
    """Return one id or several as an array that keeps their types."""
    if hasattr(ids, "to_numpy"):
        ids = np.asarray(ids.to_numpy())
    if isinstance(ids, np.ndarray):
        if ids.ndim > 1:
            raise InputError(f"ids must form one column, but the array has shape {ids.shape}")
        return ids.reshape(-1)
    listed = [ids] if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__") else list(ids)
    whole = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in listed)
    if whole and listed and abs(max(listed, key=abs)) < 2**63:
        return np.array(listed, np.int64)
    return np.fromiter(listed, dtype=object, count=len(listed))


def known(index: Index, ids: NDArray[Any], what: str) -> Positions:
    """Return the positions of ids; raise UnknownIdError for an unknown one."""
    found = positions(index, ids)
    if (found < 0).any():
        wrong = np.asarray(ids, object)[int(np.argmax(found < 0))]
        raise UnknownIdError(f"there is no {what} {wrong!r} in this model{_advice(index, wrong)}")
    return found


def check_number(n: Any, most: int, what: str) -> None:
    """Validate the number of results; warn if there are fewer (the default never warns)."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
        raise InputError(f"n must be an integer of at least 1, not {n!r}")
    if n > max(most, USUAL):
        warn(f"n={n:,} is more than the {most:,} {what} of this model: there are no more")


def _advice(index: Index, wrong: Any) -> str:
    if wrong is None or wrong != wrong:
        return ": it is missing"
    near = nearest(index, wrong)
    return f"; the nearest ids are {', '.join(map(repr, near))}" if near else ""


def nearest(index: Index, wrong: Any) -> list[Any]:
    """Return the three ids most similar to an unknown one.

    Examples
    --------
    >>> nearest(Index([3, 10, 40, 50]), 42)
    [40, 50, 10]
    >>> nearest(Index(["Alien", "Aliens", "Heat"]), "aliens")
    ['Aliens', 'Alien']
    """
    if index.ids.dtype.kind == "i":
        try:
            away = np.abs(index.ids - float(wrong))
        except (TypeError, ValueError, OverflowError):
            return list(index.ids[:NEAR].tolist())
        return list(index.ids[np.argsort(away, kind="stable")[:NEAR]].tolist())
    folded = sorted({str(x).casefold(): x for x in index.ids.tolist()}.items(), key=lambda pair: pair[0])
    text = str(wrong).casefold()
    place = bisect_left(folded, text, key=lambda pair: pair[0])
    beside = dict(folded[max(0, place - LOOKED_AT) : place + LOOKED_AT])
    beside.update({key: x for key, x in folded if text in key} if len(text) > 2 else {})
    return [beside[key] for key in get_close_matches(text, beside, NEAR, 0.5)]
