"""BayesianACCAMS: bACCAMS, the Bayesian model, by Gibbs sampling."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.observations import Observations
from accams.estimators import checks
from accams.estimators.base import StencilEstimator
from accams.estimators.bayes_settings import check, parts_of, saving_of, seed_for, setup_of, within_memory
from accams.estimators.inputs import known_positions, observations_of, pairs_of
from accams.estimators.progress import ProgressBar
from accams.fit.bayesian import BayesianFit, fit
from accams.fit.run import Cells, Sweep
from accams.model.codes import Codes
from accams.model.draws import pack, unpack
from accams.model.posterior import Posterior

Callback = Callable[[Sweep], bool | None]


class BayesianACCAMS(StencilEstimator):
    r"""Complete a matrix by a Bayesian sum of small co-clusterings: the posterior mean over many draws.

    The model is :math:`M_{ij} = \mu + \sum_l T_l[c_l(i), d_l(j)] + \epsilon_{ij}` with priors on labels, templates
    and noise (Beutel, Ahmed and Smola, section "Generative Model"). Several chains of a Gibbs sampler visit one
    stencil after another; predictions are averaged over chains and sweeps. The noise level is calibrated on held-out
    observations, since left to itself it collapses on sparse data (docs/calibration.md).

    Parameters
    ----------
    n_stencils : int or "auto", default "auto"
        Stencils in the sum. "auto": from 10 to 50, ten for every 13 observations of the average row and column.
    n_clusters : int, (int, int), list of those, None or "auto", default "auto"
        Row and column clusters of each stencil; a list is cycled through. None: no bound (sampler "collapsed", prior
        "crp"). "auto": about 100 blocks, with more clusters on the side that has more observations each.
    sampler : {"blocked", "collapsed"}, default "blocked"
        "collapsed" is the paper's: labels one after another, with the template integrated out. "blocked" draws the
        template and then all labels at once, on all cores. Both are exact.
    prior : {"dirichlet", "crp"}, default "dirichlet"
        Of labels: symmetric Dirichlet(alpha / k), or a Chinese restaurant process with at most k clusters
        ("collapsed" only).
    alpha, beta : float or sequence, default 1.0 and the same as alpha
        Concentration of row and column labels; a sequence has one number per stencil (falling numbers make later
        stencils simpler, as the paper suggests).
    noise : {"calibrated", "sampled"} or float, default "calibrated"
        How sigma is set: calibrated on held-out observations and then held, sampled with the rest (the paper's), or
        held at this value. "calibrated" means sampled with observed zeros, where nothing can be held out, and where
        there are 50 observations or more for each label.
    sigma_max : float, optional
        Upper bound of sigma where it is sampled or calibrated.
    eta : (float, float), optional
        Shape and scale of the inverse gamma prior of sigma^2. Default: a weak one on the scale of the data.
    tau : {"scaled", "sampled"} or float, default "scaled"
        Standard deviation of template entries: such that all stencils together have 0.4 of the data's variance, each
        less than the one before (as 1, 1/2, 1/3, ...), sampled for each stencil (the paper's), or this value.
    gamma : (float, float), optional
        Shape and scale of the inverse gamma prior of tau^2, where it is sampled, and of the variance of continuous
        effects.
    row_noise : float, None or "auto", default "auto"
        Degrees of freedom of each row's own noise level (some users rate more erratically than others); None: all
        rows are alike. "auto" is 30, and None with observed zeros.
    effects : {None, "stencils", "continuous"}, default None
        Row and column effects beside the stencils: as two stencils of shape 20 x 1 and 1 x 20, or one number per row
        and column with learned variance.
    init : {"accams", "prior"}, default "accams"
        How stencils begin: by ACCAMS on the residual, or with labels from the prior.
    n_chains : int, default 8
        Independent chains, run side by side. Their average is what makes predictions good.
    n_sweeps : int or "auto", default "auto"
        Sweeps of each chain after calibration. "auto" goes on until the running mean settles (`tol`), for 500 at most
        and on large data 150.
    n_burn_in : int or "auto", default "auto"
        Sweeps left out of all averages. "auto" is the first quarter.
    thin : int or "auto", default "auto"
        Sweeps from one kept draw to the next. "auto" keeps at most `max_draws`, evenly spaced.
    max_draws : int, default 400
        Most draws kept, over all chains.
    n_sub : int or sequence, default 1
        Label updates per visit of a stencil; a sequence gives the first sweeps' numbers, its last the rest.
    schedule : {"gibbs", "backfit"}, default "gibbs"
        "backfit" fits one stencil after another (by `n_sweeps` visits, "auto": 20) and leaves each as it is.
    tol : float, default 1e-4
        Ends the run when its last fifth changed the running mean by less than this share of the squared error.
    early_stopping : bool, default False
        Hold out `validation_fraction` of the entries (a million at most), and end when their error has not improved for
        `patience` sweeps.
    validation_fraction : float, default 0.1
    patience : int, default 50
    rao_blackwell : bool, default False
        Keep probabilities of row labels with each draw and predict with those: better where draws are few, and larger.
    clip : bool or (float, float), default True
        Whether predictions are kept within the range of the training values, or within the range given.
    engine : {"auto", "cpu", "dense", "graph", "cuda", "disk", "ray"}, default "auto"
    n_threads : int or None, default None
    n_shards : int or None, default None
        As in `ACCAMS`.
    memory_limit : float, optional
        Bytes; a fit that would need more is refused before it begins. Default: what the machine has. A store that would
        not fit is streamed instead (``engine="disk"``).
    checkpoint : path, optional
        Where to save the run every `checkpoint_every` sweeps; ``fit(..., resume=path)`` goes on from there.
    checkpoint_every : int, default 50
    random_state : int, RandomState, Generator or None, default 0
        The same seed gives the same model, bit for bit. None draws a new seed.
    callbacks : sequence of callables, optional
        Each is called with a `Sweep` after every sweep; the fit ends when one returns True.
    verbose : bool or "auto", default "auto"
        Progress bar: "auto" shows one for fits of more than two seconds on a terminal.

    Attributes
    ----------
    posterior_ : Posterior
        The draws; `posterior_.predict(rows, cols)` by position, `posterior_.to_arviz()`.
    stencils_ : StencilSum
        One of them, the last of the first chain: small, but much less accurate than the mean over all.
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

    posterior_: Posterior

    def __init__(
        self,
        n_stencils: int | str = "auto",
        n_clusters: int | tuple[int, int] | list[Any] | str | None = "auto",
        *,
        sampler: str = "blocked",
        prior: str = "dirichlet",
        alpha: float | Sequence[float] = 1.0,
        beta: float | Sequence[float] | None = None,
        noise: str | float = "calibrated",
        sigma_max: float | None = None,
        eta: tuple[float, float] | None = None,
        tau: str | float = "scaled",
        gamma: tuple[float, float] | None = None,
        row_noise: float | str | None = "auto",
        effects: str | None = None,
        init: str = "accams",
        n_chains: int = 8,
        n_sweeps: int | str = "auto",
        n_burn_in: int | str = "auto",
        thin: int | str = "auto",
        max_draws: int = 400,
        n_sub: int | Sequence[int] = 1,
        schedule: str = "gibbs",
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 50,
        rao_blackwell: bool = False,
        clip: bool | tuple[float, float] = True,
        engine: str = "auto",
        n_threads: int | None = None,
        n_shards: int | None = None,
        memory_limit: float | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
        random_state: Any = 0,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | str = "auto",
    ) -> None:
        self.n_stencils = n_stencils
        self.n_clusters = n_clusters
        self.sampler = sampler
        self.prior = prior
        self.alpha = alpha
        self.beta = beta
        self.noise = noise
        self.sigma_max = sigma_max
        self.eta = eta
        self.tau = tau
        self.gamma = gamma
        self.row_noise = row_noise
        self.effects = effects
        self.init = init
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.thin = thin
        self.max_draws = max_draws
        self.n_sub = n_sub
        self.schedule = schedule
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.rao_blackwell = rao_blackwell
        self.clip = clip
        self.engine = engine
        self.n_threads = n_threads
        self.n_shards = n_shards
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @classmethod
    def paper(cls, **changes: Any) -> BayesianACCAMS:
        """The model with the paper's settings, apart from `changes`.

        The collapsed sampler under a Chinese restaurant process with at most 10 clusters a side, alpha = beta = 10,
        eta = (2, 0.3), gamma = (5, 0.3), sigma sampled below 1, one chain, three label updates per visit, 30 sweeps of
        burn-in and 100 more. They are meant for ratings from 1 to 5.

        Examples
        --------
        >>> BayesianACCAMS.paper(n_stencils=20).alpha
        10.0
        """
        settings: dict[str, Any] = {
            "n_stencils": 30, "n_clusters": 10, "sampler": "collapsed", "prior": "crp", "alpha": 10.0, "beta": 10.0,
            "noise": "sampled", "sigma_max": 1.0,
            "eta": (2.0, 0.3), "tau": "sampled", "gamma": (5.0, 0.3), "row_noise": None, "n_chains": 1,
            "n_sweeps": 130, "n_burn_in": 30, "n_sub": 3,
        }  # fmt: skip
        return cls(**{**settings, **changes})

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, predict_at: Any = None,
        resume: str | Path | None = None,
    ) -> BayesianACCAMS:  # fmt: skip
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
        A keyboard interrupt (Ctrl-C) ends the fit after the current stencil, with the draws so far and a warning.
        """
        check(self)
        seed = seed_for(self, resume)
        observations = observations_of(X, y, sample_weight)
        checks.magnitude(*observations.value_range)
        setup = setup_of(self, observations, seed)
        setup = within_memory(self, observations, setup)
        cells, asked = self._cells(predict_at, observations)
        with ProgressBar(self.verbose, entries=observations.nnz) as bar:

            def watch(sweep: Sweep) -> bool:
                bar.update_sweep(sweep)
                answers = [checks.is_true(callback(sweep)) for callback in self.callbacks or ()]  # all of them are told
                return any(answers)

            training, validation = parts_of(self, observations, seed)
            fitted = fit(training, setup, asked, validation, watch, saving_of(self, observations, resume, seed))
        self._keep_input(X, y, observations)
        self._keep(fitted)
        self._keep_predicted(cells, fitted)
        return self

    def predict(self, pairs: Any, *, return_std: bool = False, quantiles: Sequence[float] | None = None) -> Any:
        """Predictions for pairs of (row id, column id): the mean over all draws.

        Parameters
        ----------
        pairs : array (n, 2), list of pairs, DataFrame or Observations
        return_std : bool
            Also the standard deviation of an observation there: the spread of the draws and the noise.
        quantiles : sequence of floats, optional
            Also these quantiles of an observation, one column each.

        Returns
        -------
        array (n,), or a tuple (mean, std), (mean, quantiles), (mean, std, quantiles)
            Mean and quantiles are clipped as `clip` says. Rows and columns that were never seen are predicted as the
            average row (column).
        """
        self._check_is_fitted()
        rows, cols = pairs_of(pairs, getattr(self, "feature_names_in_", None))
        i, j = known_positions(self.row_index_, self.col_index_, rows, cols)
        return self._clipped_all(self.posterior_.predict(i, j, return_std=return_std, quantiles=quantiles), return_std)

    def _predict_ids(self, rows: NDArray[Any], cols: NDArray[Any]) -> NDArray[np.float64]:
        return self._clipped(self.posterior_.predict(*known_positions(self.row_index_, self.col_index_, rows, cols)))

    def _clipped_all(self, answer: Any, return_std: bool) -> Any:
        if not isinstance(answer, tuple):
            return self._clipped(answer)
        return tuple(x if return_std and p == 1 else self._clipped(x) for p, x in enumerate(answer))

    def _cells(self, pairs: Any, observations: Observations) -> tuple[Cells | None, Cells | None]:
        """The positions of pairs (-1: not in the training data), and those of them that are known."""
        if pairs is None:
            return None, None
        i, j = known_positions(observations.row_index, observations.col_index, *pairs_of(pairs))
        known = (i >= 0) & (j >= 0)
        return (i, j), (i[known], j[known])

    def _keep_predicted(self, cells: Cells | None, fitted: BayesianFit) -> None:
        """Streamed averages where row and column are known, elsewhere those of the draws."""
        for name in ("predicted_at_", "predicted_at_std_"):
            self.__dict__.pop(name, None)
        if cells is None or fitted.asked is None:
            return
        (i, j), (mean, spread) = cells, np.empty((2, len(cells[0])))
        known = (i >= 0) & (j >= 0)
        mean[known], spread[known] = fitted.asked
        mean[~known], spread[~known] = self.posterior_.moments(i[~known], j[~known])
        self.predicted_at_, self.predicted_at_std_ = self._clipped(mean), np.sqrt(spread)

    def _keep(self, fitted: BayesianFit) -> None:
        self.posterior_, self.stencils_ = fitted.posterior, fitted.stencils
        self.n_stencils_ = len(fitted.stencils)
        self.history_ = fitted.history
        self.n_sweeps_ = len(fitted.history)
        self.calibration_ = fitted.calibration
        self.sigma_, self.predictive_sigma_ = fitted.sigma, fitted.posterior.noise
        self.engine_ = fitted.engine
        self.train_rmse_ = fitted.history[-1].rmse if fitted.history else None
        self.r_hat_ = fitted.posterior.r_hat
        bound = self.sigma_max
        if bound is not None and self.noise in ("calibrated", "sampled") and self.sigma_ > 0.99 * bound:
            warnings.warn(
                f"the noise has stayed at its upper bound sigma_max={bound:g}: the data is noisier, raise sigma_max",
                stacklevel=3,
            )
        if fitted.interrupted:
            warnings.warn(
                f"interrupted: the model is usable, with {len(self.posterior_)} draws after {self.n_sweeps_} sweeps",
                stacklevel=3,
            )

    def _summary(self) -> dict[str, Any]:
        """What a saved model remembers of its fit."""
        names = "n_stencils_", "n_sweeps_", "sigma_", "predictive_sigma_", "engine_", "n_features_in_", "train_rmse_"
        return {name: getattr(self, name) for name in (*names, "r_hat_")}

    def _sums(self) -> list[Codes]:
        return [draw.codes for draw in self.posterior_.draws]

    def _more_to_save(self, coding: str, templates: str | float) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        posterior = self.posterior_
        header, tensors = pack(posterior.draws, coding, templates)
        tensors.update({"probes": posterior.probes, **{f"trace.{name}": x for name, x in posterior.traces.items()}})
        return {"noise": posterior.noise, "posterior": header}, tensors

    def _load_more(self, header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        one = self.stencils_
        draws = unpack(header["posterior"], tensors, one.shape, (one.unseen_rows, one.unseen_cols))
        if not draws:
            raise ValueError("it has no draws")
        traces = {name.removeprefix("trace."): x for name, x in tensors.items() if name.startswith("trace.")}
        self.posterior_ = Posterior(one.shape, tuple(draws), float(header["noise"]), traces, tensors["probes"])
