"""Which cells were observed, in about a byte for each; some millions of them are worked on at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.model.coding import decode_ints, encode_ints
from accams.threads import ranges_of
from accams.use.scoring import Seen

Bytes = NDArray[np.uint8]
Sizes = int | list[list[int]]  # cells, or rows and cells of each piece
PIECE = 1 << 22  # cells


def pack_seen(seen: Seen | None) -> tuple[Sizes, dict[str, Bytes]]:
    """How many cells there are, and bytes: of many cells, piece by piece."""
    assert seen is not None
    ranges = ranges_of(seen.starts, PIECE)
    if len(ranges) <= 1:
        return int(seen.starts[-1]), {"seen": _packed(seen)}
    pieces = [Seen(seen.starts[lo : hi + 1] - seen.starts[lo], seen.columns[seen.starts[lo] : seen.starts[hi]])
              for lo, hi in ranges]  # fmt: skip
    sizes = [[len(each.starts) - 1, len(each.columns)] for each in pieces]
    return sizes, {f"seen{p}": _packed(each) for p, each in enumerate(pieces)}


def unpack_seen(sizes: Sizes, tensors: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Seen:
    """Undo `pack_seen`; refuses what cannot be."""
    if isinstance(sizes, int):
        return _unpacked(tensors["seen"], shape[0], sizes, shape[1])
    if sum(rows for rows, _ in sizes) != shape[0]:
        raise ValueError("what was observed is cut short")
    pieces = [_unpacked(tensors[f"seen{p}"], rows, cells, shape[1]) for p, (rows, cells) in enumerate(sizes)]
    counts = np.concatenate([np.diff(each.starts) for each in pieces])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Seen(starts, np.concatenate([each.columns for each in pieces]))


def _packed(seen: Seen) -> Bytes:
    """How many each row has, and how far each column is from the one before."""
    counts, columns = np.diff(seen.starts), seen.columns.astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = columns[np.lexsort((columns, rows))]
    steps = np.diff(columns, prepend=-1)
    first = seen.starts[:-1][counts > 0]
    steps[first] = columns[first] + 1
    return encode_ints(np.concatenate([counts, steps]))


def _unpacked(data: NDArray[Any], n_rows: int, n_cells: int, n_cols: int) -> Seen:
    numbers = decode_ints(data, n_rows + n_cells)
    counts, steps = numbers[:n_rows], numbers[n_rows:]
    starts = np.concatenate([[0], np.cumsum(counts)])
    if (counts < 0).any() or starts[-1] != n_cells or (steps < 1).any() or (steps > n_cols).any():
        raise ValueError("what was observed is cut short")
    total = np.cumsum(steps)
    before = np.concatenate([[0], total])[starts[:-1]]
    columns = total - np.repeat(before, counts) - 1
    if columns.size and int(columns.max()) >= n_cols:
        raise ValueError("what was observed lies outside the matrix")
    return Seen(starts.astype(np.int64), columns.astype(index_type(n_cols)))
