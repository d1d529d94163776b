"""Exceptions and warnings of accams. Their messages say what is wrong and what to do."""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


INSIDE = ("accams", "sklearn")  # packages whose frames a warning passes over
LONGEST = 900  # characters of a message, which may quote what a file holds
END = 250  # of them that say what to do


class AccamsError(Exception):
    """Base class of all exceptions defined by accams: its message is one line of printable text, and not a long one."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(str(message)))


def shown(text: str) -> str:
    """Return text in one line without control characters, cut in the middle where it is very long.

    Examples
    --------
    >>> shown("two\\nlines")
    'two lines'
    >>> len(shown("x" * 5000))
    900
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - END - 5]} ... {text[-END:]}"
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class InputError(AccamsError, ValueError):
    """Invalid data or an invalid parameter."""


class UnknownIdError(InputError):
    """An id that a model does not know."""


class NoValuesError(InputError):
    """A table without a column of values, where values are needed."""


class ModelFileError(AccamsError, ValueError):
    """A model file or checkpoint that is damaged, of another kind or from a newer version."""


class WriteError(InputError, ModelFileError):
    """A file or folder that cannot be written: the disk is full, or the place is not writable."""


class MissingDataError(AccamsError, FileNotFoundError):
    """A missing data set; the message says where to get it and where to put it."""


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written; the fit goes on, and tries again."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package, however many frames of it or of scikit-learn are in between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def warn_deprecated(old: str, new: str) -> None:
    """Warn about a name that is to go."""
    warn(f"{old} is deprecated, to be removed in 0.3: use {new}", FutureWarning)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keyword arguments by former names, such as ``renamed(seen="history")``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> R:
            for old in names.keys() & given.keys():
                warn_deprecated(f"{old} of {function.__name__}", names[old])
                given[names[old]] = given.pop(old)
            return function(*args, **given)

        return call

    return decorate
