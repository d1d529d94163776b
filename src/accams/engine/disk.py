"""The `disk` engine: observations stay in a store and residuals in files beside it; passes stream ranges of rows.

A thread reads ahead, so that the disk and the kernels work at the same time. Results equal those of the `cpu` engine to
the bit, since no sum depends on the ranges.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.holdout import ScratchFolder
from accams.data.levels import places
from accams.data.store import HEADER, is_store
from accams.engine.base import Engine, State
from accams.engine.cpu import packed
from accams.engine.local import Gatherer, LocalPasses, Shift
from accams.engine.memory import DISK_AHEAD, DISK_BLOCK
from accams.engine.rules import Latent, Slopes
from accams.engine.tables import DrawnSlopes, Table
from accams.errors import InputError
from accams.kernels import ordinal, slopes, sparse
from accams.kernels.jit import readonly
from accams.model.stencils import Labels
from accams.threads import Range, ranges_of
from accams.writing import reported

Buffer = NDArray[np.uint8]
RESIDUALS = (
    "residuals beside the store",
    "they take 8 bytes per rating and chain, 16 if ratings are ordinal: free some space, or use fewer chains",
)


class FileArray:
    """Numbers in a file, read and written in place."""

    def __init__(self, path: Path, kind: Any, first: int = 0, *, new: bool = False) -> None:
        self.kind, self._first = np.dtype(kind), first
        if not new:
            self._file = os.open(path, os.O_RDONLY)
            return
        with reported(*RESIDUALS):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT)
            path.unlink()  # the file vanishes when it is closed, even if this process is killed

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Fill an array with the numbers from position `start` on."""
        if into.size == 0:
            return
        view, place = into.data.cast("B"), self._first + start * self.kind.itemsize
        while len(view):
            done = os.preadv(self._file, [view], place)
            if done == 0:
                raise InputError("a file of the store was truncated: ingest the data again")
            view, place = view[done:], place + done

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Write numbers from position `start` on."""
        if values.size == 0:
            return
        view, place = np.ascontiguousarray(values).data.cast("B"), self._first + start * self.kind.itemsize
        while len(view):
            with reported(*RESIDUALS):
                done = os.pwrite(self._file, view, place)
            view, place = view[done:], place + done

    def close(self) -> None:
        os.close(self._file)


class DiskOrder(NamedTuple):
    """One order of the observations on disk: row i has partners[starts[i]:starts[i + 1]]."""

    starts: NDArray[np.int64]
    partners: FileArray
    values: FileArray
    weights: FileArray | None
    ranges: list[Range]

    def values_of(self, lo: int, hi: int) -> NDArray[Any]:
        """Return the values of rows lo .. hi."""
        values = np.empty(self.starts[hi] - self.starts[lo], self.values.kind)
        self.values.read(self.starts[lo], values)
        return values


class LoadedRange(NamedTuple):
    """Observations of a range of rows in memory; rows and entries are counted from its first."""

    starts: NDArray[np.int64]
    partners: NDArray[Any]
    resid: NDArray[np.int32]
    weights: NDArray[np.int32] | None
    buffer: Buffer  # that holds them


class DiskEngine(Engine):
    """Observations of a store, with missing cells."""

    name = "disk"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        obs, folder = self.observations, self.observations.store
        if folder is None:
            raise InputError(
                "engine='disk' takes a store: create one with Observations.to_store or accams ingest, and fit "
                "Observations.open(path)"
            )
        if not is_store(folder):
            raise InputError(f"the store {folder} is no longer there: open it again where it is now")
        if not hasattr(os, "preadv"):
            raise InputError("engine='disk' needs Linux or macOS: use engine='cpu'")
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="accams-disk")
        self._scratch = ScratchFolder(folder)
        self.folder = self._scratch.path
        self.orders = []
        orders = (obs.row_starts, obs.cols, "cols", ""), (obs.col_starts, obs.rows, "rows", "col_")
        for starts, index, name, prefix in orders:
            partners = FileArray(folder / f"{name}.npy", index.dtype, HEADER)
            values, weights = FileArray(folder / f"{prefix}values.npy", obs.stored_values.dtype, HEADER), None
            if obs.stored_weights is not None:
                weights = FileArray(folder / f"{prefix}weights.npy", np.int32, HEADER)
            ranges = ranges_of(np.asarray(starts), DISK_BLOCK)
            self.orders.append(DiskOrder(np.array(starts), partners, values, weights, ranges))
        self._states: list[DiskState] = []

    def new_state(self, chain: int = 0) -> "DiskState":
        self._states.append(DiskState(self, chain))
        return self._states[-1]

    def close(self) -> None:
        super().close()
        self.reader.shutdown()
        for state in self._states:
            state.close()
        for order in self.orders:
            for file in (order.partners, order.values, order.weights):
                if file is not None:
                    file.close()
        self._states, self.orders = [], []
        self._scratch.remove()


class ReadAhead:
    """Ranges of one pass, read ahead into a fixed set of buffers, which are returned after use."""

    def __init__(
        self, todo: Sequence[Range], load: Callable[[Range, Buffer], LoadedRange], buffers: Sequence[Buffer],
        reader: ThreadPoolExecutor,
    ) -> None:  # fmt: skip
        self._load, self._reader, self._todo = load, reader, iter(todo)
        self._coming: dict[Range, Future[LoadedRange]] = {}
        self._lock = Lock()
        for buffer in buffers:
            self.give_back(buffer)

    def get(self, lo: int, hi: int) -> LoadedRange:
        """Return the observations of a range; ranges must be requested in order."""
        with self._lock:
            future = self._coming.pop((lo, hi))
        return future.result()

    def give_back(self, buffer: Buffer) -> None:
        """Read the next range into this buffer."""
        with self._lock:
            following = next(self._todo, None)
            if following is not None:
                self._coming[following] = self._reader.submit(self._load, following, buffer)


class DiskState(LocalPasses, State):
    """Residuals of the observed cells in both orders, in files."""

    engine: DiskEngine

    def __init__(self, engine: DiskEngine, chain: int) -> None:
        super().__init__(engine)
        self._name = f"{len(engine._states)}-{chain}"
        self.resid, self._latent = self._values_in_ticks("residual"), list[FileArray]()
        sizes = [int(order.starts[hi] - order.starts[lo]) for order in engine.orders for lo, hi in order.ranges]
        width = max(order.partners.kind.itemsize for order in engine.orders) + 8  # with residual and weight
        size = width * max(sizes, default=0)
        self._read_buffers = [np.empty(size, np.uint8) for _ in range(engine.threads.n_threads + DISK_AHEAD)]

    def _values_in_ticks(self, name: str) -> list[FileArray]:
        """Return new files with the data less the offset, in both orders."""
        files, engine = list[FileArray](), self.engine
        for axis, order in enumerate(engine.orders):
            files.append(FileArray(engine.folder / f"{self._name}-{name}-{axis}", np.int32, new=True))
            for lo, hi in order.ranges:
                values = order.values_of(lo, hi)
                files[axis].write(order.starts[lo], engine.grid.ticks_of(values))
        return files

    def close(self) -> None:
        """Delete residuals and free the buffers; labels and templates stay."""
        for file in (*self.resid, *self._latent):
            file.close()
        self._read_buffers = []

    # -- passes -----------------------------------------------------------------------------------------------

    def _streamed(self, axis: int, work: Callable[[int, int, LoadedRange], None], *, write: bool = False) -> Gatherer:
        """Return work on rows lo .. hi, to be run once per range, in order; `write` writes residuals back."""
        order, resid = self.engine.orders[axis], self.resid[axis]
        reading = ReadAhead(order.ranges, partial(self._load, axis), self._read_buffers, self.engine.reader)

        def run(lo: int, hi: int) -> None:
            loaded = reading.get(lo, hi)
            work(lo, hi, loaded)
            if write:
                resid.write(order.starts[lo], loaded.resid)
            reading.give_back(loaded.buffer)

        return run

    def _load(self, axis: int, range_: Range, buffer: Buffer) -> LoadedRange:
        """Read a range into a buffer: residuals, weights, then partners, so that all are aligned."""
        (lo, hi), order = range_, self.engine.orders[axis]
        first = order.starts[lo]
        size, width = int(order.starts[hi] - first), order.partners.kind.itemsize
        resid, weights = buffer[: 4 * size].view(np.int32), None
        index = buffer[8 * size : (8 + width) * size].view(order.partners.kind)
        self.resid[axis].read(first, resid)
        order.partners.read(first, index)
        if order.weights is not None:
            weights = buffer[4 * size : 8 * size].view(np.int32)
            order.weights.read(first, weights)
            weights = self.engine.grid.in_weight_steps(weights, self.engine.observations.weight_step)
        starts = readonly(order.starts[lo : hi + 1] - first)
        return LoadedRange(starts, readonly(index), resid, readonly(weights), buffer)

    def _run(self, axis: int, work: Callable[[int, int, LoadedRange], None], *, write: bool = False) -> None:
        self.engine.threads.map(self._streamed(axis, work, write=write), self._pass_ranges(axis))

    def _pass_ranges(self, axis: int) -> list[Range]:
        return self.engine.orders[axis].ranges

    # -- the kernels of `cpu`, range by range -----------------------------------------------------------------

    def _gatherer(self, axis: int, labels: Labels, n: Table, l: Table) -> Gatherer:
        shifts, partners = self._apply_pending(axis, leave=2), self.own_weights(1 - axis)
        own_a, T_a, own_b, T_b, codes = packed(shifts, labels)

        def work(lo: int, hi: int, x: LoadedRange) -> None:
            a, b = (None if labels is None else labels[lo:hi] for labels in (own_a, own_b))
            data = x.starts, x.partners, x.resid, x.weights, partners
            sparse.gather(0, hi - lo, *data, a, T_a, b, T_b, codes, n[lo:hi], l[lo:hi])

        return self._streamed(axis, work, write=bool(shifts))

    def _squares(self) -> NDArray[np.float64]:
        self._apply_pending(0)
        out = np.empty(self.shape[0])
        self._run(0, lambda lo, hi, x: sparse.squares(0, hi - lo, x.starts, x.resid, x.weights, out[lo:hi]))
        return out

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        cost, squares = np.zeros((self.shape[axis], V.shape[1])), V * V

        def work(lo: int, hi: int, x: LoadedRange) -> None:
            sparse.table_costs(0, hi - lo, x.starts, x.partners, x.resid, x.weights, V, squares, cost[lo:hi])

        self._run(axis, work)
        return cost

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        self._apply_pending(axis)
        order, out = self.engine.orders[axis], np.zeros((len(positions), self.shape[1 - axis]))
        for line, position in zip(out, positions.tolist(), strict=True):
            first, last = order.starts[position], order.starts[position + 1]
            index, resid = np.empty(last - first, order.partners.kind), np.empty(last - first, np.int32)
            order.partners.read(first, index)
            self.resid[axis].read(first, resid)
            sparse.spread(0, np.array([0, last - first]), index, resid, line)
        return np.ascontiguousarray(out.T)

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        def partner(lo: int, hi: int, x: LoadedRange) -> None:
            sparse.shift_partner(0, hi - lo, x.starts, x.partners, x.resid, change)

        self._run(axis, lambda lo, hi, x: sparse.shift_own(0, hi - lo, x.starts, x.resid, change[lo:hi]), write=True)
        self._run(1 - axis, partner, write=True)

    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        self._apply_pending(axis)
        old, own, partners = self.present_slopes(axis), self.own_weights(axis), self.own_weights(1 - axis)
        features, draw = readonly(self.engine.features[1 - axis]), self.slope_draw(axis, rule)
        change, moments = np.empty_like(old), list[Table]()

        def work(lo: int, hi: int, x: LoadedRange) -> None:
            weights = x.weights, None if own is None else own[lo:hi], partners
            head = x.starts, x.partners, x.resid, *weights, features, None, old[lo:hi]
            moments.append(slopes.draw(0, hi - lo, *head, *draw, lo, change[lo:hi]))

        self._run(axis, work)
        return change, np.sum(moments, axis=0)

    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        features = readonly(self.engine.features[1 - axis])

        def own(lo: int, hi: int, x: LoadedRange) -> None:
            slopes.shift_own(0, hi - lo, x.starts, x.partners, x.resid, change[lo:hi], features)

        def partner(lo: int, hi: int, x: LoadedRange) -> None:
            slopes.shift_partner(0, hi - lo, x.starts, x.partners, x.resid, change, features[lo:hi])

        self._run(axis, own, write=True)
        self._run(1 - axis, partner, write=True)

    def draw_latent(self, rule: Latent) -> None:
        if not self._latent:  # until now the data itself
            self._latent = self._values_in_ticks("latent")
        for axis in (0, 1):
            self._apply_pending(axis)
            self._run(axis, self._redrawer(axis, rule), write=True)
        self._residual_changed()

    def _redrawer(self, axis: int, rule: Latent) -> Callable[[int, int, LoadedRange], None]:
        """Return work that draws the latent values of a range, which are read and written beside its residuals."""
        order, latent, own = self.engine.orders[axis], self._latent[axis], self.own_weights(axis)
        partners, draw = self.own_weights(1 - axis), (readonly(rule.cuts), rule.spread, rule.unit, *rule.key)

        def work(lo: int, hi: int, x: LoadedRange) -> None:
            levels = readonly(places(order.values_of(lo, hi), rule.values))
            weights = x.weights, None if own is None else own[lo:hi], partners
            z = np.empty_like(x.resid)
            latent.read(order.starts[lo], z)
            head = x.starts, x.partners, levels, *weights, x.resid, z
            ordinal.redraw(0, hi - lo, *head, *draw, lo, axis == 0, None, None)
            latent.write(order.starts[lo], z)

        return work

    def _apply(self, axis: int, shifts: list[Shift]) -> None:
        for own, other, T in shifts:

            def work(lo: int, hi: int, x: LoadedRange, own: Any = own, other: Any = other, T: Any = T) -> None:
                sparse.shift(0, hi - lo, x.starts, x.partners, x.resid, own[lo:hi], other, T)

            self._run(axis, work, write=True)
