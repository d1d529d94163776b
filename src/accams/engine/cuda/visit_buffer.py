"""I/O buffers of visits of the blocked sampler, a line for each.

Kernels read a line of them instead of arguments that differ between sweeps, so their launches can be recorded.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Array, Stream
from accams.engine.rules import BlockedVisit

N_NUMBERS, N_KEYS = 5, 6


class Planned(NamedTuple):
    """A visit in the buffers: its slot, its line, and the axis of each update."""

    slot: int
    line: int
    axes: tuple[int, ...]


class VisitBuffer:
    """Numbers and random keys of visits, and their results.

    Attributes
    ----------
    numbers : array
        (line, N_NUMBERS): kappa, spread, precision, concentration of row and column labels.
    keys : array
        (line, update, N_KEYS): of weights of clusters, labels and template.
    moved, gain : arrays
        Results of each line: row and column labels that changed, and the reduction of the squared error.
    n_lines, n_updates : int
    """

    def __init__(self, n_lines: int, n_updates: int, stream: Stream) -> None:
        self.stream, self.n_lines, self.n_updates = stream, n_lines, n_updates
        shapes = (n_lines, N_NUMBERS), (n_lines, n_updates, N_KEYS)
        self._numbers: NDArray[np.float64] = cuda.pinned_array(shapes[0], np.float64)
        self._keys: NDArray[np.int64] = cuda.pinned_array(shapes[1], np.int64)
        self._numbers[:], self._keys[:] = 0.0, 0
        self.numbers, self.keys = stream.upload(self._numbers), stream.upload(self._keys)
        self.moved, self.gain = stream.zeros((n_lines, 2), np.int64), stream.zeros(n_lines, np.float64)

    @property
    def given(self) -> tuple[Array, Array]:
        """Arrays that kernels read."""
        return self.numbers, self.keys

    def write(self, line: int, rule: BlockedVisit) -> None:
        """Write a visit to host memory; `send` must follow."""
        self._numbers[line] = rule.kappa, rule.spread, rule.precision, *rule.concentration
        self._keys[line, : len(rule.updates)] = [(*u.weights, *u.labels, *u.template) for u in rule.updates]

    def send(self, lo: int, hi: int) -> None:
        """Send lines lo .. hi to the device."""
        self.stream.send(self._numbers[lo:hi], self.numbers[lo:hi])
        self.stream.send(self._keys[lo:hi], self.keys[lo:hi])

    def results(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Wait for all visits; return the labels that changed and the gains of all lines."""
        return self.stream.fetch(self.moved), self.stream.fetch(self.gain)
