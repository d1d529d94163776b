"""Kernels for GPUs, in the simulator, beside those for CPUs: the same sums, labels and tables, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

cuda = pytest.importorskip("numba.cuda")

from accams.engine.cuda import kernels, steps  # noqa: E402
from accams.engine.cuda.layout import lay_out  # noqa: E402
from accams.kernels import assign, sample, sparse  # noqa: E402
from accams.threads import Threads  # noqa: E402

THREADS = 64
ROWS, PARTNERS, K_OWN, K_OTHER = 45, 30, 3, 4


class Case:
    """A random order with a residual, labels, two stencils to be added, and weights."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        mask = rng.random((ROWS, PARTNERS)) < rng.choice([0.1, 0.4], (ROWS, 1))
        self.starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        self.index = np.nonzero(mask)[1].astype(np.uint16)
        size = len(self.index)
        self.resid = rng.integers(-(2**30), 2**30, size).astype(np.int32)
        self.weights = rng.integers(1, 50, size).astype(np.int32)
        self.own_weights = rng.integers(1, 9, ROWS).astype(np.int32)
        self.partner_weights = rng.integers(1, 9, PARTNERS).astype(np.int32)
        self.own = [rng.integers(0, k, ROWS).astype(np.uint8) for k in (2, 5, K_OWN)]
        self.other = [rng.integers(0, k, PARTNERS).astype(np.uint8) for k in (3, 2, K_OTHER)]
        self.T = [rng.integers(-(2**20), 2**20, k).astype(np.int32) for k in ((2, 3), (5, 2))]
        self.template = rng.integers(-(2**29), 2**29, (K_OWN, K_OTHER)).astype(np.int32)
        self.log_prior = np.log(rng.dirichlet(np.ones(K_OWN)))

    def by_cpu(self, shifts: int, weights: Any, partners: Any) -> tuple[NDArray[Any], ...]:
        resid, labels = self.resid.copy(), self.other[2]
        none = (None, None)
        (own_a, T_a), (own_b, T_b) = [*zip(self.own[:shifts], self.T[:shifts], strict=True), none, none][:2]
        codes: NDArray[Any] = labels
        if shifts:
            codes = np.empty(PARTNERS, np.uint32)
            sparse.pack(self.other[0], self.other[1] if shifts > 1 else None, labels, codes)
        n, l = np.zeros((2, ROWS, K_OTHER), np.int64)
        args = self.starts, self.index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, n, l
        sparse.gather(0, ROWS, *args)
        return n, l, resid

    def by_gpu(
        self, axis: int, shifts: int, weights: Any, partners: Any, tile: int, cap: int
    ) -> tuple[NDArray[Any], ...]:
        layout = lay_out(self.starts, self.index, PARTNERS, Threads(1), tile=tile, cap=cap)
        queues = layout.queues(3, THREADS // kernels.WARP)
        resid = layout.arranged(self.resid, Threads(1))
        arranged = None if weights is None else layout.arranged(weights, Threads(1))
        n, l = np.full((2, ROWS, K_OTHER), 7, np.int64)
        untouched = np.flatnonzero(~layout.whole | (np.diff(self.starts) == 0))
        kernels.clear[2, 16](untouched, n, l)
        heavy = weights is not None, partners is not None
        kernel = kernels.gather_kernel(K_OTHER, axis, THREADS, shifts, *heavy)
        shared = kernels.gather_bytes(K_OTHER, THREADS, layout.tile, any(heavy))
        T = [np.ascontiguousarray(each if axis == 0 else each.T) for each in self.T]
        given = [(self.own[p], self.other[p], T[p], 1) if p < shifts else (None, None, None, 1) for p in (0, 1)]
        kernel[len(queues.tiles), THREADS, 0, shared](
            *queues, layout.slice_starts, layout.owners, layout.lengths, layout.whole, layout.index, resid, arranged,
            layout.tile, self.other[2], partners, *given[0], *given[1], n, l,
        )  # fmt: skip
        return n, l, layout.in_usual_order(resid, Threads(1))


@pytest.mark.parametrize("shifts", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("tile", "cap", "partnered"), [(64, 512, False), (11, 5, True)])
def test_gather(shifts: int, weighted: bool, partnered: bool, tile: int, cap: int) -> None:
    case = Case(shifts)
    weights = case.weights if weighted else None
    partners = case.partner_weights if partnered else None
    expected = case.by_cpu(shifts, weights, partners)
    axis = int(partnered)
    for found, right in zip(case.by_gpu(axis, shifts, weights, partners, tile, cap), expected, strict=True):
        assert np.array_equal(found, right)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # words wrap around; only NumPy minds
@pytest.mark.parametrize("how", ["keep", "nearest", "draw"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("row_weighted", [False, True])
def test_label(how: kernels.How, axis: int, row_weighted: bool) -> None:
    case = Case(5)
    n, l, _ = case.by_cpu(0, None, None)
    weights = case.own_weights if row_weighted else None
    labels, expected = case.own[2].copy(), case.own[2].copy()
    T, key = case.template.astype(np.float64), (12345, 67890)
    curvature = {"keep": 0.0, "nearest": 1.5, "draw": 1e-18}[how]
    prices = case.log_prior if how == "draw" else 1e15 * np.abs(case.log_prior)
    N, L, counts = (np.zeros(k, np.int64) for k in ((K_OWN, K_OTHER), (K_OWN, K_OTHER), K_OWN))
    moved = 0
    if how == "keep":
        assign.block_tables(0, ROWS, n, l, weights, expected, N, L, counts)
    elif how == "nearest":
        moved = assign.nearest(0, ROWS, n, l, weights, T, curvature, prices, False, expected, N, L, counts)
    else:
        moved = sample.blocked(0, ROWS, n, l, weights, T, prices, curvature, *key, expected, N, L, counts)
    mine = [np.zeros((K_OWN, K_OTHER)[:: 1 if axis == 0 else -1], np.int64) for _ in range(2)]
    my_counts, my_moved = np.zeros(K_OWN, np.int64), np.zeros(1, np.int64)
    template = np.ascontiguousarray(case.template if axis == 0 else case.template.T)
    kernel = kernels.label_kernel(how, (K_OWN, K_OTHER), axis, 16, row_weighted)
    kernel[2, 16, 0, kernels.label_bytes((K_OWN, K_OTHER), 16)](
        n, l, weights, template, curvature, prices, *key, labels, *mine, my_counts, my_moved
    )
    assert np.array_equal(labels, expected)
    assert len(set(labels)) > 1
    for found, right in zip(mine, (N, L), strict=True):
        assert np.array_equal(found if axis == 0 else found.T, right)
    assert np.array_equal(my_counts, counts)
    assert my_moved[0] == moved


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_templates_and_weights() -> None:
    rng = np.random.default_rng(3)
    N = rng.integers(0, 900, (4, 3))
    L = rng.integers(-(2**30), 2**30, (4, 3))
    counts, moved = rng.integers(0, 50, 4), np.array([7])
    concentration, keys = 0.3, (2**61 + 5, 2**60 + 1)
    weights = np.zeros(4)
    steps.draw_weights[1, 8](counts, concentration, *keys, weights)
    assert np.allclose(weights, sample.log_weights(counts, concentration, *keys), rtol=1e-13)
    expected = sample.template(N, L, 0.01, 1e6, 2**22, *keys)
    gain = np.sum(2.0 * L * expected - N * np.square(expected.astype(np.float64)))
    T, told_counts, told_moved, told_gain = (
        np.zeros((4, 3), np.int32),
        np.zeros(4, np.int64),
        np.array([2]),
        np.zeros(1),
    )
    mine = N.copy(), L.copy(), counts.copy()
    steps.draw_template[1, 8](*mine[:2], 0.01, 1e6, 2**22, *keys, T, mine[2], moved, told_counts, told_moved, told_gain)
    assert np.array_equal(T, expected)
    assert np.array_equal(told_counts, counts)
    assert (told_moved[0], moved[0]) == (9, 0)
    assert told_gain[0] == pytest.approx(gain)
    assert not any(each.any() for each in mine)
