"""A residual kept in both orders, to which stencils are added on the next pass over each order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.local import LocalState

Shift = tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]  # labels of own and other axis, template (own first)
NONE: tuple[Any, Any, Any] = (None, None, None)


@dataclass
class Pending:
    """Shifts that one order of the residual still has to take up."""

    waiting: list[Shift] = field(default_factory=list)

    def all_but_two(self) -> list[Shift]:
        """Those that must be applied beforehand, since a fused pass takes two."""
        early, self.waiting = self.waiting[:-2], self.waiting[-2:]
        return early

    def every(self) -> list[Shift]:
        """All of them, for a plain pass."""
        every, self.waiting = self.waiting, []
        return every


class ResidualState(LocalState):
    """A state with an explicit residual (cpu, dense and disk engines)."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.pending = (Pending(), Pending())

    def _shift(self, stencil: int, sign: int) -> None:
        T = np.int32(sign) * self.templates[stencil]
        c, d = self.row_labels[stencil], self.col_labels[stencil]
        self.pending[0].waiting.append((c, d, np.ascontiguousarray(T)))
        self.pending[1].waiting.append((d, c, np.ascontiguousarray(T.T)))
