"""Factorisations, and the same in few bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from rivals_planted import NOISE, error, planted

from rivals import ALS, SGD, Factorisation, quantise
from rivals.quantise import encode


def test_least_squares_only_fall(threads):
    """The penalised squares after more sweeps are no larger."""
    train, _ = planted(60, 50)
    losses = []
    for sweeps in (1, 2, 4, 8):
        model = ALS(rank=2, ridge=3.0, bias_ridge=2.0, sweeps=sweeps).fit(train, threads=threads)
        penalty = 3.0 * ((model.P**2).sum() + (model.Q**2).sum())
        penalty += 2.0 * ((model.row_bias**2).sum() + (model.col_bias**2).sum())
        losses.append(((model.predict(*train[:2]) - train.values) ** 2).sum() + penalty)
    assert all(a >= b for a, b in pairwise(losses))


@pytest.mark.parametrize("als", [ALS(rank=2), ALS(rank=2, ridge=0.05, weighted=True)])
def test_weights_of_two_are_every_rating_twice(als, threads):
    train, test = planted(40, 30)
    twice = train.take(np.tile(np.arange(len(train.values)), 2))
    heavy = als.fit(train, threads=threads, weights=(np.full(40, 2.0), np.ones(30)))
    np.testing.assert_allclose(heavy.predict(*test[:2]), als.fit(twice, threads=threads).predict(*test[:2]), rtol=1e-8)


def test_uncentred_without_biases_needs_two_more_factors(threads):
    train, test = planted()
    model = ALS(rank=5, ridge=0.02, biases=False, centre=False, sweeps=40).fit(train, threads=threads)
    assert model.mean == 0
    assert error(model, test) < 1.3 * NOISE


def test_a_row_without_ratings_is_the_average_row(threads):
    train, _ = planted(40, 30)
    model = ALS(rank=3, biases=False, centre=False).fit(train.take(train.rows != 5), threads=threads)
    every = model.P @ model.Q.T
    np.testing.assert_allclose(every[5], np.delete(every, 5, axis=0).mean(axis=0))


@pytest.mark.parametrize("biases", [False, True])
def test_bytes_and_the_factored_form(biases, threads):
    train, test = planted(40, 30)
    model = ALS(rank=2, biases=biases).fit(train, threads=threads)
    assert model.n_bytes == 4 * (2 + biases) * 70
    left, right = model.factored()
    np.testing.assert_allclose((left @ right.T)[test.rows, test.cols], model.predict(*test[:2]))


@pytest.mark.parametrize("scale", ["float16", "float32"])
@pytest.mark.parametrize("bits", [4, 8])
def test_rounding_is_within_half_a_step(bits, scale):
    factor = np.random.default_rng(0).normal(size=(50, 7)) * np.logspace(-6, 1, 50)[:, None]
    factor[3] = 0.0
    codes = encode(factor, bits, scale)
    assert np.abs(codes.levels).max() <= 2 ** (bits - 1) - 1
    assert np.all(np.abs(codes.decoded() - factor) <= 0.5 * codes.scales.astype(np.float64)[:, None] * (1 + 1e-9))
    assert not codes.decoded()[3].any()


def test_bytes_of_codes_are_exact(threads):
    """Seven numbers at four bits are four bytes, and beside them a scale and a bias."""
    train, test = planted(40, 30)
    model = SGD(rank=7).fit(train)
    assert quantise(model, 4, "float16").n_bytes == 70 * (4 + 2 + 2) + 4
    assert quantise(model, 8, "float32").n_bytes == 70 * (7 + 4 + 4) + 4
    plain = Factorisation(model.mean, model.P, model.Q, 0 * model.row_bias, 0 * model.col_bias, biases=False)
    assert quantise(plain, 8, "float16").n_bytes == 70 * (7 + 2) + 4
    assert abs(error(quantise(model, 8), test) - error(model, test)) < 0.01


def test_nine_bits_are_an_error():
    with pytest.raises(ValueError, match="between 2 and 8"):
        quantise(SGD(rank=2, epochs=1).fit(planted(10, 10)[0]), 9)
