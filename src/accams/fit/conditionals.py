"""The conditional distributions that a sweep draws from, given k x k tables and scalars."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from accams.engine.grid import Grid
from accams.engine.rules import Template
from accams.engine.tables import Tables
from accams.kernels import sample
from accams.model.stencils import Labels, label_type

Random = np.random.Generator


def draw_template(tables: Tables, sigma2: float, tau2: float, unit: float, grid: Grid, random: Random) -> Template:
    """T[a, b] ~ N(tau^2 L / (sigma^2 + N tau^2), sigma^2 tau^2 / (sigma^2 + N tau^2)), rounded to the grid.

    `unit` is what one unit of N weighs. A block without observations is drawn from the prior.
    """
    spread = np.sqrt(tau2) / grid.step
    T: Template = sample.template(tables.N, tables.L, tau2 * unit / sigma2, spread, grid.limit, *draw_key(random))
    return T


def draw_log_weights(counts: NDArray[np.int64], concentration: float, random: Random) -> NDArray[np.float64]:
    """log pi up to a constant, pi ~ Dirichlet(counts + concentration)."""
    logs: NDArray[np.float64] = sample.log_weights(counts, concentration, *draw_key(random))
    return logs


def draw_keys(random: Random, n: int) -> list[tuple[int, int]]:
    """Two words for a kernel's random numbers, so many times."""
    words = (random.bit_generator.random_raw(2 * n) >> np.uint64(2)).tolist()
    return list(zip(words[::2], words[1::2], strict=True))


def draw_key(random: Random) -> tuple[int, int]:
    """Two words for a kernel's random numbers."""
    return draw_keys(random, 1)[0]


def draw_inverse_gamma(shape: float, scale: float, random: Random, upper: float = np.inf) -> float:
    """x ~ IG(shape, scale), cut off at `upper`: 1/x is gamma with rate `scale`, cut off from below."""
    if not np.isfinite(upper):
        return float(scale / random.standard_gamma(shape))
    return scale / draw_gamma_tail(shape, scale / upper, random)


def draw_gamma_tail(shape: float, low: float, random: Random) -> float:
    """g ~ Gamma(shape), given g >= low.

    By the inverse of the distribution function where the tail is heavy enough for it; far in the tail by
    rejection from an exponential that starts at `low` and falls as fast as the density does there.
    """
    tail = float(special.gammaincc(shape, low))
    if tail > 1e-6:
        return max(float(special.gammainccinv(shape, tail * random.random())), low)
    fall = max(shape - 1.0, 0.0) / low  # the logarithm of the density falls at least at the rate 1 - fall beyond `low`
    while True:
        excess = random.exponential() / (1.0 - fall)
        if np.log(random.random()) <= (shape - 1.0) * np.log1p(excess / low) - fall * excess:
            return low + excess


def draw_prior_labels(size: int, k: int, concentration: float, crp: bool, random: Random) -> Labels:
    """Labels to begin with: from the Dirichlet prior over k clusters, or from a Chinese restaurant with k tables.

    The restaurant opens no further table when all k are taken. Its prior given at most k clusters is another one, which
    cannot be drawn from in one go; the sampler gets there from here.
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
    """Log density (of the distribution that is not cut off)."""
    return float(shape * np.log(scale) - special.gammaln(shape) - (shape + 1.0) * np.log(x) - scale / x)


def log_normal(x: NDArray[np.floating], variance: float) -> float:
    """Log density of independent normal numbers around zero."""
    return float(-0.5 * (x.size * np.log(2.0 * np.pi * variance) + np.square(x).sum() / variance))
