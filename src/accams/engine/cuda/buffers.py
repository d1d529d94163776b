"""I/O buffers of visits of the blocked sampler, a line for each, and of a single label update.

Kernels read a line of them instead of arguments that differ between sweeps, so their launches can be recorded.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Stream
from accams.engine.cuda.kernels import LABELS, LARGEST, MAX_LABELS, SCALE
from accams.engine.rules import BlockedVisit, Key

N_NUMBERS, N_KEYS = 5, 6
PARTS = {"numbers": N_NUMBERS, "keys": N_KEYS, "prices": MAX_LABELS, "template": LARGEST // 2,
         "tables": 2 * LARGEST + MAX_LABELS + 1}  # in words of eight bytes; one copy sends them all  # fmt: skip


class Planned(NamedTuple):
    """A visit in the buffers: its slot, its line, and the axis of each update."""

    slot: int
    line: int
    axes: tuple[int, ...]


class VisitBuffer:
    """Numbers and random keys of visits, and their results.

    numbers[line]: kappa, spread, precision, concentration of row and column labels. keys[line, update]: of weights of
    clusters, labels and template. moved[line], gain[line]: row and column labels that changed, and the reduction of the
    squared error.
    """

    def __init__(self, n_lines: int, n_updates: int, stream: Stream) -> None:
        self.stream, self.n_lines, self.n_updates = stream, n_lines, n_updates
        shapes = (n_lines, N_NUMBERS), (n_lines, n_updates, N_KEYS)
        self._numbers: NDArray[np.float64] = cuda.pinned_array(shapes[0], np.float64)
        self._keys: NDArray[np.int64] = cuda.pinned_array(shapes[1], np.int64)
        self._numbers[:], self._keys[:] = 0.0, 0
        self.given = self.numbers, self.keys = stream.upload(self._numbers), stream.upload(self._keys)
        self.moved, self.gain = stream.zeros((n_lines, 2), np.int64), stream.zeros(n_lines, np.float64)

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


class UpdateBuffer:
    """Numbers, keys, prices of labels and a template as kernels read them (line 0, slot 0), and tables for results."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._host: NDArray[np.int64] = cuda.pinned_array(sum(PARTS.values()), np.int64)
        self._host[:] = 0
        self._device = stream.upload(self._host)
        numbers, keys, prices, template, self.tables = _cut(self._device)
        self.given = template, 0, prices, numbers, keys, 0, 0  # arguments of a kernel, from the template to the turn

    def send(self, T: NDArray[Any] | None, scale: float, prices: NDArray[np.float64] | None, key: Key) -> None:
        """Send the input of an update, and reset its tables; the tables of the last one must have been fetched."""
        numbers, keys, all_prices, template, _ = _cut(self._host)
        numbers[0, SCALE] = scale
        keys[0, 0, LABELS : LABELS + 2] = key
        all_prices[:] = 0.0
        if prices is not None:
            all_prices[: len(prices)] = prices
        if T is not None:
            template[0, : T.shape[0], : T.shape[1]] = T
        self.stream.send(self._host, self._device)


def _cut(words: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return typed views of the parts."""
    ends = np.cumsum(list(PARTS.values()))
    parts = [words[end - size : end] for end, size in zip(ends, PARTS.values(), strict=True)]
    numbers, keys, prices, template, tables = parts
    return (
        numbers.view(np.float64).reshape(1, N_NUMBERS), keys.reshape(1, 1, N_KEYS), prices.view(np.float64),
        template.view(np.int32).reshape(1, MAX_LABELS, MAX_LABELS), tables,
    )  # fmt: skip
