"""What a model knows of its users or items beside ratings: their features, and what these tell of new ones."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.features import PIECE, FeatureTable
from accams.model.container import Tensors
from accams.model.features import Encoder, Trait
from accams.model.limits import check_numbers
from accams.settings.kinds import FLAG
from accams.settings.schema import FINITE, ListOf, Schema, Text

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
STEPS, MISSING = 254, 255  # of a trait from 0 to 1, and a cell that is missing
TRAIT = Schema(
    1, ("knots", "values", "dates"), name=Text(), knots=ListOf(FINITE), values=ListOf(Text()), dates=FLAG
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Features of one side (users or items) of a model.

    Attributes
    ----------
    encoder : Encoder
    codes : array (lines, traits)
        Traits of every line in 254ths; 255 where nothing is known.
    penalty : float
        Ridge penalty of the regression of labels on traits (`accams.use.traits`).
    power : float
        A line counts there by its number of ratings to this power.
    spread : float
        Variance of what the features do not tell of a new line, beside that of the draws.
    """

    encoder: Encoder
    codes: Bytes
    penalty: float = 1.0
    power: float = 1.0
    spread: float = 0.0

    @classmethod
    def of(cls, encoder: Encoder, table: FeatureTable, lines: Positions, size: int) -> Self:
        """Return what is known of `size` lines, given a table of some of them."""
        nothing = np.full((size, len(encoder.mean)), MISSING, np.uint8)
        return cls(encoder, nothing).put(lines, size, table)

    def put(self, lines: Positions, size: int, table: FeatureTable) -> Self:
        """Return what is known of `size` lines, with the features of a table for `lines`."""
        codes = np.full((size, len(self.encoder.mean)), MISSING, np.uint8)
        codes[: min(size, len(self.codes))] = self.codes[:size]
        told = np.repeat(
            [x.name in table.columns for x in self.encoder.columns], [x.width for x in self.encoder.columns]
        )
        for part, some in table.pieces():
            shares, known = self.encoder.shares(some)
            new = np.where(known, np.rint(STEPS * shares), MISSING).astype(np.uint8)
            codes[lines[part]] = np.where(told, new, codes[lines[part]])
        return replace(self, codes=codes)

    def grown(self, size: int) -> Self:
        """Return what is known of more lines, of which nothing is."""
        codes = np.full((size, self.codes.shape[1]), MISSING, np.uint8)
        codes[: len(self.codes)] = self.codes
        return replace(self, codes=codes)

    def without(self, line: int) -> Self:
        """Return what is known without one line."""
        return replace(self, codes=np.delete(self.codes, line, axis=0))

    @property
    def kinds(self) -> dict[str, bool]:
        """Whether each column holds numbers."""
        return {column.name: bool(column.knots) for column in self.encoder.columns}

    @property
    def given(self) -> NDArray[np.bool_]:
        """Whether anything is known of each line."""
        return self.given_of(slice(None))

    def given_of(self, lines: Positions | slice) -> NDArray[np.bool_]:
        """Return whether anything is known of some lines."""
        return np.asarray((self.codes[lines] != MISSING).any(axis=1))

    def traits(self, lines: Positions) -> Floats:
        """Return the standardised traits of these lines."""
        codes = self.codes[lines]
        standard = (codes / STEPS - self.encoder.mean) / self.encoder.deviation
        return np.asarray(standard * (codes != MISSING))

    def shares(self, lines: Positions) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of these lines, from 0 to 1, and whether they are known."""
        codes = self.codes[lines]
        return np.minimum(codes / STEPS, 1.0), codes != MISSING

    def features(self) -> Floats:
        """Return what slopes are on, for every line."""
        lines = np.array_split(np.arange(len(self.codes)), -(-len(self.codes) // PIECE) or 1)
        return np.concatenate([self.encoder.projected(self.traits(some)) for some in lines])


def pack(known: Knowledge) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors of a file."""
    encoder = known.encoder
    columns = [
        {"name": x.name, **({"knots": list(x.knots)} if x.knots else {"values": list(x.values)})}
        | ({"dates": True} if x.is_date else {})
        for x in encoder.columns
    ]
    fields = {"penalty": known.penalty, "power": known.power, "spread": known.spread, "columns": columns}
    tensors: Tensors = {"codes": known.codes, "mean": encoder.mean, "deviation": encoder.deviation}
    return fields, {**tensors, "components": encoder.components}


def unpack(fields: dict[str, Any], tensors: Tensors, size: int) -> Knowledge:
    """Undo `pack`; raise ValueError for what does not go together."""
    columns = []
    for column in fields["columns"]:
        TRAIT.check("features", column)
        knots, values = column.get("knots", []), column.get("values", [])
        if bool(knots) == bool(values) or (len(knots) == 1) or (np.diff(knots) <= 0).any():
            raise ValueError("its features cannot be")
        columns.append(Trait(column["name"], tuple(map(float, knots)), tuple(values), bool(column.get("dates"))))
    p = sum(column.width for column in columns)
    mean, deviation, components = (tensors[name] for name in ("mean", "deviation", "components"))
    right = mean.dtype == deviation.dtype == components.dtype == np.float64 and tensors["codes"].dtype == np.uint8
    shapes = mean.shape == deviation.shape == (p,) and components.ndim == 2 and len(components) == p
    if not right or not shapes or tensors["codes"].shape != (size, p) or not p:
        raise ValueError("its features have a wrong type or length")
    for x in (mean, deviation, components):
        check_numbers(x)
    if (deviation <= 0.0).any():
        raise ValueError("the deviations of its features cannot be")
    return Knowledge(
        Encoder(tuple(columns), mean, deviation, components), tensors["codes"], float(fields["penalty"]),
        float(fields["power"]), float(fields["spread"]),
    )  # fmt: skip
