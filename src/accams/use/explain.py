"""Explanations: one prediction as a sum of the offset and a term per stencil, with other members of its blocks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.model.codes import Codes
from accams.use.scoring import Floats, Positions
from accams.use.terms import SHOWN, SumOfTerms, plain

MEMBERS = 5  # of a block that are named
Traits = Callable[[int, int, int], tuple[str, ...]]  # that speak for a label: given the side, the stencil and the label


@dataclass(frozen=True)
class Block:
    """The users or items that share a label.

    `members` are the ids of at most five others in it: those with most data where that is known, else the most
    prominent ones. `traits` are the features that put a user or an item without ratings of its own there, or speak
    for it beside a few ratings: the most telling first, none where no feature does.
    """

    label: int
    size: int
    members: tuple[Any, ...]
    traits: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f", by {' and '.join(self.traits)}" if self.traits else ""
        return f"{', '.join(map(str, self.members)) or 'no other'} (of {self.size:,}){by}"


@dataclass(frozen=True)
class Term:
    """The entry of one stencil's template for this block of users and this block of items."""

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
class Explanation(SumOfTerms[Term]):
    """A prediction as a sum.

    Attributes
    ----------
    user, item : ids
    prediction : float
        As `predict` returns it; the parts below add up to it.
    offset : float
    terms : tuple of Term
        One for each stencil, in their order.
    effects : float
        Effects of the user and the item, in models that have them.
    remainder : float
        Mean over many draws less the small model that explains it; 0 for a model of one sum.
    clipping : float
        Reading on the scale of ordinal values, and clipping to the range.
    rounding : float
        Rounding error of these sums.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_
    >>> told = model.explain(0, 2)
    >>> len(told.terms), bool(told.total() == told.prediction)
    (2, True)
    >>> told.terms[0].users.members
    (1,)
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

    word = "is"

    def swapped(self) -> "Explanation":
        """Return the explanation with users and items exchanged: that of a model of the transposed matrix."""
        terms = tuple(replace(term, users=term.items, items=term.users) for term in self.terms)
        return replace(self, user=self.item, item=self.user, terms=terms)

    def titled(self, titles: Mapping[Any, str]) -> "Explanation":
        """Return the explanation with titles in place of the ids of items.

        Parameters
        ----------
        titles : mapping
            Names of item ids; ids without one stay.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> import pandas as pd
        >>> from accams import ACCAMS
        >>> ratings = pd.DataFrame({"user": [1, 1, 2, 2], "item": [10, 11, 10, 11], "rating": [5, 1, 4, 2]})
        >>> model = ACCAMS(n_stencils=1, n_clusters=2, verbose=False).fit(ratings)
        >>> model.explain(1, 10).titled({10: "Alien"}).item
        'Alien'
        """

        def named(block: Block) -> Block:
            return replace(block, members=tuple(titles.get(x, x) for x in block.members))

        terms = tuple(replace(term, items=named(term.items)) for term in self.terms)
        return replace(self, item=titles.get(self.item, self.item), terms=terms)

    def total(self) -> float:
        """Return the sum of all parts: the prediction, to the last bit."""
        total = self.offset
        for term in self.terms:
            total += term.value
        return total + self.effects + self.remainder + self.clipping + self.rounding

    def _what(self) -> str:
        return f"{self.prediction:.3f} for ({plain(self.user)!r}, {plain(self.item)!r})"

    def _lines(self) -> list[tuple[float, str]]:
        terms, left = self.largest(), [term.value for term in self.largest(len(self.terms))[SHOWN:]]
        rest = [
            (sum(left), f"{len(left)} more stencils"),
            (self.effects, "effects of the user and the item"),
            (self.remainder, "what many draws say beyond this"),
            (self.clipping, "to be on the scale of the values"),
        ]
        shown = [(x.value, f"stencil {x.stencil}: users like {x.users}\non items like {x.items}") for x in terms]
        return [(self.offset, "the average"), *shown, *((value, text) for value, text in rest if value)]


@dataclass(frozen=True)
class Members:
    """Members of blocks, by decreasing weight."""

    codes: Codes
    rows: Index
    cols: Index
    weights: tuple[Floats, Floats]

    def block(self, side: int, stencil: int, label: int, itself: int) -> Block:
        """Return the block of rows (side 0) or columns (side 1) with this label; the average label stands for all.

        Position `itself` is counted but not named.
        """
        size, first = self.foremost(side, stencil)[label]
        named = first[first != itself][:MEMBERS]
        return Block(int(label), size, tuple((self.rows, self.cols)[side].ids[named].tolist()))

    def foremost(self, side: int, stencil: int) -> list[tuple[int, Positions]]:
        """Return for each label, the average one last, its number of members and the positions of the first few."""
        kept = self._kept
        if (side, stencil) not in kept:
            order = self._order[side]
            labels = (self.codes.rows, self.codes.cols)[side][:-1, stencil][order]
            inside = order[np.argsort(labels, kind="stable")]
            k = self.codes.template(stencil).shape[side] - 1
            sizes = np.bincount(labels, minlength=k + 1)[:k]
            begins = np.cumsum(sizes) - sizes
            first = [inside[lo : lo + min(size, MEMBERS + 1)] for lo, size in zip(begins, sizes, strict=True)]
            pairs = list(zip(sizes.tolist(), first, strict=True))
            kept[side, stencil] = [*pairs, (len(order), order[: MEMBERS + 1])]
        return kept[side, stencil]

    @cached_property
    def _order(self) -> tuple[Positions, Positions]:
        """Rows and columns by decreasing weight."""
        rows, cols = (np.argsort(-weights, kind="stable") for weights in self.weights)
        return rows, cols

    @cached_property
    def _kept(self) -> dict[tuple[int, int], list[tuple[int, Positions]]]:
        return {}


def explain(
    members: Members, row: int, col: int, names: tuple[Any, Any], mean: float, prediction: float, many: bool,
    lines: Sequence[Floats] | None = None, row_labels: NDArray[np.int64] | None = None, effect: float = 0.0,
    traits: Traits = lambda *_: (),
) -> Explanation:  # fmt: skip
    """Split `prediction`, which is `mean` clipped to a range, by the stencil sum of `members`.

    With `many`, that sum stands for the mean over draws. A folded-in row is given by the expected lines of its
    templates, its most probable labels and its effect. `traits` tell which features speak for a label.
    """
    codes, terms = members.codes, list[Term]()
    labels = codes.rows[row] if row_labels is None else row_labels
    total = codes.offset
    for s in range(len(codes.starts)):
        a, c = int(labels[s]), int(codes.cols[col, s])
        value = float(codes.template(s)[a, c] if lines is None else lines[s][c])
        total += value
        sides = ((0, a, row), (1, c, col))
        users, items = (replace(members.block(p, s, x, at), traits=traits(p, s, x)) for p, x, at in sides)
        terms.append(Term(s, value, users, items))
    effects = effect if codes.row_effects is None or lines is not None else float(codes.row_effects[row])
    effects += 0.0 if codes.col_effects is None else float(codes.col_effects[col])
    remainder = mean - (total + effects) if many else 0.0
    clipping = prediction - mean if prediction != mean else 0.0
    rounding = prediction - (total + effects + remainder + clipping)
    return Explanation(*names, prediction, codes.offset, tuple(terms), effects, remainder, clipping, rounding)


def prominence(codes: Codes) -> tuple[Floats, Floats]:
    """Return how far from average each row and column is predicted: those with much data are most prominent."""
    rows, cols = np.zeros(len(codes.rows) - 1), np.zeros(len(codes.cols) - 1)
    for s in range(len(codes.starts)):
        template, c, d = np.asarray(codes.template(s), np.float64), codes.rows[:-1, s], codes.cols[:-1, s]
        for total, lines, labels, others in ((rows, template, c, d), (cols, template.T, d, c)):
            shares = np.bincount(others, minlength=lines.shape[1])
            total += (np.square(lines - lines[-1]) @ shares / max(shares.sum(), 1))[labels]
    return rows, cols
