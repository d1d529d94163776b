"""Search for the price per bit at which the file of a model just fits into a given number of bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from accams.model import file
from accams.model.stencils import StencilSum

Unseen = tuple[NDArray[np.int64], NDArray[np.int64]]
TRIES, MOST_TRIES = 16, 40  # prices to try; up to the second number while no file is small enough
CLOSE = 0.015  # fraction of the bytes that may stay unused
TOO_FAR = 0.05  # a larger unused fraction means that the price was much too high
SLOPE = 0.55  # file sizes fall approximately as price^-SLOPE
NOTHING = 1e-9  # error, relative to that without stencils, below which no byte is worth spending


class Improvable(Protocol):
    """A stencil sum being optimised for a complete matrix (`Encoding`) or for observed entries (`Observed`)."""

    def round(self, price: float) -> int:
        """Improve all labels and templates at this price per bit; return the number of labels changed."""

    def copy(self) -> Self:
        """Return an independent copy."""

    def rounded(self, price: float) -> Self:
        """Return a copy with templates quantised for this price, and labels reassigned to them."""

    def left(self) -> tuple[float, float, float]:
        """Return the squared error, the squared error without stencils, and the total weight."""

    def to_sum(self, price: float, unseen: Unseen) -> StencilSum:
        """Return the model with quantised templates."""


@dataclass(frozen=True)
class Round:
    """Progress of a search: rounds done and planned, current error relative to the target, and elapsed seconds."""

    done: int
    planned: int | None  # None where the end is not known
    rmse: float
    seconds: float


Watch = Callable[[Round], None]


@dataclass
class Search:
    """Size limit and progress of a search."""

    max_bytes: int
    least: int  # file size of a model without stencils
    unseen: Unseen
    planned: int
    watch: Watch | None = None
    began: float = 0.0
    done: int = 0

    def __post_init__(self) -> None:
        self.began = perf_counter()

    def share(self, size: int) -> float:
        """Return the fraction, clipped to [0.1, 10], of the bytes available for stencils used by this file size."""
        return float(np.clip((size - self.least) / max(self.max_bytes - self.least, 1), 0.1, 10.0))

    def size(self, model: Improvable, price: float) -> int:
        return len(file.to_bytes(model.to_sum(price, self.unseen)))

    def improve(self, model: Improvable, price: float, rounds: int) -> None:
        """Make up to `rounds` rounds, until no label changes."""
        for _ in range(rounds):
            moved = model.round(price)
            self.done += 1
            self.report(model)
            if moved == 0:
                break

    def fit(self, model: Improvable, price: float) -> StencilSum | None:
        """Return the best model whose file has at most `max_bytes`, or None if no price gave one.

        Improving a model at a price removes labels and stencils for good. If a price removed far too much, the search
        therefore returns to the last model that was too large, with a price in between.
        """
        best: tuple[float, StencilSum] | None = None
        too_large: tuple[float, Improvable] | None = None
        tries, failures = 0, 0  # `failures`: files in a row that were too large
        while tries < TRIES or (best is None and tries < MOST_TRIES):
            rounded = model.rounded(price)
            candidate, error = rounded.to_sum(price, self.unseen), rounded.left()[0]
            size = len(file.to_bytes(candidate))
            if size <= self.max_bytes and (best is None or error < best[0]):
                best = error, candidate
            if size <= self.max_bytes and (size >= (1.0 - CLOSE) * self.max_bytes or not worth_more(model)):
                break
            failures = failures + 1 if size > self.max_bytes else 0
            if failures:
                too_large = price, model.copy()
                price *= max(self._factor(size), 1.05 ** min(2**failures, 64))
            elif too_large is not None and size < (1.0 - TOO_FAR) * self.max_bytes:
                price, model = float(np.sqrt(price * too_large[0])), too_large[1].copy()
            else:
                price *= self._factor(size)
            self.improve(model, price, 1)
            tries += 1
        return None if best is None else best[1]

    def _factor(self, size: int) -> float:
        """Return the factor for the price after a file of this size, by the power law of `SLOPE`."""
        return float(np.clip(self.share(size) / (1.0 - CLOSE / 2.0), 0.5, 2.0) ** (1.0 / SLOPE))

    def report(self, model: Improvable) -> None:
        if self.watch is not None:
            error, _, weight = model.left()
            rmse = float(np.sqrt(max(error, 0.0) / weight))
            self.watch(Round(self.done, max(self.planned, self.done), rmse, perf_counter() - self.began))


def worth_more(model: Improvable) -> bool:
    """Return whether enough error is left to spend bytes on."""
    error, without_stencils, _ = model.left()
    return error > NOTHING * without_stencils
