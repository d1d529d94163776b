"""Both samplers have the same target: on the same data, pairs of rows share a cluster equally often."""

from __future__ import annotations

import numpy as np
import pytest
from chains import Draws, run
from compare import BATCHES, RARE, batch_means, bonferroni
from scipy import stats

from accams.data.observations import Observations
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-4


def draws_of(sampler: str, X: np.ndarray, sweeps: int) -> Draws:
    """Run a chain with one 4 x 3 stencil under the Dirichlet prior, sigma^2 = 1, tau^2 = 0.5."""
    hyper = Hyperparameters([(4, 3)], [3.0], [2.0], sampler, "dirichlet", tau2=[0.5])
    engine = make_engine(Observations.from_dense(X), "cpu", 1, 1, offset=0.0)
    return run(Chain(engine.new_state(), hyper, 0, 1.0), sweeps)


def planted(shape: tuple[int, int]) -> np.ndarray:
    """A 3 x 2 stencil in noise, so faint that labels stay uncertain; one cell in ten missing."""
    random = np.random.default_rng(4)
    T, c, d = random.normal(0.0, 0.6, (3, 2)), random.integers(3, size=shape[0]), random.integers(2, size=shape[1])
    return np.where(random.random(shape) < 0.1, np.nan, T[np.ix_(c, d)] + random.normal(size=shape))


def p_values(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Welch tests that the columns of two sets of draws have the same means, by batch means."""
    a, b = batch_means(one), batch_means(two)
    varied = (a.mean(axis=0) > RARE) & (a.mean(axis=0) < 1.0 - RARE) if one.dtype == bool else a.var(axis=0) > 0.0
    z = (a - b).mean(axis=0)[varied] / np.sqrt((a.var(axis=0) + b.var(axis=0))[varied] / (BATCHES - 1))
    return 2.0 * stats.t.sf(np.abs(z), BATCHES - 1)


@pytest.mark.full  # each is proved by enumeration, too
def test_the_same_target():
    """All pairs of rows, pairs of columns and cells, Bonferroni: false-alarm rate 1e-4."""
    X = planted((20, 15))
    one, two = draws_of("blocked", X, 3000), draws_of("collapsed", X, 1500)
    p = [p_values(one.pairs(0, side), two.pairs(0, side)) for side in (0, 1)] + [p_values(one.cells, two.cells)]
    assert len(p[0]) > 120  # pairs of rows that are neither always nor never together
    assert len(p[1]) > 90
    assert bonferroni(list(np.concatenate(p))) > FALSE_ALARM
