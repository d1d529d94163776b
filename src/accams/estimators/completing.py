"""Complete a matrix with gaps: scale it, fit stencils, regress rows and columns."""

from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from accams.estimators.bayesian import BayesianACCAMS
from accams.fit.completing import Fold, complete, held_out, is_sparse
from accams.fit.local import Floats, Mask
from accams.fit.scaling import Scaling
from accams.fitted.completion import Completion
from accams.fitted.model import Model
from accams.fitted.progress import ProgressBar
from accams.settings.bayesian import Priors, Schedule
from accams.settings.imputer import ImputerSettings
from accams.threads import Threads

MOST_CELLS, MOST_ROWS, LEAST_ROWS = 10_000_000, 50_000, 2_000  # of the sample of rows that is fitted
ROWS_BY_ROWS = 20_000  # rows up to which rows are regressed on rows
MANY_CELLS = 5_000_000  # from which on one chain is enough
FEWEST = 12  # known cells below which columns are predicted by their means
SMALL, FOLDS = 20_000, 4  # known cells below which cells are held out several times, and how often
NARROW = 64  # columns up to which few stencils and more sweeps predict better, in the same time
N_STENCILS, FEW_STENCILS = 30, 10
N_SWEEPS, MORE_SWEEPS = 16, 64
DRAWS, MORE_DRAWS, LARGE_DRAWS = 12, 24, 2  # kept; of narrow data; of large data
HOLDING = 13  # purpose of the random stream that chooses held-out cells


class Request(NamedTuple):
    """What the user asked for."""

    settings: ImputerSettings
    seed: int
    threads: Threads
    bar: ProgressBar
    began: float
    cells: int  # of all data, of which a sample may be fitted

    def watch(self, done: int, planned: int) -> None:
        """Show how many rounds have been made."""
        self.bar.update_stage("regressing", done, planned, perf_counter() - self.began)


def sampled_rows(count: int, width: int, seed: int) -> Any:
    """Return the rows that are fitted: all of them, or a sample of large data."""
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_CELLS // max(1, width)))
    if count <= most:
        return slice(None)
    return np.sort(np.random.default_rng([seed, HOLDING, 1]).choice(count, most, replace=False))


def completed(X: Floats, count: int, request: Request) -> Completion:
    """Complete a matrix each row of which has a value, and each column two values that differ.

    `count` are the rows of all data, of which these may be a sample.
    """
    scaling = Scaling.of(X, request.settings.scale)
    Z, known = scaling.scaled(X), ~np.isnan(X)
    folds, models = list[Fold](), list[Model]()
    for number in range(FOLDS if known.sum() < SMALL else 1):
        held = held_out(known, np.random.default_rng([request.seed, HOLDING, 0, number]))
        start, model = _first(Z, held, request, number)
        folds.append(Fold(held, start))
        models += [] if model is None else [model]
    by_rows = count <= ROWS_BY_ROWS
    full, std, rounds = complete(np.where(known, Z, 0.0), known, folds, request.threads, by_rows, request.watch)
    return Completion(scaling, X, full, std, rounds, models, by_rows)


def _first(Z: Floats, held: Mask, request: Request, number: int) -> tuple[Floats, Model | None]:
    """Return the first prediction of all cells but those held out, and the stencils that made it, if any."""
    part = np.where(held, np.nan, Z)
    known = ~np.isnan(part)
    if known.sum() < FEWEST or min(part.shape) < 2:
        means = np.where(known, part, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.broadcast_to(means, part.shape).copy(), None
    found = list[tuple[float, Floats, Model]]()
    for sparse in (False, True) if is_sparse(known) else (False,):  # held-out cells choose
        model = _stencils(part, known, request, number, sparse)
        posterior = model.posterior
        assert posterior is not None
        start = np.where(known, part, 0.0)
        start[~known] = posterior.moments(*np.nonzero(~known))[0]
        found.append((float(np.square(start[held] - Z[held]).sum()), start, model))
    return min(found, key=lambda each: each[0])[1:]


def _stencils(part: Floats, known: Mask, request: Request, number: int, sparse: bool) -> Model:
    """Return stencils, for `sparse` data with the noise that held-out cells decide on."""
    chosen, cells = request.settings, int(known.sum())
    small, narrow = cells < SMALL, part.shape[1] <= NARROW
    few = (small or narrow) and not sparse
    draws = MORE_DRAWS if narrow and not small else DRAWS
    model = BayesianACCAMS(
        (FEW_STENCILS if few else N_STENCILS) if chosen.n_stencils == "auto" else chosen.n_stencils,
        chosen.n_clusters,
        noise="auto" if sparse else "sampled",
        n_chains=2 if small else 4 if cells < MANY_CELLS else 1,
        n_sweeps=MORE_SWEEPS if few or sparse else N_SWEEPS,
        n_threads=request.threads.n_threads,
        random_state=np.random.default_rng([request.seed, HOLDING, 2, number]),
        verbose=chosen.verbose,
        priors=Priors(implicit=None),
        schedule=Schedule(max_draws=draws if request.cells < MANY_CELLS else LARGE_DRAWS),
    ).fit(part)
    return replace(model.model_, interactions=None, fit_history=())
