"""The `dense` engine: every cell stored, in row order and in column order; those that are missing have weight zero.

Sums by cluster are products with a 0/1 matrix, computed as vector additions rather than by BLAS.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.levels import places
from accams.engine.base import Engine, State
from accams.engine.local import Gatherer, LocalPasses, Shift, two_of
from accams.engine.rules import Latent, Slopes
from accams.engine.tables import DrawnSlopes, Table
from accams.errors import InputError
from accams.kernels import dense, ordinal, slopes
from accams.kernels.jit import readonly
from accams.model.stencils import Labels
from accams.threads import SINGLE_BLAS, Range

LEAST = 256  # neighbouring cells per thread: with fewer, cache lines are wasted
COST_TILE = 128  # rows per matrix product; fixed, so that the result does not depend on the threads


class DenseEngine(Engine):
    """Complete matrices, and those with few missing cells."""

    name = "dense"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        obs = self.observations
        if obs.blank_weight is not None:
            raise InputError("engine='dense' does not take observed zeros: use engine='graph'")
        self.ranges = [self.threads.split_evenly(obs.shape[axis], obs.shape[1 - axis], LEAST) for axis in (0, 1)]
        self.weights: list[NDArray[Any] | None] = [None, None]
        self._levels: list[NDArray[np.uint8]] | None = None
        if obs.stored_weights is not None:
            self.weights = _both_orders(self._spread(self.grid.weight_ticks(obs)))
        elif not obs.is_complete:
            self.weights = _both_orders(self._spread(np.ones(obs.nnz, dtype=np.uint8)))

    def new_state(self, chain: int = 0) -> "DenseState":
        return DenseState(self)

    def values_in_ticks(self) -> list[NDArray[Any]]:
        """Return the data less the offset, in both orders; 0 where it is missing."""
        return _both_orders(self._spread(self.grid.ticks_of(self.observations.stored_values)))

    def levels(self, values: NDArray[np.float64]) -> list[NDArray[np.uint8]]:
        """Return the places of the data among these values, in both orders; 0 where it is missing. They are kept."""
        if self._levels is None:
            self._levels = _both_orders(self._spread(places(self.observations.stored_values, values)))
        return self._levels

    def _spread(self, by_row: NDArray[Any]) -> NDArray[Any]:
        obs = self.observations
        if obs.is_complete:
            return by_row.reshape(obs.shape)
        out = np.zeros(obs.shape, dtype=by_row.dtype)
        out[np.repeat(np.arange(obs.shape[0]), np.diff(obs.row_starts)), obs.cols] = by_row
        return out


class DenseState(LocalPasses, State):
    """Residuals of all cells; resid[axis] has the other axis first."""

    engine: DenseEngine

    def __init__(self, engine: DenseEngine) -> None:
        super().__init__(engine)
        self.resid = engine.values_in_ticks()
        self._latent: list[NDArray[Any]] | None = None

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        weights, partners = self.engine.weights[axis], self.own_weights(1 - axis)
        a, b = two_of(self._apply_pending(axis, leave=2))
        args = self.resid[axis], weights, partners, *a, *b, labels, n, l
        if weights is None:
            n[:] = np.bincount(labels, weights=partners, minlength=n.shape[1])
        return lambda lo, hi: dense.gather(lo, hi, *args)

    def _pass_ranges(self, axis: int) -> list[Range]:
        return self.engine.ranges[axis]

    def _squares(self) -> NDArray[np.float64]:
        self._apply_pending(1)
        out = np.empty(self.shape[0])
        self.engine.threads.run(dense.squares, self.engine.ranges[0], self.resid[1], self.engine.weights[1], out)
        return out

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        X, W = self.resid[axis], self.engine.weights[axis]
        cost, V2 = np.empty((self.shape[axis], V.shape[1])), V * V

        def run(lo: int, hi: int) -> None:
            x = X[:, lo:hi].T.astype(np.float64)
            if W is None:
                cost[lo:hi] = V2.sum(axis=0) - 2.0 * (x @ V)
            else:
                w = W[:, lo:hi].T.astype(np.float64)
                cost[lo:hi] = w @ V2 - 2.0 * ((w * x) @ V)

        tiles = [(lo, min(lo + COST_TILE, len(cost))) for lo in range(0, len(cost), COST_TILE)]
        with SINGLE_BLAS:
            self.engine.threads.map(run, tiles)
        return cost

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        lines = self.resid[axis][:, positions].astype(np.float64)
        weights = self.engine.weights[axis]
        return lines if weights is None else lines * (weights[:, positions] > 0)

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        self.resid[axis] -= change
        self.resid[1 - axis] -= change[:, None]

    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        self._apply_pending(axis)
        old = self.present_slopes(axis)
        change, weights = np.empty_like(old), (self.own_weights(axis), self.own_weights(1 - axis))
        head = self.resid[axis], self.engine.weights[axis], *weights, readonly(self.engine.features[1 - axis]), old
        draw, ranges = self.slope_draw(axis, rule), self.engine.ranges[axis]
        moments = self.engine.threads.map(lambda lo, hi: slopes.draw_dense(lo, hi, *head, *draw, change), ranges)
        return change, sum(moments)

    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        features = self.engine.features[1 - axis]
        assert features is not None
        added = change @ features.T.astype(np.int32)
        self.resid[axis] -= added.T
        self.resid[1 - axis] -= added

    def draw_latent(self, rule: Latent) -> None:
        if self._latent is None:  # until now the data itself
            self._latent = self.engine.values_in_ticks()
        draw, levels = (readonly(rule.cuts), rule.spread, rule.unit, *rule.key), self.engine.levels(rule.values)
        for axis, ranges in enumerate(self.engine.ranges):
            self._apply_pending(axis)
            weights = self.engine.weights[axis], self.own_weights(axis), self.own_weights(1 - axis)
            head = levels[axis], *weights, self.resid[axis], self._latent[axis]
            self.engine.threads.run(ordinal.redraw_dense, ranges, *head, *draw, axis == 0)
        self._residual_changed()

    def _apply(self, axis: int, shifts: list[Shift]) -> None:
        for shift in shifts:
            self.engine.threads.run(dense.shift, self.engine.ranges[axis], self.resid[axis], *shift)


def _both_orders(matrix: NDArray[Any]) -> list[Any]:
    """Return [columns first, rows first], as updates of rows and of columns read them."""
    return [matrix.T.copy(), np.ascontiguousarray(matrix)]  # a copy, even of a single line
