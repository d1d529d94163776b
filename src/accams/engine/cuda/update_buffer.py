"""I/O buffers of one label update, contiguous so that a single copy sends them."""

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from accams.engine.cuda.device import Stream
from accams.engine.cuda.kernels import LABELS, LARGEST, MAX_LABELS, SCALE
from accams.engine.cuda.visit_buffer import N_KEYS, N_NUMBERS
from accams.engine.rules import Key

PARTS = {"numbers": N_NUMBERS, "keys": N_KEYS, "prices": MAX_LABELS, "template": LARGEST // 2,
         "tables": 2 * LARGEST + MAX_LABELS + 1}  # in words of eight bytes  # fmt: skip


class UpdateBuffer:
    """Numbers, keys, prices of labels and a template as kernels read them (line 0, slot 0), and tables for results.

    Attributes
    ----------
    given : tuple
        Arguments of `accams.engine.cuda.labels`, from the template to the turn.
    tables : array
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._host: NDArray[np.int64] = cuda.pinned_array(sum(PARTS.values()), np.int64)
        self._host[:] = 0
        self._device = stream.upload(self._host)
        numbers, keys, prices, template, self.tables = _cut(self._device)
        self.given = template, 0, prices, numbers, keys, 0, 0

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
    numbers, keys, prices, template, tables = (
        words[end - size : end] for end, size in zip(ends, PARTS.values(), strict=True)
    )
    return (
        numbers.view(np.float64).reshape(1, N_NUMBERS), keys.reshape(1, 1, N_KEYS), prices.view(np.float64),
        template.view(np.int32).reshape(1, MAX_LABELS, MAX_LABELS), tables,
    )  # fmt: skip
