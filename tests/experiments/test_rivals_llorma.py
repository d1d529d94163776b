"""Local factorisations."""

from __future__ import annotations

import numpy as np
import pytest
from rivals_planted import error, planted

from rivals import ALS, LLORMA, Ratings
from rivals.llorma import Smoothed, nearness

pytestmark = pytest.mark.full  # `test_rivals_all` holds the essentials of every rival
RAW = ALS(rank=1, ridge=0.01, biases=False, centre=False)


def blocks(seed: int = 0) -> tuple[Ratings, Ratings]:
    """Three groups of rows and of columns; a block of rank one for each on the diagonal, zeros elsewhere, noise 0.1."""
    random = np.random.default_rng(seed)
    M = np.zeros((90, 90))
    for g in range(3):
        M[g * 30 : (g + 1) * 30, g * 30 : (g + 1) * 30] = np.outer(random.uniform(1, 2, 30), random.uniform(1, 2, 30))
    rows, cols = np.nonzero(random.random(M.shape) < 0.5)
    return Ratings.of(rows, cols, M[rows, cols] + random.normal(0, 0.1, len(rows)), M.shape).hold_out()


def test_what_is_locally_of_low_rank_is_found(threads):
    """Rank one everywhere: the global model is left with two of three blocks, the local ones with the noise."""
    train, test = blocks()
    latent = ALS(rank=3, ridge=0.01, biases=False, centre=False, sweeps=30)
    model = LLORMA(40, local=RAW, latent=latent).fit(train, threads=threads)
    assert error(RAW.fit(train, threads=threads), test) > 0.8
    assert error(model, test) < 0.13
    assert model.used_bytes < 0.75 * model.n_bytes
    assert model.n_bytes == 4 * 180 * (3 + 40)


def test_one_anchor_of_infinite_width_is_the_plain_factorisation(threads):
    train, test = planted(40, 30)
    local = ALS(rank=2)
    model = LLORMA(1, np.inf, local).fit(train, seed=3, threads=threads)
    plain = local.fit(train, seed=3, threads=threads)
    np.testing.assert_allclose(model.predict(*test[:2]), plain.predict(*test[:2]), rtol=1e-12)
    assert model.used_bytes == model.n_bytes


def test_out_of_reach_the_global_model_predicts(threads):
    train, test = planted(40, 30)
    model = LLORMA(3, width=1e-6, local=RAW).fit(train, threads=threads)
    rows, cols = test[:2]
    reached = np.any([g[rows] * h[cols] > 0 for _, g, h in model.locals], axis=0)
    assert not reached.all()
    assert np.array_equal(model.predict(rows, cols)[~reached], model.latent.predict(rows, cols)[~reached])


def test_local_models_are_weighted_by_nearness(threads):
    """The columns were solved for last: the weighted gradient of the penalised squares is zero."""
    train, _ = planted(40, 30)
    model = LLORMA(2, local=RAW).fit(train, threads=threads)
    for local, g, h in model.locals:
        left = g[train.rows] * h[train.cols] * (train.values - local.predict(*train[:2]))
        gradient = np.bincount(train.cols, left * local.P[train.rows, 0], 30)
        reached = h > 0
        np.testing.assert_allclose(gradient[reached], RAW.ridge * local.Q[reached, 0], atol=1e-9)


def test_nearness_by_hand():
    """The same direction, 45 degrees (d = 1/2), and at a right angle (d = 1)."""
    vectors = np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    np.testing.assert_allclose(nearness(vectors, 0, 0.8), [1.0, 1.0, 1 - (0.5 / 0.8) ** 2, 0.0, 0.0])


def test_predictions_are_averages_by_nearness(threads):
    train, test = planted(40, 30)
    model = LLORMA(3, local=ALS(rank=2)).fit(train, threads=threads)
    near = np.array([g[test.rows] * h[test.cols] for _, g, h in model.locals])
    each = np.array([local.predict(*test[:2]) for local, _, _ in model.locals])
    reached = near.sum(axis=0) > 0
    twin = (near * each).sum(axis=0)[reached] / near.sum(axis=0)[reached]
    np.testing.assert_allclose(model.predict(*test[:2])[reached], twin)
    assert isinstance(model.first(1), Smoothed)
    assert len(model.first(1).locals) == 1
