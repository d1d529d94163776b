"""The `cuda` engine: observed cells in both orders on an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.cpu import to_column_order
from accams.engine.cuda.device import Stream, find_device
from accams.engine.cuda.layout import TILE, lay_out
from accams.engine.cuda.side import Side
from accams.engine.grid import Grid
from accams.threads import Threads


class CudaEngine(Engine):
    """Observations with missing cells or without, on a GPU, with room for so many stencils."""

    name = "cuda"
    in_turn = False

    def __init__(self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int) -> None:
        super().__init__(observations, grid, threads)
        self.device = find_device()
        self.n_stencils = n_stencils
        obs, stream = observations, Stream(self.device)
        weights: list[NDArray[np.int32] | None] = [None, None]
        if obs.stored_weights is not None:
            by_row = grid.weight_ticks(obs)
            weights = [by_row, to_column_order(obs, by_row)]
        self.sides = [self._side(axis, weights[axis], stream) for axis in (0, 1)]
        stream.wait()

    def _side(self, axis: int, weights: NDArray[np.int32] | None, stream: Stream) -> Side:
        obs = self.observations
        order = (obs.row_starts, obs.cols) if axis == 0 else (obs.col_starts, obs.rows)
        tile = TILE // 8 if self.device.simulated else TILE
        layout = lay_out(*order, obs.shape[1 - axis], self.threads, tile=tile)
        arranged = None if weights is None else layout.arranged(weights, self.threads)
        return Side(axis, layout, arranged, obs.is_complete, stream)

    def values_in_slices(self) -> list[NDArray[np.int32]]:
        """The data less the offset, in ticks, as both orders lie on the device."""
        by_row = self.grid.ticks_of(self.observations.stored_values)
        both = by_row, to_column_order(self.observations, by_row)
        return [side.layout.arranged(values, self.threads) for side, values in zip(self.sides, both, strict=True)]

    def new_state(self, chain: int = 0) -> Any:
        """A state whose residual is the data less the offset."""
        from accams.engine.cuda.state import CudaState

        return CudaState(self)
