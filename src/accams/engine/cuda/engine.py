"""The `cuda` engine: chains whose residual, labels and templates stay on an NVIDIA GPU; copies are made on demand."""

import gc
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.base import State
from accams.engine.cpu import MemoryOrder, drawn_slopes
from accams.engine.cuda import kernels, steps
from accams.engine.cuda.buffers import Planned, UpdateBuffer, VisitBuffer
from accams.engine.cuda.data import CudaData
from accams.engine.cuda.device import Array, Stream, free_unused
from accams.engine.cuda.labels import How, label_bytes, label_kernel, label_threads
from accams.engine.cuda.residual import DeviceResidual, GraphCache
from accams.engine.cuda.slots import Copies, Slots, Snapshots
from accams.engine.passes import Random
from accams.engine.rules import Blocked, BlockedVisit, Latent, Nearest, Slopes, Template
from accams.engine.tables import DrawnSlopes, SumPair, Table, Tables, Visited, own_first
from accams.errors import InputError
from accams.model.codes import Codes
from accams.model.stencils import Labels

AT_ONCE = 16  # visits launched together, while Python plans the next ones


class CudaState(State):
    """Residuals of the observed cells, in both orders, on the device.

    The current stencil is changed in place; its former version stays in the slot `old` until both residuals have it
    back. Visits are planned, and launched some at a time; every other method launches them first.
    """

    engine: CudaData

    def __init__(self, engine: CudaData, like: "CudaState | None" = None) -> None:
        super().__init__(engine)
        stream = self.stream = Stream(engine.device)
        self._slots = Slots(self.shape, engine.n_stencils, stream)
        other = None if like is None else like._residual
        self._residual: DeviceResidual = DeviceResidual(engine, self._slots, stream, other)
        self._visit_buffer = VisitBuffer(engine.n_stencils, 2, stream)
        self._update_buffer, self._snapshots = UpdateBuffer(stream), Snapshots(self._slots, stream)
        self._tables = stream.zeros(2 * kernels.LARGEST + kernels.MAX_LABELS + 1, np.int64)
        self._prices = stream.zeros(kernels.MAX_LABELS, np.float64)
        self._unused = stream.zeros(1, np.int32)  # passed for weights if there are none
        self._cells: list[tuple[Any, Any, tuple[Array, ...]]] = []  # rows and columns last predicted, on the device too
        self._taken_out = True  # whether the current stencil is out of the residual (or will be after the next pass)
        self._counted = set[int]()  # slots whose cluster sizes are up to date on the device
        self._planned: list[Planned] = []  # visits not yet launched
        self._running: list[Planned] = []  # visits launched, whose results are not yet fetched
        self._unfetched = set[int]()  # slots of both
        self._graphs, self._threads, self.current = GraphCache(stream, self._residual), engine.device.threads, None
        self._template_copies = Copies(self._fetch_templates)
        self._label_copies = [Copies(partial(self._fetch_labels, axis)) for axis in (0, 1)]
        # sequences that are read like lists; nothing appends to them
        self.templates = cast("list[Template]", self._template_copies)
        self.row_labels, self.col_labels = (cast("list[Labels]", copies) for copies in self._label_copies)

    @property
    def labels(self) -> list[Labels]:
        """Copies of the current stencil's row and column labels."""
        assert self.current is not None
        self._settle()
        return [self.stream.fetch(labels[self.current]) for labels in self._slots.labels]

    # -- the contract -----------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        if self.current is not None:
            raise RuntimeError("end the current stencil before beginning another")
        if stencil in self._unfetched:
            self._fetch_results()
        self.current, self._known_squares = stencil, None
        self._taken_out = stencil == len(self.templates)
        if not self._taken_out:
            self.k = self._slots.shapes[stencil]
            return
        assert k is not None
        if stencil >= self._slots.capacity:
            raise RuntimeError(f"this engine was made for {self._slots.capacity} stencils")
        if max(k) > kernels.MAX_LABELS:
            raise InputError(
                f"engine='cuda' takes at most {kernels.MAX_LABELS} clusters per side, not {max(k)}: use engine='cpu'"
            )
        self.k = self._slots.shapes[stencil] = k
        for axis in (0, 1):
            self.set_labels(axis, np.zeros(self.shape[axis], np.uint8))

    def end(self, T: Template) -> None:
        assert self.current is not None
        self._settle()
        self._slots.put_template(self.current, T)
        self._residual.put_back(self.current)
        self._counted.discard(self.current)
        self._ended(self.current, np.array(T, np.int32))

    def relabel(self, axis: int, rule: Nearest | Blocked) -> Tables:
        if isinstance(rule, Nearest):
            tables = self._label("nearest", axis, rule.T, rule.curvature, rule.prices)
        else:
            tables = self._label("draw", axis, rule.T, rule.precision, rule.log_prior, rule.key)
        if tables.moved:
            self._residual.fresh[1 - axis] = False
        return tables

    def visit(self, rule: BlockedVisit) -> None:
        assert self.current is not None
        slot = self.current
        if len(rule.updates) > self._visit_buffer.n_updates:
            self._fetch_results()
            self._visit_buffer = VisitBuffer(self._visit_buffer.n_lines, len(rule.updates), self.stream)
            self._graphs.clear()
        if not self._taken_out and rule.T is not self.templates[slot]:
            self._settle()
        planned = Planned(slot, len(self._running) + len(self._planned), tuple(update.axis for update in rule.updates))
        self._visit_buffer.write(planned.line, rule)
        self._unfetched.add(slot)
        if slot not in self._counted:
            self._slots.put_counts(slot, rule.counts)
            self._counted.add(slot)
        if self._taken_out:
            self._slots.put_template(slot, rule.T)
            self._visit_buffer.send(planned.line, planned.line + 1)
            self._residual.send_weights(self.row_weights)
            self._start_one(planned)
            self._running.append(planned)
        else:
            self._planned.append(planned)
        self._ended(slot)
        if len(self._planned) >= AT_ONCE:
            self._run_planned()

    def visited(self) -> list[Visited]:
        self._fetch_results()
        return super().visited()

    def tables(self, axis: int) -> Tables:
        return self._label("keep", axis)

    def set_labels(self, axis: int, labels: Labels) -> None:
        assert self.current is not None
        self._settle()
        self.stream.send(labels.astype(np.uint8), self._slots.labels[axis][self.current])
        self._counted.discard(self.current)
        self._residual.fresh[1 - axis] = False

    def k_means(self, axis: int, init: kmeans.Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        assert self.current is not None
        k, threads = self.k[axis], self.engine.threads
        if k > 1:
            n, l = self.sums(axis, kmeans.some_points(self.shape[axis], generator))
            T = kmeans.centres(n, l, k, init, generator, threads, threads.split_evenly(len(n), k), n_trials)
            self.set_labels(axis, np.zeros(self.shape[axis], np.uint8))
        for _ in range(max_iter if k > 1 else 0):
            tables = self._label("nearest", axis, own_first(T, axis), 1.0, own=False)
            if tables.moved == 0:
                break
            T = np.rint(kmeans.means(own_first(tables.N, axis), own_first(tables.L, axis)))
        return self.labels[axis]

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        self._run_planned()  # with the weights as they were
        self.row_weights, self._residual.fresh = weights, [False, False]

    def sums(self, axis: int, chosen: NDArray[np.int64] | None = None) -> SumPair:
        assert self.current is not None
        self._settle()
        return self._residual.fetch_sums(axis, self._residual.sums(axis, self.current), chosen)

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        self._settle()
        n[:], l[:] = self._residual.sums_by(axis, labels, n.shape[1])

    def _squares(self) -> NDArray[np.float64]:
        self._settle()
        return self._residual.squares()

    def codes(self) -> Codes | Future[Codes]:
        if self.current is not None or not self.templates:
            return super().codes()
        self._run_planned()
        kept = range(len(self.templates))
        return self._snapshots.take(len(kept), self._layout(kept))

    def release(self) -> None:
        """Launch what is planned. The sums stay: recorded graphs hold their addresses."""
        self._run_planned()

    def _ticks_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        self._run_planned()
        *where, out = self._uploaded_cells(rows, cols)
        self.stream.spread(steps.predict, len(rows), *where, *self._slots.arrays, len(self.templates), out)
        return self.stream.fetch(out)

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        self._run_planned()
        self._residual.shift_effects(axis, change)

    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        return drawn_slopes(self, axis, rule, *self._copied(axis))  # on the CPU: they are drawn every few sweeps only

    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        self._run_planned()
        features = self.engine.features[1 - axis]
        assert features is not None
        self._residual.shift_slopes(axis, change, features)

    def draw_latent(self, rule: Latent) -> None:
        self._settle()
        self._residual.draw_latent(rule)
        self._residual_changed()

    def free(self) -> None:
        """Free everything on the device; copies of the stencils stay."""
        with suppress(Exception):  # a device that has failed cannot be read
            self.templates, self.row_labels = [*self.templates], [*self.row_labels]
            self.col_labels = [*self.col_labels]
        self._snapshots.close()
        del self._graphs, self._residual, self._slots, self._visit_buffer, self._tables, self._prices, self._cells
        del self._update_buffer, self._snapshots, self._template_copies, self._label_copies  # these hold `self`

    # -- visits -----------------------------------------------------------------------------------------------

    def _run_planned(self) -> None:
        planned, self._planned = self._planned, []
        if not planned:
            return
        self._residual.send_weights(self.row_weights)
        self._visit_buffer.send(planned[0].line, planned[-1].line + 1)
        self._graphs.run((tuple(planned), self.row_weights is None), lambda: self._start(*planned))
        self._running += planned

    def _start(self, *visits: Planned) -> None:
        """Launch all kernels of visits to stencils that are in the residual."""
        for visit in visits:
            self._residual.take_out(visit.slot)
            self._start_one(visit)

    def _start_one(self, visit: Planned) -> None:
        """Launch the kernels of a visit to a stencil that was taken out, and put it back."""
        (slot, line, axes), slots, buffer = visit, self._slots, self._visit_buffer
        k, out = slots.shapes[slot], (self._prices, buffer.moved, buffer.gain)
        begin = slots.counts, slot, axes[0], k[axes[0]], *buffer.given, line, *out[:2]
        self.stream.launch(steps.first_step, 1, self._threads, 0, *begin)
        for turn, (axis, then) in enumerate(zip(axes, (*axes[1:], -1), strict=True)):
            given = slots.T, slot, self._prices, *buffer.given, line, turn
            self._launch_label("draw", axis, slot, given, self._tables)
            draw = self._tables, *k, axis, slots.T, slots.counts, slot, self.engine.grid.limit
            self.stream.launch(steps.next_step, 1, self._threads, 0, *draw, *buffer.given, line, turn, then, *out)
            self._residual.fresh[1 - axis] = False
        self._residual.put_back(slot)

    def _fetch_results(self) -> None:
        """Wait for all visits, and fetch their results."""
        self._run_planned()
        if not self._running:
            return
        n = len(self.templates)
        moved, gain = self._visit_buffer.results()
        T, counts = self.stream.fetch(self._slots.T[:n]), self.stream.fetch(self._slots.counts[:n])
        for slot, line, _ in self._running:
            template, k = self._slots.template(slot, T[slot]), self._slots.shapes[slot]
            self._template_copies.changed(slot, template)
            sizes = [counts[slot, axis, : k[axis]].copy() for axis in (0, 1)]
            rows, cols = moved[line]
            self._visited.append(Visited(template, sizes, (int(rows), int(cols)), float(gain[line])))
        self._running = []
        self._unfetched.clear()

    def _settle(self) -> None:
        """Launch what is planned, take the current stencil out of the residual (with the next pass), send weights."""
        self._run_planned()
        if self.current is not None and not self._taken_out:
            self._residual.take_out(self.current)
            self._taken_out = True
        self._residual.send_weights(self.row_weights)

    def _ended(self, slot: int, T: Template | None = None) -> None:
        """Mark copies of a stencil as out of date, and leave no stencil current."""
        self._template_copies.changed(slot, T)
        for copies in self._label_copies:
            copies.changed(slot)
        self._known_squares, self.current = None, None

    # -- passes -----------------------------------------------------------------------------------------------

    def _label(
        self, how: How, axis: int, T: NDArray[Any] | None = None, scale: float = 0.0,
        prices: NDArray[np.float64] | None = None, key: tuple[int, int] = (0, 0), *, own: bool = True,
    ) -> Tables:  # fmt: skip
        """Choose new labels by a rule and wait for their tables; `own`: with the rows' own weights."""
        assert self.current is not None
        self._settle()
        self._counted.discard(self.current)
        (a, b), k, cells = self.k, self.k[axis], self.k[0] * self.k[1]
        self._update_buffer.send(T, scale, prices, key)
        self._launch_label(how, axis, self.current, self._update_buffer.given, self._update_buffer.tables, own)
        words = self.stream.fetch(self._update_buffer.tables[: 2 * cells + k + 1])  # N, L, counts, moved
        N, L = words[: 2 * cells].reshape(2, a, b)
        return Tables(N, L, words[2 * cells : -1], int(words[-1]))

    def _launch_label(
        self, how: How, axis: int, slot: int, given: tuple[Any, ...], tables: Array, own: bool = True
    ) -> None:
        """Launch an update of labels; `given` are its arguments from the template to the turn."""
        sums = self._residual.sums(axis, slot)
        weighted = axis == 0 and own and self._residual.weights is not None
        weights = self._residual.weights if weighted else self._unused
        shape = self._slots.shapes[slot]
        k = shape[axis], shape[1 - axis]
        kind = {"row_weighted": weighted, "uniform_rows": self.uniform and how == "nearest"}
        kernel = label_kernel(how, k, axis, self._threads, **kind, heavy=sums.heavy)
        blocks, order = self.engine.device.blocks(self.shape[axis], label_threads(k)), self.engine.orders[axis]
        args = *sums, order.alone, order.order, weights, *given, self._slots.labels[axis], slot, tables
        self.stream.launch(kernel, blocks, self._threads, label_bytes(k, self._threads), *args)

    # -- copies -----------------------------------------------------------------------------------------------

    def _fetch_templates(self, lo: int, hi: int) -> list[NDArray[Any]]:
        self._run_planned()
        return [self._slots.template(lo + p, T) for p, T in enumerate(self.stream.fetch(self._slots.T[lo:hi]))]

    def _fetch_labels(self, axis: int, lo: int, hi: int) -> list[NDArray[Any]]:
        self._run_planned()
        return list(self.stream.fetch(self._slots.labels[axis][lo:hi]))

    def _uploaded_cells(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> tuple[Array, ...]:
        """Return cells on the device and an array for predictions, cached since every sweep predicts the same cells."""
        known = next((cells for cells in self._cells if cells[0] is rows and cells[1] is cols), None)
        if known is None:
            uploaded = self.stream.upload(rows), self.stream.upload(cols), self.stream.zeros(len(rows), np.int64)
            known = rows, cols, uploaded
        self._cells = [known, *(cells for cells in self._cells[:3] if cells is not known)]
        return known[2]

    # -- on the CPU --------------------------------------------------------------------------------------------

    def _copied(self, axis: int) -> tuple[MemoryOrder, NDArray[np.int32]]:
        """Return one order of the observations and its residual, for kernels of the CPU."""
        self._settle()
        return self.engine.host_orders[axis], self._residual.copy(axis)

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        order, resid = self._copied(axis)
        return order.table_costs(resid, V, self.engine.threads)

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        order, resid = self._copied(axis)
        return order.lines(resid, positions, self.shape[1 - axis])


class CudaEngine(CudaData):
    """Observations on a GPU, and the chains that share them; parameters as of `CudaData`."""

    name = "cuda"
    in_turn = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._states: list[CudaState] = []

    def new_state(self, chain: int = 0) -> CudaState:
        self._states.append(CudaState(self, self._states[0] if self._states else None))
        return self._states[-1]

    def close(self) -> None:
        super().close()
        for state in self._states:
            state.free()
        self._states, self.orders = [], []
        gc.collect()  # compiling leaves reference cycles of frames, which hold the arguments of kernels
        with suppress(Exception):  # a device that has failed rejects all calls
            free_unused()
