"""Observations that are too many for the device: they stay in the computer's memory, and pass by in chunks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Device, Stream
from accams.engine.cuda.layout import SliceLayout


class Chunk(NamedTuple):
    """Slices that pass by together, and their entries."""

    first_slice: int
    last_slice: int
    first: int
    last: int


def chunks_of(layout: SliceLayout, most: int | None) -> list[Chunk]:
    """Chunks of at most so many entries, or of a single slice that has more; all of it, if there is no bound."""
    starts, found, slice_ = layout.slice_starts, list[Chunk](), 0
    while slice_ < len(starts) - 1:
        end = len(starts) - 1
        if most is not None:
            end = max(slice_ + 1, int(np.searchsorted(starts, starts[slice_] + most, side="right")) - 1)
        found.append(Chunk(slice_, end, int(starts[slice_]), int(starts[end])))
        slice_ = end
    return found


def pinned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy from which, and to which, the device copies by itself."""
    out: NDArray[Any] = cuda.pinned_array(array.shape, array.dtype)
    out[:] = array
    return out


class StagingBuffer:
    """Room on the device for one chunk. Two of them take turns: one is copied while the other is worked on."""

    def __init__(self, device: Device, size: int) -> None:
        self.stream, self._size = Stream(device), size
        self._room: dict[str, Array] = {}

    def load(self, name: str, values: NDArray[Any], chunk: Chunk) -> Array:
        """A chunk of these values, on the device."""
        if name not in self._room:
            self._room[name] = self.stream.zeros(self._size, values.dtype)
        here = self._room[name][: chunk.last - chunk.first]
        self.stream.send(values[chunk.first : chunk.last], here)
        return here

    def store(self, name: str, values: NDArray[Any], chunk: Chunk) -> None:
        """Back to where a chunk of these values came from."""
        self.stream.receive(self._room[name][: chunk.last - chunk.first], values[chunk.first : chunk.last])
