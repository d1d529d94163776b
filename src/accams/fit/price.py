"""Rate model of the search for small files: bits of labels and templates, and template steps for a price per bit.

The search minimises squared error + price * bits, so the price is the error that one bit must save.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.stencil import times, whole_steps

Floats = NDArray[np.float64]
ENTRY_BITS = 6.0  # approximate size of a quantised template entry
CODE_BITS = 8.0  # approximate size of a label's frequency
FINEST = 2.0**-22  # smallest step of a template, relative to its largest entry


def code_bits(counts: NDArray[np.int64], size: int, width: NDArray[np.int64] | int) -> Floats:
    """Return the bits of each use of a label: its code length, -log2(count / size), and its part of the fixed costs.

    The frequency and the `width` template entries of a label are shared by its uses. An unused label counts as half a
    use, which keeps its bits finite.
    """
    used = np.maximum(counts, 0.5)
    return np.asarray((ENTRY_BITS * width + CODE_BITS) / used - np.log2(used / size))


def stencil_bits(n_entries: int, labels: Sequence[NDArray[Any]]) -> float:
    """Return the approximate bits of a stencil with `n_entries` template entries and these row and column labels."""
    total = ENTRY_BITS * n_entries
    for axis_labels in labels:
        counts = np.bincount(axis_labels)
        counts = counts[counts > 0]
        total += float(-(counts * np.log2(counts / counts.sum())).sum()) + CODE_BITS * len(counts)
    return total


def step_for(price: float, shape: tuple[int, int], total_weight: float) -> float:
    """Return the optimal step of a template at this price per bit.

    Rounding an entry of weight w adds w step^2 / 12 to the error and takes const - log2(step) bits, so
    error + price * bits is lowest at step^2 = 6 price / (w log 2).
    """
    return float(np.sqrt(6.0 * price * shape[0] * shape[1] / (np.log(2.0) * total_weight)))


def in_steps(T: NDArray[np.floating], price: float, total_weight: float) -> tuple[NDArray[np.float32], float]:
    """Quantise a template to integer multiples of the optimal step for this price; return it with the step."""
    finest = max(float(np.abs(T).max(initial=0.0)), 1e-30) * FINEST
    step = float(np.float32(max(step_for(price, (T.shape[0], T.shape[1]), total_weight), finest)))
    return times(whole_steps(T, step), step), step
