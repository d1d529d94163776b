"""Results collected in bounded memory: running means in blocks of sweeps, and evenly spaced draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.fit.running import BLOCKS, Keeper, Running
from accams.model.posterior import Draw
from accams.model.stencils import StencilSum

CELLS = np.arange(4)


def filled(sweeps: int, first: int = 0, chains: int = 3, seed: int = 0) -> tuple[Running, np.ndarray]:
    """Return running means after a number of sweeps, and all predictions (sweep, chain, cell)."""
    every = np.random.default_rng(seed).normal(size=(sweeps, chains, len(CELLS)))
    running = Running(CELLS, CELLS)
    for p, predictions in enumerate(every):
        running.add(first + p, predictions)
    return running, every


# -- running means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeps", [1, 2, BLOCKS, BLOCKS + 1, 2 * BLOCKS + 1, 100, 1000])
def test_blocks_hold_every_sweep_once_in_order(sweeps):
    running, _ = filled(sweeps)
    edges = [block.first for block in running.blocks] + [running.blocks[-1].last]
    assert (edges[0], edges[-1]) == (0, sweeps)
    assert all(block.last == later.first for block, later in zip(running.blocks, running.blocks[1:], strict=False))
    assert len(running.blocks) <= BLOCKS
    assert len(running.blocks) > BLOCKS / 4 or sweeps == len(running.blocks)
    widths = {block.last - block.first for block in running.blocks[:-1]}
    assert widths <= {running.width}
    assert running.blocks[-1].last - running.blocks[-1].first <= running.width


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(0, 320), st.integers(0, 5))
def test_means_since_a_burn_in(sweeps, burn_in, first):
    """Exact where a block begins; otherwise over the blocks that begin later, or over the last one."""
    running, every = filled(sweeps, first)
    begins = [block.first for block in running.blocks]
    start = min((b for b in begins if b >= burn_in), default=begins[-1]) - first
    means, squares, count = running.since(burn_in)
    assert count == sweeps - start
    np.testing.assert_allclose(means + running.centre, every[start:].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(squares, ((every[start:] - running.centre) ** 2).mean(axis=0), atol=1e-12)
    mean, variance = running.combined(burn_in)
    np.testing.assert_allclose(mean, every[start:].mean(axis=(0, 1)), atol=1e-12)
    np.testing.assert_allclose(variance, every[start:].var(axis=(0, 1)), atol=1e-10)


def test_at_most_a_block_too_many_is_left_out():
    running, _ = filled(1000)
    for burn_in in (100, 250, 333):
        assert 0 <= 1000 - burn_in - running.since(burn_in)[2] < running.width
    assert running.width <= 1000 / (BLOCKS / 2)


def test_equal_predictions_have_no_variance():
    running = Running(CELLS, CELLS)
    for sweep in range(5):
        running.add(sweep, np.full((2, 4), 0.1 + 0.2))
    assert (running.combined(0)[1] >= 0).all()
    np.testing.assert_allclose(running.combined(0)[1], 0, atol=1e-15)


def test_far_from_zero_the_variance_is_still_right():
    """Times in seconds, say, around 1e8 with a spread of one."""
    every = 1e8 + np.random.default_rng(0).normal(size=(50, 2, 4))
    running = Running(CELLS, CELLS)
    for sweep, predictions in enumerate(every):
        running.add(sweep, predictions)
    np.testing.assert_allclose(running.combined(0)[1], every.var(axis=(0, 1)), rtol=0.01)


# -- draws --------------------------------------------------------------------------------------------------------


def run_keeper(keeper: Keeper, sweeps: int, chains: int = 2, first: int = 0) -> list[int]:
    """Return the sweeps whose draws are kept."""
    for sweep in range(first, sweeps):
        if keeper.wants(sweep):
            keeper.add([Draw.of(chain, sweep, StencilSum((2, 2))) for chain in range(chains)])
    return [each[0].sweep for each in keeper.draws]


def test_a_fixed_interval_is_kept():
    keeper = Keeper(4, 3, fixed=True)
    assert run_keeper(keeper, 30) == list(range(2, 30, 3))
    assert keeper.interval == 3


def test_the_interval_doubles_when_there_are_too_many():
    keeper = Keeper(6, 5)
    assert run_keeper(keeper, 15) == [4, 9, 14]
    assert keeper.interval == 5
    assert run_keeper(keeper, 20, first=15) == [9, 19]  # a fourth would make eight
    assert keeper.interval == 10
    assert run_keeper(keeper, 100, first=20) == [39, 79]
    assert keeper.interval == 40


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 300), st.integers(0, 50))
def test_draws_are_evenly_spaced_and_never_too_many(most, chains, sweeps, first):
    keeper = Keeper(most, 1)
    kept = np.array(run_keeper(keeper, first + sweeps, chains, first), int) + 1
    assert len(kept) * chains <= max(most, chains)
    assert (kept % keeper.interval == 0).all()
    assert (np.diff(kept) == keeper.interval).all()
    assert first + sweeps - keeper.interval < kept[-1] <= first + sweeps if len(kept) else True
    assert all(len(each) == chains for each in keeper.draws)


def test_draws_of_the_burn_in_make_room_for_later_ones():
    keeper = Keeper(4, 1)
    for sweep in range(8):
        keeper.add([Draw.of(0, sweep, StencilSum((2, 2)))], burn_in=(sweep + 1) // 2)
    assert [each[0].sweep for each in keeper.draws] == [4, 5, 6, 7]
    assert keeper.interval == 1


def test_since():
    keeper = Keeper(100, 1)
    run_keeper(keeper, 5)
    assert [(d.sweep, d.chain) for d in keeper.since(3)] == [(3, 0), (3, 1), (4, 0), (4, 1)]
    assert len(keeper.since(0)) == 10
    assert [d.sweep for d in keeper.since(99)] == [4, 4]  # the last ones, if there are no later ones
    assert Keeper(100, 1).since(0) == []
