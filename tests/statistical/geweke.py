"""Geweke's joint-distribution test: parameters and data drawn in two ways that must agree.

Once straight from the prior; once by a chain that alternates a sweep given the data with new data given the parameters.
Both have the prior as the distribution of the parameters, whatever the data are: no posterior need be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import twins
from compare import BATCHES, batch_means, bonferroni
from scipy import stats

from accams.data.observations import Observations
from accams.engine.grid import Grid
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.model.scale import Scale
from accams.threads import Threads

Random = np.random.Generator
BURN = 100
LEVELS = Scale(np.array([1.0, 2.0, 3.0]), np.array([-0.6, 0.5]), 1.0, np.array([-1.0, 0.0, 1.0]))  # of ordinal data
TINY = 1e-12  # once in a million draws all of a model is 0 to the nearest tick


@dataclass
class Parameters:
    """Parameters of the model, in the units of the data."""

    sigma2: float
    tau2: np.ndarray
    T: list[np.ndarray]
    labels: list[list[np.ndarray]]  # of rows and columns, per stencil
    row_weights: np.ndarray
    effect_tau2: np.ndarray
    effects: list[np.ndarray]
    slope_tau2: list[np.ndarray]
    slopes: list[np.ndarray]  # of rows on features of columns, and of columns on features of rows
    features: list[np.ndarray]

    def model(self) -> np.ndarray:
        """Return the noise-free matrix."""
        out = self.effects[0][:, None] + self.effects[1]
        out = out + self.slopes[0] @ self.features[1].T + self.features[0] @ self.slopes[1].T
        return out + sum(T[np.ix_(c, d)] for T, (c, d) in zip(self.T, self.labels, strict=True))

    def statistics(self, X: np.ndarray, weights: np.ndarray, empty_blocks: bool, ordinal: bool) -> list[float]:
        """Return the statistics to compare: moments of all parameters, and products that test their dependence.

        Nothing here depends on the names of clusters. Blocks of empty clusters count only where the sampler has them.
        """
        out = self.of_variances() + (self.of_levels if ordinal else self.of_fit)(X, weights)
        for stencil in range(len(self.T)):
            out += self.of_stencil(stencil, empty_blocks)
        for tau2, each in zip(self.effect_tau2, self.effects, strict=True):
            if each.any():
                out += [each.mean(), *_scale(each, tau2)]
        for slopes, variances in zip(self.slopes, self.slope_tau2, strict=True):
            for each, tau2 in zip(slopes.T, variances, strict=True):
                out += [each.mean(), *_scale(each, tau2)]
        return [float(x) for x in out]

    def of_variances(self) -> list[float]:
        """Return statistics of sigma^2 and row precisions, and of both with tau^2."""
        log_sigma2, log_weights = np.log(self.sigma2), np.log(self.row_weights)
        out = [self.sigma2, log_sigma2, log_sigma2**2, log_sigma2 * np.log(self.tau2).sum()]
        mean = self.row_weights.mean()
        out += [mean, (mean - 1.0) ** 2, log_weights.mean(), np.square(log_weights).mean()]
        return [*out, log_sigma2 * log_weights.mean()]

    def of_fit(self, X: np.ndarray, weights: np.ndarray) -> list[float]:
        """Return statistics of the errors: their squares are chi-square, and they are uncorrelated with the model."""
        model = self.model()
        errors = (X - model) * np.sqrt(weights * self.row_weights[:, None] / self.sigma2)
        rows, chi2 = np.square(errors).sum(axis=1), np.square(errors).sum() - np.count_nonzero(weights)
        out = [chi2, chi2**2, chi2 * np.log(self.sigma2), np.square(rows).sum(), (errors * model).sum()]
        out += [(errors * np.sign(model)).sum(), np.square(errors.sum(axis=0)).sum(), rows @ np.log(self.row_weights)]
        size = np.log(np.square(model).mean() + TINY)
        return [*out, size, size * np.log(self.sigma2), _angle(model[0], model[1]), _angle(model[:, 0], model[:, 1])]

    def of_levels(self, X: np.ndarray, weights: np.ndarray) -> list[float]:
        """Return statistics of ordinal data, and of their dependence on the model and the precisions."""
        model, log_sigma2, log_weights = self.model(), np.log(self.sigma2), np.log(self.row_weights)
        off, sign = (X - LEVELS.values.mean()) * (weights > 0), np.sign(model)
        with_model, outer = off * model, np.abs(off)
        size = np.log(np.square(model).mean() + TINY)
        out = [off.sum(), with_model.sum(), (off * sign).sum(), (outer * np.abs(model)).sum()]
        out += [outer.sum() * log_sigma2, with_model.sum() * log_sigma2, outer.sum(axis=1) @ log_weights]
        return [*out, (off * sign).sum(axis=1) @ log_weights, size, size * log_sigma2]

    def of_stencil(self, stencil: int, empty_blocks: bool) -> list[float]:
        """Return statistics of the tau^2, template and labels of a stencil."""
        tau2, T, sides = self.tau2[stencil], self.T[stencil], self.labels[stencil]
        used = [sorted(set(labels.tolist())) for labels in sides]
        rows, cols = len(used[0]), len(used[1])
        blocks = T if empty_blocks else T[used[0]][:, used[1]]
        out = [blocks.mean(), *_scale(blocks, tau2), rows, cols, rows * cols, rows * np.log(tau2)]
        return out + [float(labels[0] == labels[1]) for labels in sides]


def _angle(x: np.ndarray, y: np.ndarray) -> float:
    """Return the cosine of the angle between two vectors."""
    return float(x @ y / np.sqrt((x @ x) * (y @ y) + TINY))


def _scale(x: np.ndarray, tau2: float) -> list[float]:
    """Return statistics of the scale of x, of tau^2 and of their dependence (logarithms have light tails)."""
    square, log_tau2 = np.square(x).mean() + TINY, np.log(tau2)
    return [np.log(square), log_tau2, log_tau2**2, np.log(square) * log_tau2, square / tau2]


@dataclass
class World:
    """Fixed parts of a joint-distribution test: hyperparameters, engine, observed cells and their weights."""

    hyper: Hyperparameters
    engine: str = "cpu"
    chain_class: type[Chain] = Chain
    shape: tuple[int, int] = (7, 3)
    n_features: tuple[int, int] = (0, 0)  # of rows and of columns

    @cached_property
    def features(self) -> list[np.ndarray]:
        """Return the features of rows and columns, which are on their grid."""
        random = np.random.default_rng(1)
        both = zip(self.shape, self.n_features, strict=True)
        return [np.rint(32 * random.normal(size=shape)).clip(-127, 127) / 32 for shape in both]

    @cached_property
    def weights(self) -> np.ndarray:
        """Return observation weights from 1/4 to 2, and 0 for missing cells, one in five."""
        random = np.random.default_rng(0)
        return random.integers(1, 9, self.shape) / 4 * (random.random(self.shape) < 0.8)

    @cached_property
    def observations(self) -> Observations:
        """Return the observed cells with their weights; only their values differ from step to step."""
        i, j = np.nonzero(self.weights)
        return Observations.from_coo(i, j, 0.1 + i, shape=self.shape, weights=self.weights[i, j])

    # -- from the prior ---------------------------------------------------------------------------------------

    def draw_parameters(self, random: Random) -> Parameters:
        """Draw all parameters from the prior."""
        hyper, n_stencils = self.hyper, len(self.hyper.shapes)
        sigma2 = hyper.eta[1] / random.gamma(hyper.eta[0])
        while sigma2 > hyper.sigma_max**2:
            sigma2 = hyper.eta[1] / random.gamma(hyper.eta[0])
        tau2, effect_tau2 = (hyper.gamma[1] / random.gamma(hyper.gamma[0], size=size) for size in (n_stencils, 2))
        T = [random.normal(0.0, np.sqrt(t), shape) for t, shape in zip(tau2, hyper.shapes, strict=True)]
        labels = [[self.draw_labels(stencil, side, random) for side in (0, 1)] for stencil in range(n_stencils)]
        half = (hyper.row_noise or np.inf) / 2.0
        weights = random.gamma(half, 1.0 / half, self.shape[0]) if hyper.row_noise else np.ones(self.shape[0])
        spread = np.sqrt(effect_tau2) * hyper.continuous
        effects = [random.normal(0.0, s, size) for s, size in zip(spread, self.shape, strict=True)]
        (shape, scale), widths = hyper.slopes, self.n_features[::-1]
        slope_tau2 = [scale / max(d, 1) / random.gamma(shape, size=d) for d in widths]
        each = zip(slope_tau2, self.shape, strict=True)
        slopes = [random.normal(0.0, np.sqrt(t), (n, len(t))) for t, n in each]
        more = slope_tau2, slopes, self.features
        return Parameters(sigma2, tau2, T, labels, weights, effect_tau2, effects, *more)

    def draw_labels(self, stencil: int, side: int, random: Random) -> np.ndarray:
        """Draw the labels of one side from the Dirichlet prior, or from the CRP conditioned on at most k clusters."""
        hyper, size, k = self.hyper, self.shape[side], self.hyper.shapes[stencil][side]
        alpha = (hyper.alpha, hyper.beta)[side][stencil]
        if hyper.label_prior == "dirichlet":
            return random.choice(k, size, p=random.dirichlet([alpha / k] * k))
        while True:
            labels = [0]
            for _ in range(size - 1):  # join the cluster of an earlier row, or open a new one
                beside = random.random() * (len(labels) + alpha)
                labels.append(labels[int(beside)] if beside < len(labels) else max(labels) + 1)
            if max(labels) < k:
                return np.array(labels)

    def draw_data(self, parameters: Parameters, random: Random) -> np.ndarray:
        """Draw data in all cells, given the parameters; ordinal ones are levels of what would be seen otherwise."""
        omega = np.maximum(self.weights, 1e-9) * parameters.row_weights[:, None]
        X = parameters.model() + np.sqrt(parameters.sigma2 / omega) * random.standard_normal(self.shape)
        return LEVELS.values[np.searchsorted(LEVELS.cuts, X)] if self.hyper.scale is not None else X

    # -- by the chain -----------------------------------------------------------------------------------------

    def chain_on(self, X: np.ndarray) -> Chain:
        """Return a new chain on these data, always with the same grid."""
        pattern = self.observations
        obs = replace(pattern, stored_values=X[self.weights > 0], _cache={"by_column": pattern._by_column()})
        latent = self.hyper.scale is not None  # whose range is half that of templates
        grid = Grid.of(obs, 4, 0.0, row_weights=True, slopes=True, latent=latent)
        grid = replace(grid, step=2.0 ** (-17 if latent else -20), limit=2**25, offset=0.0)
        engine = twins.KINDS[self.engine](obs, grid, Threads(1))
        engine.features = tuple(grid.feature_ticks(x) if x.size else None for x in self.features)
        return self.chain_class(engine.new_state(), self.hyper, 0, 1.0)

    def chain(self, steps: int, random: Random) -> Iterator[tuple[Parameters, np.ndarray]]:
        """Yield parameters and data after each of `steps` sweeps, each followed by a new draw of the data."""
        X = self.draw_data(self.draw_parameters(random), random)
        chain = self.chain_on(X)
        for step in range(BURN + steps):
            chain.run_sweep()
            parameters = self.parameters_of(chain)
            if step >= BURN:
                yield parameters, X
            X = self.draw_data(parameters, random)
            before, chain = chain, self.chain_on(X)
            chain.continue_from(before)

    def parameters_of(self, chain: Chain) -> Parameters:
        """Return the current parameters of a chain."""
        state, step = chain.state, chain.state.engine.grid.step
        labels = [[c.astype(int), d.astype(int)] for c, d in zip(state.row_labels, state.col_labels, strict=True)]
        effects = [np.zeros(n) if e is None else e * step for n, e in zip(self.shape, state.effects, strict=True)]
        templates = [T * step for T in state.templates]
        tau2, effect_tau2 = chain.tau2.copy(), chain.effect_tau2.copy()
        slopes = [
            np.zeros((n, d)) if x is None else x * state.engine.grid.slope_step
            for n, d, x in zip(self.shape, self.n_features[::-1], state.slopes, strict=True)
        ]
        more = [x.copy() for x in chain.slope_tau2], slopes, self.features
        return Parameters(chain.sigma2, tau2, templates, labels, chain.row_weights(), effect_tau2, effects, *more)

    # -- the test ---------------------------------------------------------------------------------------------

    def p_values(self, steps: int, seed: int = 0) -> list[float]:
        """Return p-values of the mean of every statistic along the chain (by batch means) against the prior's."""
        random, empty = np.random.default_rng(seed), self.hyper.sampler == "blocked"
        straight = (self.draw_parameters(random) for _ in range(steps))
        prior, chain = (
            np.array([each.statistics(X, self.weights, empty, self.hyper.scale is not None) for each, X in draws])
            for draws in (((p, self.draw_data(p, random)) for p in straight), self.chain(steps, random))
        )
        means = batch_means(chain)
        error = np.sqrt(means.var(axis=0, ddof=1) / BATCHES + prior.var(axis=0) / len(prior))
        varied = error > 0.0
        z = (means.mean(axis=0) - prior.mean(axis=0))[varied] / error[varied]
        return list(2.0 * stats.t.sf(np.abs(z), BATCHES - 1))

    def p_value(self, steps: int, seed: int = 0) -> float:
        """Return the smallest p-value after Bonferroni correction."""
        return bonferroni(self.p_values(steps, seed))
