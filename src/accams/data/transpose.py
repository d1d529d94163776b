"""From row order to column order: a thread takes a range of rows and knows where its part of each column begins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.threads import Range, Threads

THREADS = Threads()  # none is started before it is needed
Starts = NDArray[np.int64]


def column_order(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, kind: Any, threads: Threads = THREADS
) -> tuple[Starts, NDArray[Any]]:
    """Starts and rows (of this type) of the same entries sorted by column."""
    from accams.kernels import order as kernels

    ranges, slots, starts = _slots(row_starts, cols, n_cols, threads)
    rows = np.empty(len(cols), kind)
    _each(threads, kernels.transpose_pattern, ranges, slots, row_starts, cols, rows)
    return starts, rows


def to_column_order(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, by_row: NDArray[Any], threads: Threads = THREADS
) -> NDArray[Any]:
    """One number per entry, from row order to column order."""
    from accams.kernels import order as kernels

    ranges, slots, _ = _slots(row_starts, cols, n_cols, threads)
    out = np.empty(len(by_row), by_row.dtype)
    bits = f"u{by_row.dtype.itemsize}"  # kernels know no numbers of 16 bits with a fraction
    _each(threads, kernels.transpose_values, ranges, slots, row_starts, cols, by_row.view(bits), out.view(bits))
    return out


def _slots(
    row_starts: Starts, cols: NDArray[Any], n_cols: int, threads: Threads
) -> tuple[list[Range], list[Starts], Starts]:
    """Ranges of rows, where the first entry of each column goes in each of them, and where columns begin."""
    from accams.kernels import order as kernels

    rows, entries = len(row_starts) - 1, len(cols)
    parts = max(1, min(threads.n_threads, entries // (4 * n_cols + 1), rows))
    inner = np.searchsorted(row_starts, np.linspace(0, entries, parts + 1)[1:-1])
    ranges = [(int(a), int(b)) for a, b in pairwise([0, *inner, rows])]
    counts = [np.zeros(n_cols, np.int64) for _ in ranges]
    _each(threads, kernels.count_columns, ranges, counts, row_starts, cols)
    starts = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0, dtype=np.int64))])
    first, slots = starts[:-1], list[Starts]()
    for each in counts:
        slots.append(first)
        first = first + each
    return ranges, [each.copy() for each in slots], starts


def _each(threads: Threads, kernel: Any, ranges: list[Range], own: list[Starts], *args: Any) -> None:
    """Call ``kernel(lo, hi, ...)`` for every range with an array of its own."""
    of = dict(zip(ranges, own, strict=True))
    threads.map(lambda lo, hi: kernel(lo, hi, of[lo, hi], *args), ranges)
