"""Kernels for GPUs, made for the numbers of clusters and the kind of data that they are to serve.

`gather` adds stencils to the residual and sums it by the partners' labels; `label` turns sums into labels and block
tables. Rows here are rows or columns: whichever axis is updated. Everything that is added up is a whole number, so that
no order of threads can change a bit. No thread asks its neighbours for anything but through shared memory, so
the same code runs in the simulator.
"""

from __future__ import annotations

from functools import cache
from math import exp
from types import FunctionType
from typing import Any, Literal

import numpy as np
from numba import cuda, float64, int32, int64, uint16

from accams.engine.cuda.layout import NOBODY, WARP
from accams.kernels import sample
from accams.kernels.sparse import HALF, ONE

CODE_BITS = 5  # of a label in a code: three labels in 16 bits
MAX_LABELS = 1 << CODE_BITS
FIELD = np.uint32(MAX_LABELS - 1)
SECOND, THIRD = np.uint32(CODE_BITS), np.uint32(2 * CODE_BITS)

How = Literal["keep", "nearest", "draw"]


def on_device(function: Any, **replaced: Any) -> Any:
    """A CPU kernel's function for the device, calling these instead of the functions it names."""
    plain = function.py_func
    names = {**plain.__globals__, **replaced}
    return cuda.jit(device=True)(FunctionType(plain.__code__, names, plain.__name__))


mixed = on_device(sample.mixed)
uniform = on_device(sample.uniform, mixed=mixed)


def gather_bytes(k: int, threads: int, tile: int, weighted: bool) -> int:
    """Shared memory of a block of `gather`: its sums, and the labels of a tile."""
    return 8 * k * threads * (2 if weighted else 1) + 2 * tile


@cache
def gather_kernel(k: int, axis: int, threads: int, shifts: int, weighted: bool = False, partnered: bool = False) -> Any:
    """A pass that adds so many stencils to the residual, and sums it by the partners' labels.

    `weighted`: every observation has a weight; `partnered`: so has every partner. Without either, sum and count of a
    piece share a 64-bit word, as in `accams.kernels.sparse`. Templates have the rows of the matrix first, so they are
    read the other way round along axis 1.
    """
    TEMPLATES = (2, MAX_LABELS * MAX_LABELS)
    WARPS = threads // WARP
    HEAVY = weighted or partnered
    TID_STEP = np.uint32(threads)
    SUMS = np.uint32(k * threads)
    CODES = np.uint32(4 * k * threads * (2 if HEAVY else 1))  # where they begin, in 16-bit words

    @cuda.jit
    def gather(starts, slices, tiles, slice_starts, owners, lengths, whole, index, resid, weights, tile, labels,
               partner_weights, own_a, other_a, T_a, sign_a, own_b, other_b, T_b, sign_b, n, l):  # fmt: skip
        templates = cuda.shared.array(TEMPLATES, int32)
        bins = cuda.shared.array(0, int64)
        codes = cuda.shared.array(0, uint16)
        thread = cuda.threadIdx.x
        base = np.int64(tiles[cuda.blockIdx.x]) * tile
        for j in range(thread, min(tile, labels.size - base), threads):
            code = np.uint32(labels[base + j])
            if shifts > 0:
                code |= np.uint32(other_a[base + j]) << SECOND
            if shifts > 1:
                code |= np.uint32(other_b[base + j]) << THIRD
            codes[CODES + np.uint32(j)] = code
        if shifts > 0:
            for c in range(thread, T_a.size, threads):
                a, b = c // T_a.shape[1 - axis], c % T_a.shape[1 - axis]
                templates[0, c] = sign_a * (T_a[a, b] if axis == 0 else T_a[b, a])
        if shifts > 1:
            for c in range(thread, T_b.size, threads):
                a, b = c // T_b.shape[1 - axis], c % T_b.shape[1 - axis]
                templates[1, c] = sign_b * (T_b[a, b] if axis == 0 else T_b[b, a])
        me = np.uint32(thread)
        for b in range(k):
            bins[np.uint32(b) * TID_STEP + me] = 0
            if HEAVY:
                bins[SUMS + np.uint32(b) * TID_STEP + me] = 0
        cuda.syncthreads()
        step_a = np.uint32(T_a.shape[1 - axis]) if shifts > 0 else np.uint32(0)
        step_b = np.uint32(T_b.shape[1 - axis]) if shifts > 1 else np.uint32(0)
        warp = cuda.blockIdx.x * WARPS + thread // WARP
        for q in range(starts[warp], starts[warp + 1]):
            s = np.int64(slices[q])
            slot = s * WARP + thread % WARP
            i = owners[slot]
            if i == NOBODY:
                continue
            row_a = np.uint32(own_a[i]) * step_a if shifts > 0 else np.uint32(0)
            row_b = np.uint32(own_b[i]) * step_b if shifts > 1 else np.uint32(0)
            place = np.uint64(slice_starts[s] + thread % WARP)
            for _ in range(lengths[slot]):
                partner = np.uint32(index[place])
                code = np.uint32(codes[CODES + partner])
                x = resid[place]
                if shifts > 0:
                    x += templates[0, row_a + ((code >> SECOND) & FIELD)]
                if shifts > 1:
                    x += templates[1, row_b + (code >> THIRD)]
                if shifts > 0:
                    resid[place] = x
                bin = (code if shifts == 0 else code & FIELD) * TID_STEP + me
                if HEAVY:
                    w = np.int64(1)
                    if weighted:
                        w *= weights[place]
                    if partnered:
                        w *= partner_weights[base + partner]
                    bins[bin] += w
                    bins[SUMS + bin] += w * x
                else:
                    bins[bin] += ONE + x
                place += np.uint64(WARP)
            alone = whole[i]
            for b in range(k):
                bin = np.uint32(b) * TID_STEP + me
                count, total = bins[bin], np.int64(0)
                bins[bin] = 0
                if HEAVY:
                    total = bins[SUMS + bin]
                    bins[SUMS + bin] = 0
                else:
                    both = count
                    count = (both + HALF) >> 44
                    total = both - (count << 44)
                if alone:
                    n[i, b] = count
                    l[i, b] = total
                else:
                    cuda.atomic.add(n, (i, b), count)
                    cuda.atomic.add(l, (i, b), total)

    return gather


@cuda.jit
def clear(rows, n, l):
    """Set the sums of these rows to zero."""
    k = n.shape[1]
    for c in range(cuda.grid(1), rows.size * k, cuda.gridsize(1)):
        n[rows[c // k], c % k] = 0
        l[rows[c // k], c % k] = 0


def label_bytes(k: tuple[int, int], threads: int) -> int:
    """Shared memory of a block of `label`: the sums of its rows, and its tables."""
    return 8 * (2 * threads * k[1] + 2 * k[0] * k[1] + k[0] + 1)


@cache
def label_kernel(how: How, k: tuple[int, int], axis: int, threads: int, row_weighted: bool = False) -> Any:
    """Labels of all rows by a rule, and the tables of the blocks: N, L, rows of each label, labels that changed.

    `k` has the clusters of the rows first. "nearest": the cheapest label, prices[a] + sum_b curvature n T^2 - 2 l T;
    "draw": one drawn with log p(a) = prices[a] - curvature / 2 sum_b (n T^2 - 2 l T); "keep": the one it has. T is the
    template in ticks, rows of the matrix first, so it is read the other way round along axis 1.
    """
    K_OWN, K_OTHER = k
    CELLS = K_OWN * K_OTHER
    L_ROWS = threads * K_OTHER  # where in shared memory: sums of residuals, tables, counts, changes
    N_TABLE, L_TABLE = 2 * L_ROWS, 2 * L_ROWS + CELLS
    COUNTS, MOVED = L_TABLE + CELLS, L_TABLE + CELLS + K_OWN

    @cuda.jit(device=True)
    def cheapest(mine, T, curvature, prices, shared):
        best, lowest = 0, np.inf
        for a in range(K_OWN):
            cost = prices[a]
            for b in range(K_OTHER):
                t = T[a, b]
                cost += t * (curvature * shared[mine + b] * t - 2.0 * shared[L_ROWS + mine + b])
            if cost < lowest:
                best, lowest = a, cost
        return best

    @cuda.jit(device=True)
    def drawn(mine, T, scale, prices, odds, shared, key0, key1, i):
        highest = -np.inf
        for a in range(K_OWN):
            odds[a] = prices[a]
        for b in range(K_OTHER):
            m, s = -0.5 * scale * shared[mine + b], scale * shared[L_ROWS + mine + b]
            for a in range(K_OWN):
                odds[a] += T[a, b] * (m * T[a, b] + s)
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

    @cuda.jit
    def label(n, l, row_weights, template, curvature, prices, key0, key1, labels, N, L, counts, moved):
        shared = cuda.shared.array(0, int64)
        T = cuda.shared.array(k, float64)
        chosen = cuda.shared.array(threads, int32)
        heavy = cuda.shared.array(threads, int64)
        odds = cuda.local.array(K_OWN, float64)
        thread = cuda.threadIdx.x
        for c in range(thread, CELLS, threads):
            a, b = c // K_OTHER, c % K_OTHER
            T[a, b] = template[a, b] if axis == 0 else template[b, a]
        for c in range(N_TABLE + thread, MOVED + 1, threads):
            shared[c] = 0
        rows = labels.size
        for start in range(cuda.blockIdx.x * threads, rows, cuda.gridDim.x * threads):
            width = min(threads, rows - start)
            cuda.syncthreads()
            for c in range(thread, width * K_OTHER, threads):
                shared[c] = n[start + c // K_OTHER, c % K_OTHER]
                shared[L_ROWS + c] = l[start + c // K_OTHER, c % K_OTHER]
            cuda.syncthreads()
            i = start + thread
            if i < rows:
                new = np.int64(labels[i])
                scale = curvature
                if row_weighted:
                    heavy[thread] = row_weights[i]
                    scale = curvature * row_weights[i]
                if how == "nearest":
                    new = cheapest(thread * K_OTHER, T, curvature, prices, shared)
                if how == "draw":
                    new = drawn(thread * K_OTHER, T, scale, prices, odds, shared, key0, key1, i)
                if new != labels[i]:
                    labels[i] = new
                    cuda.atomic.add(shared, MOVED, 1)
                chosen[thread] = new
                cuda.atomic.add(shared, COUNTS + new, 1)
            cuda.syncthreads()
            for c in range(thread, CELLS, threads):
                a, b = c // K_OTHER, c % K_OTHER
                mass, total = np.int64(0), np.int64(0)
                for r in range(width):
                    if chosen[r] == a:
                        w = heavy[r] if row_weighted else np.int64(1)
                        mass += w * shared[r * K_OTHER + b]
                        total += w * shared[L_ROWS + r * K_OTHER + b]
                shared[N_TABLE + c] += mass
                shared[L_TABLE + c] += total
        cuda.syncthreads()
        for c in range(thread, CELLS, threads):
            a, b = c // K_OTHER, c % K_OTHER
            cuda.atomic.add(N, (a, b) if axis == 0 else (b, a), shared[N_TABLE + c])
            cuda.atomic.add(L, (a, b) if axis == 0 else (b, a), shared[L_TABLE + c])
        for a in range(thread, K_OWN, threads):
            cuda.atomic.add(counts, a, shared[COUNTS + a])
        if thread == 0:
            cuda.atomic.add(moved, 0, shared[MOVED])

    return label
