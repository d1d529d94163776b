"""Sums per block: the only view of the data that an algorithm has."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]
SumPair = tuple[Table, Table]  # n and l: weight and weighted residual sum of each row, by cluster of the other axis
DrawnSlopes = tuple[NDArray[np.int32], Table]  # changes of slopes, and their moments (`accams.kernels.slopes`)


@dataclass(frozen=True)
class Tables:
    """Sums per block, rows first, and labels per cluster, after an update."""

    N: Table  # weight of each block, in units of `State.weight_unit`
    L: Table  # weighted sum of its residuals, in ticks and without the current stencil
    counts: NDArray[np.int64]  # rows (columns) per label of the updated axis
    moved: int = 0  # labels that changed


@dataclass(frozen=True)
class Visited:
    """Result of a visit."""

    T: NDArray[np.int32]
    counts: list[NDArray[np.int64]]  # rows and columns per label
    moved: tuple[int, int]  # row and column labels that changed, over all updates
    gain: float  # sum of 2 L T - N T^2, by which the stencil reduces the squared error


def gain_of(tables: Tables, T: NDArray[np.int32]) -> float:
    """Return the reduction of the squared error by a template, in squared ticks times units of weight."""
    t = T.astype(np.float64)
    return float(np.sum(2.0 * tables.L * t - tables.N * t * t))


def own_first(T: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return a table or template with the updated axis first, or the reverse (a view)."""
    return T if axis == 0 else T.T


def added(parts: Iterable[Tables]) -> Tables:
    """Add up tables; they are integers, so the order does not matter."""
    parts = list(parts)
    if len(parts) == 1:  # as for small data, where each step counts
        return parts[0]
    N, L, counts, moved = (sum(part) for part in zip(*((t.N, t.L, t.counts, t.moved) for t in parts), strict=True))
    return Tables(N, L, counts, int(moved))
