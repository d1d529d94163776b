"""bACCAMS: one chain of the sampler.

A visit takes one stencil out of the residual, draws its labels and template, and puts it back; a sweep draws effects if
there are any, visits all stencils, and then draws row precisions and variances (docs/internals/decisions.md has the order).
What is drawn from is in `accams.fit.conditionals`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, softmax

from accams.engine.base import State
from accams.engine.rules import BlockedVisit, Collapsed, Effects, Key, RowNoise, Template, Update
from accams.engine.tables import Tables, Visited, gain_of
from accams.errors import InputError
from accams.fit.backfit import Settings, alternate
from accams.fit.conditionals import (
    draw_inverse_gamma,
    draw_keys,
    draw_prior_labels,
    draw_template,
    log_inverse_gamma,
    log_normal,
)  # fmt: skip
from accams.fit.keys import Purpose, generator, key_of
from accams.fit.priors import Priors
from accams.fit.visits import Visit, visit_of
from accams.model.stencils import Labels

Random = np.random.Generator
Counts = list[NDArray[np.int64]]
MOST_SUB = 1 << 20  # more label updates than any visit makes


class Chain:
    """A state and the variances that go with it.

    Parameters
    ----------
    state : State
        With no stencils; `continue_from` takes over those of another chain.
    priors : Priors
    number : int
        Which chain; part of the key of its random numbers.
    sigma2 : float
        Noise variance to begin with; held unless the priors sample it.
    tau2 : float
        Variance of templates to begin with where it is sampled.
    """

    def __init__(self, state: State, priors: Priors, number: int, sigma2: float, tau2: float = 1.0) -> None:
        if priors.sampler == "collapsed" and not state.engine.in_turn:
            raise InputError(
                f"engine={state.engine.name!r} has no collapsed sampler: use sampler='blocked' or engine='cpu'"
            )
        self.state = state
        self.priors = priors
        self.number = number
        self.sigma2 = sigma2
        self.tau2 = np.full(len(priors.shapes), tau2) if priors.tau2 is None else np.array(priors.tau2, float)
        self.effect_tau2 = np.full(2, tau2)
        self.normalise_rows = False
        self.counts: list[Counts] = []  # rows and columns per label, of each stencil
        self.sweep = 0
        self.moved = 0
        self.visits = np.full((len(priors.shapes), len(Visit._fields)), np.nan)
        self._mass = state.engine.observations.total_weight()
        self._key = (0, 0)
        self._open: list[tuple[int, int, Visited | None, float]] = []  # visits that were begun, not yet taken note of

    # -- a sweep ----------------------------------------------------------------------------------------------

    def run_sweep(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Visit all stencils and draw all variances; False if `stop` said so between two stencils."""
        random = self._random()
        self._forget_moves()
        if self.priors.continuous:
            self._draw_effects(random)
        for stencil in range(len(self.priors.shapes)):
            if stop():
                self._collect()
                return False
            self.visit(stencil, random)
        self._collect()
        self.draw_noise(random)
        self.sweep += 1
        return True

    def backfit(self, stencil: int, visits: int, stop: Callable[[], bool] = lambda: False) -> bool:
        """Fit one stencil to what the others leave, by so many visits, and leave it at that; False if stopped."""
        for _ in range(visits):
            if stop():
                return False
            random = self._random()
            self._forget_moves()
            if self.priors.continuous:
                self._draw_effects(random)
            self.visit(stencil, random)
            self._collect()
            self.draw_noise(random)
            self.sweep += 1
        return True

    def visit(self, stencil: int, random: Random) -> None:
        """Take one stencil out, draw its labels and template, put it back; `_collect` waits for what came out."""
        state = self.state
        new = stencil >= len(state.templates)
        state.begin(stencil, self.priors.shapes[stencil])
        if new:
            self._begin(stencil)
            self.counts.append([_counts(state.labels[axis], state.k[axis]) for axis in (0, 1)])
        T = self._template(state.tables(0), stencil, random) if new else state.templates[stencil]
        updates = self.priors.sub[min(self.sweep, len(self.priors.sub) - 1)]
        if self.priors.sampler == "blocked" and max(state.k) > 1:
            state.visit(self._blocked_visit(T, stencil, updates, random))
            found = None
        else:
            found = self._visit_in_turn(T, new, stencil, updates, random)
        self._open.append((stencil, updates, found, self._tau_gamma(stencil, random)))

    def _visit_in_turn(self, T: Template, new: bool, stencil: int, updates: int, random: Random) -> Visited:
        """A visit of the collapsed sampler, or to a stencil of one block, update by update."""
        state, counts, moved, tables = self.state, self.counts[stencil], [0, 0], None
        if max(state.k) == 1 and not self.priors.growing:  # nothing to label, but a template to draw
            tables = state.tables(0)
            T = T if new else self._template(tables, stencil, random)
        for sub in range(updates):
            for axis in (0, 1):
                if state.k[axis] > 1 or self.priors.growing:
                    tables = state.update(axis, self._collapsed(axis, stencil, sub), tables)
                    counts[axis] = tables.counts
                    moved[axis] += tables.moved
                    T = self._template(tables, stencil, random)
        assert tables is not None
        state.end(T)
        return Visited(T, counts, (moved[0], moved[1]), gain_of(tables, T))

    def _collect(self) -> None:
        """Take note of what came out of all visits since the last time."""
        told = iter(self.state.visited())
        scale = self.state.weight_unit * self.state.engine.grid.step**2 / self._mass
        for stencil, updates, found, gamma in self._open:
            each = found or next(told)
            self.counts[stencil] = each.counts
            self.moved += sum(each.moved)
            changed = [x / (updates * size) for x, size in zip(each.moved, self.state.shape, strict=True)]
            self.visits[stencil] = visit_of(each.counts, changed, each.gain * scale)
            if self.priors.tau2 is None:
                self.tau2[stencil] = self._tau2_of(each, gamma)
        self._open = []

    def draw_noise(self, random: Random) -> None:
        """Row precisions given the residuals, then sigma^2 where it is sampled."""
        priors = self.priors
        if priors.row_noise is not None:
            key = key_of(priors.seed, Purpose.ROW_WEIGHTS, self.number, self.sweep)
            self.state.draw_row_weights(RowNoise(priors.row_noise, self.sigma2, key, self.normalise_rows))
        if priors.sample_sigma:
            shape = priors.eta[0] + self.state.engine.observations.n_observed / 2.0
            scale = priors.eta[1] + self.state.squared_error(row_weighted=True) / 2.0
            self.sigma2 = draw_inverse_gamma(shape, scale, random, priors.sigma_max**2)

    # -- around it --------------------------------------------------------------------------------------------

    def row_weights(self) -> NDArray[np.float64]:
        """The precision of every row."""
        weights = self.state.row_weights
        return np.ones(self.state.shape[0]) if weights is None else np.asarray(weights * self.state.engine.row_step)

    def recount(self) -> None:
        """Count the labels of all stencils anew."""
        state = self.state
        labels = zip(state.templates, state.row_labels, state.col_labels, strict=True)
        self.counts = [[_counts(c, T.shape[0]), _counts(d, T.shape[1])] for T, c, d in labels]

    def continue_from(self, other: Chain) -> None:
        """Begin with the stencils, variances and row weights of a chain that was fitted to other observations.

        The random numbers continue where that chain's end.
        """
        mine, theirs, grid = self.state, other.state, self.state.engine.grid
        ratio = theirs.engine.grid.step / grid.step
        templates = [grid.template(T.astype(np.float64) * ratio) for T in theirs.templates]
        effects = [None if each is None else np.rint(each * ratio).astype(np.int32) for each in theirs.effects]
        mine.restore(templates, theirs.row_labels, theirs.col_labels, effects)
        self.recount()
        if theirs.row_weights is not None:
            mine.set_row_weights(other.row_weights())
        self.sigma2, self.tau2, self.effect_tau2 = other.sigma2, other.tau2.copy(), other.effect_tau2.copy()
        self.sweep = other.sweep

    def log_joint(self) -> float:
        """Log density of data, labels, templates, effects, row precisions and variances together."""
        state, priors = self.state, self.priors
        cells, error = state.engine.observations.n_observed, state.squared_error(row_weighted=True)
        total = -0.5 * (cells * np.log(2.0 * np.pi * self.sigma2) + error / self.sigma2)
        if priors.sample_sigma:
            total += log_inverse_gamma(self.sigma2, *priors.eta)
        for stencil, (T, counts) in enumerate(zip(state.templates, self.counts, strict=True)):
            values = T * state.engine.grid.step
            if priors.sampler == "collapsed":
                values = values[np.ix_(counts[0] > 0, counts[1] > 0)]
            total += log_normal(values, self.tau2[stencil])
            total += sum(priors.log_labels(counts[axis], stencil, axis) for axis in (0, 1))
            if priors.tau2 is None:
                total += log_inverse_gamma(self.tau2[stencil], *priors.gamma)
        for each, tau2 in zip(state.effects, self.effect_tau2, strict=True):
            if each is not None:
                total += log_normal(each * state.engine.grid.step, tau2) + log_inverse_gamma(tau2, *priors.gamma)
        if priors.row_noise is not None:
            w, nu = self.row_weights(), priors.row_noise / 2.0
            total += 0.5 * float(state.engine.observations.row_counts @ np.log(w))
            total += float(np.sum((nu - 1.0) * np.log(w) - nu * w)) + len(w) * (nu * np.log(nu) - gammaln(nu))
        return float(total)

    def row_shares(self) -> NDArray[np.uint8]:
        """Probabilities of every row's labels given all else, in 255ths, stencil after stencil.

        Each stencil has one more column: the average row, which is all that is known of rows without observations.
        """
        state, parts = self.state, list[NDArray[np.float64]]()
        unseen = state.engine.observations.empty(0)
        for stencil, T in enumerate([*state.templates]):
            state.begin(stencil)
            (n, l), t = state.sums(0), T.astype(np.float64)
            precision = 0.5 * state.weight_unit * state.engine.grid.step**2 / self.sigma2
            scale = precision * (1 if state.row_weights is None else state.row_weights[:, None])
            logits = self._log_weights_without(stencil, state.labels[0]) - scale * (n @ (t * t).T - 2.0 * (l @ t.T))
            shares = np.append(softmax(logits, axis=1), np.zeros((len(logits), 1)), axis=1)
            shares[unseen] = np.append(np.zeros(len(t)), 1.0)
            parts.append(shares)
            state.end(T)
        last = np.concatenate([np.append(np.zeros(len(T)), 1.0) for T in state.templates])
        return np.rint(255.0 * np.append(np.concatenate(parts, axis=1), last[None], axis=0)).astype(np.uint8)

    def _log_weights_without(self, stencil: int, labels: Labels) -> NDArray[np.float64]:
        """Log prior weight of every label for every row, given the labels of all other rows."""
        counts = self.counts[stencil][0]
        others = counts - (np.arange(len(counts)) == labels[:, None])
        weights = others + self.priors.concentration(stencil, 0)
        if self.priors.label_prior == "crp":
            first = np.argmin(others > 0, axis=1)[:, None]  # of the empty clusters one is open
            opened = (np.arange(len(counts)) == first) & (others == 0)
            weights = np.where(opened, self.priors.concentration(stencil, 0), others)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights))

    # -- its parts --------------------------------------------------------------------------------------------

    def _forget_moves(self) -> None:
        """No label has moved yet in this sweep."""
        self.moved = 0
        moves = slice(Visit._fields.index("row_changed"), Visit._fields.index("col_changed") + 1)
        self.visits[: len(self.state.templates), moves] = 0.0

    def _random(self) -> Random:
        """The random numbers of a sweep; those of labels are keyed apart, for the kernels."""
        self._key = key_of(self.priors.seed, Purpose.LABELS, self.number, self.sweep)
        return generator(self.priors.seed, Purpose.SWEEP, self.number, self.sweep)

    def _begin(self, stencil: int) -> None:
        """First labels of a stencil: by ACCAMS on the residual, or from the prior."""
        state, priors = self.state, self.priors
        start = generator(priors.seed, Purpose.START, self.number, stencil)
        if priors.start == "accams":
            state.seed(0, "k-means++", start)
            state.cluster(1, "k-means++", start, 2)
            alternate(state, Settings([state.k], max_iter=10), first=1)
        else:
            for axis in (0, 1):
                crp, k = priors.label_prior == "crp", state.k[axis]
                weight = priors.concentration(stencil, axis)
                state.set_labels(axis, draw_prior_labels(state.shape[axis], k, weight, crp, start))

    def _template(self, tables: Tables, stencil: int, random: Random) -> Template:
        state = self.state
        return draw_template(tables, self.sigma2, self.tau2[stencil], state.weight_unit, state.engine.grid, random)

    def _blocked_visit(self, T: Template, stencil: int, updates: int, random: Random) -> BlockedVisit:
        """All that the engine needs for a visit; the keys of its random numbers do not depend on what comes out."""
        state, priors = self.state, self.priors
        unit, step = state.weight_unit, state.engine.grid.step
        axes = [axis for axis in (0, 1) if state.k[axis] > 1]
        keys = iter(draw_keys(random, 2 * updates * len(axes)))
        planned = tuple(
            Update(axis, next(keys), self._label_key(stencil, sub, axis), next(keys))
            for sub in range(updates)
            for axis in axes
        )
        return BlockedVisit(
            T, self.counts[stencil], self.tau2[stencil] * unit / self.sigma2, float(np.sqrt(self.tau2[stencil])) / step,
            unit * step**2 / self.sigma2, (priors.concentration(stencil, 0), priors.concentration(stencil, 1)), planned,
        )  # fmt: skip

    def _collapsed(self, axis: int, stencil: int, sub: int) -> Collapsed:
        priors, unit = self.priors, self.state.weight_unit
        kappa = self.tau2[stencil] * unit / self.sigma2
        rho = 0.5 * kappa * (unit * self.state.engine.grid.step**2 / self.sigma2)
        key, crp = self._label_key(stencil, sub, axis), priors.label_prior == "crp"
        return Collapsed(kappa, rho, priors.concentration(stencil, axis), crp, key, priors.growing)

    def _label_key(self, stencil: int, sub: int, axis: int) -> Key:
        return self._key[0], self._key[1] + (stencil * MOST_SUB + sub) * 2 + axis

    def _tau_gamma(self, stencil: int, random: Random) -> float:
        """The gamma variable that will give tau^2 of a stencil; its shape is known before the visit is done.

        The collapsed sampler has only the blocks of occupied clusters, and is done already.
        """
        if self.priors.tau2 is not None:
            return 0.0
        size = self.state.k[0] * self.state.k[1]
        if self.priors.sampler == "collapsed":
            rows, cols = (int(np.count_nonzero(each)) for each in self.counts[stencil])
            size = rows * cols
        return float(random.standard_gamma(self.priors.gamma[0] + size / 2.0))

    def _tau2_of(self, visited: Visited, gamma: float) -> float:
        """tau^2 of one stencil, which is inverse gamma given its template."""
        values = visited.T * self.state.engine.grid.step
        if self.priors.sampler == "collapsed":
            values = values[np.ix_(visited.counts[0] > 0, visited.counts[1] > 0)]
        return float((self.priors.gamma[1] + float(np.square(values).sum()) / 2.0) / gamma)

    def _draw_effects(self, random: Random) -> None:
        """Effects of rows and columns, each followed by their variance."""
        state, priors, (shape, scale) = self.state, self.priors, self.priors.gamma
        for axis in (0, 1):
            key = key_of(priors.seed, Purpose.EFFECTS, self.number, self.sweep, axis)
            tau2 = self.effect_tau2[axis]
            rule = Effects(tau2 * state.weight_unit / self.sigma2, np.sqrt(tau2) / state.engine.grid.step, key)
            squares = state.draw_effects(axis, rule)
            self.effect_tau2[axis] = draw_inverse_gamma(shape + state.shape[axis] / 2.0, scale + squares / 2.0, random)


def _counts(labels: Labels, k: int) -> NDArray[np.int64]:
    return np.bincount(labels, minlength=k)
