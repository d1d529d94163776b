"""Cross tables, sorting, predictions and refit products against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.data import build
from accams.kernels import cross, encode, order, predict, refit
from accams.threads import Threads


def test_cross_counts():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 50).astype(np.uint8), rng.integers(0, 5, 50).astype(np.uint8)
    out = np.zeros((3, 5), np.int64)
    cross.cross_counts(a, b, out)
    np.testing.assert_array_equal(out, twins.cross_counts(a, b, (3, 5)))


def test_cross_sums():
    rng = np.random.default_rng(1)
    labels, values, out = rng.integers(0, 3, 50).astype(np.uint8), rng.normal(size=(50, 4)), np.zeros((4, 4))
    cross.cross_sums(labels, values, out)
    np.testing.assert_allclose(out, twins.cross_sums(labels, values, 4), rtol=1e-12)


def test_nearest_levels():
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=40), rng.uniform(0.1, 5, 40)
    levels, prices, out = rng.normal(size=6), rng.uniform(0, 0.5, 6), np.full(40, -1)
    encode.nearest_levels(3, 38, x, weights, levels, prices, out)
    expected = (weights[:, None] * (x[:, None] - levels) ** 2 + prices).argmin(axis=1)
    expected[:3] = expected[38:] = -1
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_add_by_label(kind):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 20).astype(np.uint8)
    table, out = rng.integers(-9, 9, (3, 4)).astype(kind), rng.integers(-9, 9, (20, 4)).astype(kind)
    expected = out.copy()
    expected[5:15] += table[labels[5:15]]
    cross.add_by_label(5, 15, labels, table, out)
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None, max_examples=30)
@given(keys=st.lists(st.integers(0, 6), max_size=40), seed=st.integers(0, 9))
def test_stable_order(keys, seed):
    keys = np.array(keys, dtype=np.int64)
    start = np.random.default_rng(seed).permutation(len(keys)).astype(np.uint32)
    slots = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=7))])[:-1]
    out = np.zeros(len(keys), np.uint32)
    order.stable_order(keys, start, slots, out)
    assert out.tolist() == twins.stable_order(keys, start)


@settings(deadline=None, max_examples=30)
@given(
    degrees=st.lists(st.integers(0, 6), min_size=1, max_size=99),
    seed=st.integers(0, 99),
    threads=st.sampled_from([1, 3]),
)
def test_transposing(degrees, seed, threads):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    cols = np.concatenate([np.sort(rng.permutation(6)[:d]) for d in degrees]).astype(np.uint16)
    values = rng.integers(-99, 99, len(cols)).astype(np.int32)
    col_starts, rows = build.column_order(starts, cols, 6, np.uint16, Threads(threads))
    moved = build.to_column_order(starts, cols, 6, values, Threads(threads))
    assert col_starts.tolist() == [0, *np.cumsum(np.bincount(cols, minlength=6))]
    twin = twins.transpose(starts, cols, values)
    assert rows.tolist() == [i for _, i, _ in twin]
    assert moved.tolist() == [x for _, _, x in twin]


def stencils(m, n, seed=0):
    """Return codes as the model lays them out (the last line is for position -1) and three templates."""
    rng = np.random.default_rng(seed)
    shapes = [(3, 2), (1, 4), (2, 3)]
    templates = [rng.normal(size=shape) for shape in shapes]
    row_codes = np.stack([rng.integers(0, a, m + 1) for a, _ in shapes], axis=1).astype(np.uint8)
    col_codes = np.stack([rng.integers(0, b, n + 1) for _, b in shapes], axis=1).astype(np.uint8)
    flat = np.concatenate([T.ravel() for T in templates])
    first = np.cumsum([0, *(T.size for T in templates)])[:-1].astype(np.int64)
    return row_codes, col_codes, flat, first, np.array([b for _, b in shapes], np.int64), templates


def test_predict_pairs():
    row_codes, col_codes, flat, first, widths, templates = stencils(9, 7)
    rng = np.random.default_rng(1)
    rows, cols, out = rng.integers(-1, 9, 30), rng.integers(-1, 7, 30), np.full(30, np.nan)
    predict.predict_pairs(2, 28, rows, cols, row_codes, col_codes, flat, first, widths, 0.5, out)
    twin = twins.predict_pairs(rows, cols, row_codes, col_codes, templates, 0.5)
    np.testing.assert_allclose(out[2:28], twin[2:28], rtol=1e-13)
    assert np.isnan(out[[0, 1, 28, 29]]).all()


def test_add_at():
    """Integers are added to `out`, and sums may exceed 32 bits."""
    rng = np.random.default_rng(4)
    c, d = rng.integers(0, 3, 9).astype(np.uint8), rng.integers(0, 2, 7).astype(np.uint8)
    T = rng.integers(-(2**31), 2**31, (3, 2)).astype(np.int32)
    rows, cols, start = rng.integers(0, 9, 30), rng.integers(0, 7, 30), rng.integers(-9, 9, 30)
    out = start.copy()
    for _ in range(5):
        predict.add_at(rows, cols, c, d, T, out)
    assert out.tolist() == [x + 5 * int(T[c[i], d[j]]) for x, i, j in zip(start, rows, cols, strict=True)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("lo", "hi"), [(0, 12), (3, 9), (5, 5)])
def test_refit_products(weighted, lo, hi):
    rng = np.random.default_rng(3)
    seen = rng.random((12, 8)) < 0.5
    rows, cols = np.nonzero(seen)
    starts = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    row_codes, col_codes, flat, first, widths, templates = stencils(12, 8)
    weights = rng.random(len(rows)) if weighted else None
    pattern = starts, cols.astype(np.uint16)
    A = twins.design(rows, cols, row_codes.T, col_codes.T, [T.shape for T in templates])
    inside = (rows >= lo) & (rows < hi)
    w = inside * (1.0 if weights is None else weights)

    out = np.ones(len(flat))
    refit.normal_product(lo, hi, *pattern, weights, row_codes, col_codes, flat, first, widths, out)
    np.testing.assert_allclose(out, 1.0 + A.T @ (w * (A @ flat)), rtol=1e-12)

    values, out = rng.normal(size=len(rows)), np.ones(len(flat))
    refit.adjoint_product(lo, hi, *pattern, values, row_codes, col_codes, first, widths, out)
    np.testing.assert_allclose(out, 1.0 + A.T @ (inside * values), rtol=1e-12)
