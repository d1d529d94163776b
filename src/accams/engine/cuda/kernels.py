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
from numba import config, cuda, float64, int32, int64, uint16, uint32

from accams.engine.cuda.layout import NOBODY, WARP
from accams.kernels import sample
from accams.kernels.sparse import HALF, ONE

CODE_BITS = 5  # of a label in a code: three labels in 16 bits
MAX_LABELS = 1 << CODE_BITS
LARGEST = MAX_LABELS * MAX_LABELS  # entries of a template
FIELD = np.uint32(MAX_LABELS - 1)
SECOND, THIRD = np.uint32(CODE_BITS), np.uint32(2 * CODE_BITS)
AHEAD = 8  # entries
KAPPA, SPREAD, SCALE, CONCENTRATION = 0, 1, 2, 3  # numbers of a visit, the last for rows and for columns
WEIGHTS, LABELS, TEMPLATE = 0, 2, 4  # keys of an update, two words each

How = Literal["keep", "nearest", "draw"]


def on_device(function: Any, **replaced: Any) -> Any:
    """A CPU kernel's function for the device, calling these instead of the functions it names."""
    plain = function.py_func
    names = {**plain.__globals__, **replaced}
    return cuda.jit(device=True)(FunctionType(plain.__code__, names, plain.__name__))


mixed = on_device(sample.mixed)
uniform = on_device(sample.uniform, mixed=mixed)


def compiled(threads: int, together: int = 1024) -> Any:
    """Compile a kernel for blocks of so many threads, as many of which find room on a multiprocessor together.

    Without being told, the compiler leaves room for more, and so for less that is read ahead, or for fewer. Most of
    the multiprocessor's fast memory is to be shared memory.
    """
    if config.ENABLE_CUDASIM:
        return cuda.jit
    return cuda.jit(launch_bounds=(threads, max(1, together // threads)), shared_memory_carveout="maxshared")


def gather_bytes(k: int, threads: int, tile: int, weighted: bool) -> int:
    """Shared memory of a block of `gather`: its sums, and the labels of a tile."""
    return 8 * k * threads * (2 if weighted else 1) + 2 * tile


@cache
def gather_kernel(
    k: int, axis: int, threads: int, shifts: int, *, dense: bool = False, weighted: bool = False,
    partnered: bool = False,
) -> Any:  # fmt: skip
    """A pass that adds so many stencils to the residual, and sums it by the partners' k clusters in stencil `slot`.

    `dense`: partners follow each other, so there is no index; `weighted`: every observation has a weight; `partnered`:
    so has every partner. Without weights, sum and count of a piece share a 64-bit word, as in `accams.kernels.sparse`.
    Templates have the rows of the matrix first, so they are read the other way round along axis 1. Entries are read
    AHEAD at a time before anything is done with them, since memory is far. With k = 0 nothing is summed.
    """
    WARPS = threads // WARP
    HEAVY = k > 0 and (weighted or partnered)
    TID_STEP = np.uint32(threads)
    SUMS = np.uint32(k * threads)
    CODES = np.uint32(4 * k * threads * (2 if HEAVY else 1))  # where they begin, in 16-bit words
    STEP = np.uint64(WARP)

    @cuda.jit(device=True)
    def fill(templates, T, slot, sign, k_own, k_other, thread):
        for c in range(thread, k_own * k_other, threads):
            a, b = c // k_other, c % k_other
            templates[c] = sign * (T[slot, a, b] if axis == 0 else T[slot, b, a])

    @cuda.jit(device=True)
    def add(bins, code, x, w, me):
        bin = (code if shifts == 0 else code & FIELD) * TID_STEP + me
        if HEAVY:
            bins[bin] += w
            bins[SUMS + bin] += w * x
        elif k > 0:
            bins[bin] += ONE + x

    @cuda.jit(device=True)
    def shifted(x, code, templates_a, templates_b, row_a, row_b):
        if shifts > 0:
            x += templates_a[row_a + ((code >> SECOND) & FIELD)]
        if shifts > 1:
            x += templates_b[row_b + (code >> THIRD)]
        return x

    @cuda.jit(device=True)
    def weight(weights, place, partner_weights, partner):
        w = np.int64(1)
        if weighted:
            w *= weights[place]
        if partnered:
            w *= partner_weights[partner]
        return w

    def batch(cut: bool) -> Any:
        """AHEAD entries of a piece, or what is left of it: without a guard all of them are read before one is used."""

        @cuda.jit(device=True, inline="always")
        def work(left, place, partner, base, index, resid, weights, partner_weights, codes, bins, templates_a,
                 templates_b, row_a, row_b, me, code, x):  # fmt: skip
            for u in range(AHEAD):
                if not cut or u < left:
                    code[u] = partner + np.uint32(u) if dense else np.uint32(index[place + np.uint64(u) * STEP])
                    x[u] = resid[place + np.uint64(u) * STEP]
            for u in range(AHEAD):
                if not cut or u < left:
                    w = np.int64(1)
                    if HEAVY:
                        w = weight(weights, place + np.uint64(u) * STEP, partner_weights, base + code[u])
                    code[u] = codes[CODES + code[u]]
                    if shifts > 0:
                        x[u] = shifted(x[u], code[u], templates_a, templates_b, row_a, row_b)
                        resid[place + np.uint64(u) * STEP] = x[u]
                    if HEAVY:
                        add(bins, code[u], x[u], w, me)
            if not HEAVY:
                for u in range(AHEAD):
                    if not cut or u < left:
                        add(bins, code[u], x[u], np.int64(1), me)

        return work

    whole_batch, last_batch = batch(False), batch(True)

    @compiled(threads)
    def gather(starts, slices, tiles, slice_starts, owners, lengths, spots, places, n_whole, index, first, resid,
               weights, tile, own, other, T, slot, slot_a, sign_a, own_a, other_a, slot_b, sign_b, own_b, other_b,
               partner_weights, n, l):  # fmt: skip
        templates_a = cuda.shared.array(LARGEST, int32)
        templates_b = cuda.shared.array(LARGEST, int32)
        bins = cuda.shared.array(0, int64)
        codes = cuda.shared.array(0, uint16)
        code = cuda.local.array(AHEAD, uint32)
        x = cuda.local.array(AHEAD, int32)
        thread = cuda.threadIdx.x
        base = np.int64(tiles[cuda.blockIdx.x]) * tile
        for j in range(thread, min(tile, other.shape[1] - base), threads):
            packed = np.uint32(other[slot, base + j]) if k > 0 else np.uint32(0)
            if shifts > 0:
                packed |= np.uint32(other[slot_a, base + j]) << SECOND
            if shifts > 1:
                packed |= np.uint32(other[slot_b, base + j]) << THIRD
            codes[CODES + np.uint32(j)] = packed
        if shifts > 0:
            fill(templates_a, T, slot_a, sign_a, own_a, other_a, thread)
        if shifts > 1:
            fill(templates_b, T, slot_b, sign_b, own_b, other_b, thread)
        me = np.uint32(thread)
        for b in range(k):
            bins[np.uint32(b) * TID_STEP + me] = 0
            if HEAVY:
                bins[SUMS + np.uint32(b) * TID_STEP + me] = 0
        cuda.syncthreads()
        warp = cuda.blockIdx.x * WARPS + thread // WARP
        for q in range(starts[warp], starts[warp + 1]):
            s = np.int64(slices[q])
            lane = s * WARP + thread % WARP
            i = owners[lane]
            if i == NOBODY:
                continue
            spot = spots[i]
            alone = spot < n_whole
            row_a = np.uint32(own[slot_a, i]) * np.uint32(other_a) if shifts > 0 else np.uint32(0)
            row_b = np.uint32(own[slot_b, i]) * np.uint32(other_b) if shifts > 1 else np.uint32(0)
            place = np.uint64(slice_starts[s] - first + thread % WARP)
            partner = np.uint32(places[lane]) if dense else np.uint32(0)
            left = lengths[lane]
            while left >= AHEAD:
                whole_batch(left, place, partner, base, index, resid, weights, partner_weights, codes, bins,
                            templates_a, templates_b, row_a, row_b, me, code, x)  # fmt: skip
                place += np.uint64(AHEAD) * STEP
                partner += np.uint32(AHEAD)
                left -= AHEAD
            if left > 0:
                last_batch(left, place, partner, base, index, resid, weights, partner_weights, codes, bins,
                           templates_a, templates_b, row_a, row_b, me, code, x)  # fmt: skip
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
                    n[b, spot] = count
                    l[b, spot] = total
                elif count != 0:
                    cuda.atomic.add(n, (b, spot), count)
                    cuda.atomic.add(l, (b, spot), total)

    return gather


@cuda.jit
def clear(first, n, l):
    """Set the sums from a place on to zero."""
    width = n.shape[1] - first
    for c in range(cuda.grid(1), width * n.shape[0], cuda.gridsize(1)):
        n[c // width, first + c % width] = 0
        l[c // width, first + c % width] = 0


def label_bytes(k: tuple[int, int], threads: int) -> int:
    """Shared memory of a block of `label`: the sums of its rows, and its tables."""
    return 8 * (2 * k[1] * (threads | 1) + 2 * k[0] * k[1])


def label_threads(k: tuple[int, int]) -> int:
    """Threads of `label` that find room on a multiprocessor, with the registers that they take."""
    return 640 if max(k) <= 16 else 256


@cache
def label_kernel(
    how: How, k: tuple[int, int], axis: int, threads: int, *, row_weighted: bool = False, uniform_rows: bool = False
) -> Any:
    """Labels of all rows by a rule, and the tables of the blocks.

    `k` has the clusters of the rows first. "nearest": the cheapest label, prices[a] + sum_b scale n T^2 - 2 l T;
    "draw": one drawn with log p(a) = prices[a] - scale / 2 sum_b (n T^2 - 2 l T); "keep": the one it has. T is the
    template in ticks, rows of the matrix first, so it is read the other way round along axis 1. The scale and the key
    of random numbers are in a line of what was sent (`accams.engine.cuda.sheet`). `uniform_rows`: all rows have the
    same n; then costs are added up in the order in which the CPU does it. `order`: the row of each sum. `tables` are
    added to: N, L, rows of each label, labels that changed.

    A block does as many rows as it has threads at a time, sorts them by label, and then each thread adds up those of
    one label for one cluster of the partners.
    """
    K_OWN, K_OTHER = k
    CELLS, TOLD = K_OWN * K_OTHER, K_OWN + 1
    STRIDE = threads | 1  # of sums in shared memory: odd, so that neighbours lie in different banks
    L_ROWS, N_TABLE = K_OTHER * STRIDE, 2 * K_OTHER * STRIDE  # where in shared memory: sums of residuals, tables
    L_TABLE = N_TABLE + CELLS
    OWN_STEP, OTHER_STEP = (K_OTHER, 1) if axis == 0 else (1, K_OWN)  # of tables in global memory

    @cuda.jit(device=True)
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

    @cuda.jit(device=True)
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

    @cuda.jit(device=True)
    def before(sizes, a):
        total = 0
        for other in range(a):
            total += sizes[other]
        return total

    @compiled(threads, label_threads(k))
    def label(n, l, order, row_weights, templates, from_slot, prices, numbers, keys, line, turn, labels, slot, tables):
        shared = cuda.shared.array(0, int64)
        T = cuda.shared.array((K_OTHER, K_OWN), float64)
        sizes = cuda.shared.array(K_OWN, int32)  # rows of each label, of those that the block is at
        sorted_rows = cuda.shared.array(threads, int32)
        heavy = cuda.shared.array(threads, int64)
        counts = cuda.shared.array(TOLD, int32)  # of all that the block did, and labels that changed
        odds = cuda.local.array(K_OWN, float64)
        me = cuda.threadIdx.x
        for c in range(me, CELLS, threads):
            a, b = c // K_OTHER, c % K_OTHER
            T[b, a] = templates[from_slot, a, b] if axis == 0 else templates[from_slot, b, a]
        for c in range(N_TABLE + me, N_TABLE + 2 * CELLS, threads):
            shared[c] = 0
        for a in range(me, TOLD, threads):
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
                for b in range(K_OTHER):
                    shared[b * STRIDE + me] = n[b, spot]
                    shared[L_ROWS + b * STRIDE + me] = l[b, spot]
                new = np.int64(labels[slot, i])
                mine = scale
                if row_weighted:
                    heavy[me] = row_weights[i]
                    mine = scale * row_weights[i]
                if how == "nearest":
                    new = cheapest(me, T, scale, prices, odds, shared)
                if how == "draw":
                    new = drawn(me, T, mine, prices, odds, shared, key0, key1, i)
                if new != labels[slot, i]:
                    labels[slot, i] = new
                    cuda.atomic.add(counts, K_OWN, 1)
                rank = cuda.atomic.add(sizes, new, 1)
            cuda.syncthreads()
            if spot < rows:
                sorted_rows[before(sizes, new) + rank] = me
            cuda.syncthreads()
            for c in range(me, CELLS, threads):
                a, b = c // K_OTHER, c % K_OTHER
                first, mass, total = before(sizes, a), np.int64(0), np.int64(0)
                for p in range(first, first + sizes[a]):
                    r = sorted_rows[p]
                    w = heavy[r] if row_weighted else np.int64(1)
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
        for a in range(me, TOLD, threads):
            cuda.atomic.add(tables, 2 * CELLS + a, np.int64(counts[a]))

    return label
