"""Passes over the data of one chain: sums by cluster, and the labels and block tables that follow from them.

Axis 0 is rows and axis 1 is columns. "Rows" stands for rows or columns, whichever axis a method is called with.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from accams.engine.grid import Grid
from accams.engine.kmeans import Init
from accams.engine.rules import Blocked, Effects, Nearest, Slopes, Template
from accams.engine.tables import DrawnSlopes, SumPair, Table, Tables
from accams.errors import InputError
from accams.kernels import sample
from accams.kernels.jit import readonly
from accams.kernels.sparse import MAX_LABELS
from accams.model.stencils import Labels, label_type
from accams.threads import Range, Threads

Random = np.random.Generator
Features = tuple[NDArray[np.int8] | None, NDArray[np.int8] | None]


class Data:
    """Data that passes run over.

    `uniform`: all cells have the same weight, and all rows the same sums of weights. `features` are those of rows and
    of columns (`Grid.feature_ticks`), on which columns and rows have slopes; None where they have none.
    """

    def __init__(self, shape: tuple[int, int], uniform: bool, grid: Grid, threads: Threads) -> None:
        self.shape, self.uniform, self.grid, self.threads = shape, uniform, grid, threads
        self.features: Features = (None, None)
        self._grams: dict[int, NDArray[np.int32] | None] = {}
        self._lock = Lock()

    def grams_of(self, axis: int, compute: Callable[[], NDArray[np.int32] | None]) -> NDArray[np.int32] | None:
        """Return sums of products of features, which are computed once for all chains."""
        with self._lock:
            if axis not in self._grams:
                self._grams[axis] = compute()
            return self._grams[axis]


class Passes(ABC):
    """Passes over the data, given the labels of the current stencil."""

    first = (0, 0)  # position of the first row and column in the matrix; not zero in a shard

    def __init__(self, engine: Data) -> None:
        self.engine = engine
        self.shape, self.uniform = engine.shape, engine.uniform
        self.k = (0, 0)  # row and column clusters of the current stencil
        self.row_weights: NDArray[np.int32] | None = None  # precisions in steps, where rows have noise of their own
        self.effects: list[NDArray[np.int32] | None] = [None, None]  # continuous, of rows and of columns, in ticks
        self.slopes: list[NDArray[np.int32] | None] = [None, None]  # of rows on features of columns, and of columns
        self._known_squares: NDArray[np.float64] | None = None

    @property
    @abstractmethod
    def labels(self) -> Sequence[Labels]:
        """Row and column labels of the current stencil."""

    @abstractmethod
    def set_labels(self, axis: int, labels: Labels) -> None:
        """Replace the current stencil's labels of an axis."""

    @abstractmethod
    def relabel(self, axis: int, rule: Nearest | Blocked) -> Tables:
        """Choose new labels by a rule and return their tables; empty clusters stay empty."""

    @abstractmethod
    def tables(self, axis: int) -> Tables:
        """Return the block tables of the present labels, with a pass along this axis if needed."""

    @abstractmethod
    def sums(self, axis: int) -> SumPair:
        """Return n and l of every row by the clusters of the other axis."""

    @abstractmethod
    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        """Write n and l of every row by any labels of the other axis."""

    @abstractmethod
    def k_means(self, axis: int, init: Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        """Return labels by k-means on the sums over the clusters of the other axis."""

    @abstractmethod
    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return cost[i, a], the squared distance of row i to centre V[:, a] over observed cells, less a constant."""

    @abstractmethod
    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the residuals of these rows as columns of a table, 0 where nothing is observed."""

    @abstractmethod
    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        """Replace the weights of rows, in steps."""

    @abstractmethod
    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Subtract the change of each row's effect from its residuals."""

    @abstractmethod
    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        """Draw new slopes of every row and return their differences from the present ones, and their moments."""

    @abstractmethod
    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        """Subtract what the change of each row's slopes adds to its cells from the residual."""

    @abstractmethod
    def release(self) -> None:
        """Pause: finish pending work or free buffers that can be rebuilt."""

    @abstractmethod
    def _squares(self) -> NDArray[np.float64]:
        """Return terms, in a fixed order, of the sum of squared residuals in ticks."""

    def row_squares(self) -> NDArray[np.float64]:
        """Return `_squares`, computed again only after the residual has changed."""
        if self._known_squares is None:
            self._known_squares = self._squares()
        return self._known_squares

    def own_weights(self, axis: int) -> NDArray[np.int32] | None:
        """Return the weights of an axis: those of rows, which sums of rows lack and sums of columns include."""
        return self.row_weights if axis == 0 else None

    def effect_changes(self, axis: int, rule: Effects) -> NDArray[np.int32]:
        """Draw new effects and return their differences from the present ones."""
        known = self.effects[axis]
        old = np.zeros(self.shape[axis], np.int32) if known is None else known
        n, l = np.zeros((2, self.shape[axis], 1), np.int64)
        self.gather(axis, np.zeros(self.shape[1 - axis], np.uint8), n, l)
        change, weights, limit = np.empty_like(old), self.own_weights(axis), self.engine.grid.limit
        draw = rule.kappa, rule.tau, limit, *rule.key, self.first[axis]
        self.engine.threads.run(sample.effects, self.row_ranges(axis), n, l, weights, old, *draw, change)
        return change

    def add_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Add to the effects of an axis, and subtract the change from the residual."""
        known = self.effects[axis]
        self.effects[axis] = change.copy() if known is None else known + change
        self.shift_effects(axis, change)
        self._residual_changed()

    def present_slopes(self, axis: int) -> NDArray[np.int32]:
        """Return the slopes of an axis, which are 0 before they are drawn."""
        known, features = self.slopes[axis], self.engine.features[1 - axis]
        assert features is not None
        present = np.zeros((self.shape[axis], features.shape[1]), np.int32) if known is None else known
        return np.asarray(readonly(present))

    def slope_draw(self, axis: int, rule: Slopes) -> tuple[float, NDArray[np.float64], int, float, int, int]:
        """Return what a draw of slopes is told: precision of an observation and of the prior, limit, unit and keys."""
        limit = self.engine.grid.slope_limit(len(rule.spreads))
        return rule.precision, readonly(rule.spreads**-2.0), limit, rule.unit, *rule.key

    def add_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        """Add to the slopes of an axis, and subtract what that adds to the cells from the residual."""
        change = np.ascontiguousarray(change)  # kernels are compiled anew for each layout
        self.slopes[axis] = self.present_slopes(axis) + change
        self.shift_slopes(axis, readonly(change))
        self._residual_changed()

    def row_ranges(self, axis: int) -> list[Range]:
        """Return ranges for work that costs about the same for every row."""
        return self.engine.threads.split_evenly(self.shape[axis], self.k[0] * self.k[1])

    def _residual_changed(self) -> None:
        """Discard what was computed from the residual."""
        self._known_squares = None


class Bookkeeping(Passes):
    """Stencils of a chain as arrays; passes over the data are left to subclasses."""

    def __init__(self, engine: Data) -> None:
        super().__init__(engine)
        self.templates: list[Template] = []
        self.row_labels: list[Labels] = []
        self.col_labels: list[Labels] = []
        self.current: int | None = None
        self._labels: list[Labels] = []  # of the current stencil: rows, columns

    @property
    def labels(self) -> list[Labels]:
        return self._labels

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        if self.current is not None:
            raise RuntimeError("end the current stencil before beginning another")
        self.current = stencil
        if stencil < len(self.templates):
            self.k = (self.templates[stencil].shape[0], self.templates[stencil].shape[1])
            self._labels = [self.row_labels[stencil].copy(), self.col_labels[stencil].copy()]
        else:
            assert k is not None
            if max(k) > MAX_LABELS:
                raise InputError(f"a stencil can have at most {MAX_LABELS} clusters per side, not {max(k)}")
            self.k = k
            self._labels = [np.zeros(size, label_type(k_axis)) for size, k_axis in zip(self.shape, k, strict=True)]
        self._residual_changed()

    def end(self, T: Template) -> None:
        assert self.current is not None
        stencil, self.current = self.current, None
        if stencil == len(self.templates):
            self.templates.append(T)
            self.row_labels.append(self._labels[0])
            self.col_labels.append(self._labels[1])
        else:
            self.templates[stencil] = T
            self.row_labels[stencil], self.col_labels[stencil] = self._labels
        self._residual_changed()

    def set_labels(self, axis: int, labels: Labels) -> None:
        self._labels[axis] = labels.astype(label_type(self.k[axis]))
