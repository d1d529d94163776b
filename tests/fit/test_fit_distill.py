"""Distillation: files within the size limit, lower error with more bytes, and recovery of true stencil sums."""

from __future__ import annotations

import numpy as np
import pytest

from accams.errors import InputError
from accams.fit.distill import distill
from accams.fit.target import of_matrix, of_mean
from accams.model import file
from accams.model.stencils import StencilSum

NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def matrix_of(shape=(120, 90), rank=6, seed=0) -> np.ndarray:
    """Return a matrix with decaying singular values."""
    random = np.random.default_rng(seed)
    return 3.0 + (random.normal(size=(shape[0], rank)) * 0.7 ** np.arange(rank)) @ random.normal(size=(rank, shape[1]))


def uniform(matrix: np.ndarray):
    return of_matrix(matrix, np.ones(matrix.shape[0]), np.ones(matrix.shape[1]), min(matrix.shape))


def rmse(model: StencilSum, matrix: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.dense() - matrix) ** 2)))


@pytest.mark.parametrize("shape", [(120, 90), (40, 400)])
@pytest.mark.some(1)
def test_more_bytes_are_closer(shape):
    matrix = matrix_of(shape)
    errors, sizes = [], []
    for max_bytes in (600, 1000, 1500, 2500):
        model = distill(uniform(matrix), max_bytes, NONE)
        sizes.append(len(file.to_bytes(model)))
        assert sizes[-1] <= max_bytes
        errors.append(rmse(model, matrix))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.35 * matrix.std()
    assert sizes[-1] > 0.9 * 2500


@pytest.mark.full
def test_better_than_a_quantised_svd():
    """Of a matrix without any clusters, at 4 bits a number; ours has 700 bytes more for its header."""
    matrix, rank = matrix_of((600, 500), rank=10), 6
    U, S, Vt = np.linalg.svd(matrix - matrix.mean(), full_matrices=False)
    factors = []
    for X in (U[:, :rank] * np.sqrt(S[:rank]), Vt[:rank].T * np.sqrt(S[:rank])):
        low, step = X.min(axis=0), np.ptp(X, axis=0) / 15
        factors.append(low + step * np.rint((X - low) / step))
    rival = float(np.sqrt(np.mean((matrix - matrix.mean() - factors[0] @ factors[1].T) ** 2)))
    model = distill(uniform(matrix), 1100 * rank // 2 + 700, NONE)
    assert rmse(model, matrix) < rival


def test_a_true_sum_is_found():
    random = np.random.default_rng(0)
    truth = StencilSum((200, 150), 1.0)
    for k in ((4, 3), (2, 5)):
        labels = (random.integers(0, a, size) for a, size in zip(k, truth.shape, strict=True))
        truth = truth.append(random.normal(size=k), *labels)
    target = of_mean([truth.codes], np.ones(200), np.ones(150), 20)
    model = distill(target, 3000, NONE)
    assert rmse(model, truth.dense()) < 0.02 * truth.dense().std()


def test_rows_of_more_weight_are_closer():
    matrix = matrix_of((200, 100), rank=8)
    heavy = np.where(np.arange(200) < 100, 50.0, 1.0)
    model = distill(of_matrix(matrix, heavy, np.ones(100), 100), 1200, NONE)
    error = np.square(model.dense() - matrix).mean(axis=1)
    assert error[:100].mean() < 0.9 * error[100:].mean()


def test_a_start_is_never_made_worse():
    random = np.random.default_rng(0)
    start = StencilSum((60, 50), 0.0)
    for _ in range(3):
        start = start.append(random.normal(size=(6, 6)), random.integers(0, 6, 60), random.integers(0, 6, 50))
    target = uniform(start.dense())
    model = distill(target, 4000, NONE, start=start)
    assert rmse(model, start.dense()) < 0.02


def test_the_same_seed_gives_the_same_bytes():
    target = uniform(matrix_of())
    assert file.to_bytes(distill(target, 900, NONE, seed=3)) == file.to_bytes(distill(target, 900, NONE, seed=3))


def test_rounds_are_told():
    told = []
    distill(uniform(matrix_of()), 900, NONE, watch=told.append)
    done = [each.done for each in told]
    assert done[0] == 0  # before the first round
    assert [each for each in done if each] == list(range(1, max(done) + 1))
    assert all(each.done <= each.planned for each in told)
    assert told[-1].rmse < told[0].rmse * 1.2


@pytest.mark.parametrize(
    "matrix", [np.full((5, 4), 2.0), np.array([[1.0]]), np.arange(7.0)[None], np.arange(6.0)[:, None]]
)
def test_tiny_and_constant_matrices(matrix):
    model = distill(uniform(matrix), 2000, NONE)
    assert rmse(model, matrix) < 0.05 * max(np.abs(matrix).max(), 1.0)


def test_too_few_bytes():
    with pytest.raises(InputError, match="max_bytes=100 is too small: a model without any stencil takes"):
        distill(uniform(matrix_of()), 100, NONE)
