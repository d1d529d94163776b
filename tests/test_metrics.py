"""Every measure against a slow twin that spells out its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from accams import metrics
from accams.errors import InputError


def some_ratings(seed=0, size=300, ties=True):
    rng = np.random.default_rng(seed)
    users = rng.choice(["ann", "bob", "cy", "di"], size).tolist()
    truth = rng.integers(1, 6, size).astype(float)
    predicted = truth + rng.normal(size=size)
    return users, truth, np.round(predicted) if ties else predicted


def by_user(users, truth, predicted):
    for user in sorted(set(users)):
        yield [(x, p) for u, x, p in zip(users, truth, predicted, strict=True) if u == user]


def slow_rmse(truth, predicted, weights):
    total = sum(w * (x - p) ** 2 for x, p, w in zip(truth, predicted, weights, strict=True))
    return math.sqrt(total / sum(weights))


def slow_mae(truth, predicted, weights):
    return sum(w * abs(x - p) for x, p, w in zip(truth, predicted, weights, strict=True)) / sum(weights)


def slow_rmse_per_user(users, truth, predicted):
    errors = [math.sqrt(sum((x - p) ** 2 for x, p in pairs) / len(pairs)) for pairs in by_user(users, truth, predicted)]
    return sum(errors) / len(errors)


def slow_fcp(users, truth, predicted):
    concordant = discordant = 0
    for pairs in by_user(users, truth, predicted):
        for x_i, p_i in pairs:
            for x_j, p_j in pairs:
                concordant += x_i > x_j and p_i > p_j
                discordant += x_i < x_j and p_i >= p_j
    return concordant / (concordant + discordant)


@pytest.mark.parametrize("seed", range(3))
def test_errors(seed):
    _, x, p = some_ratings(seed)
    w = np.random.default_rng(9).random(300)
    for fast, slow in ((metrics.rmse, slow_rmse), (metrics.mae, slow_mae)):
        assert fast(x, p) == pytest.approx(slow(x, p, np.ones(300)))
        assert fast(x, p, w) == pytest.approx(slow(x, p, w))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_per_user_measures(seed, ties):
    data = some_ratings(seed, ties=ties)
    assert metrics.rmse_per_user(*data) == pytest.approx(slow_rmse_per_user(*data))
    assert metrics.fcp(*data) == pytest.approx(slow_fcp(*data))


def test_fcp_of_a_user_with_many_ratings():
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(2, 2500))
    above = x[:, None] > x
    expected = (above & (p[:, None] > p)).sum() / above.sum()
    assert metrics.fcp(np.zeros(2500, int), x, p) == pytest.approx(expected)


def test_fcp_extremes():
    users, x = [0, 0, 0, 1], [1.0, 2.0, 3.0, 1.0]
    assert metrics.fcp(users, x, x) == 1
    assert metrics.fcp(users, x, [-1.0, -2.0, -3.0, 0.0]) == 0
    assert metrics.fcp(users, x, [0.0] * 4) == 0
    assert math.isnan(metrics.fcp([0, 1], [1.0, 2.0], [1.0, 2.0]))


def test_errors_refuse():
    with pytest.raises(InputError, match="shape"):
        metrics.rmse([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="weights"):
        metrics.mae([1.0, 2.0], [1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="nothing"):
        metrics.rmse([], [])
    with pytest.raises(InputError, match="users"):
        metrics.fcp([0], [1.0, 2.0], [1.0, 2.0])


def some_lists(seed=0, users=40, items=30, width=8):
    """Return ranked lists, some padded, and relevant items: some users have none, some all."""
    rng = np.random.default_rng(seed)
    ranked = np.stack([rng.permutation(items)[:width] for _ in range(users)])
    for row in ranked[::5]:
        row[rng.integers(width) :] = -1
    relevant = [np.flatnonzero(rng.random(items) < rng.choice([0, 0.05, 0.3, 1.0])) for _ in range(users)]
    return ranked, relevant


def slow(measure):
    def averaged(ranked, relevant, n):
        values = [
            measure([int(item in set(R.tolist())) for item in row[:n]], len(R), n)
            for row, R in zip(ranked.tolist(), relevant, strict=True)
            if len(R)
        ]
        return sum(values) / len(values)

    return averaged


def slow_dcg(hits):
    return sum(h / math.log2(k + 1) for k, h in enumerate(hits, start=1))


TWINS = {
    "ndcg": slow(lambda hits, size, n: slow_dcg(hits) / slow_dcg([1] * min(size, n))),
    "recall": slow(lambda hits, size, n: sum(hits) / size),
    "precision": slow(lambda hits, size, n: sum(hits) / n),
    "hit_rate": slow(lambda hits, size, n: float(any(hits))),
    "mrr": slow(lambda hits, size, n: max([h / k for k, h in enumerate(hits, start=1)])),
    "mean_average_precision": slow(
        lambda hits, size, n: sum(sum(hits[:k]) / k for k, h in enumerate(hits, start=1) if h) / min(size, n)
    ),
}


@pytest.mark.parametrize("n", [None, 1, 3, 8])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_ranking(name, seed, n):
    ranked, relevant = some_lists(seed)
    assert getattr(metrics, name)(ranked, relevant, n) == pytest.approx(TWINS[name](ranked, relevant, n or 8))


@pytest.mark.parametrize("name", sorted(TWINS))
def test_relevant_as_a_sparse_matrix(name):
    ranked, relevant = some_lists()
    table = np.zeros((40, 30))
    for user, items in enumerate(relevant):
        table[user, items] = 4.5
    measure = getattr(metrics, name)
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        assert measure(ranked, kind(table)) == measure(ranked, relevant)
    stored = sparse.csr_array(table)
    stored.data[0] = 0  # a stored zero is not relevant
    assert measure(ranked, stored) == measure(ranked, sparse.csr_array(stored.toarray()))


@pytest.mark.parametrize("n", [None, 1, 4])
def test_coverage(n):
    ranked, _ = some_lists()
    expected = len({item for row in ranked.tolist() for item in row[:n] if item >= 0}) / 30
    assert metrics.coverage(ranked, 30, n) == expected


def test_perfect_lists():
    ranked = [[1, 2, 3], [4, 5, -1]]
    for name in TWINS:
        best = 5 / 6 if name == "precision" else 1.0
        assert getattr(metrics, name)(ranked, [[1, 2, 3], [4, 5]]) == pytest.approx(best)


def test_ranking_refuses():
    with pytest.raises(InputError, match="n must be"):
        metrics.recall([[1, 2]], [[1]], n=3)
    with pytest.raises(InputError, match="twice"):
        metrics.recall([[1, 1]], [[1]])
    with pytest.raises(InputError, match="2 users but relevant items for 1"):
        metrics.recall([[1], [2]], [[1]])
    with pytest.raises(InputError, match="nothing to measure"):
        metrics.recall([[1]], [[]])
    with pytest.raises(InputError, match="2-d array of item positions"):
        metrics.recall([1, 2], [[1]])
    with pytest.raises(InputError, match="must be positions from 0"):
        metrics.recall([[1]], [[-1]])
    with pytest.raises(InputError, match="position 9"):
        metrics.coverage([[9]], 5)
