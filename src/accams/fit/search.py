"""Turning the price of a bit until a model's file is as large as it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from accams.model import file
from accams.model.stencils import StencilSum

Unseen = tuple[NDArray[np.int64], NDArray[np.int64]]
TRIES, MOST_TRIES = 16, 40  # prices; more only as long as no file is small enough
CLOSE = 0.015  # share of the bytes that may be left
TOO_FAR = 0.05  # a larger share means that the price was much too high
SLOPE = 0.55  # the bytes fall about as this power of the price
NOTHING = 1e-9  # of the squared error without any stencil: less is not worth a byte


class Improvable(Protocol):
    """A stencil sum on its way: towards a complete matrix (`Encoding`) or towards observed entries (`Observed`)."""

    def round(self, price: float) -> int:
        """Improve all labels and templates at this price of a bit; returns how many labels changed."""
        ...

    def copy(self) -> Self:
        """One that can go its own way."""
        ...

    def rounded(self, price: float) -> Self:
        """A copy with templates in whole steps, as coarse as the price allows, and labels chosen for those."""
        ...

    def left(self) -> tuple[float, float, float]:
        """Squared error: as it is, without any stencil, and the weight of all cells."""
        ...

    def to_sum(self, price: float, unseen: Unseen) -> StencilSum:
        """The model, its templates in whole steps."""
        ...


@dataclass(frozen=True)
class Round:
    """What a callback is told: rounds done and planned, the model's distance from the target as it stands, seconds."""

    done: int
    planned: int
    rmse: float
    seconds: float


Watch = Callable[[Round], None]


@dataclass
class Search:
    """What stays the same while prices change."""

    max_bytes: int
    least: int  # bytes of a model without stencils
    unseen: Unseen
    planned: int
    watch: Watch | None = None
    began: float = 0.0
    done: int = 0

    def __post_init__(self) -> None:
        self.began = perf_counter()

    def share(self, size: int) -> float:
        """What part of the room for stencils a file of this size takes, within bounds that a price can follow."""
        return float(np.clip((size - self.least) / max(self.max_bytes - self.least, 1), 0.1, 10.0))

    def size(self, model: Improvable, price: float) -> int:
        """Bytes of the file."""
        return len(file.to_bytes(model.to_sum(price, self.unseen)))

    def improve(self, model: Improvable, price: float, rounds: int) -> None:
        """Some rounds, until no label changes."""
        for _ in range(rounds):
            moved = model.round(price)
            self.done += 1
            self.tell(model)
            if moved == 0:
                break

    def fit(self, model: Improvable, price: float) -> StencilSum | None:
        """The best model found whose file is no larger than it may be; None if there was none.

        Where a price makes much more go than needed, the search goes back to the last model that was too large, and to
        a price in between.
        """
        best: tuple[float, StencilSum] | None = None
        before: tuple[float, Improvable] | None = None
        tries, in_vain = 0, 0  # how often in a row the file was too large
        while tries < TRIES or (best is None and tries < MOST_TRIES):
            rounded = model.rounded(price)
            found, error = rounded.to_sum(price, self.unseen), rounded.left()[0]
            size = len(file.to_bytes(found))
            if size <= self.max_bytes and (best is None or error < best[0]):
                best = error, found
            if size <= self.max_bytes and (size >= (1.0 - CLOSE) * self.max_bytes or not worth_more(model)):
                break
            in_vain = in_vain + 1 if size > self.max_bytes else 0
            if in_vain:
                before = price, model.copy()
                price *= max(self._factor(size), 1.05 ** min(2**in_vain, 64))
            elif before is not None and size < (1.0 - TOO_FAR) * self.max_bytes:
                price, model = float(np.sqrt(price * before[0])), before[1].copy()
            else:
                price *= self._factor(size)
            self.improve(model, price, 1)
            tries += 1
        return None if best is None else best[1]

    def _factor(self, size: int) -> float:
        """By how much the price is to change after a file of this size."""
        return float(np.clip(self.share(size) / (1.0 - CLOSE / 2.0), 0.5, 2.0) ** (1.0 / SLOPE))

    def tell(self, model: Improvable) -> None:
        """How things stand."""
        if self.watch is not None:
            error, _, weight = model.left()
            rmse = float(np.sqrt(max(error, 0.0) / weight))
            self.watch(Round(self.done, max(self.planned, self.done), rmse, perf_counter() - self.began))


def worth_more(model: Improvable) -> bool:
    """Whether there is any error left to spend bytes on."""
    error, all_of_it, _ = model.left()
    return error > NOTHING * all_of_it
