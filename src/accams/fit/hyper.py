"""The Bayesian model: what is assumed of labels, templates and noise before the data is seen."""

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
    """All that a chain needs to know beside the data, in the units of the data.

    Attributes
    ----------
    shapes : (k_rows, k_cols) of each stencil
        Where `growing`, only the size it starts with.
    alpha, beta : concentration of row and column labels, one per stencil
    sampler, label_prior : which of the three pairs
    tau2 : variance of each stencil's templates, where it is held; None samples it
    eta, gamma : shape and scale of the inverse gamma priors of sigma^2 and tau^2
    sigma_max : upper bound of sigma
    sample_sigma : whether sigma^2 is drawn or held
    row_noise : degrees of freedom nu of the row precisions, or None
    continuous : whether rows and columns have continuous effects of learned variance
    growing : no bound on the number of clusters (label prior "crp")
    start : how new stencils begin
    sub : label updates per visit: in sweep t, sub[min(t, len - 1)]
    seed : of all random numbers
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
        """What `label_prior` adds: per cluster, or for a new one."""
        total = (self.alpha, self.beta)[axis][stencil]
        return total if self.label_prior == "crp" else total / self.shapes[stencil][axis]

    def log_labels(self, counts: np.ndarray, stencil: int, axis: int) -> float:
        """Log probability of labels with these counts (of the partition, with "crp"; up to its cap's constant)."""
        total, n = (self.alpha, self.beta)[axis][stencil], counts.sum()
        if self.label_prior == "crp":
            used = counts[counts > 0]
            return float(len(used) * np.log(total) + gammaln(used).sum() + gammaln(total) - gammaln(total + n))
        each = total / len(counts)
        return float(gammaln(total) - gammaln(total + n) + (gammaln(counts + each) - gammaln(each)).sum())
