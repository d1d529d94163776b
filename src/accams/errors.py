"""Exceptions and warnings of accams. Their messages say what is wrong and what to do."""

import sys
import warnings


class AccamsError(Exception):
    """Base class of all exceptions defined by accams."""


class InputError(AccamsError, ValueError):
    """Invalid data or an invalid parameter."""


class ModelFileError(AccamsError, ValueError):
    """A model file or checkpoint that is damaged, of another kind or from a newer version."""


class MissingDataError(AccamsError, FileNotFoundError):
    """A missing data set; the message says where to get it and where to put it."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package, however many of its own functions are in between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "accams":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def warn_deprecated(old: str, new: str) -> None:
    """Warn about a name that is to go."""
    warn(f"{old} is deprecated, to be removed in 0.3: use {new}", FutureWarning)
