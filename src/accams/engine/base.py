"""The engine contract: all that a fitting algorithm may ask of the data.

An engine holds the data of one fit; a state holds the residual and the labels of one chain. Between an algorithm
and a state travel only k x k tables, label counts and scalars, so the same algorithm runs on threads, on
a GPU or on a cluster. Axis 0 is rows and axis 1 is columns; tables and templates always have rows first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine import kmeans
from accams.engine.grid import Grid
from accams.engine.threads import Range, Threads
from accams.errors import InputError
from accams.kernels import assign
from accams.kernels.sparse import MAX_LABELS
from accams.model.stencils import Labels, Stencil, StencilSum, label_type

Table = NDArray[np.int64]
Template = NDArray[np.int32]
Sums = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Rule:
    """How new labels are chosen: a plain record, so that it can be compiled, cached and sent.

    kind ``"nearest"``: the label with the lowest cost, sum_b curvature * n[i, b] * T[a, b]^2 - 2 * l[i, b] * T[a, b].
    T is in ticks; `shrinkage` (in weight ticks) matters only to the rule for empty clusters.
    """

    kind: Literal["nearest"]
    T: Template
    curvature: float = 1.0
    shrinkage: float = 0.0


@dataclass(frozen=True)
class Tables:
    """Sums per block and labels per cluster, after an update.

    N, L : weight and (weighted) residual sum of each block, rows first; residuals in ticks, without the
    current stencil. counts : rows (columns) per label of the updated axis. moved : labels that changed.
    """

    N: Table
    L: Table
    counts: NDArray[np.int64]
    moved: int = 0


class Engine(ABC):
    """The data of one fit, in the form that one place of running wants."""

    name: str

    def __init__(self, observations: Observations, grid: Grid, threads: Threads) -> None:
        self.observations = observations
        self.grid = grid
        self.threads = threads

    @abstractmethod
    def new_state(self, chain: int = 0) -> State:
        """A state whose residual is the data less the offset, with no stencils."""

    def close(self) -> None:
        """Free what the engine holds outside of Python (threads)."""
        self.threads.close()


class State(ABC):
    """Residual, stencils and the current stencil's labels of one chain.

    Fitting a stencil is ``begin(l)``, any number of updates, ``end(T)``. In between, the residual is that without the
    stencil.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        obs = engine.observations
        self.shape = obs.shape
        self.uniform = obs.is_complete and obs.stored_weights is None and obs.blank_weight in (None, 1.0)
        self.templates: list[Template] = []
        self.row_labels: list[Labels] = []
        self.col_labels: list[Labels] = []
        self.current: int | None = None
        self.labels: list[Labels] = []  # of the current stencil: rows, columns
        self.k = (0, 0)
        self._sums: list[Sums | None] = [None, None]
        self._kept: list[Sums | None] = [None, None]

    # -- the contract -----------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        """Take stencil number `stencil` out of the residual, or start a new one with k = (k_rows, k_cols)."""
        if self.current is not None:
            raise RuntimeError("end the current stencil before beginning another")
        self.current = stencil
        if stencil < len(self.templates):
            self._shift(stencil, +1)
            self.k = (self.templates[stencil].shape[0], self.templates[stencil].shape[1])
            self.labels = [self.row_labels[stencil].copy(), self.col_labels[stencil].copy()]
        else:
            assert k is not None
            if max(k) > MAX_LABELS:
                raise InputError(f"a stencil can have at most {MAX_LABELS} clusters a side, not {max(k)}")
            self.k = k
            self.labels = [np.zeros(size, label_type(k_axis)) for size, k_axis in zip(self.shape, k, strict=True)]
        self._sums = [None, None]

    def end(self, T: Template) -> None:
        """Put the current stencil, with its labels and this template, into the residual."""
        assert self.current is not None
        stencil = self.current
        if stencil == len(self.templates):
            self.templates.append(T)
            self.row_labels.append(self.labels[0])
            self.col_labels.append(self.labels[1])
        else:
            self.templates[stencil] = T
            self.row_labels[stencil], self.col_labels[stencil] = self.labels
        self._shift(stencil, -1)
        self._sums = [None, None]
        self.current = None

    def update(self, axis: int, rule: Rule) -> Tables:
        """New labels for all rows (axis 0) or columns (axis 1) by the rule; one pass over the data if needed.

        Repeating it while the other axis's labels stay needs no further pass.
        """
        T = np.ascontiguousarray(_own_first(rule.T, axis), dtype=np.float64)
        labels = self.labels[axis]
        cached = self._sums[axis]
        n, l = cached or self._buffers(axis, self.k[1 - axis])
        gather = None if cached else self._gatherer(axis, self.labels[1 - axis], n, l)

        def run(lo: int, hi: int) -> tuple[Table, Table, Table, int]:
            if gather is not None:
                gather(lo, hi)
            N, L, counts = _empty_tables(T.shape)
            moved = assign.nearest(lo, hi, n, l, T, rule.curvature, self.uniform, labels, N, L, counts)
            return N, L, counts, int(moved)

        ranges = self._row_ranges(axis) if gather is None else self._pass_ranges(axis)
        tables = _reduce(self.engine.threads.map(run, ranges), axis)
        self._sums[axis] = (n, l)
        if tables.counts.min() == 0 and len(labels) >= self.k[axis]:
            tables = self._reseed(axis, rule, T, tables)
        if tables.moved:
            self._sums[1 - axis] = None
        return tables

    def tables(self, axis: int) -> Tables:
        """The block tables of the labels as they are, by a pass along this axis if needed."""
        n, l = self.sums(axis)
        labels = self.labels[axis]
        k = self.k[axis], self.k[1 - axis]

        def run(lo: int, hi: int) -> tuple[Table, Table, Table, int]:
            N, L, counts = _empty_tables(k)
            assign.block_tables(lo, hi, n, l, labels, N, L, counts)
            return N, L, counts, 0

        return _reduce(self.engine.threads.map(run, self._row_ranges(axis)), axis)

    def set_labels(self, axis: int, labels: Labels) -> None:
        """Give the current stencil these labels."""
        self.labels[axis] = labels.astype(label_type(self.k[axis]))
        self._sums[1 - axis] = None

    def cluster(self, axis: int, init: kmeans.Init, generator: np.random.Generator, max_iter: int = 20) -> None:
        """Cluster rows (axis 0) or columns (axis 1) by their sums over the other axis's clusters, from scratch.

        This is the paper's column clustering when axis is 1 and the rows have been clustered before.
        """
        n, l = self.sums(axis)
        ranges = self._row_ranges(axis)
        threads, k = self.engine.threads, self.k[axis]
        self.set_labels(axis, kmeans.cluster(n, l, k, init, generator, max_iter, threads, ranges, self.uniform))

    def seed(self, axis: int, init: kmeans.Init, generator: np.random.Generator, max_iter: int = 20) -> None:
        """Cluster rows (axis 0) or columns (axis 1) when the other axis has no labels yet.

        ``init="random"`` is the paper's row clustering: k random rows as centres, then k-means over all coordinates.
        ``init="k-means++"`` does it on a random sketch of the other axis, which is much faster and no worse a start.
        """
        if self.k[axis] == 1:
            self.set_labels(axis, np.zeros(self.shape[axis], np.uint8))
        elif init == "random":
            self.set_labels(axis, self._cluster_all_coordinates(axis, generator, max_iter))
        else:
            self.set_labels(axis, self._cluster_sketch(axis, init, generator, max_iter))

    def squared_error(self) -> float:
        """Weighted sum of squared residuals, on the scale of the data."""
        grid = self.engine.grid
        return float(self._squares().sum()) * grid.step**2 * grid.weight_step

    def stencils(self, first: int = 0) -> StencilSum:
        """The model as it stands, from stencil number `first` on (without the current one, if one has been begun)."""
        obs, grid = self.engine.observations, self.engine.grid
        parts = [
            Stencil(grid.values(self.templates[p]), self.row_labels[p], self.col_labels[p])
            for p in range(first, len(self.templates))
            if p != self.current
        ]
        return StencilSum(self.shape, grid.offset, tuple(parts), obs.empty(0), obs.empty(1))

    def sums(self, axis: int) -> Sums:
        """n and l of every row (column) by the clusters of the other axis."""
        cached = self._sums[axis]
        if cached is None:
            n, l = self._buffers(axis, self.k[1 - axis])
            self._gather(axis, self.labels[1 - axis], n, l)
            cached = self._sums[axis] = (n, l)
        return cached

    # -- what each engine does in its own way -----------------------------------------------------------------

    @abstractmethod
    def _shift(self, stencil: int, sign: int) -> None:
        """Add (+1) stencil number `stencil` to the residual or subtract it (-1), at once or on the next pass."""

    @abstractmethod
    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Callable[[int, int], None]:
        """Work that writes the sums of rows (columns) lo .. hi by `labels` of the other axis into n and l.

        The caller does it once for every one of `_pass_ranges(axis)`.
        """

    @abstractmethod
    def _pass_ranges(self, axis: int) -> list[Range]:
        """Ranges for a pass over the data along this axis."""

    @abstractmethod
    def _squares(self) -> NDArray[np.float64]:
        """Pieces, in a fixed order, of the sum of squared residuals in ticks."""

    @abstractmethod
    def _table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """cost[i, a]: squared distance of row i to the centre V[:, a] over observed cells, less a constant."""

    @abstractmethod
    def _lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The residuals of these rows (columns) as the columns of a table, 0 where nothing is observed."""

    # -- shared work ------------------------------------------------------------------------------------------

    def _gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        self.engine.threads.map(self._gatherer(axis, labels, n, l), self._pass_ranges(axis))

    def _cluster_all_coordinates(self, axis: int, generator: np.random.Generator, max_iter: int) -> Labels:
        k = min(self.k[axis], self.shape[axis])
        V = self._lines(axis, np.sort(generator.choice(self.shape[axis], size=k, replace=False)))
        labels: Labels | None = None
        for _ in range(max_iter):
            new = np.argmin(self._table_costs(axis, V), axis=1).astype(label_type(self.k[axis]))
            if labels is not None and np.array_equal(new, labels):
                break
            labels = new
            n, l = np.zeros((2, self.shape[1 - axis], k), dtype=np.int64)
            self._gather(1 - axis, labels, n, l)
            V = kmeans.means(n, l)
        assert labels is not None
        return labels

    def _cluster_sketch(self, axis: int, init: kmeans.Init, generator: np.random.Generator, max_iter: int) -> Labels:
        others, k = self.shape[1 - axis], self.k[1 - axis]
        if self.engine.observations.is_complete:
            groups = kmeans.signed_groups(others, self.shape[axis], generator)
            n, l = np.zeros((2, self.shape[axis], groups.k), dtype=np.int64)
        else:
            groups = kmeans.plain_groups(others, k, generator)
            n, l = self._buffers(axis, groups.k)
            self._sums[axis] = None  # they were in the same arrays
        self._gather(axis, groups.labels, n, l)
        n, l = groups.combine(n, l)
        ranges = self._row_ranges(axis)
        threads, k = self.engine.threads, self.k[axis]
        return kmeans.cluster(n, l, k, init, generator, max_iter, threads, ranges, groups.signed, kmeans.TRIALS)

    def _reseed(self, axis: int, rule: Rule, T: NDArray[np.float64], tables: Tables) -> Tables:
        """Give each empty cluster the row that gains most by being alone; the cost can only fall."""
        n, l = self.sums(axis)
        labels, counts = self.labels[axis], tables.counts.copy()
        gains = np.empty(len(labels))
        self.engine.threads.run(
            assign.misfits, self._row_ranges(axis), n, l, T, rule.curvature, rule.shrinkage, labels, gains
        )
        empty = list(np.flatnonzero(counts == 0))
        moved = 0
        for row in np.argsort(-gains, kind="stable")[: 4 * len(empty)]:
            if not empty or gains[row] <= 0:
                break
            if counts[labels[row]] > 1:
                counts[labels[row]] -= 1
                labels[row] = empty.pop(0)
                counts[labels[row]] += 1
                moved += 1
        if not moved:
            return tables
        again = self.tables(axis)
        return Tables(again.N, again.L, again.counts, tables.moved + moved)

    def _row_ranges(self, axis: int) -> list[Range]:
        """Ranges for work that costs about the same for every row (column)."""
        return self.engine.threads.split_evenly(self.shape[axis], self.k[0] * self.k[1])

    def _buffers(self, axis: int, k: int) -> Sums:
        """Arrays for the sums of one axis, kept from pass to pass."""
        kept = self._kept[axis]
        if kept is None or kept[0].shape[1] != k:
            shape = (self.shape[axis], k)
            kept = self._kept[axis] = (np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        return kept


def _own_first(T: NDArray[Any], axis: int) -> NDArray[Any]:
    return T if axis == 0 else T.T


def _empty_tables(k: tuple[int, int]) -> tuple[Table, Table, Table]:
    return np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k[0], np.int64)


def _reduce(parts: list[tuple[Table, Table, Table, int]], axis: int) -> Tables:
    """Add up the tables of all ranges: whole numbers, so the order does not matter."""
    N, L, counts = (np.sum(list(part), axis=0) for part in list(zip(*parts, strict=True))[:3])
    return Tables(_own_first(N, axis), _own_first(L, axis), counts, sum(part[3] for part in parts))
