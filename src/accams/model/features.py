"""Features of users or items as numbers: what was learned of a table of them, and how a line of it is encoded.

Every column becomes some *traits*, numbers from 0 to 1: a value of a category is a trait, and so is each of several
values of a cell; a number has at most two neighbouring traits of its column, those of the nearest typical values, with
shares that sum to 1. A cell that is missing has none, and counts as the average.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.cells import text_of_date, text_of_number
from accams.data.features import FeatureTable
from accams.data.sniff import is_number
from accams.errors import InputError, warn
from accams.threads import SINGLE_BLAS

Floats = NDArray[np.float64]
MOST_COLUMNS, MOST_TRAITS = 1000, 2000  # of a table: what takes memory and time grows with the square of the latter
MOST_VALUES = 100  # of a column of text: the most frequent ones
LONGEST = 200  # characters of a value of text that counts
FEWEST_LINES = 3  # that have a value of text, for it to count
KNOTS = 7  # typical values of a column of numbers, unless it has no more than these:
FEW_NUMBERS = 10
MOST_DIMENSIONS = 24  # of features that slopes are on: the leading principal components of all traits
LEAST_VARIANCE = 0.01  # of a component, relative to the average trait
SMALLEST_DEVIATION = 0.05  # of a trait: that of rare values is not blown up further
STEPS_SHOWN = 50  # between two typical values, to which a number is rounded for people
DIGITS = re.compile(r"\d")
ALIKE = 0.8  # of a name, from which on it is taken as an error of typing
REACH = 4.0  # standard deviations to which features are clipped


@dataclass(frozen=True)
class Trait:
    """A column of a table of features: typical values if it holds numbers, else its values of text.

    Examples
    --------
    >>> Trait("year", knots=(1986.0, 1992.5)).labels, Trait("genre", values=("Drama",)).labels
    (['year 1986', 'year 1992.5'], ['genre Drama'])
    """

    name: str
    knots: tuple[float, ...] = ()
    values: tuple[str, ...] = ()
    is_date: bool = False  # whether numbers are numbers of days

    @property
    def labels(self) -> list[str]:
        """Return what each trait of the column says, for people."""
        if not self.knots:
            return [f"{self.name} {x}" for x in self.values]
        texts = list(map(text_of_date, self.knots))
        if not self.is_date:
            told = ([f"{x:.{d}g}" for x in self.knots] for d in range(6, 18))  # as few digits as tell them apart
            texts = next((each for each in told if len(set(each)) == len(each)), texts)
        return [f"{self.name} {text}" for text in texts]

    def said(self, shares: Floats, t: int) -> str:
        """Return what trait t says of a line with these shares: of a number the number itself, nearly."""
        if not self.knots:
            return self.labels[t]
        knots, total = np.array(self.knots), float(shares.sum())
        at = min(max(t, 1), len(knots) - 1)
        x = float(shares @ knots) / total if total > 0.0 else self.knots[t]
        digits = -int(np.floor(np.log10((knots[at] - knots[at - 1]) / STEPS_SHOWN)))
        return f"{self.name} {text_of_date(x) if self.is_date else f'{round(x, digits):.12g}'}"

    @property
    def width(self) -> int:
        """Number of traits."""
        return len(self.knots or self.values)

    def encoded(self, cells: Any, size: int, are_dates: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of `size` cells, and whether each cell is known."""
        now = "dates" if are_dates else "numbers" if isinstance(cells, np.ndarray) else "text"
        if self.knots and now == "text" and cells is not None and not self.is_date:
            cells = _read_as_numbers(cells)
        elif self.values and now == "numbers":
            cells = self._read_as_text(cells)
        numeric = isinstance(cells, np.ndarray)
        if cells is None or (numeric and np.isnan(cells).all()) or not (numeric or any(cells)):
            return np.zeros((size, self.width)), np.zeros(size, np.bool_)
        if numeric != bool(self.knots) or are_dates != self.is_date:
            was = "dates" if self.is_date else "numbers" if self.knots else "text"
            raise InputError(f"feature {self.name!r} held {was} when the model was fitted, and now holds {now}")
        return _of_numbers(np.array(self.knots), cells) if numeric else self._of_texts(cells)

    def _read_as_text(self, cells: Floats) -> Any:
        """Return numbers as the text that they would have been, if some values of the column look like numbers."""
        if not any(map(is_number, self.values)):
            return cells
        return [[] if np.isnan(x) else [text_of_number(x)] for x in cells.tolist()]

    def _of_texts(self, cells: Sequence[list[str]]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of cells; those that have no value that counts are as missing ones."""
        places, out = {x: p for p, x in enumerate(self.values)}, np.zeros((len(cells), len(self.values)))
        for line, texts in zip(out, cells, strict=True):
            line[[places[x] for x in texts if x in places]] = 1.0
        return out, np.asarray(out.any(axis=1))


def _read_as_numbers(cells: Sequence[list[str]]) -> Any:
    """Return text as the numbers that it stands for, if it stands for any."""
    with suppress(ValueError):
        return np.array([float(texts[0]) if len(texts) == 1 else np.nan for texts in cells])
    return cells


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
        if len(table.columns) > MOST_COLUMNS:
            raise InputError(
                f"a table of features has {len(table.columns):,} columns, and {MOST_COLUMNS:,} are the most: keep "
                "those that matter, or take their principal components (sklearn.decomposition.PCA)"
            )
        room = max(MOST_TRAITS // len(table.columns), 2)
        for name, cells in table.columns.items():
            trait = _trait(name, cells, room, name in table.dates)
            columns += [] if trait is None else [trait]
            left_out += [name] if trait is None else []
        rule = f"without two different values (of {FEWEST_LINES} lines each)"
        if not columns:
            raise InputError(f"all features are {rule}: there is nothing to learn from {_named(left_out)}")
        if left_out:
            warn(f"features {rule} are left out: {_named(left_out)}")
        nothing = np.zeros(sum(trait.width for trait in columns))
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
        keep = keep[sizes[keep] > min(LEAST_VARIANCE, 0.5 * sizes[keep[0]])]  # not all of those of rare values alone
        vectors = (
            vectors[:, keep] * np.where(vectors[np.argmax(np.abs(vectors), axis=0), range(len(sizes))] < 0, -1, 1)[keep]
        )
        return replace(draft, components=vectors / np.sqrt(sizes[keep].max()))

    @property
    def labels(self) -> list[str]:
        """Return what each trait says."""
        return [label for trait in self.columns for label in trait.labels]

    def said(self, traits: Floats, t: int) -> str:
        """Return what trait t says of a line with these standardised traits, for people."""
        ends = np.cumsum([column.width for column in self.columns])
        c = int(np.searchsorted(ends, t, side="right"))
        some = slice(ends[c] - self.columns[c].width, ends[c])
        return self.columns[c].said(traits[some] * self.deviation[some] + self.mean[some], t - int(some.start))

    def check_names(self, names: Iterable[str]) -> None:
        """Raise InputError for a name that is nearly that of a feature which is not given: it is hardly another."""
        given, known = set(names), [column.name for column in self.columns]
        missing = [name for name in known if name not in given]
        for name in sorted(given.difference(known)):
            near = get_close_matches(name, missing, n=1, cutoff=ALIKE)
            if near and DIGITS.sub("", near[0]) != DIGITS.sub("", name):  # tag_1 and tag_10 are both meant
                raise InputError(f"no feature is called {name!r}: do you mean {near[0]!r}?")

    def traits(self, table: FeatureTable) -> Floats:
        """Return the standardised traits of every line; 0 where its cell is missing. Unknown columns are ignored."""
        return self.standardised(*self.shares(table))

    def standardised(self, shares: Floats, known: NDArray[np.bool_]) -> Floats:
        """Return traits of mean 0 and variance 1; 0 where nothing is known."""
        return np.asarray((shares - self.mean) / self.deviation * known)

    def shares(self, table: FeatureTable) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the traits of every line, from 0 to 1, and whether they are known."""
        self.check_names(table.columns)
        if not any(trait.name in table.columns for trait in self.columns):
            raise InputError(
                f"none of the features that the model knows is given: {_named([trait.name for trait in self.columns])}"
            )
        size, dates = len(table.ids), table.dates
        return _joined([x.encoded(table.columns.get(x.name), size, x.name in dates) for x in self.columns])

    def features(self, table: FeatureTable) -> Floats:
        """Return what slopes are on: principal components of the traits, the first of variance 1."""
        return np.concatenate([self.projected(self.traits(x)) for _, x in table.pieces()])

    def projected(self, traits: Floats) -> Floats:
        """Return the same for standardised traits."""
        with SINGLE_BLAS:
            return np.asarray(np.clip(traits @ self.components, -REACH, REACH))


def _trait(name: str, cells: Any, room: int, is_date: bool) -> Trait | None:
    """Return a column as so many traits at most, or None if it does not tell lines apart."""
    if isinstance(cells, np.ndarray):
        x = cells[np.isfinite(cells)]
        knots = np.unique(x)
        if len(knots) > min(FEW_NUMBERS, room):
            knots = np.unique(np.quantile(x, np.linspace(0.0, 1.0, min(KNOTS, room))))
        return Trait(name, tuple(knots.tolist()), is_date=is_date) if len(knots) > 1 else None
    counts = Counter(text for texts in cells for text in set(texts))
    short = Counter({text: n for text, n in counts.items() if len(text) <= LONGEST})
    some = {text for text, n in short.most_common(min(MOST_VALUES, room)) if n >= FEWEST_LINES}
    known = sum(not some.isdisjoint(texts) for texts in cells)
    tells = any(counts[text] < known for text in some)
    return Trait(name, values=tuple(sorted(some))) if tells else None


def _joined(parts: list[tuple[Floats, NDArray[np.bool_]]]) -> tuple[Floats, NDArray[np.bool_]]:
    masks = [np.repeat(known[:, None], F.shape[1], axis=1) for F, known in parts]
    return np.hstack([F for F, _ in parts]), np.hstack(masks)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown + (", ..." if len(names) > 8 else "")
