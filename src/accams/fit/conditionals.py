"""Conditional distributions of the sampler, given k x k tables and scalars."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from accams.engine.grid import Grid
from accams.engine.rules import Template
from accams.engine.tables import Tables
from accams.kernels import sample
from accams.model.stencils import Labels, label_type

Random = np.random.Generator
Floats = NDArray[np.float64]


def draw_template(tables: Tables, sigma2: float, tau2: float, unit: float, grid: Grid, random: Random) -> Template:
    """Draw T[a, b] ~ N(tau^2 L / (sigma^2 + N tau^2), sigma^2 tau^2 / (sigma^2 + N tau^2)), rounded to the grid.

    `unit` is the weight of one unit of N. A block without observations is drawn from its prior N(0, tau^2).
    """
    spread = np.sqrt(tau2) / grid.step
    N, L = np.ascontiguousarray(tables.N), np.ascontiguousarray(tables.L)  # the kernel is compiled for one layout
    T: Template = sample.template(N, L, tau2 * unit / sigma2, spread, grid.limit, *draw_key(random))
    return T


def draw_log_weights(counts: NDArray[np.int64], concentration: float, random: Random) -> NDArray[np.float64]:
    """Draw pi ~ Dirichlet(counts + concentration) and return log pi, up to a constant."""
    logs: NDArray[np.float64] = sample.log_weights(counts, concentration, *draw_key(random))
    return logs


def draw_keys(random: Random, n: int) -> list[tuple[int, int]]:
    """Draw `n` keys for the random numbers of kernels, two 62-bit words each (see `accams.fit.keys.key_of`)."""
    words = (random.bit_generator.random_raw(2 * n) >> np.uint64(2)).tolist()
    return list(zip(words[::2], words[1::2], strict=True))


def draw_key(random: Random) -> tuple[int, int]:
    return draw_keys(random, 1)[0]


def draw_inverse_gamma(shape: float, scale: float, random: Random, upper: float = np.inf) -> float:
    """Draw x ~ IG(shape, scale) truncated to (0, upper]: scale / x is Gamma(shape) on [scale / upper, inf)."""
    if not np.isfinite(upper):
        return float(scale / random.standard_gamma(shape))
    return scale / draw_gamma_tail(shape, scale / upper, random)


def draw_scales(Q: Floats, g: Floats, tau2: Floats, shape: float, scale: float, random: Random) -> Floats:
    """Draw factors for the slopes on each feature, whose variances tau2 ~ IG(shape, scale) change by their squares.

    Given the factors 1 + t of all, the log likelihood differs by g't - t'Q t / 2, while slopes and variances keep the
    density of the prior but for that of tau^2 itself. So a factor s, one after another, has the density of a normal
    distribution times s^(1 - 2 (shape + 1)) exp(-scale / (s^2 tau^2)): the first proposes, the second accepts.
    """
    Q, g, factors = Q.copy(), g.copy(), np.ones(len(tau2))
    for f, (z, uniform) in enumerate(zip(random.standard_normal(len(tau2)), random.random(len(tau2)), strict=True)):
        if Q[f, f] <= 0.0:  # nothing observed
            continue
        s = 1.0 + g[f] / Q[f, f] + z / np.sqrt(Q[f, f])
        accepted = s != 0.0 and np.log1p(-uniform) <= (
            -(2.0 * shape + 1.0) * np.log(abs(s)) - scale / tau2[f] * (s**-2.0 - 1.0)
        )
        if accepted:
            g -= Q[f] * (s - 1.0)  # of the others, and of this one before its slopes are scaled
            g[f] *= s
            Q[f] *= s
            Q[:, f] *= s
            factors[f] = s
    return factors


def draw_gamma_tail(shape: float, low: float, random: Random) -> float:
    """Draw g ~ Gamma(shape) given g >= low.

    The inverse CDF serves as long as the tail has enough mass; further out, where it underflows (sigma^2 pressed
    against its bound by millions of observations), an exponential from `low` is accepted or rejected.
    """
    tail = float(special.gammaincc(shape, low))
    if tail > 1e-6:
        return max(float(special.gammainccinv(shape, tail * random.random())), low)
    # For shape > 1 the log density (shape - 1) log g - g is concave and lies below its tangent at `low`, which falls at
    # the rate 1 - slope: an exponential of that rate is an envelope. For shape <= 1 the rate 1 serves.
    slope = max(shape - 1.0, 0.0) / low
    while True:
        excess = random.exponential() / (1.0 - slope)
        if np.log(random.random()) <= (shape - 1.0) * np.log1p(excess / low) - slope * excess:
            return low + excess


def draw_prior_labels(size: int, k: int, concentration: float, crp: bool, random: Random) -> Labels:
    """Draw initial labels from the Dirichlet prior over k clusters, or by seating rows in a restaurant of k tables.

    Seating opens no new table once all k are taken. The CRP conditioned on at most k clusters is a different
    distribution that cannot be drawn sequentially; these labels only start the chain, which converges to it.
    """
    if not crp:
        weights = draw_log_weights(np.zeros(k, np.int64), concentration, random)
        shares = np.exp(weights - weights.max())
        return random.choice(k, size=size, p=shares / shares.sum()).astype(label_type(k))
    labels, counts = np.zeros(size, label_type(k)), np.zeros(k)
    uniform = random.random(size)
    for i in range(size):
        used = int((counts > 0).sum())
        weights = counts[: used + 1].copy() if used < k else counts.copy()
        if used < k:
            weights[used] = concentration
        labels[i] = min(int(np.searchsorted(np.cumsum(weights), uniform[i] * weights.sum())), len(weights) - 1)
        counts[labels[i]] += 1
    return labels


def log_inverse_gamma(x: float, shape: float, scale: float) -> float:
    """Return the log density of IG(shape, scale), not truncated."""
    return float(shape * np.log(scale) - special.gammaln(shape) - (shape + 1.0) * np.log(x) - scale / x)


def log_normal(x: NDArray[np.floating], variance: float) -> float:
    """Return the log density of independent N(0, variance) values."""
    return float(-0.5 * (x.size * np.log(2.0 * np.pi * variance) + np.square(x).sum() / variance))
