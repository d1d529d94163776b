"""Stencils of a chain in slots of fixed device arrays, copies of them on demand, and snapshots of all labels."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.kernels import MAX_LABELS
from accams.model.codes import Codes

Both = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # labels of rows and of columns


class Slots:
    """Labels, templates (in ticks) and cluster sizes of `n_stencils` stencils.

    Two slots more: `old` for the current stencil before its visit, `spare` for temporary labels or templates.
    """

    def __init__(self, shape: tuple[int, int], n_stencils: int, stream: Stream) -> None:
        size = n_stencils + 2
        self.stream = stream
        self.labels = [stream.zeros((size, length), np.uint8) for length in shape]  # of rows and of columns
        self.T = stream.zeros((size, MAX_LABELS, MAX_LABELS), np.int32)
        self.counts = stream.zeros((size, 2, MAX_LABELS), np.int64)  # rows and columns of each label
        self.shapes = [(1, 1)] * size  # clusters of rows and columns
        self.capacity, self.old, self.spare = n_stencils, n_stencils, n_stencils + 1

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Labels of rows, labels of columns, and templates, as passes take them."""
        return (*self.labels, self.T)

    def put_template(self, slot: int, T: NDArray[Any]) -> None:
        padded = np.zeros((MAX_LABELS, MAX_LABELS), np.int32)
        padded[: T.shape[0], : T.shape[1]] = T
        self.stream.send(padded, self.T[slot])

    def put_counts(self, slot: int, counts: list[NDArray[np.int64]]) -> None:
        padded = np.zeros((2, MAX_LABELS), np.int64)
        for axis in (0, 1):
            padded[axis, : len(counts[axis])] = counts[axis]
        self.stream.send(padded, self.counts[slot])

    def template(self, slot: int, padded: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the template of a slot without padding."""
        a, b = self.shapes[slot]
        return np.ascontiguousarray(padded[:a, :b])


class Copies(Sequence[NDArray[Any]]):
    """Contents of slots (`fetch` returns those of lo .. hi), copied on demand: all at once if most are out of date."""

    def __init__(self, fetch: Callable[[int, int], list[NDArray[Any]]]) -> None:
        self._fetch = fetch
        self._held: list[NDArray[Any] | None] = []

    def changed(self, slot: int, now: NDArray[Any] | None = None) -> None:
        """Mark the copy of a slot (perhaps a new one) as out of date, or replace it by `now`."""
        if slot == len(self._held):
            self._held.append(None)
        self._held[slot] = now

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, slot: Any) -> Any:
        if self._held[slot] is None:
            slot %= len(self)
            stale = sum(held is None for held in self._held)
            lo, hi = (0, len(self)) if 2 * stale > len(self) else (slot, slot + 1)
            self._held[lo:hi] = self._fetch(lo, hi)
        return self._held[slot]


class Snapshots:
    """Pinned buffers that the device copies labels to, and a thread that lays them out."""

    def __init__(self, slots: Slots, stream: Stream) -> None:
        self._slots, self._stream = slots, stream
        self._buffers: Both | None = None
        self._last: Future[Codes] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="accams-draws")

    def take(self, n: int, lay_out: Callable[[Both], Codes]) -> Future[Codes]:
        """Return a future of `lay_out` of the first n stencils' labels, as they are after all work queued so far."""
        if self._last is not None:  # it reads the buffers
            wait([self._last])
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
        self._worker.shutdown()
