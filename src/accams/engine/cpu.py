"""The `cpu` engine: observed cells only, in row order and in column order, on threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import build
from accams.data.levels import places
from accams.data.observations import Observations
from accams.engine.base import Engine, State
from accams.engine.grid import LARGEST_FEATURE, MAX_TICK, Grid
from accams.engine.local import Assigner, Gatherer, LocalPasses, Shift, two_of
from accams.engine.memory import MOST_PRODUCTS
from accams.engine.passes import Data, Passes
from accams.engine.rules import Blocked, Latent, Slopes
from accams.engine.tables import DrawnSlopes, Table
from accams.kernels import few, ordinal, slopes, sparse
from accams.kernels.jit import readonly
from accams.kernels.order import count_columns
from accams.model.stencils import Labels
from accams.threads import Range, Threads

FEW = 2.0  # as many observations of the average row as clusters of the other axis, divided by this, are few


@dataclass(frozen=True)
class MemoryOrder:
    """One order of the observations: row i has the partners index[starts[i]:starts[i + 1]]."""

    starts: NDArray[np.int64]
    index: NDArray[np.unsignedinteger[Any]]
    weights: NDArray[np.int32] | None
    ranges: list[Range]

    def __post_init__(self) -> None:
        for name in ("starts", "index", "weights"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    def table_costs(self, resid: NDArray[np.int32], V: NDArray[np.float64], threads: Threads) -> NDArray[np.float64]:
        """Return `Passes.table_costs` for residuals in this order."""
        cost = np.zeros((len(self.starts) - 1, V.shape[1]))
        threads.run(sparse.table_costs, self.ranges, self.starts, self.index, resid, self.weights, V, V * V, cost)
        return cost

    def lines(self, resid: NDArray[np.int32], positions: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Return `Passes.lines` for residuals in this order; `width` is the length of the other axis."""
        out = np.zeros((len(positions), width))
        for line, position in zip(out, positions, strict=True):
            sparse.spread(position, self.starts, self.index, resid, line)
        return np.ascontiguousarray(out.T)


def packed(shifts: list[Shift], labels: Labels) -> tuple[Any, ...]:
    """Return own labels and template of two shifts (or None), and the partners' labels in all three as codes.

    With codes, a pass has one random access per observation instead of three.
    """
    (own_a, other_a, T_a), (own_b, other_b, T_b) = two_of(shifts)
    codes: NDArray[Any] = labels
    if other_a is not None:
        codes = np.empty(len(labels), dtype=np.uint32)
        sparse.pack(other_a, other_b, labels, codes)
    return own_a, T_a, own_b, T_b, codes


def both_orders(obs: Observations, by_row: NDArray[np.int32], threads: Threads) -> list[NDArray[np.int32]]:
    """Return one number per observation in row order and in column order."""
    return [by_row, build.to_column_order(obs.row_starts, obs.cols, obs.shape[1], by_row, threads)]


def memory_orders(obs: Observations, grid: Grid, threads: Threads) -> list[MemoryOrder]:
    """Return the observations in row order and in column order."""
    weights: Sequence[NDArray[np.int32] | None] = (None, None)
    if obs.stored_weights is not None:
        weights = both_orders(obs, grid.weight_ticks(obs), threads)
    patterns = (obs.row_starts, obs.cols), (obs.col_starts, obs.rows)
    return [MemoryOrder(*pattern, w, threads.split(pattern[0])) for pattern, w in zip(patterns, weights, strict=True)]


def _grams(order: MemoryOrder, features: NDArray[np.int8], passes: Passes) -> NDArray[np.int32] | None:
    """Return the sums of products of features of every row, or None where they would take too much memory."""
    (n, d), most = (len(order.starts) - 1, features.shape[1]), int(np.diff(order.starts).max(initial=0))
    if n * d * d > MOST_PRODUCTS or (order.weights is not None) or most * LARGEST_FEATURE**2 > MAX_TICK:
        return None
    grams = np.empty((n, d, d), np.int32)
    passes.engine.threads.run(slopes.products, order.ranges, order.starts, order.index, None, features, grams)
    return readonly(grams)  # type: ignore[no-any-return]


def drawn_slopes(passes: Passes, axis: int, rule: Slopes, order: MemoryOrder, resid: NDArray[np.int32]) -> DrawnSlopes:
    """Return `Passes.slope_changes` for residuals in this order."""
    features, old = readonly(passes.engine.features[1 - axis]), passes.present_slopes(axis)
    weights = order.weights, readonly(passes.own_weights(axis)), readonly(passes.own_weights(1 - axis))
    grams = None if weights[2] is not None else passes.engine.grams_of(axis, lambda: _grams(order, features, passes))
    head, change = (order.starts, order.index, resid, *weights, features, grams, old), np.empty_like(old)
    draw = *passes.slope_draw(axis, rule), passes.first[axis]
    moments = passes.engine.threads.map(lambda lo, hi: slopes.draw(lo, hi, *head, *draw, change), order.ranges)
    return change, sum(moments)


class CpuEngine(Engine):
    """Sparse observations with missing cells."""

    name = "cpu"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.orders = memory_orders(self.observations, self.grid, self.threads)
        self._levels: NDArray[np.uint8] | None = None

    def values_in_ticks(self) -> list[NDArray[np.int32]]:
        """Return the data less the offset, in both orders."""
        return both_orders(self.observations, self.grid.ticks_of(self.observations.stored_values), self.threads)

    def levels(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return the places of the data among these values, in row order; they are kept."""
        if self._levels is None:
            self._levels = readonly(places(self.observations.stored_values, values))
            self.observations.release_pages()
        return self._levels

    @cached_property
    def slots(self) -> dict[int, NDArray[np.int64]]:
        """Place in column order of each column's first observation in a range of rows, by the range's first row."""
        order, found, slots = self.orders[0], dict[int, NDArray[np.int64]](), self.orders[1].starts[:-1].copy()
        for lo, hi in order.ranges:
            found[lo] = slots.copy()
            count_columns(lo, hi, slots, order.starts, order.index)
        return found

    def new_state(self, chain: int = 0) -> "CpuState":
        return CpuState(self)


class SparsePasses(LocalPasses):
    """Passes over observed cells: `orders` by axis (one or both) and their residuals in ticks, changed in place."""

    def __init__(self, engine: Data, orders: dict[int, MemoryOrder], resid: dict[int, NDArray[np.int32]]) -> None:
        super().__init__(engine)
        self.orders, self.resid, self.axes = orders, resid, tuple(orders)

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        shifts, weights = self._apply_pending(axis, leave=2), self.orders[axis].weights
        return self._summer(axis, self.resid[axis], weights, shifts, labels, n, l, self.own_weights(1 - axis))

    def _drawer(self, axis: int, rule: Blocked, T: NDArray[np.float64]) -> Assigner | None:
        order, labels = self.orders[axis], self.labels[axis]
        if len(order.index) * FEW > T.shape[1] * (len(order.starts) - 1):
            return None
        shifts = packed(self._apply_pending(axis, leave=2), self.labels[1 - axis])
        head = order.starts, order.index, self.resid[axis], order.weights, self.own_weights(1 - axis), *shifts
        columns, prior = readonly(np.ascontiguousarray(T.T)), readonly(rule.log_prior)
        rest = self.own_weights(axis), columns, prior, rule.precision, *rule.key, self.first[axis]
        return lambda lo, hi, *tables: few.draw(lo, hi, *head, *rest, labels, *tables)

    def _pass_ranges(self, axis: int) -> list[Range]:
        return self.orders[axis].ranges

    def _summer(
        self, axis: int, resid: NDArray[np.int32], weights: Any, shifts: list[Shift], labels: Labels, n: Table,
        l: Table, partners: Any = None,
    ) -> Gatherer:  # fmt: skip
        """Return a pass that adds the shifts (at most two) to `resid` and sums it by `labels` into n and l."""
        order = self.orders[axis]
        args = order.starts, order.index, resid, weights, partners, *packed(shifts, labels), n, l
        return lambda lo, hi: sparse.gather(lo, hi, *args)

    def _squares(self) -> NDArray[np.float64]:
        self._apply_pending(0)
        order, out = self.orders[0], np.empty(self.shape[0])
        self.engine.threads.run(sparse.squares, order.ranges, order.starts, self.resid[0], order.weights, out)
        return out

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        return self.orders[axis].table_costs(self.resid[axis], V, self.engine.threads)

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        return self.orders[axis].lines(self.resid[axis], positions, self.shape[1 - axis])

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        for own, order in self.orders.items():
            resid = self.resid[own]
            if own == axis:
                self.engine.threads.run(sparse.shift_own, order.ranges, order.starts, resid, change)
            else:
                self.engine.threads.run(sparse.shift_partner, order.ranges, order.starts, order.index, resid, change)

    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        self._apply_pending(axis)
        return drawn_slopes(self, axis, rule, self.orders[axis], self.resid[axis])

    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        features = readonly(self.engine.features[1 - axis])
        for own, order in self.orders.items():
            shift = slopes.shift_own if own == axis else slopes.shift_partner
            self.engine.threads.run(shift, order.ranges, order.starts, order.index, self.resid[own], change, features)

    def redraw(
        self, axis: int, rule: Latent, latent: NDArray[np.int32], levels: NDArray[np.uint8],
        slots: dict[int, NDArray[np.int64]] | None = None,
    ) -> None:  # fmt: skip
        """Draw new latent values in one order, given the present ones and their levels.

        With `slots` by the first row of each range (`ordinal.redraw`), it corrects the residual of the other order too.
        """
        for each in self.axes:
            self._apply_pending(each)
        order, draw = self.orders[axis], (readonly(rule.cuts), rule.spread, rule.unit, *rule.key)
        weights = order.weights, self.own_weights(axis), self.own_weights(1 - axis)
        head = order.starts, order.index, levels, *weights, self.resid[axis], latent, *draw, self.first[axis], axis == 0

        def work(lo: int, hi: int) -> None:
            both = (None, None) if slots is None else (slots[lo].copy(), self.resid[1 - axis])
            ordinal.redraw(lo, hi, *head, *both)

        self.engine.threads.map(work, order.ranges)
        self._residual_changed()

    def _apply(self, axis: int, shifts: list[Shift]) -> None:
        order = self.orders[axis]
        for shift in shifts:
            self.engine.threads.run(sparse.shift, order.ranges, order.starts, order.index, self.resid[axis], *shift)


class CpuState(SparsePasses, State):
    """Residuals of the observed cells, in both orders."""

    engine: CpuEngine

    def __init__(self, engine: CpuEngine) -> None:
        super().__init__(engine, dict(enumerate(engine.orders)), dict(enumerate(engine.values_in_ticks())))
        self._latent: NDArray[np.int32] | None = None  # in row order

    def draw_latent(self, rule: Latent) -> None:
        self._require_residual("ordinal likelihood: use likelihood='gaussian'")
        if self._latent is None:  # until now the data itself
            self._latent = self.engine.grid.ticks_of(self.engine.observations.stored_values)
        self.redraw(0, rule, self._latent, self.engine.levels(rule.values), self.engine.slots)
