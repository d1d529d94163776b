"""Simulation-based calibration: the rank of the truth among the draws is uniformly distributed."""

from __future__ import annotations

import numpy as np
import pytest
from chains import PAIRS, cells
from compare import bonferroni
from geweke import World
from scipy import stats

from accams.fit.hyper import Hyperparameters

FALSE_ALARM = 1e-3
REPLICATES, DRAWS, THIN, BURN = 80, 11, 4, 36
BINS = 4


def hyper_of(pair: tuple[str, str], seed: int) -> Hyperparameters:
    """Return hyperparameters of two 3 x 3 stencils, with all variances sampled."""
    return Hyperparameters(
        shapes=[(3, 3)] * 2, alpha=[3.0] * 2, beta=[3.0] * 2, sampler=pair[0], label_prior=pair[1], eta=(4.0, 3.0),
        gamma=(4.0, 2.0), sigma_max=1.5, sample_sigma=True, seed=seed,
    )  # fmt: skip


def ranks(pair: tuple[str, str], seed: int) -> list[int]:
    """Return ranks of the true sigma^2, three cells and the mean square among thinned draws of a short chain."""
    random, world = np.random.default_rng([seed, 7]), World(hyper_of(pair, seed), shape=(12, 10))
    truth = world.draw_parameters(random)
    chain = world.chain_on(world.draw_data(truth, random))
    chain.sigma2 = 0.7

    def quantities(sigma2: float, model: np.ndarray) -> list[float]:
        return [sigma2, model[0], model[57], model[-1], np.square(model).mean()]

    drawn = []
    for sweep in range(BURN + DRAWS * THIN):
        chain.run_sweep()
        if sweep >= BURN and (sweep - BURN) % THIN == 0:
            drawn.append(quantities(chain.sigma2, cells(chain.state)))
    return list((np.array(drawn) < quantities(truth.sigma2, truth.model().ravel())).sum(axis=0))


@pytest.mark.parametrize("pair", [PAIRS[0], pytest.param(PAIRS[2], marks=pytest.mark.full)])
def test_ranks_are_uniform(pair):
    """Chi-square of five quantities in four bins, Bonferroni: false-alarm rate 1e-3."""
    table = np.array([ranks(pair, seed) for seed in range(REPLICATES)])
    counts = [np.bincount(column * BINS // (DRAWS + 1), minlength=BINS) for column in table.T]
    assert bonferroni([stats.chisquare(each).pvalue for each in counts]) > FALSE_ALARM
