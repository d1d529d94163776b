"""Streaming of observations that do not fit on the device: they stay in host memory and are copied in chunks."""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Device, Stream
from accams.engine.cuda.layout import SliceLayout


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
        """Copy a chunk of these values to the device."""
        if name not in self._arrays:
            self._arrays[name] = self.stream.zeros(self._size, values.dtype)
        array = self._arrays[name][: chunk.last - chunk.first]
        self.stream.send(values[chunk.first : chunk.last], array)
        return array

    def store(self, name: str, values: NDArray[Any], chunk: Chunk) -> None:
        """Copy a chunk back to where it was loaded from."""
        self.stream.receive(self._arrays[name][: chunk.last - chunk.first], values[chunk.first : chunk.last])
