"""The residual on the device, in both orders, the sums over it, and recordings of the kernels that change it."""

from collections.abc import Callable, Hashable

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda import steps
from accams.engine.cuda.data import CudaData
from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.kernels import LARGEST, MAX_LABELS
from accams.engine.cuda.order import StagingBuffer, pinned
from accams.engine.cuda.slots import Slots
from accams.engine.cuda.sums import PieceSums, take
from accams.engine.rules import Latent
from accams.engine.tables import SumPair
from accams.errors import warn
from accams.model.stencils import Labels

AT_A_TIME = 1 << 15  # rows whose sums are fetched at a time
MOST_GRAPHS = 256  # cached
Waiting = list[tuple[int, int, tuple[int, int]]]  # slots to be added to the residual, with signs and shapes
Graph = tuple[Callable[[], None], list[Waiting]]  # launches it, and the shifts that wait afterwards


class DeviceResidual:
    """The data less all stencils, in both orders.

    A stencil that is taken out is added by the next pass over each order. Until both have done so, a copy of it stays
    in the slot `old`, so that it can be changed in place. One that is put back is subtracted likewise.
    """

    def __init__(self, engine: CudaData, slots: Slots, stream: Stream, like: "DeviceResidual | None" = None) -> None:
        self.engine, self.slots, self.stream = engine, slots, stream
        self.shape = engine.observations.shape
        self.waiting: list[Waiting] = [[], []]  # shifts that the next pass along each axis will add
        self.fresh = [False, False]  # whether the sums of each axis are up to date
        self.weights: Array | None = None  # of rows, if they have any
        self.pristine = True  # whether it still equals the data, so that other chains can copy it
        size = engine.staging_size
        self.streamed = size > 0  # whether ratings stay on the host and are sent in chunks
        self._staging = [StagingBuffer(engine.device, size), StagingBuffer(engine.device, size)] if size else []
        self._resid, self._latent = self._initial(like), list[Array]()
        self._sent: NDArray[np.int32] | None = None
        self._buffers: dict[tuple[int, int, bool], PieceSums] = {}
        self._squares = stream.zeros((self.shape[0], 2), np.int64), stream.zeros(self.shape[0], np.float64)
        self._squares_host: NDArray[np.float64] = cuda.pinned_array(self.shape[0], np.float64)

    def _initial(self, like: "DeviceResidual | None") -> list[Array]:
        """Return the data in both orders, copied from a chain that has not begun if there is one."""
        if like is None or not like.pristine:
            return list(map(pinned if self._staging else self.stream.upload, self.engine.values_in_slices()))
        if self._staging:
            return [pinned(resid) for resid in like._resid]
        self.stream.after(like.stream)
        return [self.stream.copied(resid) for resid in like._resid]

    def take_out(self, slot: int) -> None:
        """Add a stencil with the next passes; it can then be changed in place."""
        subtraction = slot, -1, self.slots.shapes[slot]
        absent = [axis for axis in (0, 1) if subtraction in self.waiting[axis]]  # never subtracted: nothing to add
        for axis in absent:
            self.waiting[axis].remove(subtraction)
        if len(absent) == 2:
            return
        old = self.slots.old
        for axis in (0, 1):
            if any(slot_ == old for slot_, *_ in self.waiting[axis]):
                self.apply_waiting(axis)  # before the slot is overwritten
        self.stream.spread(steps.remember, max(*self.shape, LARGEST), *self.slots.arrays, slot, old)
        for axis in {0, 1} - {*absent}:
            self.waiting[axis].append((old, +1, self.slots.shapes[slot]))

    def put_back(self, slot: int) -> None:
        """Subtract a stencil with the next passes."""
        for axis in (0, 1):
            self.waiting[axis].append((slot, -1, self.slots.shapes[slot]))
        self.fresh = [False, False]

    def sums(self, axis: int, slot: int) -> PieceSums:
        """Return the sums of every row (column) by the other axis's clusters in a slot, with a pass if needed."""
        k, order = self.slots.shapes[slot][1 - axis], self.engine.orders[axis]
        heavy = order.weighted or (axis == 1 and self.weights is not None)
        if (axis, k, heavy) not in self._buffers:
            self._buffers[axis, k, heavy] = PieceSums.empty(order.layout, k, heavy, self.stream)
        sums = self._buffers[axis, k, heavy]
        if not self.fresh[axis]:
            self.apply_waiting(axis, leave=2 if k <= MAX_LABELS else 0)  # a code has room for two more labels
            self._gather(axis, slot, sums)
            self.fresh[axis] = True
        return sums

    def sums_by(self, axis: int, labels: Labels, k: int) -> SumPair:
        """Return the sums of every row (column) by any labels of the other axis, MAX_LABELS clusters at a time."""
        n, l = np.empty((2, self.shape[axis], k), np.int64)
        spare = self.slots.spare
        for first in range(0, k, MAX_LABELS):
            width = min(MAX_LABELS, k - first)
            shifted = labels.astype(np.int64) - first
            inside = np.where((shifted >= 0) & (shifted < width), shifted, width).astype(np.uint8)
            self.stream.send(inside, self.slots.labels[1 - axis][spare])
            self.slots.shapes[spare] = (width + (k > width),) * 2  # one more cluster for all other labels
            self.fresh[axis] = False
            fetched = self.fetch_sums(axis, self.sums(axis, spare))
            n[:, first : first + width], l[:, first : first + width] = (part[:, :width] for part in fetched)
        self.fresh[axis] = False
        if k > MAX_LABELS:  # only to seed rows of complete matrices
            self._buffers = {key: sums for key, sums in self._buffers.items() if key[1] <= MAX_LABELS}
        return n, l

    def fetch_sums(self, axis: int, sums: PieceSums, rows: NDArray[np.int64] | None = None) -> SumPair:
        """Return the sums of these rows (columns), or of all, a line for each."""
        rows = np.arange(self.shape[axis]) if rows is None else rows
        n, l = np.empty((2, len(rows), sums.k), np.int64)
        order = self.engine.orders[axis]
        for first in range(0, len(rows), AT_A_TIME):
            some = rows[first : first + AT_A_TIME]
            out = [self.stream.empty((len(some), sums.k), np.int64) for _ in (n, l)]
            args = self.stream.upload(some), order.spots, order.alone, *sums, *out
            self.stream.spread(take, len(some) * sums.k, *args)
            lines = slice(first, first + len(some))
            n[lines], l[lines] = self.stream.fetch(out[0]), self.stream.fetch(out[1])
        return n, l

    def squares(self) -> NDArray[np.float64]:
        """Return the sum of squared residuals of every row, in squared ticks."""
        self.apply_waiting(0)
        parts, out = self._squares
        self.stream.spread(steps.zero, 2 * self.shape[0], parts)
        self.engine.orders[0].squares(self.stream, self._resid[0], self._staging, parts)
        self.stream.spread(steps.joined, self.shape[0], parts, out)
        self.stream.receive(out, self._squares_host)
        self.stream.wait()
        return self._squares_host.copy()

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        """Subtract the change of each row's (column's) effect, in both orders."""
        self.pristine, uploaded = False, self.stream.upload(change)
        for own, order in enumerate(self.engine.orders):
            order.shift_effects(self.stream, self._resid[own], self._staging, uploaded, own=own == axis)
        self.fresh = [False, False]

    def shift_slopes(self, axis: int, change: NDArray[np.int32], features: NDArray[np.int8]) -> None:
        """Subtract what the change of each row's (column's) slopes adds to its cells, in both orders."""
        self.pristine, uploaded = False, (self.stream.upload(change), self.stream.upload(features))
        for own, order in enumerate(self.engine.orders):
            order.shift_slopes(self.stream, self._resid[own], self._staging, *uploaded, own=own == axis)
        self.fresh = [False, False]

    def draw_latent(self, rule: Latent) -> None:
        """Draw the latent values of all observations, in both orders."""
        if not self._latent:  # until now the data itself
            self._latent = self._initial(None)
        draw = self.stream.upload(rule.cuts), rule.spread, rule.unit, *rule.key
        levels = self.engine.levels(rule.values)
        for axis, order in enumerate(self.engine.orders):
            self.apply_waiting(axis)
            where = self.stream, self._resid[axis], self._staging
            order.draw_latent(*where, self._latent[axis], levels[axis], self.weights, draw)
        self.pristine, self.fresh = False, [False, False]

    def copy(self, axis: int) -> NDArray[np.int32]:
        """Return a copy in the original order of an axis, for the CPU."""
        self.apply_waiting(axis)
        self.stream.wait()
        layout, resid = self.engine.orders[axis].layout, self._resid[axis]
        return layout.in_usual_order(resid if self._staging else self.stream.fetch(resid), self.engine.threads)

    def send_weights(self, weights: NDArray[np.int32] | None) -> None:
        """Send the weights of rows to the device, if they have changed."""
        if weights is None or weights is self._sent:
            return
        if self.weights is None:
            self.weights = self.stream.zeros(self.shape[0], np.int32)
        self.stream.send(weights, self.weights)
        self._sent, self.fresh = weights, [False, False]

    def apply_waiting(self, axis: int, leave: int = 0) -> None:
        """Apply the waiting shifts by passes of their own, until at most `leave` are left."""
        while len(self.waiting[axis]) > leave:
            self._gather(axis, self.slots.spare)

    def _gather(self, axis: int, slot: int, sums: PieceSums | None = None) -> None:
        """Apply up to two waiting shifts, and write the sums by the other axis's clusters in a slot, in one pass."""
        waiting = self.waiting[axis]
        shifts = [(which, sign, k[axis], k[1 - axis]) for which, sign, k in waiting[:2]]
        self.pristine = self.pristine and not shifts
        partners = self.weights if axis == 1 and sums is not None else None
        where = self.stream, self._resid[axis], self._staging
        self.engine.orders[axis].gather(*where, self.slots.arrays, slot, shifts, partners, sums)
        del waiting[:2]


class GraphCache:
    """CUDA graphs of recurring work: recorded the second time, and launched as one from then on.

    The arguments of kernels depend on the work and on the stencils that wait to be added to the residual, so both
    form the key. Passes over streamed chunks are not recorded.
    """

    def __init__(self, stream: Stream, residual: DeviceResidual) -> None:
        self._stream, self._residual = stream, residual
        self._known: dict[Hashable, Graph | None] = {}  # None: seen once, not recorded
        self._recordable = not residual.streamed

    def clear(self) -> None:
        """Drop all recordings, before arrays that they use are replaced."""
        self._known.clear()

    def run(self, name: Hashable, work: Callable[[], None]) -> None:
        """Launch the kernels that `work` launches, from a recording if there is one."""
        key = name, tuple(map(tuple, self._residual.waiting))
        graph = self._known.get(key)
        if graph is None and self._recordable and key in self._known:
            graph = self._known[key] = self._recorded(work)
        if graph is not None:
            graph[0]()
            self._residual.waiting = _copied(graph[1])
            return
        if len(self._known) >= MOST_GRAPHS:
            self._known.clear()
        self._known[key] = None
        work()

    def _recorded(self, work: Callable[[], None]) -> Graph | None:
        """Record work, or return None with a warning if the driver cannot."""
        before = _copied(self._residual.waiting)
        try:
            return self._stream.recorded(work), _copied(self._residual.waiting)
        except Exception as error:
            self._recordable, self._residual.waiting = False, before
            warn(f"the GPU's kernels cannot be recorded ({error}): each is launched on its own")
            return None


def _copied(waiting: list[Waiting]) -> list[Waiting]:
    return [[*shifts] for shifts in waiting]
