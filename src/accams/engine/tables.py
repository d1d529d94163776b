"""Sums per block: the only view of the data that an algorithm has."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]
SumPair = tuple[Table, Table]  # n and l: weight and weighted residual sum of each row, by cluster of the other axis


@dataclass(frozen=True)
class Tables:
    """Sums per block and labels per cluster, after an update.

    N, L : weight (in units of `State.weight_unit`) and weighted residual sum of each block, rows first; residuals in
    ticks, without the current stencil. counts : rows (columns) per label of the updated axis. moved : labels that
    changed.
    """

    N: Table
    L: Table
    counts: NDArray[np.int64]
    moved: int = 0


@dataclass(frozen=True)
class Visited:
    """Result of a visit.

    T, counts : its template, and the rows and columns per label. moved : row and column labels that changed, over all
    updates. gain : sum of 2 L T - N T^2, by which the stencil reduces the squared error.
    """

    T: NDArray[np.int32]
    counts: list[NDArray[np.int64]]
    moved: tuple[int, int]
    gain: float


def gain_of(tables: Tables, T: NDArray[np.int32]) -> float:
    """Return the reduction of the squared error by a template, in squared ticks times units of weight."""
    t = T.astype(np.float64)
    return float(np.sum(2.0 * tables.L * t - tables.N * t * t))


def own_first(T: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return a table or template with the updated axis first, or the reverse (a view)."""
    return T if axis == 0 else T.T


def added(parts: Iterable[Tables]) -> Tables:
    """Add up tables; they are integers, so the order does not matter."""
    N, L, counts, moved = (sum(part) for part in zip(*((t.N, t.L, t.counts, t.moved) for t in parts), strict=True))
    return Tables(N, L, counts, int(moved))
