"""The `ray` engine: the driver has labels and templates, the workers of a cluster have the ratings."""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine import kmeans
from accams.engine.base import Engine, State
from accams.engine.grid import Grid
from accams.engine.memory import memory_estimate
from accams.engine.passes import Bookkeeping, Features, Random
from accams.engine.ray.cluster import Cluster, WorkerGroup, connect
from accams.engine.ray.meter import Meter
from accams.engine.ray.shards import MatrixInfo, cuts, loaders
from accams.engine.ray.worker import Event
from accams.engine.rules import Blocked, Effects, Latent, Nearest, Slopes, Template
from accams.engine.tables import DrawnSlopes, SumPair, Table, Tables, Visited, added
from accams.errors import InputError
from accams.model.stencils import Labels, label_type
from accams.threads import Threads


class RayEngine(Engine):
    """Observations with missing cells, cut into shards, one for each worker of a group.

    A shard is some rows and some columns, with about as many ratings as any other. Chains are spread over as many
    groups of workers as there are cores for. Without `n_shards` there is one shard per machine; without `n_cpus`, a
    bound on the cores of all workers together, these take all cores of the cluster.
    """

    name = "ray"
    in_turn = False

    def __init__(
        self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int = 1, *, n_chains: int = 1,
        k: tuple[int, int] = (1, 1), n_shards: int | None = None, n_cpus: int | None = None,
        cluster: Cluster | None = None, ordinal: bool = False, features: Features = (None, None),
    ) -> None:  # fmt: skip
        super().__init__(observations, grid, threads)
        self.features = features
        obs, self._groups, self._last_chain = observations, list[WorkerGroup](), -1
        self._cluster = cluster or connect()
        try:
            cores = self._cluster.cores or [1]
            shards = n_shards or min(len(cores), *obs.shape)
            if shards > min(obs.shape):
                raise InputError(
                    f"n_shards={shards} is more than there are rows or columns: use {min(obs.shape)} at most"
                )
            n_groups = max(1, min(n_chains, (n_cpus or sum(cores)) // shards))
            matrix = MatrixInfo(obs.shape, grid, obs.weight_step, self.uniform, features)
            ranges = cuts(obs.row_starts, shards), cuts(obs.col_starts, shards)
            loads = [self._cluster.kept(load) for load in loaders(obs, ranges)]
            cpus = cores_each(cores, shards * n_groups, n_cpus)
            for _ in range(n_groups):
                self._groups.append(self._cluster.group(loads, matrix, cpus))
            need = memory_estimate(
                obs.shape, obs.nnz, n_stencils=n_stencils, n_clusters=k, n_chains=-(-n_chains // n_groups),
                weights=obs.stored_weights is not None, engine="ray", n_shards=shards, ordinal=ordinal,
            )  # fmt: skip
            self._cluster.check_room(self._groups, need)
        except BaseException:
            self.close()
            raise

    def new_state(self, chain: int = 0) -> "RayState":
        self._last_chain += 1  # workers know chains by these numbers; `chain` may come again
        return RayState(self, self._last_chain, self._groups[chain % len(self._groups)])

    def close(self) -> None:
        try:
            super().close()
        finally:
            for group in self._groups:
                group.close()
            self._cluster.leave()


def cores_each(machines: list[int], workers: int, most: int | None = None) -> float:
    """Return the cores for each worker such that all of them fit on machines with so many cores.

    A fraction where there are fewer cores than workers. `most` bounds the cores of all workers together; if it exceeds
    those of the machines, the cluster is expected to grow.
    """
    available = sum(machines)
    if most is not None and most > available:
        return most // workers or 1 / -(-workers // most)
    total = available if most is None else most
    for cores in range(total // workers, 0, -1):
        if sum(machine // cores for machine in machines) >= workers:
            return cores
    return 1 / -(-workers // total)


class Moment(NamedTuple):
    """The model and the row weights of a chain at some time, as references: arrays are replaced, never changed."""

    templates: list[Template]
    row_labels: list[Labels]
    col_labels: list[Labels]
    effects: list[NDArray[np.int32] | None]
    slopes: list[NDArray[np.int32] | None]
    row_weights: NDArray[np.int32] | None

    def stencils(self) -> list[tuple[Template, Labels, Labels]]:
        return list(zip(self.templates, self.row_labels, self.col_labels, strict=True))


BEGINNING = Moment([], [], [], [None, None], [None, None], None)


class RayState(Bookkeeping, State):
    """Everything of a chain but its residual, and pending events for the workers.

    Changes are queued as events and sent with the next request. A worker that has died is replaced by one to which
    all events are replayed in short: its residual is a function of the data, the labels and the templates. Latent
    values, which take the place of the data, are a function of the model when they were drawn; so that is kept.
    """

    engine: Engine

    def __init__(self, engine: Engine, chain: int, group: WorkerGroup) -> None:
        super().__init__(engine)
        self._chain, self._group = chain, group
        self._known = [-1] * len(group)  # generations of the workers that know this chain; -1: none does
        self._events, self.meter = list[Event](), Meter(chain)
        self._drawn: tuple[Moment, Latent] | None = None  # the last draw of latent values, and the model before it

    # -- events -----------------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        super().begin(stencil, k)
        self._events.append(("begin", stencil, k))

    def end(self, T: Template) -> None:
        super().end(T)
        self._events.append(("end", T))

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, labels)
        self._send_labels(axis)

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        self.row_weights = weights
        self._events.append(("set_row_ticks", self._shared(weights)))

    def shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        self._events.append(("add_effects", axis, self._shared(change)))

    def shift_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        self._events.append(("add_slopes", axis, self._shared(change)))

    def draw_latent(self, rule: Latent) -> None:
        assert self.current is None  # latent values depend on all stencils
        self._drawn = self._now(), rule
        self._events.append(("draw_latent", rule))
        self._residual_changed()

    def visited(self) -> list[Visited]:
        self.meter.end_sweep()
        return super().visited()

    def release(self) -> None:
        self._events.append(("release",))

    def _send_labels(self, axis: int) -> None:
        self._events.append(("set_labels", axis, self._shared(self.labels[axis].copy())))

    def _replay(self) -> list[Event]:
        """Return the events that bring a new worker to the present state."""
        events: list[Event] = [("new",)]
        before = BEGINNING
        if self._drawn is not None:
            before, rule = self._drawn
            events += [*self._between(BEGINNING, before), ("draw_latent", rule)]
        events += self._between(before, self._now())
        if self.current is not None:
            events.append(("begin", self.current, self.k))
            events += [("set_labels", axis, self._shared(self.labels[axis].copy())) for axis in (0, 1)]
        return events

    def _now(self) -> Moment:
        stencils = [*self.templates], [*self.row_labels], [*self.col_labels]
        return Moment(*stencils, [*self.effects], [*self.slopes], self.row_weights)

    def _between(self, one: Moment, other: Moment) -> list[Event]:
        """Return the events that bring a worker from one moment to a later one."""
        share, events = self._shared, list[Event]()
        for name, before, after in (
            ("add_effects", one.effects, other.effects), ("add_slopes", one.slopes, other.slopes)
        ):  # fmt: skip
            for axis, (old, new) in enumerate(zip(before, after, strict=True)):
                if new is not None and new is not old:
                    events.append((name, axis, share(new if old is None else new - old)))
        if other.row_weights is not None and other.row_weights is not one.row_weights:
            events.append(("set_row_ticks", share(other.row_weights)))
        known = one.stencils()
        for stencil, (T, *both) in enumerate(other.stencils()):
            if stencil < len(known) and all(a is b for a, b in zip((T, *both), known[stencil], strict=True)):
                continue
            events.append(("begin", stencil, (T.shape[0], T.shape[1])))
            events += [("set_labels", axis, share(labels)) for axis, labels in enumerate(both)]
            events.append(("end", T))
        return events

    def _ask(self, request: str, *args: Any) -> list[Any]:
        """Send the pending events and a request to all workers, and return their results."""
        began, events, self._events = perf_counter(), self._events, []
        replies = self._group.ask(self._chain, self._known, events, self._replay, request, *args)
        self.meter.note(request, began, events, args, replies)
        return [reply.result for reply in replies]

    def _shared(self, array: NDArray[Any]) -> Any:
        sent = self._group.shared(array)
        self.meter.now.shared += 0 if sent is array else array.nbytes
        return sent

    # -- requests ---------------------------------------------------------------------------------------------

    def relabel(self, axis: int, rule: Nearest | Blocked) -> Tables:
        parts = self._ask("relabel", axis, rule)
        tables = added(tables for tables, _ in parts)
        if tables.moved:
            self.labels[axis] = np.concatenate([labels for _, labels in parts])
            self._send_labels(axis)
        return tables

    def tables(self, axis: int) -> Tables:
        return added(self._ask("tables", axis))

    def k_means(self, axis: int, init: kmeans.Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        k, threads = self.k[axis], self.engine.threads
        if k == 1:
            return np.zeros(self.shape[axis], label_type(k))
        n, l = self.sums(axis, kmeans.some_points(self.shape[axis], generator))
        T = kmeans.centres(n, l, k, init, generator, threads, threads.split_evenly(len(n), k), n_trials)
        following = T
        for turn in range(max_iter):
            T = following
            parts = self._ask("nearest_centre", axis, T, turn == 0)
            N, L, moved = (sum(part) for part in zip(*parts, strict=True))
            following = np.rint(kmeans.means(N, L))
            # later on, compare centres: a worker that was replaced cannot count the labels that have changed
            if (turn == 0 and moved == 0) or np.array_equal(following, T):
                break
        return np.concatenate(self._ask("nearest_labels", axis, T))

    def sums(self, axis: int, chosen: NDArray[np.int64] | None = None) -> SumPair:
        n, l = (np.concatenate(part) for part in zip(*self._ask("sums", axis, chosen), strict=True))
        return n, l

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        parts = self._ask("sums_by", axis, self._shared(labels), n.shape[1])
        n[:], l[:] = (np.concatenate(part) for part in zip(*parts, strict=True))

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate(self._ask("costs", axis, self._shared(V)))

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        order = np.argsort(positions, kind="stable")
        lines = np.concatenate(self._ask("lines", axis, positions[order]), axis=1)
        out = np.empty_like(lines)
        out[:, order] = lines
        return out

    def _squares(self) -> NDArray[np.float64]:
        return np.concatenate(self._ask("squares"))

    def slope_changes(self, axis: int, rule: Slopes) -> DrawnSlopes:
        changes, moments = zip(*self._ask("slopes", axis, rule), strict=True)
        return np.concatenate(changes), sum(moments)

    def effect_changes(self, axis: int, rule: Effects) -> NDArray[np.int32]:
        return np.concatenate(self._ask("effects", axis, rule))
