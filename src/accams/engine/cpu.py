"""The `cpu` engine: observed cells only, in row order and in column order, on threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import transpose
from accams.data.observations import Observations
from accams.engine.base import Engine, State
from accams.engine.local import Gatherer
from accams.engine.passes import Data
from accams.engine.residual import NONE, ResidualPasses, Shift
from accams.engine.tables import Table
from accams.kernels import sparse
from accams.model.stencils import Labels
from accams.threads import Range, Threads


@dataclass(frozen=True)
class MemoryOrder:
    """One order of the observations: row i has the partners index[starts[i]:starts[i + 1]]."""

    starts: NDArray[np.int64]
    index: NDArray[np.unsignedinteger[Any]]
    weights: NDArray[np.int32] | None
    ranges: list[Range]


def to_column_order(obs: Observations, by_row: NDArray[np.int32], threads: Threads) -> NDArray[np.int32]:
    """Rearrange one number per observation from row order to column order."""
    return transpose.to_column_order(obs.row_starts, obs.cols, obs.shape[1], by_row, threads)


class CpuEngine(Engine):
    """Sparse observations with missing cells."""

    name = "cpu"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        obs = self.observations
        weights: list[NDArray[np.int32] | None] = [None, None]
        if obs.stored_weights is not None:
            by_row = self.grid.weight_ticks(obs)
            weights = [by_row, to_column_order(obs, by_row, self.threads)]
        self.orders = [
            MemoryOrder(starts, index, w, self.threads.split(starts))
            for starts, index, w in zip((obs.row_starts, obs.col_starts), (obs.cols, obs.rows), weights, strict=True)
        ]

    def values_in_ticks(self) -> list[NDArray[np.int32]]:
        """Return the data less the offset, in both orders."""
        by_row = self.grid.ticks_of(self.observations.stored_values)
        return [by_row, to_column_order(self.observations, by_row, self.threads)]

    def new_state(self, chain: int = 0) -> CpuState:
        """Return a state whose residual is the data less the offset."""
        return CpuState(self)


class SparsePasses(ResidualPasses):
    """Passes over the residuals of observed cells, in one order or in both.

    Parameters
    ----------
    engine : Data
    orders : dict
        Orders of the observations, by axis.
    resid : dict
        Residuals of each, in ticks; changed in place.
    """

    def __init__(self, engine: Data, orders: dict[int, MemoryOrder], resid: dict[int, NDArray[np.int32]]) -> None:
        super().__init__(engine)
        self.orders, self.resid, self.axes = orders, resid, tuple(orders)

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        weights = self.orders[axis].weights
        return self._summer(axis, self.resid[axis], weights, self._due(axis), labels, n, l, self._partners(axis))

    def _pass_ranges(self, axis: int) -> list[Range]:
        return self.orders[axis].ranges

    def _due(self, axis: int) -> list[Shift]:
        """Return the shifts for the next pass along this axis; any beyond two are applied now."""
        self._apply(axis, self.pending[axis].all_but_two())
        return self.pending[axis].every()

    def _summer(
        self, axis: int, resid: NDArray[np.int32], weights: Any, shifts: list[Shift], labels: Labels, n: Table,
        l: Table, partners: Any = None,
    ) -> Gatherer:  # fmt: skip
        """Return a pass that adds the shifts (at most two) to `resid` and sums it by `labels` into n and l."""
        order = self.orders[axis]
        (own_a, other_a, T_a), (own_b, other_b, T_b) = [*shifts, NONE, NONE][:2]
        codes: NDArray[Any] = labels
        if other_a is not None:  # one random access per observation instead of three
            codes = np.empty(len(labels), dtype=np.uint32)
            sparse.pack(other_a, other_b, labels, codes)
        args = order.starts, order.index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, n, l
        return lambda lo, hi: sparse.gather(lo, hi, *args)

    def _squares(self) -> NDArray[np.float64]:
        self._apply(0, self.pending[0].every())
        order, out = self.orders[0], np.empty(self.shape[0])
        self.engine.threads.run(sparse.squares, order.ranges, order.starts, self.resid[0], order.weights, out)
        return out

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._apply(axis, self.pending[axis].every())
        order, cost = self.orders[axis], np.zeros((self.shape[axis], V.shape[1]))
        args = order.starts, order.index, self.resid[axis], order.weights, V, V * V, cost
        self.engine.threads.run(sparse.table_costs, order.ranges, *args)
        return cost

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        self._apply(axis, self.pending[axis].every())
        order, out = self.orders[axis], np.zeros((len(positions), self.shape[1 - axis]))
        for line, position in zip(out, positions, strict=True):
            sparse.spread(position, order.starts, order.index, self.resid[axis], line)
        return np.ascontiguousarray(out.T)

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        for own, order in self.orders.items():
            resid = self.resid[own]
            if own == axis:
                self.engine.threads.run(sparse.shift_own, order.ranges, order.starts, resid, change)
            else:
                self.engine.threads.run(sparse.shift_partner, order.ranges, order.starts, order.index, resid, change)

    def _apply(self, axis: int, shifts: list[Shift]) -> None:
        order = self.orders[axis]
        for shift in shifts:
            self.engine.threads.run(sparse.shift, order.ranges, order.starts, order.index, self.resid[axis], *shift)


class CpuState(SparsePasses, State):
    """Residuals of the observed cells, in both orders."""

    engine: CpuEngine

    def __init__(self, engine: CpuEngine) -> None:
        super().__init__(engine, dict(enumerate(engine.orders)), dict(enumerate(engine.values_in_ticks())))
