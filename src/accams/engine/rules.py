"""Rules by which a state chooses labels, row weights, effects, latent values: plain records that can be sent."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Template = NDArray[np.int32]
Key = tuple[int, int]  # two 64-bit words that identify a stream of random numbers


@dataclass(frozen=True)
class Nearest:
    """The label with the lowest cost, sum_b curvature * n[i, b] * T[a, b]^2 - 2 * l[i, b] * T[a, b].

    T is in ticks; `shrinkage` (in weight ticks) is used only to refill empty clusters. With `prices` (in squared
    ticks), label a costs prices[a] more, and clusters may become empty.
    """

    T: Template
    curvature: float = 1.0
    shrinkage: float = 0.0
    prices: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Blocked:
    """A label drawn given the template T (in ticks), independently for every row.

    log p(a) = log_prior[a] - precision / 2 * cost(i, a), `precision` being that of an observation of weight one unit,
    in ticks.
    """

    T: Template
    log_prior: NDArray[np.float64]
    precision: float
    key: Key


@dataclass(frozen=True)
class Collapsed:
    """Labels drawn one after another with the template integrated out.

    kappa is tau^2 / sigma^2 for one unit of weight, rho = kappa * precision / 2 in the same units as `Blocked`.
    With `crp`, an empty cluster is opened with weight `concentration`; else every cluster has that much added to its
    size. `growing`: the number of clusters is bounded only by the largest label.
    """

    kappa: float
    rho: float
    concentration: float
    crp: bool
    key: Key
    growing: bool = False


class Update(NamedTuple):
    """One update of a visit: its axis, and the keys of its random numbers."""

    axis: int
    weights: Key
    labels: Key
    template: Key


@dataclass(frozen=True)
class BlockedVisit:
    """A complete visit of the blocked sampler to the current stencil, which an engine can run without callbacks.

    Updates of rows and columns alternate: weights of the clusters from their Dirichlet distribution, labels as in
    `Blocked`, then the template. An axis with a single cluster has no update.
    """

    T: Template  # to begin with
    counts: list[NDArray[np.int64]]  # rows and columns per label
    kappa: float  # tau^2 / sigma^2 for one unit of weight
    spread: float  # tau in ticks
    precision: float  # as in `Blocked`
    concentration: tuple[float, float]  # of the Dirichlet priors of row and column labels
    updates: tuple[Update, ...]


@dataclass(frozen=True)
class RowNoise:
    """Row precisions w_i ~ Gamma((nu + E_i) / 2, rate (nu + S_i / sigma2) / 2), S_i the row's squared residuals.

    With `normalise` they are scaled so that their mean over the observations is one.
    """

    nu: float
    sigma2: float
    key: Key
    normalise: bool = False


@dataclass(frozen=True)
class Effects:
    """Effects e_i ~ N(0, tau^2) of rows or columns, given the residuals: kappa as in `Collapsed`, tau in ticks."""

    kappa: float
    tau: float
    key: Key


@dataclass(frozen=True)
class Slopes:
    """Slopes c_if ~ N(0, spreads[f]^2) of rows or columns on the features of the other axis, given the residuals.

    `spreads` are in ticks per unit of a feature, `precision` as in `Blocked`. Sums over rows of terms of the log
    likelihood are in multiples of `unit`.
    """

    precision: float
    spreads: NDArray[np.float64]
    unit: float
    key: Key


@dataclass(frozen=True)
class Latent:
    """Latent values z ~ N(f, spread^2 / weight) of ordinal observations within the interval of their value.

    That of values[y] is (cuts[y], cuts[y + 1]]. All else is in ticks; `unit` is the value of one unit of weight.
    """

    values: NDArray[np.float64]
    cuts: NDArray[np.int32]
    spread: float
    unit: float
    key: Key


Rule = Nearest | Blocked | Collapsed
