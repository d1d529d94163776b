"""BayesianACCAMS: bACCAMS, the Bayesian model, by Gibbs sampling."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.inputs import known_positions, observations_of, pairs_of
from accams.data.observations import Observations
from accams.errors import warn
from accams.estimators.base import StencilEstimator, check_magnitude, is_true
from accams.estimators.features import Known, features_of, with_features
from accams.estimators.memory import within_memory
from accams.estimators.planning import check, checkpointing_of, parts_of, plan_of, seed_for
from accams.fit.bayesian import BayesianFit, fit, fit_constant
from accams.fit.run import Cells, Sweep
from accams.fitted.knowing import informed
from accams.fitted.progress import ProgressBar
from accams.settings.bayesian import MOVED, BayesianSettings, Priors, Schedule
from accams.settings.fields import settings


@settings(moved=MOVED)
class BayesianACCAMS(StencilEstimator, BayesianSettings):
    r"""Complete a matrix by a Bayesian sum of small co-clusterings: the posterior mean over many draws.

    The model is :math:`M_{ij} = \mu + \sum_l T_l[c_l(i), d_l(j)] + \epsilon_{ij}` with priors on labels, templates
    and noise (Beutel, Ahmed and Smola, section "Generative Model"). Several chains of a Gibbs sampler visit one
    stencil after another; predictions are averaged over chains and sweeps. The noise level is calibrated on held-out
    observations, since left to itself it collapses on sparse data (docs/calibration.md).

    Attributes
    ----------
    model_ : Model
        The fitted model, to which all methods but `fit` delegate.
    posterior_ : Posterior
        Its draws; `posterior_.predict(rows, cols)` by position, `posterior_.to_arviz()`.
    stencils_ : StencilSum
        One draw, the last of the first chain: small, but much less accurate than the mean over all.
    sigma_ : float
        Noise of the sampler (its root mean square over the sweeps where it is sampled).
    predictive_sigma_ : float
        Noise of a new observation beside the spread of the draws, calibrated on held-out observations.
    calibration_ : Calibration or None
        How the noise was found.
    r_hat_ : dict
        Split R-hat of label-free quantities. Single chains of this model hardly mix (values well above 1); the
        average of several is what predicts well.
    predicted_at_, predicted_at_std_ : arrays
        Mean and spread of the draws at the cells of `fit(predict_at=...)`, over every sweep.
    history_ : list of Sweep
    n_sweeps_, n_stencils_, train_rmse_, engine_, n_features_in_, feature_names_in_
        As for `ACCAMS`.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import BayesianACCAMS
    >>> random = np.random.default_rng(0)
    >>> matrix = np.add.outer([1.0, 2.0, 3.0] * 10, [0.0, 1.0] * 6) + random.normal(0, 0.1, (30, 12))
    >>> matrix[random.random(matrix.shape) < 0.3] = np.nan
    >>> model = BayesianACCAMS(n_stencils=4, n_clusters=3, n_chains=2, n_sweeps=60).fit(matrix)
    >>> mean, std = model.predict([[2, 1], [0, 0]], return_std=True)
    >>> bool(np.abs(mean - [4.0, 1.0]).max() < 0.3)
    True
    """

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The model with the paper's settings, apart from `changes`.

        The collapsed sampler under a Chinese restaurant process with at most 10 clusters a side, alpha = beta = 10,
        eta = (2, 0.3), gamma = (5, 0.3), sigma sampled below 1, one chain, three label updates per visit, 30 sweeps of
        burn-in and 100 more. They are meant for ratings from 1 to 5.

        Parameters
        ----------
        changes
            Parameters of the constructor; those of records as ``priors__alpha``.

        Returns
        -------
        BayesianACCAMS

        Examples
        --------
        >>> BayesianACCAMS.paper(n_stencils=20).priors.alpha
        10.0
        """
        priors = Priors(
            labels="crp", alpha=10.0, beta=10.0, eta=(2.0, 0.3), sigma_max=1.0, row_noise=None, tau="sampled",
            gamma=(5.0, 0.3), effects=None, implicit=None,
        )  # fmt: skip
        schedule = Schedule(sampler="collapsed", n_burn_in=30, n_sub=3)
        model = cls(30, 10, noise="sampled", n_chains=1, n_sweeps=130, priors=priors, schedule=schedule)
        return model.set_params(**changes)

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, user_features: Any = None,
        item_features: Any = None, predict_at: Any = None, resume: str | Path | None = None,
    ) -> Self:  # fmt: skip
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
        user_features, item_features : DataFrame, optional
            What is known of users (items) beside ratings: a line each, with their ids in a column so called in X, or
            with a usual name such as ``id``. Columns hold numbers, text, or several values as in ``Action|Comedy`` (or
            lists); cells may be missing. Of a column of text the 100 most frequent values count, if three lines have
            them. Users and items without ratings are predicted by their features.
        predict_at : pairs, optional
            Cells whose prediction is averaged over every sweep while fitting (`predicted_at_`); what is kept for them
            does not grow with the number of draws. Where the row or the column is new, the kept draws are averaged.
        resume : path, optional
            A checkpoint of an earlier fit with the same parameters and data, to go on from; the result is the same, to
            the bit, as if that fit had not been interrupted. `n_sweeps` and `tol` may differ, to go on for longer.

        Returns
        -------
        self

        Notes
        -----
        A keyboard interrupt (Ctrl-C) ends the fit within a few stencils, with the draws so far and a warning.
        """
        check(self)
        seed = seed_for(self, resume)
        observations = observations_of(X, y, sample_weight)
        check_magnitude(*observations.value_range)
        observations, known = with_features(observations, X, y, user_features, item_features)
        if _is_constant(observations) and resume is None:
            cells, asked = self._cells(predict_at, observations)
            return self._take(X, y, observations, cells, fit_constant(observations, asked), known)
        plan = within_memory(self, observations, plan_of(self, observations, seed, features_of(known)))
        cells, asked = self._cells(predict_at, observations)
        with ProgressBar(self.verbose, entries=observations.nnz) as bar:

            def watch(sweep: Sweep) -> bool:
                bar.update_sweep(sweep)
                answers = [is_true(callback(sweep)) for callback in self.callbacks or ()]  # call every one
                return any(answers)

            training, validation = parts_of(self, observations, seed)
            saving = checkpointing_of(self, observations, resume, seed, plan.given)
            fitted = fit(training, plan, asked, validation, watch, saving)
        return self._take(X, y, observations, cells, fitted, known, seed)

    _absent: ClassVar[dict[str, str]] = {
        "predict_proba": "predict_proba needs ratings that are taken as ordinal: set likelihood='ordinal', or 'auto', "
        "which takes them so if they have 3 to 50 different values"
    }

    @property
    def predict_proba(self) -> Callable[..., NDArray[np.float64]]:
        """Probabilities of the values of a scale, see `Model.predict_proba`; only where they are known."""
        model = self.__dict__.get("model_")
        if self.likelihood == "gaussian" or (model is not None and model.scale is None):
            raise AttributeError("predict_proba")  # `_absent` says why
        return lambda pairs, **features: self._fitted().predict_proba(pairs, **features)

    def _take(
        self, X: Any, y: ArrayLike | None, observations: Observations, cells: Cells | None, fitted: BayesianFit,
        known: Known, seed: int = 0,
    ) -> Self:  # fmt: skip
        """Set the fitted attributes."""
        self.calibration_ = fitted.calibration
        self._keep(
            X, y, observations, _reported(fitted), stencils=fitted.stencils, posterior=fitted.posterior,
            fit_history=fitted.history, sigma=_fold_noise(fitted) or None, scale=fitted.scale, knowledge=known,
        )  # fmt: skip
        self.model_ = informed(self.model_, observations, seed, fitted.calibration is None)
        self._keep_predicted(cells, observations, fitted)
        self._warn(fitted)
        return self

    def _cells(self, pairs: Any, observations: Observations) -> tuple[Cells | None, Cells | None]:
        """Return the positions of pairs (-1: not in the training data), and those of them that are known."""
        if pairs is None:
            return None, None
        i, j = known_positions(observations.row_index, observations.col_index, *pairs_of(pairs))
        known = _with_data(observations, i, j)
        return (i, j), (i[known], j[known])

    def _keep_predicted(self, cells: Cells | None, observations: Observations, fitted: BayesianFit) -> None:
        """Set `predicted_at_`: streamed averages where row and column are known, elsewhere those of the draws."""
        for name in ("predicted_at_", "predicted_at_std_"):
            self.__dict__.pop(name, None)
        if cells is None or fitted.asked is None:
            return
        (i, j), (mean, spread) = cells, np.empty((2, len(cells[0])))
        known, posterior = _with_data(observations, i, j), self.model_.posterior
        assert posterior is not None
        mean[known], spread[known] = fitted.asked
        mean[~known], spread[~known] = posterior.moments(i[~known], j[~known])
        self.predicted_at_, self.predicted_at_std_ = self.model_.clipped(mean), np.sqrt(spread)

    def _warn(self, fitted: BayesianFit) -> None:
        bound = (self.priors or Priors()).sigma_max
        if bound is not None and isinstance(self.noise, str) and fitted.sigma > 0.99 * bound:
            warn(f"the noise has stayed at its upper bound sigma_max={bound:g}: the data is noisier, raise sigma_max")
        if not len(fitted.stencils) and fitted.calibration is None:
            warn(f"all values are {fitted.stencils.offset:g}: that is what the model predicts, with no spread")
        elif not len(fitted.stencils):
            warn(
                "held-out observations are predicted as well by effects of rows and columns alone: the model has no "
                "stencils (set n_stencils to have some)"
            )
        if fitted.interrupted:
            draws, sweeps = len(fitted.posterior), len(fitted.history)
            warn(f"interrupted: the model is usable, with {draws} draws after {sweeps} sweeps")


def _with_data(observations: Observations, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return at which cells both the row and the column have observations; -1 has none."""
    rows, cols = (np.append(observations.counts(axis) > 0, False) for axis in (0, 1))
    return np.asarray(rows[i] & cols[j])


def _is_constant(observations: Observations) -> bool:
    """Return whether there is one value only, and no blanks that are zeros."""
    low, high = observations.value_range
    return low == high and observations.blank_weight is None


def _fold_noise(fitted: BayesianFit) -> float:
    """Return the noise with which new rows are folded in: the sampler's, or where draws are blended, the predictive."""
    effects = fitted.posterior.effects
    return fitted.posterior.noise if effects is not None and effects.blended else fitted.sigma


def _reported(fitted: BayesianFit) -> dict[str, Any]:
    """Return fitted attributes that are plain values."""
    return {
        "n_stencils_": len(fitted.stencils),
        "n_sweeps_": len(fitted.history),
        "sigma_": fitted.sigma,
        "predictive_sigma_": fitted.posterior.noise,
        "engine_": fitted.engine,
        "train_rmse_": fitted.history[-1].rmse if fitted.history else None,
        "r_hat_": fitted.posterior.r_hat,
    }
