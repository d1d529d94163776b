"""The `cuda` engine: observed cells in both orders on an NVIDIA GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import Engine
from accams.engine.cpu import to_column_order
from accams.engine.cuda.device import Array, find_device, upload
from accams.engine.cuda.kernels import MAX_LABELS, gather_bytes
from accams.engine.cuda.layout import TILE, WARP, Layout, lay_out

STATIC = 2 * 4 * MAX_LABELS**2 + 1024  # shared memory of `gather` beside its sums and codes


@dataclass(frozen=True)
class Side:
    """One order of the observations on the device."""

    layout: Layout
    slices: tuple[Array, ...]  # slice_starts, owners, lengths, whole, index
    weights: Array | None
    split: Array  # rows of several pieces, or of none: their sums are added to


@dataclass(frozen=True)
class Plan:
    """How a pass is launched."""

    queues: tuple[Array, ...]
    blocks: int
    threads: int
    shared: int


class CudaEngine(Engine):
    """Sparse observations with missing cells, on a GPU."""

    name = "cuda"
    in_turn = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.device = find_device()
        obs = self.observations
        weights: list[NDArray[np.int32] | None] = [None, None]
        if obs.stored_weights is not None:
            by_row = self.grid.weight_ticks(obs)
            weights = [by_row, to_column_order(obs, by_row)]
        orders = (obs.row_starts, obs.cols, obs.shape[1]), (obs.col_starts, obs.rows, obs.shape[0])
        self.sides = [self._side(*order, w) for order, w in zip(orders, weights, strict=True)]
        self._plans: dict[tuple[int, int, bool], Plan] = {}

    @cached_property
    def tile(self) -> int:
        """Partners of a tile at most."""
        return TILE // 8 if self.device.simulated else TILE

    def _side(
        self, starts: NDArray[np.int64], index: NDArray[Any], n_partners: int, weights: NDArray[np.int32] | None
    ) -> Side:
        layout = lay_out(starts, index, n_partners, self.threads, tile=self.tile)
        parts = (layout.slice_starts, layout.owners, layout.lengths, layout.whole, layout.index)
        split = np.flatnonzero(~layout.whole | (np.diff(starts) == 0))
        arranged = None if weights is None else upload(layout.arranged(weights, self.threads))
        return Side(layout, tuple(upload(each) for each in parts), arranged, upload(split))

    def plan(self, axis: int, k: int, heavy: bool) -> Plan:
        """How a pass along this axis is launched, whose partners have k clusters."""
        if (axis, k, heavy) not in self._plans:
            layout = self.sides[axis].layout
            room = self.device.shared - STATIC
            threads = WARP if self.device.simulated else 512
            while threads > WARP and 2 * gather_bytes(k, threads, layout.tile, heavy) > room:
                threads //= 2
            shared = gather_bytes(k, threads, layout.tile, heavy)
            together = max(1, min(room // (shared + STATIC), 2048 // threads))  # blocks on one multiprocessor
            queues = layout.queues(self.device.processors * together, threads // WARP)
            self._plans[axis, k, heavy] = Plan(
                tuple(upload(each) for each in queues), len(queues.tiles), threads, shared
            )
        return self._plans[axis, k, heavy]

    def values_in_slices(self) -> list[NDArray[np.int32]]:
        """The data less the offset, in ticks, as both orders lie on the device."""
        by_row = self.grid.ticks_of(self.observations.stored_values)
        both = by_row, to_column_order(self.observations, by_row)
        return [side.layout.arranged(values, self.threads) for side, values in zip(self.sides, both, strict=True)]

    def new_state(self, chain: int = 0) -> Any:
        """A state whose residual is the data less the offset."""
        from accams.engine.cuda.state import CudaState

        return CudaState(self)
