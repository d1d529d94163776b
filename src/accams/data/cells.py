"""Cells of a table of features: numbers, dates as numbers of days, or lists of text."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.readers import MISSING
from accams.data.sniff import is_number
from accams.errors import InputError

Column = NDArray[np.float64] | list[list[str]]  # NaN, or an empty list, is missing
LARGEST = 1e30
SEPARATOR = "|"  # between several values of one cell, as in Action|Comedy
EPOCH = date(1970, 1, 1).toordinal()
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.,+Z -]*)?")
FLAGS = {"true": 1.0, "false": 0.0}


def column_of(cells: Sequence[Any], name: str, what: str, is_category: bool = False) -> tuple[Column, bool]:
    """Return a column, and whether its numbers are dates; a category is text, whatever its values are.

    Examples
    --------
    >>> column_of(["Action|Comedy", None], "genres", "films")
    ([['Action', 'Comedy'], []], False)
    >>> column_of(["1999-12-31", "2000-01-01"], "seen", "films")[0].tolist()
    [730119.0, 730120.0]
    """
    texts = [texts_of(cell, name, what) for cell in cells]
    told = [text for text in texts if text]
    if told and not is_category and all(len(text) == 1 and _is_date(text[0]) for text in told):
        dates = [np.nan if is_missing(x) else x if t is None else date.fromisoformat(t[0][:10]) if t else np.nan
                 for x, t in zip(cells, texts, strict=True)]  # fmt: skip
        return _numbers(dates, name, what), True
    if not is_category and all(text is None for text in texts):
        days = [_day(cell) is not None for cell in cells if not is_missing(cell)]
        if any(days) and not all(days):
            raise InputError(f"column {name!r} of {what} holds both dates and numbers")
        return _numbers(cells, name, what), any(days)
    both = zip(texts, cells, strict=True)
    return [text if text is not None else [] if is_missing(cell) else [_as_text(cell)] for text, cell in both], False


def column_of_text(cells: Sequence[Any], name: str, what: str, is_category: bool = False) -> tuple[Column, bool]:
    """Return a column of a text file: as numbers or dates if all cells are, true and false as 1 and 0, else as text.

    Examples
    --------
    >>> column_of_text(["1990", "NA", ""], "year", "films.csv")[0].tolist()
    [1990.0, nan, nan]
    """
    stripped = ["" if cell is None else str(cell).strip() for cell in cells]
    known: list[Any] = [None if cell.lower() in (*MISSING, r"\n") else cell for cell in stripped]
    told = [cell for cell in known if cell is not None]
    if not is_category and all(is_number(cell) for cell in told):
        return _numbers(known, name, what), False
    if not is_category and all(cell.lower() in FLAGS for cell in told):
        return _numbers([None if cell is None else FLAGS[cell.lower()] for cell in known], name, what), False
    return column_of(known, name, what, is_category)


def texts_of(cell: Any, name: str, what: str) -> list[str] | None:
    """Return the values of a cell of text, or None for a number or a cell that is missing."""
    if isinstance(cell, (list, tuple, set, frozenset)) or (isinstance(cell, np.ndarray) and cell.ndim):
        parts = [each for each in cell if not is_missing(each)]
        if any(isinstance(each, (float, np.floating, Decimal, list, np.ndarray)) for each in parts):
            raise InputError(f"column {name!r} of {what} holds lists of numbers: give each number a column of its own")
        parts = [_decoded(each) for each in parts]
        parts = sorted(parts) if isinstance(cell, (set, frozenset)) else parts
    elif isinstance(cell, (str, bytes)):
        parts = _decoded(cell).split(SEPARATOR)
    else:
        return None
    whole = [part.encode("utf-8", "replace").decode().strip() for part in parts]  # without lone surrogates
    return [part for part in whole if part]


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def text_of_number(x: float) -> str:
    """Return the text that a number would be in a column of text: 55455, not 55455.0."""
    return str(int(x)) if float(x).is_integer() else str(float(x))


def text_of_date(days: float) -> str:
    """Return the date of a number of days."""
    return date.fromordinal(int(np.clip(round(days), 1, date.max.toordinal()))).isoformat()


def is_missing(cell: Any) -> bool:
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(cell))
    if isinstance(cell, (float, np.floating)):
        return bool(cell != cell)
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def _numbers(cells: Sequence[Any], name: str, what: str) -> NDArray[np.float64]:
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
    if is_missing(cell):
        return np.nan
    day = _day(cell)
    return float(cell) if day is None else day


def _day(cell: Any) -> float | None:
    """Return the number of days of a date; None for anything else."""
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else float(cell.astype("datetime64[D]").astype(np.int64) + EPOCH)
    return float(cell.toordinal()) if hasattr(cell, "toordinal") and not is_missing(cell) else None


def _as_text(cell: Any) -> str:
    return text_of_number(cell) if isinstance(cell, float) else str(cell)


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return DATE.fullmatch(text) is not None and date.fromisoformat(text[:10]) is not None
    return False
