"""Calibrate the noise level on held-out data.

A sampled sigma^2 falls far below the truth on sparse data: every row has a label in every stencil, and choosing among
so many labels fits noise. Therefore a few sweeps are run on a part of the data with different noise levels in different
chains, and the level is chosen whose chains, averaged, predict the held-out observations best; a second stage refines
it. The chains then continue on all data. docs/calibration.md has the study behind it.

For two chains a and b of one level, with running means f_a and f_b at held-out cells with values y, the mean of C such
chains has the expected squared error

    E (y - f_a) (y - f_b)  +  E (f_a - f_b)^2 / (2 C),

whose first term is the error of infinitely many chains. If the model is right there is also a direct estimate: single
draws f_a, f_b have E (y - f_a)^2 = sigma^2 + 2 V and E (f_a - f_b)^2 = 2 V with V the posterior variance, and the
difference is sigma^2. Unless the held-out observations rule the estimate out, the result is the geometric mean of both,
because their errors have different causes.

With an additive model (`accams.fit.additive`) whose predictions are g, the prediction is g + w (f - g) in place of f.
The error is quadratic in w, so each level has its best weight. Where w may be below 1, the level is chosen by the error
with it, and if no level improves on the additive model, that alone is taken (w = 0).

Slopes on features come in blocks (by what was observed, by a table of items, by one of users). What blocks add to f is
regressed on the held-out values, too: one whose weight is below a half is fitting noise, and is left out from there on.

An ordinal chain is judged by the rating that it expects, and has no direct estimate of sigma^2. In the end the scale on
which the mean of all draws is read is fitted to the held-out observations, too (`accams.fit.linking`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.data.splits import some_positions
from accams.fit.additive import Additive
from accams.fit.blocks import SURE, held_out_weights
from accams.fit.chains import Chains
from accams.fit.hyper import LEVELS
from accams.fit.keys import Purpose, generator
from accams.fit.levels import Tried, lowest_point, smooth_lowest_point
from accams.fit.linking import fit_scale
from accams.fit.noise import noise_of
from accams.model.posterior import Posterior
from accams.model.scale import Scale

Floats = NDArray[np.float64]
N_CHAINS = 2 * LEVELS  # minimum: two chains per level
SPACINGS = (1.6, 1.25)  # ratio of neighbouring levels in each stage
SWEEPS = (25, 20)  # sweeps of each stage, of which the last two thirds count;
# on large data a 12th of the run in the first, but not fewer than 15: half of those that count are then on their way to
# their levels, but on MovieLens 1M what is found and the errors in the end are as with more
SHORTEST, PART = 15, 12
COOLING = 10  # sweeps at the beginning in which the noise of the chains falls to their levels
MOST_SHIFTS = 6  # repetitions of the first stage while the best level is its lowest or highest
DOUBT = 1.5  # standard errors by which a level must be worse than the best to be ruled out,
MATTERS = 0.005  # and fraction of the error
WORTH = 3e-3  # fraction of the error by which a blend must improve on the additive model,
SHIFTED = 1e-3  # and by which levels must have improved to try others beyond them
SHARE = 0.05  # fraction of the observations held out,
FEWEST, MOST = 2_000, 500_000  # within these bounds, and never more than a fifth
ADDED = 4e-4  # share of the squared error that keeping few draws may add
MANY = 1 << 30
ALONE = 1.0, 1.0  # weight of stencils that are not blended
SAME = 0.0, 1.0  # shift and factor that change nothing
MOST_CELLS = 10_000  # held-out observations kept for the predictive noise


@dataclass(frozen=True)
class Calibration:
    """Result of a noise calibration."""

    sigma2: float  # noise variance of the sampler
    noise: float  # standard deviation of a new observation around its mean, in addition to the spread of the draws
    error: float  # mean squared error of the average of all chains on the held-out observations
    levels: Tried = field(default_factory=list)  # noise variances tried in each stage,
    errors: Tried = field(default_factory=list)  # and the expected squared error of each
    estimate: float = float("nan")  # direct estimate of the noise variance at the best level
    # (7, n): value, error, weight, variance of draws and of effects at held-out observations, and row and column of a
    # reference cell each
    held_out: Floats | None = field(default=None, repr=False, compare=False)
    spread: float = 0.0  # mean draw variance at the reference cells
    weight: float = 1.0  # of what stencils differ from the additive model
    scale: Scale | None = None  # on which the predictions of ordinal observations are to be read,
    latent: tuple[float, float] = SAME  # and the shift and factor that bring the draws of ordinal chains onto it
    blocks: list[float] = field(default_factory=list)  # weight of each block of slopes on features

    def draws_needed(self) -> int:
        """Return how many draws predict as well as all: the mean of n draws has an nth of their variance as error."""
        allowed = ADDED * self.error
        return int(np.ceil(self.spread / allowed)) if 0.0 < self.spread < MANY * allowed else MANY

    def predictive_noise(self, posterior: Posterior) -> float:
        """Return the predictive noise for these draws, which have spread further than those of the calibration."""
        if self.held_out is None or not self.spread > 0.0:
            return self.noise
        value, error, weight, spread, effects, rows, cols = self.held_out
        i, j = rows.astype(np.int64), cols.astype(np.int64)
        growth = float(posterior.moments_of_draws(i, j)[1].mean()) / self.spread
        precision, blended = weight / posterior.row_noise(i), self.weight < 1.0
        return noise_of(value, error, growth * spread + effects, precision, blended, self.scale)


def held_out_split(observations: Observations, seed: int) -> tuple[Observations, Observations]:
    """Split observations into a part to fit and a small held-out part."""
    size = held_out_size(observations.nnz)
    return observations.split(some_positions(observations.nnz, size, generator(seed, Purpose.CALIBRATION)))


def held_out_size(entries: int) -> int:
    """Return how many of so many observations are held out."""
    return min(max(int(round(SHARE * entries)), FEWEST), MOST, entries // 5)


def stage_sweeps(most_sweeps: int) -> tuple[int, int]:
    """Return the sweeps of each stage before a run of at most so many.

    Runs on large data are short, and many held-out observations tell levels apart after few sweeps.
    """
    first = min(max(most_sweeps // PART, SHORTEST), SWEEPS[0])
    return first, first * SWEEPS[1] // SWEEPS[0]


class CalibrationSet:
    """Held-out observations and the predictions of a stage's chains for them.

    Some of them have a reference cell: the same row, and the column of another observation. Once the held-out
    observations are fitted too, draws vary less there, so the growth of the draw variance is measured at those cells.
    """

    def __init__(
        self, observations: Observations, additive: Additive | None = None, bounds: tuple[float, float] = ALONE,
        scale: Scale | None = None, blocks: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.blocks = blocks  # names of those of slopes on features
        self.scale = scale  # of the sampler
        self.rows, self.cols, self.values = observations.coo()
        self.additive, self.bounds = additive, bounds if additive is not None else ALONE
        self.blended = self.bounds[0] < 1.0
        self.base = np.zeros(len(self.values)) if additive is None else additive.predict(self.rows, self.cols)
        weights, n = observations.weights, len(self.values)
        self.weights = np.ones(n) if weights is None else weights / weights.mean()
        self.some = np.unique(np.linspace(0, n - 1, min(n, MOST_CELLS)).astype(np.int64))
        self.near = self.rows[self.some], self.cols[(self.some + n // 2) % n]
        self.cells = [np.concatenate(pair) for pair in zip((self.rows, self.cols), self.near, strict=True)]
        self.clear()

    def clear(self) -> None:
        self.count, self.estimates = 0, list[Floats]()
        self.sums: Floats = np.zeros(0)  # (chain, cell), over the sweeps: of what is expected,
        self.models: Floats = np.zeros(0)  # of the model, which for ordinal chains is another thing,
        self.squares: Floats = np.zeros(0)  # and of its square
        self.terms: Floats = np.zeros((len(self.blocks), len(self.values)))  # of what each block of slopes adds

    def add(self, chains: Chains, levels: int) -> None:
        """Add the current predictions of all chains (chain c has level c modulo `levels`)."""
        f = chains.predict_at(*self.cells)
        expected = np.stack([chain.expected(x) for chain, x in zip(chains.chains, f, strict=True)])
        self.sums = expected if not self.count else self.sums + expected
        self.models = f if not self.count else self.models + f
        self.squares = f * f if not self.count else self.squares + f * f
        if self.blocks:
            self.terms = self.terms + chains.slope_terms(self.rows, self.cols)
        self.count += 1
        self.ordinal = np.array([chain.ordinal for chain in chains.chains])
        self.precision = chains.row_weights(self.rows) * self.weights
        draws = [f[level::levels, : len(self.values)] for level in range(levels)]
        if self.ordinal.any():  # sigma^2 is not the variance of an ordinal observation
            draws = [np.full((2, len(self.values)), np.nan) for _ in draws]
        self.estimates.append(np.array([noise_estimate(f, self.values, self.precision) for f in draws]))

    def losses(self, levels: int, n_chains: int) -> tuple[Floats, Floats]:
        """Return the expected squared error of the mean of `n_chains` chains (level, cell), and their weights."""
        parts = self.sums[:, : len(self.values)] / self.count - self.base
        rest, losses, weights = self.values - self.base, [], []
        for level in range(levels):
            means = parts[level::levels]
            weight = float(np.clip(blend_weight(means, rest, self.weights, n_chains), *self.bounds))
            scale = weight if self.blended else 1.0
            losses.append(self.weights * ensemble_losses(scale * means, rest, n_chains))
            weights.append(weight)
        return np.stack(losses), np.array(weights)

    def improved_by(self, losses: Floats) -> bool:
        """Return whether the best level is better than the additive model, by a standard error and enough to matter."""
        base = self.weights * (self.values - self.base) ** 2
        gain = base - losses[int(np.argmin(losses.mean(axis=1)))]
        return bool(gain.mean() > max(WORTH * base.mean(), gain.std() / np.sqrt(len(gain))))

    def result(self, sigma2: float, levels: Tried, errors: Tried, estimate: float, weight: float) -> Calibration:
        """Return the calibration with the predictive noise of the last stage."""
        n, (mean, spread, latent) = len(self.values), self._together()
        spread = weight**2 * spread
        error, effects, precision = self.values - mean[:n], np.zeros(n), self.precision
        if weight != 1.0:
            error = self.values - self.base - weight * (mean[:n] - self.base)
            precision = precision if weight else self.weights  # no stencils, no noise of rows
        if self.additive is not None:
            effects = self.additive.spread(self.rows, self.cols, min(weight, 1.0))
        x, scale = self.values - error, None
        if self.scale is not None:
            start = replace(self.scale, spread=float(np.sqrt(latent[1] ** 2 * sigma2 + spread[:n].mean())))
            scale = fit_scale(x, self.values, self.weights, start)
        noise = noise_of(self.values, error, spread[:n] + effects, precision, weight < 1.0, scale)
        if self.additive is not None:
            unseen = self.additive.unseen(self.rows, self.cols)
            effects += self.additive.explained_beside(noise, weight) * unseen
            noise = noise_of(self.values, error, spread[:n] + effects, precision, weight < 1.0, scale)
        kept = np.stack([*(x[self.some] for x in (self.values, error, self.weights, spread, effects)), *self.near])
        left, blocks = error if scale is None else self.values - scale.mean(x), self.block_weights()
        square, reference = float(np.average(left**2, weights=self.weights)), float(spread[n:].mean())
        return Calibration(
            sigma2, noise, square, levels, errors, estimate, kept, reference, weight, scale, latent, blocks
        )  # fmt: skip

    def block_weights(self) -> list[float]:
        """Return the weight of each block of slopes on features: 0 of a table's that may well be there by chance."""
        if not self.blocks:
            return []
        used = self.ordinal if self.ordinal.all() else ~self.ordinal
        means = self.models[used, : len(self.values)].mean(axis=0) / self.count
        found, errors = held_out_weights(self.terms / self.count, self.values - means, self.weights)
        sure = (found > SURE * errors) | (np.array(self.blocks) == "implicit")
        return [float(x) for x in np.where(sure, found, 0.0)]

    def _together(self) -> tuple[Floats, Floats, tuple[float, float]]:
        """Return mean and variance of all draws at each cell, and the shift and factor of ordinal chains.

        These bring their means to the mean and the variance of those of normal chains, if there are any.
        """
        means, squares, latent = self.models / self.count, self.squares / self.count, SAME
        if self.ordinal.any() and not self.ordinal.all():
            n = len(self.values)
            normal, own = means[~self.ordinal, :n].mean(axis=0), means[self.ordinal, :n].mean(axis=0)
            factor = float(normal.std() / own.std()) if own.std() > 0.0 else 1.0
            shift = float(normal.mean() - factor * own.mean())
            f = means[self.ordinal]
            means[self.ordinal] = shift + factor * f
            squares[self.ordinal] = shift**2 + 2.0 * shift * factor * f + factor**2 * squares[self.ordinal]
            latent = shift, factor
        mean = means.mean(axis=0)
        return mean, np.maximum(squares.mean(axis=0) - mean * mean, 0.0), latent


def calibrate(
    chains: Chains, held_out: Observations, n_chains: int, bounds: tuple[float, float],
    watch: Callable[[int, int, float], bool] | None = None, sweeps: Sequence[int] = SWEEPS,
    additive: Additive | None = None, weights: tuple[float, float] = ALONE,
) -> Calibration:  # fmt: skip
    """Run the chains on their part of the data and find the noise level that predicts the held-out part best.

    `additive` is the additive model of the same part; also find the weight of the stencils in a blend with it, within
    the bounds `weights`.

    `n_chains` is the number of chains averaged by the final model. `watch(sweep, n_sweeps, sigma2)` is called after
    each sweep and ends the calibration by returning True. sigma^2 stays within `bounds`.
    """
    scale = chains.chains[0].hyper.scale
    part, levels, errors = (
        CalibrationSet(held_out, additive, weights, scale, chains.blocks.present),
        Tried(),
        Tried(),
    )
    sigma2, estimate, total = chains.chains[0].level, float("nan"), sum(sweeps)
    done, shifts, stage, stopped = 0, 0, 0, False

    def report() -> bool:
        nonlocal done
        done += 1
        return watch is not None and watch(done, total, sigma2)

    while stage < len(sweeps) and not stopped:
        tried = np.clip(sigma2 * SPACINGS[stage] ** (np.arange(LEVELS) - (LEVELS - 1) / 2), *bounds)
        stopped = _run_stage(chains, part, tried, sweeps[stage], report, COOLING if not done else 0)
        if not part.count:
            break
        losses, best = part.losses(LEVELS, n_chains)
        levels.append(tried.tolist())
        errors.append(losses.mean(axis=1).tolist())
        if part.blended and not part.improved_by(losses):
            return part.result(sigma2, levels, errors, estimate, 0.0)
        sigma2, at_edge = lowest_point(tried, losses.mean(axis=1))
        estimate = float(np.mean(part.estimates, axis=0)[_nearest(tried, sigma2)])
        if stage == 0:
            sigma2, at_edge = _next_levels(sigma2, at_edge, estimate, levels, errors, part.blended)
        inside = tried[0] > bounds[0] and not (sigma2 >= tried[-1] >= bounds[1])
        if at_edge and stage == 0 and shifts < MOST_SHIFTS and inside:
            shifts, total = shifts + 1, total + sweeps[0]
        else:
            stage += 1
    if not part.count:
        return Calibration(sigma2, float(np.sqrt(sigma2)), sigma2)
    if stage == len(sweeps):
        sigma2 = smooth_lowest_point(levels[-2:], errors[-2:])
    if estimate > 0.0 and not ruled_out(losses, _nearest(tried, estimate), _nearest(tried, sigma2)):
        sigma2 = float(np.sqrt(sigma2 * np.clip(estimate, np.min(levels), np.max(levels))))
    weight = float(best[_nearest(tried, sigma2)])
    return part.result(float(np.clip(sigma2, *bounds)), levels, errors, estimate, weight)


def _run_stage(
    chains: Chains, part: CalibrationSet, levels: Floats, n_sweeps: int, report: Callable[[], bool], cooling: int
) -> bool:
    """Run the sweeps of one stage, chain c at level c modulo their number; return True if `report` stopped it.

    Each chain begins at the geometric mean of its level and the highest, and is at its level after `cooling` sweeps.
    Without, low levels look too bad, since labels freeze before templates are right. From the highest level itself low
    levels look too good, since labels have not yet had the time to fit noise.
    """
    part.clear()
    for sweep in range(n_sweeps):
        heat = 0.5 * max(1.0 - sweep / cooling, 0.0) if cooling else 0.0
        present = levels * (levels[-1] / levels) ** heat
        for c, chain in enumerate(chains.chains):
            chain.level, chain.normalise_rows = float(present[c % len(present)]), True
        chains.run_sweep()
        if sweep >= n_sweeps // 3:
            part.add(chains, len(levels))
        if report():
            return True
    return False


def _next_levels(
    sigma2: float, at_edge: bool, estimate: float, levels: Tried, errors: Tried, blended: bool
) -> tuple[float, bool]:
    """Return the level around which to go on after the first stage or a repetition of it, and whether to repeat it.

    `sigma2` is the best level so far, `at_edge` whether it is the lowest or highest of its stage.
    """
    low, high = levels[-1][0], levels[-1][-1]
    back = len(errors) > 1 and min(errors[-1]) > (1.0 - SHIFTED) * min(errors[-2])  # repeating it has not helped
    if back:
        sigma2, at_edge = min(zip(errors[-1] + errors[-2], levels[-1] + levels[-2], strict=True))[1], False
    if blended:
        return sigma2, at_edge and _leads_on(errors[-1])
    if estimate > high or (estimate < low and not at_edge and not back):
        # They disagree: try levels there too. Frozen labels predict alike at all levels that are far too low.
        return (low if estimate < low else high), True
    return sigma2, at_edge


def ruled_out(losses: Floats, level: int, best: int) -> bool:
    """Return whether a level is worse than the best by more than chance explains, and by enough to matter."""
    worse = losses[level] - losses[best]
    chance = DOUBT * worse.std() / np.sqrt(len(worse))
    return bool(worse.mean() > max(chance, MATTERS * losses[best].mean()))


def _leads_on(errors: Sequence[float]) -> bool:
    """Return whether the lowest error is at the edge and clearly below that of its neighbour."""
    edge, neighbour = (errors[0], errors[1]) if errors[0] < errors[-1] else (errors[-1], errors[-2])
    return neighbour - edge > SHIFTED * edge


def blend_weight(means: Floats, rest: Floats, weights: Floats, n_chains: int) -> float:
    """Return the weight with which the mean of `n_chains` chains explains the rest best.

    `means` (chain, cell) and `rest` are relative to the additive model.
    """
    gain = float(np.mean(weights * rest * means.mean(axis=0)))
    noise = means.var(axis=0, ddof=1) * (1.0 / n_chains - 1.0 / len(means))
    size = float(np.mean(weights * (means.mean(axis=0) ** 2 + noise)))
    return gain / size if size > 0.0 else 0.0


def ensemble_losses(means: Floats, values: Floats, n_chains: int) -> Floats:
    """Return the expected squared error of the mean of `n_chains` chains at each cell, given means (chain, cell)."""
    spread = means.var(axis=0, ddof=1)
    return np.asarray((values - means.mean(axis=0)) ** 2 + spread * (1.0 / n_chains - 1.0 / len(means)))


def _nearest(levels: Floats, sigma2: float) -> int:
    return int(np.argmin(np.abs(np.log(levels / sigma2))))


def noise_estimate(f: Floats, values: Floats, precision: Floats) -> float:
    """Estimate sigma^2 from independent draws f (chain, cell) of the mean at held-out cells."""
    error = np.mean(precision * (values - f) ** 2)
    return float(error - 2.0 * np.mean(precision * f.var(axis=0, ddof=1)))
