"""The stencils of a chain on the device: a slot for each, and copies for those who ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.kernels import MAX_LABELS


class Slots:
    """Labels, templates and sizes of clusters, of as many stencils as there may be and two more.

    Attributes
    ----------
    labels : list of arrays
        Of rows and of columns: (slot, row), one byte each.
    T : array
        Templates: (slot, MAX_LABELS, MAX_LABELS), in ticks.
    counts : array
        Rows and columns of each label: (slot, axis, label).
    shapes : list
        Clusters of rows and columns of each stencil.
    old, spare : int
        The slots beyond those of stencils: the current stencil as it was, and labels or templates that come and go.
    """

    def __init__(self, shape: tuple[int, int], n_stencils: int, stream: Stream) -> None:
        size = n_stencils + 2
        self.stream = stream
        self.labels = [stream.zeros((size, each), np.uint8) for each in shape]
        self.T = stream.zeros((size, MAX_LABELS, MAX_LABELS), np.int32)
        self.counts = stream.zeros((size, 2, MAX_LABELS), np.int64)
        self.shapes = [(1, 1)] * size
        self.capacity, self.old, self.spare = n_stencils, n_stencils, n_stencils + 1

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What passes need: labels of rows and of columns, and templates."""
        return (*self.labels, self.T)

    def put_template(self, slot: int, T: NDArray[Any]) -> None:
        """Send a template to a slot."""
        whole = np.zeros((MAX_LABELS, MAX_LABELS), np.int32)
        whole[: T.shape[0], : T.shape[1]] = T
        self.stream.send(whole, self.T[slot])

    def put_counts(self, slot: int, counts: list[NDArray[np.int64]]) -> None:
        """Send the sizes of a stencil's clusters."""
        whole = np.zeros((2, MAX_LABELS), np.int64)
        for axis in (0, 1):
            whole[axis, : len(counts[axis])] = counts[axis]
        self.stream.send(whole, self.counts[slot])

    def template(self, slot: int, whole: NDArray[np.int32]) -> NDArray[np.int32]:
        """The template of a slot without what only fills it up."""
        a, b = self.shapes[slot]
        return np.ascontiguousarray(whole[:a, :b])


class Copies(Sequence[NDArray[Any]]):
    """What is in the slots of stencils, copied when it is asked for: all at once if most of it is out of date.

    Parameters
    ----------
    fetch : callable
        Gives what is in slots lo .. hi.
    """

    def __init__(self, fetch: Callable[[int, int], list[NDArray[Any]]]) -> None:
        self._fetch = fetch
        self._held: list[NDArray[Any] | None] = []

    def changed(self, slot: int, now: NDArray[Any] | None = None) -> None:
        """A slot has something else in it, perhaps the first thing: `now`, if that is known."""
        if slot == len(self._held):
            self._held.append(None)
        self._held[slot] = now

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[slot] for slot in range(len(self)))

    def __getitem__(self, slot: Any) -> Any:
        if self._held[slot] is None:
            slot %= len(self)
            stale = [each for each, held in enumerate(self._held) if held is None]
            lo, hi = (0, len(self)) if 2 * len(stale) > len(self) else (slot, slot + 1)
            for each, found in zip(range(lo, hi), self._fetch(lo, hi), strict=True):
                self._held[each] = found
        return self._held[slot]
