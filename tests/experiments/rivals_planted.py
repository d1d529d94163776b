"""Planted matrices for the tests of the rivals."""

from __future__ import annotations

import numpy as np

from rivals.ratings import Ratings

NOISE = 0.1


def planted(m: int = 150, n: int = 100, rank: int = 3, share: float = 0.6, noise: float = NOISE, seed: int = 0):
    """Training and test part of a matrix of mean 3 with biases and factors, some cells of it observed with noise."""
    random = np.random.default_rng(seed)
    M = 3 + random.normal(0, 0.5, (m, 1)) + random.normal(0, 0.5, n)
    M = M + random.normal(size=(m, rank)) @ random.normal(size=(rank, n))
    rows, cols = np.nonzero(random.random((m, n)) < share)
    values = M[rows, cols] + random.normal(0, noise, len(rows))
    return Ratings.of(rows, cols, values, (m, n)).hold_out(0.1, seed)


def error(model, test: Ratings) -> float:
    """Root of the mean squared error, not clipped."""
    return float(np.sqrt(np.mean((model.predict(test.rows, test.cols) - test.values) ** 2)))
