"""One order of the observations on the device, streamed in chunks if it does not fit, and the launch of passes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda import kernels, steps
from accams.engine.cuda.device import Array, Device, Stream
from accams.engine.cuda.kernels import LARGEST, gather_bytes
from accams.engine.cuda.latent import latent_kernel
from accams.engine.cuda.layout import WARP, SliceLayout
from accams.engine.cuda.sums import PieceSums, add_up_kernel, threads_per_row
from accams.engine.memory import TILE
from accams.errors import InputError

STATIC = 2 * 4 * LARGEST + 1024  # static shared memory of `gather` (two templates), and 1 KB that the driver reserves
NONE = (0, 0, 0, 0)
NO_INDEX = np.zeros(0, np.uint16)
Shift = tuple[int, int, int, int]  # slot, sign (-1: subtract it), clusters of rows, clusters of partners


class LaunchPlan(NamedTuple):
    """Launch of a pass: the queues of each chunk, and the threads and shared memory of a block."""

    queues: list[tuple[Array, ...]]
    threads: int
    shared: int


class Chunk(NamedTuple):
    """Slices that are copied together, and their entries."""

    first_slice: int
    last_slice: int
    first: int
    last: int


def chunks_of(layout: SliceLayout, most: int | None) -> list[Chunk]:
    """Cut a layout into chunks of at most `most` entries (or a single slice that has more); None: one chunk."""
    starts, chunks, slice_ = layout.slice_starts, list[Chunk](), 0
    while slice_ < len(starts) - 1:
        end = len(starts) - 1
        if most is not None:
            end = max(slice_ + 1, int(np.searchsorted(starts, starts[slice_] + most, side="right")) - 1)
        chunks.append(Chunk(slice_, end, int(starts[slice_]), int(starts[end])))
        slice_ = end
    return chunks


def pinned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy in pinned memory, which the device can read and write asynchronously."""
    out: NDArray[Any] = cuda.pinned_array(array.shape, array.dtype)
    out[:] = array
    return out


class StagingBuffer:
    """Device buffer for one chunk. Two take turns: one is copied while the other is worked on."""

    def __init__(self, device: Device, size: int) -> None:
        self.stream, self._size = Stream(device), size
        self._arrays: dict[str, Array] = {}

    def load(self, name: str, values: NDArray[Any], chunk: Chunk) -> Array:
        if name not in self._arrays:
            self._arrays[name] = self.stream.zeros(self._size, values.dtype)
        array = self._arrays[name][: chunk.last - chunk.first]
        self.stream.send(values[chunk.first : chunk.last], array)
        return array

    def store(self, name: str, values: NDArray[Any], chunk: Chunk) -> None:
        """Copy a chunk back to where it was loaded from."""
        self.stream.receive(self._arrays[name][: chunk.last - chunk.first], values[chunk.first : chunk.last])


class DeviceOrder:
    """Observations in row order or in column order, on the device.

    `weights` are in slices; `dense`: every cell is observed, so that no index is needed; `most`: entries of a chunk, if
    observations stay in host memory and are streamed.
    """

    def __init__(
        self, axis: int, layout: SliceLayout, weights: NDArray[np.int32] | None, dense: bool, stream: Stream,
        most: int | None = None,
    ) -> None:  # fmt: skip
        self.axis, self.layout, self.dense, self.stream = axis, replace(layout, index=NO_INDEX), dense, stream
        self.weighted, self.chunks = weights is not None, chunks_of(layout, most)
        self.largest = max((chunk.last - chunk.first for chunk in self.chunks), default=0)
        self.keep = keep = stream.upload if most is None else pinned
        self._unused = stream.zeros(1, np.int32)  # passed for arrays that a kernel does not read
        self._nothing = stream.zeros((1, 1, 1), np.int64)  # ... or write
        self._weights = None if weights is None else keep(weights)
        self._index = None if dense else keep(layout.index)
        self._lanes = tuple(stream.upload(array) for array in (layout.slice_starts, layout.owners, layout.lengths))
        self._places = stream.upload(layout.places) if dense else self._unused
        self._tiles = stream.upload(layout.slice_tiles)
        self.alone, self.order, self.spots = map(stream.upload, (layout.alone, layout.order, layout.spots))
        self._cut = stream.upload(layout.cut_starts), stream.upload(layout.cut_lanes)
        self._plans: dict[tuple[int, bool], LaunchPlan] = {}
        self._lock = Lock()

    def gather(
        self, stream: Stream, resid: Array, staging: list[StagingBuffer], stencils: tuple[Array, ...], slot: int,
        shifts: list[Shift], partner_weights: Array | None = None, sums: PieceSums | None = None,
    ) -> None:  # fmt: skip
        """Add at most two stencils to the residual, and sum it by the partners' clusters in `slot` if `sums` are given.

        `stencils` are labels of rows and of columns, and templates; `staging` is empty unless chunks are streamed.
        """
        own, other = stencils[self.axis], stencils[1 - self.axis]
        partnered = partner_weights is not None
        k = 0 if sums is None else sums.k
        plan = self._plan(k, sums is not None and sums.heavy)
        kinds = {"dense": self.dense, "weighted": self.weighted, "partnered": partnered}
        kernel = kernels.gather_kernel(k, self.axis, plan.threads, len(shifts), **kinds)
        a, b = [*shifts, NONE, NONE][:2]
        partners = partner_weights if partnered else self._unused
        parts = self._nothing if sums is None else sums.parts
        stencil_args = self.layout.tile, own, other, stencils[2], slot, *a, *b, partners, parts
        for (on, chunk, index, values, weights), queues in zip(
            self._each(stream, resid, staging, write=("resid",) if shifts else ()), plan.queues, strict=True
        ):
            data_args = *queues, *self._lanes, self._places, index, chunk.first, values, weights
            on.launch(kernel, queues[2].size, plan.threads, plan.shared, *data_args, *stencil_args)
        if sums is not None:
            self._add_up(stream, sums)

    def _add_up(self, stream: Stream, sums: PieceSums) -> None:
        """Add up the pieces of rows that were cut."""
        threads = stream.device.threads
        together = threads_per_row(self.layout, threads)
        kernel = add_up_kernel(threads, together, sums.heavy)
        blocks = -(-sums.n.shape[1] // (threads // together)), sums.k
        stream.launch(kernel, blocks, threads, 0, *self._cut, *sums)

    def squares(self, stream: Stream, resid: Array, staging: list[StagingBuffer], out: Array) -> None:
        """Add the squared residuals of every row to `out`, in two parts."""
        for on, chunk, _, values, weights in self._each(stream, resid, staging):
            size, where = (chunk.last_slice - chunk.first_slice) * WARP, (chunk.first, *chunk[:2])
            on.spread(steps.squares_kernel(self.weighted), size, *self._lanes, *where, values, weights, out)

    def shift_effects(
        self, stream: Stream, resid: Array, staging: list[StagingBuffer], change: Array, *, own: bool
    ) -> None:
        """Subtract changes of the rows' own effects, or of their partners', from the residuals."""
        kernel = steps.effects_kernel(self.dense, own)
        for on, chunk, index, values, _ in self._each(stream, resid, staging, write=("resid",)):
            size, where = (chunk.last_slice - chunk.first_slice) * WARP, (chunk.first, *chunk[:2])
            place = self._places, self._tiles, self.layout.tile, index
            on.spread(kernel, size, *self._lanes, *where, *place, values, change)

    def shift_slopes(
        self, stream: Stream, resid: Array, staging: list[StagingBuffer], change: Array, features: Array, *, own: bool
    ) -> None:  # fmt: skip
        """Subtract what changes of the rows' own slopes, or of their partners', add to the residuals."""
        kernel = steps.slopes_kernel(self.dense, own)
        for on, chunk, index, values, _ in self._each(stream, resid, staging, write=("resid",)):
            size, where = (chunk.last_slice - chunk.first_slice) * WARP, (chunk.first, *chunk[:2])
            place = self._places, self._tiles, self.layout.tile, index
            on.spread(kernel, size, *self._lanes, *where, *place, values, change, features)

    def draw_latent(
        self, stream: Stream, resid: Array, staging: list[StagingBuffer], latent: Array, levels: Array,
        row_weights: Array | None, draw: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Draw new latent values, and correct the residuals; `draw` are cut points and what follows them."""
        kinds = {"dense": self.dense, "weighted": self.weighted, "row_weighted": row_weights is not None}
        kernel, more = latent_kernel(self.axis, **kinds), {"latent": latent, "levels": levels}
        for on, chunk, index, *arrays in self._each(stream, resid, staging, write=("resid", "latent"), **more):
            size, where = (chunk.last_slice - chunk.first_slice) * WARP, (chunk.first, *chunk[:2])
            place = self._places, self._tiles, self.layout.tile, index
            rows = self._unused if row_weights is None else row_weights
            on.spread(kernel, size, *self._lanes, *where, *place, *arrays, rows, *draw)

    def _each(
        self, stream: Stream, resid: Array, staging: list[StagingBuffer], *, write: Sequence[str] = (), **more: Array
    ) -> Iterator[tuple[Any, ...]]:
        """Yield a stream, each chunk, and its index, residual, weights and `more` on the device.

        Those named by `write` are copied back.
        """
        named = {"index": self._index, "resid": resid, "weights": self._weights, **more}
        if not staging:
            arrays = [self._unused if array is None else array for array in named.values()]
            yield from ((stream, chunk, *arrays) for chunk in self.chunks)
            return
        for buffer in staging:
            buffer.stream.after(stream)
        for turn, chunk in enumerate(self.chunks):
            buffer = staging[turn % len(staging)]
            parts = [
                self._unused if array is None else buffer.load(name, array, chunk) for name, array in named.items()
            ]
            yield buffer.stream, chunk, *parts
            for name in write:
                buffer.store(name, named[name], chunk)
        for buffer in staging:
            stream.after(buffer.stream)

    def _plan(self, k: int, heavy: bool) -> LaunchPlan:
        """Return the launch of a pass whose partners have k clusters."""
        with self._lock:
            if (k, heavy) not in self._plans:
                device, layout = self.stream.device, self.layout
                threads, together = fitting(k, layout.tile, heavy, device)
                shape = device.processors * together, threads // WARP
                queues = [layout.queues(*shape, *chunk[:2]) for chunk in self.chunks]
                uploaded = [tuple(self.stream.upload(array) for array in chunk) for chunk in queues]
                self.stream.wait()
                self._plans[k, heavy] = LaunchPlan(uploaded, threads, gather_bytes(k, threads, layout.tile, heavy))
            return self._plans[k, heavy]


def fitting(k: int, tile: int, heavy: bool, device: Device) -> tuple[int, int]:
    """Return threads per block and blocks per multiprocessor: as many threads as fit, in the smallest blocks."""
    if device.simulated:
        return WARP, 1
    threads, blocks = _largest(k, tile, heavy, device)
    if blocks == 0:
        raise InputError(f"engine='cuda' has no room for {k} clusters on this GPU: use fewer, or engine='cpu'")
    return threads, blocks


def _largest(k: int, tile: int, heavy: bool, device: Device) -> tuple[int, int]:
    """Return the same, with 0 blocks if nothing fits."""
    best = 0, 0, 0
    for threads in (1024, 512, 256, 128, 64, WARP):
        blocks = min(device.shared // (gather_bytes(k, threads, tile, heavy) + STATIC), 1024 // threads)
        best = max(best, (threads * blocks, -threads, blocks))
    return -best[1], best[2]


def tile_for(n_partners: int, k: int, heavy: bool, device: Device) -> int:
    """Return the largest tile that leaves shared memory for the most threads (up to 1024) with sums of k clusters."""
    if device.simulated:
        return TILE // 8
    fewest = -(-n_partners // TILE)
    sizes = [-(-n_partners // tiles) for tiles in range(fewest, 4 * fewest + 1)]
    return max(sizes, key=lambda tile: (prod(_largest(k, tile, heavy, device)), tile))
