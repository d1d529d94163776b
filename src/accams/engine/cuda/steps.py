"""Steps between passes, on the device so that it need not wait for Python: templates and weights of clusters.

Random numbers are those of `accams.kernels.sample`: the same functions, compiled for the device. Kernels of one block
work on one stencil; the others use all threads.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64

from accams.engine.cuda.jit import kernel, on_device, part
from accams.engine.cuda.kernels import CONCENTRATION, KAPPA, SPREAD, TEMPLATE, WEIGHTS, mixed, uniform
from accams.engine.cuda.layout import NOBODY, WARP
from accams.kernels import sample
from accams.kernels.sparse import LOW_BITS, LOW_MASK

MOST_THREADS = 128  # of a single block

normal = on_device(sample.normal, uniform=uniform)
gamma = on_device(sample.gamma, mixed=mixed, uniform=uniform)
block_value = on_device(sample.block_value, normal=normal)
log_weight = on_device(sample.log_weight, gamma=gamma, uniform=uniform)


@kernel
def remember(rows, cols, T, slot, old):
    """Copy the labels and the template of one slot into another."""
    for i in range(cuda.grid(1), rows.shape[1], cuda.gridsize(1)):
        rows[old, i] = rows[slot, i]
    for j in range(cuda.grid(1), cols.shape[1], cuda.gridsize(1)):
        cols[old, j] = cols[slot, j]
    width = T.shape[2]
    for c in range(cuda.grid(1), T.shape[1] * width, cuda.gridsize(1)):
        T[old, c // width, c % width] = T[slot, c // width, c % width]


@part
def draw_weights(counts, slot, axis, k, numbers, keys, line, turn, prices):
    """Draw the log weights of the clusters of one axis, given the sizes of the clusters."""
    concentration = numbers[line, CONCENTRATION + axis]
    key0, key1 = keys[line, turn, WEIGHTS], keys[line, turn, WEIGHTS + 1]
    for a in range(cuda.threadIdx.x, k, cuda.blockDim.x):
        prices[a] = log_weight(counts[slot, axis, a], concentration, key0, key1, a)


@kernel
def first_step(counts, slot, axis, k, numbers, keys, line, prices, moved):
    """Draw the weights of clusters before the first update of a visit. One block."""
    draw_weights(counts, slot, axis, k, numbers, keys, line, 0, prices)
    if cuda.threadIdx.x < 2:
        moved[line, cuda.threadIdx.x] = 0


@kernel
def next_step(tables, k_rows, k_cols, axis, T, counts, slot, limit, numbers, keys, line, turn, next_axis, prices, moved,
              gain):  # fmt: skip
    """Draw the template after an update, reset the tables, and draw weights for the next update (unless -1).

    Counts the labels that have changed, and writes the template's reduction of the squared error. One block: its
    phases are ordered by `syncthreads`, and the gain is summed by one thread in a fixed order, since it is a float.
    """
    parts = cuda.shared.array(MOST_THREADS, float64)
    thread, cells = cuda.threadIdx.x, k_rows * k_cols
    kappa, spread = numbers[line, KAPPA], numbers[line, SPREAD]
    key0, key1 = keys[line, turn, TEMPLATE], keys[line, turn, TEMPLATE + 1]
    k = k_rows if axis == 0 else k_cols
    gained = 0.0
    for c in range(thread, cells, cuda.blockDim.x):
        t = block_value(tables[c], tables[cells + c], kappa, spread, limit, key0, key1, c)
        T[slot, c // k_cols, c % k_cols] = t
        gained += t * (2.0 * tables[cells + c] - float(tables[c]) * t)
    parts[thread] = gained
    for a in range(thread, k, cuda.blockDim.x):
        counts[slot, axis, a] = tables[2 * cells + a]
    cuda.syncthreads()
    if thread == 0:
        moved[line, axis] += tables[2 * cells + k]
        total = 0.0
        for other in range(min(cells, cuda.blockDim.x)):
            total += parts[other]
        gain[line] = total
    cuda.syncthreads()
    for c in range(thread, 2 * cells + k + 1, cuda.blockDim.x):
        tables[c] = 0
    if next_axis >= 0:
        k_next = k_rows if next_axis == 0 else k_cols
        draw_weights(counts, slot, next_axis, k_next, numbers, keys, line, turn + 1, prices)


@kernel
def predict(rows, cols, row_labels, col_labels, T, n, out):
    """Sum the first n stencils at these cells, in ticks."""
    for p in range(cuda.grid(1), rows.size, cuda.gridsize(1)):
        total = np.int64(0)
        for l in range(n):
            total += T[l, row_labels[l, rows[p]], col_labels[l, cols[p]]]
        out[p] = total


@kernel
def zero(table):
    """Set a table to zero."""
    k = table.shape[1]
    for c in range(cuda.grid(1), table.shape[0] * k, cuda.gridsize(1)):
        table[c // k, c % k] = 0


@kernel
def joined(parts, out):
    """Join the high and low parts of squares into floats."""
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = float(parts[i, 0]) * 2.0**LOW_BITS + float(parts[i, 1])


@cache
def squares_kernel(weighted: bool) -> Any:
    """Return a kernel that adds to out[i] the (weighted) squared residuals of row i in slices [lo, hi).

    A square has up to 62 bits, so its high and low bits are summed apart lest they overflow, as on the CPU.
    The pieces of a row meet in `out` by atomics: these are integers, so their order does not matter.
    """

    @kernel
    def squares(slice_starts, owners, lengths, first, lo, hi, resid, weights, out):
        for lane in range(lo * WARP + cuda.grid(1), hi * WARP, cuda.gridsize(1)):
            if owners[lane] == NOBODY:
                continue
            place, high, low = slice_starts[lane // WARP] - first + lane % WARP, np.int64(0), np.int64(0)
            for _ in range(lengths[lane]):
                square = np.int64(resid[place]) * np.int64(resid[place])
                w = np.int64(weights[place]) if weighted else np.int64(1)
                high += w * (square >> LOW_BITS)
                low += w * (square & LOW_MASK)
                place += WARP
            cuda.atomic.add(out, (owners[lane], 0), high)
            cuda.atomic.add(out, (owners[lane], 1), low)

    return squares


@cache
def slopes_kernel(dense: bool, own: bool) -> Any:
    """Return a kernel that subtracts what changes of slopes add to residuals in slices [lo, hi).

    The slopes are those of each row (then `features` are the partners'), or its partners' (then they are the row's).
    """

    @kernel
    def shift_slopes(
        slice_starts, owners, lengths, first, lo, hi, places, tiles, tile, index, resid, change, features
    ):  # fmt: skip
        for lane in range(lo * WARP + cuda.grid(1), hi * WARP, cuda.gridsize(1)):
            place, base = slice_starts[lane // WARP] - first + lane % WARP, np.int64(tiles[lane // WARP]) * tile
            row = np.int64(owners[lane])
            for e in range(lengths[lane]):
                partner = base + (places[lane] + e if dense else np.int64(index[place]))
                i, j = (row, partner) if own else (partner, row)
                total = np.int32(0)
                for f in range(change.shape[1]):
                    total += change[i, f] * np.int32(features[j, f])
                resid[place] -= total
                place += WARP

    return shift_slopes


@cache
def effects_kernel(dense: bool, own: bool) -> Any:
    """Return a kernel that subtracts each row's own change (or its partners') from residuals in slices [lo, hi)."""

    @kernel
    def shift_effects(slice_starts, owners, lengths, first, lo, hi, places, tiles, tile, index, resid, change):
        for lane in range(lo * WARP + cuda.grid(1), hi * WARP, cuda.gridsize(1)):
            place, base = slice_starts[lane // WARP] - first + lane % WARP, np.int64(tiles[lane // WARP]) * tile
            for e in range(lengths[lane]):
                if own:
                    position = np.int64(owners[lane])
                elif dense:
                    position = base + places[lane] + e
                else:
                    position = base + np.int64(index[place])
                resid[place] -= change[position]
                place += WARP

    return shift_effects
