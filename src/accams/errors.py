"""Exceptions raised by accams. Their messages say what is wrong and what to do."""


class AccamsError(Exception):
    """Base class of all exceptions defined by accams."""


class InputError(AccamsError, ValueError):
    """Invalid data or an invalid parameter."""


class ModelFileError(AccamsError, ValueError):
    """A model file or checkpoint that is damaged, of another kind or from a newer version."""


class MissingDataError(AccamsError, FileNotFoundError):
    """A missing data set; the message says where to get it and where to put it."""
