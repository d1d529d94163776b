"""Which cells were observed, in about a byte for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.coding import decode_ints, encode_ints
from accams.use.scoring import Seen


def pack_seen(seen: Seen | None) -> tuple[int, NDArray[np.uint8]]:
    """How many cells there are, and bytes: how many each row has, and how far each column is from the one before."""
    assert seen is not None
    counts, columns = np.diff(seen.starts), seen.columns.astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = columns[np.lexsort((columns, rows))]
    steps = np.diff(columns, prepend=-1)
    first = seen.starts[:-1][counts > 0]
    steps[first] = columns[first] + 1
    return len(columns), encode_ints(np.concatenate([counts, steps]))


def unpack_seen(data: NDArray[Any], n_cells: int, shape: tuple[int, int]) -> Seen:
    """Undo `pack_seen`; refuses what cannot be."""
    numbers = decode_ints(data, shape[0] + n_cells)
    counts, steps = numbers[: shape[0]], numbers[shape[0] :]
    starts = np.concatenate([[0], np.cumsum(counts)])
    if (counts < 0).any() or starts[-1] != n_cells or (steps < 1).any() or (steps > shape[1]).any():
        raise ValueError("what was observed is cut short")
    total = np.cumsum(steps)
    before = np.concatenate([[0], total])[starts[:-1]]
    columns = total - np.repeat(before, counts) - 1
    if columns.size and int(columns.max()) >= shape[1]:
        raise ValueError("what was observed lies outside the matrix")
    return Seen(starts.astype(np.int64), columns)
