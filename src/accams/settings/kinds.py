"""Kinds of parameter values: what is allowed, how it is said, and how it is read from text.

A kind checks a value that was passed in Python and reads one that was typed on the command line or in a configuration
file. All messages have one form: ``name must be <text of the kind>, not <value>``.
"""

import re
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from accams.errors import InputError

MAX_CLUSTERS = 1024  # labels per side that the kernels can pack (accams.kernels.sparse.MAX_LABELS)
UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number, and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


class Kind:
    """A kind of value. Subclasses say what they allow in `text` and decide in `allows`."""

    text: str = "anything"
    metavar: str = "VALUE"
    letter: str = "X"  # a short metavar
    type: str = "object"  # as in docstrings

    def allows(self, value: Any) -> bool:
        """Return whether `value` is of this kind."""
        return True

    def read(self, text: str) -> Any:
        """Parse `text`; raise ValueError if it is not of this kind."""
        return text

    def convert(self, value: Any) -> Any:
        """Return a value of a configuration file as Python has it: TOML knows lists but no tuples."""
        return value

    def check(self, name: str, value: Any) -> None:
        """Raise InputError unless `value` is of this kind."""
        if not self.allows(value):
            raise InputError(f"{name} must be {self.text}, not {value!r}")

    def parse(self, name: str, text: Any) -> Any:
        """Return the value that `text` (or a value of a configuration file) stands for, checked."""
        try:
            value = self.read(text) if isinstance(text, str) else self.convert(text)
        except ValueError:
            raise InputError(f"{name} must be {self.text}, not {text!r}") from None
        self.check(name, value)
        return value


class Integer(Kind):
    """An integer of at least `low`."""

    type = "int"
    metavar, letter = "INTEGER", "N"

    def __init__(self, low: int = 1) -> None:
        self.low = low
        self.text = f"an integer of at least {low}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= self.low

    def read(self, text: str) -> int:
        return int(text)


class Number(Kind):
    """A finite number of at least `low` (or above it, if `open_low`) and at most `high`."""

    type = "float"
    metavar = "NUMBER"

    def __init__(self, low: float = 0.0, high: float = float("inf"), open_low: bool = False) -> None:
        self.low, self.high, self.open_low = low, high, open_low
        bound = f"above {low:g}" if open_low else f"of at least {low:g}"
        self.text = f"a number {bound}" + ("" if high == float("inf") else f" and at most {high:g}")

    def allows(self, value: Any) -> bool:
        if not is_number(value) or not float("-inf") < value < float("inf"):
            return False
        return (self.low < value if self.open_low else self.low <= value) and bool(value <= self.high)

    def read(self, text: str) -> float:
        return float(text)


POSITIVE = Number(0.0, open_low=True)


class Words(Kind):
    """One of a few words, True, False or None."""

    letter = "NAME"

    def __init__(self, *words: Any) -> None:
        self.words = words
        self.text = " or ".join(map(repr, words))
        self.type = self.text if len(words) == 1 else f"{{{', '.join(map(repr, words))}}}"
        if True in words:
            self.type = " or ".join(["bool", *(repr(word) for word in words if not isinstance(word, bool))])
        self.metavar = "|".join(str(word).lower() for word in words)

    def allows(self, value: Any) -> bool:
        plain = value.item() if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 else value
        return any(type(plain) is type(word) and plain == word for word in self.words)

    def read(self, text: str) -> Any:
        for word in self.words:
            if text.lower() == str(word).lower():
                return word
        raise ValueError(text)


FLAG = Words(True, False)


class Either(Kind):
    """A value of one of several kinds; text is read by the first kind that takes it."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds
        self.text = " or ".join(kind.text for kind in kinds)
        self.type = " or ".join(kind.type for kind in kinds[::-1])
        self.metavar, self.letter = "|".join(kind.metavar for kind in kinds), kinds[-1].letter

    def allows(self, value: Any) -> bool:
        return any(kind.allows(value) for kind in self.kinds)

    def convert(self, value: Any) -> Any:
        return next((x for kind in self.kinds if kind.allows(x := kind.convert(value))), value)

    def read(self, text: str) -> Any:
        for kind in self.kinds:
            try:
                return kind.read(text)
            except ValueError:
                continue
        raise ValueError(text)


class Several(Kind):
    """A value, or a sequence of values (as text: separated by commas)."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.text, self.metavar = f"{kind.text} or a list of those", f"{kind.metavar}[,{kind.metavar}...]"
        self.type = f"{kind.type} or list of {kind.type}"

    def allows(self, value: Any) -> bool:
        if self.kind.allows(value):
            return True
        listed = isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1
        return listed and not isinstance(value, str) and len(value) > 0 and all(map(self.kind.allows, value))

    def read(self, text: str) -> Any:
        values = [self.kind.read(part) for part in text.split(",")]
        return values if len(values) > 1 else values[0]


class Pair(Kind):
    """Two positive numbers: shape and scale of an inverse gamma distribution."""

    type = "(float, float)"
    text = "two numbers above 0 (shape and scale of an inverse gamma distribution)"
    metavar = "SHAPE,SCALE"

    def allows(self, value: Any) -> bool:
        return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(POSITIVE.allows, value))

    def read(self, text: str) -> tuple[float, ...]:
        return tuple(float(part) for part in text.split(","))

    def convert(self, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Clusters(Kind):
    """Row and column clusters of the stencils: k, (k_rows, k_cols), or a list of those."""

    type = "int, (int, int) or list of those"
    text = f"an integer from 1 to {MAX_CLUSTERS}, a tuple (rows, columns) of those, or a list of either"
    metavar, letter = "K|ROWSxCOLUMNS", "K"

    def allows(self, value: Any) -> bool:
        listed = value if isinstance(value, list) else [value]
        return len(listed) > 0 and all(self._one(each) for each in listed)

    def _one(self, value: Any) -> bool:
        sizes = value if isinstance(value, tuple) and len(value) == 2 else (value,)
        return all(Integer(1).allows(k) and int(k) <= MAX_CLUSTERS for k in sizes)

    def read(self, text: str) -> Any:
        listed = [tuple(int(k) for k in part.lower().split("x")) for part in text.split(",")]
        sizes = [each[0] if len(each) == 1 else each for each in listed]
        return sizes[0] if len(sizes) == 1 else sizes

    def convert(self, value: Any) -> Any:
        return [tuple(each) if isinstance(each, list) else each for each in value] if isinstance(value, list) else value


class Clip(Kind):
    """True, False or a range."""

    text = "True, False or (low, high)"
    type = "bool or (float, float)"
    metavar = "true|false|LOW,HIGH"

    def allows(self, value: Any) -> bool:
        if isinstance(value, bool):
            return True
        pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_number, value))
        return pair and bool(value[0] < value[1])

    def read(self, text: str) -> Any:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        return tuple(float(part) for part in text.split(","))

    def convert(self, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Seed(Kind):
    """A seed as scikit-learn has it: None, an integer, or a generator of NumPy."""

    text = "None, a non-negative integer or a NumPy generator"
    type = "int, RandomState, Generator or None"
    metavar, letter = "none|INTEGER", "N"

    def allows(self, value: Any) -> bool:
        return value is None or Integer(0).allows(value) or hasattr(value, "bit_generator") or hasattr(value, "randint")

    def read(self, text: str) -> int | None:
        return None if text.lower() == "none" else int(text)


class Bytes(Kind):
    """A size in bytes; as text also 500MB or 8GiB.

    Examples
    --------
    >>> Bytes().read("8GB"), Bytes().read("1.5 KiB")
    (8000000000.0, 1536.0)
    """

    text = "a size in bytes, such as 8e9 (as text also 500MB or 8GiB)"
    type = "float"
    metavar = "SIZE"

    def allows(self, value: Any) -> bool:
        return POSITIVE.allows(value)

    def read(self, text: str) -> float:
        parts = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?) *([kmgt]?)(i?)b?", text.strip().lower())
        if parts is None:
            raise ValueError(text)
        return float(parts[1]) * (1024.0 if parts[3] else 1000.0) ** UNITS[parts[2]]


class Text(Kind):
    """Text of any kind; `text` says what it stands for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def allows(self, value: Any) -> bool:
        return isinstance(value, str)


class FilePath(Kind):
    """A path of a file whose folder exists."""

    text = "a path in a folder that exists"
    type = "path"
    metavar = letter = "PATH"

    def allows(self, value: Any) -> bool:
        return isinstance(value, (str, Path)) and Path(value).parent.is_dir()


class Callables(Kind):
    """None or a sequence of callables."""

    text = "None or a list of callables"
    type = "list of callables or None"

    def allows(self, value: Any) -> bool:
        return value is None or (isinstance(value, (tuple, list)) and all(map(callable, value)))


class Instance(Kind):
    """None, or an instance of a class."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.text, self.type = f"None or an instance of {cls.__name__}", f"{cls.__name__} or None"

    def allows(self, value: Any) -> bool:
        return value is None or isinstance(value, self.cls)


AUTO = Words("auto")
NONE = Words(None)
