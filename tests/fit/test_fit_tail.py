"""Labels of items beyond the regression, against dense matrices and brute force."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from accams import InputError
from accams.fit import tail
from accams.fit.itemmap import compressed_map
from accams.fit.items import among, gram_of, masses_of
from accams.fit.regression import Ridge
from accams.fit.tail import extended
from accams.kernels.tail import choose_labels
from accams.model.interactions import Interactions
from accams.model.itemmap import levels_of, scales_of, sum_bytes
from accams.model.stencils import StencilSum

PENALTY = 5.0
RIDGE = Ridge(PENALTY, 0.0)


def choices(n_users: int = 400, n_items: int = 60, seed: int = 0) -> tuple[Interactions, np.ndarray]:
    """People of three tastes; later items are chosen ever more seldom."""
    random = np.random.default_rng(seed)
    fits = random.integers(3, size=n_users)[:, None] == np.arange(n_items) % 3
    chance = np.where(fits, 0.7, 0.1) / (1 + np.arange(n_items) / 12)
    X = (random.random((n_users, n_items)) < chance) * random.choice([0.5, 1.0], (n_users, n_items))
    rows, cols = np.nonzero(X)
    return Interactions.at(rows, cols, n_users, X[rows, cols].astype(np.float32)), X


@cache
def map_of_head() -> tuple[StencilSum, Any, float]:
    """Return a map of the first forty items, their scales, and its price."""
    return compressed_map(gram_of(among(choices()[0], np.arange(40), 60), 40), PENALTY, 2500)


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_no_worse_than_any_single_change(seed):
    random = np.random.default_rng(seed)
    first = np.array([0, 3, 5, 9])
    factor = random.normal(size=(9, 9))
    quadratic, linear, prices = factor @ factor.T, random.normal(0, 3, (6, 9)), random.uniform(0, 0.2, 9)
    labels = np.zeros((6, 3), np.int64)
    for lo, hi in ((0, 2), (2, 6)):
        choose_labels(lo, hi, linear, quadratic, first, prices, 20, labels)

    def cost(j: int, chosen: np.ndarray) -> float:
        v = np.zeros(9)
        v[first[:-1] + chosen] = 1.0
        return float(v @ quadratic @ v - 2 * linear[j] @ v + prices @ v)

    for j in range(6):
        best = cost(j, labels[j])
        lowest = min(cost(j, np.array(each)) for each in product(range(3), range(2), range(4)))
        assert lowest <= best + 1e-9
        for s, k in enumerate((3, 2, 4)):
            for label in range(k):
                other = labels[j].copy()
                other[s] = label
                assert cost(j, other) >= best - 1e-9


@pytest.mark.some(2)
@pytest.mark.parametrize(("cells", "dropout"), [(50, 0.0), (1 << 24, 0.0), (1 << 24, 0.5)])
def test_the_error_of_columns(cells, dropout, monkeypatch):
    """What labels cost is the loss of the regression, up to a constant."""
    monkeypatch.setattr(tail, "CELLS", cells)
    some, X = choices()
    levels = levels_of(masses_of(some, 60))
    head, rest = np.arange(40), np.arange(40, 60)
    scales = scales_of(levels, PENALTY)
    small, _, _ = map_of_head()
    templates = [np.pad(T.astype(float), ((0, 1), (0, 1))) for T in small.templates]
    rows = tail.Options.of(small.row_labels, [len(T) for T in templates], head, 60)
    cols = tail.Options.of(small.col_labels, [T.shape[1] for T in templates], head, 60)
    told, held, linear = tail.error_of_columns(rows, templates, head, rest, some, scales, Ridge(PENALTY, dropout))
    quadratic = told + held
    random = np.random.default_rng(0)
    for j in (0, 7, 19):
        v, column = np.zeros(cols.number), np.zeros(60)
        for s, T in enumerate(templates):
            label = random.integers(T.shape[1])
            v[cols.first[s] + label] = 1.0
            column[head] += T[rows.labels[head, s], label] / scales[head]
        target = X[:, rest[j]]
        loss = (1.0 - dropout) * (np.sum((target - X @ column) ** 2) - np.sum(target**2))
        loss += np.sum((PENALTY + dropout * np.sum(X**2, axis=0)) * column**2)
        assert v @ quadratic @ v - 2 * linear[j] @ v == pytest.approx(loss, rel=1e-5, abs=1e-6)


def test_a_map_of_all_items():
    some, X = choices()
    levels = levels_of(masses_of(some, 60))
    head = np.sort(np.argsort(-masses_of(some, 60), kind="stable")[:40])
    small, scales, price = compressed_map(gram_of(among(some, head, 60), 40), PENALTY, 2500)
    whole = extended(small, price, head, some, levels, RIDGE, 4000)
    assert whole.shape == (60, 60)
    assert sum_bytes(whole, levels) <= 4000
    every = scales_of(levels, PENALTY)
    np.testing.assert_array_equal(every[head], scales)
    np.testing.assert_array_equal(whole.dense()[np.ix_(head, head)], small.dense())
    rest = np.setdiff1d(np.arange(60), head)
    assert not whole.dense()[rest].any()  # they say nothing of others
    B = whole.dense() / every[:, None]
    np.fill_diagonal(B, 0.0)
    nothing = np.sum(X[:, rest] ** 2)
    assert np.sum((X[:, rest] - X @ B[:, rest]) ** 2) + PENALTY * np.sum(B[:, rest] ** 2) < nothing
    dear = extended(small, 1e9, head, some, levels, RIDGE, 4000)
    assert not dear.dense()[:, rest].any()


def test_too_few_bytes_and_no_stencils(monkeypatch):
    some, _ = choices()
    levels, head = levels_of(masses_of(some, 60)), np.arange(40)
    small, _, price = map_of_head()
    with pytest.raises(InputError, match="100 bytes are too few for a map of 60 items"):
        extended(small, price, head, some, levels, RIDGE, 100)
    nothing = extended(small.truncate(0), price, head, some, levels, RIDGE, 2000)
    assert (nothing.shape, len(nothing)) == ((60, 60), 0)
