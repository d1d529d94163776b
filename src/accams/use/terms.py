"""SumOfTerms: something that is explained as a sum, printed with its largest terms."""

from html import escape
from typing import Any, Generic, TypeVar

import numpy as np

SHOWN = 8  # terms that are printed
T = TypeVar("T")


def plain(x: Any) -> Any:
    """Return an id as Python prints it: 1 rather than np.int64(1).

    Examples
    --------
    >>> plain(np.int64(1)), plain("ann")
    (1, 'ann')
    """
    return x.item() if isinstance(x, np.generic) else x


class SumOfTerms(Generic[T]):
    """Base class of explanations: `terms` with a `value` each, and what else adds to the sum."""

    terms: tuple[T, ...]
    word: str  # after the number that is explained

    def largest(self, n: int = SHOWN) -> list[T]:
        """Return the `n` largest terms, in order of magnitude.

        Parameters
        ----------
        n : int, default 8

        Returns
        -------
        list of terms
        """
        value: Any = lambda term: -abs(term.value)  # noqa: E731
        return sorted(self.terms, key=value)[:n]

    def __repr__(self) -> str:
        lines = [f"  {value:+.3f}  " + text.replace("\n", f"\n{'':10}") for value, text in self._lines()]
        return "\n".join([f"{self._what()} {self.word}", *lines])

    def _repr_html_(self) -> str:
        lines = "".join(f"<tr><td>{value:+.3f}</td><td>{escape(text)}</td></tr>" for value, text in self._lines())
        return f"<table><caption>{escape(self._what())}</caption><tbody>{lines}</tbody></table>"

    def _what(self) -> str:
        """Return the number that is explained, and whose it is."""
        raise NotImplementedError

    def _lines(self) -> list[tuple[float, str]]:
        """Return what is printed: numbers that add up, and a text for each."""
        raise NotImplementedError
