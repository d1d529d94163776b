"""X'X, and the ridge that is chosen on held-out choices."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from accams.fit import items
from accams.fit.items import Trial, among, chosen_ridge, first_penalty, gram_of, masses_of
from accams.fit.regression import Ridge, dropped, solved
from accams.model.interactions import Interactions


def tastes(n_users: int = 300, n_items: int = 30, seed: int = 0) -> Interactions:
    random = np.random.default_rng(seed)
    chance = np.where(random.integers(3, size=n_users)[:, None] == np.arange(n_items) % 3, 0.5, 0.05)
    rows, cols = np.nonzero(random.random((n_users, n_items)) < chance)
    return Interactions.at(rows, cols, n_users, random.choice([0.3, 1.0], len(rows)).astype(np.float32))


def dense(choices: Interactions, size: int) -> np.ndarray:
    out = np.zeros((len(choices.starts) - 1, size))
    rows = np.repeat(np.arange(len(out)), np.diff(choices.starts))
    out[rows, choices.columns] = 1.0 if choices.weights is None else choices.weights
    return out


@pytest.mark.parametrize("cells", [1, 64, 1 << 24])
@pytest.mark.parametrize("some", [None, [4, 2, 11]])
@pytest.mark.parametrize("weighted", [True, False])
def test_gram(cells, some, weighted, monkeypatch):
    monkeypatch.setattr(items, "CELLS", cells)
    choices = tastes()
    if not weighted:
        choices = Interactions(choices.starts, choices.columns)
    X = dense(choices, 33)
    np.testing.assert_allclose(masses_of(choices, 33), np.square(X).sum(axis=0), rtol=1e-6)
    if some is not None:
        choices, X = among(choices, np.array(some), 33), X[:, some]
    np.testing.assert_allclose(gram_of(choices, X.shape[1]), X.T @ X, rtol=1e-6)


def test_a_trial_hides_what_is_to_be_found():
    choices = tastes()
    gram = gram_of(choices, 30)
    trial = Trial.of(choices, gram, seed=0)
    assert trial is not None
    assert not (trial.seen & trial.wanted).any()
    assert trial.wanted.any(axis=1).all()
    np.testing.assert_array_equal(trial.seen, trial.given > 0)
    assert set(np.unique(trial.given)) <= {0.0, np.float32(0.3), 1.0}
    assert np.linalg.eigvalsh(trial.gram).min() > -1e-6  # that of the other users
    again = Trial.of(choices, gram, seed=0)
    np.testing.assert_array_equal(trial.wanted, again.wanted)
    assert not np.array_equal(trial.given, Trial.of(choices, gram, seed=1).given)


def test_ndcg_of_a_trial_by_hand():
    """Two users, three items: the map says nothing, so that lists are in the order of the items."""
    wanted = np.array([[False, False, True], [False, True, True]])
    seen = np.array([[True, False, False], [True, False, False]])
    trial = Trial(np.arange(3), np.eye(3), seen.astype(float), seen, wanted)
    first = (1 / np.log2(3)) / 1.0  # found second
    assert trial.ndcg(Ridge(1.0, 0.0)) == pytest.approx((first + 1.0) / 2)


def test_the_ridge_is_the_best_of_those_around_it():
    choices = tastes()
    gram = gram_of(choices, 30)
    told = []
    best = chosen_ridge(
        lambda: Trial.of(choices, gram, 0), gram, watch=lambda done, planned: told.append((done, planned))
    )
    trial = Trial.of(choices, gram, 0)
    near = [Ridge(best.penalty * factor, best.dropout) for factor in (0.5, 2.0)]
    near += [Ridge(best.penalty, 1.0 - (1.0 - best.dropout) * factor) for factor in (0.5, 2.0)]
    assert all(trial.ndcg(best) >= trial.ndcg(other) for other in near if 0.0 <= other.dropout < 0.985)
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert all(planned >= done for done, planned in told)


def test_what_is_given_stays():
    choices = tastes()
    gram, told = gram_of(choices, 30), []
    assert chosen_ridge(lambda: Trial.of(choices, gram, 0), gram, 7.0, 0.25, lambda *both: told.append(both)) == (
        7.0,
        0.25,
    )
    assert told == []  # nothing was tried
    assert chosen_ridge(lambda: Trial.of(choices, gram, 0), gram, penalty=7.0).penalty == 7.0
    assert chosen_ridge(lambda: Trial.of(choices, gram, 0), gram, dropout=0.25).dropout == 0.25


def test_a_trial_by_time():
    """Late choices are to be found from earlier ones, of users who have both; the gram knows nothing of them."""
    choices = tastes(60)
    late = np.random.default_rng(1).random(len(choices)) < 0.3
    trial = Trial.by_time(choices, late, 30, 0)
    before, after = np.zeros((2, 60, 30))
    rows = np.repeat(np.arange(60), np.diff(choices.starts))
    before[rows[~late], choices.columns[~late]] = choices.weights[~late]
    after[rows[late], choices.columns[late]] = choices.weights[late]
    largest = np.maximum(before, after).max(axis=1, keepdims=True)
    wanted = (after > 0) & (after >= 0.5 * largest)
    both = before.any(axis=1) & wanted.any(axis=1)
    np.testing.assert_array_equal(trial.items, np.arange(30))
    np.testing.assert_allclose(trial.gram, before.T @ before, rtol=1e-6)
    np.testing.assert_array_equal(trial.seen, before[both] > 0)
    np.testing.assert_array_equal(trial.given, before[both])
    np.testing.assert_array_equal(trial.wanted, wanted[both])
    assert Trial.by_time(choices, np.ones(len(choices), bool), 30, 0) is None


@pytest.mark.parametrize("n_users", [1, 30])
def test_of_few_users_a_ridge_is_taken_by_rule(n_users):
    choices = tastes(n_users)
    gram = gram_of(choices, 30)
    assert chosen_ridge(lambda: Trial.of(choices, gram, 0), gram) == (first_penalty(gram), 0.5)
    assert first_penalty(gram) > 0
    assert first_penalty(np.zeros((2, 2))) == 1.0


def test_dropout_is_the_mean_over_what_is_dropped():
    """The map under dropout minimises the expected error over all subsets of the choices, by enumeration."""
    random, p, penalty = np.random.default_rng(3), 0.4, 0.3
    X = random.integers(0, 2, (6, 3)) * random.uniform(0.5, 1.0, (6, 3))
    B = solved(dropped(X.T @ X, p), penalty)

    def loss(B):
        total = 0.0
        for mask in product((0.0, 1.0), repeat=3):
            chance = np.prod([1.0 - p if kept else p for kept in mask])
            total += chance * np.sum((X - (X * mask / (1.0 - p)) @ B) ** 2)
        return (1.0 - p) * total + penalty * np.sum(B**2)

    for i, j in permutations(range(3), 2):
        for by in (-1e-3, 1e-3):
            other = B.copy()
            other[i, j] += by
            assert loss(other) > loss(B)
