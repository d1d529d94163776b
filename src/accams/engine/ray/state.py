"""A chain on a cluster: labels and templates are here, residuals and sums are with the workers."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.base import Random, State, Sums
from accams.engine.kmeans import Init
from accams.engine.ray.cluster import Group
from accams.engine.ray.meter import Meter
from accams.engine.ray.worker import News
from accams.engine.rules import Blocked, Effects, Nearest, Template
from accams.engine.tables import Table, Tables, Visited
from accams.model.stencils import Labels, label_type

if TYPE_CHECKING:
    from accams.engine.ray.engine import RayEngine


class RayState(State):
    """Everything but the residual, and news of it for the workers.

    What happens here is told to the workers with the next question. A worker that has died is replaced by one that is
    told everything from the beginning: its residual is a function of the data, the labels and the templates.
    """

    engine: RayEngine

    def __init__(self, engine: RayEngine, chain: int, group: Group) -> None:
        super().__init__(engine)
        self._chain, self._group = chain, group
        self._known = [-1] * len(group)  # no worker has heard of this chain
        self._news, self.meter = list[News](), Meter(chain)

    # -- what happens -----------------------------------------------------------------------------------------

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        super().begin(stencil, k)
        self._news.append(("begin", stencil, k))

    def end(self, T: Template) -> None:
        super().end(T)
        self._news.append(("end", T))

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, labels)
        self._tell_labels(axis)

    def set_row_weights(self, weights: NDArray[np.float64]) -> None:
        super().set_row_weights(weights)
        assert self.row_weights is not None
        self._news.append(("weights", self._shared(self.row_weights)))

    def _shift_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        self._news.append(("effects", axis, self._shared(change)))

    def visited(self) -> list[Visited]:
        self.meter.end_sweep()
        return super().visited()

    def release(self) -> None:
        self._news.append(("release",))

    def _tell_labels(self, axis: int) -> None:
        self._news.append(("labels", axis, self._shared(self.labels[axis].copy())))

    def _story(self) -> list[News]:
        """All that a new worker has to hear."""
        share = self._shared
        story: list[News] = [("new",)]
        story += [("effects", axis, share(each)) for axis, each in enumerate(self.effects) if each is not None]
        if self.row_weights is not None:
            story.append(("weights", share(self.row_weights)))
        for stencil, T in enumerate(self.templates):
            story.append(("begin", stencil, (T.shape[0], T.shape[1])))
            both = self.row_labels[stencil], self.col_labels[stencil]
            story += [("labels", axis, share(labels)) for axis, labels in enumerate(both)]
            story.append(("end", T))
        if self.current is not None:
            story.append(("begin", self.current, self.k))
            story += [("labels", axis, share(self.labels[axis].copy())) for axis in (0, 1)]
        return story

    def _ask(self, what: str, *args: Any) -> list[Any]:
        """What all workers answer, once they have heard the news."""
        began, news, self._news = perf_counter(), self._news, []
        answers = self._group.ask(self._chain, self._known, news, self._story, what, *args)
        self.meter.note(what, began, news, args, answers)
        return [answer.found for answer in answers]

    def _shared(self, what: NDArray[Any]) -> Any:
        """Something that all workers are to get."""
        ready = self._group.shared(what)
        self.meter.now.shared += 0 if ready is what else what.nbytes
        return ready

    # -- what is asked ----------------------------------------------------------------------------------------

    def _relabelled(self, axis: int, rule: Nearest | Blocked) -> Tables:
        parts = self._ask("relabel", axis, rule)
        tables = _added(tables for tables, _ in parts)
        if tables.moved:
            self.labels[axis] = np.concatenate([labels for _, labels in parts])
            self._tell_labels(axis)
        return tables

    def tables(self, axis: int) -> Tables:
        return _added(self._ask("tables", axis))

    def k_means(self, axis: int, init: Init, generator: Random, max_iter: int, n_trials: int = 1) -> Labels:
        k, threads = self.k[axis], self.engine.threads
        if k == 1:
            return np.zeros(self.shape[axis], label_type(k))
        n, l = self._some_sums(axis, kmeans.some_points(self.shape[axis], generator))
        T = kmeans.centres(n, l, k, init, generator, threads, threads.split_evenly(len(n), k), n_trials)
        following = T
        for turn in range(max_iter):
            T = following
            parts = self._ask("nearest_centre", axis, T, turn == 0)
            N, L, moved = (sum(each) for each in zip(*parts, strict=True))
            following = np.rint(kmeans.means(N, L))
            if (turn == 0 and moved == 0) or np.array_equal(
                following, T
            ):  # a worker that is new cannot say if any moved
                break
        return np.concatenate(self._ask("nearest_labels", axis, T))

    def sums(self, axis: int) -> Sums:
        return self._some_sums(axis, None)

    def _some_sums(self, axis: int, chosen: NDArray[np.int64] | None) -> Sums:
        n, l = (np.concatenate(each) for each in zip(*self._ask("sums", axis, chosen), strict=True))
        return n, l

    def gather(self, axis: int, labels: Labels, n: Table, l: Table) -> None:
        parts = self._ask("sums_by", axis, self._shared(labels), n.shape[1])
        n[:], l[:] = (np.concatenate(each) for each in zip(*parts, strict=True))

    def table_costs(self, axis: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate(self._ask("costs", axis, self._shared(V)))

    def lines(self, axis: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        order = np.argsort(positions, kind="stable")
        found = np.concatenate(self._ask("lines", axis, positions[order]), axis=1)
        out = np.empty_like(found)
        out[:, order] = found
        return out

    def _squares(self) -> NDArray[np.float64]:
        return np.concatenate(self._ask("squares"))

    def _effect_changes(self, axis: int, rule: Effects, old: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.concatenate(self._ask("effects", axis, rule))

    # -- nothing to be done here ------------------------------------------------------------------------------

    def _shift(self, stencil: int, sign: int) -> None:
        """Workers do it when they hear of it."""

    def forget_sums(self, axis: int) -> None:
        """Workers do so when they hear of labels."""


def _added(parts: Any) -> Tables:
    """The tables of all workers together."""
    N, L, counts, moved = (sum(each) for each in zip(*((t.N, t.L, t.counts, t.moved) for t in parts), strict=True))
    return Tables(N, L, counts, int(moved))
