"""Layout of one order of the observations in the memory of a GPU.

Rows (here: rows or columns, whichever is updated) are cut into *pieces*: the observations of one row whose partners
are in one *tile*, a range of at most 65,536 partners, and at most `cap` (512) of them. So a partner's place in its tile
takes 16 bits, and the labels of a tile fit into the shared memory of a block; and no thread has much more to do than
others, however long a row is. 32 pieces of about the same length form a *slice*, one piece per thread (lane) of a warp:
entry e of lane t is at ``start + 32 e + t``. The threads of a warp read neighbouring entries, and each has sums
of its own, so nothing is added across threads; the pieces of a row that was cut are added up afterwards.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapreplace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine.memory import TILE
from accams.kernels import slices
from accams.threads import Threads

WARP = 32
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NOBODY = -1  # row of a lane without a piece


@dataclass(frozen=True)
class SliceLayout:
    """One order of the observations, in slices.

    `order` has first the rows of one piece in the order of their lanes, then those without observations, then those
    that were cut: the lanes of row ``order[len(alone) + c]`` are ``cut_lanes[cut_starts[c]:cut_starts[c + 1]]``.
    """

    tile: int  # partners per tile
    n_tiles: int
    slice_starts: Longs  # of their entries, and the end; a slice is as long as its longest piece
    slice_tiles: Ints  # tile of each slice; slices of a tile are consecutive
    owners: Ints  # of each lane of each slice: its row,
    lengths: Ints  # the entries of its piece,
    firsts: Longs  # their start in the original order,
    places: Ints  # and the first partner's place in its tile
    order: Ints
    alone: Ints  # lanes of the rows that were not cut (NOBODY without observations), in this order
    cut_starts: Ints
    cut_lanes: Ints
    index: NDArray[np.uint16]  # the partner's place in its tile, of each entry

    @cached_property
    def spots(self) -> Ints:
        """Position of each row in `order`."""
        out = np.empty(len(self.order), np.int32)
        out[self.order] = np.arange(len(self.order), dtype=np.int32)
        return out

    @property
    def size(self) -> int:
        """Number of entries, with the padding of slices."""
        return int(self.slice_starts[-1])

    def arranged(self, values: NDArray[Any], threads: Threads) -> NDArray[Any]:
        """Arrange one number per observation in slices, padded with zeros."""
        out = np.zeros(self.size, values.dtype)
        threads.run(slices.arrange, _ranges(self, threads), self.slice_starts, self.lengths, self.firsts, values, out)
        return out

    def in_usual_order(self, arranged: NDArray[Any], threads: Threads) -> NDArray[Any]:
        """Undo `arranged`."""
        out = np.empty(int(self.lengths.sum(dtype=np.int64)), arranged.dtype)
        threads.run(slices.collect, _ranges(self, threads), self.slice_starts, self.lengths, self.firsts, arranged, out)
        return out

    def queues(self, n_blocks: int, warps: int, first: int = 0, last: int | None = None) -> "Queues":
        """Distribute slices first .. last to about `n_blocks` blocks of so many warps.

        Greedily, the longest slice first, each to the warp with the least work. A block serves one tile.
        """
        work = np.diff(self.slice_starts)
        work[:first], work[len(work) if last is None else last :] = 0, 0
        per_tile = np.bincount(self.slice_tiles, work, self.n_tiles)
        lists, tiles = list[list[int]](), list[int]()
        for tile, share in zip(np.flatnonzero(per_tile), shared_out(n_blocks, per_tile[per_tile > 0]), strict=True):
            todo = np.flatnonzero((self.slice_tiles == tile) & (work > 0))  # sorted by length
            blocks = min(-(-len(todo) // warps), int(share))
            queues: list[list[int]] = [[] for _ in range(blocks * warps)]
            loads = [(0, w) for w in range(len(queues))]
            for s in todo.tolist():
                load, w = loads[0]
                queues[w].append(s)
                heapreplace(loads, (load + int(work[s]), w))
            lists += queues
            tiles += [int(tile)] * blocks
        starts = np.concatenate([[0], np.cumsum([len(queue) for queue in lists])])
        done = np.array([s for queue in lists for s in queue], np.int32)
        return Queues(starts.astype(np.int32), done, np.array(tiles, np.int32))


def shared_out(n: int, work: NDArray[Any]) -> Longs:
    """Split n blocks in proportion to the work, at least one each (so more than n in all if need be)."""
    if len(work) == 0:
        return np.zeros(0, np.int64)
    exact = n * work / work.sum()
    blocks: Longs = np.maximum(np.floor(exact), 1.0).astype(np.int64)
    blocks[np.argsort(blocks - exact, kind="stable")[: max(0, n - int(blocks.sum()))]] += 1
    while blocks.sum() > n and blocks.max() > 1:
        blocks[np.argmax(np.where(blocks > 1, blocks - exact, -np.inf))] -= 1
    return blocks


class Queues(NamedTuple):
    """Work of a pass: warp w of all blocks takes ``slices[starts[w]:starts[w + 1]]``; `tiles` has each block's tile."""

    starts: Ints
    slices: Ints
    tiles: Ints


def lay_out(
    starts: Longs, index: NDArray[Any], n_partners: int, threads: Threads, *, tile: int = TILE, cap: int = 512
) -> SliceLayout:
    """Lay out an order in which row i has the partners ``index[starts[i]:starts[i + 1]]``, ascending.

    A tile has at most `tile` partners and a piece at most `cap` entries.
    """
    n_tiles = max(1, -(-n_partners // tile))
    tile = max(1, -(-n_partners // n_tiles))  # tiles of equal size
    rows = len(starts) - 1
    ranges = threads.split(starts)
    counts = np.zeros(rows, np.int64)
    threads.run(slices.count_pieces, ranges, starts, index, tile, cap, counts)
    ends = np.cumsum(counts)
    owners, tiles, lengths = (np.empty(ends[-1] if rows else 0, np.int32) for _ in range(3))
    firsts = np.empty(len(owners), np.int64)
    threads.run(slices.cut_pieces, ranges, starts, index, tile, cap, ends - counts, owners, tiles, lengths, firsts)
    order = np.lexsort((-lengths, tiles))  # stable: rows of one length stay in order
    slots, slice_tiles = _slots(tiles[order], n_tiles)
    lanes = np.zeros((3, len(slice_tiles) * WARP), np.int64)
    lanes[0] = NOBODY
    lanes[0, slots], lanes[1, slots], lanes[2, slots] = owners[order], lengths[order], firsts[order]
    widths = lanes[1].reshape(-1, WARP).max(axis=1, initial=0) if len(slice_tiles) else np.zeros(0, np.int64)
    slice_starts = np.concatenate([[0], np.cumsum(widths * WARP)])
    rows_ = _order(counts, owners[order], slots, np.diff(starts))
    lanes_ = lanes[0].astype(np.int32), lanes[1].astype(np.int32), lanes[2], np.zeros(0, np.int32)
    layout = SliceLayout(tile, n_tiles, slice_starts, slice_tiles, *lanes_, *rows_, np.zeros(0, np.uint16))
    within = np.zeros(max(len(index), 1), np.uint16)
    threads.run(slices.within_tile, ranges, starts, index, tile, within)
    return replace(layout, index=layout.arranged(within, threads), places=within[lanes[2]].astype(np.int32))


def _order(pieces: Longs, owners: Ints, lanes: Longs, lengths: Longs) -> tuple[Ints, Ints, Ints, Ints]:
    """Return `order`, `alone`, `cut_starts` and `cut_lanes` of a layout, from the pieces of each row."""
    single, none, cut = pieces[owners] == 1, np.flatnonzero(pieces == 0), np.flatnonzero(pieces > 1)
    cut = cut[np.argsort(-lengths[cut], kind="stable")]  # the longest rows first
    rank = np.zeros(len(pieces), np.int64)
    rank[cut] = np.arange(len(cut))
    by_row = np.argsort(rank[owners[~single]], kind="stable")
    order = np.concatenate([owners[single], none, cut]).astype(np.int32)
    alone = np.concatenate([lanes[single], np.full(len(none), NOBODY)]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(pieces[cut])]).astype(np.int32)
    return order, alone, starts, lanes[~single][by_row].astype(np.int32)


def _slots(tiles: Ints, n_tiles: int) -> tuple[Longs, Ints]:
    """Return the lane of each piece and the tile of each slice; pieces are sorted by tile, and a slice has one tile."""
    per_tile = np.bincount(tiles, minlength=n_tiles)
    n_slices = -(-per_tile // WARP)
    first_slot = np.concatenate([[0], np.cumsum(n_slices)[:-1]]) * WARP
    first_piece = np.concatenate([[0], np.cumsum(per_tile)[:-1]])
    slots = first_slot[tiles] + np.arange(len(tiles)) - first_piece[tiles]
    return slots, np.repeat(np.arange(n_tiles), n_slices).astype(np.int32)


def _ranges(layout: SliceLayout, threads: Threads) -> list[tuple[int, int]]:
    return threads.split(layout.slice_starts) if len(layout.slice_tiles) else []
