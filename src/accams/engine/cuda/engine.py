"""The `cuda` engine: observed cells in both orders on an NVIDIA GPU."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.memory import PIECES, on_gpu, piece_size
from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.cpu import to_column_order
from accams.engine.cuda.device import Device, Stream, find_device, free_unused
from accams.engine.cuda.kernels import MAX_LABELS
from accams.engine.cuda.layout import WARP, lay_out
from accams.engine.cuda.side import Side, tile_for
from accams.engine.grid import Grid
from accams.errors import InputError
from accams.threads import Threads

LARGEST_CHUNK = 1 << 24  # observations that pass by together


class CudaEngine(Engine):
    """Observations with missing cells or without, on a GPU, with room for so many stencils."""

    name = "cuda"
    in_turn = False

    def __init__(
        self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int, *, n_chains: int = 1,
        k: tuple[int, int] = (1, 1),
    ) -> None:  # fmt: skip
        super().__init__(observations, grid, threads)
        self.device, self.n_stencils = find_device(), n_stencils
        most = most_entries(observations, n_stencils, k, n_chains, self.device)
        obs, stream = observations, Stream(self.device)
        weights: list[NDArray[np.int32] | None] = [None, None]
        if obs.stored_weights is not None:
            by_row = grid.weight_ticks(obs)
            weights = [by_row, to_column_order(obs, by_row, threads)]
        self._states: list[Any] = []
        self.sides = [self._side(axis, weights[axis], k, stream, most) for axis in (0, 1)]
        self.lane_size = 0 if most is None else max(side.largest for side in self.sides)
        stream.wait()

    def _side(
        self, axis: int, weights: NDArray[np.int32] | None, k: tuple[int, int], stream: Stream, most: int | None
    ) -> Side:
        obs = self.observations
        order = (obs.row_starts, obs.cols) if axis == 0 else (obs.col_starts, obs.rows)
        most_k = MAX_LABELS + 1 if obs.is_complete else k[1 - axis]  # groups of a sketch, some at a time
        tile = tile_for(obs.shape[1 - axis], most_k, weights is not None, self.device)
        cap = piece_size(obs.nnz, 1024 * self.device.processors)
        layout = lay_out(*order, obs.shape[1 - axis], self.threads, tile=tile, cap=cap)
        arranged = None if weights is None else layout.arranged(weights, self.threads)
        return Side(axis, layout, arranged, obs.is_complete, stream, most)

    def values_in_slices(self) -> list[NDArray[np.int32]]:
        """The data less the offset, in ticks, as both orders lie on the device."""
        by_row = self.grid.ticks_of(self.observations.stored_values)
        both = by_row, to_column_order(self.observations, by_row, self.threads)
        return [side.layout.arranged(values, self.threads) for side, values in zip(self.sides, both, strict=True)]

    def new_state(self, chain: int = 0) -> Any:
        """A state whose residual is the data less the offset."""
        from accams.engine.cuda.state import CudaState

        self._states.append(CudaState(self, self._states[0] if self._states else None))
        return self._states[-1]

    def close(self) -> None:
        """Free the device (and the threads)."""
        super().close()
        for state in self._states:
            state.free()
        self._states, self.sides = [], []
        gc.collect()  # compiling leaves circles of frames, which hold what kernels were started with
        with suppress(Exception):  # a device that has failed cannot be asked for anything
            free_unused()


def most_entries(obs: Observations, n_stencils: int, k: tuple[int, int], n_chains: int, device: Device) -> int | None:
    """How many observations at most are to be on the device at a time: None if there is room for all of them."""
    weighted = obs.stored_weights is not None
    need = on_gpu(obs.shape, obs.nnz, n_stencils, k, n_chains, weighted)
    if need.all_of_it <= device.memory:
        return None
    per_entry = 6 + (4 if weighted else 0)
    room = (device.memory - need.fixed) // (2 * n_chains * per_entry)
    if room < WARP * PIECES[1]:
        chains = f" of {n_chains} chains" if n_chains > 1 else ""
        raise InputError(
            f"engine='cuda' needs {need.all_of_it / 1e9:.3g} GB on the GPU for this fit{chains}, or at least "
            f"{(need.fixed + 2 * n_chains * per_entry * WARP * PIECES[1]) / 1e9:.3g} GB with ratings passing by, and "
            f"{device.memory / 1e9:.3g} GB are free: use fewer stencils or chains, or engine='cpu'"
        )
    return int(min(room, LARGEST_CHUNK))
