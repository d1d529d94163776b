"""The log joint density of a chain against scipy's densities, term by term (deterministic)."""

from __future__ import annotations

import numpy as np
import pytest
from chains import PAIRS
from exact import canonical, log_crp, log_dirichlet
from geweke import Parameters, World
from scipy import stats
from scipy.special import gammaln

from accams.fit.hyper import Hyperparameters


def log_labels(labels: np.ndarray, k: int, alpha: float, kind: str) -> float:
    """Return the log probability of the partition (crp), or of one of its labelings (dirichlet)."""
    partition = canonical(labels)
    if kind == "crp":
        return log_crp(partition, alpha)
    return log_dirichlet(partition, alpha, k) - float(gammaln(k + 1) - gammaln(k - max(partition)))


def log_joint(world: World, X: np.ndarray, now: Parameters) -> float:
    """Return the log density of data and all parameters, up to a constant."""
    hyper, seen, normal = world.hyper, world.weights > 0.0, stats.norm.logpdf
    omega = (world.weights * now.row_weights[:, None])[seen]
    total = normal(X[seen], now.model()[seen], np.sqrt(now.sigma2 / omega)).sum()
    total += stats.invgamma(hyper.eta[0], scale=hyper.eta[1]).logpdf(now.sigma2)
    total += stats.gamma(hyper.row_noise / 2.0, scale=2.0 / hyper.row_noise).logpdf(now.row_weights).sum()
    total += stats.invgamma(hyper.gamma[0], scale=hyper.gamma[1]).logpdf([*now.tau2, *now.effect_tau2]).sum()
    for each, tau2 in zip(now.effects, now.effect_tau2, strict=True):
        total += normal(each, 0.0, np.sqrt(tau2)).sum()
    for each, variances in zip(now.slopes, now.slope_tau2, strict=True):
        total += normal(each, 0.0, np.sqrt(variances)).sum()
        shape, scale = hyper.slopes[0], hyper.slopes[1] / max(len(variances), 1)
        total += stats.invgamma(shape, scale=scale).logpdf(variances).sum()
    for l, (T, sides) in enumerate(zip(now.T, now.labels, strict=True)):
        used = T if hyper.sampler == "blocked" else T[np.unique(sides[0])][:, np.unique(sides[1])]
        total += normal(used, 0.0, np.sqrt(now.tau2[l])).sum()
        for side, alpha in enumerate((hyper.alpha[l], hyper.beta[l])):
            total += log_labels(sides[side], hyper.shapes[l][side], alpha, hyper.label_prior)
    return float(total)


@pytest.mark.parametrize("n_features", [(0, 0), (1, 2)])
@pytest.mark.parametrize(("sampler", "kind"), PAIRS)
def test_log_joint(sampler, kind, n_features):
    """Differences between sweeps equal those of the sum of all log densities."""
    hyper = Hyperparameters(
        [(3, 2), (2, 3)], [1.5, 3.0], [2.0, 1.0], sampler, kind, eta=(5.0, 5.0), gamma=(6.0, 5.0), sample_sigma=True,
        row_noise=6.0, continuous=True, slopes=(5.0, 2.0),
    )  # fmt: skip
    world, random = World(hyper, n_features=n_features), np.random.default_rng(8)
    X = world.draw_data(world.draw_parameters(random), random)
    chain, constants = world.chain_on(X), []
    for _ in range(20):
        chain.run_sweep()
        constants.append(chain.log_joint() - log_joint(world, X, world.parameters_of(chain)))
    np.testing.assert_allclose(constants, constants[0], atol=1e-3)
