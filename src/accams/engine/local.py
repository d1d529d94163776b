"""Sums kept in the memory of this process, and passes on its threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.base import Random, State, Sums
from accams.engine.kmeans import Init
from accams.engine.rules import Blocked, Nearest
from accams.engine.tables import Part, Table, Tables, empty_tables, own_first, reduced
from accams.kernels import assign, sample
from accams.model.stencils import Labels
from accams.threads import Range

Assigner = Callable[..., int]


class LocalState(State):
    """A state whose sums are arrays: an engine says how they are gathered over a range of rows."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self._sums: list[Sums | None] = [None, None]
        self._kept: list[Sums | None] = [None, None]

    # -- the contract -----------------------------------------------------------------------------------------

    def _relabelled(self, axis: int, rule: Nearest | Blocked) -> Tables:
        T = np.ascontiguousarray(own_first(rule.T, axis), dtype=np.float64)
        cached = self._sums[axis]
        n, l = cached or self.buffers(axis, self.k[1 - axis])
        gather = None if cached else self._gatherer(axis, self.labels[1 - axis], n, l)
        assign_labels = self._assigner(axis, rule, T, n, l)

        def run(lo: int, hi: int) -> Part:
            if gather is not None:
                gather(lo, hi)
            N, L, counts = empty_tables(T.shape)
            return N, L, counts, int(assign_labels(lo, hi, N, L, counts))

        ranges = self.row_ranges(axis) if gather is None else self._pass_ranges(axis)
        tables = reduced(self.engine.threads.map(run, ranges), axis)
        self._sums[axis] = (n, l)
        return tables

    def tables(self, axis: int) -> Tables:
        n, l = self.sums(axis)
        labels, weights = self.labels[axis], self.own_weights(axis)
        k = self.k[axis], self.k[1 - axis]

        def run(lo: int, hi: int) -> Part:
            N, L, counts = empty_tables(k)
            assign.block_tables(lo, hi, n, l, weights, labels, N, L, counts)
            return N, L, counts, 0

        return reduced(self.engine.threads.map(run, self.row_ranges(axis)), axis)

    def k_means(self, axis: int, init: Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        n, l = self.sums(axis)
        ranges, threads, k = self.row_ranges(axis), self.engine.threads, self.k[axis]
        return kmeans.cluster(n, l, k, init, generator, max_iter, threads, ranges, self.uniform, n_trials)

    def forget_sums(self, axis: int) -> None:
        self._sums[axis] = None

    def sums(self, axis: int) -> Sums:
        cached = self._sums[axis]
        if cached is None:
            n, l = self.buffers(axis, self.k[1 - axis])
            self.gather(axis, self.labels[1 - axis], n, l)
            cached = self._sums[axis] = (n, l)
        return cached

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        self.engine.threads.map(self._gatherer(axis, labels, n, l), self._pass_ranges(axis))

    def release(self) -> None:
        self._sums, self._kept = [None, None], [None, None]

    # -- what each engine does in its own way -----------------------------------------------------------------

    @abstractmethod
    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Callable[[int, int], None]:
        """Work that writes the sums of rows (columns) lo .. hi by `labels` of the other axis into n and l.

        The caller does it once for every one of `_pass_ranges(axis)`.
        """

    @abstractmethod
    def _pass_ranges(self, axis: int) -> list[Range]:
        """Ranges for a pass over the data along this axis."""

    # -- shared work ------------------------------------------------------------------------------------------

    def _partners(self, axis: int) -> NDArray[np.int32] | None:
        """Weights by which the partners of a row (column) count in its sums: the rows' own, in those of columns."""
        return self.row_weights if axis == 1 else None

    def _assigner(self, axis: int, rule: Nearest | Blocked, T: NDArray[np.float64], n: Table, l: Table) -> Assigner:
        """Work that labels rows lo .. hi, adds them to N, L and counts, and returns how many labels changed."""
        labels, weights = self.labels[axis], self.own_weights(axis)
        if isinstance(rule, Nearest):
            prices = np.zeros(len(T)) if rule.prices is None else rule.prices
            head = n, l, weights, T, rule.curvature, prices, self.uniform
            return lambda lo, hi, *tables: assign.nearest(lo, hi, *head, labels, *tables)
        draw = n, l, weights, T, rule.log_prior, rule.precision, *rule.key, self.first[axis]
        return lambda lo, hi, *tables: sample.blocked(lo, hi, *draw, labels, *tables)

    def buffers(self, axis: int, k: int) -> Sums:
        """Arrays for the sums of one axis, in place of those that were there."""
        self._sums[axis] = None
        kept = self._kept[axis]
        if kept is None or kept[0].shape[1] != k:
            shape = (self.shape[axis], k)
            kept = self._kept[axis] = (np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        return kept
