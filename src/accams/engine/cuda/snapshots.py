"""Copies of all labels of a chain, which are laid out while the GPU goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Stream
from accams.engine.cuda.slots import Slots
from accams.model.codes import Codes

Both = tuple[NDArray[np.uint8], NDArray[np.uint8]]


class Snapshots:
    """Room in the computer's memory to which the device copies by itself, and a thread that takes it from there."""

    def __init__(self, slots: Slots, stream: Stream) -> None:
        self._slots, self._stream = slots, stream
        self._room: Both | None = None
        self._last: Future[Codes] | None = None
        self._worker: ThreadPoolExecutor | None = None

    def take(self, n: int, lay_out: Callable[[Both], Codes]) -> Future[Codes]:
        """What will be made of the labels of the first n stencils as they are when all that came before is done."""
        if self._last is not None:
            wait([self._last])
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="accams-draws")
        if self._room is None or len(self._room[0]) != n:
            rows, cols = (cuda.pinned_array((n, each.shape[1]), np.uint8) for each in self._slots.labels)
            self._room = rows, cols
        for each, here in zip(self._slots.labels, self._room, strict=True):
            self._stream.receive(each[:n], here)
        ready, room = self._stream.mark(), self._room

        def work() -> Codes:
            ready()
            return lay_out(room)

        self._last = self._worker.submit(work)
        return self._last

    def close(self) -> None:
        """Wait for what was begun."""
        if self._worker is not None:
            self._worker.shutdown()
