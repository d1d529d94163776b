"""Targets: thin products that represent a matrix, a mean of stencil sums or a predictor."""

from __future__ import annotations

import numpy as np
import pytest

from accams.fit import target as targets
from accams.fit.target import mean_product, of_matrix, of_mean, of_predictor
from accams.model.stencils import StencilSum
from accams.threads import Threads

SHAPE = (31, 22)


def random_sums(n: int = 3, effects: bool = False) -> list[StencilSum]:
    random = np.random.default_rng(0)
    sums = []
    for _ in range(n):
        both = [random.normal(size=size).astype(np.float32) if effects else None for size in SHAPE]
        made = StencilSum(SHAPE, 2.5, (), np.zeros(0, np.int64), np.zeros(0, np.int64), *both)
        for k in ((3, 4), (2, 2), (5, 1)):
            labels = (random.integers(0, a, size) for a, size in zip(k, SHAPE, strict=True))
            made = made.append(random.normal(size=k), *labels)
        sums.append(made)
    return sums


def weights() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.gamma(2, size=SHAPE[0]), random.gamma(2, size=SHAPE[1])


def product(target) -> np.ndarray:
    return target.offset + target.left @ target.right.T


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_products_with_the_mean(effects, n_threads):
    sums = random_sums(effects=effects)
    matrix = np.mean([each.dense() for each in sums], axis=0)
    codes, threads, random = [each.codes for each in sums], Threads(n_threads), np.random.default_rng(2)
    x, y = random.normal(size=(SHAPE[1], 5)), random.normal(size=(SHAPE[0], 5))
    np.testing.assert_allclose(mean_product(codes, x, threads), matrix @ x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean_product(codes, y, threads, True), matrix.T @ y, rtol=1e-4, atol=1e-4)


def test_rows_never_seen_are_the_average_row():
    one = random_sums(1)[0]
    one = StencilSum(SHAPE, one.offset, one.stencils, np.array([4, 7]), np.array([2]))
    found = mean_product([one.codes], np.eye(SHAPE[1]), Threads(1))
    np.testing.assert_allclose(found, one.dense(), atol=1e-5)


@pytest.mark.parametrize("effects", [False, True])
def test_all_ways_give_the_same(effects):
    sums, (a, b) = random_sums(effects=effects), weights()
    matrix = np.mean([each.dense() for each in sums], axis=0)
    exact = of_matrix(matrix, a, b, 22)
    np.testing.assert_allclose(product(exact), matrix, atol=1e-9)
    for other in (
        of_mean([each.codes for each in sums], a, b, 22),
        of_predictor(lambda i, j: matrix[i, j], a, b, 22, block=100),
    ):
        np.testing.assert_allclose(product(other), matrix, atol=1e-4)
        found, known = other.singular_values, exact.singular_values  # which end where rounding errors begin
        np.testing.assert_allclose(found[: len(known)], known, atol=1e-3)
        assert found[len(known) :].max(initial=0.0) < 1e-3


def test_fewer_vectors_are_the_best_ones(monkeypatch):
    """The randomised SVD comes within one percent of the optimal error."""
    (a, b), random = weights(), np.random.default_rng(3)
    matrix = random.normal(size=SHAPE) @ np.diag(0.7 ** np.arange(SHAPE[1]))
    scaled = np.sqrt(np.outer(a, b))
    offset = float(a @ matrix @ b / (a.sum() * b.sum()))
    values = np.linalg.svd(scaled * (matrix - offset), compute_uv=False)
    monkeypatch.setattr(targets, "MOST_EXACT", 5)
    found = of_matrix(matrix, a, b, 6)
    error = np.square(scaled * (product(found) - matrix)).sum()
    assert error == pytest.approx(np.square(values[6:]).sum(), rel=0.01)


def test_scales():
    (a, b), matrix = weights(), np.random.default_rng(4).normal(size=SHAPE)
    found = of_matrix(matrix, a, b, 10)
    np.testing.assert_allclose((b[:, None] * found.right).T @ found.right, np.eye(found.right.shape[1]), atol=1e-9)
    assert (np.diff(found.singular_values) <= 1e-9).all()
    assert found.total_weight == pytest.approx(a.sum() * b.sum())
    assert found.shape == SHAPE
