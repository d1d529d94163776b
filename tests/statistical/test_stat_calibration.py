"""Simulation-based calibration: the rank of the truth among the draws is uniformly distributed.

In the full run alone: `test_stat_geweke.py` compares the same two distributions, in the quick run too.
"""

from __future__ import annotations

import numpy as np
import pytest
from chains import PAIRS
from compare import bonferroni
from geweke import LEVELS, Parameters, World
from scipy import stats

from accams.fit import gibbs
from accams.fit.hyper import Hyperparameters
from accams.model.scale import Scale

FALSE_ALARM = 1e-3
REPLICATES, DRAWS, THIN, BURN = 80, 11, 4, 36
BINS = 4


def hyper_of(pair: tuple[str, str], seed: int, scale: Scale | None) -> Hyperparameters:
    """Return hyperparameters of two 3 x 3 stencils, and of slopes on any features, with all variances sampled."""
    return Hyperparameters(
        shapes=[(3, 3)] * 2, alpha=[3.0] * 2, beta=[3.0] * 2, sampler=pair[0], label_prior=pair[1], eta=(4.0, 3.0),
        gamma=(4.0, 2.0), slopes=(4.0, 2.0), sigma_max=1.5, sample_sigma=True, seed=seed, scale=scale,
        row_noise=None if scale is None else 8.0,
    )  # fmt: skip


def ranks(pair: tuple[str, str], seed: int, n_features: tuple[int, int], scale: Scale | None) -> list[int]:
    """Return ranks of the truth among thinned draws of a short chain.

    That is of sigma^2, three cells, the mean square, a row precision if they vary and, with features, a slope of a row
    and a variance of those of rows and of columns.
    """
    random = np.random.default_rng([seed, 7])
    world = World(hyper_of(pair, seed, scale), shape=(12, 10), n_features=n_features)
    truth = world.draw_parameters(random)
    chain = world.chain_on(world.draw_data(truth, random))
    chain.sigma2 = 0.7

    def quantities(p: Parameters) -> list[float]:
        model = p.model().ravel()
        more = [*p.slopes[0][3, :1], *p.slope_tau2[0][:1], *p.slope_tau2[1][:1]]
        if scale is not None:
            more.append(p.row_weights[2])
        return [p.sigma2, model[0], model[57], model[-1], np.square(model).mean(), *more]

    drawn = []
    for sweep in range(BURN + DRAWS * THIN):
        chain.run_sweep()
        if sweep >= BURN and (sweep - BURN) % THIN == 0:
            drawn.append(quantities(world.parameters_of(chain)))
    return list((np.array(drawn) < quantities(truth)).sum(axis=0))


@pytest.mark.full
@pytest.mark.parametrize(
    ("pair", "n_features", "scale"),
    [
        (PAIRS[0], (0, 0), None),
        (PAIRS[0], (0, 2), LEVELS),
        (PAIRS[2], (0, 0), None),
        (PAIRS[0], (2, 2), None),
        (PAIRS[2], (2, 0), LEVELS),
    ],
)
def test_ranks_are_uniform(pair, n_features, scale, monkeypatch):
    """Chi-square of five to nine quantities in four bins, Bonferroni: false-alarm rate 1e-3."""
    monkeypatch.setattr(gibbs, "SLOPE_INTERVAL", 1)  # chains are short
    table = np.array([ranks(pair, seed, n_features, scale) for seed in range(REPLICATES)])
    counts = [np.bincount(column * BINS // (DRAWS + 1), minlength=BINS) for column in table.T]
    assert bonferroni([stats.chisquare(each).pvalue for each in counts]) > FALSE_ALARM
