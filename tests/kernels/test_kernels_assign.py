"""Labels, block tables, distances and misfits against their slow twins.

Costs here are small integers or multiples of a half, so that the floating-point arithmetic of the kernel is exact.
"""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.kernels import assign
from accams.kernels.jit import readonly


def problem(m, k_own, k_other, seed=0, big=50):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 6, (m, k_other))
    sums = np.where(n > 0, rng.integers(-big, big, (m, k_other)), 0)
    T = rng.integers(-9, 10, (k_own, k_other)).astype(np.float64)
    return n, sums, T, rng.integers(0, k_own, m).astype(np.uint8)


def weights_of(m, seed=0):
    """Return row weights so large that their products with sums exceed 32 bits."""
    return np.random.default_rng(seed).integers(1, 2**30, m).astype(np.int32)


def run_nearest(lo, hi, n, sums, T, curvature, labels, uniform=False, row_weights=None, prices=None):
    N, L, counts = (np.zeros(shape, np.int64) for shape in (T.shape, T.shape, len(T)))
    prices = np.zeros(len(T)) if prices is None else prices
    read = readonly(row_weights), readonly(T), curvature, readonly(prices)  # as engines pass them
    moved = assign.nearest(lo, hi, n, sums, *read, uniform, labels, N, L, counts)
    return moved, N, L, counts


@settings(deadline=None, max_examples=40)
@given(
    m=st.sampled_from([1, 2, 63, 64, 65, 128, 200]),
    k=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    curvature=st.sampled_from([1.0, 2.5, 5.0]),
    seed=st.integers(0, 999),
    cut=st.floats(0, 1),
    uniform=st.booleans(),
    weighted=st.booleans(),
    priced=st.booleans(),
)
def test_nearest_is_the_first_of_the_cheapest(m, k, curvature, seed, cut, uniform, weighted, priced):
    """A row's weight does not affect its label, only the tables."""
    n, sums, T, labels = problem(m, *k, seed)
    if uniform:
        n[:] = n[0]
    lo, old = int(cut * m / 2), labels.copy()
    hi = m - lo // 2
    w = weights_of(m, seed) if weighted else None
    prices = 64.0 * np.random.default_rng(seed).integers(0, 9, k[0]) * priced
    moved, N, L, counts = run_nearest(lo, hi, n, sums, T, curvature, labels, uniform, w, prices)
    expected = old.copy()
    expected[lo:hi] = np.argmin(twins.costs(n, sums, T, curvature) + prices, axis=1)[lo:hi]
    np.testing.assert_array_equal(labels, expected)
    assert moved == (expected != old).sum()
    each = 1 if w is None else w[lo:hi, None].astype(np.int64)
    expected = twins.block_tables(each * n[lo:hi], each * sums[lo:hi], labels[lo:hi], k[0])
    for got, twin in zip((N, L, counts), expected, strict=True):
        np.testing.assert_array_equal(got, twin)


def test_the_first_of_equals_wins():
    n, sums, T, labels = problem(70, 4, 3)
    T[:] = T[0]
    labels[:] = 3
    run_nearest(0, 70, n, sums, T, 1.0, labels)
    assert (labels == 0).all()


def test_many_labels():
    n, sums, T, _ = problem(100, 300, 2, seed=5)
    labels = np.zeros(100, np.uint16)
    run_nearest(0, 100, n, sums, T, 1.0, labels)
    np.testing.assert_array_equal(labels, np.argmin(twins.costs(n, sums, T, 1.0), axis=1))


@pytest.mark.parametrize("weighted", [False, True])
def test_tables_are_added_to(weighted):
    n, sums, T, labels = problem(90, 3, 2)
    w = weights_of(90) if weighted else None
    N, L, counts = (np.zeros(shape, np.int64) for shape in (T.shape, T.shape, 3))
    for lo, hi in ((0, 40), (40, 90)):
        assign.block_tables(lo, hi, n, sums, readonly(w), labels, N, L, counts)
    each = 1 if w is None else w[:, None].astype(np.int64)
    for got, twin in zip((N, L, counts), twins.block_tables(each * n, each * sums, labels, 3), strict=True):
        np.testing.assert_array_equal(got, twin)


def test_distances_keep_the_lower():
    n, sums, _, _ = problem(30, 1, 4)
    centres, old = np.array([[1.0, -2.5, 0.0, 30.0], [0.5, 2.0, -9.0, 8.0]]), np.full((2, 30), 900.0)
    old[0, 5] = np.inf
    out = old.copy()
    spread = np.full(30, np.nan)
    assign.spreads(3, 28, n, sums, spread)
    np.testing.assert_allclose(spread[3:28], twins.distances(n, sums, np.zeros(4))[3:28], rtol=1e-12)
    assign.distances(3, 28, n, sums, centres, spread, out)
    expected = np.minimum(old, [twins.distances(n, sums, centre) for centre in centres])
    expected[:, np.r_[0:3, 28:30]] = old[:, np.r_[0:3, 28:30]]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert (out < 900.0).any()
    assert (out == 900.0).any()


@pytest.mark.parametrize(("curvature", "shrinkage"), [(1.0, 0.0), (5.0, 0.0), (1.0, 2.0), (2.5, 0.7)])
def test_misfits(curvature, shrinkage):
    n, sums, T, labels = problem(30, 4, 3, seed=2)
    out = np.full(30, np.nan)
    assign.misfits(2, 29, n, sums, T, curvature, shrinkage, labels, out)
    twin = twins.misfits(n, sums, T, curvature, shrinkage, labels)
    np.testing.assert_allclose(out[2:29], twin[2:29], rtol=1e-9, atol=1e-9)
    assert np.isnan(out[[0, 1, 29]]).all()


def test_no_row_gains_by_leaving_a_cluster_that_fits_it():
    n = np.array([[2, 3], [4, 0]])
    T = np.array([[5.0, -7.0]])
    out = np.zeros(2)
    assign.misfits(0, 2, n, (n * T).astype(np.int64), T, 1.0, 0.0, np.zeros(2, np.uint8), out)
    np.testing.assert_array_equal(out, 0.0)
    assign.misfits(0, 2, n, (n * T).astype(np.int64), T, 1.0, 1.0, np.zeros(2, np.uint8), out)
    assert (out < 0).all()  # alone, the penalty on the template is paid once more
