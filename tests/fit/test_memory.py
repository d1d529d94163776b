"""A fit needs at most 18 bytes per rating (and a little per row), observations included."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from accams import ACCAMS, Observations, memory_estimate

SHAPE = (66_000, 1_000)  # more than 65,536 rows: their index takes four bytes
PER_ROW = 100
SETTINGS = {"n_stencils": 2, "n_clusters": 4, "max_iter": 2, "n_threads": 2, "verbose": False}


def observations(values: np.ndarray, weights: np.ndarray | None = None) -> Observations:
    rows = np.repeat(np.arange(SHAPE[0], dtype=np.uint32), PER_ROW)
    first = np.arange(SHAPE[0], dtype=np.uint32)[:, None] * np.uint32(7)
    cols = np.sort((first + np.arange(PER_ROW, dtype=np.uint32) * np.uint32(9)) % np.uint32(SHAPE[1]), axis=1)
    return Observations.from_coo(rows, cols.ravel(), values, weights=weights, shape=SHAPE)


def peak_of_fit(obs: Observations) -> int:
    """Return the bytes allocated at the peak of a fit, plus those of the observations."""
    ACCAMS(**SETTINGS, engine="cpu").fit(obs)  # compiling takes memory of its own
    held = obs.nbytes
    tracemalloc.start()
    try:
        ACCAMS(**SETTINGS, engine="cpu").fit(obs)
        return held + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_half_star_ratings_need_at_most_18_bytes_in_all(random: np.random.Generator) -> None:
    obs = observations(random.integers(1, 11, SHAPE[0] * PER_ROW) / 2.0)
    assert peak_of_fit(obs) <= 18 * obs.nnz


def test_continuous_ratings_and_the_estimate(random: np.random.Generator) -> None:
    obs = observations(random.normal(size=SHAPE[0] * PER_ROW))
    estimate = memory_estimate(SHAPE, obs.nnz, n_stencils=2, n_clusters=4)
    assert obs.nbytes + 8 * obs.nnz <= 18 * obs.nnz + 16 * (sum(SHAPE) + 2)  # what grows with the ratings
    assert 0.9 * estimate < peak_of_fit(obs) <= 1.05 * estimate


@pytest.mark.full
def test_weights_take_eight_more(random: np.random.Generator) -> None:
    n = SHAPE[0] * PER_ROW
    obs = observations(random.normal(size=n), random.random(n) + 0.1)
    estimate = memory_estimate(SHAPE, obs.nnz, n_stencils=2, n_clusters=4, weights=True)
    plain = memory_estimate(SHAPE, obs.nnz, n_stencils=2, n_clusters=4)
    assert estimate == plain + 8 * obs.nnz
    assert peak_of_fit(obs) <= 1.05 * estimate
