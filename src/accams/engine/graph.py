"""The `graph` engine: a sparse matrix whose unstored cells are observed zeros.

The residual of a blank is minus the model, which is a sum of stencils: its sums over clusters are small cross tables.
So a pass costs the stored cells and the labels, never m x n. With weight w for a stored cell of value x and residual
r, and w0 for a blank,

    n[i, b] = w0 * size(b) + sum over stored of (w - w0)
    l[i, b] = sum over stored of ((w - w0) * r + w0 * x)  -  w0 * sum over all j in b of model[i, j]

and the last sum is offset * size(b) plus, for each stencil, one line of template @ cross table.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.build import to_column_order
from accams.data.weights import to_ticks
from accams.engine.blanks import Blanks
from accams.engine.cpu import CpuEngine, CpuState, packed
from accams.engine.local import Gatherer, Shift
from accams.engine.passes import Bookkeeping
from accams.engine.rules import BlockedVisit, Template
from accams.engine.tables import Table, Tables, Visited, gain_of
from accams.errors import InputError
from accams.kernels import blanks as kernels
from accams.kernels import cross, sparse, visit
from accams.kernels.jit import readonly
from accams.model.stencils import Labels

AT_ONCE = 16  # visits in one call, which a fit waits for when it is interrupted
MOST_SCATTERED = 1 << 18  # sums of columns: with a million, passes along the columns are three times as fast
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
        self._rows_only = False  # whether the residual in column order is out of date

    def _shift(self, stencil: int, sign: int) -> None:
        self._shift_stored(stencil, sign)
        if sign > 0:
            self._blanks.take(stencil)
        else:
            self._blanks.put(stencil, self.templates, (self.row_labels, self.col_labels))
        if len(self.pending[1]) > MOST_WAITING:  # with equal weights, no pass along the columns applies them
            self._apply_pending(1)

    def _shift_stored(self, stencil: int, sign: int) -> None:
        super()._shift(stencil, sign)
        if self._rows_only:
            self.pending[1].clear()

    def _apply_pending(self, axis: int, leave: int = 0) -> list[Shift]:
        if axis == 1 and self._rows_only:
            self._apply_pending(0)
            obs = self.engine.observations
            self.resid[1] = to_column_order(obs.row_starts, obs.cols, self.shape[1], self.resid[0], self.engine.threads)
            self._rows_only = False
        return super()._apply_pending(axis, leave)

    @property
    def visits_at_once(self) -> int:
        shapes = {T.shape for T in self.templates}
        return AT_ONCE if len(shapes) == 1 and self._in_one_call(self.templates[0].shape) else 1

    def visit_all(self, visits: Iterable[tuple[int, BlockedVisit]]) -> None:
        stencils, rules = zip(*visits, strict=True)
        self.begin(stencils[0])
        self._visit_in_one_call(stencils, rules)

    def visit(self, rule: BlockedVisit) -> None:
        assert self.current is not None
        if self._in_one_call(self.k):
            self._visit_in_one_call([self.current], [rule])
        else:
            super().visit(rule)

    def _in_one_call(self, k: tuple[int, ...]) -> bool:
        """Whether visits are one kernel: where several chains run at once, and none has threads of its own.

        All stored cells must have one value and one weight, other than that of blanks, and codes of rows and columns
        the same type. Both axes must have updates; those of rows apply the pending shifts. Sums of columns must fit in
        the cache.
        """
        scattered = self.shape[1] * k[0] <= MOST_SCATTERED
        alone = self.engine.threads.callers == 1 or any(len(order.ranges) > 1 for order in self.orders.values())
        by_row, by_col = self._blanks.codes
        equal = self._factors is not None and by_row.dtype == by_col.dtype
        return equal and min(k) > 1 and scattered and not alone

    def _visit_in_one_call(self, stencils: Sequence[int], rules: Sequence[BlockedVisit]) -> None:
        """Make these visits; the stencils have one shape, and the first is the current one."""
        known = self.row_labels, self.col_labels
        labels = [np.stack([self.labels[axis], *(known[axis][s] for s in stencils[1:])]) for axis in (0, 1)]
        numbers = np.array([stencil + 1 if stencil < len(self.templates) else 0 for stencil in stencils])
        T, counts, plan = packed_visits(rules)
        order, shifts = self.orders[0], self._two_shifts()
        stored = order.starts, order.index, self.resid[0]
        room = *self._buffers_for(0), *self._buffers_for(1)
        blanks = *self._blanks.codes, *self._blanks.layout, self.engine.blank, self._factors
        scale = rules[0].precision, self.engine.grid.limit
        N, L, moved = visit.visits((numbers, T, *labels, *counts), plan, stored, shifts, room, blanks, *scale)
        self._rows_only, self.pending[1] = True, []
        self._blanks.stale[numbers] = True  # of a new stencil, number 0: no harm
        for line, stencil in enumerate(stencils):
            self.current, self._labels = stencil, [labels[0][line], labels[1][line]]
            Bookkeeping.end(self, T[line])
            both, changed = [counts[0][line], counts[1][line]], (int(moved[line, 0]), int(moved[line, 1]))
            gain = gain_of(Tables(N[line], L[line], both[0]), T[line])
            self._visited.append(Visited(T[line], both, changed, gain))
        self._shift_stored(stencils[-1], -1)  # the kernel has shifted the others
        if numbers[0] == 0:
            self._blanks.put(stencils[0], self.templates, known)

    def _two_shifts(self) -> tuple[Any, ...]:
        """Return the pending shifts of rows as `accams.kernels.visit` wants them, after having applied any others."""
        pending, (rows, cols) = self.pending[0], self.labels
        out = nothing = rows, cols, np.zeros(self.k, np.int32)
        if self.current in range(len(self.templates)) and pending and np.array_equal(pending[-1][1], cols):
            out = pending.pop()
        put = self._apply_pending(0, leave=1) or [nothing]
        return *put[0], out[0], out[2]

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
            cross.cross_sums(other.astype(np.int64), V, sums)
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


def packed_visits(rules: Sequence[BlockedVisit]) -> tuple[Template, list[Table], tuple[NDArray[Any], ...]]:
    """Return templates, counts of row and of column labels, and the plan of visits: see `accams.kernels.visit`."""
    axes = np.array([update.axis for update in rules[0].updates])
    keys = [[(*update.weights, *update.labels, *update.template) for update in rule.updates] for rule in rules]
    numbers = (np.array([getattr(rule, name) for rule in rules]) for name in ("concentration", "kappa", "spread"))
    counts = [np.stack([rule.counts[axis] for rule in rules]) for axis in (0, 1)]
    return np.stack([rule.T for rule in rules]), counts, (axes, np.array(keys, np.uint64), *numbers)
