"""bACCAMS: one chain of the Gibbs sampler.

A visit takes one stencil out of the residual, draws its labels and template, and puts it back. A sweep draws the
latent values of ordinal observations, the continuous effects and, every few sweeps, the slopes on features, visits all
stencils, and draws row precisions and sigma^2. The collapsed sampler draws labels with the template integrated out
(partial collapsing), which is valid only if the template is redrawn right after its labels, before tau^2, sigma^2 or
another stencil is touched.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from accams.data.weights import power_of_two_above
from accams.engine.base import State
from accams.engine.grid import FEATURE_STEP
from accams.engine.kmeans import QUICK, THOROUGH
from accams.engine.rules import BlockedVisit, Collapsed, Effects, Key, Latent, RowNoise, Slopes, Template, Update
from accams.engine.tables import Tables, Visited, gain_of
from accams.errors import InputError
from accams.fit import conditionals
from accams.fit.backfit import BackfitSettings, Visit, alternate, visit_of
from accams.fit.hyper import Hyperparameters
from accams.fit.keys import Purpose, generator, key_of

Random = np.random.Generator
Counts = list[NDArray[np.int64]]
SCALE_BITS = 40  # of sums over all rows, which have more where slopes are larger than their variance says
SLOPE_INTERVAL = 4  # sweeps from one draw of slopes to the next, which takes longer than a visit
MOST_SUB = 1 << 20  # more label updates than any visit makes: keeps the keys of stencils apart


class Chain:
    """A state with its variances.

    It begins without stencils; `continue_from` copies those of another chain. `number` is part of the key of its random
    numbers. `sigma2`, the noise level, and `tau2` are initial values where they are sampled.
    """

    def __init__(self, state: State, hyper: Hyperparameters, number: int, sigma2: float, tau2: float = 1.0) -> None:
        if hyper.sampler == "collapsed" and not state.engine.in_turn:
            raise InputError(
                f"engine={state.engine.name!r} has no collapsed sampler: use sampler='blocked' or engine='cpu'"
            )
        self.state, self.hyper, self.number = state, hyper, number
        self.ordinal = hyper.is_ordinal(number)
        self.sigma2 = sigma2 * hyper.noise_share(number)
        self.tau2 = np.full(len(hyper.shapes), tau2) if hyper.tau2 is None else np.array(hyper.tau2, float)
        self.effect_tau2 = np.full(2, tau2)
        # variances of the slopes of rows and of columns on each feature, which share a prior
        widths = [0 if x is None else x.shape[1] for x in reversed(state.engine.features)]
        self.slope_tau2 = [np.full(d, hyper.slopes[1] / max(d, 1)) for d in widths]
        self.normalise_rows = False
        self.counts: list[Counts] = []  # rows and columns per label, of each stencil
        self.sweep = 0
        self.moved = 0
        self.visits = np.full((len(hyper.shapes), len(Visit._fields)), np.nan)
        self._mass = state.engine.observations.total_weight()
        self._key = (0, 0)
        # visits not yet collected: stencil, label updates, result (None if the engine has it), gamma variable for tau^2
        self._pending: list[tuple[int, int, Visited | None, float]] = []

    # -- sweeps -----------------------------------------------------------------------------------------------

    def run_sweep(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Visit all stencils and draw all variances; return False if `stop` ended the sweep between two stencils."""
        random, n_stencils = self._begin_sweep(), len(self.hyper.shapes)
        known = self.hyper.sampler == "blocked" and len(self.state.templates) == n_stencils
        at_once = self.state.visits_at_once if known else 1
        for first in range(0, n_stencils, at_once):
            if stop():
                self._collect()
                return False
            if at_once == 1:
                self.visit(first, random)
            else:
                self.state.visit_all(self._planned(range(first, min(first + at_once, n_stencils)), random))
        self._end_sweep(random)
        return True

    def backfit(self, stencil: int, visits: int, stop: Callable[[], bool] = lambda: False) -> bool:
        """Fit one stencil to the residual of the others in sweeps that visit it alone; return False if stopped."""
        for _ in range(visits):
            if stop():
                return False
            random = self._begin_sweep()
            self.visit(stencil, random)
            self._end_sweep(random)
        return True

    def visit(self, stencil: int, random: Random) -> None:
        """Take one stencil out, draw its labels and template, put it back; `_collect` waits for pending results."""
        state = self.state
        new = stencil >= len(state.templates)
        state.begin(stencil, self.hyper.shapes[stencil])
        if new:
            self._initialise(stencil)
            self.counts.append([np.bincount(state.labels[axis], minlength=state.k[axis]) for axis in (0, 1)])
        T = self._template(state.tables(0), stencil, random) if new else state.templates[stencil]
        if self.hyper.sampler == "blocked" and max(state.k) > 1:
            state.visit(self._blocked_visit(T, stencil, random))
            result = None
        else:
            result = self._collapsed_visit(T, new, stencil, random)
        self._pending.append((stencil, self._updates, result, self._tau_gamma(stencil, random)))

    def _planned(self, stencils: Iterable[int], random: Random) -> Iterator[tuple[int, BlockedVisit]]:
        """Yield blocked visits to stencils that are in the model, as `visit` makes them."""
        for stencil in stencils:
            yield stencil, self._blocked_visit(self.state.templates[stencil], stencil, random)
            self._pending.append((stencil, self._updates, None, self._tau_gamma(stencil, random)))

    @property
    def _updates(self) -> int:
        """Label updates in each visit of this sweep."""
        return self.hyper.sub[min(self.sweep, len(self.hyper.sub) - 1)]

    def _collapsed_visit(self, T: Template, new: bool, stencil: int, random: Random) -> Visited:
        """Make a visit of the collapsed sampler, or to a stencil of one block, where no label is drawn."""
        state, counts, moved, tables = self.state, self.counts[stencil], [0, 0], None
        if max(state.k) == 1 and not self.hyper.growing:  # no labels, but a template to draw
            tables = state.tables(0)
            T = T if new else self._template(tables, stencil, random)
        for sub in range(self._updates):
            for axis in (0, 1):
                if state.k[axis] > 1 or self.hyper.growing:
                    tables = state.update(axis, self._collapsed(axis, stencil, sub), tables)
                    counts[axis] = tables.counts
                    moved[axis] += tables.moved
                    T = self._template(tables, stencil, random)
        assert tables is not None
        state.end(T)
        return Visited(T, counts, (moved[0], moved[1]), gain_of(tables, T))

    def _collect(self) -> None:
        """Wait for the pending visits and record their results."""
        results = iter(self.state.visited())
        scale = self.state.weight_unit * self.state.engine.grid.step**2 / self._mass
        for stencil, updates, result, gamma in self._pending:
            visited = result or next(results)
            self.counts[stencil] = visited.counts
            self.moved += sum(visited.moved)
            changed = [x / (updates * size) for x, size in zip(visited.moved, self.state.shape, strict=True)]
            self.visits[stencil] = visit_of(visited.counts, changed, visited.gain * scale)
            if self.hyper.tau2 is None:
                self.tau2[stencil] = self._tau2_of(visited, gamma)
        self._pending = []

    def draw_noise(self, random: Random) -> None:
        """Draw row precisions given the residuals, then sigma^2 ~ IG(eta_a + E/2, eta_b + sum(omega r^2)/2)."""
        hyper = self.hyper
        if hyper.row_noise is not None:
            key = key_of(hyper.seed, Purpose.ROW_WEIGHTS, self.number, self.sweep)
            self.state.draw_row_weights(RowNoise(hyper.row_noise, self.sigma2, key, self.normalise_rows))
        if hyper.sample_sigma:
            shape = hyper.eta[0] + self.state.engine.observations.n_observed / 2.0
            scale = hyper.eta[1] + self.state.squared_error(row_weighted=True) / 2.0
            self.sigma2 = conditionals.draw_inverse_gamma(shape, scale, random, hyper.sigma_max**2)

    # -- state ------------------------------------------------------------------------------------------------

    @property
    def level(self) -> float:
        """Noise variance of normal observations that goes with that of the chain (`Hyperparameters.noise_share`)."""
        return self.sigma2 / self.hyper.noise_share(self.number)

    @level.setter
    def level(self, level: float) -> None:
        self.sigma2 = level * self.hyper.noise_share(self.number)

    def expected(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected values of observations where the chain's model is f."""
        if not self.ordinal:
            return f
        assert self.hyper.scale is not None
        return replace(self.hyper.scale, spread=float(np.sqrt(self.sigma2))).mean(f)

    def row_weights(self) -> NDArray[np.float64]:
        weights = self.state.row_weights
        return np.ones(self.state.shape[0]) if weights is None else np.asarray(weights * self.state.engine.row_step)

    @property
    def n_labels(self) -> int:
        """Return the number of row and column labels of all stencils (at least of one)."""
        return sum(self.state.shape) * max(len(self.hyper.shapes), 1)

    def occupied(self) -> float:
        used = sum(int(np.count_nonzero(counts)) for both in self.counts for counts in both)
        return used / max(len(self.state.templates), 1)

    def mean_squared_error(self) -> float:
        return max(self.state.squared_error(), 0.0) / self._mass

    def recount(self) -> None:
        state = self.state
        labels = zip(state.templates, state.row_labels, state.col_labels, strict=True)
        self.counts = [[np.bincount(c, None, T.shape[0]), np.bincount(d, None, T.shape[1])] for T, c, d in labels]

    def continue_from(self, other: "Chain", kept: Sequence[NDArray[np.bool_] | None] = (None, None)) -> None:
        """Copy the stencils, variances and row weights of a chain that was fitted to other observations.

        Random numbers continue where those of the other chain end. `kept` are the slopes of rows and of columns to be
        copied, by feature, if not all are.
        """
        source, grid = other.state, self.state.engine.grid
        ratio = source.engine.grid.step / grid.step
        templates = [grid.template(T.astype(np.float64) * ratio) for T in source.templates]
        some = [x if x is None or mask is None else x[:, mask] for x, mask in zip(source.slopes, kept, strict=True)]
        some = [None if x is None or not x.shape[1] else x for x in some]
        effects, slopes = (
            [None if x is None else np.rint(x * ratio).astype(np.int32) for x in both]
            for both in (source.effects, some)
        )
        self.state.restore(templates, source.row_labels, source.col_labels, effects, slopes)
        self.recount()
        if source.row_weights is not None:
            self.state.set_row_weights(other.row_weights())
        self.sigma2, self.tau2, self.effect_tau2 = other.sigma2, other.tau2.copy(), other.effect_tau2.copy()
        known = zip(other.slope_tau2, kept, strict=True)
        self.slope_tau2 = [x.copy() if mask is None or not len(x) else x[mask] for x, mask in known]
        self.sweep = other.sweep

    def log_joint(self) -> float:
        """Return the log density of data, labels, templates, effects, row precisions and variances.

        Constants that the conditionals drop are included, because sigma^2 and tau^2 change between sweeps.
        """
        state, hyper = self.state, self.hyper
        cells, error = state.engine.observations.n_observed, state.squared_error(row_weighted=True)
        total = -0.5 * (cells * np.log(2.0 * np.pi * self.sigma2) + error / self.sigma2)
        if hyper.sample_sigma:
            total += conditionals.log_inverse_gamma(self.sigma2, *hyper.eta)
        for stencil, (T, counts) in enumerate(zip(state.templates, self.counts, strict=True)):
            total += conditionals.log_normal(self._instantiated(T, counts), self.tau2[stencil])
            total += sum(hyper.log_labels(counts[axis], stencil, axis) for axis in (0, 1))
            if hyper.tau2 is None:
                total += conditionals.log_inverse_gamma(self.tau2[stencil], *hyper.gamma)
        for effects, tau2 in zip(state.effects, self.effect_tau2, strict=True):
            if effects is not None:
                total += conditionals.log_normal(
                    effects * state.engine.grid.step, tau2
                ) + conditionals.log_inverse_gamma(tau2, *hyper.gamma)
        for slopes, variances in zip(state.slopes, self.slope_tau2, strict=True):
            for f, tau2 in enumerate(variances if slopes is not None else ()):
                assert slopes is not None
                total += conditionals.log_normal(slopes[:, f] * state.engine.grid.slope_step, tau2)
                total += conditionals.log_inverse_gamma(tau2, hyper.slopes[0], hyper.slopes[1] / len(variances))
        if hyper.row_noise is not None:
            w, nu = self.row_weights(), hyper.row_noise / 2.0
            total += 0.5 * float(state.engine.observations.row_counts @ np.log(w))
            total += float(np.sum((nu - 1.0) * np.log(w) - nu * w)) + len(w) * (nu * np.log(nu) - gammaln(nu))
        return float(total)

    # -- parts of a sweep -------------------------------------------------------------------------------------

    def _begin_sweep(self) -> Random:
        """Reset the counts of changed labels, draw effects, and return the generator of this sweep."""
        self.moved = 0
        moves = slice(Visit._fields.index("row_changed"), Visit._fields.index("col_changed") + 1)
        self.visits[: len(self.state.templates), moves] = 0.0
        self._key = key_of(self.hyper.seed, Purpose.LABELS, self.number, self.sweep)  # of the label kernels
        random = generator(self.hyper.seed, Purpose.SWEEP, self.number, self.sweep)
        if self.ordinal:
            self._draw_latent()
        if self.hyper.continuous:
            self._draw_effects(random)
        for axis in (0, 1):
            if self.state.engine.features[1 - axis] is not None and self.sweep % SLOPE_INTERVAL == 0:
                self._draw_slopes(axis, random)
        return random

    def _end_sweep(self, random: Random) -> None:
        self._collect()
        self.draw_noise(random)
        self.sweep += 1

    def _initialise(self, stencil: int) -> None:
        """Set the first labels of a stencil: by ACCAMS on the residual, or from the prior."""
        state, hyper = self.state, self.hyper
        start = generator(hyper.seed, Purpose.START, self.number, stencil)
        if hyper.start == "accams":
            state.seed(0, "k-means++", start, QUICK if hyper.quick_start else THOROUGH)
            state.cluster(1, "k-means++", start, 2)
            alternate(state, BackfitSettings([state.k], max_iter=hyper.start_rounds), first=1)
        else:
            for axis in (0, 1):
                crp, k = hyper.label_prior == "crp", state.k[axis]
                weight = hyper.concentration(stencil, axis)
                state.set_labels(axis, conditionals.draw_prior_labels(state.shape[axis], k, weight, crp, start))

    def _template(self, tables: Tables, stencil: int, random: Random) -> Template:
        state = self.state
        return conditionals.draw_template(
            tables, self.sigma2, self.tau2[stencil], state.weight_unit, state.engine.grid, random
        )

    def _blocked_visit(self, T: Template, stencil: int, random: Random) -> BlockedVisit:
        """Return the record of a blocked visit; its keys do not depend on its results, so the engine need not ask."""
        state, hyper = self.state, self.hyper
        unit, step = state.weight_unit, state.engine.grid.step
        axes = [axis for axis in (0, 1) if hyper.shapes[stencil][axis] > 1]
        keys = iter(conditionals.draw_keys(random, 2 * self._updates * len(axes)))
        planned = tuple(
            Update(axis, next(keys), self._label_key(stencil, sub, axis), next(keys))
            for sub in range(self._updates)
            for axis in axes
        )
        return BlockedVisit(
            T, self.counts[stencil], self.tau2[stencil] * unit / self.sigma2, float(np.sqrt(self.tau2[stencil])) / step,
            unit * step**2 / self.sigma2, (hyper.concentration(stencil, 0), hyper.concentration(stencil, 1)), planned,
        )  # fmt: skip

    def _collapsed(self, axis: int, stencil: int, sub: int) -> Collapsed:
        hyper, unit = self.hyper, self.state.weight_unit
        kappa = self.tau2[stencil] * unit / self.sigma2
        rho = 0.5 * kappa * (unit * self.state.engine.grid.step**2 / self.sigma2)
        key, crp = self._label_key(stencil, sub, axis), hyper.label_prior == "crp"
        return Collapsed(kappa, rho, hyper.concentration(stencil, axis), crp, key, hyper.growing)

    def _label_key(self, stencil: int, sub: int, axis: int) -> Key:
        return self._key[0], self._key[1] + (stencil * MOST_SUB + sub) * 2 + axis

    def _tau_gamma(self, stencil: int, random: Random) -> float:
        """Draw the gamma variable from which `_tau2_of` makes tau^2 ~ IG(gamma_a + K/2, gamma_b + sum(T^2)/2).

        Its shape is known before a blocked visit is done: K, the number of instantiated template entries, is
        k_rows * k_cols. Collapsed visits are done by now; there K counts the blocks of occupied clusters.
        """
        if self.hyper.tau2 is not None:
            return 0.0
        size = self.hyper.shapes[stencil][0] * self.hyper.shapes[stencil][1]
        if self.hyper.sampler == "collapsed":
            rows, cols = (int(np.count_nonzero(counts)) for counts in self.counts[stencil])
            size = rows * cols
        return float(random.standard_gamma(self.hyper.gamma[0] + size / 2.0))

    def _tau2_of(self, visited: Visited, gamma: float) -> float:
        values = self._instantiated(visited.T, visited.counts)
        return float((self.hyper.gamma[1] + float(np.square(values).sum()) / 2.0) / gamma)

    def _instantiated(self, T: Template, counts: Counts) -> NDArray[np.floating]:
        """Return the template entries that are part of the state: with the collapsed sampler, of occupied blocks."""
        values = T * self.state.engine.grid.step
        return values[np.ix_(counts[0] > 0, counts[1] > 0)] if self.hyper.sampler == "collapsed" else values

    def _draw_latent(self) -> None:
        """Draw the latent values of ordinal observations given the model; they are the data of this sweep.

        They depend on nothing else of the sweep before, so they are no part of what a checkpoint holds.
        """
        scale, grid = self.hyper.scale, self.state.engine.grid
        assert scale is not None
        key, spread = key_of(self.hyper.seed, Purpose.LATENT, self.number, self.sweep), float(np.sqrt(self.sigma2))
        cuts, unit = grid.cut_points(scale.cuts), self.state.weight_unit
        self.state.draw_latent(Latent(scale.values, cuts, spread / grid.step, unit, key))

    def _draw_effects(self, random: Random) -> None:
        """Draw the effects of rows and of columns, each followed by its variance."""
        state, hyper, (shape, scale) = self.state, self.hyper, self.hyper.gamma
        for axis in (0, 1):
            key = key_of(hyper.seed, Purpose.EFFECTS, self.number, self.sweep, axis)
            tau2 = self.effect_tau2[axis]
            rule = Effects(tau2 * state.weight_unit / self.sigma2, np.sqrt(tau2) / state.engine.grid.step, key)
            squares = state.draw_effects(axis, rule)
            self.effect_tau2[axis] = conditionals.draw_inverse_gamma(
                shape + state.shape[axis] / 2.0, scale + squares / 2.0, random
            )

    def _draw_slopes(self, axis: int, random: Random) -> None:
        """Draw the slopes of rows or of columns on features of the other axis, followed by the variance of each.

        Where rows have few observations their slopes follow the variance and the variance the slopes, so that both
        would take hundreds of sweeps to find their size: in between, both are scaled together.
        """
        state, tau2, grid = self.state, self.slope_tau2[axis], self.state.engine.grid
        shape, scale = self.hyper.slopes[0], self.hyper.slopes[1] / len(tau2)
        spreads, key = (
            np.sqrt(tau2) / grid.slope_step,
            key_of(self.hyper.seed, Purpose.SLOPES, self.number, self.sweep, axis),
        )
        weight = grid.step**2 / self.sigma2
        unit = (
            power_of_two_above(self._mass * weight * float(np.square(spreads / FEATURE_STEP).sum())) * 2.0**-SCALE_BITS
        )
        rule = Slopes(state.weight_unit * weight, spreads, unit, key)

        def scaling(Q: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
            factors = conditionals.draw_scales(Q, g, tau2, shape, scale, random)
            tau2[:] *= factors**2
            return factors

        squares = state.draw_slopes(axis, rule, scaling)
        for f, square in enumerate(squares):
            tau2[f] = conditionals.draw_inverse_gamma(shape + state.shape[axis] / 2.0, scale + square / 2.0, random)
