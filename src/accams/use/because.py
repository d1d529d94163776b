"""Why an item is in a list: one term for each item of the history."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from accams.use.terms import SHOWN, SumOfTerms, plain


class Reason(NamedTuple):
    """How much one item of the history speaks for the item that is explained: its weight times an entry of the map."""

    item: Any
    value: float


@dataclass(frozen=True, repr=False)
class ListExplanation(SumOfTerms[Reason]):
    """The score of an item in a list, as a sum over the history.

    Attributes
    ----------
    user, item : ids
    score : float
        As `recommend` returns it; the parts below add up to it.
    terms : tuple of Reason
        One for each item of the history but the item itself, largest first; none for somebody without a history, whose
        list is by popularity.
    popularity : float
        Share of users who chose the item, where that is the score.
    rounding : float
        Rounding error of these sums.

    Examples
    --------
    >>> import pandas as pd
    >>> from accams import ItemACCAMS
    >>> people, goods = ["ann", "ann", "bob", "bob", "cid"], ["tea", "milk", "tea", "milk", "rum"]
    >>> likes = pd.DataFrame({"user": people, "item": goods})
    >>> model = ItemACCAMS(penalty=1.0, verbose=False).fit(likes).model_
    >>> told = model.explain("ann", "milk")
    >>> told.terms[0].item, bool(told.total() == told.score)
    ('tea', True)
    """

    user: Any
    item: Any
    score: float
    terms: tuple[Reason, ...]
    popularity: float = 0.0
    rounding: float = 0.0

    word = "because of"

    def titled(self, titles: Mapping[Any, str]) -> "ListExplanation":
        """Return the explanation with titles in place of the ids of items.

        Parameters
        ----------
        titles : mapping
            Names of item ids; ids without one stay.

        Returns
        -------
        ListExplanation

        Examples
        --------
        >>> ListExplanation(1, 10, 0.5, (Reason(11, 0.5),)).titled({10: "Alien", 11: "Heidi"})
        0.500 for (1, 'Alien') because of
          +0.500  Heidi
        """
        terms = tuple(Reason(titles.get(x, x), value) for x, value in self.terms)
        return replace(self, item=titles.get(self.item, self.item), terms=terms)

    def total(self) -> float:
        """Return the sum of all parts: the score, to the last bit."""
        total = self.popularity
        for reason in self.terms:
            total += reason.value
        return total + self.rounding

    def without_terms(self) -> tuple[float, str]:
        """Return what there is to say of an item for which no item of a history speaks.

        Returns
        -------
        tuple (value, text)

        Examples
        --------
        >>> ListExplanation("ann", "tea", 0.0, ()).without_terms()
        (0.0, 'nothing else in the history speaks for it')
        """
        if self.popularity:
            return self.popularity, "its popularity: there is no history that speaks for it"
        return 0.0, "nothing else in the history speaks for it"

    def _what(self) -> str:
        return f"{self.score:.3f} for ({plain(self.user)!r}, {plain(self.item)!r})"

    def _lines(self) -> list[tuple[float, str]]:
        if not self.terms:
            return [self.without_terms()]
        shown, left = self.largest(), self.largest(len(self.terms))[SHOWN:]
        rest = [(sum(reason.value for reason in left), f"{len(left)} more items of the history")] if left else []
        return [*((reason.value, str(reason.item)) for reason in shown), *rest]


def because(names: tuple[Any, Any], score: float, reasons: list[Reason], popularity: float) -> ListExplanation:
    """Return the explanation of a score by these reasons."""
    ordered = tuple(sorted(reasons, key=lambda reason: -reason.value))
    draft = ListExplanation(*names, score, ordered, popularity)
    return ListExplanation(*names, score, ordered, popularity, score - draft.total())
