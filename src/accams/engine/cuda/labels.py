"""From sums to labels and block tables on a GPU. Rows here are rows or columns, whichever axis is updated."""

from functools import cache
from math import exp
from typing import Any, Literal

import numpy as np
from numba import cuda, float64, int32, int64

from accams.engine.cuda.jit import fitted, part
from accams.engine.cuda.kernels import LABELS, SCALE, uniform
from accams.engine.cuda.layout import NOBODY
from accams.engine.cuda.sums import unpacked

How = Literal["keep", "nearest", "draw"]


def label_bytes(k: tuple[int, int], threads: int) -> int:
    """Return the shared memory of a block of `label`: the sums of its rows, and its tables."""
    return 8 * (2 * k[1] * (threads | 1) + 2 * k[0] * k[1])


def label_threads(k: tuple[int, int]) -> int:
    """Return the threads of `label` that fit on a multiprocessor, given the registers that they need."""
    return 640 if max(k) <= 16 else 256


@cache
def label_kernel(
    how: How, k: tuple[int, int], axis: int, threads: int, *, row_weighted: bool = False, uniform_rows: bool = False,
    heavy: bool = False,
) -> Any:  # fmt: skip
    """Return a kernel that labels all rows by a rule and adds them to the tables of the blocks.

    `k` has the clusters of the rows first. "nearest": the cheapest label, prices[a] + sum_b scale n T^2 - 2 l T;
    "draw": one drawn with log p(a) = prices[a] - scale / 2 sum_b (n T^2 - 2 l T); "keep": the present one. T is the
    template in ticks, rows of the matrix first, so it is read transposed along axis 1. The scale and the key of random
    numbers are read from a line of `accams.engine.cuda.buffers`. `uniform_rows`: all rows have the same n; then
    costs are summed in the CPU's order, so that they round alike. `heavy`: sums have weights. `tables` are
    incremented: N, L, rows of each label, labels that changed.

    A block takes as many rows at a time as it has threads and sorts them by label (a counting sort in shared memory);
    then each thread adds up one block of the tables, so that only the totals of a whole block of threads need atomics.
    """
    K_OWN, K_OTHER = k
    CELLS, COUNTS = K_OWN * K_OTHER, K_OWN + 1  # counts of labels, then of labels that changed
    STRIDE = threads | 1  # of sums in shared memory: odd, so that a row's sums by neighbours are in different banks
    L_ROWS, N_TABLE = K_OTHER * STRIDE, 2 * K_OTHER * STRIDE  # offsets in shared memory
    L_TABLE = N_TABLE + CELLS
    OWN_STEP, OTHER_STEP = (K_OTHER, 1) if axis == 0 else (1, K_OWN)  # strides of the tables in global memory

    @part
    def cheapest(me, T, scale, prices, costs, shared):
        for a in range(K_OWN):
            costs[a] = prices[a]
        for b in range(K_OTHER):
            n, l = shared[b * STRIDE + me], 2.0 * shared[L_ROWS + b * STRIDE + me]
            for a in range(K_OWN):
                t = T[b, a]
                costs[a] += scale * n * t * t if uniform_rows else t * (scale * n * t - l)
        if uniform_rows:
            for b in range(K_OTHER):
                l = 2.0 * shared[L_ROWS + b * STRIDE + me]
                for a in range(K_OWN):
                    costs[a] -= T[b, a] * l
        best, lowest = 0, np.inf
        for a in range(K_OWN):
            if costs[a] < lowest:
                best, lowest = a, costs[a]
        return best

    @part
    def drawn(me, T, scale, prices, odds, shared, key0, key1, i):
        highest = -np.inf
        for a in range(K_OWN):
            odds[a] = prices[a]
        for b in range(K_OTHER):
            m, s = -0.5 * scale * shared[b * STRIDE + me], scale * shared[L_ROWS + b * STRIDE + me]
            for a in range(K_OWN):
                odds[a] += T[b, a] * (m * T[b, a] + s)
        for a in range(K_OWN):
            highest = max(highest, odds[a])
        total = 0.0
        for a in range(K_OWN):
            total += exp(odds[a] - highest)
            odds[a] = total
        total *= uniform(key0, key1, i)
        new = 0
        for a in range(K_OWN - 1):
            if odds[a] <= total:
                new += 1
        return new

    @part
    def read(parts, n, l, alone, spot, me, shared):
        if spot >= alone.size:
            for b in range(K_OTHER):
                shared[b * STRIDE + me] = n[b, spot - alone.size]
                shared[L_ROWS + b * STRIDE + me] = l[b, spot - alone.size]
            return
        lane = np.int64(alone[spot])
        for b in range(K_OTHER):
            mass, total = np.int64(0), np.int64(0)
            if lane != NOBODY:
                mass = parts[0, b, lane]
                if heavy:
                    total = parts[1, b, lane]
                else:
                    mass, total = unpacked(mass)
            shared[b * STRIDE + me] = mass
            shared[L_ROWS + b * STRIDE + me] = total

    @part
    def before(sizes, a):  # rows with a smaller label
        total = 0
        for other in range(a):
            total += sizes[other]
        return total

    @fitted(threads, label_threads(k))
    def label(parts, n, l, alone, order, row_weights, templates, from_slot, prices, numbers, keys, line, turn, labels,
              slot, tables):  # fmt: skip
        shared = cuda.shared.array(0, int64)
        T = cuda.shared.array((K_OTHER, K_OWN), float64)
        sizes = cuda.shared.array(K_OWN, int32)  # rows per label in the present batch
        sorted_rows = cuda.shared.array(threads, int32)
        precisions = cuda.shared.array(threads, int64)
        counts = cuda.shared.array(COUNTS, int32)  # rows per label over all batches, and labels that changed
        odds = cuda.local.array(K_OWN, float64)
        me = cuda.threadIdx.x
        for c in range(me, CELLS, threads):
            a, b = c // K_OTHER, c % K_OTHER
            T[b, a] = templates[from_slot, a, b] if axis == 0 else templates[from_slot, b, a]
        for c in range(N_TABLE + me, N_TABLE + 2 * CELLS, threads):
            shared[c] = 0
        for a in range(me, COUNTS, threads):
            counts[a] = 0
        scale, key0, key1 = numbers[line, SCALE], keys[line, turn, LABELS], keys[line, turn, LABELS + 1]
        rows = labels.shape[1]
        for start in range(cuda.blockIdx.x * threads, rows, cuda.gridDim.x * threads):
            cuda.syncthreads()
            for a in range(me, K_OWN, threads):
                sizes[a] = 0
            cuda.syncthreads()
            spot, new, rank = start + me, 0, 0
            if spot < rows:
                i = np.int64(order[spot])
                read(parts, n, l, alone, spot, me, shared)
                new = np.int64(labels[slot, i])
                row_scale = scale
                if row_weighted:
                    precisions[me] = row_weights[i]
                    row_scale = scale * row_weights[i]
                if how == "nearest":
                    new = cheapest(me, T, scale, prices, odds, shared)
                if how == "draw":
                    new = drawn(me, T, row_scale, prices, odds, shared, key0, key1, i)
                if new != labels[slot, i]:
                    labels[slot, i] = new
                    cuda.atomic.add(counts, K_OWN, 1)
                rank = cuda.atomic.add(sizes, new, 1)  # any order will do: integer sums do not depend on it
            cuda.syncthreads()
            if spot < rows:
                sorted_rows[before(sizes, new) + rank] = me
            cuda.syncthreads()
            for c in range(me, CELLS, threads):
                a, b = c // K_OTHER, c % K_OTHER
                first, mass, total = before(sizes, a), np.int64(0), np.int64(0)
                for p in range(first, first + sizes[a]):
                    r = sorted_rows[p]
                    w = precisions[r] if row_weighted else np.int64(1)
                    mass += w * shared[b * STRIDE + r]
                    total += w * shared[L_ROWS + b * STRIDE + r]
                shared[N_TABLE + c] += mass
                shared[L_TABLE + c] += total
            for a in range(me, K_OWN, threads):
                counts[a] += sizes[a]
        cuda.syncthreads()
        for c in range(me, CELLS, threads):
            place = (c // K_OTHER) * OWN_STEP + (c % K_OTHER) * OTHER_STEP
            cuda.atomic.add(tables, place, shared[N_TABLE + c])
            cuda.atomic.add(tables, CELLS + place, shared[L_TABLE + c])
        for a in range(me, COUNTS, threads):
            cuda.atomic.add(tables, 2 * CELLS + a, np.int64(counts[a]))

    return label
