"""Kernels for GPUs, in the simulator, beside those for CPUs: the same sums, labels and tables, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

cuda = pytest.importorskip("numba.cuda")

from accams.engine.cuda import kernels, steps, sums  # noqa: E402
from accams.engine.cuda import labels as labelling  # noqa: E402
from accams.engine.cuda.layout import NOBODY, lay_out  # noqa: E402
from accams.kernels import assign, sample, sparse  # noqa: E402
from accams.kernels.jit import readonly  # noqa: E402
from accams.threads import Threads  # noqa: E402

THREADS = 64
ROWS, PARTNERS, K_OWN, K_OTHER = 45, 30, 3, 4
UNUSED = np.zeros(1, np.int32)  # in place of what a kernel does not read


class Case:
    """A random order with a residual, labels, two stencils to be added, and weights."""

    def __init__(self, seed: int, dense: bool = False) -> None:
        rng, self.dense = np.random.default_rng(seed), dense
        mask = rng.random((ROWS, PARTNERS)) < (1.0 if dense else rng.choice([0.1, 0.4], (ROWS, 1)))
        self.starts = readonly(np.concatenate([[0], np.cumsum(mask.sum(axis=1))]))
        self.index = readonly(np.nonzero(mask)[1].astype(np.uint16))
        size = len(self.index)
        self.resid = rng.integers(-(2**30), 2**30, size).astype(np.int32)
        self.weights = readonly(rng.integers(1, 50, size).astype(np.int32))
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
        starts, index, weights, partners = map(readonly, (self.starts, self.index, weights, partners))
        args = starts, index, resid, weights, partners, own_a, T_a, own_b, T_b, codes, n, l
        sparse.gather(0, ROWS, *args)
        return n, l, resid

    def by_gpu(
        self, axis: int, shifts: int, weights: Any, partners: Any, tile: int, cap: int
    ) -> tuple[NDArray[Any], ...]:
        layout = lay_out(self.starts, self.index, PARTNERS, Threads(1), tile=tile, cap=cap)
        queues = layout.queues(3, THREADS // kernels.WARP)
        resid = layout.arranged(self.resid, Threads(1))
        arranged = UNUSED if weights is None else layout.arranged(weights, Threads(1))
        heavy = weights is not None, partners is not None
        kernel = kernels.gather_kernel(
            K_OTHER, axis, THREADS, shifts, dense=self.dense, weighted=heavy[0], partnered=heavy[1]
        )
        parts = np.full((2 if any(heavy) else 1, K_OTHER, len(layout.owners)), 7, np.int64)
        shared = kernels.gather_bytes(K_OTHER, THREADS, layout.tile, any(heavy))
        T = np.zeros((3, 8, 8), np.int32)
        for p, each in enumerate(self.T):
            mine = each if axis == 0 else each.T
            T[p, : mine.shape[0], : mine.shape[1]] = mine
        given = [(p, 1, *self.T[p].shape) if p < shifts else (0, 0, 0, 0) for p in (0, 1)]
        kernel[len(queues.tiles), THREADS, 0, shared](
            *queues, layout.slice_starts, layout.owners, layout.lengths, layout.places,
            UNUSED if self.dense else layout.index, 0, resid, arranged, layout.tile,
            np.array(self.own), np.array(self.other), T, 2, *given[0], *given[1],
            UNUSED if partners is None else partners, parts,
        )  # fmt: skip
        cut = np.full((2, K_OTHER, len(layout.cut_starts) - 1), 7, np.int64)
        if cut.size:
            add_up = sums.add_up_kernel(16, 4, any(heavy))
            add_up[(-(-cut.shape[2] // 4), K_OTHER), 16](layout.cut_starts, layout.cut_lanes, parts, *cut)
        n, l = np.full((2, ROWS, K_OTHER), 7, np.int64)
        sums.take[2, 16](np.arange(ROWS), layout.spots, layout.alone, parts, *cut, n, l)
        return n, l, layout.in_usual_order(resid, Threads(1))


@pytest.mark.some(1)
@pytest.mark.covering(2)
@pytest.mark.parametrize("shifts", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("tile", "cap", "partnered"), [(64, 512, False), (11, 5, True)])
@pytest.mark.parametrize("dense", [False, True])
def test_gather(shifts: int, weighted: bool, partnered: bool, tile: int, cap: int, dense: bool) -> None:
    case = Case(shifts, dense)
    weights = case.weights if weighted else None
    partners = case.partner_weights if partnered else None
    expected = case.by_cpu(shifts, weights, partners)
    axis = int(partnered)
    for found, right in zip(case.by_gpu(axis, shifts, weights, partners, tile, cap), expected, strict=True):
        assert np.array_equal(found, right)


def in_parts(n: NDArray[np.int64], l: NDArray[np.int64], heavy: bool) -> tuple[NDArray[Any], ...]:
    """Return sums as passes write them: parts, sums of cut rows, lanes of the others, and the order of the rows."""
    rng = np.random.default_rng(1)
    order, lanes = rng.permutation(ROWS).astype(np.int32), rng.permutation(40)[:30].astype(np.int32)
    some, cut = order[:30], order[30:]
    parts = np.full((2 if heavy else 1, K_OTHER, 40), 7, np.int64)
    parts[:, :, lanes] = (n[some].T, l[some].T) if heavy else n[some].T * sparse.ONE + l[some].T
    lanes[n[some].sum(axis=1) == 0] = NOBODY
    assert NOBODY in lanes
    return parts, n[cut].T.copy(), l[cut].T.copy(), lanes, order


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # words wrap around; only NumPy minds
@pytest.mark.parametrize("how", ["keep", "nearest", "draw"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("row_weighted", [False, True])
def test_label(how: labelling.How, axis: int, row_weighted: bool) -> None:
    case = Case(5)
    n, l, _ = case.by_cpu(0, None, None)
    n[:4], l[:4] = 0, 0
    weights = case.own_weights if row_weighted else None
    labels, expected = np.array(case.own), case.own[2].copy()
    T, key = case.template.astype(np.float64), (12345, 67890)
    curvature = {"keep": 0.0, "nearest": 1.5, "draw": 1e-18}[how]
    prices = case.log_prior if how == "draw" else 1e15 * np.abs(case.log_prior)
    N, L, counts = (np.zeros(k, np.int64) for k in ((K_OWN, K_OTHER), (K_OWN, K_OTHER), K_OWN))
    moved, read = 0, [readonly(x) for x in (weights, T, prices)]
    if how == "keep":
        assign.block_tables(0, ROWS, n, l, read[0], expected, N, L, counts)
    elif how == "nearest":
        moved = assign.nearest(0, ROWS, n, l, *read[:2], curvature, read[2], False, expected, N, L, counts)
    else:
        moved = sample.blocked(0, ROWS, n, l, *read, curvature, *key, 0, expected, N, L, counts)
    cells = K_OWN * K_OTHER
    tables = np.zeros(2 * cells + K_OWN + 1, np.int64)
    template = np.zeros((2, 8, 8), np.int32)
    template[1][:K_OWN, :K_OTHER] = case.template
    kernel = labelling.label_kernel(how, (K_OWN, K_OTHER), axis, 16, row_weighted=row_weighted, heavy=row_weighted)
    numbers, keys = np.zeros((3, 5)), np.zeros((3, 2, 6), np.int64)
    numbers[2, kernels.SCALE], keys[2, 1, kernels.LABELS : kernels.LABELS + 2] = curvature, key
    kernel[2, 16, 0, labelling.label_bytes((K_OWN, K_OTHER), 16)](
        *in_parts(n, l, row_weighted), UNUSED if weights is None else weights,
        template if axis == 0 else template.transpose(0, 2, 1).copy(),
        1, prices, numbers, keys, 2, 1, labels, 2, tables,
    )  # fmt: skip
    assert np.array_equal(labels[2], expected)
    assert np.array_equal(labels[:2], np.array(case.own)[:2])
    assert len(set(expected)) > 1
    shape = (K_OWN, K_OTHER) if axis == 0 else (K_OTHER, K_OWN)
    for found, right in zip(tables[: 2 * cells].reshape(2, *shape), (N, L), strict=True):
        assert np.array_equal(found if axis == 0 else found.T, right)
    assert np.array_equal(tables[2 * cells : -1], counts)
    assert tables[-1] == moved


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_steps_of_a_visit() -> None:
    """Weights of clusters, then a template, then the next weights: equal to those of the CPU, as are the results."""
    rng = np.random.default_rng(3)
    N, L = rng.integers(0, 900, (4, 3)), rng.integers(-(2**30), 2**30, (4, 3))
    sizes, old = rng.integers(0, 50, 4), rng.integers(0, 50, 3)
    numbers, keys = np.zeros((2, 5)), rng.integers(0, 2**62, (2, 2, 6))
    numbers[1] = 0.01, 1e6, 1e-9, 0.3, 0.7
    tables = np.concatenate([N.ravel(), L.ravel(), sizes, [7]])
    T, counts = np.zeros((6, 8, 8), np.int32), np.zeros((6, 2, 8), np.int64)
    counts[5, 0, :4], counts[5, 1, :3] = 1, old
    prices, moved, gain = np.zeros(8), np.full((2, 2), 5), np.zeros(2)
    steps.first_step[1, 8](counts, 5, 0, 4, numbers, keys, 1, prices, moved)
    expected = sample.log_weights(np.ones(4, np.int64), 0.3, *keys[1, 0, :2])
    assert np.allclose(prices[:4], expected, rtol=1e-13)
    about = numbers, keys, 1
    steps.next_step[1, 8](tables, 4, 3, 0, T, counts, 5, 2**22, *about, 0, 1, prices, moved, gain)
    template = sample.template(N, L, 0.01, 1e6, 2**22, *keys[1, 0, 4:])
    assert np.array_equal(T[5, :4, :3], template)
    assert np.array_equal(counts[5, 0, :4], sizes)
    assert moved.tolist() == [[5, 5], [7, 0]]
    assert not tables.any()
    assert np.allclose(prices[:3], sample.log_weights(old, 0.7, *keys[1, 1, :2]), rtol=1e-13)
    tables[:] = np.concatenate([N.ravel(), L.ravel(), old, [0], [2]])[: len(tables)]
    steps.next_step[1, 8](tables, 4, 3, 1, T, counts, 5, 2**22, *about, 1, -1, prices, moved, gain)
    template = sample.template(N, L, 0.01, 1e6, 2**22, *keys[1, 1, 4:]).astype(np.float64)
    assert gain[1] == pytest.approx(np.sum(2.0 * L * template - N * template**2))


@pytest.mark.parametrize("weighted", [False, True])
def test_squares(weighted: bool) -> None:
    case = Case(1)
    weights, expected, found = case.weights if weighted else None, np.zeros(ROWS), np.zeros((ROWS, 2), np.int64)
    sparse.squares(0, ROWS, case.starts, case.resid, weights, expected)
    layout = lay_out(case.starts, case.index, PARTNERS, Threads(1), tile=11, cap=5)
    resid = layout.arranged(case.resid, Threads(1))
    arranged = UNUSED if weights is None else layout.arranged(weights, Threads(1))
    lanes = layout.slice_starts, layout.owners, layout.lengths
    steps.squares_kernel(weighted)[2, 16](*lanes, 0, 0, len(layout.slice_tiles), resid, arranged, found)
    assert np.array_equal(found[:, 0] * 2.0**sparse.LOW_BITS + found[:, 1], expected)
    exact = np.add.reduceat(
        np.append(case.resid.astype(object) ** 2 * (1 if weights is None else weights), 0), case.starts[:-1]
    )
    assert np.array_equal(expected, np.where(np.diff(case.starts) > 0, exact, 0).astype(np.float64))
