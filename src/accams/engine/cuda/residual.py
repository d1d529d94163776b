"""The residual on the device, in both orders, and the sums over it."""

from __future__ import annotations

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda import steps
from accams.engine.cuda.data import CudaData
from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.kernels import LARGEST, MAX_LABELS
from accams.engine.cuda.order import shift
from accams.engine.cuda.slots import Slots
from accams.engine.cuda.streaming import StagingBuffer, pinned
from accams.engine.cuda.sums import PieceSums, take
from accams.model.stencils import Labels

AT_A_TIME = 1 << 15  # rows whose sums are fetched together
Waiting = list[tuple[int, int, tuple[int, int]]]  # slots to be added to the residual, their signs and shapes


class DeviceResidual:
    """What stencils leave of the data.

    A stencil that is taken out is added with the next pass over each order, and only then: until both have it, it is
    kept as it was in the slot `old`, so it may be changed where it is. One that is put back is subtracted likewise.

    Attributes
    ----------
    waiting : list
        What the next pass along each axis will add.
    fresh : list of bool
        Whether the sums of an axis are up to date.
    weights : array or None
        Of rows, where they have any.
    """

    def __init__(self, engine: CudaData, slots: Slots, stream: Stream, like: DeviceResidual | None = None) -> None:
        self.engine, self.slots, self.stream = engine, slots, stream
        self.shape = engine.observations.shape
        self.waiting: list[Waiting] = [[], []]
        self.fresh = [False, False]
        self.weights: Array | None = None
        self.pristine = True  # the data, as yet
        self._staging = [
            StagingBuffer(engine.device, engine.staging_size) for _ in range(2 if engine.staging_size else 0)
        ]
        self._both = self._beginning(like)
        self._sent: NDArray[np.int32] | None = None
        self._room: dict[tuple[int, int, bool], PieceSums] = {}
        self._squares = stream.zeros((self.shape[0], 2), np.int64), stream.zeros(self.shape[0], np.float64)
        self._squares_here: NDArray[np.float64] = cuda.pinned_array(self.shape[0], np.float64)

    def _beginning(self, like: DeviceResidual | None) -> list[Array]:
        """The data in both orders; copied from another chain that has not begun, if there is one."""
        if like is None or not like.pristine:
            return [
                pinned(each) if self._staging else self.stream.upload(each) for each in self.engine.values_in_slices()
            ]
        if self._staging:
            return [pinned(each) for each in like._both]
        self.stream.after(like.stream)
        return [self.stream.copied(each) for each in like._both]

    @property
    def streamed(self) -> bool:
        """Whether observations pass by in chunks."""
        return bool(self._staging)

    def take_out(self, slot: int) -> None:
        """Have a stencil added; it can then be changed."""
        mine = slot, -1, self.slots.shapes[slot]
        absent = [axis for axis in (0, 1) if mine in self.waiting[axis]]  # it has not been subtracted yet
        for axis in absent:
            self.waiting[axis].remove(mine)
        if len(absent) == 2:
            return
        old = self.slots.old
        for axis in (0, 1):
            if any(each[0] == old for each in self.waiting[axis]):
                self.apply_waiting(axis)
        self.stream.spread(steps.remember, max(*self.shape, LARGEST), *self.slots.arrays, slot, old)
        for axis in {0, 1} - {*absent}:
            self.waiting[axis].append((old, +1, self.slots.shapes[slot]))

    def put_back(self, slot: int) -> None:
        """Have a stencil subtracted."""
        for axis in (0, 1):
            self.waiting[axis].append((slot, -1, self.slots.shapes[slot]))
        self.fresh = [False, False]

    def sums(self, axis: int, slot: int) -> PieceSums:
        """PieceSums of every row (column) by the clusters of the other axis in a slot, by a pass if needed."""
        k, side = self.slots.shapes[slot][1 - axis], self.engine.orders[axis]
        heavy = side.weighted or (axis == 1 and self.weights is not None)
        if (axis, k, heavy) not in self._room:
            self._room[axis, k, heavy] = PieceSums.empty(side.layout, k, heavy, self.stream)
        found = self._room[axis, k, heavy]
        if not self.fresh[axis]:
            self._gather(axis, slot, found)
            self.fresh[axis] = True
        return found

    def sums_by(self, axis: int, labels: Labels, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """PieceSums of every row (column) by any labels of the other axis, some clusters at a time."""
        n, l = np.empty((2, self.shape[axis], k), np.int64)
        spare = self.slots.spare
        for first in range(0, k, MAX_LABELS):
            width = min(MAX_LABELS, k - first)
            near = labels.astype(np.int64) - first
            here = np.where((near >= 0) & (near < width), near, width).astype(np.uint8)
            self.stream.send(here, self.slots.labels[1 - axis][spare])
            self.slots.shapes[spare] = (width + (k > width),) * 2  # one more for all others
            self.fresh[axis] = False
            found = self.fetch_sums(axis, self.sums(axis, spare))
            n[:, first : first + width], l[:, first : first + width] = (each[:, :width] for each in found)
        self.fresh[axis] = False
        if k > MAX_LABELS:  # only to seed rows of complete matrices
            self._room = {key: sums for key, sums in self._room.items() if key[1] <= MAX_LABELS}
        return n, l

    def fetch_sums(
        self, axis: int, sums: PieceSums, rows: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """PieceSums of these rows (columns), or of all, as the CPU has them: a line for each."""
        rows = np.arange(self.shape[axis]) if rows is None else rows
        n, l = np.empty((2, len(rows), sums.k), np.int64)
        side = self.engine.orders[axis]
        for first in range(0, len(rows), AT_A_TIME):
            some = rows[first : first + AT_A_TIME]
            there = [self.stream.room((len(some), sums.k), np.int64) for _ in (n, l)]
            what = self.stream.upload(some), side.spots, side.alone, *sums, *there
            self.stream.spread(take, len(some) * sums.k, *what)
            here = slice(first, first + len(some))
            n[here], l[here] = self.stream.fetch(there[0]), self.stream.fetch(there[1])
        return n, l

    def squares(self) -> NDArray[np.float64]:
        """The squared residuals of every row, in squared ticks."""
        self.apply_waiting(0)
        parts, out = self._squares
        self.stream.spread(steps.zero, 2 * self.shape[0], parts)
        self.engine.orders[0].squares(self.stream, self._both[0], self._staging, parts)
        self.stream.spread(steps.joined, self.shape[0], parts, out)
        self.stream.receive(out, self._squares_here)
        self.stream.wait()
        return self._squares_here.copy()

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Subtract the change of each row's (column's) effect, in both orders."""
        self.pristine, there = False, self.stream.upload(change)
        for order, side in enumerate(self.engine.orders):
            side.shift_effects(self.stream, self._both[order], self._staging, there, own=order == axis)
        self.fresh = [False, False]

    def copy(self, axis: int) -> NDArray[np.int32]:
        """All of it in the usual order of an axis, for the CPU."""
        self.apply_waiting(axis)
        self.stream.wait()
        layout, both = self.engine.orders[axis].layout, self._both[axis]
        return layout.in_usual_order(both if self._staging else self.stream.fetch(both), self.engine.threads)

    def send_weights(self, weights: NDArray[np.int32] | None) -> None:
        """Let the device have the rows' weights as they are now."""
        if weights is None or weights is self._sent:
            return
        if self.weights is None:
            self.weights = self.stream.zeros(self.shape[0], np.int32)
        self.stream.send(weights, self.weights)
        self._sent, self.fresh = weights, [False, False]

    def apply_waiting(self, axis: int) -> None:
        """Add what is waiting by passes of their own."""
        while self.waiting[axis]:
            self._apply_two(axis)

    def _apply_two(self, axis: int) -> None:
        waiting = self.waiting[axis]
        shifts = [shift(axis, *waiting.pop(0)) for _ in range(min(2, len(waiting)))]
        self.pristine = False
        where = self.stream, self._both[axis], self._staging, self.slots.arrays, self.slots.spare
        self.engine.orders[axis].gather(*where, shifts)

    def _gather(self, axis: int, slot: int, sums: PieceSums) -> None:
        """Add what is waiting, and write the sums by the other axis's clusters in this slot."""
        waiting = self.waiting[axis]
        while len(waiting) > (2 if sums.k <= MAX_LABELS else 0):  # three labels share a code
            self._apply_two(axis)
        shifts, partners = [shift(axis, *each) for each in waiting], self.weights if axis == 1 else None
        self.pristine = self.pristine and not shifts
        where = self.stream, self._both[axis], self._staging
        self.engine.orders[axis].gather(*where, self.slots.arrays, slot, shifts, partners, sums)
        waiting.clear()
