"""One prediction, taken apart: the offset, one signed term for each stencil, and who else is in those blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.model.codes import Codes
from accams.use.scoring import Floats

MEMBERS = 5  # that are named of a block
SHOWN = 8  # terms, of a printed explanation


@dataclass(frozen=True)
class Block:
    """The rows or columns that share a label.

    Attributes
    ----------
    label, size : int
    members : tuple
        Ids of others in it, at most five: those with most data where that is known, or that stand out most.
    """

    label: int
    size: int
    members: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.members)) or 'no other'} (of {self.size:,})"


@dataclass(frozen=True)
class Term:
    """What one stencil adds: the entry of its template for this block of rows and this block of columns."""

    stencil: int
    value: float
    users: Block
    items: Block

    @property
    def row_block(self) -> Block:
        """The block of users."""
        return self.users

    @property
    def col_block(self) -> Block:
        """The block of items."""
        return self.items


@dataclass(frozen=True, repr=False)
class Explanation:
    """A prediction as a sum.

    Attributes
    ----------
    user, item : ids
    prediction : float
        As `predict` gives it; all the parts below add up to it.
    offset : float
    terms : tuple of Term
        One for each stencil, in their order.
    effects : float
        Of this row and this column, in models that have such effects.
    remainder : float
        What the mean over many draws says beyond the one small model that explains it; 0 for a model of one sum.
    clipping : float
        What keeps the prediction within its range.
    rounding : float
        What rounding of all these sums leaves, next to nothing.
    """

    user: Any
    item: Any
    prediction: float
    offset: float
    terms: tuple[Term, ...]
    effects: float = 0.0
    remainder: float = 0.0
    clipping: float = 0.0
    rounding: float = 0.0

    def total(self) -> float:
        """The sum of all parts: the prediction, to the last bit."""
        total = self.offset
        for term in self.terms:
            total += term.value
        return total + self.effects + self.remainder + self.clipping + self.rounding

    def largest(self, n: int = SHOWN) -> list[Term]:
        """The terms that matter most, the most important one first."""
        return sorted(self.terms, key=lambda term: -abs(term.value))[:n]

    def __repr__(self) -> str:
        lines = [f"{self.prediction:.3f} for ({self.user!r}, {self.item!r}) is", f"  {self.offset:+.3f}  the average"]
        shown = self.largest()
        for term in shown:
            lines.append(f"  {term.value:+.3f}  stencil {term.stencil}: users like {term.users}")
            lines.append(f"{'':10}on items like {term.items}")
        left = [term.value for term in self.largest(len(self.terms))[len(shown) :]]
        rest = [
            (sum(left), f"{len(left)} more stencils"),
            (self.effects, "effects of the user and the item"),
            (self.remainder, "what many draws say beyond this"),
            (self.clipping, "to stay within the range of values"),
        ]
        return "\n".join(lines + [f"  {value:+.3f}  {what}" for value, what in rest if value])


@dataclass(frozen=True)
class Members:
    """Who is in which block, the most telling ones first."""

    codes: Codes
    rows: Index
    cols: Index
    weights: tuple[Floats, Floats]

    def block(self, side: int, stencil: int, label: int, itself: int) -> Block:
        """The rows (side 0) or columns (side 1) with this label; the average label stands for all.

        The one at position `itself` counts, but is not named.
        """
        labels = (self.codes.rows, self.codes.cols)[side][:-1, stencil]
        average = label == self.codes.template(stencil).shape[side] - 1
        inside = np.arange(len(labels)) if average else np.flatnonzero(labels == label)
        others = inside[inside != itself]
        first = others[np.argsort(-self.weights[side][others], kind="stable")[:MEMBERS]]
        return Block(int(label), len(inside), tuple((self.rows, self.cols)[side].ids[first].tolist()))


def explain(
    members: Members, row: int, col: int, names: tuple[Any, Any], mean: float, prediction: float, many: bool,
    lines: Sequence[Floats] | None = None, row_labels: NDArray[np.int64] | None = None, effect: float = 0.0,
) -> Explanation:  # fmt: skip
    """The parts of `prediction`, which is `mean` within a range, by a stencil sum that stands for `many` or itself.

    A row that was folded in is known by the expected lines of its templates, its most probable labels and its effect.
    """
    codes, terms = members.codes, list[Term]()
    labels = codes.rows[row] if row_labels is None else row_labels
    total = codes.offset
    for s in range(len(codes.starts)):
        a, c = int(labels[s]), int(codes.cols[col, s])
        value = float(codes.template(s)[a, c] if lines is None else lines[s][c])
        total += value
        terms.append(Term(s, value, members.block(0, s, a, row), members.block(1, s, c, col)))
    effects = effect if codes.row_effects is None or lines is not None else float(codes.row_effects[row])
    effects += 0.0 if codes.col_effects is None else float(codes.col_effects[col])
    remainder = mean - (total + effects) if many else 0.0
    clipping = prediction - mean if prediction != mean else 0.0
    rounding = prediction - (total + effects + remainder + clipping)
    return Explanation(*names, prediction, codes.offset, tuple(terms), effects, remainder, clipping, rounding)


def prominence(codes: Codes) -> tuple[Floats, Floats]:
    """How far from average each row and column is predicted: those with much data stand out most."""
    return _prominence(codes, 0), _prominence(codes, 1)


def _prominence(codes: Codes, side: int) -> Floats:
    labels, others = (codes.rows, codes.cols) if side == 0 else (codes.cols, codes.rows)
    found = np.zeros(len(labels) - 1)
    for s in range(len(codes.starts)):
        lines = np.asarray(codes.template(s) if side == 0 else codes.template(s).T, np.float64)
        shares = np.bincount(others[:-1, s], minlength=lines.shape[1])
        away = np.square(lines - lines[-1]) @ shares / max(shares.sum(), 1)
        found += away[labels[:-1, s]]
    return found
