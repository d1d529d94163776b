"""A residual kept by rows and by columns, to which stencils are added on the next pass over each order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.local import LocalPasses
from accams.engine.passes import Data
from accams.engine.tables import own_first

Shift = tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]  # labels of own and other axis, template (own first)
NONE: tuple[Any, Any, Any] = (None, None, None)


@dataclass
class Pending:
    """Shifts not yet applied to one order of the residual."""

    waiting: list[Shift] = field(default_factory=list)

    def all_but_two(self) -> list[Shift]:
        """Remove and return the shifts to be applied beforehand, since a fused pass takes two."""
        early, self.waiting = self.waiting[:-2], self.waiting[-2:]
        return early

    def every(self) -> list[Shift]:
        """Remove and return all shifts."""
        every, self.waiting = self.waiting, []
        return every


class ResidualPasses(LocalPasses):
    """Passes over an explicit residual (cpu, dense and disk engines)."""

    axes: tuple[int, ...] = (0, 1)  # orders in which the residual is kept

    def __init__(self, engine: Data) -> None:
        super().__init__(engine)
        self.pending = (Pending(), Pending())

    def _shift(self, stencil: int, sign: int) -> None:
        T = np.int32(sign) * self.templates[stencil]
        labels = self.row_labels[stencil], self.col_labels[stencil]
        for axis in self.axes:
            own_T = np.ascontiguousarray(own_first(T, axis))
            self.pending[axis].waiting.append((labels[axis], labels[1 - axis], own_T))
