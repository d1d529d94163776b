"""Splits assign every entry once, by the stated rule."""

from __future__ import annotations

import numpy as np
import pytest

from accams.data import splits
from accams.data.observations import Observations
from accams.errors import InputError


def some(m=30, n=20, nnz=200, seed=0, **more) -> Observations:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(m * n)[:nnz]
    return Observations.from_coo(cells // n, cells % n, rng.normal(size=nnz), shape=(m, n), **more)


def timed(**more) -> Observations:
    return some(times=np.random.default_rng(1).permutation(200), **more)


def cells(obs: Observations) -> set[tuple[int, int, float]]:
    return set(zip(*(a.tolist() for a in obs.coo()), strict=True))


def assert_parts(whole: Observations, *parts: Observations) -> None:
    assert sum(part.nnz for part in parts) == whole.nnz
    assert set.union(*(cells(part) for part in parts)) == cells(whole)
    for part in parts:
        assert part.shape == whole.shape
        assert part.row_index is whole.row_index
        assert part.col_index is whole.col_index
        assert part.blank_weight == whole.blank_weight


@pytest.mark.parametrize(("test", "size"), [(0.1, 20), (0.25, 50), (0.999, 199)])
def test_random_split_is_the_permutation_in_row_order(test, size):
    obs = some()
    train, held = splits.random_split(obs, test, random_state=7)
    assert_parts(obs, train, held)
    expected = np.sort(np.random.default_rng(7).permutation(200)[:size])
    np.testing.assert_array_equal(held.values, obs.values[expected])


@pytest.mark.parametrize("n", [10, 19, 99_999, 100_000, 1_000_209])
def test_a_tenth_is_floored(n):
    positions = splits.permutation_test_positions(n, 0.1, 0)
    assert len(positions) == n // 10
    np.testing.assert_array_equal(positions, np.random.default_rng(0).permutation(n)[: n // 10])


def test_seeds_differ_and_repeat():
    obs = some()
    first, again, other = (splits.random_split(obs, random_state=s)[1] for s in (0, 0, 1))
    assert cells(first) == cells(again) != cells(other)


@pytest.mark.parametrize("test", [0, 1, -0.1, 1.5, 10, 0.001, float("nan")])
def test_shares_that_make_no_sense(test):
    with pytest.raises(InputError):
        splits.random_split(some(), test)


@pytest.mark.parametrize("k", [2, 3, 7, 200])
def test_k_fold_tests_every_entry_once(k):
    obs = some()
    folds = list(splits.k_fold(obs, k))
    assert len(folds) == k
    assert_parts(obs, *(test for _, test in folds))
    for train, test in folds:
        assert_parts(obs, train, test)
    sizes = [test.nnz for _, test in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("k", [0, 1, 201])
def test_k_fold_says_at_once_when_k_is_wrong(k):
    with pytest.raises(InputError, match="between 2 and"):
        splits.k_fold(some(), k)


@pytest.mark.parametrize(("n", "min_train"), [(1, 1), (2, 3), (5, 0)])
def test_leave_out_takes_n_from_each_user_who_has_enough(n, min_train):
    obs = some()
    train, test = splits.leave_out(obs, n, min_train=min_train)
    assert_parts(obs, train, test)
    had, lost = np.diff(obs.row_starts), np.diff(test.row_starts)
    np.testing.assert_array_equal(lost, np.where(had >= n + min_train, n, 0))


def test_leave_out_does_not_always_take_the_same_place():
    obs = Observations.from_dense(np.arange(500.0).reshape(100, 5))
    _, test = splits.leave_out(obs)
    assert len(set(test.cols.tolist())) == 5


def test_leave_out_latest_takes_the_last_in_time():
    obs = timed()
    _, test = splits.leave_out(obs, n=2, latest=True)
    for i in range(obs.shape[0]):
        mine = obs.times[obs.row_starts[i] : obs.row_starts[i + 1]]
        taken = test.times[test.row_starts[i] : test.row_starts[i + 1]]
        expected = sorted(mine.tolist())[-2:] if len(mine) >= 3 else []
        assert sorted(taken.tolist()) == expected


@pytest.mark.parametrize("arguments", [{"n": 0}, {"min_train": -1}, {"n": 30}, {"latest": True}])
def test_leave_out_refuses(arguments):
    with pytest.raises(InputError):
        splits.leave_out(some(), **arguments)


@pytest.mark.parametrize("kind", [np.int64, np.float64, "M8[D]", object])
def test_by_time_learns_from_the_past(kind):
    obs = some(times=np.random.default_rng(1).permutation(200).astype(kind))
    train, test = splits.by_time(obs, 0.25)
    assert_parts(obs, train, test)
    assert test.nnz == 50
    assert max(train.times.tolist()) < min(test.times.tolist())


def test_by_time_keeps_a_moment_together():
    times = np.arange(200) // 30
    train, test = splits.by_time(some(times=times), 0.1)
    assert test.nnz >= 20
    assert not set(train.times.tolist()) & set(test.times.tolist())


def test_by_time_refuses_what_it_cannot_order():
    with pytest.raises(InputError, match="needs the time"):
        splits.by_time(some())
    with pytest.raises(InputError, match="share the earliest time"):
        splits.by_time(some(times=np.zeros(200)))
    with pytest.raises(InputError, match="1 entries have no time"):
        splits.by_time(some(times=np.array([np.nan] + [1.0] * 199)))
    with pytest.raises(InputError, match="different types"):
        splits.by_time(some(times=np.array([None] + ["2020-01-01"] * 199, dtype=object)))


@pytest.mark.parametrize("given", [None, 1, 3])
def test_held_out_users_are_unknown_to_training(given):
    obs = some()
    train, history, test = splits.held_out_users(obs, 0.3, given=given)
    assert_parts(obs, train, history, test)
    had = np.diff(obs.row_starts)
    seen, shown, hidden = (np.diff(part.row_starts) for part in (train, history, test))
    held = shown > 0
    assert held.sum() == int(np.count_nonzero(had) * 0.3)
    assert not seen[held].any()
    np.testing.assert_array_equal(shown[held], (had[held] + 1) // 2 if given is None else given)
    assert (hidden[held] > 0).all()


def test_the_seed_decides_which_users_are_held_out():
    first, again, other = (splits.held_out_users(some(), 0.3, s)[0].row_starts.tolist() for s in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("arguments", [{"test": 0.0}, {"given": 0}, {"given": 19}, {"test": 0.9, "given": 7}])
def test_held_out_users_refuses(arguments):
    with pytest.raises(InputError):
        splits.held_out_users(some(), **arguments)


def test_blanks_that_are_zeros_stay_so():
    obs = some(zeros="observed", zero_weight=0.5)
    for part in splits.random_split(obs):
        assert part.blank_weight == 0.5
        assert part.is_complete


def test_weights_and_times_go_with_their_entries():
    rng = np.random.default_rng(0)
    x = np.arange(1.0, 101.0)
    obs = Observations.from_coo(rng.integers(10, size=100), np.arange(100), x, weights=x, times=x)
    for part in splits.random_split(obs, 0.3):
        np.testing.assert_array_equal(part.weights, part.values)
        np.testing.assert_array_equal(part.times, part.values)


def test_some_positions_are_drawn_without_a_permutation_of_many():
    assert splits.some_positions(20, 3).tolist() == [4, 6, 19]
    assert len(splits.some_positions(10_000_000_000, 3)) == 3
