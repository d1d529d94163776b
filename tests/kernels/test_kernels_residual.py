"""Coding of residuals: tokens and contexts as a slow twin has them, and any integers come back, tile by tile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.kernels import residual as kernels
from accams.kernels import whole
from accams.model.arithmetic import MOST_STEPS, Arithmetic
from accams.model.residual import NO_SKIP, Layout, Tables, Tiles, choose_layout, encode
from accams.threads import Threads

ONE = Threads(1)


def described(Q, skip, layout: Layout):
    """Tokens, contexts and bits below of one tile, by plain Python."""
    found, below = [], [0] * Q.shape[1]
    for i in range(Q.shape[0]):
        row = below[0]
        for j in range(Q.shape[1]):
            if skip[i, j]:
                continue
            near = [(w, i - a, j - b) for a, b, w in layout.taps]
            e = int(Q[i, j]) - (sum(w * int(Q[a, b]) for w, a, b in near if a >= 0 and b >= 0) + 128 >> 8) * bool(near)
            v = row + below[j]
            bits = v.bit_length()
            context = v if v < 2 else 2 * (bits - 1) + (v >> (bits - 2) & 1)
            u = 2 * e if e >= 0 else -2 * e - 1
            n = u.bit_length()
            large = u >= kernels.DIRECT
            token = kernels.DIRECT + 2 * (n - 5) + (u >> (n - 2) & 1) if large else u
            found.append((token, context, u & ((1 << n - 2) - 1) if large else None))
            size = min(abs(e), kernels.CAP) << kernels.FRACTION
            row += (size - row) >> layout.decay
            below[j] += (size - below[j]) >> layout.decay
    return found


def integers(shape, scale, seed=0):
    random = np.random.default_rng(seed)
    return np.clip(np.rint(scale * random.standard_cauchy(shape)), -(2**30), 2**30).astype(np.int32)


@pytest.mark.parametrize("taps", [(), ((0, 1, 200), (1, 0, 60), (1, 1, -30))])
@pytest.mark.parametrize("scale", [0.2, 5.0, 1e6])
def test_descriptions_are_those_of_the_twin(scale, taps):
    Q, layout = integers((9, 13), scale), Layout(decay=2, taps=taps)
    skip = (np.random.default_rng(1).random(Q.shape) < 0.2).astype(np.uint8)
    size = Q.size
    tokens, contexts = np.empty(size, np.uint8), np.empty(size, np.uint8)
    extra, widths = np.zeros(size, np.int64), np.zeros(size, np.int64)
    counts = np.zeros((kernels.CONTEXTS, kernels.TOKENS), np.int64)
    places = layout.arrays()
    n = kernels.describe(0, 9, 0, 13, Q, skip, *places, 2, tokens, contexts, extra, widths, counts)
    wanted = described(Q, skip, layout)
    assert [(int(t), int(c)) for t, c in zip(tokens[:n], contexts[:n], strict=True)] == [x[:2] for x in wanted]
    assert [int(x) if w else None for x, w in zip(extra[:n], widths[:n], strict=True)] == [x[2] for x in wanted]
    assert counts.sum() == n


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([0.0, 0.05, 1.0, 300.0, 1e8]), st.integers(0, 2**32))
def test_integers_come_back(m, n, scale, seed):
    Q, random = integers((m, n), scale, seed), np.random.default_rng(seed)
    skip = (random.random((m, n)) < 0.3).astype(np.uint8) if seed % 2 else NO_SKIP
    layout = choose_layout(Q, skip, (int(random.integers(1, 20)), int(random.integers(1, 20))))
    tiles = Tiles(*encode(Q, skip, layout, ONE), (m, n))
    wanted = np.where(skip, 0, Q) if skip.size else Q
    found, _ = tiles.block(slice(0, m), slice(0, n), skip, ONE)
    np.testing.assert_array_equal(found, wanted)
    i, j = m // 2, n // 2
    height, width = layout.tile
    of_tiles = skip[i // height * height :, j // width * width :] if skip.size else skip
    part, origin = tiles.block(slice(i, m), slice(j, n), np.ascontiguousarray(of_tiles), ONE)
    np.testing.assert_array_equal(part, wanted[origin[0] :, origin[1] :])


def test_what_neighbours_tell_is_used():
    smooth = np.cumsum(integers((100, 400), 1.0), axis=1).astype(np.int32)
    layout = choose_layout(smooth, NO_SKIP, (64, 64))
    assert layout.taps
    sizes = [
        sum(x.nbytes for x in encode(smooth, NO_SKIP, each, ONE)[1].values()) for each in (layout, Layout((64, 64)))
    ]
    assert sizes[0] < 0.6 * sizes[1]


def test_tables_come_back():
    counts = np.random.default_rng(0).poisson(
        20 * np.exp(-np.arange(kernels.TOKENS) / 9), (kernels.CONTEXTS, kernels.TOKENS)
    )
    tables = Tables.of(counts)
    again = Tables.from_bytes(tables.to_bytes(), len(tables.freq))
    np.testing.assert_array_equal(again.classes, tables.classes)
    np.testing.assert_array_equal(again.freq, tables.freq)


@pytest.mark.parametrize("shape", [(19, 700), (3, 5), (1, 1)])
def test_sums_over_a_matrix(shape):
    random, k = np.random.default_rng(0), (4, 3)
    cells = random.normal(size=shape).astype(np.float32)
    rows, cols = (random.integers(a, size=n).astype(np.uint16) for a, n in zip(k, shape, strict=True))
    by_column, by_row = np.empty((shape[0], k[1])), np.empty((k[0], shape[1]))
    whole.sums_by_column_label(0, shape[0], cells, cols, by_column)
    whole.sums_by_row_label(0, shape[1], cells, rows, by_row)
    np.testing.assert_allclose(by_column, cells @ np.eye(k[1])[cols], atol=1e-4)
    np.testing.assert_allclose(by_row, np.eye(k[0])[rows].T @ cells, atol=1e-4)
    lines = random.normal(size=(2, k[0], shape[1])).astype(np.float32)
    other = random.integers(k[0], size=shape[0]).astype(np.uint16)
    wanted = cells + lines[0][rows] - lines[1][other]
    whole.exchange(0, shape[0], rows, lines[0], other, lines[1], cells)
    np.testing.assert_allclose(cells, wanted, atol=1e-5)


def test_sums_of_templates():
    random = np.random.default_rng(0)
    shapes, out = [(3, 4), (1, 2), (5, 1)], np.zeros((7, 9), np.int32)
    templates = [random.integers(-50, 50, shape).astype(np.int32) for shape in shapes]
    rows, cols = (
        np.array([random.integers(shape[axis], size=out.shape[axis]) for shape in shapes], np.uint16) for axis in (0, 1)
    )
    starts = np.cumsum([0, *(T.size for T in templates)])[:-1]
    widths = np.array([T.shape[1] for T in templates])
    for lo, hi in ((0, 4), (4, 9)):
        whole.add_lines(lo, hi, rows, np.concatenate([T.ravel() for T in templates]), starts, widths, cols, out)
    np.testing.assert_array_equal(out, sum(T[r][:, c] for T, r, c in zip(templates, rows, cols, strict=True)))


@pytest.mark.parametrize("whole", [True, False])
def test_squares_that_steps_leave(whole):
    """They are those of the steps that are stored, by `Arithmetic`."""
    random = np.random.default_rng(0)
    away = random.normal(0.0, 40.0, (7, 50))
    away[2, 3], step, dead = 1e12, 7.0 if whole else 6.3, 0.0 if whole else 0.12
    away = np.rint(away) if whole else away
    bounds = (-10, 10) if whole else (-10.0, 10.0)
    arithmetic = Arithmetic(np.dtype(float), 0, 0.0, 0, int(step) if whole else step, int(whole), *bounds)
    x = away.astype(np.int64) if whole else away
    steps, far = arithmetic.steps_to(x, np.zeros_like(x), dead)
    sums = np.empty(7)
    kernels.squares_left(0, 7, away, step, dead, whole, float(MOST_STEPS), sums)
    assert far.sum() == 1
    np.testing.assert_allclose(sums, (np.square(away - step * steps) * ~far).sum(axis=1), rtol=1e-12)
