"""Observations of one fit in both orders on an NVIDIA GPU."""

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.levels import places
from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.cpu import MemoryOrder, both_orders, memory_orders
from accams.engine.cuda.device import Array, Device, Stream, find_device
from accams.engine.cuda.kernels import MAX_LABELS
from accams.engine.cuda.layout import WARP, lay_out
from accams.engine.cuda.order import DeviceOrder, tile_for
from accams.engine.grid import Grid
from accams.engine.memory import PIECES, device_bytes, piece_size
from accams.errors import InputError
from accams.threads import Threads

LARGEST_CHUNK = 1 << 24  # observations that are streamed together


class CudaData(Engine):
    """Observations with or without missing cells on a GPU, with room for a given number of stencils."""

    def __init__(
        self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int, *, n_chains: int = 1,
        k: tuple[int, int] = (1, 1), ordinal: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(observations, grid, threads)
        self.device, self.n_stencils = find_device(), n_stencils
        most = most_entries(observations, n_stencils, k, n_chains, ordinal, self.device)
        stream, plain = Stream(self.device), memory_orders(observations, grid, threads)
        self.orders = [self._order(axis, plain[axis], k[1 - axis], stream, most) for axis in (0, 1)]
        # observations of a staging buffer; 0: all of them stay on the device
        self.staging_size = 0 if most is None else max(order.largest for order in self.orders)
        self._levels: list[Array] | None = None
        self._lock = Lock()
        stream.wait()

    def _order(self, axis: int, plain: MemoryOrder, k: int, stream: Stream, most: int | None) -> DeviceOrder:
        obs, weights = self.observations, plain.weights
        # complete matrices are seeded by a sketch, whose groups are summed MAX_LABELS at a time and one for the rest
        most_k = MAX_LABELS + 1 if obs.is_complete else k
        tile = tile_for(obs.shape[1 - axis], most_k, weights is not None, self.device)
        cap = piece_size(obs.nnz, 1024 * self.device.processors)
        layout = lay_out(plain.starts, plain.index, obs.shape[1 - axis], self.threads, tile=tile, cap=cap)
        arranged = None if weights is None else layout.arranged(weights, self.threads)
        return DeviceOrder(axis, layout, arranged, obs.is_complete, stream, most)

    @cached_property
    def host_orders(self) -> list[MemoryOrder]:
        """Both orders in memory, for kernels of the CPU."""
        return memory_orders(self.observations, self.grid, self.threads)

    def levels(self, values: NDArray[np.float64]) -> list[Array]:
        """Return the places of the data among these values, as passes take them; they are kept for all chains."""
        with self._lock:
            if self._levels is None:
                numbers = places(self.observations.stored_values, values)
                self._levels = [
                    order.keep(each) for order, each in zip(self.orders, self._arranged(numbers), strict=True)
                ]
                self.orders[0].stream.wait()
            return self._levels

    def values_in_slices(self) -> list[NDArray[np.int32]]:
        """Return the data less the offset, in ticks, in the device's layout of both orders."""
        return self._arranged(self.grid.ticks_of(self.observations.stored_values))

    def _arranged(self, by_row: NDArray[Any]) -> list[NDArray[Any]]:
        """Return one number per observation in the layouts of both orders."""
        both = both_orders(self.observations, by_row, self.threads)
        return [order.layout.arranged(numbers, self.threads) for order, numbers in zip(self.orders, both, strict=True)]


def most_entries(
    obs: Observations, n_stencils: int, k: tuple[int, int], n_chains: int, ordinal: bool, device: Device
) -> int | None:
    """Return the most observations of a chunk on the device, or None if there is room for all of them."""
    weighted = obs.stored_weights is not None
    need = device_bytes(obs.shape, obs.nnz, n_stencils, k, n_chains, weighted, ordinal)
    if need.total <= device.memory:
        return None
    per_entry = 6 + (4 if weighted else 0) + (5 if ordinal else 0)
    room = (device.memory - need.fixed) // (2 * n_chains * per_entry)  # each chain has two staging buffers
    if room < WARP * PIECES[1]:
        chains = f" of {n_chains} chains" if n_chains > 1 else ""
        least = need.fixed + 2 * n_chains * per_entry * WARP * PIECES[1]
        raise InputError(
            f"engine='cuda' needs {need.total / 1e9:.3g} GB on the GPU for this fit{chains}, or at least "
            f"{least / 1e9:.3g} GB with streamed ratings, but only {device.memory / 1e9:.3g} GB are free: "
            "use fewer stencils or chains, or engine='cpu'"
        )
    return int(min(room, LARGEST_CHUNK))
