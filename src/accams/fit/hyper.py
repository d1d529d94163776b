"""Hyperparameters of the Bayesian model: priors of labels, templates and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln

Sampler = Literal["blocked", "collapsed"]
LabelPrior = Literal["dirichlet", "crp"]
Start = Literal["accams", "prior"]
Shape = tuple[int, int]


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a chain, in the units of the data.

    Attributes
    ----------
    shapes : sequence of (k_rows, k_cols)
        One per stencil. With `growing`, only the initial size.
    alpha, beta : sequence of float
        Concentration of row and column labels, one per stencil.
    sampler, label_prior : str
        "blocked" with "dirichlet", or "collapsed" with "dirichlet" or "crp".
    tau2 : sequence of float or None
        Fixed template variance of each stencil; None samples it.
    eta, gamma : (shape, scale)
        Inverse gamma priors of sigma^2 and tau^2.
    sigma_max : float
        Upper bound of sigma.
    sample_sigma : bool
        Whether sigma^2 is sampled or fixed.
    row_noise : float or None
        Degrees of freedom nu of the row precisions w_i.
    continuous : bool
        Whether rows and columns have continuous effects of sampled variance.
    growing : bool
        Whether the number of clusters is unbounded (label prior "crp").
    start : str
        Initialisation of new stencils.
    sub : sequence of int
        Label updates per visit; sweep t makes sub[min(t, len(sub) - 1)].
    seed : int
    """

    shapes: Sequence[Shape]
    alpha: Sequence[float]
    beta: Sequence[float]
    sampler: Sampler = "blocked"
    label_prior: LabelPrior = "dirichlet"
    tau2: Sequence[float] | None = None
    eta: tuple[float, float] = (2.0, 0.3)
    gamma: tuple[float, float] = (5.0, 0.3)
    sigma_max: float = np.inf
    sample_sigma: bool = False
    row_noise: float | None = None
    continuous: bool = False
    growing: bool = False
    start: Start = "prior"
    sub: Sequence[int] = (1,)
    seed: int = 0

    def concentration(self, stencil: int, axis: int) -> float:
        """Return the prior weight of each cluster ("dirichlet") or of a new cluster ("crp")."""
        total = (self.alpha, self.beta)[axis][stencil]
        return total if self.label_prior == "crp" else total / self.shapes[stencil][axis]

    def log_labels(self, counts: np.ndarray, stencil: int, axis: int) -> float:
        """Return the log prior probability of labels with these counts.

        With "crp" it is that of the partition, up to the constant by which a cap on the clusters rescales it.
        """
        total, n = (self.alpha, self.beta)[axis][stencil], counts.sum()
        if self.label_prior == "crp":
            used = counts[counts > 0]
            return float(len(used) * np.log(total) + gammaln(used).sum() + gammaln(total) - gammaln(total + n))
        share = total / len(counts)
        return float(gammaln(total) - gammaln(total + n) + (gammaln(counts + share) - gammaln(share)).sum())
