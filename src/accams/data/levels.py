"""The distinct values of observations, where they are few: the steps of a rating scale."""

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations

MOST_LEVELS = 50
BLOCK = 1 << 20  # values looked at together


def places(values: NDArray[np.floating], levels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the place of every value among `levels`."""
    numbers = np.empty(len(values), np.uint8)
    for lo in range(0, len(values), BLOCK):  # block by block, to save memory
        numbers[lo : lo + BLOCK] = np.searchsorted(levels, values[lo : lo + BLOCK].astype(np.float64))
    return numbers


def levels_of(observations: Observations, most: int = MOST_LEVELS) -> NDArray[np.float64] | None:
    """Return the distinct values in increasing order, or None if there are more than `most`."""
    found, values = np.zeros(0), observations.stored_values
    for lo in range(0, len(values), BLOCK):
        found = np.union1d(found, values[lo : lo + BLOCK].astype(np.float64))
        if len(found) > most:
            return None
    observations.release_pages()
    return found


def level_weights(observations: Observations, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the total weight of the observations of each level."""
    numbers = places(observations.stored_values, levels)
    observations.release_pages()
    return np.bincount(numbers, observations.weights, len(levels)).astype(np.float64)
