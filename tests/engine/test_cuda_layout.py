"""Slices hold every observation once, with its row, its partner and its value; shares hold every slice once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accams.engine.cuda.device import Device
from accams.engine.cuda.kernels import gather_bytes
from accams.engine.cuda.layout import NOBODY, WARP, SliceLayout, lay_out, shared_out
from accams.engine.cuda.order import STATIC, fitting, tile_for
from accams.engine.memory import TILE
from accams.errors import InputError
from accams.kernels.jit import readonly
from accams.threads import Threads


def ordered(
    m: int, n: int, density: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]:
    """Return rows and the original order (starts, partners) of a random pattern."""
    mask = np.random.default_rng(seed).random((m, n)) < density
    rows, partners = np.nonzero(mask)
    starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return rows, readonly(starts), readonly(partners.astype(np.uint16))


def entries(layout: SliceLayout, values: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return row, partner and value of every entry that the threads read."""
    arranged, found = layout.arranged(values, Threads(1)), []
    for s, tile in enumerate(layout.slice_tiles):
        for t in range(WARP):
            slot = s * WARP + t
            for e in range(layout.lengths[slot]):
                p = layout.slice_starts[s] + WARP * e + t
                found.append((layout.owners[slot], tile * layout.tile + layout.index[p], arranged[p]))
    return found


@given(
    st.integers(1, 80), st.integers(1, 60), st.sampled_from([0.0, 0.05, 0.5, 1.0]), st.integers(1, 70),
    st.integers(1, 9), st.integers(1, 3), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_observation_is_there_once(
    m: int, n: int, density: float, tile: int, cap: int, threads: int, seed: int
) -> None:
    rows, starts, partners = ordered(m, n, density, seed)
    layout = lay_out(starts, partners, n, Threads(threads, chunk_size=20), tile=tile, cap=cap)
    values = np.arange(1, len(rows) + 1, dtype=np.int32)
    assert sorted(entries(layout, values)) == list(zip(rows, partners, values, strict=True))
    assert layout.lengths.max(initial=0) <= cap
    assert layout.tile <= tile
    pieces = np.bincount(layout.owners[layout.owners != NOBODY], minlength=m)
    assert np.array_equal(layout.order[layout.spots], np.arange(m))
    alone, cut = np.split(layout.order, [len(layout.alone)])
    assert np.array_equal(pieces[alone], layout.alone != NOBODY)
    assert np.array_equal(layout.owners[layout.alone[layout.alone != NOBODY]], alone[pieces[alone] > 0])
    assert np.array_equal(np.diff(layout.cut_starts), pieces[cut])
    assert np.array_equal(layout.owners[layout.cut_lanes], np.repeat(cut, pieces[cut]))
    lanes = np.concatenate([layout.alone[layout.alone != NOBODY], layout.cut_lanes])
    assert np.array_equal(np.sort(lanes), np.flatnonzero(layout.owners != NOBODY))


def test_slices_waste_little_room() -> None:
    rng = np.random.default_rng(0)
    lengths = np.minimum(np.exp(rng.normal(3.0, 1.0, 20_000)).astype(np.int64) + 1, 400)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    partners = np.concatenate([np.sort(rng.permutation(400)[:size]) for size in lengths]).astype(np.uint16)
    layout = lay_out(readonly(starts), readonly(partners), 400, Threads(1))
    assert layout.size < 1.05 * len(partners)


@pytest.mark.parametrize("n_blocks", [1, 3, 50])
@pytest.mark.parametrize("warps", [1, 4])
def test_queues_hold_every_slice_once_and_are_of_one_length(n_blocks: int, warps: int) -> None:
    _, starts, partners = ordered(900, 50, 0.4, 1)
    layout = lay_out(starts, partners, 50, Threads(1), tile=20, cap=8)
    queues = layout.queues(n_blocks, warps)
    assert sorted(queues.slices) == list(range(len(layout.slice_tiles)))
    assert len(queues.starts) == len(queues.tiles) * warps + 1
    assert len(queues.tiles) <= max(n_blocks, layout.n_tiles)
    work = np.diff(layout.slice_starts)
    for block, tile in enumerate(queues.tiles):
        ends = queues.starts[block * warps : (block + 1) * warps + 1]
        assert (layout.slice_tiles[queues.slices[ends[0] : ends[-1]]] == tile).all()
        loads = [work[queues.slices[a:b]].sum() for a, b in pairwise(ends)]
        assert max(loads) - min(loads) <= work.max()


def test_nothing_observed_is_no_work() -> None:
    layout = lay_out(readonly(np.zeros(4, np.int64)), readonly(np.zeros(0, np.uint16)), 5, Threads(1))
    assert layout.size == 0
    assert len(layout.queues(3, 2).tiles) == 0


@given(st.integers(1, 200), st.lists(st.integers(1, 10**6), max_size=20))
def test_blocks_are_shared_out_in_proportion(n: int, work: list[int]) -> None:
    found = shared_out(n, np.array(work, float))
    assert (found >= 1).all()
    assert found.sum() == (max(n, len(work)) if work else 0)
    if len(work) > 1 and n >= 10 * len(work):
        exact = n * np.array(work) / sum(work)
        assert (found < np.maximum(exact, 1.0) + 1.0).all()


H200 = Device(132, 227 << 10, 1 << 36, 128, False)


@pytest.mark.parametrize(
    ("n_partners", "k", "heavy"), [(17_770, 10, False), (480_189, 10, False), (480_189, 16, False)]
)
def test_tiles_leave_room_for_a_thousand_threads(n_partners: int, k: int, heavy: bool) -> None:
    tile = tile_for(n_partners, k, heavy, H200)
    threads, together = fitting(k, tile, heavy, H200)
    assert threads * together == 1024
    assert together * (gather_bytes(k, threads, tile, heavy) + STATIC) <= H200.shared
    assert tile <= min(n_partners, TILE)
    if n_partners < TILE:
        assert tile == n_partners  # no more tiles than there must be


def test_many_clusters_leave_room_for_fewer_threads_or_none() -> None:
    tile = tile_for(480_189, 32, True, H200)
    threads, together = fitting(32, tile, True, H200)
    assert 256 <= threads * together < 1024
    with pytest.raises(InputError, match="no room for 256 clusters on this GPU: use fewer, or engine='cpu'"):
        fitting(256, TILE, True, H200)
    assert fitting(256, tile_for(480_189, 256, True, H200), True, H200)[0] >= WARP
