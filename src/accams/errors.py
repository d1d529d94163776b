"""The exceptions that accams raises on purpose, each with a message that says what to do."""

from __future__ import annotations


class AccamsError(Exception):
    """Base class of all errors that accams raises on purpose."""


class InputError(AccamsError, ValueError):
    """The data or a parameter cannot be used as it is; the message says what to change."""


class ModelFileError(AccamsError, ValueError):
    """A model file is damaged, foreign or from a newer version."""


class MissingDataError(AccamsError, FileNotFoundError):
    """A data set was not found; the message says where to get it and where to put it."""
