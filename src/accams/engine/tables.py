"""Sums per block: all that an algorithm gets to see of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]
Part = tuple[Table, Table, Table, int]  # N, L, counts and labels moved of one range


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


def own_first(T: NDArray[Any], axis: int) -> NDArray[Any]:
    """A table or template with the axis that is updated first (or back again)."""
    return T if axis == 0 else T.T


def empty_tables(k: tuple[int, int]) -> tuple[Table, Table, Table]:
    """N, L and counts of nothing."""
    return np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k[0], np.int64)


def reduced(parts: list[Part], axis: int) -> Tables:
    """Add up the tables of all ranges: whole numbers, so the order does not matter."""
    N, L, counts, moved = parts[0]
    for part in parts[1:]:
        N, L, counts, moved = N + part[0], L + part[1], counts + part[2], moved + part[3]
    return Tables(own_first(N, axis), own_first(L, axis), counts, moved)
