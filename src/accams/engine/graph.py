"""The `graph` engine: a sparse matrix whose unstored cells are observed zeros.

The residual of a blank is minus the model, which is a sum of stencils: its sums over clusters are small cross tables.
So a pass costs the stored cells and the labels, never m x n. With weight w for a stored cell of value x and residual
r, and w0 for a blank,

    n[i, b] = w0 * size(b) + sum over stored of (w - w0)
    l[i, b] = sum over stored of ((w - w0) * r + w0 * x)  -  w0 * sum over all j in b of model[i, j]

and the last sum is offset * size(b) plus, for each stencil, one line of template @ cross table.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.weights import to_ticks
from accams.engine.blanks import Blanks
from accams.engine.cpu import CpuEngine, CpuState, packed
from accams.engine.local import Gatherer
from accams.engine.rules import BlockedVisit
from accams.engine.tables import Table, Tables, Visited, gain_of
from accams.errors import InputError
from accams.kernels import blanks as kernels
from accams.kernels import cross, sparse, visit
from accams.kernels.jit import readonly
from accams.model.stencils import Labels

MOST_WAITING = 32  # shifts of the column order, before they are applied by a pass of their own


class GraphEngine(CpuEngine):
    """Sparse matrices with observed zeros: graphs, counts, implicit feedback."""

    name = "graph"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        obs, grid = self.observations, self.grid
        if obs.blank_weight is None:
            raise InputError("engine='graph' needs observed zeros: create the observations with zeros='observed'")
        self.offset = round(grid.offset / grid.step)
        self.blank, one = to_ticks(np.array([obs.blank_weight, 1.0]), obs.weight_step).tolist()
        self.factor, self.extra = one - self.blank, [None, None]  # w - w0 is their product, in both orders
        if obs.stored_weights is not None:
            self.factor, self.extra = 1, [readonly(order.weights - self.blank) for order in self.orders]
        zero = grid.ticks_of(np.zeros(1))[0]
        self.stored = [ticks - zero for ticks in self.values_in_ticks()]  # the values themselves, in ticks
        first = self.stored[0][:1]
        self.constant = int(first[0]) if first.size and np.all(self.stored[0] == first) else None  # if all are equal

    def new_state(self, chain: int = 0) -> "GraphState":
        return GraphState(self)


class GraphState(CpuState):
    """Residuals of the stored cells; those of blanks are computed from labels and templates."""

    engine: GraphEngine

    def __init__(self, engine: GraphEngine) -> None:
        super().__init__(engine)
        self._blanks = Blanks(self.shape, engine.offset)
        self._is_put = False  # whether a visit has put the current stencil into the blanks

    def _shift(self, stencil: int, sign: int) -> None:
        super()._shift(stencil, sign)
        if sign > 0:
            self._blanks.take(stencil)
        elif not self._is_put:
            self._blanks.put(stencil, self.templates, (self.row_labels, self.col_labels))
        if len(self.pending[1]) > MOST_WAITING:  # with equal weights, no pass along the columns applies them
            self._apply_pending(1)

    def visit(self, rule: BlockedVisit) -> None:
        if not self._in_one_call:
            super().visit(rule)
            return
        axes = np.array([update.axis for update in rule.updates])
        keys = np.array([(*update.weights, *update.labels, *update.template) for update in rule.updates], np.uint64)
        counts = (rule.counts[0].copy(), rule.counts[1].copy())
        assert self.current is not None
        number = self.current + 1 if self.current < len(self.templates) else 0
        blanks = *self._blanks.codes, *self._blanks.layout, self.engine.blank, self._factors, number
        numbers = rule.concentration, rule.kappa, rule.spread, rule.precision, self.engine.grid.limit
        T, N, L, (rows, cols) = visit.visit(axes, keys, rule.T, counts, self._side(0), self._side(1), blanks, *numbers)
        if number:
            self._blanks.stale[number] = True
        self._is_put = number > 0
        try:
            self.end(T)
        finally:
            self._is_put = False
        self._visited.append(Visited(T, [*counts], (int(rows), int(cols)), gain_of(Tables(N, L, counts[0]), T)))

    @property
    def _in_one_call(self) -> bool:
        """Whether a visit is one kernel: where several chains run at once, and none has threads of its own.

        All stored cells must have one value and one weight, other than that of blanks, and codes of rows and columns
        the same type. Both axes must have updates, which apply the pending shifts.
        """
        alone = self.engine.threads.callers == 1 or any(len(order.ranges) > 1 for order in self.orders.values())
        by_row, by_col = self._blanks.codes
        return self._factors is not None and min(self.k) > 1 and by_row.dtype == by_col.dtype and not alone

    def _side(self, axis: int) -> tuple[Any, ...]:
        """Return what the updates of one axis need: see `accams.kernels.visit`."""
        order, labels, shifts = self.orders[axis], self.labels, self._apply_pending(axis, leave=2)
        nothing = labels[axis], labels[1 - axis], np.zeros((self.k[axis], self.k[1 - axis]), np.int32)
        first, second = [*shifts, nothing, nothing][:2]
        stored = order.starts, order.index, self.resid[axis]
        return *stored, *first, *second, labels[axis], *self._buffers_for(axis)

    def _drawer(self, *_: Any) -> None:
        return None  # blanks count too, so that every row meets every cluster

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        engine, blanks, k = self.engine, self._blanks, n.shape[1]
        mass = engine.blank * np.bincount(labels, minlength=k)
        lines = blanks.lines(axis, labels, k, -engine.blank, engine.threads)
        gather, factors = self._stored_gatherer(axis, labels, n, l)
        rest = blanks.codes[axis], blanks.first[axis], lines, mass, factors, n, l

        def run(lo: int, hi: int) -> None:
            gather(lo, hi)
            kernels.add_lines(lo, hi, *rest)

        return run

    def _stored_gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> tuple[Gatherer, tuple[int, int, int]]:
        """Return a pass over the stored cells, and the factors by which its sums enter those of all cells."""
        engine, order = self.engine, self.orders[axis]
        values = order.starts, order.index, engine.stored[axis], None, None, *packed([], labels)
        if engine.factor == 0:  # stored cells and blanks have the same weight, so that sums need no residual
            return (lambda lo, hi: sparse.gather(lo, hi, *values, n, l)), (0, engine.blank, 0)
        shifts, weights = self._apply_pending(axis, leave=2), engine.extra[axis]
        extra = self._summer(axis, self.resid[axis], weights, shifts, labels, n, l)
        if self._factors is not None:
            return extra, self._factors

        def run(lo: int, hi: int) -> None:
            extra(lo, hi)
            _, sums = scratch = np.empty((2, hi - lo, n.shape[1]), np.int64)
            sparse.gather(0, hi - lo, order.starts[lo:], *values[1:], *scratch)
            l[lo:hi] *= engine.factor
            l[lo:hi] += engine.blank * sums

        return run, (engine.factor, 1, 0)

    @property
    def _factors(self) -> tuple[int, int, int] | None:
        """Factors of `add_lines` where the sums of the values are multiples of their number, else None."""
        engine = self.engine
        if engine.factor == 0 or engine.constant is None or engine.extra[0] is not None:
            return None
        return engine.factor, engine.factor, engine.blank * engine.constant

    def _squares(self) -> NDArray[np.float64]:
        """Return, per row, squares of stored cells less those of blanks in their place; then those of all blanks."""
        self._apply_pending(0)
        engine, order = self.engine, self.orders[0]
        resid, model = self.resid[0], engine.stored[0] - self.resid[0]
        stored, replaced = np.empty(self.shape[0]), np.empty(self.shape[0])
        engine.threads.run(sparse.squares, order.ranges, order.starts, resid, order.weights, stored)
        engine.threads.run(sparse.squares, order.ranges, order.starts, model, None, replaced)
        if order.weights is None:
            stored *= engine.blank + engine.factor
        return np.concatenate([stored - engine.blank * replaced, [engine.blank * self._blanks.squares(engine.threads)]])

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        engine, order = self.engine, self.orders[axis]
        parts = np.zeros((2, self.shape[axis], V.shape[1]))
        pattern = (order.ranges, order.starts, order.index)
        engine.threads.run(sparse.table_costs, *pattern, engine.stored[axis], None, V, np.zeros_like(V), parts[0])
        cost = engine.blank * ((V * V).sum(axis=0) + 2.0 * engine.offset * V.sum(axis=0) + parts[0])
        engine.threads.run(sparse.table_costs, *pattern, self.resid[axis], engine.extra[axis], V, V * V, parts[1])
        cost += engine.factor * parts[1]
        for _, own, other, T in self._active(axis):
            sums = np.zeros((T.shape[1], V.shape[1]))
            cross.cross_sums(other, V, sums)
            engine.threads.run(cross.add_by_label, self.row_ranges(axis), own, 2.0 * engine.blank * (T @ sums), cost)
        return np.asarray(cost)

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        blanks = np.full((self.shape[1 - axis], len(positions)), -float(self.engine.offset))
        for _, own, other, T in self._active(axis):
            blanks -= T[own[positions]][:, other].T
        stored = super().lines(axis, positions)
        order = self.orders[axis]
        for column, position in enumerate(positions):
            where = order.index[order.starts[position] : order.starts[position + 1]]
            blanks[where, column] = stored[where, column]
        return blanks

    def _active(self, axis: int) -> Iterator[tuple[int, Labels, Labels, NDArray[np.int32]]]:
        """Yield number, labels of this and the other axis, template (this axis first) of stencils in the residual."""
        for stencil, (T, c, d) in enumerate(zip(self.templates, self.row_labels, self.col_labels, strict=True)):
            if stencil != self.current:
                yield (stencil, c, d, T) if axis == 0 else (stencil, d, c, np.ascontiguousarray(T.T))
