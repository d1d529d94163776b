"""What bits are worth: the bits of labels and templates on disk, and how coarse a template may be at a price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.stencils import times, whole_steps

Floats = NDArray[np.float64]
ENTRY_BITS = 6.0  # of a template entry, about, and
CODE_BITS = 8.0  # of a label's frequency
FINEST = 2.0**-22  # step of a template, as a share of its largest entry


def code_bits(counts: NDArray[np.int64], size: int, width: NDArray[np.int64] | int) -> Floats:
    """What a label takes whenever it is used: by how often that is among `size`, and its share of its template entries.

    One that is not used is taken to be used half a time.
    """
    used = np.maximum(counts, 0.5)
    return np.asarray((ENTRY_BITS * width + CODE_BITS) / used - np.log2(used / size))


def stencil_bits(n_entries: int, labels: Sequence[NDArray[Any]]) -> float:
    """Bits of a stencil with so many template entries and these labels of rows and columns, about."""
    total = ENTRY_BITS * n_entries
    for each in labels:
        counts = np.bincount(each)
        counts = counts[counts > 0]
        total += float(-(counts * np.log2(counts / counts.sum())).sum()) + CODE_BITS * len(counts)
    return total


def step_for(price: float, shape: tuple[int, int], total_weight: float) -> float:
    """The step of a template whose rounding costs as much error as its bits are worth at this price.

    An entry with weight w adds w step^2 / 12 to the error when it is rounded, and takes -log2(step) bits beside a
    constant: the sum of both is least at step^2 = 6 price / (w log 2).
    """
    return float(np.sqrt(6.0 * price * shape[0] * shape[1] / (np.log(2.0) * total_weight)))


def in_steps(T: NDArray[np.floating], price: float, total_weight: float) -> tuple[NDArray[np.float32], float]:
    """A template in whole steps, as coarse as the price allows, and the step."""
    finest = max(float(np.abs(T).max(initial=0.0)), 1e-30) * FINEST
    step = float(np.float32(max(step_for(price, (T.shape[0], T.shape[1]), total_weight), finest)))
    return times(whole_steps(T, step), step), step
