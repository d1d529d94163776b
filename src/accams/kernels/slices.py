"""Cutting rows into pieces and laying these out in slices of 32, as `accams.engine.cuda.layout` describes."""

from __future__ import annotations

from accams.kernels.jit import kernel


@kernel
def end_of_piece(p, end, index, tile, cap):
    """Where the piece that begins at p ends: at the end of the row, of the tile, or when it has `cap` entries."""
    last = (index[p] // tile + 1) * tile
    stop = p + 1
    while stop < end and stop < p + cap and index[stop] < last:
        stop += 1
    return stop


@kernel
def count_pieces(lo, hi, starts, index, tile, cap, counts):
    """Into how many pieces each row is cut."""
    for i in range(lo, hi):
        p = starts[i]
        while p < starts[i + 1]:
            p = end_of_piece(p, starts[i + 1], index, tile, cap)
            counts[i] += 1


@kernel
def cut_pieces(lo, hi, starts, index, tile, cap, slots, owners, tiles, lengths, firsts):
    """Cut rows into pieces; those of row i go to slots[i], slots[i] + 1, ..."""
    for i in range(lo, hi):
        p, q = starts[i], slots[i]
        while p < starts[i + 1]:
            stop = end_of_piece(p, starts[i + 1], index, tile, cap)
            owners[q], tiles[q], lengths[q], firsts[q] = i, index[p] // tile, stop - p, p
            q += 1
            p = stop


@kernel
def within_tile(lo, hi, starts, index, tile, out):
    """The place of each partner in its tile."""
    for p in range(starts[lo], starts[hi]):
        out[p] = index[p] % tile


@kernel
def arrange(lo, hi, slice_starts, lengths, firsts, values, out):
    """Copy the values of slices [lo, hi) to where their threads read them."""
    for s in range(lo, hi):
        for t in range(32):
            slot = s * 32 + t
            first, place = firsts[slot], slice_starts[s] + t
            for e in range(lengths[slot]):
                out[place + 32 * e] = values[first + e]


@kernel
def collect(lo, hi, slice_starts, lengths, firsts, arranged, out):
    """The values of slices [lo, hi) back to where they come from."""
    for s in range(lo, hi):
        for t in range(32):
            slot = s * 32 + t
            first, place = firsts[slot], slice_starts[s] + t
            for e in range(lengths[slot]):
                out[first + e] = arranged[place + 32 * e]
