"""Reorder entries from rows to columns in parallel: each thread handles a range of rows with its own column offsets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.threads import Range, Threads

THREADS = Threads()  # threads start on first use
Starts = NDArray[np.int64]


def column_order(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, kind: Any, threads: Threads = THREADS
) -> tuple[Starts, NDArray[Any]]:
    """Return starts and rows (of type `kind`) of the same entries sorted by column."""
    from accams.kernels import order as kernels

    ranges, slots, starts = _slots(row_starts, cols, n_cols, threads)
    rows = np.empty(len(cols), kind)
    _run(threads, kernels.transpose_pattern, ranges, slots, row_starts, cols, rows)
    return starts, rows


def to_column_order(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, by_row: NDArray[Any], threads: Threads = THREADS
) -> NDArray[Any]:
    """Reorder one number per entry from row order to column order."""
    from accams.kernels import order as kernels

    ranges, slots, _ = _slots(row_starts, cols, n_cols, threads)
    out = np.empty(len(by_row), by_row.dtype)
    bits = f"u{by_row.dtype.itemsize}"  # numba has no float16: move the bits
    _run(threads, kernels.transpose_values, ranges, slots, row_starts, cols, by_row.view(bits), out.view(bits))
    return out


def _slots(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, threads: Threads
) -> tuple[list[Range], list[Starts], Starts]:
    """Return ranges of rows, the first slot of each column for each range, and the starts of the columns."""
    from accams.kernels import order as kernels

    rows, entries = len(row_starts) - 1, len(cols)
    parts = max(1, min(threads.n_threads, entries // (4 * n_cols + 1), rows))
    inner = np.searchsorted(row_starts, np.linspace(0, entries, parts + 1)[1:-1])
    ranges = [(int(a), int(b)) for a, b in pairwise([0, *inner, rows])]
    counts = [np.zeros(n_cols, np.int64) for _ in ranges]
    _run(threads, kernels.count_columns, ranges, counts, row_starts, cols)
    starts = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0, dtype=np.int64))])
    first, slots = starts[:-1], list[Starts]()
    for count in counts:
        slots.append(first)
        first = first + count
    return ranges, [slot.copy() for slot in slots], starts


def _run(threads: Threads, kernel: Any, ranges: list[Range], buffers: list[Starts], *args: Any) -> None:
    """Call ``kernel(lo, hi, buffer, *args)`` for every range with its buffer."""
    buffer_of = dict(zip(ranges, buffers, strict=True))
    threads.map(lambda lo, hi: kernel(lo, hi, buffer_of[lo, hi], *args), ranges)
