"""A worker of a cluster: serves requests for one shard. It knows nothing of Ray."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.ray.shard_state import ShardData, ShardState
from accams.engine.ray.shards import Load, MatrixInfo
from accams.engine.rules import Blocked, Effects, Nearest
from accams.engine.tables import SumPair, Tables
from accams.model.stencils import Labels
from accams.threads import Threads

Event = tuple[Any, ...]  # ("new",), or a method of `ShardState` and its arguments


class Reply(NamedTuple):
    """Result of a request, and the seconds that it took the worker, events included."""

    result: Any
    seconds: float


class Worker:
    """Some rows and some columns of a matrix, for one or several chains.

    Parameters
    ----------
    load : (callable, callable)
        Return its rows and its columns.
    matrix : MatrixInfo
    n_threads : int
    fetch : callable
        Resolves arguments that were sent as references.
    """

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
        """Return the tables of its rows (columns)."""
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
        """Return the squared residuals of each of its rows."""
        return self._chains[chain][0].row_squares()

    def costs(self, chain: int, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the costs of its rows (columns) for every centre."""
        return self._chains[chain][axis].table_costs(axis, V)

    def lines(self, chain: int, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the residuals of its rows (columns) among these."""
        return self._chains[chain][axis].lines(axis, self._local(axis, positions))

    def effects(self, chain: int, axis: int, rule: Effects) -> NDArray[np.int32]:
        """Return the changes of the effects of its rows (columns)."""
        return self._chains[chain][axis].effect_changes(axis, rule)

    def _local(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions that are in this shard, relative to its first."""
        shard = self._data[axis].shard
        return np.asarray(positions[(positions >= shard.first) & (positions < shard.last)] - shard.first)
