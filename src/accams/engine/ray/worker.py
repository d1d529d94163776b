"""A worker of a cluster: holds one shard and serves requests for it. It knows nothing of Ray."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.levels import places
from accams.engine import kmeans
from accams.engine.cpu import MemoryOrder, SparsePasses
from accams.engine.passes import Data
from accams.engine.ray.shards import AxisShard, Load, MatrixInfo
from accams.engine.rules import Blocked, Effects, Latent, Nearest, Slopes
from accams.engine.tables import DrawnSlopes, SumPair, Tables
from accams.kernels.jit import readonly
from accams.model.stencils import Labels
from accams.threads import Threads

Event = tuple[Any, ...]  # ("new",), or a method of `ShardState` and its arguments


class ShardData(Data):
    """Data of some rows (or some columns) of a matrix, as the `cpu` engine has those of a whole one."""

    def __init__(self, shard: AxisShard, matrix: MatrixInfo, threads: Threads) -> None:
        self.shard, size = shard, shard.last - shard.first
        shape = (size, matrix.shape[1]) if shard.axis == 0 else (matrix.shape[0], size)
        super().__init__(shape, matrix.uniform, matrix.grid, threads)
        weights = None if shard.weights is None else matrix.grid.in_weight_steps(shard.weights, matrix.weight_step)
        self.order = MemoryOrder(shard.starts, shard.partners, weights, threads.split(shard.starts) or [(0, 0)])
        self._levels: NDArray[np.uint8] | None = None
        own = matrix.features[shard.axis]
        part = None if own is None else own[shard.first : shard.last]
        self.features = (part, matrix.features[1]) if shard.axis == 0 else (matrix.features[0], part)

    def levels(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return the places of the data among these values; they are kept."""
        if self._levels is None:
            self._levels = readonly(places(self.shard.values, values))
        return self._levels


class ShardState(SparsePasses):
    """Residual of rows (or columns) first .. last; what changes it comes for the whole matrix."""

    engine: ShardData

    def __init__(self, data: ShardData) -> None:
        shard = self.shard = data.shard
        super().__init__(data, {shard.axis: data.order}, {shard.axis: data.grid.ticks_of(shard.values)})
        self.axis = shard.axis
        self._latent: NDArray[np.int32] | None = None
        self.first = (shard.first, 0) if shard.axis == 0 else (0, shard.first)

    def own(self, axis: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return the part of an array with one value per row (column) of the matrix that belongs to this shard."""
        return values[self.shard.first : self.shard.last] if axis == self.axis else values

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, self.own(axis, labels))

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        super().set_row_ticks(self.own(0, weights))

    def add_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        super().add_effects(axis, self.own(axis, change))

    def add_slopes(self, axis: int, change: NDArray[np.int32]) -> None:
        super().add_slopes(axis, self.own(axis, change))

    def draw_latent(self, rule: Latent) -> None:
        """Draw the latent values of this shard."""
        if self._latent is None:  # until now the data itself
            self._latent = self.engine.grid.ticks_of(self.shard.values)
        self.redraw(self.axis, rule, self._latent, self.engine.levels(rule.values))


class Reply(NamedTuple):
    """Result of a request, and the seconds that it took the worker, events included."""

    result: Any
    seconds: float


class Worker:
    """Rows and columns that `load` returns, for one or several chains; `fetch` resolves references in arguments."""

    def __init__(
        self, load: tuple[Load, Load], matrix: MatrixInfo, n_threads: int, fetch: Callable[[Any], Any] = lambda x: x
    ) -> None:
        self._load, self._matrix, self._threads, self._fetch = load, matrix, Threads(n_threads), fetch
        self._data: list[ShardData] = []
        self._chains: dict[int, list[ShardState]] = {}

    def ask(self, chain: int, events: Sequence[Event], request: str, *args: Any) -> Reply:
        """Apply the events of a chain in order, then serve a request."""
        began = perf_counter()
        for name, *details in events:
            if name == "new":
                self._new(chain)
                continue
            fetched = [self._fetch(detail) for detail in details]
            for state in self._chains[chain]:
                getattr(state, name)(*fetched)
        result = getattr(self, request)(chain, *(self._fetch(arg) for arg in args))
        return Reply(result, perf_counter() - began)

    def _new(self, chain: int) -> None:
        """Start a chain from the data, in place of any with this number; the data is loaded for the first one."""
        if not self._data:
            self._data = [ShardData(load(), self._matrix, self._threads) for load in self._load]
        self._chains.pop(chain, None)
        self._chains[chain] = [ShardState(data) for data in self._data]

    # -- requests ---------------------------------------------------------------------------------------------

    def relabel(self, chain: int, axis: int, rule: Nearest | Blocked) -> tuple[Tables, Labels]:
        """Return the tables of its rows (columns) under new labels, and these labels."""
        state = self._chains[chain][axis]
        return state.relabel(axis, rule), state.labels[axis]

    def tables(self, chain: int, axis: int) -> Tables:
        return self._chains[chain][axis].tables(axis)

    def sums(self, chain: int, axis: int, chosen: NDArray[np.int64] | None) -> SumPair:
        """Return the sums of its rows (columns), or of those among `chosen`."""
        n, l = self._chains[chain][axis].sums(axis)
        if chosen is None:
            return n, l
        local = self._local(axis, chosen)
        return n[local], l[local]

    def sums_by(self, chain: int, axis: int, labels: Labels, k: int) -> SumPair:
        """Return the sums of its rows (columns) by any labels of the other axis."""
        state = self._chains[chain][axis]
        n, l = np.zeros((2, state.shape[axis], k), np.int64)
        state.gather(axis, labels, n, l)
        return n, l

    def nearest_centre(self, chain: int, axis: int, T: NDArray[np.float64], first: bool) -> tuple[Any, ...]:
        """Assign its rows (columns) to centres; return the clusters' weights and sums, and the labels changed."""
        state = self._chains[chain][axis]
        if first:
            state.labels[axis] = np.zeros_like(state.labels[axis])
        labels, threads = state.labels[axis], state.engine.threads
        return kmeans.assigned(*state.sums(axis), T, labels, threads, state.row_ranges(axis), state.uniform)

    def nearest_labels(self, chain: int, axis: int, T: NDArray[np.float64]) -> Labels:
        """Return the labels of the nearest centres."""
        self.nearest_centre(chain, axis, T, False)
        return self._chains[chain][axis].labels[axis]

    def squares(self, chain: int) -> NDArray[np.float64]:
        return self._chains[chain][0].row_squares()

    def costs(self, chain: int, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._chains[chain][axis].table_costs(axis, V)

    def lines(self, chain: int, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._chains[chain][axis].lines(axis, self._local(axis, positions))

    def effects(self, chain: int, axis: int, rule: Effects) -> NDArray[np.int32]:
        return self._chains[chain][axis].effect_changes(axis, rule)

    def slopes(self, chain: int, axis: int, rule: Slopes) -> DrawnSlopes:
        return self._chains[chain][axis].slope_changes(axis, rule)

    def _local(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions that are in this shard, relative to its first."""
        shard = self._data[axis].shard
        return np.asarray(positions[(positions >= shard.first) & (positions < shard.last)] - shard.first)
