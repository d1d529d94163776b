"""One order of the observations on the device, and how passes over it are launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accams.engine.cuda import kernels, steps
from accams.engine.cuda.device import Array, Device, Stream
from accams.engine.cuda.kernels import LARGEST, gather_bytes
from accams.engine.cuda.layout import WARP, Layout

STATIC = 2 * 4 * LARGEST + 1024  # shared memory of `gather` beside its sums and codes
NONE = (0, 0, 0, 0)
Shift = tuple[int, int, int, int]  # slot, sign, clusters of rows, clusters of partners


@dataclass(frozen=True)
class Plan:
    """How a pass is launched."""

    queues: tuple[Array, ...]
    blocks: int
    threads: int
    shared: int


class Side:
    """Rows (or columns) and their observations.

    Parameters
    ----------
    axis : int
    layout : Layout
    weights : array or None
        One whole number per observation, in the layout's order.
    dense : bool
        Every cell is observed, so that there is no need for an index.
    stream : Stream
    """

    def __init__(
        self, axis: int, layout: Layout, weights: NDArray[np.int32] | None, dense: bool, stream: Stream
    ) -> None:
        self.axis, self.layout, self.dense, self.stream = axis, layout, dense, stream
        self.weights = None if weights is None else stream.upload(weights)
        lanes = stream.upload(layout.slice_starts), stream.upload(layout.owners), stream.upload(layout.lengths)
        places, index = (layout.places, None) if dense else (None, layout.index)
        self._lanes = lanes
        self._places = None if places is None else stream.upload(places)
        self._index = None if index is None else stream.upload(index)
        self._whole = stream.upload(layout.whole)
        self._split = stream.upload(np.flatnonzero(~layout.whole))  # their sums are added to, piece by piece
        self._plans: dict[tuple[int, bool], Plan] = {}

    def gather(
        self, stream: Stream, resid: Array, stencils: tuple[Array, ...], slot: int, shifts: list[Shift], k: int,
        partner_weights: Array | None, n: Array, l: Array,
    ) -> None:  # fmt: skip
        """Add at most two stencils to the residual, and sum it by the k clusters (if any) of partners in `slot`.

        `stencils` are labels of rows and of columns, and templates.
        """
        own, other = stencils[self.axis], stencils[1 - self.axis]
        heavy = k > 0 and (self.weights is not None or partner_weights is not None)
        plan = self._plan(k, heavy)
        if self._split.size and k:
            stream.spread(kernels.clear, self._split.size * k, self._split, n, l)
        kernel = kernels.gather_kernel(
            k, self.axis, plan.threads, len(shifts), dense=self.dense, weighted=self.weights is not None,
            partnered=partner_weights is not None,
        )  # fmt: skip
        a, b = [*shifts, NONE, NONE][:2]
        stream.launch(
            kernel, plan.blocks, plan.threads, plan.shared, *plan.queues, *self._lanes, self._places, self._whole,
            self._index, 0, resid, self.weights, self.layout.tile, own, other, stencils[2], slot, *a, *b,
            partner_weights, n, l,
        )  # fmt: skip

    def squares(self, stream: Stream, resid: Array, out: Array) -> None:
        """Add the squared residuals of every row to `out`."""
        slices = len(self.layout.slice_tiles)
        stream.spread(steps.squares, slices * WARP, *self._lanes, 0, 0, slices, resid, self.weights, out)

    def _plan(self, k: int, heavy: bool) -> Plan:
        """How a pass is launched whose partners have k clusters."""
        if (k, heavy) not in self._plans:
            device, layout = self.stream.device, self.layout
            threads, together = _fitting(k, layout.tile, heavy, device)
            shared = gather_bytes(k, threads, layout.tile, heavy)
            queues = layout.queues(device.processors * together, threads // WARP)
            there = tuple(self.stream.upload(each) for each in queues)
            self.stream.wait()
            self._plans[k, heavy] = Plan(there, len(queues.tiles), threads, shared)
        return self._plans[k, heavy]


def shift(axis: int, slot: int, sign: int, k: tuple[int, int]) -> Shift:
    """A stencil to be added (or subtracted, with sign -1), as a pass along this axis takes it."""
    return slot, sign, k[axis], k[1 - axis]


def _fitting(k: int, tile: int, heavy: bool, device: Device) -> tuple[int, int]:
    """Threads of a block and blocks on one multiprocessor: as many as find room, in blocks as small as possible."""
    if device.simulated:
        return WARP, 1
    best = 0, 0, 0
    for threads in (1024, 512, 256, 128, 64, WARP):
        blocks = min(device.shared // (gather_bytes(k, threads, tile, heavy) + STATIC), 1024 // threads)
        best = max(best, (threads * blocks, -threads, blocks))
    return -best[1], best[2]
