"""Rounds of local regressions: what is held out, how predictions are blended, and how sure they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.fit.completing import LEAST, Fold, blend_weights, complete, disagreement, fit_spread, held_out
from accams.fit.scaling import Scaling, moments
from accams.threads import Threads


def planted(rows: int = 150, cols: int = 12, share: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    full = random.normal(size=(rows, 3)) @ random.normal(size=(3, cols)) + 0.1 * random.normal(size=(rows, cols))
    return full, random.random(full.shape) >= share


@given(st.integers(2, 30), st.integers(1, 8), st.floats(0, 0.9), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_held_out_cells_are_known_and_leave_something(rows: int, cols: int, share: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    known = random.random((rows, cols)) >= share
    held = held_out(known, random)
    left = known & ~held
    assert not (held & ~known).any()
    assert ((left.sum(axis=0) >= 2) | (left.sum(axis=0) == known.sum(axis=0))).all()
    assert (left.any(axis=1) == known.any(axis=1)).all()


def test_cells_are_held_out_as_they_are_missing() -> None:
    known = np.ones((400, 20), bool)
    known[::2, :10] = False  # half of the rows lack the first half
    held = held_out(known, np.random.default_rng(0))
    assert held.sum() >= 0.05 * known.sum()
    assert not held[:, 10:].any()
    assert set(held[1::2].sum(axis=1).tolist()) <= {0, 10}


def test_a_sparse_column_keeps_most_of_its_cells() -> None:
    known = np.random.default_rng(0).random((300, 12)) >= 0.9
    held = held_out(known, np.random.default_rng(0))
    assert held.sum() > 0.1 * known.sum()
    assert (held.sum(axis=0) <= 0.45 * known.sum(axis=0)).all()


def test_a_matrix_without_gaps_is_held_out_at_random() -> None:
    held = held_out(np.ones((400, 20), bool), np.random.default_rng(0))
    assert held.sum() == LEAST


def test_weights_are_shares_of_what_predicts() -> None:
    truth = np.random.default_rng(0).normal(size=5000)
    noise = np.random.default_rng(1).normal(size=(3, 5000))
    parts = np.stack([truth + 0.1 * noise[0], truth + 3.0 * noise[1], noise[2]])
    weights = blend_weights(parts, truth)
    assert (weights >= 0).all()
    assert weights[0] > 0.9
    np.testing.assert_allclose(blend_weights(parts[1:, :3], np.zeros(3)).sum(), 0.5, atol=0.5)


def test_disagreement_is_a_weighted_variance() -> None:
    parts = np.array([[1.0, 2.0], [3.0, 2.0]])
    np.testing.assert_allclose(disagreement(parts, np.array([0.5, 0.5])), [1.0, 0.0])
    np.testing.assert_allclose(disagreement(parts, np.array([0.0, 2.0])), [0.0, 0.0])


@pytest.mark.parametrize("by_rows", [True, False])
def test_regressions_beat_the_first_prediction(by_rows: bool) -> None:
    full, known = planted()
    held = held_out(known, np.random.default_rng(1))
    start = np.zeros(full.shape)
    F, std, rounds = complete(np.where(known, full, 0.0), known, [Fold(held, start)], Threads(1), by_rows)
    error = np.sqrt(np.mean((F - full)[~known] ** 2))
    assert error < 0.4 * full.std()
    assert rounds.errors == sorted(rounds.errors, reverse=True)
    assert all((step.both is not None) == by_rows for step in rounds.steps)
    np.testing.assert_array_equal(F[known], full[known])
    assert (std[~known] > 0).all()
    assert not std[known].any()
    covered = np.mean(np.abs(F - full)[~known] <= 1.645 * std[~known])
    assert covered > 0.85


def test_noise_keeps_the_first_prediction() -> None:
    random = np.random.default_rng(0)
    full, known = random.normal(size=(300, 8)), random.random((300, 8)) < 0.7
    held = held_out(known, random)
    F, _, _ = complete(np.where(known, full, 0.0), known, [Fold(held, np.zeros(full.shape))], Threads(1))
    assert np.sqrt(np.mean((F - full)[~known] ** 2)) < 1.02 * np.sqrt(np.mean(full[~known] ** 2))


def test_spread_covers_nine_tenths() -> None:
    random = np.random.default_rng(0)
    cols, variance = random.integers(5, size=4000), random.gamma(1.0, size=4000)
    residual = random.standard_normal(4000) * np.sqrt(0.5 + cols + 2.0 * variance)
    spread = fit_spread(residual, cols, variance, 5)
    covered = np.abs(residual) <= 1.645 * spread.of(cols, variance)
    assert covered.mean() == pytest.approx(0.9, abs=0.005)
    assert all(0.85 < covered[cols == j].mean() < 0.95 for j in range(5))
    assert fit_spread(residual[:0], cols[:0], variance[:0], 5).of(cols, variance).min() > 0


def test_an_outlier_changes_neither_scale_nor_limits() -> None:
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 1e-9, 1e9]
    wild = X.copy()
    wild[0] = X[0] + 1e6 * np.array([1.0, 1e-9, 1e9])
    one, two = Scaling.of(X), Scaling.of(wild)
    np.testing.assert_allclose(one.scale, two.scale, rtol=0.02)
    assert np.abs(two.scaled(wild)).max() <= 10.0
    np.testing.assert_allclose(two.unscaled(two.scaled(X)), X, rtol=1e-9)


def test_rare_values_far_away_are_not_cut() -> None:
    random = np.random.default_rng(0)
    X = np.where(random.random((1000, 2)) < [0.15, 0.5], 100.0, 0.0) + random.normal(0, 3, (1000, 2))
    scaling = Scaling.of(X, "columns")
    assert np.mean(np.abs(scaling.unscaled(scaling.scaled(X)) - X) > 1e-9) <= 0.02


def test_columns_of_one_unit_are_not_scaled_apart() -> None:
    random = np.random.default_rng(0)
    pixels = random.uniform(0, 255, size=(200, 30))
    assert np.ptp(Scaling.of(pixels).scale) == 0.0
    mixed = pixels * np.geomspace(0.01, 100, 30)
    assert np.ptp(Scaling.of(mixed).scale) > 0.0
    assert np.ptp(Scaling.of(mixed, None).scale) == 0.0
    assert np.ptp(Scaling.of(pixels, "columns").scale) > 0.0


def test_a_column_that_is_mostly_constant_is_scaled_by_its_deviation() -> None:
    X = np.zeros((100, 1))
    X[:10] = 1.0
    _, robust, trimmed, _ = moments(X)
    np.testing.assert_allclose(robust, trimmed)
    np.testing.assert_allclose(trimmed, 0.3)


def test_rows_of_sparse_data_keep_most_of_their_cells() -> None:
    known = np.random.default_rng(0).random((500, 200)) < 0.1
    held = held_out(known, np.random.default_rng(1))
    assert held.sum() >= 0.04 * known.sum()
    assert (held.sum(axis=1) <= 0.6 * known.sum(axis=1)).all()
