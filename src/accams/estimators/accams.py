"""ACCAMS: additive co-clustering by k-means and backfitting."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from accams.data.observations import Observations
from accams.engine.base import Engine, State
from accams.engine.choose import make_engine
from accams.estimators import checks
from accams.estimators.base import StencilEstimator
from accams.estimators.inputs import observations_of
from accams.estimators.progress import ProgressBar
from accams.fit.backfit import BackfitSettings, Step, all_or_nothing, backfit
from accams.fit.early import EarlyStopping, ValidationSet, validation_split
from accams.fit.keys import seed_of
from accams.fit.refit import refit
from accams.model.stencils import StencilSum

Callback = Callable[[Step], bool | None]
CAUTIOUS = 0.2  # the automatic learning rate where the aim is to predict


class ACCAMS(StencilEstimator):
    r"""Approximate a matrix by a sum of small co-clusterings, fitted one after another.

    The model is :math:`M_{ij} \approx \mu + \sum_l T_l[c_l(i), d_l(j)]`. Each stencil :math:`(T, c, d)` is
    fitted to what the earlier ones leave: rows are clustered by k-means, columns by k-means on the row
    clusters' means, T holds the block means, and the two are alternated until nothing improves (Beutel, Ahmed
    and Smola, section "Matrix Approximation").

    Parameters
    ----------
    n_stencils : int, default 13
        Stencils in the sum; with `early_stopping`, the most that are tried.
    n_clusters : int, (int, int) or list of those, default 10
        Row and column clusters of each stencil; a list is cycled through, so that stencils may differ.
    max_iter : int, default 50
        Most alternations of rows and columns per stencil.
    tol : float, default 4e-3
        An alternation that adds less than this share to what the stencil explains is the last.
    n_relearn : int, default 0
        Further passes over all stencils: each is taken out, fitted again and put back.
    refit : bool, default False
        In the end, solve for all templates at once by least squares, given all labels. For compression; with
        few ratings per row it overfits.
    learning_rate : float or "auto", default "auto"
        The share of a stencil's template that is put into the model. Below 1 the next stencils correct it,
        which guards against fitting noise, as in boosting. "auto" is 1 for complete matrices, where the aim
        is to approximate, and 0.2 where cells are missing or blanks weigh less than the rest, where it is to
        predict.
    shrinkage : float, default 0
        Penalty lambda on squared template entries: a block mean becomes L / (N + lambda).
    early_stopping : bool, default False
        Choose the number of stencils on held-out entries, then fit that many to all entries.
    validation_fraction : float, default 0.1
        Share of the entries held out for that (at most a million).
    patience : int, default 10
        Stencils without improvement after which the search ends.
    init : {"k-means++", "random"}, default "k-means++"
        How clusters are seeded; "random" (k random rows) is the paper's.
    n_init : int, default 1
        Starts per stencil; the best is kept.
    clip : bool or (float, float), default True
        Whether predictions are kept within the range of the training values, or within the range given.
    engine : {"auto", "cpu", "dense", "graph", "cuda", "disk", "ray"}, default "auto"
        Where it runs: `cpu` for sparse data with missing cells, `dense` for complete matrices,
        `graph` where blanks are observed zeros; `cuda` on an NVIDIA GPU (at most 32 clusters a side), where asked for;
        `disk` streams a store (`Observations.open`) and `ray` runs on a Ray cluster, where asked for.
    n_threads : int or None, default None
        None takes all cores. The result does not depend on it.
    n_shards : int or None, default None
        Parts into which the data is cut with ``engine="ray"``; None: one for each machine. The result does not depend
        on it.
    random_state : int, RandomState, Generator or None, default 0
        The same seed gives the same model, bit for bit. None draws a new seed.
    callbacks : sequence of callables, optional
        Each is called with a `Step` after each stencil; one that returns True stops the fit.
    verbose : bool or "auto", default "auto"
        A progress bar; "auto" shows it on a terminal when a fit takes more than two seconds.

    Attributes
    ----------
    stencils_ : StencilSum
        The model.
    n_stencils_ : int
        Stencils in it.
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

    def __init__(
        self,
        n_stencils: int = 13,
        n_clusters: int | tuple[int, int] | list[Any] = 10,
        *,
        max_iter: int = 50,
        tol: float = 4e-3,
        n_relearn: int = 0,
        refit: bool = False,
        learning_rate: float | str = "auto",
        shrinkage: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        init: str = "k-means++",
        n_init: int = 1,
        clip: bool | tuple[float, float] = True,
        engine: str = "auto",
        n_threads: int | None = None,
        n_shards: int | None = None,
        random_state: Any = 0,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | str = "auto",
    ) -> None:
        self.n_stencils = n_stencils
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.n_relearn = n_relearn
        self.refit = refit
        self.learning_rate = learning_rate
        self.shrinkage = shrinkage
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.init = init
        self.n_init = n_init
        self.clip = clip
        self.engine = engine
        self.n_threads = n_threads
        self.n_shards = n_shards
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> ACCAMS:
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
        self._check_parameters()
        observations = observations_of(X, y, sample_weight)
        checks.magnitude(*observations.value_range)
        settings = self._settings(observations, seed)
        n_stencils, outcome, tried = len(settings.shapes), None, list[Step]()
        if self.early_stopping:
            outcome, tried = self._search(observations, settings)
            settings = replace(settings, shapes=settings.shapes[: len(outcome.stencils)])
        if outcome is None or not outcome.interrupted:
            outcome = self._run(observations, settings)

        self._keep_input(X, y, observations)
        self.stencils_ = outcome.stencils
        self.n_stencils_ = len(outcome.stencils)
        self.history_, self.validation_history_ = outcome.steps, tried
        self.learning_rate_ = settings.learning_rate
        self.engine_ = outcome.engine
        self.train_rmse_ = outcome.steps[-1].rmse if outcome.steps else None
        if outcome.interrupted:
            warnings.warn(
                f"interrupted: the model is usable, with {self.n_stencils_} of {n_stencils} stencils",
                stacklevel=2,
            )
        return self

    def _summary(self) -> dict[str, Any]:
        """What a saved model remembers of its fit."""
        return {
            "n_stencils_": self.n_stencils_,
            "learning_rate_": self.learning_rate_,
            "engine_": self.engine_,
            "n_features_in_": self.n_features_in_,
            "train_rmse_": self.train_rmse_,
        }

    def _settings(self, observations: Observations, seed: int) -> BackfitSettings:
        rate = self.learning_rate
        if rate == "auto":
            whole = observations.is_complete and observations.blank_weight in (None, 1.0)
            rate = 1.0 if whole else CAUTIOUS
        return BackfitSettings(
            shapes=checks.shapes(self.n_clusters, self.n_stencils, observations.shape),
            max_iter=self.max_iter,
            tol=self.tol,
            n_relearn=self.n_relearn,
            n_init=self.n_init,
            init=self.init,  # type: ignore[arg-type]
            shrinkage=self.shrinkage,
            learning_rate=float(rate),
            seed=seed,
        )

    def _search(self, observations: Observations, settings: BackfitSettings) -> tuple[Outcome, list[Step]]:
        """The stencils that predict held-out entries best, and what was tried."""
        with ProgressBar(self.verbose, "holding out", observations.nnz):
            training, held_out = validation_split(observations, self.validation_fraction, settings.seed)
        bounds = None if self.clip is False else observations.value_range if self.clip is True else self.clip
        early = EarlyStopping(ValidationSet(held_out, bounds), self.patience)
        outcome = self._run(training, replace(settings, n_relearn=0), early)
        return outcome.first(early.n_stencils), early.history

    def _run(
        self, observations: Observations, settings: BackfitSettings, early: EarlyStopping | None = None
    ) -> Outcome:
        what = "fitting" if early is None else "choosing"
        with ProgressBar(self.verbose, what, observations.nnz) as bar:
            shapes, threads, shards = settings.shapes, self.n_threads, self.n_shards
            engine = make_engine(observations, self.engine, len(shapes), threads, shapes=shapes, n_shards=shards)
            try:
                return self._fitted(engine, settings, early, bar)
            finally:
                engine.close()

    def _fitted(
        self, engine: Engine, settings: BackfitSettings, early: EarlyStopping | None, bar: ProgressBar
    ) -> Outcome:
        told, stopped, planned = 0, False, len(settings.shapes) * (1 + settings.n_relearn)
        state = engine.new_state()
        if early is not None:
            early.begin(state)

        def watch(state: State, step: Step) -> bool:
            nonlocal told, stopped
            stop = early is not None and early(state, step)
            shown = early.history[-1] if early is not None else step
            bar.update(shown, 1 + settings.n_relearn)
            stopped = any([stop, *(checks.is_true(callback(shown)) for callback in self.callbacks or ())])
            told += 1
            return stopped

        steps = backfit(state, settings, watch)
        interrupted = not stopped and told < planned
        if self.refit and steps and early is None and not interrupted:
            try:
                steps[-1] = replace(steps[-1], rmse=_refitted_rmse(state, self.shrinkage))
            except KeyboardInterrupt:
                interrupted = True
        return Outcome(state.stencils(), steps, engine.name, interrupted)

    def _check_parameters(self) -> None:
        for name in ("n_stencils", "n_relearn"):
            checks.whole(name, getattr(self, name), 0)
        for name in ("max_iter", "n_init", "patience"):
            checks.whole(name, getattr(self, name), 1)
        for name in ("n_threads", "n_shards"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), 1)
        checks.number("tol", self.tol, 0.0)
        checks.number("shrinkage", self.shrinkage, 0.0)
        if not (isinstance(self.learning_rate, str) and self.learning_rate == "auto"):
            checks.number("learning_rate", self.learning_rate, 0.0, 1.0, open_low=True)
        checks.number("validation_fraction", self.validation_fraction, 0.0, 0.9, open_low=True)
        checks.one_of("init", self.init, ("k-means++", "random"))
        checks.one_of("refit", self.refit, (True, False))
        checks.one_of("early_stopping", self.early_stopping, (True, False))
        checks.one_of("verbose", self.verbose, (True, False, "auto"))
        checks.clip(self.clip)
        checks.callbacks(self.callbacks)


@dataclass(frozen=True)
class Outcome:
    """What one run of the algorithm came to."""

    stencils: StencilSum
    steps: list[Step]
    engine: str
    interrupted: bool

    def first(self, n_stencils: int) -> Outcome:
        """The same with the first stencils only."""
        stencils, steps = self.stencils.truncate(n_stencils), self.steps[:n_stencils]
        return replace(self, stencils=stencils, steps=steps)


def _refitted_rmse(state: State, shrinkage: float) -> float:
    with all_or_nothing(state):
        refit(state, shrinkage)
        return float(np.sqrt(max(state.squared_error(), 0.0) / state.engine.observations.total_weight()))
