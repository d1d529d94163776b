"""Hyperparameters of the Bayesian model: priors of labels, templates and noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln

from accams.model.scale import Scale

Sampler = Literal["blocked", "collapsed"]
LabelPrior = Literal["dirichlet", "crp"]
Start = Literal["accams", "prior"]
Shape = tuple[int, int]
LEVELS = 4  # noise levels of a stage of the calibration: chain c has level c modulo this number
LATENT_NOISE = 0.85  # noise variance of ordinal chains, relative to that of normal ones beside them


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a chain, in the units of the data."""

    shapes: Sequence[Shape]  # (k_rows, k_cols) of each stencil; with `growing`, only the initial sizes
    alpha: Sequence[float]  # concentrations of row labels, one per stencil
    beta: Sequence[float]  # those of column labels
    sampler: Sampler = "blocked"
    label_prior: LabelPrior = "dirichlet"  # "crp" only with the collapsed sampler
    tau2: Sequence[float] | None = None  # fixed template variance of each stencil; None samples it
    eta: tuple[float, float] = (2.0, 0.3)  # (shape, scale) of the inverse gamma prior of sigma^2
    gamma: tuple[float, float] = (5.0, 0.3)  # that of tau^2
    sigma_max: float = np.inf  # upper bound of sigma
    sample_sigma: bool = False  # whether sigma^2 is sampled or fixed
    row_noise: float | None = None  # degrees of freedom nu of the row precisions w_i, or None
    continuous: bool = False  # whether rows and columns have continuous effects of sampled variance
    growing: bool = False  # whether the number of clusters is unbounded (label prior "crp")
    start: Start = "prior"  # initialisation of new stencils
    start_rounds: int = 10  # most alternations of ACCAMS where that is the initialisation
    quick_start: bool = False  # whether k-means before them is cut short
    sub: Sequence[int] = (1,)  # label updates per visit; sweep t makes sub[min(t, len(sub) - 1)]
    seed: int = 0  # seed of all random numbers
    scale: Scale | None = None  # cut points between the values of ordinal observations; None has normal ones
    slopes: tuple[float, float] = (2.0, 0.03)  # as gamma, of the slopes on each of d features: (shape, d times scale)
    mixed: bool = False  # whether only every other chain takes observations as ordinal

    def is_ordinal(self, chain: int) -> bool:
        """Return whether a chain takes observations as ordinal.

        Where chains are mixed, those of the same noise level (`LEVELS`) are so in turn.
        """
        return self.scale is not None and (not self.mixed or (chain + chain // LEVELS) % 2 == 1)

    def noise_share(self, chain: int) -> float:
        """Return the noise variance of a chain relative to the level that is set for all."""
        return LATENT_NOISE if self.mixed and self.is_ordinal(chain) else 1.0

    def concentration(self, stencil: int, axis: int) -> float:
        """Return the prior weight of each cluster ("dirichlet") or of a new cluster ("crp")."""
        total = (self.alpha, self.beta)[axis][stencil]
        return total if self.label_prior == "crp" else total / self.shapes[stencil][axis]

    def log_labels(self, counts: np.ndarray, stencil: int, axis: int) -> float:
        """Return the log prior of labels with these counts ("crp": of their partition, up to the constant of a cap)."""
        total, n = (self.alpha, self.beta)[axis][stencil], counts.sum()
        if self.label_prior == "crp":
            used = counts[counts > 0]
            return float(len(used) * np.log(total) + gammaln(used).sum() + gammaln(total) - gammaln(total + n))
        share = total / len(counts)
        return float(gammaln(total) - gammaln(total + n) + (gammaln(counts + share) - gammaln(share)).sum())
