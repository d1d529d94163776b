"""The item-item regression, and stencil sums in place of its map: against dense matrices and brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from accams import InputError
from accams.fit.itemmap import Map, Problem, compressed_map
from accams.fit.regression import leading, solved
from accams.kernels import itemmap as kernels
from accams.model import file
from accams.threads import Threads

PENALTY = 3.0


def choices(n_users: int = 90, n_items: int = 14, seed: int = 0) -> np.ndarray:
    """What people of three tastes chose, some items more often than others."""
    random = np.random.default_rng(seed)
    taste, kind = random.integers(3, size=n_users), random.integers(3, size=n_items)
    chance = np.where(taste[:, None] == kind, 0.6, 0.1) * random.uniform(0.3, 1.0, n_items)
    return (random.random((n_users, n_items)) < chance).astype(float)


def loss(X: np.ndarray, B: np.ndarray) -> float:
    return float(np.sum((X - X @ B) ** 2) + PENALTY * np.sum(B**2))


def a_map(seed: int = 0, n_items: int = 14, n_stencils: int = 2, n_threads: int = 1) -> Map:
    """A map of random stencils."""
    X, random = choices(n_items=n_items, seed=seed), np.random.default_rng(seed)
    model = Map(Problem.of(X.T @ X, PENALTY), Threads(n_threads, chunk_size=40 if n_threads > 1 else None))
    for _ in range(n_stencils):
        labels = [np.append(np.arange(k), random.integers(k, size=n_items - k)) for k in (3, 4)]
        model.add(*labels, random.normal(0, 0.1, (3, 4)))
    return model


def error_of(model: Map, scaled: np.ndarray) -> float:
    """The error of a dense scaled map, by definition; float32 metric and target in double precision."""
    problem, off = model.problem, scaled - np.diag(np.diagonal(scaled))
    return float(np.sum(off * (problem.metric.astype(float) @ off)) - 2.0 * np.sum(off * problem.target))


def with_part(model: Map, l: int, rows: np.ndarray, cols: np.ndarray, template: np.ndarray) -> np.ndarray:
    """The dense map with another stencil in place of one."""
    out = np.zeros((model.problem.size,) * 2)
    for m, part in enumerate(model.parts):
        out += template[rows][:, cols] if m == l else part.template[part.rows][:, part.cols]
    return out


# -- the regression -----------------------------------------------------------------------------------------------


def test_the_regression_column_by_column() -> None:
    X = choices()
    found = solved(X.T @ X, PENALTY)
    for j in range(X.shape[1]):
        others = np.delete(np.arange(X.shape[1]), j)
        gram = X[:, others].T @ X[:, others] + PENALTY * np.eye(len(others))
        np.testing.assert_allclose(found[others, j], np.linalg.solve(gram, X[:, others].T @ X[:, j]), atol=1e-10)
    assert not np.diagonal(found).any()


def test_another_map_is_worse_by_its_error_in_the_metric() -> None:
    X, model = choices(), a_map()
    best, other = solved(X.T @ X, PENALTY), model.scaled() / model.problem.scales[:, None]
    metric = X.T @ X + PENALTY * np.eye(X.shape[1])
    more = np.sum((best - other) * (metric @ (best - other)))
    assert loss(X, other) - loss(X, best) == pytest.approx(more)
    assert loss(X, other) - loss(X, 0.0 * best) == pytest.approx(model.error(), rel=1e-5)


def test_leading_directions() -> None:
    """No map of the same rank is better in the metric than what an SVD of A^1/2 B gives."""
    X = choices(n_items=30)
    best, metric = solved(X.T @ X, PENALTY), X.T @ X + PENALTY * np.eye(30)
    values, vectors = np.linalg.eigh(metric)
    root = (vectors * np.sqrt(values)) @ vectors.T
    left, sizes, right = np.linalg.svd(root @ best)
    found = leading(X.T @ X, PENALTY, best, 4, np.random.default_rng(0))
    np.testing.assert_allclose(found.sizes, sizes[:4], rtol=1e-3)
    truth = np.linalg.solve(root, (left[:, :4] * sizes[:4]) @ right[:4])
    np.testing.assert_allclose(found.rows @ found.cols.T, truth, atol=1e-2 * np.abs(truth).max())


def test_no_penalty() -> None:
    with pytest.raises(InputError, match="cannot be solved with a penalty of 0: give a larger one"):
        solved(np.ones((4, 4)), 0.0)


# -- one stencil ----------------------------------------------------------------------------------------------------


def test_what_is_left() -> None:
    model = a_map()
    expected = model.problem.target - model.problem.metric @ model.scaled()
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(model.left, expected, atol=1e-4)
    assert model.error() == pytest.approx(error_of(model, model.scaled()), rel=1e-5)


def test_rows_move_to_where_the_error_is_lower() -> None:
    """Each move is the best one at its time, and sums stay those of the labels."""
    model, prices = a_map(seed=1), np.array([[0.02, 0.01, 0.03], [0.0, 0.05, 0.01]])
    part, metric, n = model.parts[1], model.problem.metric, model.problem.size
    rows, sums, gradient = part.rows.copy(), part.sums.copy(), np.zeros((4, n))
    kernels.label_sums(0, n, model.left, part.cols, gradient)
    counts = np.bincount(part.cols, minlength=4).astype(float)
    expected = part.rows.copy()
    for i in range(n):
        costs = []
        for label in range(3):
            tried = expected.copy()
            tried[i] = label
            costs.append(error_of(model, with_part(model, 1, tried, part.cols, part.template)) + prices[i % 2, label])
        expected[i] = int(np.argmin(costs))
    now = part.lines, part.cols, counts, np.arange(n) % 2, prices, gradient
    moved = kernels.improve_rows(metric, np.arange(n), part.template, *now, rows, sums)
    np.testing.assert_array_equal(rows, expected)
    assert moved == np.count_nonzero(rows != part.rows) > 3
    again = np.zeros_like(sums)
    kernels.label_sums(0, n, metric, rows, again)
    np.testing.assert_allclose(sums, again, atol=1e-4)


def test_columns_take_their_best_labels() -> None:
    model, prices = a_map(seed=2), np.array([[0.02, 0.01, 0.03, 0.0], [0.0, 0.0, 0.05, 0.05]])
    part, n = model.parts[0], model.problem.size
    wanted, between = model._wanted(part, part.rows, part.sums)
    square = np.einsum("aq,ab,bq->q", part.template, between, part.template)
    found = np.zeros(n, np.int64)
    given = wanted, part.sums, model.problem.metric, part.rows, part.template, square, np.arange(n) % 2, prices
    kernels.improve_cols(0, n, *given, found)
    for j in range(n):
        costs = []
        for label in range(4):
            tried = part.cols.copy()
            tried[j] = label
            costs.append(error_of(model, with_part(model, 0, part.rows, tried, part.template)) + prices[j % 2, label])
        assert found[j] == int(np.argmin(costs))


def test_the_best_template() -> None:
    """No entry can be changed for the better."""
    model = a_map(seed=3)
    model.add(model.parts[0].cols % 3, model.parts[1].cols)
    part, lowest = model.parts[2], model.error()
    for step in np.concatenate([1e-2 * np.eye(12), -1e-2 * np.eye(12)]).reshape(24, 3, 4):
        assert error_of(model, with_part(model, 2, part.rows, part.cols, part.template + step)) > lowest


def test_rounds_lower_the_error_and_prices_the_bits() -> None:
    model, dear = a_map(seed=4, n_items=40), a_map(seed=4, n_items=40)
    errors = [model.error()]
    for _ in range(4):
        model.round(0.0)
        dear.round(0.05)
        errors.append(model.error())
    assert all(after <= before + 1e-6 for before, after in pairwise(errors))
    assert errors[-1] < 0.0 < errors[0]
    assert sum(part.template.size for part in dear.parts) < sum(part.template.size for part in model.parts)
    expected = model.problem.target - model.problem.metric @ model.scaled()
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(model.left, expected, atol=1e-3)


def test_threads_do_not_matter() -> None:
    one, two = a_map(seed=5, n_items=40), a_map(seed=5, n_items=40, n_threads=2)
    for model in (one, two):
        model.round(0.01)
        model.round(0.01)
    np.testing.assert_array_equal(one.scaled(), two.scaled())


# -- the whole map ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1200, 3000])
@pytest.mark.some(1)
def test_a_map_in_few_bytes(max_bytes: int) -> None:
    """It fits, and keeps most of what the regression explains; more bytes, more of it."""
    X = choices(600, 150, seed=6)
    gram, seen = X.T @ X, list[tuple[int, int]]()
    small, scales, _ = compressed_map(gram, PENALTY, max_bytes, watch=lambda *x: seen.append(x))
    assert 0.5 * max_bytes < len(file.to_bytes(small)) <= max_bytes
    made = small.dense() / scales[:, None]
    np.fill_diagonal(made, 0.0)
    best = loss(X, solved(gram, PENALTY))
    explained = (loss(X, 0.0 * made) - loss(X, made)) / (loss(X, 0.0 * made) - best)
    assert explained > {1200: 0.6, 3000: 0.7}[max_bytes]
    assert seen[-1][0] == seen[-1][1]
    again, _, _ = compressed_map(gram, PENALTY, max_bytes, threads=Threads(2))
    assert file.to_bytes(again) == file.to_bytes(small)


@pytest.mark.some(2)
@pytest.mark.parametrize(("n_items", "max_bytes"), [(14, 1000), (14, 9000), (40, 1500), (40, 12_000)])
def test_more_bytes_than_labels_need(n_items: int, max_bytes: int) -> None:
    """Templates take most of a small map's file: they count when the first price is chosen."""
    X = choices(600, n_items, seed=1)
    small, scales, _ = compressed_map(X.T @ X, PENALTY, max_bytes)
    made = small.dense() / scales[:, None]
    np.fill_diagonal(made, 0.0)
    best = loss(X, solved(X.T @ X, PENALTY))
    assert len(file.to_bytes(small)) <= max_bytes
    assert loss(X, 0.0 * made) - loss(X, made) > 0.9 * (loss(X, 0.0 * made) - best)


def test_items_that_nobody_chose_and_single_items() -> None:
    X = choices(300, 30, seed=2)
    X[:, 4] = 0.0
    small, scales, _ = compressed_map(X.T @ X, PENALTY, 1500)
    assert len(small) > 0
    assert np.isfinite(scales).all()
    assert np.isfinite(small.dense()).all()
    assert not len(compressed_map(X[:, :1].T @ X[:, :1], PENALTY, 1500)[0])


def test_too_few_bytes() -> None:
    X = choices()
    with pytest.raises(InputError, match="max_bytes=50 is too small: a map without any stencil takes"):
        compressed_map(X.T @ X, PENALTY, 50)
