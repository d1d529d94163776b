"""Copies of all labels of a chain, laid out for prediction while the GPU goes on."""

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
    """Pinned buffers that the device copies labels to, and a thread that lays them out."""

    def __init__(self, slots: Slots, stream: Stream) -> None:
        self._slots, self._stream = slots, stream
        self._buffers: Both | None = None
        self._last: Future[Codes] | None = None
        self._worker: ThreadPoolExecutor | None = None

    def take(self, n: int, lay_out: Callable[[Both], Codes]) -> Future[Codes]:
        """Return a future of `lay_out` of the first n stencils' labels, as they are after all work queued so far."""
        if self._last is not None:  # it reads the buffers
            wait([self._last])
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="accams-draws")
        if self._buffers is None or len(self._buffers[0]) != n:
            rows, cols = (cuda.pinned_array((n, labels.shape[1]), np.uint8) for labels in self._slots.labels)
            self._buffers = rows, cols
        for labels, buffer in zip(self._slots.labels, self._buffers, strict=True):
            self._stream.receive(labels[:n], buffer)
        ready, buffers = self._stream.mark(), self._buffers

        def work() -> Codes:
            ready()
            return lay_out(buffers)

        self._last = self._worker.submit(work)
        return self._last

    def close(self) -> None:
        """Wait for pending work."""
        if self._worker is not None:
            self._worker.shutdown()
