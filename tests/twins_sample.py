"""Slow reference versions ("twins") of the sampling kernels, and states for tests of them."""

from __future__ import annotations

import math

import numpy as np
import twins

from accams.data.observations import Observations
from accams.engine.base import State
from accams.engine.grid import Grid
from accams.engine.rules import Collapsed, Key
from accams.engine.tables import Tables
from accams.threads import Threads

WORD = 2**64 - 1
ADD1, ADD2 = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
MIX1, MIX2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

# -- accams.kernels.sample -----------------------------------------------------------------------------------


def mixed(x: int) -> int:
    """Apply the finaliser of SplitMix64, in Python integers."""
    x = (x ^ (x >> 30)) * MIX1 & WORD
    x = (x ^ (x >> 27)) * MIX2 & WORD
    return x ^ (x >> 31)


def unmixed(x: int) -> int:
    """Invert `mixed`."""
    x ^= (x >> 31) ^ (x >> 62)
    x = x * pow(MIX2, -1, 2**64) & WORD
    x ^= (x >> 27) ^ (x >> 54)
    x = x * pow(MIX1, -1, 2**64) & WORD
    return x ^ (x >> 30) ^ (x >> 60)


def uniform(key0: int, key1: int, counter: int) -> float:
    """Return the upper 52 bits of a hash plus one half, scaled to the interval from 0 to 1."""
    word = mixed(mixed((key0 + counter * ADD1) & WORD) ^ (key1 * ADD2 & WORD))
    return ((word >> 12) + 0.5) * 2.0**-52


def drawn(log_p: np.ndarray, u: float) -> int:
    """Return the first label up to which the probabilities add up to more than u."""
    reached = np.cumsum(np.exp(log_p - log_p.max()))
    return int(np.searchsorted(reached[:-1], u * reached[-1], side="right"))


def weighted(x, row_weights):
    """Multiply the sums of every row by the row's weight."""
    return x if row_weights is None else x * row_weights[:, None].astype(np.int64)


def blocked(lo, hi, n, l, row_weights, T, log_prior, precision, key, labels):
    """Draw labels for rows [lo, hi) independently."""
    n, l = weighted(n, row_weights), weighted(l, row_weights)
    log_p = log_prior - precision / 2 * twins.costs(n.astype(np.float64), l.astype(np.float64), T, 1.0)
    new = labels.copy()
    new[lo:hi] = [drawn(log_p[i], uniform(*key, i)) for i in range(lo, hi)]
    return new


def marginal(N, L, sigma2, tau2):
    """Return g(N, L): the log likelihood of a block with its template entry integrated out, up to a constant."""
    N, L = N.astype(np.float64), L.astype(np.float64)
    return -0.5 * np.log(sigma2 + N * tau2) + tau2 * L**2 / (2 * sigma2 * (sigma2 + N * tau2))


def log_sizes(counts, concentration, crp):
    """Return log w_a: the other rows in a cluster, plus the concentration of every (or the first empty) cluster."""
    sizes = counts.astype(np.float64)
    if not crp:
        sizes += concentration
    elif (counts == 0).any():
        sizes[np.argmax(counts == 0)] = concentration
    with np.errstate(divide="ignore"):
        return np.log(sizes)


def collapsed(n, l, row_weights, sigma2, tau2, concentration, crp, key, labels, k, first=0):
    """Draw labels one after another, with the tables of the other rows recomputed for each."""
    n, l, labels = weighted(n, row_weights), weighted(l, row_weights), labels.copy()
    for i in range(first, len(labels)):
        others = np.arange(len(labels)) != i
        N, L, counts = twins.block_tables(n[others], l[others], labels[others], k)
        gains = marginal(N + n[i], L + l[i], sigma2, tau2) - marginal(N, L, sigma2, tau2)
        labels[i] = drawn(log_sizes(counts, concentration, crp) + gains.sum(axis=1), uniform(*key, i))
    return labels


def collapsed_rule(sigma2, tau2, concentration, crp, key: Key, growing=False) -> Collapsed:
    """Return the rule for noise variance sigma2 and template variance tau2, both in the units of N and L."""
    return Collapsed(tau2 / sigma2, tau2 / (2 * sigma2**2), concentration, crp, key, growing)


def gamma(shape: float, key0: int, key1: int, counter: int) -> float:
    """Draw by Marsaglia and Tsang (2000), with three numbers of one stream per attempt."""
    d = (shape if shape >= 1 else shape + 1) - 1 / 3
    stream = mixed(key1 ^ mixed(counter * ADD1 & WORD))
    for turn in range(1, 3000, 3):
        u, v, w = (uniform(key0, stream, turn + step) for step in range(3))
        x = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        y = (1 + x / math.sqrt(9 * d)) ** 3
        if y > 0 and math.log(w) < x * x / 2 + d - d * y + d * math.log(y):
            return d * y * (1.0 if shape >= 1 else uniform(key0, stream, 0) ** (1 / shape))
    raise AssertionError("rejected a thousand times")


def precisions(squares, cells, nu, scale, key):
    """Draw one number per row from Gamma((nu + cells) / 2, rate (nu + scale * squares) / 2)."""
    pairs = zip(squares, cells, strict=True)
    return np.array([gamma((nu + e) / 2, *key, i) / ((nu + scale * s) / 2) for i, (s, e) in enumerate(pairs)])


# -- states --------------------------------------------------------------------------------------------------


def busy(
    name: str, kind: str, row_weights: bool = False, threads: Threads | None = None, shape: tuple[int, int] = (23, 17)
) -> tuple[State, twins.Case]:
    """Return a state with three stencils, of which number 1 is being refitted, and its data."""
    data, rng = twins.case(kind, shape), np.random.default_rng(5)
    grid = Grid.of(data.observations, 6, row_weights=row_weights)
    state = data.engine(name, threads, grid).new_state()
    if row_weights:
        state.set_row_weights(rng.gamma(2.0, 0.5, shape[0]))
    for stencil, k in enumerate([(2, 3), (3, 4), (4, 2)]):
        state.begin(stencil, k)
        randomise(state, rng)
        state.end(rng.integers(-(2**20), 2**20, k).astype(np.int32))
    state.begin(1)
    randomise(state, rng)
    return state, data


def with_gaps() -> twins.Case:
    """Make a matrix of half stars with two empty rows and an empty column."""
    rng = np.random.default_rng(0)
    seen = rng.random((12, 9)) < 0.5
    seen[[0, 7]], seen[:, 4] = False, False
    X, (i, j) = seen * rng.integers(-6, 7, seen.shape) / 2, np.nonzero(seen)
    return twins.Case(Observations.from_coo(i, j, X[seen], shape=X.shape), X, seen.astype(float))


def randomise(state: State, rng: np.random.Generator) -> None:
    """Set random labels on both axes."""
    for axis in (0, 1):
        state.set_labels(axis, rng.integers(0, state.k[axis], state.shape[axis]))


def own_first(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Return the matrix, or its transpose where columns are updated."""
    return matrix if axis == 0 else matrix.T


def precision_of_cells(state: State, data: twins.Case) -> np.ndarray:
    """Return the weight of every cell times that of its row, in units of N."""
    W = twins.weight_ticks(state, data)
    return W if state.row_weights is None else W * state.row_weights[:, None].astype(np.int64)


def brute_sums(state: State, data: twins.Case, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n and l of every row (column), row weights included, from the full matrices."""
    W, R = precision_of_cells(state, data), twins.residual_ticks(state, data)
    other, k = state.labels[1 - axis], state.k[1 - axis]
    return twins.by_label(own_first(W, axis), other, k), twins.by_label(own_first(W * R, axis), other, k)


def sigma2_in_ticks(state: State, sigma2: float) -> float:
    """Return the noise variance of one unit of N, in squared ticks."""
    return sigma2 / (state.weight_unit * state.engine.grid.step**2)


def assert_tables(tables: Tables, state: State, data: twins.Case, axis: int) -> None:
    """Check the tables against the present labels, and those recomputed along both axes, to the last bit."""
    N, L, counts = twins.block_tables(*brute_sums(state, data, axis), state.labels[axis], state.k[axis])
    for got in (tables, state.tables(0), state.tables(1)):
        np.testing.assert_array_equal(own_first(got.N, axis), N)
        np.testing.assert_array_equal(own_first(got.L, axis), L)
    np.testing.assert_array_equal(tables.counts, counts)
