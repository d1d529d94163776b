"""Complete a matrix by rounds of local regressions, blended by weights that held-out cells decide.

A round has four predictions of each missing cell: *rows*, its row regressed on the rows nearest to it; *columns*, its
column on the columns nearest to it; *both*, the same with the prediction of *rows* as one more predictor; and *before*,
what stands there. Their blend stands there in the next round. The first round begins from a prediction of all cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from accams.fit.local import Floats, Mask, Positions, Regressions, Targets, nearest, others, regress, unit_lines
from accams.threads import Threads

PRIOR = 75.0  # held-out cells that equal weights count for
GAIN = 2e-3  # share of the squared error of held-out cells that a round must take away
ROUNDS, LAST_ROUNDS = 5, 2  # at most, without the cells that are held out and with them
LATER, LATER_GAIN = 2, 2e-2  # rounds after which the one before must have gained so much for another one
NEAR_ROWS, NEAR_COLS = 60, 40
ALL_COLS = 64  # columns up to which each is regressed on all others
FEWEST_HELD = 20  # cells without which nothing is decided
DONORS = 3  # rows at most whose gaps a row is given
SHARE, MOST, LEAST = 0.05, 200_000, 500  # of the known cells that are held out; at most; and at least if a fifth allows
MOST_OF_LINE = 1.0 / 3.0  # of the known cells of a column, or of a row of sparse data, that are held out
SPARSE = 0.2  # share of known cells below which data is sparse
FADE = 0.1  # of the held-out cells, those that exceed their spread most, that are left out where it is fitted
INTERVAL, QUANTILE = 0.9, 1.6448536269514722  # central interval that is calibrated, and half its width if normal


class Spread(NamedTuple):
    """Standard deviations of missing cells: sqrt(columns^2 + disagreement * variance of the blended predictions)."""

    columns: Floats
    disagreement: float

    def of(self, cols: Positions, variance: Floats) -> Floats:
        """Return deviations of cells in these columns."""
        return np.asarray(np.sqrt(self.columns[cols] ** 2 + self.disagreement * variance))


class Step(NamedTuple):
    """A round, as it is repeated on new rows: weights of rows, columns, both and before, and regressions."""

    weights: Floats
    columns: Regressions
    both: Regressions | None


@dataclass(frozen=True)
class Rounds:
    """What was learned of a matrix beside its first prediction.

    Attributes
    ----------
    steps : list of Step
        One for each round that gained; empty if none did. Each has its own regressions: those of the first must make
        do with a poorer matrix than those of the last.
    spread : Spread
    errors : list of float
        Root mean square errors of held-out cells, of the first prediction and after each round that gained.
    held : int
        Number of held-out cells.
    """

    steps: list[Step]
    spread: Spread
    errors: list[float] = field(default_factory=list)
    held: int = 0


def is_sparse(known: Mask) -> bool:
    """Return whether most cells are missing, as of ratings."""
    return bool(known.mean() < SPARSE)


def held_out(known: Mask, random: np.random.Generator) -> Mask:
    """Choose known cells to hold out in the way cells are missing: a row lacks what another row lacks.

    Where hardly any are missing, some are chosen at random. Every column keeps two known cells or more, every row one.
    """
    total = int(known.sum())
    count = int(np.clip(SHARE * total, min(LEAST, total // 5), MOST))
    held = np.zeros(known.shape, np.bool_)
    for _ in range(DONORS):
        _lend_gaps(known, held, count, random)
        _release(known, held, random)
    missing = min(count, LEAST) - int(held.sum())
    if missing > 0:
        free = np.flatnonzero(known & ~held)
        held.ravel()[random.choice(free, min(missing, len(free)), replace=False)] = True
    held &= ((known & ~held).sum(axis=0) >= 2)[None]
    held[~(known & ~held).any(axis=1)] = False
    return held


def _release(known: Mask, held: Mask, random: np.random.Generator) -> None:
    """Give back random cells of columns that would keep too few to be like what they are with all of them."""
    most = np.floor(MOST_OF_LINE * known.sum(axis=0)).astype(np.int64)
    for j in np.flatnonzero(held.sum(axis=0) > most):
        rows = random.permutation(np.flatnonzero(held[:, j]))
        held[rows[most[j] :], j] = False


def _lend_gaps(known: Mask, held: Mask, count: int, random: np.random.Generator) -> None:
    """Hold out in each row what a random other row lacks, row by row until `count` cells are held out.

    Of sparse data that would be nearly all of a row, and what is left would not be like a row.
    """
    order = random.permutation(len(known))
    lacking = known & ~held & ~known[random.integers(len(known), size=len(known))]
    if is_sparse(known):
        most = MOST_OF_LINE * known.sum(axis=1) - held.sum(axis=1)
        lacking &= random.random(known.shape) < (most / np.maximum(lacking.sum(axis=1), 1))[:, None]
    left = (known & ~held).sum(axis=1)
    sizes = np.where(lacking.sum(axis=1) < left, lacking.sum(axis=1), 0)[order]
    chosen = order[(np.cumsum(sizes) - sizes + held.sum() < count) & (sizes > 0)]
    held[chosen] |= lacking[chosen]


@dataclass(frozen=True)
class Completing:
    """Rounds on one matrix: values with zeros where not `known`, and how many lines are near."""

    values: Floats
    known: Mask
    threads: Threads
    by_rows: bool = True
    near_rows: int = NEAR_ROWS
    near_cols: int = NEAR_COLS

    def without(self, held: Mask) -> Self:
        """Return the same without some of the known cells."""
        return replace(self, values=np.where(held, 0.0, self.values), known=self.known & ~held)

    def round(self, F: Floats) -> "Round":
        """Return the predictions of one round from a completed matrix."""
        across = np.ascontiguousarray(F.T)
        targets = Targets(np.ascontiguousarray(self.values.T), np.ascontiguousarray(self.known.T), across)
        cells, rows = np.nonzero(~self.known), None
        if self.by_rows:
            units = unit_lines(F)
            near = nearest(units, units, self.near_rows, self.threads)
            own = Targets(self.values, self.known, F)
            ((rows, _),) = regress(own, F, near, self.threads, leave_one_out=True)
        further = None if rows is None else np.ascontiguousarray(rows.T)
        found = regress(targets, across, self._near_columns(across), self.threads, further)
        parts = [] if rows is None else [rows[cells]]
        parts += [predicted.T[cells] for predicted, _ in found]
        return Round(np.stack([*parts, F[cells]]), found[0][1], found[-1][1] if self.by_rows else None)

    def _near_columns(self, across: Floats) -> Positions:
        if len(across) <= ALL_COLS:
            return others(len(across))
        units = unit_lines(across)
        return nearest(units, units, self.near_cols, self.threads)


class Round(NamedTuple):
    """Predictions of missing cells, a line for each part of the blend, and regressions of columns."""

    parts: Floats
    columns: Regressions
    both: Regressions | None


def blend_weights(parts: Floats, truth: Floats) -> Floats:
    """Return non-negative weights by least squares on held-out cells, with a prior of equal ones."""
    size = len(parts)
    pull = np.sqrt(PRIOR * max(float(np.mean(truth**2)), 1e-12))
    A = np.concatenate([parts.T, pull * np.eye(size)])
    return np.asarray(nnls(A, np.concatenate([truth, np.full(size, pull / size)]))[0])


def disagreement(parts: Floats, weights: Floats) -> Floats:
    """Return the weighted variance of the parts of a blend at each cell."""
    shares = weights / max(float(weights.sum()), 1e-12)
    mean = shares @ parts
    return np.asarray(shares @ (parts - mean) ** 2)


@dataclass(frozen=True)
class Fold:
    """A choice of held-out cells, and a first prediction of all cells that has not seen them."""

    held: Mask
    start: Floats


def complete(
    values: Floats, known: Mask, folds: Sequence[Fold], threads: Threads, by_rows: bool = True,
    watch: Callable[[int, int], object] = lambda done, planned: None,
) -> tuple[Floats, Floats, Rounds]:  # fmt: skip
    """Complete a matrix from first predictions.

    Parameters
    ----------
    values : array (row, column)
        Standardised, with zeros where not `known`.
    known : array of bool
    folds : list of Fold
        All are completed with the same weights, and then averaged.
    threads : Threads
    by_rows : bool
        Whether rows are regressed too.
    watch : callable
        Called with the number of rounds done and planned.

    Returns
    -------
    F, std, rounds
        The completed matrix, standard deviations of missing cells (zeros elsewhere), and what was learned.
    """
    whole = Completing(values, known, threads, by_rows)
    trials = [_Trial(whole.without(fold.held), fold.held, np.where(known, values, fold.start)) for fold in folds]
    for trial, fold in zip(trials, folds, strict=True):
        trial.F[fold.held] = fold.start[fold.held]
    rounds, F = _rounds(trials, values, watch)
    return *_all_cells(whole, np.where(known, values, F), rounds, watch), rounds


def _rounds(trials: "list[_Trial]", values: Floats, watch: Callable[[int, int], object]) -> tuple[Rounds, Floats]:
    """Make rounds as long as held-out cells gain; return what was learned, and the mean of the completed matrices."""
    truth = np.concatenate([values[trial.held] for trial in trials])
    cols = np.concatenate([np.nonzero(trial.held)[1] for trial in trials])
    residual, variance = truth - np.concatenate([trial.F[trial.held] for trial in trials]), np.zeros(len(truth))
    errors, steps, planned = [_rms(residual)], list[Step](), ROUNDS * len(trials)
    few = len(truth) < FEWEST_HELD or min(values.shape) < 2
    for number in range(0 if few else ROUNDS):
        done = list[Round]()
        for trial in trials:
            done.append(trial.part.round(trial.F))
            watch(number * len(trials) + len(done), planned + LAST_ROUNDS)
        parts = np.concatenate([each.parts[:, trial.ours] for trial, each in zip(trials, done, strict=True)], axis=1)
        chosen = blend_weights(parts, truth)
        error = _rms(chosen @ parts - truth)
        gain = 1.0 - (error / max(errors[-1], 1e-300)) ** 2
        if gain < GAIN:
            break
        errors.append(error)
        steps.append(Step(chosen, done[0].columns, done[0].both))
        residual, variance = truth - chosen @ parts, disagreement(parts, chosen)
        for trial, each in zip(trials, done, strict=True):
            trial.F[~trial.part.known] = chosen @ each.parts
        if number >= LATER and gain < LATER_GAIN:
            break
    spread = fit_spread(residual, cols, variance, values.shape[1])
    F = np.mean([trial.F for trial in trials], axis=0)
    return Rounds(steps, spread, errors, len(truth)), F


@dataclass
class _Trial:
    """A matrix without the cells that were held out, and how far it has been completed."""

    part: Completing
    held: Mask
    F: Floats

    @cached_property
    def ours(self) -> Mask:
        """Which of the missing cells are those held out."""
        return np.asarray(self.held[~self.part.known])


def _all_cells(
    whole: Completing, F: Floats, rounds: Rounds, watch: Callable[[int, int], object]
) -> tuple[Floats, Floats]:
    """Repeat the last rounds with the cells that were held out, by the weights of the last one."""
    missing, std = ~whole.known, np.zeros(F.shape)
    cols, variance = np.nonzero(missing)[1], np.zeros(int(missing.sum()))
    times = min(LAST_ROUNDS, len(rounds.steps))
    for number in range(times):
        parts, weights = whole.round(F).parts, rounds.steps[-1].weights
        watch(number + 1, times)
        F = F.copy()
        F[missing] = weights @ parts
        variance = disagreement(parts, weights)
    std[missing] = rounds.spread.of(cols, variance)
    return F, std


def fit_spread(residual: Floats, cols: Positions, variance: Floats, width: int) -> Spread:
    """Fit standard deviations to residuals of held-out cells, so that 90 % of them lie in the central 90 %."""
    if not len(residual):
        return Spread(np.ones(width), 0.0)
    squares = residual**2
    overall = float(np.mean(squares))
    counts = np.bincount(cols, minlength=width)
    columns = (np.bincount(cols, squares, minlength=width) + 10.0 * overall) / (counts + 10.0)
    A = np.stack([columns[cols], variance], axis=1)
    order = np.argsort(A.sum(axis=1) - squares, kind="stable")[int(FADE * len(squares)) :]
    share, slope = nnls(A[order], squares[order])[0] if len(order) > 1 else (1.0, 0.0)
    share = max(share, 0.05)
    std = np.sqrt(share * columns[cols] + slope * variance)
    ratios = np.abs(residual) / np.maximum(std, 1e-300)
    factor = float(np.quantile(ratios, INTERVAL)) / QUANTILE if len(ratios) >= FEWEST_HELD else 1.0
    return Spread(factor * np.sqrt(share * columns), factor**2 * float(slope))


def _rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(x**2))) if x.size else 0.0
