"""The engine contract: everything a fitting algorithm may ask of the data.

An engine holds the data of one fit; a state holds the residual and the labels of one chain. Between an algorithm
and a state travel only k x k tables, label counts and scalars, so the same algorithm runs on threads, on
a GPU or on a cluster. Axis 0 is rows and axis 1 is columns; tables and templates always have rows first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine import kmeans, labelling
from accams.engine.grid import Grid, row_weight_step, row_weight_ticks
from accams.engine.kmeans import Init
from accams.engine.passes import Data, Passes, Random
from accams.engine.rules import (
    Blocked,
    BlockedVisit,
    Collapsed,
    Effects,
    Latent,
    Nearest,
    RowNoise,
    Rule,
    Slopes,
    Template,
)
from accams.engine.tables import Tables, Visited, gain_of, own_first
from accams.errors import InputError
from accams.kernels import sample
from accams.kernels.jit import readonly
from accams.kernels.predict import add_at
from accams.kernels.slopes import add_products
from accams.model.codes import Codes, Stacked
from accams.model.stencils import Labels, Stencil, StencilSum
from accams.threads import LARGE_PIECE, Threads, ranges_of

Positions = NDArray[np.int64]
Scaling = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class Engine(Data, ABC):
    """Data of one fit, in the form that one kind of hardware needs."""

    name: str
    in_turn = True  # whether labels can be drawn one row after another (the collapsed sampler)

    def __init__(self, observations: Observations, grid: Grid, threads: Threads) -> None:
        obs = observations
        uniform = obs.is_complete and obs.stored_weights is None and obs.blank_weight in (None, 1.0)
        super().__init__(obs.shape, uniform, grid, threads)
        self.observations = obs
        self.row_step = row_weight_step(obs, grid)  # value of one unit of a row's weight

    @abstractmethod
    def new_state(self, chain: int = 0) -> "State":
        """Return a state without stencils, whose residual is the data less the offset."""

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
        """Free resources outside of Python's memory, such as threads."""
        self.threads.close()


class State(Passes):
    """Residual, stencils and the current stencil's labels of one chain.

    Fitting a stencil is ``begin(l)``, any number of updates, ``end(T)``. In between, the residual excludes the stencil.
    """

    engine: Engine
    templates: list[Template]
    row_labels: list[Labels]
    col_labels: list[Labels]
    current: int | None

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._visited: list[Visited] = []

    @abstractmethod
    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        """Take stencil number `stencil` out of the residual, or start a new one with k = (k_rows, k_cols)."""

    @abstractmethod
    def end(self, T: Template) -> None:
        """Put the current stencil, with its labels and this template, into the residual."""

    def update(self, axis: int, rule: Rule, before: Tables | None = None) -> Tables:
        """Choose new labels for all rows (axis 0) or columns (axis 1) by a rule.

        Repeating it while the other axis's labels stay needs no further pass. `before` are the tables of the present
        labels, if the last update has returned them, so that `Collapsed` need not compute them again.
        """
        if isinstance(rule, Collapsed):
            return labelling.update_collapsed(self, axis, rule, before)
        tables = self.relabel(axis, rule)
        fillable = tables.counts.min() == 0 and self.shape[axis] >= self.k[axis]
        if isinstance(rule, Nearest) and rule.prices is None and fillable:
            T = np.ascontiguousarray(own_first(rule.T, axis), dtype=np.float64)
            moved = labelling.fill_empty_clusters(self, axis, rule, T, tables.counts)
            if moved:
                tables = replace(self.tables(axis), moved=tables.moved + moved)
        return tables

    def visit(self, rule: BlockedVisit) -> None:
        """Draw labels and template of the current stencil and end it; `visited` waits for the result and returns it."""
        T, tables, moved, counts = rule.T, None, [0, 0], list(rule.counts)
        for update in rule.updates:
            axis = update.axis
            prior = sample.log_weights(counts[axis], rule.concentration[axis], *update.weights)
            tables = self.update(axis, Blocked(T, prior, rule.precision, update.labels), tables)
            N, L = np.ascontiguousarray(tables.N), np.ascontiguousarray(tables.L)  # compiled for one layout
            T = sample.template(N, L, rule.kappa, rule.spread, self.engine.grid.limit, *update.template)
            counts[axis] = tables.counts
            moved[axis] += tables.moved
        assert tables is not None
        self.end(T)
        self._visited.append(Visited(T, counts, (moved[0], moved[1]), gain_of(tables, T)))

    @property
    def visits_at_once(self) -> int:
        """How many visits of `visit_all` should be made together."""
        return 1

    def visit_all(self, visits: Iterable[tuple[int, BlockedVisit]]) -> None:
        """Take out and `visit` different stencils of the model, at most `visits_at_once`, given by their numbers.

        Each rule begins with its stencil's template, and all have the same precision. Engines whose `visits_at_once` is
        1 need no such method.
        """
        raise NotImplementedError

    def visited(self) -> list[Visited]:
        """Return the results of all visits since the last call, in order."""
        results, self._visited = self._visited, []
        return results

    def cluster(self, axis: int, init: Init, generator: Random, max_iter: int = 20) -> None:
        """Cluster rows (axis 0) or columns (axis 1) by their sums over the other axis's clusters, from scratch.

        This is the paper's column clustering when axis is 1 and the rows have been clustered before.
        """
        self.set_labels(axis, self.k_means(axis, init, generator, max_iter))

    def seed(self, axis: int, init: Init, generator: Random, effort: kmeans.Effort = kmeans.THOROUGH) -> None:
        """Cluster rows (axis 0) or columns (axis 1) when the other axis has no labels yet.

        ``init="random"`` is the paper's row clustering: k random rows as centres, then k-means over all coordinates.
        ``init="k-means++"`` does it on a random sketch of the other axis, which is much faster and no worse a start;
        with missing cells, the groups of the sketch become the other axis's labels.
        """
        complete = self.engine.observations.is_complete
        self.set_labels(axis, labelling.seed(self, axis, init, generator, effort, complete))

    def squared_error(self, *, row_weighted: bool = False) -> float:
        """Return the weighted sum of squared residuals on the scale of the data, optionally weighted by row."""
        grid, squares = self.engine.grid, self.row_squares()
        if row_weighted and self.row_weights is not None:
            squares = squares * (self.row_weights * self.engine.row_step)
        return float(squares.sum()) * grid.step**2 * grid.weight_step

    @property
    def weight_unit(self) -> float:
        """Value of one unit of N."""
        return self.engine.grid.weight_step * (1.0 if self.row_weights is None else self.engine.row_step)

    def draw_row_weights(self, rule: RowNoise) -> None:
        """Draw the precision of every row from its residuals."""
        grid, counts = self.engine.grid, np.diff(self.engine.observations.row_starts)
        squares, drawn = self.row_squares(), np.empty(self.shape[0])
        scale = grid.step**2 * grid.weight_step / rule.sigma2
        ranges = self.row_ranges(0)
        self.engine.threads.run(sample.precisions, ranges, squares, counts, rule.nu, scale, *rule.key, drawn)
        if rule.normalise:
            drawn *= self.engine.row_mass.sum() / (self.engine.row_mass @ drawn)
        self.set_row_weights(drawn)

    def set_row_weights(self, weights: NDArray[np.float64]) -> None:
        """Set the precision of every row, rounded to the grid (and scaled down if sums could overflow)."""
        self._require_residual("noise per row: set row_noise=None")
        self.set_row_ticks(row_weight_ticks(weights, self.engine.row_step, self.engine.row_mass))

    def draw_effects(self, axis: int, rule: Effects) -> float:
        """Draw an effect for every row (column), put it into the residual, and return the sum of squared effects."""
        self._require_residual("continuous effects: use effects='stencils' or None")
        self.add_effects(axis, self.effect_changes(axis, rule))
        effects = self.effects[axis]
        assert effects is not None
        return float(np.square(effects * self.engine.grid.step).sum())

    def draw_slopes(self, axis: int, rule: Slopes, scale: Scaling) -> NDArray[np.float64]:
        """Draw slopes for every row (column), put them into the residual, and return the sum of squares of each.

        `scale` returns factors for the new slopes on each feature, by which the log likelihood changes as g't - t'Q t/2
        if they are 1 + t: it is given Q and g.
        """
        self._require_residual("features")
        (change, moments), old = self.slope_changes(axis, rule), self.present_slopes(axis)
        terms, limit = moments.astype(np.float64) * rule.unit, self.engine.grid.slope_limit(len(rule.spreads))
        Q = np.tril(terms[:-1]) + np.tril(terms[:-1], -1).T
        factors = scale(Q, terms[-1])
        new = np.clip(np.rint((old + change) * factors), -limit, limit).astype(np.int32)
        self.add_slopes(axis, new - old)
        return np.asarray(np.square(new * self.engine.grid.slope_step).sum(axis=0))

    @abstractmethod
    def draw_latent(self, rule: Latent) -> None:
        """Draw the latent values of all observations, which take the place of the data in the residual."""

    def _require_residual(self, what: str) -> None:
        """Raise where blanks have no residual of their own: their sums know nothing of row weights and effects."""
        if self.engine.observations.blank_weight is not None:
            raise InputError(f"engine={self.engine.name!r} has no {what}")

    def restore(
        self, templates: list[Template], row_labels: list[Labels], col_labels: list[Labels],
        effects: Sequence[NDArray[np.int32] | None] = (None, None),
        slopes: Sequence[NDArray[np.int32] | None] = (None, None),
    ) -> None:  # fmt: skip
        """Put these stencils (and effects and slopes) into the residual of a state that has none."""
        for axis, values in enumerate(slopes):
            if values is not None:
                self.add_slopes(axis, values)
        for axis, values in enumerate(effects):
            if values is not None:
                self.add_effects(axis, values)
        for T, c, d in zip(templates, row_labels, col_labels, strict=True):
            self.begin(len(self.templates), (T.shape[0], T.shape[1]))
            for axis, labels in enumerate((c, d)):
                self.set_labels(axis, labels)
            self.end(T)

    def predict_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the model at the cells (rows[p], cols[p]), on the scale of the data."""
        ticks = self._ticks_at(rows, cols)
        for effects, positions in zip(self.effects, (rows, cols), strict=True):
            if effects is not None:
                ticks += effects[positions]
        for axis, (own, other) in enumerate(((rows, cols), (cols, rows))):
            if self.slopes[axis] is not None:
                tables = readonly(self.slopes[axis]), readonly(self.engine.features[1 - axis])
                add_products(0, len(own), own, other, *tables, ticks)
        return np.asarray(ticks * self.engine.grid.step + self.engine.grid.offset)

    def slope_terms(self, axis: int, features: slice, rows: Positions, cols: Positions) -> NDArray[np.float64]:
        """Return what slopes of an axis on some of the features add at these cells, on the scale of the data."""
        own, other = (rows, cols) if axis == 0 else (cols, rows)
        known = self.engine.features[1 - axis]
        assert known is not None
        tables = (np.ascontiguousarray(x[:, features]) for x in (self.present_slopes(axis), known))
        ticks = np.zeros(len(rows), np.int64)
        add_products(0, len(rows), own, other, *map(readonly, tables), ticks)
        return np.asarray(ticks * self.engine.grid.step)

    def _ticks_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of all stencils at these cells."""
        ticks = np.zeros(len(rows), np.int64)
        for T, c, d in zip(self.templates, self.row_labels, self.col_labels, strict=True):
            add_at(rows, cols, c, d, T, ticks)
        return ticks

    def stencils(self, first: int = 0) -> StencilSum:
        """Return the present model from stencil number `first` on, without the current stencil if there is one."""
        obs, grid = self.engine.observations, self.engine.grid
        stencils = [
            Stencil(grid.values(self.templates[p]), self.row_labels[p], self.col_labels[p])
            for p in range(first, len(self.templates))
            if p != self.current
        ]
        effects = [None if values is None or first else grid.values(values) for values in self.effects]
        return StencilSum(self.shape, grid.offset, tuple(stencils), obs.empty(0), obs.empty(1), *effects)

    def codes(self) -> Codes | Future[Codes]:
        """Return the model laid out for prediction in single precision, or a future of an asynchronous engine."""
        kept = [p for p in range(len(self.templates)) if p != self.current]
        return self._layout(kept)(([self.row_labels[p] for p in kept], [self.col_labels[p] for p in kept]))

    def _layout(self, kept: Sequence[int]) -> Callable[[tuple[Stacked, Stacked]], Codes]:
        """Return a function that lays out labels of these stencils, with their present templates, for prediction."""
        obs, grid = self.engine.observations, self.engine.grid
        templates = [grid.values(self.templates[p]) for p in kept]
        rows, cols = (None if values is None else grid.values(values) for values in self.effects)
        unseen = obs.empty(0), obs.empty(1)
        return lambda both: Codes.of(templates, both, self.shape, unseen, (rows, cols), grid.offset).compact()
