"""The passes over full matrices against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.engine.local import two_of
from accams.kernels import dense
from accams.kernels.jit import readonly


def problem(n_other, n_own, seed=0, k=3, big=1000):
    """Return resid, weights (some 0), two shifts, and labels of the other axis."""
    rng = np.random.default_rng(seed)
    resid = rng.integers(-big, big, (n_other, n_own)).astype(np.int32)
    weights = rng.integers(0, 5, (n_other, n_own)).astype(np.int32)
    shifts = []
    for k_own, k_other in ((2, 4), (5, 3)):
        own, other = rng.integers(0, k_own, n_own), rng.integers(0, k_other, n_other)
        template = rng.integers(-big, big, (k_own, k_other)).astype(np.int32)
        shifts.append((own.astype(np.uint8), other.astype(np.uint8), template))
    return resid, weights, shifts, rng.integers(0, k, n_other).astype(np.uint8)


def check_gather(resid, weights, shifts, labels, k, lo=0, hi=None, partners=None) -> None:
    hi = resid.shape[1] if hi is None else hi
    shifted, n, sums = resid.copy(), np.full((resid.shape[1], k), 77), np.full((resid.shape[1], k), 77)
    two = two_of(shifts)
    dense.gather(lo, hi, shifted, weights, readonly(partners), *two[0], *two[1], labels, n, sums)
    twin = twins.dense_gather(lo, hi, resid, weights, shifts, labels, k, partners)
    np.testing.assert_array_equal(shifted, twin[0])
    np.testing.assert_array_equal(sums[lo:hi], twin[2])
    outside = np.r_[0:lo, hi : resid.shape[1]]
    assert (sums[outside] == 77).all()
    if weights is None:
        assert (n == 77).all()  # the same for every row, so the caller fills it in
    else:
        np.testing.assert_array_equal(n[lo:hi], twin[1])
        assert (n[outside] == 77).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_shifts", [0, 1, 2])
def test_gather(weighted, n_shifts):
    resid, weights, shifts, labels = problem(11, 19)
    check_gather(resid, weights if weighted else None, shifts[:n_shifts], labels, 3)


@pytest.mark.covering
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_shifts", [0, 1, 2])
def test_gather_with_weights_of_partners(weighted, n_shifts):
    resid, weights, shifts, labels = problem(11, 519)
    partners = np.random.default_rng(1).integers(1, 99, 11).astype(np.int32)
    for lo, hi in ((0, 519), (3, 17)):
        check_gather(resid, weights if weighted else None, shifts[:n_shifts], labels, 3, lo, hi, partners)


@pytest.mark.parametrize("mask", [False, True])
def test_large_weights_of_partners_do_not_overflow(mask):
    resid, weights, _, labels = problem(5000, 3)
    resid[:], partners = -(2**22), np.full(5000, 2**20, np.int32)
    weights = (weights > 0).astype(np.uint8) if mask else weights * 2**6
    for w in (None, weights):
        check_gather(resid, w, [], labels, 3, partners=partners)


@pytest.mark.parametrize("width", [255, 256, 257, 600])
@pytest.mark.parametrize("weighted", [False, True])
def test_gather_of_more_than_one_tile(width, weighted):
    resid, weights, shifts, labels = problem(7, width, seed=width)
    check_gather(resid, weights if weighted else None, shifts, labels, 3)


def test_gather_with_a_mask_of_bytes():
    resid, weights, shifts, labels = problem(7, 300)
    check_gather(resid, (weights > 1).astype(np.uint8), shifts, labels, 3)


@pytest.mark.parametrize("extreme", [2**31 - 1, -(2**31)])
def test_sums_of_the_largest_residuals(extreme):
    resid, weights, _, labels = problem(5000, 2)
    resid[:] = extreme
    for w in (None, weights):
        check_gather(resid, w, [], labels, 3)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_gather_of_any_matrix(data):
    n_other, n_own = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    k, seed = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 99))
    resid, weights, shifts, labels = problem(n_other, n_own, seed, k)
    lo = data.draw(st.integers(0, n_own))
    hi = data.draw(st.integers(lo, n_own))
    weighted, n_shifts = data.draw(st.booleans()), data.draw(st.integers(0, 2))
    check_gather(resid, weights if weighted else None, shifts[:n_shifts], labels, k, lo, hi)


def test_shift():
    resid, _, shifts, _ = problem(9, 600)
    expected = twins.dense_shift(100, 590, resid, *shifts[1])
    dense.shift(100, 590, resid, *shifts[1])
    np.testing.assert_array_equal(resid, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_squares(weighted):
    resid, weights, _, _ = problem(9, 30)
    out, w = np.full(9, -1.0), weights if weighted else None
    dense.squares(2, 8, resid, w, out)
    np.testing.assert_array_equal(out[2:8], twins.dense_squares(2, 8, resid, w))
    assert (out[[0, 1, 8]] == -1.0).all()
