"""Cut rows into pieces and lay these out in slices of 32 for a GPU, as `accams.engine.cuda.layout` describes.

A slice has one piece for each of the 32 threads of a warp. Entry e of thread t is at slice start + 32 e + t, so in each
step the threads read 32 neighbouring entries in one memory transaction.
"""

from accams.kernels.jit import kernel


@kernel
def end_of_piece(p, end, index, tile, cap):
    """Return the end of the piece that begins at p: that of the row, of the tile, or after `cap` entries."""
    last = (index[p] // tile + 1) * tile
    stop = p + 1
    while stop < end and stop < p + cap and index[stop] < last:
        stop += 1
    return stop


@kernel
def count_pieces(lo, hi, starts, index, tile, cap, counts):
    """Count the pieces of each row."""
    for i in range(lo, hi):
        p = starts[i]
        while p < starts[i + 1]:
            p = end_of_piece(p, starts[i + 1], index, tile, cap)
            counts[i] += 1


@kernel
def cut_pieces(lo, hi, starts, index, tile, cap, slots, owners, tiles, lengths, firsts):
    """Cut rows into pieces; those of row i are numbers slots[i], slots[i] + 1, ..."""
    for i in range(lo, hi):
        p, q = starts[i], slots[i]
        while p < starts[i + 1]:
            stop = end_of_piece(p, starts[i + 1], index, tile, cap)
            owners[q], tiles[q], lengths[q], firsts[q] = i, index[p] // tile, stop - p, p
            q += 1
            p = stop


@kernel
def within_tile(lo, hi, starts, index, tile, out):
    """Compute the position of each partner in its tile, which fits in 16 bits."""
    for p in range(starts[lo], starts[hi]):
        out[p] = index[p] % tile


@kernel
def arrange(lo, hi, slice_starts, lengths, firsts, values, out):
    """Copy `values` from observation order into the layout of slices [lo, hi)."""
    for s in range(lo, hi):
        for t in range(32):
            slot = s * 32 + t
            first, place = firsts[slot], slice_starts[s] + t
            for e in range(lengths[slot]):
                out[place + 32 * e] = values[first + e]


@kernel
def collect(lo, hi, slice_starts, lengths, firsts, arranged, out):
    """Copy the values of slices [lo, hi) back into observation order."""
    for s in range(lo, hi):
        for t in range(32):
            slot = s * 32 + t
            first, place = firsts[slot], slice_starts[s] + t
            for e in range(lengths[slot]):
                out[first + e] = arranged[place + 32 * e]
