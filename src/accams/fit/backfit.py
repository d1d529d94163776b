"""ACCAMS by backfitting: fit each stencil to the residual of the others, once or in several passes (relearning)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import log2
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import State
from accams.engine.grid import Grid
from accams.engine.kmeans import Init
from accams.engine.rules import Nearest, Template
from accams.engine.tables import Tables, gain_of
from accams.fit.keys import Purpose, generator
from accams.model.stencils import Labels


class Visit(NamedTuple):
    """Statistics of one stencil after a visit, which do not depend on how its clusters are numbered."""

    row_entropy: float  # of its labels in bits: 0 when all are equal, log2 k when all k clusters have the same size
    col_entropy: float
    row_changed: float  # fraction of the labels changed by an update, averaged over the visit
    col_changed: float
    gain: float  # reduction of the mean squared error, given all others; row noise weights rows by their precision


@dataclass(frozen=True)
class BackfitSettings:
    """Parameters of backfitting, named as in `accams.ACCAMS`."""

    shapes: Sequence[tuple[int, int]]
    max_iter: int = 50
    tol: float = 4e-3
    n_relearn: int = 0
    n_init: int = 1
    init: Init = "k-means++"
    shrinkage: float = 0.0
    learning_rate: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """Progress of a backfitting fit, passed to callbacks after each stencil.

    Attributes
    ----------
    sweep : int
        0 for the first fit of the stencils, then the number of the relearning pass.
    stencil, n_stencils : int
        Index of the stencil just fitted, and number of stencils planned.
    rmse : float
        Training error including this stencil.
    iterations : int
        Number of alternations for this stencil.
    seconds : float
        Time since the fit began; NaN where the history comes from a file, which keeps no times.
    validation_rmse : float or None
        Validation error, with validation data.
    visit : Visit or None
        Entropy of the stencil's labels, fraction of them changed since the last sweep (1 for a new stencil), and
        reduction of the mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> steps = []
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, callbacks=[steps.append], verbose=False).fit(matrix)
    >>> [step.stencil for step in steps], bool(steps[-1].rmse < 0.01)
    ([0, 1], True)
    """

    sweep: int
    stencil: int
    n_stencils: int
    rmse: float
    iterations: int
    seconds: float = field(compare=False)
    validation_rmse: float | None = None
    visit: Visit | None = field(default=None, compare=False)


Watcher = Callable[[State, Step], bool]


def backfit(state: State, settings: BackfitSettings, watch: Watcher | None = None) -> list[Step]:
    """Fit all stencils, then relearn them `n_relearn` times, until `watch` returns True.

    Returns one step per stencil fitted. A keyboard interrupt drops the unfinished stencil: then there are fewer steps
    than planned, and the residual of `state` is invalid.
    """
    began, steps = perf_counter(), list[Step]()
    mass = state.engine.observations.total_weight()
    with suppress(KeyboardInterrupt):
        for sweep in range(1 + settings.n_relearn):
            for stencil, k in enumerate(settings.shapes):
                with all_or_nothing(state):
                    iterations, visit = fit_stencil(state, stencil, k, settings, sweep)
                    rmse = float(np.sqrt(max(state.squared_error(), 0.0) / mass))
                visit = visit._replace(gain=visit.gain / mass)
                seconds = perf_counter() - began
                step = Step(sweep, stencil, len(settings.shapes), rmse, iterations, seconds, visit=visit)
                steps.append(step)
                if watch is not None and watch(state, step):
                    return steps
    return steps


@contextmanager
def all_or_nothing(state: State) -> Iterator[None]:
    """Restore the stencils of `state` on a keyboard interrupt (but not its residual, which becomes invalid)."""
    before = [*state.templates], [*state.row_labels], [*state.col_labels]
    try:
        yield
    except KeyboardInterrupt:
        state.templates, state.row_labels, state.col_labels = before
        state.current = None
        raise


def fit_stencil(
    state: State, stencil: int, k: tuple[int, int], settings: BackfitSettings, sweep: int = 0
) -> tuple[int, Visit]:
    """Fit (sweep 0) or relearn one stencil and subtract it from the residual.

    Returns the number of alternations and the statistics of the visit (`gain` as a total, not per cell).
    """
    new = stencil >= len(state.templates)
    before = None if new else [state.row_labels[stencil].copy(), state.col_labels[stencil].copy()]
    state.begin(stencil, k)
    best: tuple[float, Template, Tables, list[Labels], int] | None = None
    for attempt in range(settings.n_init if new else 1):
        if new:
            random = generator(settings.seed, Purpose.SEEDING, sweep, stencil, attempt)
            state.seed(0, settings.init, random)
            state.cluster(1, settings.init, random, 2)
        T, tables, explained, iterations = alternate(state, settings, first=1 if new else 0)
        if best is None or explained > best[0]:
            best = explained, T, tables, [labels.copy() for labels in state.labels], iterations
    assert best is not None
    _, T, tables, labels, iterations = best
    if settings.n_init > 1:
        for axis in (0, 1):
            state.set_labels(axis, labels[axis])
    changed = [1.0, 1.0] if before is None else [float(np.mean(x != y)) for x, y in zip(labels, before, strict=True)]
    gain = gain_of(tables, T) * state.weight_unit * state.engine.grid.step**2
    visit = visit_of([np.bincount(x) for x in labels], changed, gain)
    state.end(T)
    return iterations, visit


def alternate(state: State, settings: BackfitSettings, first: int = 0) -> tuple[Template, Tables, float, int]:
    """Update rows, template, columns, template, ... until no label changes or the relative gain is below `tol`.

    Starts from the current labels. No step raises the penalised squared error. Returns the template, the tables it was
    computed from, the error it explains, and the number of alternations.
    """
    grid = state.engine.grid
    tables = state.tables(first)
    T, explained = best_template(tables, grid, settings)
    iterations, moved = 0, 1
    while moved and iterations < settings.max_iter:
        before, moved, iterations = explained, 0, iterations + 1
        for axis in (first, 1 - first):
            if state.k[axis] == 1:
                continue
            tables = state.update(axis, rule(T, grid, settings))
            T, explained = best_template(tables, grid, settings)
            moved += tables.moved
        if explained - before <= settings.tol * explained:
            break
    return T, tables, explained, iterations


def rule(T: Template, grid: Grid, settings: BackfitSettings) -> Nearest:
    """Return the assignment rule that lowers the penalised error for this template."""
    return Nearest(T, 1.0 / settings.learning_rate, settings.shrinkage / grid.weight_step)


def best_template(tables: Tables, grid: Grid, settings: BackfitSettings) -> tuple[Template, float]:
    """Return the template of lowest penalised error for these tables, and its reduction of that error.

    With learning rate r and shrinkage lambda the error is, up to a constant, the sum over blocks of
    (N + lambda) T^2 / r - 2 L T, with the minimum T = r L / (N + lambda). A block without observations gets 0.
    """
    N = tables.N + settings.shrinkage / grid.weight_step
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: NDArray[np.float64] = np.where(tables.N > 0, settings.learning_rate * tables.L / N, 0.0)
    T = grid.template(mean)
    t = T.astype(np.float64)
    return T, float(np.sum(2.0 * tables.L * t - N * t * t / settings.learning_rate))


def entropy(counts: NDArray[Any]) -> float:
    """Return the entropy in bits of labels with these counts.

    Examples
    --------
    >>> entropy(np.array([5, 5])), entropy(np.array([7, 0])), entropy(np.array([0]))
    (1.0, 0.0, 0.0)
    """
    used = counts[counts > 0]
    return float(log2(used.sum()) - used @ np.log2(used) / used.sum()) if used.size > 1 else 0.0


def visit_of(counts: Sequence[NDArray[Any]], changed: Sequence[float], gain: float) -> Visit:
    """Return the statistics of a visit from the counts of row and column labels and the fractions that changed."""
    return Visit(entropy(counts[0]), entropy(counts[1]), changed[0], changed[1], gain)
