"""What a worker of a cluster does. It knows nothing of the cluster: it is told what has happened, and asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.ray.part import Part, PartEngine
from accams.engine.ray.pieces import Load, Whole
from accams.engine.rules import Blocked, Effects, Nearest
from accams.engine.tables import Tables
from accams.model.stencils import Labels
from accams.threads import Threads

News = tuple[Any, ...]  # what happened, and to what


class Answer(NamedTuple):
    """What a worker found, and how long it took (hearing the news, and working)."""

    found: Any
    seconds: float


class Worker:
    """Some rows and some columns, for one or several chains.

    Parameters
    ----------
    load : (callable, callable)
        Give its rows and its columns.
    whole : Whole
    n_threads : int
    fetch : callable
        What was shared, by what was sent in its place.
    """

    def __init__(
        self, load: tuple[Load, Load], whole: Whole, n_threads: int, fetch: Callable[[Any], Any] = lambda x: x
    ) -> None:
        self._load, self._whole, self._threads, self._fetch = load, whole, Threads(n_threads), fetch
        self._engines: list[PartEngine] = []
        self._chains: dict[int, list[Part]] = {}

    def ask(self, chain: int, news: Sequence[News], what: str, *args: Any) -> Answer:
        """Hear what has happened to a chain, then do what is asked for."""
        began = perf_counter()
        for name, *details in news:
            getattr(self, f"_hear_{name}")(chain, *(self._fetch(each) for each in details))
        found = getattr(self, what)(chain, *(self._fetch(each) for each in args))
        return Answer(found, perf_counter() - began)

    # -- what can have happened -------------------------------------------------------------------------------

    def _hear_new(self, chain: int) -> None:
        if not self._engines:
            self._engines = [PartEngine(each(), self._whole, self._threads) for each in self._load]
        self._chains.pop(chain, None)
        self._chains[chain] = [Part(engine) for engine in self._engines]

    def _hear_begin(self, chain: int, stencil: int, k: tuple[int, int] | None) -> None:
        for part in self._chains[chain]:
            part.begin(stencil, k)

    def _hear_labels(self, chain: int, axis: int, labels: Labels) -> None:
        for part in self._chains[chain]:
            part.set_labels(axis, labels)

    def _hear_end(self, chain: int, T: NDArray[np.int32]) -> None:
        for part in self._chains[chain]:
            part.end(T)

    def _hear_weights(self, chain: int, weights: NDArray[np.int32]) -> None:
        for part in self._chains[chain]:
            part.set_row_ticks(weights)

    def _hear_effects(self, chain: int, axis: int, change: NDArray[np.int32]) -> None:
        for part in self._chains[chain]:
            part.add_effects(axis, change)

    def _hear_release(self, chain: int) -> None:
        for part in self._chains[chain]:
            part.release()

    # -- what can be asked ------------------------------------------------------------------------------------

    def relabel(self, chain: int, axis: int, rule: Nearest | Blocked) -> tuple[Tables, Labels]:
        """New labels, and what they add to the tables."""
        part = self._chains[chain][axis]
        return part.relabelled(rule), part.labels[axis]

    def tables(self, chain: int, axis: int) -> Tables:
        return self._chains[chain][axis].tables(axis)

    def sums(self, chain: int, axis: int, chosen: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], ...]:
        """Sums of its rows (columns), or of those of these that it has."""
        part = self._chains[chain][axis]
        n, l = part.sums(axis)
        if chosen is None:
            return n, l
        mine = self._mine(axis, chosen)
        return n[mine], l[mine]

    def sums_by(self, chain: int, axis: int, labels: Labels, k: int) -> tuple[NDArray[np.int64], ...]:
        """Sums of its rows (columns) by any labels of the other axis."""
        part = self._chains[chain][axis]
        n, l = np.zeros((2, part.shape[axis], k), np.int64)
        part.gather(axis, labels, n, l)
        return n, l

    def nearest_centre(self, chain: int, axis: int, T: NDArray[np.float64], first: bool) -> tuple[Any, ...]:
        """A round of k-means: what its labels add to the clusters, and how many of them changed."""
        part = self._chains[chain][axis]
        if first:
            part.labels[axis] = np.zeros_like(part.labels[axis])
        labels, threads = part.labels[axis], part.engine.threads
        return kmeans.assigned(*part.sums(axis), T, labels, threads, part.row_ranges(axis), part.uniform)

    def nearest_labels(self, chain: int, axis: int, T: NDArray[np.float64]) -> Labels:
        """The labels of the nearest centres."""
        self.nearest_centre(chain, axis, T, False)
        return self._chains[chain][axis].labels[axis]

    def squares(self, chain: int) -> NDArray[np.float64]:
        """Squared residuals of each of its rows."""
        return self._chains[chain][0].row_squares()

    def costs(self, chain: int, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._chains[chain][axis].table_costs(axis, V)

    def lines(self, chain: int, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The residuals of those of these rows (columns) that it has."""
        return self._chains[chain][axis].lines(axis, self._mine(axis, positions))

    def effects(self, chain: int, axis: int, rule: Effects) -> NDArray[np.int32]:
        return self._chains[chain][axis].effect_changes(rule)

    def _mine(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of these positions that it has, counted from its first."""
        piece = self._engines[axis].piece
        return np.asarray(positions[(positions >= piece.first) & (positions < piece.last)] - piece.first)
