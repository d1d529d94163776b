"""Schemas of what files hold as JSON: which fields there are, of which kind."""

from typing import Any

from accams.settings.kinds import Kind, Number

LARGEST = 1e32  # of the numbers of a model: data may go up to 1e30, and squares must not overflow
FINITE = Number(-LARGEST, LARGEST)
MOST = 1e100  # of squares of those: their own squares are finite
SCALE = Number(0.0, MOST)
TEXT = 10_000  # characters at most of a piece of text in a header


class Count(Kind):
    """A number of things that can be counted, of less than 2 to the power of `bits`."""

    def __init__(self, bits: int = 31) -> None:
        self.bits, self.text = bits, f"an integer from 0 to {(1 << bits) - 1}"

    def allows(self, value: Any) -> bool:
        return type(value) is int and 0 <= value < 1 << self.bits


class NotANumber(Kind):
    """A quantity that is not known."""

    text = "not a number"

    def allows(self, value: Any) -> bool:
        return isinstance(value, float) and value != value


NAN = NotANumber()


class Text(Kind):
    """A piece of text that is not too long."""

    text = f"text of at most {TEXT:,} characters"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) <= TEXT


class ListOf(Kind):
    """A list of values of one kind, of a given length or of any up to `most`."""

    def __init__(self, kind: Kind, length: int | None = None, most: int = 1_000_000) -> None:
        self.kind, self.length, self.most = kind, length, most
        self.text = f"a list of {'at most ' + format(most, ',') if length is None else length}, each {kind.text}"

    def allows(self, value: Any) -> bool:
        if not isinstance(value, list) or len(value) > self.most or len(value) != (self.length or len(value)):
            return False
        return all(map(self.kind.allows, value))


class Mapping(Kind):
    """A JSON object with plain values."""

    text = "a mapping of names to plain values"

    def allows(self, value: Any) -> bool:
        return isinstance(value, dict) and len(value) <= TEXT


class Schema:
    """Fields of a part, by name; those in `optional` may be missing."""

    def __init__(self, version: int = 1, optional: tuple[str, ...] = (), /, **fields: Kind) -> None:
        self.version, self.optional, self.fields = version, optional, fields

    def check(self, part: str, given: dict[str, Any]) -> None:
        """Raise ValueError for the first field that is missing or not of its kind."""
        for name, kind in self.fields.items():
            if name not in given:
                if name not in self.optional:
                    raise ValueError(f"part {part!r} lacks the field {name!r}")
            elif not kind.allows(given[name]):
                raise ValueError(f"field {name!r} of part {part!r} must be {kind.text}")
