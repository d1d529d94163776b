"""Encodings against brute force: error, templates, labels and pruning."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from accams.fit.encode import Encoding
from accams.fit.price import step_for
from accams.fit.target import of_matrix
from accams.model.stencils import StencilSum
from accams.threads import Threads

SHAPE = (23, 17)


def random_target(seed: int = 0, shape=SHAPE):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(shape[0], 5)) @ random.normal(size=(5, shape[1])) + 3.0
    return matrix, of_matrix(matrix, random.gamma(2, size=shape[0]), random.gamma(2, size=shape[1]), min(shape))


def random_encoding(seed: int = 0, shapes=((3, 2), (4, 5), (1, 3))) -> tuple[np.ndarray, Encoding]:
    matrix, target = random_target(seed)
    random = np.random.default_rng([seed, 1])
    labels = [
        np.stack([random.integers(0, k[axis], size) for k in shapes], axis=1).astype(np.uint16)
        for axis, size in enumerate(SHAPE)
    ]
    return matrix, Encoding(target, labels, [random.normal(size=k) for k in shapes], Threads(1))


def dense(encoding: Encoding) -> np.ndarray:
    rows, cols = encoding.labels
    parts = [T[rows[:, l]][:, cols[:, l]] for l, T in enumerate(encoding.templates)]
    return encoding.target.offset + np.sum([np.zeros(SHAPE), *parts], axis=0)


def squared_error(matrix: np.ndarray, encoding: Encoding) -> float:
    weights = np.outer(encoding.target.row_weights, encoding.target.col_weights)
    return float((weights * (matrix - dense(encoding)) ** 2).sum())


def cost(matrix: np.ndarray, encoding: Encoding, prices) -> float:
    """Return the squared error plus the price of all label codes."""
    total = squared_error(matrix, encoding)
    for axis, each in enumerate(prices):
        total += float(each[encoding.first(axis)[:-1] + encoding.labels[axis]].sum())
    return total


@pytest.mark.parametrize("seed", range(4))
def test_error(seed):
    matrix, encoding = random_encoding(seed)
    nothing = float(
        (
            np.outer(encoding.target.row_weights, encoding.target.col_weights) * (matrix - encoding.target.offset) ** 2
        ).sum()
    )
    assert encoding.error() == pytest.approx(squared_error(matrix, encoding) - nothing, rel=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(4))
def test_templates_are_least_squares(seed):
    matrix, encoding = random_encoding(seed)
    encoding.refit(200)
    design = np.concatenate(
        [
            np.stack([np.outer(c == a, d == b).ravel() for a, b in product(*map(range, T.shape))], axis=1)
            for T, c, d in zip(encoding.templates, encoding.labels[0].T, encoding.labels[1].T, strict=True)
        ],
        axis=1,
    ).astype(float)
    root = np.sqrt(np.outer(encoding.target.row_weights, encoding.target.col_weights)).ravel()
    wanted = (matrix - encoding.target.offset).ravel()
    best = np.linalg.lstsq(design * root[:, None], wanted * root, rcond=None)[0]
    least = float(np.square((design @ best - wanted) * root).sum())
    assert squared_error(matrix, encoding) == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("price", [0.0, 0.5])
@pytest.mark.parametrize("axis", [0, 1])
def test_no_single_label_can_be_better(axis, price):
    """After an update no change of a single label lowers the cost, and the cost has fallen."""
    matrix, encoding = random_encoding(3)
    prices = [price * encoding.bits(side) if side == axis else np.zeros(encoding.first(side)[-1]) for side in (0, 1)]
    before = cost(matrix, encoding, prices)
    for _ in range(5):  # four passes each: enough for convergence
        kept = encoding.bits
        encoding.bits = lambda side: prices[side] / max(price, 1e-300)
        encoding.improve_labels(axis, price)
        encoding.bits = kept
    after = cost(matrix, encoding, prices)
    assert after < before
    labels = encoding.labels[axis]
    for i, l in product(range(0, SHAPE[axis], 3), range(labels.shape[1])):
        old = labels[i, l]
        for new in range(encoding.templates[l].shape[axis]):
            labels[i, l] = new
            assert cost(matrix, encoding, prices) >= after - 1e-6 * abs(after)
        labels[i, l] = old


@pytest.mark.parametrize("axis", [0, 1])
def test_threads_change_nothing(axis):
    found = []
    for n_threads in (1, 2):
        _, encoding = random_encoding(1)
        encoding.threads = Threads(n_threads, chunk_size=50)
        encoding.improve_labels(axis, 0.2)
        found.append(encoding.labels[axis])
    np.testing.assert_array_equal(*found)


def test_a_higher_price_takes_fewer_bits():
    sizes = []
    for price in (0.0, 1.0, 10.0, 1000.0):
        _, encoding = random_encoding(2)
        for _ in range(10):
            encoding.improve_labels(0, price)
            encoding.refit()
            encoding.improve_labels(1, price)
            encoding.refit()
        encoding.compact()
        sizes.append(encoding.all_bits())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 4


def test_compact_changes_no_prediction():
    _, encoding = random_encoding()
    encoding.labels[0][encoding.labels[0] == 1] = 0
    before = dense(encoding)
    encoding.compact()
    np.testing.assert_array_equal(dense(encoding), before)
    for axis in (0, 1):
        assert (encoding.counts(axis) > 0).all()


def test_what_is_dropped_does_not_pay():
    matrix, encoding = random_encoding()
    encoding.refit(200)
    errors = []
    for l in range(3):
        _, other = random_encoding()
        other.templates = [T.copy() for T in encoding.templates]
        other.drop(l)
        errors.append(squared_error(matrix, other) - squared_error(matrix, encoding))
    np.testing.assert_allclose(encoding._gains(), errors, rtol=1e-6)
    assert encoding.prune(0.0) == 0
    while encoding.templates:
        assert encoding.prune(1e9) == 1
    assert encoding.error() == 0.0


def test_steps_of_templates():
    """No other step has a lower sum of rounding error and price of bits."""
    price, weight, k = 0.3, 200.0, (4, 5)
    entries = np.random.default_rng(0).normal(0, 20, 100_000)

    def total(step: float) -> float:
        whole = np.rint(entries / step)
        counts = np.unique(whole, return_counts=True)[1] / len(entries)
        error = weight / (k[0] * k[1]) * np.mean((entries - step * whole) ** 2)
        return float(error - price * counts @ np.log2(counts))

    step = step_for(price, k, weight)
    tried = [total(step * factor) for factor in (0.5, 0.7, 1.0, 1.4, 2.0)]
    assert np.argmin(tried) == 2


def test_a_sum_and_back():
    _, encoding = random_encoding()
    model = encoding.to_sum(1e-6, (np.zeros(0, np.int64),) * 2)
    assert isinstance(model, StencilSum)
    np.testing.assert_allclose(model.dense(), dense(encoding), atol=1e-2)
    again = Encoding.of(model, encoding.target, Threads(1))
    np.testing.assert_allclose(dense(again), model.dense(), rtol=1e-6)
    assert [b - a for a, b in pairwise(again.first(0))] == [3, 4, 1]
