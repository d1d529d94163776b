"""Sums over the residual on a GPU, piece by piece as passes write them, and added up per row.

Most rows (or columns) are a single piece, whose sums are used in place; those of rows that were cut are added up first.
"""

from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numba import cuda, int64

from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.jit import kernel, part
from accams.engine.cuda.layout import NOBODY, SliceLayout
from accams.kernels.sparse import HALF


class PieceSums(NamedTuple):
    """Sums of one axis by k clusters of the other.

    `parts` is (1, k, lane), count and sum of a piece in one word; or (2, k, lane), its weight and its sum. Lanes are
    last, so that the threads of a warp write neighbouring words. `n` and `l` are (k, row): the sums of rows that were
    cut, in the order of the layout.
    """

    parts: Array
    n: Array
    l: Array

    @classmethod
    def empty(cls, layout: SliceLayout, k: int, heavy: bool, stream: Stream) -> Self:
        """Allocate the sums of an axis; `heavy`: with weights."""
        n_cut = len(layout.order) - len(layout.alone)
        n, l = stream.zeros((k, n_cut), np.int64), stream.zeros((k, n_cut), np.int64)
        return cls(stream.zeros((2 if heavy else 1, k, len(layout.owners)), np.int64), n, l)

    @property
    def heavy(self) -> bool:
        return bool(self.parts.shape[0] == 2)

    @property
    def k(self) -> int:
        return int(self.parts.shape[1])


@part
def unpacked(word):
    """Split a word into count (the upper 20 bits) and sum (the lower 44, signed).

    A piece has at most 512 residuals of 32 bits, so |sum| < 2**43; adding HALF undoes the borrow of a negative sum.
    """
    count = (word + HALF) >> 44
    return count, word - (count << 44)


def threads_per_row(layout: SliceLayout, most: int) -> int:
    """Return the threads per row for adding up pieces: a power of two, at most the mean number of pieces."""
    pieces = len(layout.cut_lanes) // max(1, len(layout.cut_starts) - 1)
    return min(32, most, 1 << max(0, pieces.bit_length() - 1))


@cache
def add_up_kernel(threads: int, together: int, heavy: bool) -> Any:
    """Return a kernel that adds up the pieces of cut rows, `together` threads per row; the grid's y is the cluster."""

    @part
    def piece(lanes, parts, b, p, last):
        """Return mass and sum of a piece, or zeros beyond the last."""
        if p >= last:
            return np.int64(0), np.int64(0)
        lane = np.int64(lanes[p])
        if heavy:
            return parts[0, b, lane], parts[1, b, lane]
        return unpacked(parts[0, b, lane])

    @kernel
    def add_up(starts, lanes, parts, n, l):
        masses = cuda.shared.array(threads, int64)
        totals = cuda.shared.array(threads, int64)
        me, b = cuda.threadIdx.x, cuda.blockIdx.y
        rank, row = me % together, cuda.blockIdx.x * (threads // together) + me // together
        mass, total = np.int64(0), np.int64(0)
        if row < n.shape[1]:
            last = starts[row + 1]
            for p in range(starts[row] + rank, last, 4 * together):  # four independent loads in flight
                m0, t0 = piece(lanes, parts, b, p, last)
                m1, t1 = piece(lanes, parts, b, p + together, last)
                m2, t2 = piece(lanes, parts, b, p + 2 * together, last)
                m3, t3 = piece(lanes, parts, b, p + 3 * together, last)
                mass += m0 + m1 + m2 + m3
                total += t0 + t1 + t2 + t3
        masses[me], totals[me] = mass, total
        half = together // 2  # tree reduction within the threads of a row
        while half:
            cuda.syncthreads()
            if rank < half:
                masses[me] += masses[me + half]
                totals[me] += totals[me + half]
            half //= 2
        if row < n.shape[1] and rank == 0:
            n[b, row], l[b, row] = masses[me], totals[me]

    return add_up


@kernel
def take(rows, spots, alone, parts, n, l, out_n, out_l):
    """Copy the sums of some rows, a line for each."""
    k = parts.shape[1]
    for c in range(cuda.grid(1), rows.size * k, cuda.gridsize(1)):
        b, spot = c % k, spots[rows[c // k]]
        mass, total = np.int64(0), np.int64(0)
        if spot >= alone.size:
            mass, total = n[b, spot - alone.size], l[b, spot - alone.size]
        elif alone[spot] != NOBODY:
            mass = parts[0, b, alone[spot]]
            if parts.shape[0] == 2:
                total = parts[1, b, alone[spot]]
            else:
                mass, total = unpacked(mass)
        out_n[c // k, b], out_l[c // k, b] = mass, total
