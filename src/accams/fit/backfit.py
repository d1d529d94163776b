"""ACCAMS: fit one stencil to the residual, subtract it, go on; then, if asked, go round again (relearning)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import State
from accams.engine.grid import Grid
from accams.engine.kmeans import Init
from accams.engine.rules import Nearest, Template
from accams.engine.tables import Tables
from accams.fit.keys import Purpose, generator
from accams.fit.visits import Visit, gain, visit_of
from accams.model.stencils import Labels

SEED_ITERATIONS = 20


@dataclass(frozen=True)
class BackfitSettings:
    """What a fit needs to know beside the data; names as in `accams.ACCAMS`."""

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
    """What a callback is told after each stencil.

    Attributes
    ----------
    sweep : int
        0 while the stencils are fitted first, then the number of the relearning pass.
    stencil, n_stencils : int
        The stencil just fitted, counted from 0, and how many there will be.
    rmse : float
        On the training data, with this stencil in.
    iterations : int
        Alternations that this stencil took.
    seconds : float
        Since the fit began.
    validation_rmse : float or None
        On the validation slice, where there is one.
    visit : Visit or None
        Entropy of the stencil's labels, share of them that changed since the last sweep (1 when it is new), and how
        much it lowers the mean squared error.
    """

    sweep: int
    stencil: int
    n_stencils: int
    rmse: float
    iterations: int
    seconds: float
    validation_rmse: float | None = None
    visit: Visit | None = field(default=None, compare=False)


Watcher = Callable[[State, Step], bool]


def backfit(state: State, settings: BackfitSettings, watch: Watcher | None = None) -> list[Step]:
    """Fit all stencils, then relearn them `n_relearn` times; stops early when `watch` says so.

    Returns what happened, one step per stencil fitted. A keyboard interrupt ends it after the last whole
    stencil: then there are fewer steps than asked for, and the residual of `state` is of no more use.
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
    """On a keyboard interrupt, give `state` back the stencils it had (its residual is then of no use)."""
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
    """Fit (sweep 0) or relearn one stencil and put it into the residual.

    Returns the alternations it took and what became of the stencil (with its gain in all, not per cell).
    """
    new = stencil >= len(state.templates)
    before = None if new else [state.row_labels[stencil].copy(), state.col_labels[stencil].copy()]
    state.begin(stencil, k)
    best: tuple[float, Template, Tables, list[Labels], int] | None = None
    for attempt in range(settings.n_init if new else 1):
        if new:
            random = generator(settings.seed, Purpose.SEEDING, sweep, stencil, attempt)
            state.seed(0, settings.init, random, SEED_ITERATIONS)
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
    visit = visit_of([np.bincount(each) for each in labels], changed, gain(state, tables, T))
    state.end(T)
    return iterations, visit


def alternate(state: State, settings: BackfitSettings, first: int = 0) -> tuple[Template, Tables, float, int]:
    """Update rows, template, columns, template, ... until no label moves or little is gained.

    Starts from the labels as they are. Every step can only lower the (penalised) squared error. Returns
    the template, the sums it is made of, how much it explains, and the alternations taken.
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
    """The assignment that lowers the penalised error for this template."""
    return Nearest(T, 1.0 / settings.learning_rate, settings.shrinkage / grid.weight_step)


def best_template(tables: Tables, grid: Grid, settings: BackfitSettings) -> tuple[Template, float]:
    """The template of lowest penalised error for these tables, and by how much it lowers it.

    With learning rate r and shrinkage lambda that error is, up to a constant, the sum over blocks of
    (N + lambda) T^2 / r - 2 L T, and its minimum r L / (N + lambda); a block without observations gets 0.
    """
    N = tables.N + settings.shrinkage / grid.weight_step
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: NDArray[np.float64] = np.where(tables.N > 0, settings.learning_rate * tables.L / N, 0.0)
    T = grid.template(mean)
    t = T.astype(np.float64)
    return T, float(np.sum(2.0 * tables.L * t - N * t * t / settings.learning_rate))
