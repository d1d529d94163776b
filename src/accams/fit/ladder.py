"""Stencil sums of a matrix at falling prices per bit, each about twice to four times as large as the one before.

Whoever needs to know how many bytes for stencils pay, beside those for what they leave, climbs until more do not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from accams.fit.distill import Source, grow_best
from accams.fit.target import of_matrix
from accams.model import file
from accams.model.stencils import StencilSum
from accams.threads import Threads

NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))
COARSEST = 4.0  # price of the first rung, relative to the one at which a bit a cell halves the deviation of the matrix
FALL = 4.0  # of the price, from rung to rung
RANK = 256  # singular vectors, at most
ROUNDS = 2  # of improving a rung
MORE_ROUNDS = 4  # for the one that is taken
HOPELESS = 1.5  # approximate bits, relative to those there is room for, from which on rungs are not made to the end
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rung:
    """A stencil sum, and the price at which it was found; infinite where there are no stencils."""

    stencils: StencilSum
    size: int  # bytes of its file
    error: float  # mean squared
    price: float

    def shifted(self, shift: float) -> "Rung":
        """Return the rung with another offset."""
        return replace(self, stencils=replace(self.stencils, offset=self.stencils.offset + shift))


class Ladder:
    """Rungs of a complete matrix."""

    def __init__(self, matrix: Floats, seed: int, threads: Threads, report: Callable[[float], None]) -> None:
        ones = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
        offset = float(matrix.mean())
        self.report, self.variance = report, float(np.square(matrix - offset).mean())
        self.bare = Rung(*self._measured(StencilSum((matrix.shape[0], matrix.shape[1]), offset)), self.variance, np.inf)
        self._source: Source | None = None
        self._found: dict[tuple[float, int], Rung] = {}
        self._matrix, self._ones, self._seed, self._threads = matrix, ones, seed, threads

    @staticmethod
    def _measured(stencils: StencilSum) -> tuple[StencilSum, int]:
        return stencils, len(file.to_bytes(stencils))

    @property
    def source(self) -> Source:
        """What is approximated; its singular vectors are computed when they are first needed."""
        if self._source is None:
            rank = min(RANK, *self._matrix.shape)
            target = of_matrix(self._matrix, *self._ones, rank, self._seed)
            self._source = Source(target, self._threads, self._seed, self._matrix)
        return self._source

    def rungs(self, most: Callable[[], float] = lambda: np.inf) -> Iterator[Rung]:
        """Iterate over the rungs, beginning without stencils, until stencils alone take more than `most` bytes."""
        yield self.bare
        if min(self._matrix.shape) == 1:  # nothing that lines have in common: steps say it in fewer bytes, and faster
            return
        price = COARSEST * 2.0 * log(2.0) * self.variance
        while price > 0.0:
            rung = self._rung(price, ROUNDS, most())
            if rung is None or rung.size > most():
                return
            yield rung
            price /= FALL

    def rung(self, price: float, rounds: int = ROUNDS) -> Rung:
        """Return the stencils that are worth their bits at a price."""
        rung = self._rung(price, rounds, np.inf)
        assert rung is not None
        return rung

    def _rung(self, price: float, rounds: int, most: float) -> Rung | None:
        if (price, rounds) not in self._found:
            rung = self._made(price, rounds, most)
            if rung is None:
                return None
            self._found[price, rounds] = rung
        return self._found[price, rounds]

    def _made(self, price: float, rounds: int, most: float) -> Rung | None:
        """Return a rung; None as soon as it is clear that it takes more than so many bytes."""
        whole = grow_best(self.source, price, HOPELESS * 8.0 * most)
        if whole is None:
            return None
        for _ in range(rounds):
            if whole.round(price) == 0:
                break
            self.report(float(np.sqrt(whole.left()[0] / self._matrix.size)))
        rounded = whole.rounded(price)
        stencils, size = self._measured(rounded.to_sum(price, NONE))
        error = rounded.left()[0] / self._matrix.size
        self.report(float(np.sqrt(error)))
        return Rung(stencils, size, error, price)
