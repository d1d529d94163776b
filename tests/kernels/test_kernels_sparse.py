"""The passes over sparse observations against their slow twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.engine.local import two_of
from accams.errors import InputError
from accams.kernels import sparse
from accams.kernels.jit import readonly


@dataclass
class Pattern:
    """Observations in one order, with all arguments of the kernels."""

    starts: np.ndarray
    index: np.ndarray
    resid: np.ndarray
    weights: np.ndarray
    partners: np.ndarray
    n_other: int
    shifts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    labels: np.ndarray
    k: int

    @property
    def rows(self) -> int:
        return len(self.starts) - 1


def pattern(degrees, n_other, seed=0, k=3, big=1000, index=np.uint16, label=np.uint8) -> Pattern:
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    partners = [np.sort(rng.permutation(n_other)[:degree]) for degree in degrees]
    nnz = int(starts[-1])
    shifts = []
    for k_own, k_other in ((2, 4), (5, 3)):
        own, other = rng.integers(0, k_own, len(degrees)), rng.integers(0, k_other, n_other)
        template = rng.integers(-big, big, (k_own, k_other)).astype(np.int32)
        shifts.append((own.astype(label), other.astype(label), template))
    return Pattern(
        starts,
        np.concatenate([*partners, np.zeros(0)]).astype(index),
        rng.integers(-big, big, nnz).astype(np.int32),
        rng.integers(1, 9, nnz).astype(np.int32),
        rng.integers(1, 99, n_other).astype(np.int32),
        n_other,
        shifts,
        rng.integers(0, k, n_other).astype(label),
        k,
    )


def run_gather(a: Pattern, weights, shifts, lo, hi, partners=None):
    """Run the kernel on n and l filled with garbage; return the residual, n and l."""
    resid, n, sums = a.resid.copy(), np.full((a.rows, a.k), 77), np.full((a.rows, a.k), 77)
    two = two_of(shifts)
    (own_a, other_a, T_a), (own_b, other_b, T_b) = two
    codes = a.labels
    if other_a is not None:
        codes = np.empty(a.n_other, np.uint32)
        sparse.pack(other_a, other_b, a.labels, codes)
    starts, index, weights, partners = map(readonly, (a.starts, a.index, weights, partners))  # as engines do
    sparse.gather(lo, hi, starts, index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, n, sums)
    return resid, n, sums


def check_gather(
    a: Pattern, weighted: bool, n_shifts: int, lo: int = 0, hi: int | None = None, by_partner: bool = False
) -> None:
    hi = a.rows if hi is None else hi
    weights, shifts = a.weights if weighted else None, a.shifts[:n_shifts]
    partners = a.partners if by_partner else None
    resid, n, sums = run_gather(a, weights, shifts, lo, hi, partners)
    twin = twins.sparse_gather(lo, hi, a.starts, a.index, a.resid, weights, shifts, a.labels, a.k, partners)
    np.testing.assert_array_equal(resid, twin[0])
    np.testing.assert_array_equal(n[lo:hi], twin[1])
    np.testing.assert_array_equal(sums[lo:hi], twin[2])
    outside = np.r_[0:lo, hi : a.rows]
    assert (n[outside] == 77).all()
    assert (sums[outside] == 77).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_shifts", [0, 1, 2])
def test_gather(weighted, n_shifts):
    check_gather(pattern([5, 0, 13, 1, 0, 20, 7], 20), weighted, n_shifts)


@pytest.mark.covering
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_shifts", [0, 1, 2])
def test_gather_with_weights_of_partners(weighted, n_shifts):
    for lo, hi in ((0, 7), (2, 6)):
        check_gather(pattern([5, 0, 13, 1, 0, 20, 7], 20), weighted, n_shifts, lo, hi, by_partner=True)


def test_large_weights_of_partners_do_not_overflow():
    """Weight 2^8, row weight 2^20 and residual 2^22 in every one of 5000 cells: their sum is just within 64 bits."""
    a = pattern([5000, 3], 5000)
    a.weights[:], a.partners[:], a.resid[:] = 2**8, 2**20, -(2**22)
    check_gather(a, True, 0, by_partner=True)
    check_gather(a, False, 2, by_partner=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_gather_of_a_range_leaves_the_rest_alone(weighted):
    check_gather(pattern([5, 0, 13, 1, 0, 20, 7], 20, seed=1), weighted, 2, 2, 6)
    check_gather(pattern([5, 0, 13], 20, seed=2), weighted, 2, 1, 1)


def test_gather_with_wide_indices_and_labels():
    a = pattern([300, 0, 41], 70_000, k=300, index=np.uint32, label=np.uint16)
    a.index[-1] = 69_999  # beyond 16 bits
    a.labels[69_999] = 299  # beyond 8
    check_gather(a, False, 2)


@pytest.mark.parametrize("degree", [4095, 4096, 4097, 8192, 12_289])
def test_gather_of_rows_longer_than_a_run(degree):
    check_gather(pattern([degree, 3, degree], 12_289, seed=degree), False, 0)


@pytest.mark.parametrize("extreme", [2**31 - 1, -(2**31), -(2**31) + 1])
@pytest.mark.parametrize("degree", [4096, 4097, 10_000])
def test_packed_sums_do_not_overflow(extreme, degree):
    """All residuals of a long row at the end of the 32-bit range, all in one cluster, or nearly."""
    a = pattern([degree, 2], 10_000)
    a.resid[:] = extreme
    for labels in (np.zeros(10_000), np.arange(10_000) % 2, np.arange(10_000) == 9):
        a.labels = labels.astype(np.uint8)
        check_gather(a, False, 0)


def test_packed_sums_of_both_signs():
    a = pattern([9000], 9000)
    rng = np.random.default_rng(3)
    a.resid = rng.choice(np.array([-(2**31), 2**31 - 1, -1, 0, 1], np.int32), 9000)
    check_gather(a, False, 0)
    check_gather(a, True, 0)


def test_shifts_may_pass_through_the_ends_of_the_range():
    a = pattern([50, 50], 50)
    a.resid[:] = 2**31 - 1
    a.shifts = [(*s[:2], np.abs(s[2]) * sign) for s, sign in zip(a.shifts, (-1, 1), strict=True)]
    a.shifts[1] = (*a.shifts[1][:2], np.minimum(a.shifts[1][2], 0))
    check_gather(a, False, 2)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_gather_of_any_pattern(data):
    n_other = data.draw(st.integers(1, 12))
    degrees = data.draw(st.lists(st.integers(0, n_other), min_size=1, max_size=8))
    a = pattern(degrees, n_other, data.draw(st.integers(0, 99)), data.draw(st.integers(1, 4)))
    lo = data.draw(st.integers(0, a.rows))
    check_gather(a, data.draw(st.booleans()), data.draw(st.integers(0, 2)), lo, data.draw(st.integers(lo, a.rows)))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fused_pass_equals_plain_passes(weighted):
    a = pattern([40, 0, 5000, 17], 5000, seed=4)
    weights = a.weights if weighted else None
    fused = run_gather(a, weights, a.shifts, 0, a.rows)
    for shift in a.shifts:
        sparse.shift(0, a.rows, readonly(a.starts), readonly(a.index), a.resid, *shift)
    plain = run_gather(a, weights, [], 0, a.rows)
    for one, other in zip(fused, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shift():
    a = pattern([5, 0, 13, 1, 0, 20, 7], 20)
    expected = twins.sparse_shift(1, 6, a.starts, a.index, a.resid, *a.shifts[1])
    sparse.shift(1, 6, readonly(a.starts), readonly(a.index), a.resid, *a.shifts[1])
    np.testing.assert_array_equal(a.resid, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_squares(weighted):
    a = pattern([5, 0, 13, 1, 0, 20, 7], 20)
    weights, out = a.weights if weighted else None, np.full(7, -1.0)
    sparse.squares(1, 6, readonly(a.starts), a.resid, readonly(weights), out)
    np.testing.assert_array_equal(out[1:6], twins.sparse_squares(1, 6, a.starts, a.resid, weights))
    assert out[0] == out[6] == -1.0


def test_squares_of_the_largest_residuals():
    a = pattern([3, 1000], 1000)
    a.resid[:] = -(2**31)
    out = np.zeros(2)
    sparse.squares(0, 2, readonly(a.starts), a.resid, None, out)
    np.testing.assert_array_equal(out, [3 * 2.0**62, 1000 * 2.0**62])


@pytest.mark.parametrize("weighted", [False, True])
def test_table_costs_are_added(weighted):
    a = pattern([5, 0, 13, 1, 0, 20, 7], 20)
    weights, V = a.weights if weighted else None, np.random.default_rng(0).normal(size=(20, 3))
    cost = np.ones((7, 3))
    sparse.table_costs(1, 6, readonly(a.starts), readonly(a.index), a.resid, readonly(weights), V, V * V, cost)
    twin = twins.table_costs(1, 6, a.starts, a.index, a.resid, weights, V, V * V)
    np.testing.assert_allclose(cost[1:6], 1.0 + twin, rtol=1e-12)
    assert (cost[[0, 6]] == 1.0).all()


def test_table_costs_are_distances_less_a_constant():
    a = pattern([5, 9, 20], 20)
    V, cost = np.random.default_rng(1).normal(size=(20, 4)), np.zeros((3, 4))
    sparse.table_costs(0, 3, readonly(a.starts), readonly(a.index), a.resid, None, V, V * V, cost)
    for i in range(3):
        where = slice(a.starts[i], a.starts[i + 1])
        gaps = a.resid[where][:, None] - V[a.index[where]]
        np.testing.assert_allclose(cost[i] + (a.resid[where].astype(float) ** 2).sum(), (gaps**2).sum(axis=0))


@pytest.mark.parametrize("position", [0, 1, 2])
def test_spread(position):
    a, out = pattern([5, 0, 13], 20), np.zeros(20)
    sparse.spread(position, readonly(a.starts), readonly(a.index), a.resid, out)
    np.testing.assert_array_equal(out, twins.spread(position, a.starts, a.index, a.resid, 20))


def test_codes_hold_the_largest_labels(is_quick):
    """Ten bits per label: 1023 fits in all three fields, and states allow no more."""
    largest = sparse.MAX_LABELS - 1
    state = make_engine(Observations.from_dense(np.eye(2)), "cpu", 1, 1).new_state()
    with pytest.raises(InputError, match="at most 1024 clusters per side, not 1025"):
        state.begin(0, (2, sparse.MAX_LABELS + 1))
    a = pattern([5, 3], 6, k=sparse.MAX_LABELS, index=np.uint32, label=np.uint16)
    a.labels[:] = largest
    wide = np.arange(2 * sparse.MAX_LABELS, dtype=np.int32).reshape(2, -1)
    a.shifts = [(own, np.full(6, largest, np.uint16), wide) for own, _, _ in (a.shifts[0], a.shifts[0])]
    for n_shifts in (2,) if is_quick else (0, 1, 2):
        check_gather(a, False, n_shifts)
