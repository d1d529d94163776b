"""Passes over the data on a GPU, compiled for each number of clusters and each kind of data.

Rows here are rows or columns, whichever axis is updated. All sums are integers, so the order of threads cannot change a
bit. Threads communicate only through shared memory (no warp intrinsics), so the same code runs in the simulator.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, int32, int64, uint16, uint32

from accams.engine.cuda.jit import fitted, on_device, part
from accams.engine.cuda.layout import NOBODY, WARP
from accams.kernels import sample
from accams.kernels.sparse import ONE

# A partner's code holds its labels in three stencils: bits 0-4 in the one that is summed by, bits 5-9 and 10-14 in up
# to two that are added to the residual on the way. Three 5-bit labels fit into 16 bits, so a tile of 65,536 partners
# takes 128 KB of shared memory; hence at most 32 clusters a side.
CODE_BITS = 5
MAX_LABELS = 1 << CODE_BITS
LARGEST = MAX_LABELS * MAX_LABELS  # entries of a template
FIELD = np.uint32(MAX_LABELS - 1)
SECOND, THIRD = np.uint32(CODE_BITS), np.uint32(2 * CODE_BITS)
AHEAD = 8  # entries read before the first is used, to hide the latency of global memory
KAPPA, SPREAD, SCALE, CONCENTRATION = 0, 1, 2, 3  # places of a visit's numbers; CONCENTRATION + axis
WEIGHTS, LABELS, TEMPLATE = 0, 2, 4  # places of an update's keys, two words each

mixed = on_device(sample.mixed)
uniform = on_device(sample.uniform, mixed=mixed)


def gather_bytes(k: int, threads: int, tile: int, weighted: bool) -> int:
    """Return the shared memory of a block of `gather`: its sums, and the codes of a tile."""
    return 8 * k * threads * (2 if weighted else 1) + 2 * tile


@cache
def gather_kernel(
    k: int, axis: int, threads: int, shifts: int, *, dense: bool = False, weighted: bool = False,
    partnered: bool = False,
) -> Any:  # fmt: skip
    """Return a pass that adds `shifts` stencils to the residual and sums it by the partners' k clusters in a slot.

    `dense`: partners are consecutive, so there is no index; `weighted`: every observation has a weight; `partnered`:
    every partner has one. The sums of each thread's piece go into `parts` (see `accams.engine.cuda.sums`): without
    weights, sum and count share a 64-bit word, as in `accams.kernels.sparse`.
    Templates have the rows of the matrix first, so they are read transposed along axis 1. With k = 0 nothing is summed.
    """
    WARPS = threads // WARP
    HEAVY = k > 0 and (weighted or partnered)
    TID_STEP = np.uint32(threads)
    SUMS = np.uint32(k * threads)
    # Dynamic shared memory is one buffer: 64-bit sums first (bins[b * threads + me], so that the threads of a warp
    # touch neighbouring banks), then the tile's 16-bit codes, which therefore begin at this 16-bit word.
    CODES = np.uint32(4 * k * threads * (2 if HEAVY else 1))
    STEP = np.uint64(WARP)  # entry e of a lane's piece is at start + 32 e + lane: the reads of a warp coalesce

    @part
    def fill(templates, T, slot, sign, k_own, k_other, thread):
        for c in range(thread, k_own * k_other, threads):
            a, b = c // k_other, c % k_other
            templates[c] = sign * (T[slot, a, b] if axis == 0 else T[slot, b, a])

    @part
    def add(bins, code, x, w, me):
        bin = (code if shifts == 0 else code & FIELD) * TID_STEP + me
        if HEAVY:
            bins[bin] += w
            bins[SUMS + bin] += w * x
        elif k > 0:
            bins[bin] += ONE + x

    @part
    def shifted(x, code, templates_a, templates_b, row_a, row_b):
        if shifts > 0:
            x += templates_a[row_a + ((code >> SECOND) & FIELD)]
        if shifts > 1:
            x += templates_b[row_b + (code >> THIRD)]
        return x

    @part
    def weight(weights, place, partner_weights, partner):
        w = np.int64(1)
        if weighted:
            w *= weights[place]
        if partnered:
            w *= partner_weights[partner]
        return w

    def batch(cut: bool) -> Any:
        """Return a function for AHEAD entries of a piece, or (`cut`) for the fewer that are left.

        Only without a guard can the compiler issue all loads before the first use; hence two versions.
        """

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
            if not HEAVY:  # apart: the compiler moves no read of `codes` across a write to `bins`
                for u in range(AHEAD):
                    if not cut or u < left:
                        add(bins, code[u], x[u], np.int64(1), me)

        return work

    whole_batch, last_batch = batch(False), batch(True)

    @fitted(threads)
    def gather(starts, slices, tiles, slice_starts, owners, lengths, places, index, first, resid, weights, tile, own,
               other, T, slot, slot_a, sign_a, own_a, other_a, slot_b, sign_b, own_b, other_b, partner_weights,
               parts):  # fmt: skip
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
        # Every thread owns its bins and its lane of `parts`, so no atomics are needed and no order matters.
        warp = cuda.blockIdx.x * WARPS + thread // WARP
        for q in range(starts[warp], starts[warp + 1]):
            s = np.int64(slices[q])
            lane = s * WARP + thread % WARP
            i = owners[lane]
            if i == NOBODY:
                continue
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
                parts[0, b, lane] = bins[bin]
                bins[bin] = 0
                if HEAVY:
                    parts[1, b, lane] = bins[SUMS + bin]
                    bins[SUMS + bin] = 0

    return gather
