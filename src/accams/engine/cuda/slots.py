"""Stencils of a chain in slots of fixed device arrays, and copies of them on demand."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.kernels import MAX_LABELS


class Slots:
    """Labels, templates and cluster sizes of `n_stencils` stencils, with two slots more.

    Attributes
    ----------
    labels : list of arrays
        Of rows and of columns: (slot, position), one byte each.
    T : array
        Templates: (slot, MAX_LABELS, MAX_LABELS), in ticks.
    counts : array
        Rows and columns of each label: (slot, axis, label).
    shapes : list
        Clusters of rows and columns of each stencil.
    old, spare : int
        Extra slots: the current stencil before its visit, and temporary labels or templates.
    """

    def __init__(self, shape: tuple[int, int], n_stencils: int, stream: Stream) -> None:
        size = n_stencils + 2
        self.stream = stream
        self.labels = [stream.zeros((size, length), np.uint8) for length in shape]
        self.T = stream.zeros((size, MAX_LABELS, MAX_LABELS), np.int32)
        self.counts = stream.zeros((size, 2, MAX_LABELS), np.int64)
        self.shapes = [(1, 1)] * size
        self.capacity, self.old, self.spare = n_stencils, n_stencils, n_stencils + 1

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Labels of rows, labels of columns, and templates, as passes take them."""
        return (*self.labels, self.T)

    def put_template(self, slot: int, T: NDArray[Any]) -> None:
        """Send a template to a slot."""
        padded = np.zeros((MAX_LABELS, MAX_LABELS), np.int32)
        padded[: T.shape[0], : T.shape[1]] = T
        self.stream.send(padded, self.T[slot])

    def put_counts(self, slot: int, counts: list[NDArray[np.int64]]) -> None:
        """Send the sizes of a stencil's clusters."""
        padded = np.zeros((2, MAX_LABELS), np.int64)
        for axis in (0, 1):
            padded[axis, : len(counts[axis])] = counts[axis]
        self.stream.send(padded, self.counts[slot])

    def template(self, slot: int, padded: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the template of a slot without padding."""
        a, b = self.shapes[slot]
        return np.ascontiguousarray(padded[:a, :b])


class Copies(Sequence[NDArray[Any]]):
    """Contents of slots, copied to the host on demand: all at once if most copies are out of date.

    Parameters
    ----------
    fetch : callable
        Returns the contents of slots lo .. hi.
    """

    def __init__(self, fetch: Callable[[int, int], list[NDArray[Any]]]) -> None:
        self._fetch = fetch
        self._held: list[NDArray[Any] | None] = []

    def changed(self, slot: int, now: NDArray[Any] | None = None) -> None:
        """Mark the copy of a slot (perhaps a new one) as out of date, or replace it by `now`."""
        if slot == len(self._held):
            self._held.append(None)
        self._held[slot] = now

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, slot: Any) -> Any:
        if self._held[slot] is None:
            slot %= len(self)
            stale = sum(held is None for held in self._held)
            lo, hi = (0, len(self)) if 2 * stale > len(self) else (slot, slot + 1)
            self._held[lo:hi] = self._fetch(lo, hi)
        return self._held[slot]
