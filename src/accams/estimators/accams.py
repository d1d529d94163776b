"""ACCAMS: additive co-clustering by k-means and backfitting."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from accams.data.inputs import observations_of
from accams.data.observations import Observations
from accams.engine.base import Engine, State
from accams.engine.choose import make_engine
from accams.errors import warn
from accams.estimators.base import StencilEstimator, check_magnitude, is_true, stencil_shapes
from accams.fit.backfit import BackfitSettings, Step, all_or_nothing, backfit
from accams.fit.early import EarlyStopping, ValidationSet, validation_split
from accams.fit.keys import seed_of
from accams.fit.refit import refit
from accams.fitted.parts import resolve_clip
from accams.fitted.progress import ProgressBar
from accams.model.stencils import StencilSum
from accams.settings.backfit import ACCAMSSettings
from accams.settings.fields import settings

CAUTIOUS = 0.2  # automatic learning rate where the aim is to predict


@dataclass(frozen=True)
class Outcome:
    """Result of one run of the algorithm."""

    stencils: StencilSum
    steps: list[Step]
    engine: str
    interrupted: bool

    def first(self, n_stencils: int) -> Self:
        """Return the outcome with the first stencils only."""
        stencils, steps = self.stencils.truncate(n_stencils), self.steps[:n_stencils]
        return replace(self, stencils=stencils, steps=steps)


@settings()
class ACCAMS(StencilEstimator, ACCAMSSettings):
    r"""Approximate a matrix by a sum of small co-clusterings, fitted one after another.

    The model is :math:`M_{ij} \approx \mu + \sum_l T_l[c_l(i), d_l(j)]`. Each stencil :math:`(T, c, d)` is
    fitted to what the earlier ones leave: rows are clustered by k-means, columns by k-means on the row
    clusters' means, T holds the block means, and the two are alternated until nothing improves (Beutel, Ahmed
    and Smola, section "Matrix Approximation").

    Attributes
    ----------
    model_ : Model
        The fitted model, to which all methods but `fit` delegate.
    stencils_ : StencilSum
        Its stencil sum.
    n_stencils_ : int
        Number of stencils in it.
    row_index_, col_index_ : Index
        Raw ids and their positions.
    value_range_ : (float, float)
        Smallest and largest training value.
    train_rmse_ : float or None
        Root mean squared error on the training data (None without stencils).
    history_ : list of Step
        Error and time after each stencil of the final fit.
    validation_history_ : list of Step
        The same for the search of `early_stopping`, with the held-out error.
    learning_rate_ : float
        The rate that was used.
    engine_ : str
        The engine that was used.
    n_features_in_ : int
        Columns of the matrix; 2 where pairs or a table of observations were passed.
    feature_names_in_ : array (2,)
        Names of the columns with row ids and column ids, if they came in a DataFrame; `predict` finds them by
        these names.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([1.0, 1.0, 3.0, 3.0], [0.0, 1.0, 1.0])
    >>> matrix[0, 2] = np.nan
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, learning_rate=1.0).fit(matrix)
    >>> model.predict([[0, 2], [3, 0]]).round(2)
    array([2., 3.])
    """

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : Observations, array, scipy sparse matrix or DataFrame
            With `y`: pairs of (row id, column id), n x 2. Without: a matrix (NaN, or not stored, is missing)
            or a DataFrame of observations.
        y : array-like, optional
            The value of each pair.
        sample_weight : array-like, optional
            The weight of each value; for a matrix, one of the same shape.

        Returns
        -------
        self

        Notes
        -----
        A keyboard interrupt (Ctrl-C) ends the fit with the stencils finished so far, and a warning.
        """
        seed = seed_of(self.random_state)
        self.check_params()
        observations = observations_of(X, y, sample_weight)
        check_magnitude(*observations.value_range)
        plan = self._plan(observations, seed)
        n_stencils, outcome, tried = len(plan.shapes), None, list[Step]()
        if self.early_stopping:
            outcome, tried = self._search(observations, plan)
            plan = replace(plan, shapes=plan.shapes[: len(outcome.stencils)])
        if outcome is None or not outcome.interrupted:
            outcome = self._run(observations, plan)

        self.validation_history_ = tried
        rmse = outcome.steps[-1].rmse if outcome.steps else None
        training = {
            "n_stencils_": len(outcome.stencils),
            "learning_rate_": plan.learning_rate,
            "engine_": outcome.engine,
            "train_rmse_": rmse,
        }
        self._keep(
            X, y, observations, training, stencils=outcome.stencils, fit_history=outcome.steps, sigma=rmse or None
        )
        if outcome.interrupted:
            warn(f"interrupted: the model is usable, with {len(outcome.stencils)} of {n_stencils} stencils")
        return self

    def _plan(self, observations: Observations, seed: int) -> BackfitSettings:
        rate = self.learning_rate
        if rate == "auto":
            whole = observations.is_complete and observations.blank_weight in (None, 1.0)
            rate = 1.0 if whole else CAUTIOUS
        return BackfitSettings(
            shapes=stencil_shapes(self.n_clusters, self.n_stencils, observations.shape),
            max_iter=self.max_iter,
            tol=self.tol,
            n_relearn=self.n_relearn,
            n_init=self.n_init,
            init=self.init,  # type: ignore[arg-type]
            shrinkage=self.shrinkage,
            learning_rate=float(rate),
            seed=seed,
        )

    def _search(self, observations: Observations, plan: BackfitSettings) -> tuple[Outcome, list[Step]]:
        """Return the stencils that predict held-out entries best, and what was tried."""
        with ProgressBar(self.verbose, "holding out", observations.nnz):
            training, held_out = validation_split(observations, self.validation_fraction, plan.seed)
        bounds = resolve_clip(self.clip, observations.value_range)
        early = EarlyStopping(ValidationSet(held_out, bounds), self.patience)
        outcome = self._run(training, replace(plan, n_relearn=0), early)
        return outcome.first(early.n_stencils), early.history

    def _run(self, observations: Observations, plan: BackfitSettings, early: EarlyStopping | None = None) -> Outcome:
        what = "fitting" if early is None else "choosing"
        with ProgressBar(self.verbose, what, observations.nnz) as bar:
            shapes, threads, shards = plan.shapes, self.n_threads, self.n_shards
            engine = make_engine(observations, self.engine, len(shapes), threads, shapes=shapes, n_shards=shards)
            try:
                return self._backfit(engine, plan, early, bar)
            finally:
                engine.close()

    def _backfit(self, engine: Engine, plan: BackfitSettings, early: EarlyStopping | None, bar: ProgressBar) -> Outcome:
        told, stopped, planned = 0, False, len(plan.shapes) * (1 + plan.n_relearn)
        state = engine.new_state()
        if early is not None:
            early.begin(state)

        def watch(state: State, step: Step) -> bool:
            nonlocal told, stopped
            stop = early is not None and early(state, step)
            shown = early.history[-1] if early is not None else step
            bar.update(shown, 1 + plan.n_relearn)
            stopped = any([stop, *(is_true(callback(shown)) for callback in self.callbacks or ())])
            told += 1
            return stopped

        steps = backfit(state, plan, watch)
        interrupted = not stopped and told < planned
        if self.refit and steps and early is None and not interrupted:
            try:
                steps[-1] = replace(steps[-1], rmse=_refitted_rmse(state, self.shrinkage))
            except KeyboardInterrupt:
                interrupted = True
        return Outcome(state.stencils(), steps, engine.name, interrupted)


def _refitted_rmse(state: State, shrinkage: float) -> float:
    with all_or_nothing(state):
        refit(state, shrinkage)
        return float(np.sqrt(max(state.squared_error(), 0.0) / state.engine.observations.total_weight()))
