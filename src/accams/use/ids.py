"""Raw ids that users pass, looked up; where one is not known, the nearest that are."""

from __future__ import annotations

from bisect import bisect_left
from difflib import get_close_matches
from typing import Any

import numpy as np

from accams.data.ids import Index
from accams.errors import InputError
from accams.use.scoring import Positions

NEAR = 3
LOOKED_AT = 200  # ids beside the place where an unknown one would stand, by which near ones are found


def known(index: Index, ids: Any, what: str) -> Positions:
    """Positions of ids, all of which must be known."""
    positions = index.find(ids)
    if (positions < 0).any():
        wrong = np.asarray(ids, object)[int(np.argmax(positions < 0))]
        raise InputError(f"there is no {what} {wrong!r} in this model{_advice(index, wrong)}")
    return positions


def _advice(index: Index, wrong: Any) -> str:
    near = nearest(index, wrong)
    return f"; the nearest ids are {', '.join(map(repr, near))}" if near else ""


def nearest(index: Index, wrong: Any) -> list[Any]:
    """The three known ids that are most like one that is not known.

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
    folded = sorted({str(x).casefold(): x for x in index.ids.tolist()}.items(), key=lambda each: each[0])
    text = str(wrong).casefold()
    place = bisect_left(folded, text, key=lambda each: each[0])
    beside = dict(folded[max(0, place - LOOKED_AT) : place + LOOKED_AT])
    beside.update({key: x for key, x in folded if text in key} if len(text) > 2 else {})
    return [beside[key] for key in get_close_matches(text, beside, NEAR, 0.5)]
