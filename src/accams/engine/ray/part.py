"""A part of a state: some rows (or some columns) with their residual, for one chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.weights import to_ticks
from accams.engine.cpu import CpuState, Order
from accams.engine.grid import Grid
from accams.engine.ray.pieces import Piece, Whole
from accams.engine.residual import ResidualState
from accams.engine.rules import Blocked, Effects, Nearest
from accams.engine.tables import Tables
from accams.kernels import sparse
from accams.model.stencils import Labels
from accams.threads import Threads


@dataclass(frozen=True)
class Outline:
    """What a state asks of its observations."""

    shape: tuple[int, int]
    stored_weights: NDArray[np.int32] | None
    blank_weight: None = None
    is_complete: bool = False


class PartEngine:
    """The data of a part, as `accams.engine.cpu` has that of a whole matrix."""

    name = "part"

    def __init__(self, piece: Piece, whole: Whole, threads: Threads) -> None:
        self.piece, self.grid, self.threads, self.row_step = piece, whole.grid, threads, whole.row_step
        self.uniform, size = whole.uniform, piece.last - piece.first
        shape = (size, whole.shape[1]) if piece.axis == 0 else (whole.shape[0], size)
        self.observations = Outline(shape, piece.weights)
        weights = piece.weights
        if weights is not None and whole.grid.weight_step != whole.weight_step:
            weights = to_ticks(weights, whole.grid.weight_step / whole.weight_step)
        self.orders = {
            piece.axis: Order(piece.starts, piece.partners, weights, threads.split(piece.starts) or [(0, 0)])
        }

    @property
    def values(self) -> NDArray[np.int32]:
        """The data less the offset, in ticks."""
        grid: Grid = self.grid
        return grid.ticks_of(self.piece.values)


class Part(CpuState):
    """A state that has one axis of its own, of which it knows some, and all of the other.

    Labels and weights of rows are given for the whole matrix.
    """

    engine: PartEngine  # type: ignore[assignment]

    def __init__(self, engine: PartEngine) -> None:
        ResidualState.__init__(self, engine)
        self.axis, self.uniform = engine.piece.axis, engine.uniform
        self.first = (engine.piece.first, 0) if self.axis == 0 else (0, engine.piece.first)
        self.resid = {self.axis: engine.values}  # type: ignore[assignment]

    def own(self, axis: int, whole: NDArray[Any]) -> NDArray[Any]:
        """What concerns this part of something that there is for every row (column)."""
        return whole[self.engine.piece.first : self.engine.piece.last] if axis == self.axis else whole

    def relabelled(self, rule: Nearest | Blocked) -> Tables:
        """New labels for its own axis, and what they add to the tables."""
        return self._relabelled(self.axis, rule)

    def row_squares(self) -> NDArray[np.float64]:
        """Squared residuals of each of its rows."""
        return self._row_squares()

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, self.own(axis, labels))

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        """Give every row its precision."""
        self.row_weights = self.own(0, weights)
        for axis in (0, 1):
            self.forget_sums(axis)

    def effect_changes(self, rule: Effects) -> NDArray[np.int32]:
        """By how much new effects of its own axis differ from what they are."""
        known = self.effects[self.axis]
        old = np.zeros(self.shape[self.axis], np.int32) if known is None else known
        return self._effect_changes(self.axis, rule, old)

    def add_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Put a change of all effects of an axis into the residual."""
        here = self.own(axis, change)
        known = self.effects[axis]
        self.effects[axis] = here.copy() if known is None else known + here
        self._shift_effects(axis, here)
        self._forget()

    def _shift(self, stencil: int, sign: int) -> None:
        T = np.int32(sign) * self.templates[stencil]
        c, d = self.row_labels[stencil], self.col_labels[stencil]
        shift = (c, d, T) if self.axis == 0 else (d, c, T.T)
        self.pending[self.axis].waiting.append((shift[0], shift[1], np.ascontiguousarray(shift[2])))

    def _shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        order, resid = self.engine.orders[self.axis], self.resid[self.axis]
        if axis == self.axis:
            self.engine.threads.run(sparse.shift_own, order.ranges, order.starts, resid, change)
        else:
            self.engine.threads.run(sparse.shift_partner, order.ranges, order.starts, order.index, resid, change)
