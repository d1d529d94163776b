"""Schemas of the parts of a model file: which fields each has in the header, of which kind.

A model file (format 2) names its parts in the header: ``"parts": {"stencils": {...}, "ids": {...}, ...}``. Each part
has fields there and tensors called ``part/name``. Rules for what a reader does not know:

- an unknown part whose fields have ``"optional": true`` is ignored, with a warning;
- any other unknown part is refused, since predictions could depend on it;
- unknown fields of a known part are ignored; a part whose ``"version"`` is newer than the reader's is unknown.
"""

from typing import Any

from accams.settings.common import FEEDBACK
from accams.settings.kinds import FLAG, NONE, Either, Integer, Kind, Number, Words

FINITE = Number(-1.7e308, 1.7e308)
SCALE = Number(0.0, 1e100)  # its square is finite
TEXT = 10_000  # characters at most of a piece of text in a header


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


CODING = {"stencils": Integer(0), "coded": FLAG, "alike": FLAG}
SCHEMAS: dict[str, Schema] = {
    "stencils": Schema(1, ("unseen", "coded", "alike"), offset=FINITE, unseen=ListOf(Integer(0), 2), **CODING),
    "posterior": Schema(
        1, ("coded", "alike", "effect_priors", "interaction_variance"), noise=SCALE,
        draws=ListOf(ListOf(Integer(0), 3)), offsets=ListOf(FINITE), effect_priors=ListOf(SCALE, 2),
        interaction_variance=SCALE, **CODING
    ),
    "ids": Schema(row=Words("positions", "integers", "json"), col=Words("positions", "integers", "json")),
    "values": Schema(
        1, ("range", "clip", "sigma", "zero_weight", "predicts"), predicts=FLAG, range=ListOf(FINITE, 2),
        clip=Either(Words(None, True), ListOf(FINITE, 2)), sigma=Either(NONE, SCALE), zero_weight=Either(NONE, SCALE),
    ),
    "item_map": Schema(
        penalty=SCALE, users=Integer(0), sum=Either(NONE, Mapping()),
        feedback=ListOf(Either(Words(*FEEDBACK), FINITE), 4),
    ),
    "spread": Schema(shape=ListOf(Integer(1), 2)),
    "activity": Schema(),
    "interactions": Schema(sizes=Either(Integer(0), ListOf(ListOf(Integer(0), 2)))),
    "history": Schema(names=ListOf(Text(), most=100)),
    "evaluation": Schema(result=Mapping()),
    "fit": Schema(
        1, ("names",), estimator=Text(), parameters=Mapping(), training=Mapping(), names=Either(NONE, ListOf(Text(), 2))
    ),
}  # fmt: skip
OPTIONAL = {"spread", "activity", "interactions", "history", "evaluation", "fit"}  # a reader may do without
