"""Passes on threads of this process, over a residual by rows and by columns, with sums cached in memory."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.passes import Bookkeeping, Data, Random
from accams.engine.rules import Blocked, Nearest, Template
from accams.engine.tables import SumPair, Table, Tables, added, own_first
from accams.kernels import assign, sample
from accams.kernels.jit import readonly
from accams.model.stencils import Labels
from accams.threads import Range

Assigner = Callable[..., int]
Gatherer = Callable[[int, int], None]
Shift = tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]  # labels of own and other axis, template (own first)
NONE: tuple[Any, Any, Any] = (None, None, None)


def two_of(shifts: list[Shift]) -> list[Shift]:
    """Return two shifts for a kernel: those that are given, none, or a single one and one of zeros.

    A single one comes up while stencils are new, which is seldom: not worth kernels that are compiled for it.
    """
    if len(shifts) == 1:
        own, other, T = shifts[0]
        return [*shifts, (own, other, np.zeros_like(T))]
    return [*shifts, NONE, NONE][:2]


class LocalPasses(Bookkeeping):
    """Passes over an explicit residual; an engine supplies how sums are gathered over a range of rows.

    Stencils that enter or leave the residual wait until the next pass over each order, which adds up to two of them
    while it gathers sums.
    """

    axes: tuple[int, ...] = (0, 1)  # orders in which the residual is kept

    def __init__(self, engine: Data) -> None:
        super().__init__(engine)
        self._sums: list[SumPair | None] = [None, None]  # None: out of date
        self.pending: list[list[Shift]] = [[], []]  # shifts not yet applied to each order
        self._buffers: list[SumPair | None] = [None, None]  # allocated once and overwritten by every pass

    # -- what each engine supplies ----------------------------------------------------------------------------

    @abstractmethod
    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        """Return work(lo, hi) that writes the sums of rows lo .. hi by `labels` of the other axis into n and l.

        The caller runs it exactly once for each of `_pass_ranges(axis)`.
        """

    def _drawer(self, axis: int, rule: Blocked, T: NDArray[np.float64]) -> Assigner | None:
        """Return work that gathers sums and draws labels without keeping the sums, where that is faster, else None.

        The caller runs it exactly once for each of `_pass_ranges(axis)`.
        """
        return None

    @abstractmethod
    def _pass_ranges(self, axis: int) -> list[Range]:
        """Return the ranges of a pass over the data along this axis."""

    @abstractmethod
    def _apply(self, axis: int, shifts: list[Shift]) -> None:
        """Add shifts to one order of the residual, by passes of their own."""

    # -- the contract -----------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        super().begin(stencil, k)
        if stencil < len(self.templates):
            self._shift(stencil, +1)

    def end(self, T: Template) -> None:
        stencil = self.current
        super().end(T)
        assert stencil is not None
        self._shift(stencil, -1)

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, labels)
        self._sums[1 - axis] = None

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        self.row_weights, self._sums = readonly(weights), [None, None]

    def relabel(self, axis: int, rule: Nearest | Blocked) -> Tables:
        T = readonly(np.ascontiguousarray(own_first(rule.T, axis), dtype=np.float64))
        cached = self._sums[axis]
        draw = self._drawer(axis, rule, T) if cached is None and isinstance(rule, Blocked) else None
        if draw is not None:
            tables = self._tabulated(axis, T.shape, draw, self._pass_ranges(axis))
            if tables.moved:
                self._sums[1 - axis] = None
            return tables
        n, l = cached or self._buffers_for(axis)
        gather = None if cached else self._gatherer(axis, self.labels[1 - axis], n, l)
        assign_labels = self._assigner(axis, rule, T, n, l)

        def work(lo: int, hi: int, *tables: Table) -> int:  # gathering and assigning are one task: threads wake once
            if gather is not None:
                gather(lo, hi)
            return assign_labels(lo, hi, *tables)

        ranges = self.row_ranges(axis) if gather is None else self._pass_ranges(axis)
        tables = self._tabulated(axis, T.shape, work, ranges)
        self._sums[axis] = (n, l)
        if tables.moved:
            self._sums[1 - axis] = None
        return tables

    def tables(self, axis: int) -> Tables:
        n, l = self.sums(axis)
        labels, weights = self.labels[axis], self.own_weights(axis)

        def work(lo: int, hi: int, *tables: Table) -> int:
            assign.block_tables(lo, hi, n, l, weights, labels, *tables)
            return 0

        return self._tabulated(axis, (self.k[axis], self.k[1 - axis]), work, self.row_ranges(axis))

    def k_means(self, axis: int, init: kmeans.Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        n, l = self.sums(axis)
        ranges, threads, k = self.row_ranges(axis), self.engine.threads, self.k[axis]
        return kmeans.cluster(n, l, k, init, generator, max_iter, threads, ranges, self.uniform, n_trials)

    def sums(self, axis: int) -> SumPair:
        cached = self._sums[axis]
        if cached is None:
            n, l = self._buffers_for(axis)
            self.gather(axis, self.labels[1 - axis], n, l)
            cached = self._sums[axis] = (n, l)
        return cached

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        self.engine.threads.map(self._gatherer(axis, labels, n, l), self._pass_ranges(axis))

    def release(self) -> None:
        self._sums, self._buffers = [None, None], [None, None]

    # -- shared work ------------------------------------------------------------------------------------------

    def _shift(self, stencil: int, sign: int) -> None:
        """Add (+1) a stencil to the residual or subtract it (-1), with the next pass."""
        T = np.int32(sign) * self.templates[stencil]
        labels = self.row_labels[stencil], self.col_labels[stencil]
        for axis in self.axes:
            self.pending[axis].append((labels[axis], labels[1 - axis], np.ascontiguousarray(own_first(T, axis))))

    def _apply_pending(self, axis: int, leave: int = 0) -> list[Shift]:
        """Apply the pending shifts but the last `leave`, and remove and return those."""
        shifts, self.pending[axis] = self.pending[axis], []
        cut = max(0, len(shifts) - leave)
        self._apply(axis, shifts[:cut])
        return shifts[cut:]

    def _residual_changed(self) -> None:
        super()._residual_changed()
        self._sums = [None, None]

    def _tabulated(self, axis: int, k: tuple[int, ...], work: Assigner, ranges: list[Range]) -> Tables:
        """Add up the tables to which `work` adds the rows of each range, and the labels that it says have changed."""

        def run(lo: int, hi: int) -> Tables:
            N, L, counts = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k[0], np.int64)
            moved = int(work(lo, hi, N, L, counts))
            return Tables(own_first(N, axis), own_first(L, axis), counts, moved)

        return added(self.engine.threads.map(run, ranges))

    def _assigner(self, axis: int, rule: Nearest | Blocked, T: NDArray[np.float64], n: Table, l: Table) -> Assigner:
        """Return work that labels rows lo .. hi, adds them to N, L and counts, and returns the labels changed."""
        labels, weights = self.labels[axis], self.own_weights(axis)
        if isinstance(rule, Nearest):
            prices = np.zeros(len(T)) if rule.prices is None else rule.prices
            head = n, l, weights, T, rule.curvature, readonly(prices), self.uniform
            return lambda lo, hi, *tables: assign.nearest(lo, hi, *head, labels, *tables)
        draw = n, l, weights, T, readonly(rule.log_prior), rule.precision, *rule.key, self.first[axis]
        return lambda lo, hi, *tables: sample.blocked(lo, hi, *draw, labels, *tables)

    def _buffers_for(self, axis: int) -> SumPair:
        """Return the buffers for the sums of an axis, reallocated if the number of clusters has changed."""
        buffers, shape = self._buffers[axis], (self.shape[axis], self.k[1 - axis])
        if buffers is None or buffers[0].shape != shape:
            buffers = self._buffers[axis] = (np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        return buffers
