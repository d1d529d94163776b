"""Scans of stores against plain NumPy: what is found, what is summed, and that the order does not matter."""

from __future__ import annotations

import numpy as np
import pytest

from accams.kernels.checks import scan_order, sums_of, sums_of_halves
from accams.kernels.jit import readonly

KINDS = [np.float16, np.float32, np.float64]
SHAPE = (40, 30)
EMPTY = np.array([np.inf, -np.inf, 0.0, 0.0, 0.0])


def orders(kind, weighted, seed=0):
    """Starts, partners, bits, special bits and weights by row and by column."""
    random = np.random.default_rng(seed)
    rows, cols = np.nonzero(random.random(SHAPE) < 0.4)
    values, weights = random.normal(3, 2, len(rows)).astype(kind), random.integers(1, 1000, len(rows)).astype(np.int32)
    found = []
    for axis, (own, other) in enumerate(((rows, cols), (cols, rows))):
        order = np.lexsort((other, own))
        starts = np.searchsorted(own[order], np.arange(SHAPE[axis] + 1))
        bits = values[order].view(f"u{values.itemsize}")
        special = np.array(np.inf, kind).view(bits.dtype)[()]
        partners = other[order].astype(np.uint16)
        found.append((starts, partners, bits.copy(), special, weights[order].copy() if weighted else None))
    return found


def scan(axis, order, lo=0, hi=None):
    out = np.zeros(1, np.uint64)
    read = [x if np.isscalar(x) else readonly(x) for x in order]  # as from a store
    bad = scan_order(lo, SHAPE[axis] if hi is None else hi, axis, *read, SHAPE[1 - axis], out)
    return bad, int(out[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_both_orders_have_one_sum(kind, weighted):
    by_row, by_col = orders(kind, weighted)
    bad, total = scan(0, by_row)
    assert bad == -1
    assert scan(1, by_col) == (-1, total)
    assert (scan(0, by_row, 0, 17)[1] + scan(0, by_row, 17)[1]) % 2**64 == total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_counts(kind, weighted):
    """A change of any bit changes the sum (each is missed with probability 2^-32), or is found to be bad."""
    by_row, _ = orders(kind, weighted)
    _, total = scan(0, by_row)
    for part in (1, 2, 4) if weighted else (1, 2):
        for bit in range(8 * by_row[part].itemsize):
            changed = list(by_row)
            changed[part] = by_row[part].copy()
            as_bits = changed[part].view(f"u{changed[part].itemsize}")
            as_bits[77] ^= as_bits.dtype.type(1 << bit)
            bad, other = scan(0, changed)
            assert bad >= 0 or other != total


def test_what_must_not_be():
    for kind in KINDS:
        order = orders(kind, True)[0]
        row = int(np.flatnonzero(np.diff(order[0]) > 3)[2])
        p = int(order[0][row]) + 1
        infinite = np.array([np.inf, -np.inf, np.nan], kind).view(order[2].dtype)
        lies = [(1, p, SHAPE[1]), (1, p, order[1][p - 1]), (1, p, order[1][p + 1]), (4, p, 0), (4, p, -1)]
        lies += [(2, p, x) for x in infinite]
        for part, place, lie in lies:
            changed = list(order)
            changed[part] = order[part].copy()
            changed[part][place] = lie
            assert scan(0, changed)[0] == row


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sums(kind, weighted):
    _, _, bits, _, weights = orders(kind, weighted)[0]
    bits, weights = readonly(bits), readonly(weights)
    values, sums = bits.view(kind), EMPTY.copy()
    for lo, hi in ((0, 100), (100, len(values))):
        sums_of_halves(lo, hi, bits, weights, sums) if kind == np.float16 else sums_of(lo, hi, values, weights, sums)
    x = values.astype(np.float64)
    expected = [x.min(), x.max(), x.sum(), *([weights.sum(), weights @ x] if weighted else [0.0, 0.0])]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_all_floats_of_16_bits():
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = readonly(bits[np.isfinite(bits.view(np.float16))])
    for p in range(0, len(bits), 7):
        sums = EMPTY.copy()
        sums_of_halves(p, p + 1, bits, None, sums)
        assert sums[:3].tolist() == [float(bits[p : p + 1].view(np.float16)[0])] * 3
