"""The engine contract: all that a fitting algorithm may ask of the data.

An engine holds the data of one fit; a state holds the residual and the labels of one chain. Between an algorithm
and a state travel only k x k tables, label counts and scalars, so the same algorithm runs on threads, on
a GPU or on a cluster. Axis 0 is rows and axis 1 is columns; tables and templates always have rows first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine import seeding
from accams.engine.grid import Grid, row_weight_step, row_weight_ticks
from accams.engine.kmeans import Init
from accams.engine.one_by_one import update_one_by_one
from accams.engine.rules import Blocked, BlockedVisit, Collapsed, Effects, Nearest, RowNoise, Rule, Template
from accams.engine.tables import Table, Tables, Visited, gain_of, own_first
from accams.errors import InputError
from accams.kernels import sample
from accams.kernels.predict import add_at
from accams.kernels.sparse import MAX_LABELS
from accams.model.codes import Codes
from accams.model.stencils import Labels, Stencil, StencilSum, label_type
from accams.threads import LARGE_PIECE, Range, Threads, ranges_of

Sums = tuple[NDArray[np.int64], NDArray[np.int64]]
Random = np.random.Generator


class Engine(ABC):
    """The data of one fit, in the form that one place of running wants."""

    name: str
    in_turn = True  # whether labels can be drawn one after another

    def __init__(self, observations: Observations, grid: Grid, threads: Threads) -> None:
        self.observations = observations
        self.grid = grid
        self.threads = threads
        self.row_step = row_weight_step(observations, grid)  # what one unit of a row's weight stands for

    @abstractmethod
    def new_state(self, chain: int = 0) -> State:
        """A state whose residual is the data less the offset, with no stencils."""

    @cached_property
    def row_mass(self) -> NDArray[np.float64]:
        """Weight of each row's observations, in steps."""
        obs = self.observations
        if obs.stored_weights is None:
            return obs.row_counts.astype(np.float64)
        mass = np.zeros(obs.shape[0])
        for lo, hi in ranges_of(obs.row_starts, LARGE_PIECE):
            first, last = obs.row_starts[lo], obs.row_starts[hi]
            ends = np.concatenate([[0.0], np.cumsum(self.grid.weight_ticks(obs, first, last), dtype=np.float64)])
            mass[lo:hi] = np.diff(ends[obs.row_starts[lo : hi + 1] - first])
            obs.release_pages()
        return mass

    def close(self) -> None:
        """Free what the engine holds outside of Python (threads)."""
        self.threads.close()


class State(ABC):
    """Residual, stencils and the current stencil's labels of one chain.

    Fitting a stencil is ``begin(l)``, any number of updates, ``end(T)``. In between, the residual is that without the
    stencil.
    """

    first = (0, 0)  # where its rows and columns begin, if it has only some of the matrix

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
        self.row_weights: NDArray[np.int32] | None = None  # precision of each row, where rows have noise of their own
        self.effects: list[NDArray[np.int32] | None] = [None, None]  # of rows and columns, in ticks
        self._visited: list[Visited] = []
        self._known_squares: NDArray[np.float64] | None = None

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
        self._forget()

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
        self._forget()
        self.current = None

    def update(self, axis: int, rule: Rule, before: Tables | None = None) -> Tables:
        """New labels for all rows (axis 0) or columns (axis 1) by the rule; one pass over the data if needed.

        Repeating it while the other axis's labels stay needs no further pass. `before`: the tables of the labels as
        they are, where the last update has given them, so that `Collapsed` need not make them again.
        """
        if isinstance(rule, Collapsed):
            return update_one_by_one(self, axis, rule, before)
        tables = self._relabelled(axis, rule)
        all_wanted = tables.counts.min() == 0 and self.shape[axis] >= self.k[axis]
        if isinstance(rule, Nearest) and rule.prices is None and all_wanted:
            T = np.ascontiguousarray(own_first(rule.T, axis), dtype=np.float64)
            moved = seeding.fill_empty_clusters(self, axis, rule, T, tables.counts)
            if moved:
                tables = replace(self.tables(axis), moved=tables.moved + moved)
        if tables.moved:
            self.forget_sums(1 - axis)
        return tables

    def visit(self, rule: BlockedVisit) -> None:
        """Draw labels and template of the current stencil, and end it. What came out is told by `visited`.

        An engine that works beside Python may return before it is done.
        """
        T, tables, moved, counts = rule.T, None, [0, 0], list(rule.counts)
        for update in rule.updates:
            axis = update.axis
            prior = sample.log_weights(counts[axis], rule.concentration[axis], *update.weights)
            tables = self.update(axis, Blocked(T, prior, rule.precision, update.labels), tables)
            T = sample.template(tables.N, tables.L, rule.kappa, rule.spread, self.engine.grid.limit, *update.template)
            counts[axis] = tables.counts
            moved[axis] += tables.moved
        assert tables is not None
        self.end(T)
        self._visited.append(Visited(T, counts, (moved[0], moved[1]), gain_of(tables, T)))

    def visited(self) -> list[Visited]:
        """What came out of all visits since the last call, in their order."""
        found, self._visited = self._visited, []
        return found

    def set_labels(self, axis: int, labels: Labels) -> None:
        """Give the current stencil these labels."""
        self.labels[axis] = labels.astype(label_type(self.k[axis]))
        self.forget_sums(1 - axis)

    def cluster(self, axis: int, init: Init, generator: Random, max_iter: int = 20) -> None:
        """Cluster rows (axis 0) or columns (axis 1) by their sums over the other axis's clusters, from scratch.

        This is the paper's column clustering when axis is 1 and the rows have been clustered before.
        """
        self.set_labels(axis, self.k_means(axis, init, generator, max_iter))

    def seed(self, axis: int, init: Init, generator: Random, max_iter: int = 20) -> None:
        """Cluster rows (axis 0) or columns (axis 1) when the other axis has no labels yet.

        ``init="random"`` is the paper's row clustering: k random rows as centres, then k-means over all coordinates.
        ``init="k-means++"`` does it on a random sketch of the other axis, which is much faster and no worse a start;
        with missing cells, the other axis then has the groups of the sketch for labels.
        """
        self.set_labels(axis, seeding.seed(self, axis, init, generator, max_iter))

    def squared_error(self, *, row_weighted: bool = False) -> float:
        """Weighted sum of squared residuals, on the scale of the data; with or without the rows' own weights."""
        grid, squares = self.engine.grid, self._row_squares()
        if row_weighted and self.row_weights is not None:
            squares = squares * (self.row_weights * self.engine.row_step)
        return float(squares.sum()) * grid.step**2 * grid.weight_step

    @property
    def weight_unit(self) -> float:
        """What one unit of N stands for."""
        return self.engine.grid.weight_step * (1.0 if self.row_weights is None else self.engine.row_step)

    def draw_row_weights(self, rule: RowNoise) -> None:
        """Draw the precision of every row from its residuals."""
        grid, counts = self.engine.grid, np.diff(self.engine.observations.row_starts)
        squares, drawn = self._row_squares(), np.empty(self.shape[0])
        scale = grid.step**2 * grid.weight_step / rule.sigma2
        ranges = self.row_ranges(0)
        self.engine.threads.run(sample.precisions, ranges, squares, counts, rule.nu, scale, *rule.key, drawn)
        if rule.normalise:
            drawn *= self.engine.row_mass.sum() / (self.engine.row_mass @ drawn)
        self.set_row_weights(drawn)

    def set_row_weights(self, weights: NDArray[np.float64]) -> None:
        """Give every row a precision, rounded to the grid (and all of them smaller, if sums could overflow)."""
        self.row_weights = row_weight_ticks(weights, self.engine.row_step, self.engine.row_mass)
        for axis in (0, 1):
            self.forget_sums(axis)

    def draw_effects(self, axis: int, rule: Effects) -> float:
        """Draw an effect for every row (column) and put it into the residual; returns the sum of their squares."""
        known = self.effects[axis]
        old = np.zeros(self.shape[axis], np.int32) if known is None else known
        change = self._effect_changes(axis, rule, old)
        new = self.effects[axis] = old + change
        self._shift_effects(axis, change)
        self._forget()
        return float(np.square(new * self.engine.grid.step).sum())

    def restore(
        self, templates: list[Template], row_labels: list[Labels], col_labels: list[Labels],
        effects: Sequence[NDArray[np.int32] | None] = (None, None),
    ) -> None:  # fmt: skip
        """Put these stencils (and effects) into the residual of a state that has none."""
        for axis, each in enumerate(effects):
            if each is not None:
                self.effects[axis] = each.copy()
                self._shift_effects(axis, each)
        self._forget()
        for T, c, d in zip(templates, row_labels, col_labels, strict=True):
            self.begin(len(self.templates), (T.shape[0], T.shape[1]))
            for axis, labels in enumerate((c, d)):
                self.set_labels(axis, labels)
            self.end(T)

    def predict_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
        """The model at the cells (rows[p], cols[p]), on the scale of the data."""
        ticks = self._ticks_at(rows, cols)
        for each, where in zip(self.effects, (rows, cols), strict=True):
            if each is not None:
                ticks += each[where]
        return np.asarray(ticks * self.engine.grid.step + self.engine.grid.offset)

    def _ticks_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of all stencils at these cells."""
        ticks = np.zeros(len(rows), np.int64)
        for T, c, d in zip(self.templates, self.row_labels, self.col_labels, strict=True):
            add_at(rows, cols, c, d, T, ticks)
        return ticks

    def stencils(self, first: int = 0) -> StencilSum:
        """The model as it stands, from stencil number `first` on (without the current one, if one has been begun)."""
        obs, grid = self.engine.observations, self.engine.grid
        parts = [
            Stencil(grid.values(self.templates[p]), self.row_labels[p], self.col_labels[p])
            for p in range(first, len(self.templates))
            if p != self.current
        ]
        both = [None if each is None or first else grid.values(each) for each in self.effects]
        return StencilSum(self.shape, grid.offset, tuple(parts), obs.empty(0), obs.empty(1), *both)

    def codes(self) -> Codes | Future[Codes]:
        """The same as prediction wants it, in single precision; an engine that works beside Python may be at it yet."""
        return self.stencils().codes.compact()

    # -- what each engine does in its own way -----------------------------------------------------------------

    @abstractmethod
    def _shift(self, stencil: int, sign: int) -> None:
        """Add (+1) stencil number `stencil` to the residual or subtract it (-1), at once or on the next pass."""

    @abstractmethod
    def _relabelled(self, axis: int, rule: Nearest | Blocked) -> Tables:
        """`update` for these rules, where empty clusters stay empty and sums of the other axis stay as they are."""

    @abstractmethod
    def tables(self, axis: int) -> Tables:
        """The block tables of the labels as they are, by a pass along this axis if needed."""

    @abstractmethod
    def k_means(self, axis: int, init: Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        """Labels of an axis by k-means on its sums over the clusters of the other."""

    @abstractmethod
    def sums(self, axis: int) -> Sums:
        """n and l of every row (column) by the clusters of the other axis."""

    @abstractmethod
    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        """Write n and l of every row (column) by any labels of the other axis."""

    @abstractmethod
    def forget_sums(self, axis: int) -> None:
        """The labels of the other axis have changed: sums along this one are out of date."""

    @abstractmethod
    def release(self) -> None:
        """Give back the memory of the sums, until they are needed again."""

    @abstractmethod
    def _shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Subtract the change of each row's (column's) effect from its residuals, in both orders."""

    @abstractmethod
    def _squares(self) -> NDArray[np.float64]:
        """Pieces, in a fixed order, of the sum of squared residuals in ticks."""

    @abstractmethod
    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """cost[i, a]: squared distance of row i to the centre V[:, a] over observed cells, less a constant."""

    @abstractmethod
    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The residuals of these rows (columns) as the columns of a table, 0 where nothing is observed."""

    # -- shared work ------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """The residual has changed."""
        self._known_squares = None
        for axis in (0, 1):
            self.forget_sums(axis)

    def _row_squares(self) -> NDArray[np.float64]:
        """`_squares`, computed again only after the residual has changed."""
        if self._known_squares is None:
            self._known_squares = self._squares()
        return self._known_squares

    def own_weights(self, axis: int) -> NDArray[np.int32] | None:
        """Weights that each row's sums are still to be multiplied by (those of columns have them in already)."""
        return self.row_weights if axis == 0 else None

    def _effect_changes(self, axis: int, rule: Effects, old: NDArray[np.int32]) -> NDArray[np.int32]:
        """By how much new effects differ from the old ones."""
        n, l = np.zeros((2, self.shape[axis], 1), np.int64)
        self.gather(axis, np.zeros(self.shape[1 - axis], np.uint8), n, l)
        change, weights, limit = np.empty_like(old), self.own_weights(axis), self.engine.grid.limit
        draw = rule.kappa, rule.tau, limit, *rule.key, self.first[axis]
        self.engine.threads.run(sample.effects, self.row_ranges(axis), n, l, weights, old, *draw, change)
        return change

    def row_ranges(self, axis: int) -> list[Range]:
        """Ranges for work that costs about the same for every row (column)."""
        return self.engine.threads.split_evenly(self.shape[axis], self.k[0] * self.k[1])
