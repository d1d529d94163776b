"""Sums over the residual as passes leave them on a GPU, piece by piece, and what is made of them.

Most rows (here: rows or columns) are one piece: their sums are used as they are. Those of the others, which were cut,
are added up first.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int64

from accams.engine.cuda.device import Array, Stream
from accams.engine.cuda.jit import kernel, part
from accams.engine.cuda.layout import NOBODY, Layout
from accams.kernels.sparse import HALF


class Sums(NamedTuple):
    """Sums of one axis by k clusters of the other.

    Attributes
    ----------
    parts : array
        (1, k, thread): count and sum of a piece in one word; or (2, k, thread), its weight and its sum.
    n, l : arrays
        (k, row): of rows that were cut, in the order of the layout.
    """

    parts: Array
    n: Array
    l: Array

    @classmethod
    def empty(cls, layout: Layout, k: int, heavy: bool, stream: Stream) -> Sums:
        """Room for the sums of an axis; `heavy`: with weights."""
        n_cut = len(layout.order) - len(layout.alone)
        n, l = stream.zeros((k, n_cut), np.int64), stream.zeros((k, n_cut), np.int64)
        return cls(stream.zeros((2 if heavy else 1, k, len(layout.owners)), np.int64), n, l)

    @property
    def heavy(self) -> bool:
        """Whether there are weights."""
        return bool(self.parts.shape[0] == 2)

    @property
    def k(self) -> int:
        """Clusters of the other axis."""
        return int(self.parts.shape[1])


@part
def unpacked(word):
    """Count and sum."""
    count = (word + HALF) >> 44
    return count, word - (count << 44)


def threads_per_row(layout: Layout, most: int) -> int:
    """Threads that add up the pieces of a row: a power of two, twice as many as it has pieces on average or more, so
    that nobody waits long for the longest; 32 at most."""
    pieces = -(-len(layout.cut_lanes) // max(1, len(layout.cut_starts) - 1))
    return min(32, most, 1 << (2 * pieces - 1).bit_length())


def add_up_bytes(k: int, threads: int) -> int:
    """Shared memory of a block of `add_up`."""
    return 16 * k * (threads | 1)


@cache
def add_up_kernel(k: int, threads: int, together: int, heavy: bool) -> Any:
    """Adds up the sums of rows that were cut: `together` threads for each row, in blocks of so many `threads`."""
    ROWS = threads // together
    STRIDE = threads | 1
    L_PARTS = k * STRIDE

    @kernel
    def add_up(starts, lanes, parts, n, l):
        shared = cuda.shared.array(0, int64)
        me = cuda.threadIdx.x
        for b in range(k):
            shared[b * STRIDE + me] = 0
            shared[L_PARTS + b * STRIDE + me] = 0
        first = cuda.blockIdx.x * ROWS
        row = first + me // together
        if row < n.shape[1]:
            for p in range(starts[row] + me % together, starts[row + 1], together):
                lane = np.int64(lanes[p])
                for b in range(k):
                    mass, total = parts[0, b, lane], np.int64(0)
                    if heavy:
                        total = parts[1, b, lane]
                    else:
                        mass, total = unpacked(mass)
                    shared[b * STRIDE + me] += mass
                    shared[L_PARTS + b * STRIDE + me] += total
        cuda.syncthreads()
        for c in range(me, ROWS * k, threads):
            b, r = c // ROWS, c % ROWS
            if first + r < n.shape[1]:
                mass, total = np.int64(0), np.int64(0)
                for other in range(r * together, (r + 1) * together):
                    mass += shared[b * STRIDE + other]
                    total += shared[L_PARTS + b * STRIDE + other]
                n[b, first + r] = mass
                l[b, first + r] = total

    return add_up


@kernel
def take(rows, spots, alone, parts, n, l, out_n, out_l):
    """The sums of some rows, a line for each."""
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
