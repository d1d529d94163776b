"""A chain on the GPU: its residual, labels and templates stay there; what is asked for is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine import seeding
from accams.engine.base import State, Sums
from accams.engine.cpu import Order, to_column_order
from accams.engine.cuda import kernels, steps
from accams.engine.cuda.device import Array, Mirrored, launch, upload, zeros
from accams.engine.cuda.engine import CudaEngine
from accams.engine.rules import Blocked, BlockedVisit, Nearest, Rule, Template
from accams.engine.tables import Table, Tables, Visited, own_first
from accams.errors import InputError
from accams.kernels import sparse
from accams.model.stencils import Labels, label_type
from accams.threads import Range

NONE = (None, None, None, 1)
Shift = tuple[Array, Array, Array, int]  # labels of own and other axis, template (rows first), sign


class Told(NamedTuple):
    """What a visit leaves on the device until it is asked for."""

    stencil: int
    T: Array
    counts: list[Array]
    moved: list[Array]
    gain: Array


class CudaState(State):
    """Residuals of the observed cells, in both orders, on the device."""

    engine: CudaEngine

    def __init__(self, engine: CudaEngine) -> None:
        super().__init__(engine)
        self._resid = [upload(each) for each in engine.values_in_slices()]
        self._row_labels, self._col_labels, self._templates = Mirrored(), Mirrored(), Mirrored()
        self._now: list[Array] = []  # labels of the current stencil
        self._waiting: tuple[list[Shift], list[Shift]] = ([], [])
        self._fresh = [False, False]  # whether the sums of an axis are up to date
        self._room: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._row_weights_there: Array | None = None
        self._told: list[Told] = []
        self._threads = 8 if engine.device.simulated else 128

    # -- what others see of it --------------------------------------------------------------------------------

    templates = property(lambda self: self._templates, lambda self, _: None)
    row_labels = property(lambda self: self._row_labels, lambda self, _: None)
    col_labels = property(lambda self: self._col_labels, lambda self, _: None)

    @property
    def labels(self) -> list[Labels]:
        """Copies of the current stencil's labels."""
        return [each.copy_to_host() for each in self._now]

    @labels.setter
    def labels(self, _: list[Labels]) -> None:
        """They are set on the device."""

    # -- the contract -----------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        if self.current is not None:
            raise RuntimeError("end the current stencil before beginning another")
        self.current, self._known_squares = stencil, None
        if stencil < len(self._templates):
            self.k = self._templates.device[stencil].shape
            self._shift(stencil, +1)
            self._now = [copied(each.device[stencil]) for each in (self._row_labels, self._col_labels)]
        else:
            assert k is not None
            if max(k) > kernels.MAX_LABELS:
                raise InputError(
                    f"engine='cuda' takes at most {kernels.MAX_LABELS} clusters a side, not {max(k)}: use engine='cpu'"
                )
            self.k = k
            self._now = [zeros(size, label_type(k_axis)) for size, k_axis in zip(self.shape, k, strict=True)]
        self._fresh = [False, False]

    def end(self, T: Template) -> None:
        self._end(upload(T.astype(np.int32)), np.array(T, np.int32))

    def _end(self, T: Array, copy: Template | None = None) -> None:
        assert self.current is not None
        stencil = self.current
        self._templates.put(stencil, T, copy)
        self._row_labels.put(stencil, self._now[0])
        self._col_labels.put(stencil, self._now[1])
        self._shift(stencil, -1)
        self._fresh, self._known_squares, self.current = [False, False], None, None

    def update(self, axis: int, rule: Rule, before: Tables | None = None) -> Tables:
        if not isinstance(rule, Nearest | Blocked):
            raise NotImplementedError("labels cannot be drawn in turn")
        T, k = upload(rule.T.astype(np.int32)), self.k[axis]
        if isinstance(rule, Nearest):
            prices = np.zeros(k) if rule.prices is None else rule.prices
            tables = self._label("nearest", axis, T, rule.curvature, upload(prices))
            if tables.counts.min() == 0 and rule.prices is None and self.shape[axis] >= k:
                moved = seeding.fill_empty_clusters(
                    self, axis, rule, own_first(rule.T, axis).astype(float), tables.counts
                )
                if moved:
                    found = self.tables(axis)
                    tables = Tables(found.N, found.L, found.counts, tables.moved + moved)
        else:
            tables = self._label("draw", axis, T, rule.precision, upload(rule.log_prior), rule.key)
        if tables.moved:
            self.forget_sums(1 - axis)
        return tables

    def visit(self, rule: BlockedVisit) -> None:
        assert self.current is not None
        counts = [upload(each) for each in rule.counts]
        priors = [zeros(k, np.float64) for k in self.k]
        moved, gain, T = [zeros(1, np.int64) for _ in (0, 1)], zeros(1, np.float64), upload(rule.T.astype(np.int32))
        N, L, now_moved = zeros(self.k, np.int64), zeros(self.k, np.int64), zeros(1, np.int64)
        now_counts = [zeros(k, np.int64) for k in self.k]
        for each in rule.updates:
            axis = each.axis
            weigh = counts[axis], rule.concentration[axis], *each.weights, priors[axis]
            launch(steps.draw_weights, 1, self._threads, 0, *weigh)
            parts = N, L, now_counts[axis], now_moved
            self._launch_label("draw", axis, T, rule.precision, priors[axis], each.labels, *parts)
            draw = rule.kappa, rule.spread, self.engine.grid.limit, *each.template, T
            told = now_counts[axis], now_moved, counts[axis], moved[axis], gain
            launch(steps.draw_template, 1, self._threads, 0, N, L, *draw, *told)
            self._fresh[1 - axis] = False
        self._told.append(Told(self.current, T, counts, moved, gain))
        self._end(T)

    def visited(self) -> list[Visited]:
        found = []
        for each in self._told:
            T = each.T.copy_to_host()
            self._templates.put(each.stencil, each.T, T)
            rows, cols = (int(x.copy_to_host()[0]) for x in each.moved)
            counts = [x.copy_to_host() for x in each.counts]
            found.append(Visited(T, counts, (rows, cols), float(each.gain.copy_to_host()[0])))
        self._told = []
        return found

    def tables(self, axis: int) -> Tables:
        return self._label("keep", axis, zeros(self.k, np.int32), 0.0, zeros(self.k[axis], np.float64))

    def set_labels(self, axis: int, labels: Labels) -> None:
        self._now[axis] = upload(labels.astype(label_type(self.k[axis])))
        self.forget_sums(1 - axis)

    def set_row_weights(self, weights: NDArray[np.float64]) -> None:
        super().set_row_weights(weights)
        assert self.row_weights is not None
        self._row_weights_there = upload(self.row_weights)
        self._fresh = [False, False]

    def forget_sums(self, axis: int) -> None:
        self._fresh[axis] = False

    def sums(self, axis: int) -> Sums:
        n, l = self._sums_there(axis)
        return n.copy_to_host(), l.copy_to_host()

    def release(self) -> None:
        """The sums stay: they are small beside the residual."""

    # -- passes -----------------------------------------------------------------------------------------------

    def _label(
        self, how: kernels.How, axis: int, T: Array, curvature: float, prices: Array, key: tuple[int, int] = (0, 0)
    ) -> Tables:
        """New labels by a rule, and the tables, which are waited for."""
        N, L, counts, moved = (zeros(size, np.int64) for size in (self.k, self.k, self.k[axis], 1))
        self._launch_label(how, axis, T, curvature, prices, key, N, L, counts, moved)
        return Tables(N.copy_to_host(), L.copy_to_host(), counts.copy_to_host(), int(moved.copy_to_host()[0]))

    def _launch_label(
        self,
        how: kernels.How,
        axis: int,
        T: Array,
        curvature: float,
        prices: Array,
        key: tuple[int, int],
        *tables: Array,
    ) -> None:
        n, l = self._sums_there(axis)
        own = self._row_weights_there if axis == 0 else None
        k = self.k[axis], self.k[1 - axis]
        kernel = kernels.label_kernel(how, k, axis, self._threads, own is not None)
        blocks = min(-(-self.shape[axis] // self._threads), 8 * self.engine.device.processors)
        shared = kernels.label_bytes(k, self._threads)
        args = n, l, own, T, float(curvature), prices, *key, self._now[axis], *tables
        launch(kernel, blocks, self._threads, shared, *args)

    def _sums_there(self, axis: int) -> tuple[Array, Array]:
        """Sums of every row (column) by the clusters of the other axis, on the device."""
        k = self.k[1 - axis]
        if (axis, k) not in self._room:
            self._room[axis, k] = zeros((self.shape[axis], k), np.int64), zeros((self.shape[axis], k), np.int64)
        n, l = self._room[axis, k]
        if not self._fresh[axis]:
            self._pass(axis, self._now[1 - axis], k, n, l)
            self._fresh[axis] = True
        return n, l

    def _pass(self, axis: int, labels: Array, k: int, n: Array, l: Array) -> None:
        """Add what is waiting to the residual, and sum it by these labels of the other axis."""
        waiting = self._waiting[axis]
        while len(waiting) > (2 if k <= kernels.MAX_LABELS else 0):  # three labels share a code
            self._apply_first(axis)
        shifts = [*waiting, NONE, NONE][:2]
        self._launch_gather(axis, labels, k, n, l, len(waiting), shifts)
        waiting.clear()

    def _apply_first(self, axis: int) -> None:
        """Add the first of what is waiting to the residual."""
        shift = self._waiting[axis].pop(0)
        n, l = zeros((self.shape[axis], 1), np.int64), zeros((self.shape[axis], 1), np.int64)
        self._launch_gather(axis, zeros(self.shape[1 - axis], np.uint8), 1, n, l, 1, [shift, NONE])

    def _launch_gather(
        self, axis: int, labels: Array, k: int, n: Array, l: Array, n_shifts: int, shifts: list[Any]
    ) -> None:
        side, partners = self.engine.sides[axis], self._row_weights_there if axis == 1 else None
        heavy = side.weights is not None, partners is not None
        plan = self.engine.plan(axis, k, any(heavy))
        if side.split.size:
            blocks = min(-(-side.split.size * k // self._threads), 8 * self.engine.device.processors)
            launch(kernels.clear, blocks, self._threads, 0, side.split, n, l)
        kernel = kernels.gather_kernel(k, axis, plan.threads, n_shifts, *heavy)
        args = *side.slices, self._resid[axis], side.weights, side.layout.tile, labels, partners, *shifts[0], *shifts[1]
        launch(kernel, plan.blocks, plan.threads, plan.shared, *plan.queues, *args, n, l)

    def _shift(self, stencil: int, sign: int) -> None:
        T = self._templates.device[stencil]
        c, d = self._row_labels.device[stencil], self._col_labels.device[stencil]
        self._waiting[0].append((c, d, T, sign))
        self._waiting[1].append((d, c, T, sign))

    # -- what is done on the CPU ------------------------------------------------------------------------------

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        """The sums by any labels of the other axis, as arrays of the CPU."""
        k = n.shape[1]
        there = zeros(n.shape, np.int64), zeros(n.shape, np.int64)
        self._pass(axis, upload(labels), k, *there)
        n[:], l[:] = there[0].copy_to_host(), there[1].copy_to_host()
        self._fresh[axis] = False

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Callable[[int, int], None]:
        raise NotImplementedError("passes run on the device")

    def _pass_ranges(self, axis: int) -> list[Range]:
        raise NotImplementedError("passes run on the device")

    def _residual(self, axis: int) -> NDArray[np.int32]:
        """The residual in the usual order of an axis, with nothing waiting."""
        while self._waiting[axis]:
            self._apply_first(axis)
        layout = self.engine.sides[axis].layout
        return layout.in_usual_order(self._resid[axis].copy_to_host(), self.engine.threads)

    def _squares(self) -> NDArray[np.float64]:
        order, out = self._order(0), np.empty(self.shape[0])
        self.engine.threads.run(sparse.squares, order.ranges, order.starts, self._residual(0), order.weights, out)
        return out

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        order, cost = self._order(axis), np.zeros((self.shape[axis], V.shape[1]))
        args = order.starts, order.index, self._residual(axis), order.weights, V, V * V, cost
        self.engine.threads.run(sparse.table_costs, order.ranges, *args)
        return cost

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        order, resid = self._order(axis), self._residual(axis)
        out = np.zeros((len(positions), self.shape[1 - axis]))
        for line, position in zip(out, positions, strict=True):
            sparse.spread(position, order.starts, order.index, resid, line)
        return np.ascontiguousarray(out.T)

    def _order(self, axis: int) -> Order:
        """One order of the observations, as CPU kernels take it."""
        obs, grid = self.engine.observations, self.engine.grid
        weights = None if obs.stored_weights is None else grid.weight_ticks(obs)
        if weights is not None and axis == 1:
            weights = to_column_order(obs, weights)
        starts, index = ((obs.row_starts, obs.cols), (obs.col_starts, obs.rows))[axis]
        return Order(starts, index, weights, self.engine.threads.split(starts))


def copied(array: Array) -> Array:
    """Another array of the same content, on the device."""
    out = cuda.device_array_like(array)
    out.copy_to_device(array)
    return out
