"""Features of users or items as numbers: what was learned of a table of them, and how a line of it is encoded.

Every column becomes some *traits*, numbers from 0 to 1: a value of a category is a trait, and so is each of several
values of a cell; a number has at most two neighbouring traits of its column, those of the nearest typical values, with
shares that sum to 1. A cell that is missing has none, and counts as the average.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.features import FeatureTable
from accams.errors import InputError, warn
from accams.threads import SINGLE_BLAS

Floats = NDArray[np.float64]
MOST_VALUES = 100  # of a column of text: the most frequent ones
LONGEST = 200  # characters of a value of text that counts
FEWEST_LINES = 3  # that have a value of text, for it to count
KNOTS = 7  # typical values of a column of numbers, unless it has no more than these:
FEW_NUMBERS = 10
MOST_DIMENSIONS = 24  # of features that slopes are on: the leading principal components of all traits
LEAST_VARIANCE = 0.01  # of a component, relative to the average trait
SMALLEST_DEVIATION = 0.05  # of a trait: that of rare values is not blown up further
REACH = 4.0  # standard deviations to which features are clipped


@dataclass(frozen=True)
class Trait:
    """A column of a table of features: typical values if it holds numbers, else its values of text."""

    name: str
    knots: tuple[float, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Return what each trait of the column says, for people."""
        return [f"{self.name} {x:g}" for x in self.knots] or [f"{self.name} {x}" for x in self.values]

    def encoded(self, cells: Any, size: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of `size` cells, and whether each cell is known."""
        numeric = isinstance(cells, np.ndarray)
        if self.knots and cells is not None and not numeric:  # numbers that were told as text
            with suppress(ValueError):
                one = [float(texts[0]) if len(texts) == 1 else np.nan for texts in cells]
                cells, numeric = np.array(one), True
        if cells is None or (numeric and np.isnan(cells).all()) or not (numeric or any(cells)):
            return np.zeros((size, len(self.labels))), np.zeros(size, np.bool_)
        if numeric != bool(self.knots):
            kinds = ("numbers", "text") if self.knots else ("text", "numbers")
            raise InputError(
                f"feature {self.name!r} held {kinds[0]} when the model was fitted, and now holds {kinds[1]}"
            )
        return _of_numbers(np.array(self.knots), cells) if numeric else self._of_texts(cells)

    def _of_texts(self, cells: Sequence[list[str]]) -> tuple[Floats, NDArray[np.bool_]]:
        places, out = {x: p for p, x in enumerate(self.values)}, np.zeros((len(cells), len(self.values)))
        for line, texts in zip(out, cells, strict=True):
            line[[places[x] for x in texts if x in places]] = 1.0
        return out, np.array([bool(texts) for texts in cells], np.bool_)


def _of_numbers(knots: Floats, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    known, out = np.isfinite(x), np.zeros((len(x), len(knots)))
    inside = np.clip(np.where(known, x, knots[0]), knots[0], knots[-1])
    at = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    share = (inside - knots[at]) / (knots[at + 1] - knots[at])
    lines = np.arange(len(x))
    out[lines, at], out[lines, at + 1] = 1.0 - share, share
    return out * known[:, None], known


@dataclass(frozen=True, eq=False)
class Encoder:
    """What was learned of a table: its columns, mean and deviation of every trait, and their principal components.

    Examples
    --------
    >>> import pandas as pd
    >>> films = pd.DataFrame({"item": range(8), "year": [1990.0, 2000] * 4, "genre": ["Comedy", "Drama"] * 4})
    >>> table = FeatureTable.of(films, 1)
    >>> encoder = Encoder.learned(table)
    >>> encoder.labels
    ['year 1990', 'year 2000', 'genre Comedy', 'genre Drama']
    >>> encoder.features(table)[:2].round(2).tolist()  # year and genre say the same here
    [[1.0], [-1.0]]
    """

    columns: tuple[Trait, ...]
    mean: Floats
    deviation: Floats
    components: Floats  # (trait, dimension)

    @classmethod
    def learned(cls, table: FeatureTable) -> Self:
        """Learn the values of all columns; those without two different values are left out, with a warning."""
        size, columns, left_out = len(table.ids), list[Trait](), list[str]()
        for name, cells in table.columns.items():
            trait = _trait(name, cells)
            columns += [] if trait is None else [trait]
            left_out += [name] if trait is None else []
        if left_out:
            warn(
                f"features without two different values (of {FEWEST_LINES} lines each) are left out: {_named(left_out)}"
            )
        if not columns:
            raise InputError("no feature has two different values: there is nothing to learn from")
        nothing = np.zeros(sum(len(trait.labels) for trait in columns))
        draft = cls(tuple(columns), nothing, nothing, np.zeros((0, 0)))
        parts = ((F, known, np.square(F) * known) for F, known in (draft.shares(x) for _, x in table.pieces()))
        total, number, squares = (sum(each) for each in zip(*([x.sum(axis=0) for x in p] for p in parts), strict=True))
        counts = np.maximum(number, 1)
        mean = total / counts
        deviation = np.sqrt(np.maximum(squares / counts - np.square(mean), SMALLEST_DEVIATION**2))
        draft = replace(draft, mean=mean, deviation=deviation)
        with SINGLE_BLAS:  # whose sums depend on the number of threads
            products = sum(Z.T @ Z for Z in (draft.traits(x) for _, x in table.pieces()))
            sizes, vectors = np.linalg.eigh(products / size)
        keep = np.argsort(-sizes)[:MOST_DIMENSIONS]
        keep = keep[sizes[keep] > LEAST_VARIANCE]
        vectors = (
            vectors[:, keep] * np.where(vectors[np.argmax(np.abs(vectors), axis=0), range(len(sizes))] < 0, -1, 1)[keep]
        )
        return replace(draft, components=vectors / np.sqrt(sizes[keep].max()))

    @property
    def labels(self) -> list[str]:
        """Return what each trait says."""
        return [label for trait in self.columns for label in trait.labels]

    def traits(self, table: FeatureTable) -> Floats:
        """Return the standardised traits of every line; 0 where its cell is missing. Unknown columns are ignored."""
        F, known = self.shares(table)
        return (F - self.mean) / self.deviation * known

    def shares(self, table: FeatureTable) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of every line, from 0 to 1, and whether they are known."""
        known = [trait.name for trait in self.columns if trait.name in table.columns]
        if not known:
            raise InputError(
                f"none of the features that the model knows is given: {_named([trait.name for trait in self.columns])}"
            )
        return _joined([trait.encoded(table.columns.get(trait.name), len(table.ids)) for trait in self.columns])

    def features(self, table: FeatureTable) -> Floats:
        """Return what slopes are on: principal components of the traits, the first of variance 1."""
        return np.concatenate([self.projected(self.traits(x)) for _, x in table.pieces()])

    def projected(self, traits: Floats) -> Floats:
        """Return the same for standardised traits."""
        with SINGLE_BLAS:
            return np.asarray(np.clip(traits @ self.components, -REACH, REACH))


def _trait(name: str, cells: Any) -> Trait | None:
    """Return a column as traits, or None if it does not tell lines apart."""
    if isinstance(cells, np.ndarray):
        x = cells[np.isfinite(cells)]
        knots = np.unique(x)
        if len(knots) > FEW_NUMBERS:
            knots = np.unique(np.quantile(x, np.linspace(0.0, 1.0, KNOTS)))
        return Trait(name, knots=tuple(knots.tolist())) if len(knots) > 1 else None
    counts = Counter(text for texts in cells for text in set(texts))
    short = Counter({text: n for text, n in counts.items() if len(text) <= LONGEST})
    some = [text for text, n in short.most_common(MOST_VALUES) if n >= FEWEST_LINES]
    known = sum(bool(texts) for texts in cells)
    telling = [text for text in some if counts[text] < known]
    return Trait(name, values=tuple(sorted(telling))) if telling else None


def _joined(parts: list[tuple[Floats, NDArray[np.bool_]]]) -> tuple[Floats, NDArray[np.bool_]]:
    masks = [np.repeat(known[:, None], F.shape[1], axis=1) for F, known in parts]
    return np.hstack([F for F, _ in parts]), np.hstack(masks)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown + (", ..." if len(names) > 8 else "")
