"""From the parameters of BayesianACCAMS and the data to the plan of a fit, checked and in the units of the data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.levels import MOST_LEVELS, level_weights, levels_of
from accams.data.observations import Observations
from accams.errors import InputError, warn
from accams.estimators.base import stencil_shapes
from accams.fit.bayesian import Checkpointing, FitPlan
from accams.fit.calibrate import ALONE
from accams.fit.checkpoint import fingerprint, read_header
from accams.fit.early import validation_split
from accams.fit.hyper import Hyperparameters
from accams.fit.keys import seed_of
from accams.fit.pattern import EXTRA
from accams.fit.run import RunningValidation, RunPlan
from accams.fit.running import Running
from accams.fitted.parts import resolve_clip
from accams.model.scale import Scale
from accams.settings.bayesian import BayesianSettings, Priors, Schedule, present_names
from accams.settings.encoding import encoded, plain_parameters

Given = tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]  # features of rows and of columns, by tables
STRUCTURE = 0.4  # prior share of the data's variance that all templates together have
NOISE = 0.45  # share of it that the noise starts from
ROW_NOISE = 30.0
EFFECT_CLUSTERS = 20
FALL_FASTER = 30  # stencils, from which on the variances of templates fall with the square of the index
SPARSE = 30.0  # observations of the average row and column from which on stencils need no effects beside them
MOST_WEIGHT = 1.5  # largest factor of their interactions there
PER_LABEL = 50  # observations of each label on average from which on choosing labels fits hardly any noise
MAY_DIFFER = (
    "callbacks", "checkpoint", "clip", "n_sweeps", "n_threads", "verbose", "schedule__checkpoint_every",
    "schedule__memory_limit", "schedule__n_shards", "schedule__tol",
)  # fmt: skip
STENCILS = (10, 30)  # fewest and most, where the user does not say,
PER_STENCIL = 1.3  # and how many observations a row or column must have on average for each, if it has `CLUSTERS`
# Rounds of ACCAMS for first labels: few where sweeps of the calibration, or over all cells, follow.
FEW_ROUNDS, MOST_ROUNDS = 2, 10
CLUSTERS, FEWEST_CLUSTERS, MOST_CLUSTERS = 10, 3, 33  # of rows and columns: the geometric mean, and the bounds
SWEEPS = (150, 500)  # most sweeps of a run that ends by itself: for large data and for small,
WORK = 4e10  # in between as many as visit so many ratings, over all chains and at most so many stencils as above;
PATIENT = 5000  # most sweeps with early stopping
UNBOUNDED = 8  # clusters to begin with where there is no bound
MOST_BAYES_CLUSTERS = 255
SLOPES = 0.025  # prior share of the data's variance that slopes on features have
FEWEST_LEVELS = 3  # different values from which on they are taken as steps of a scale, where the user does not say


def check(settings: BayesianSettings) -> None:
    """Raise InputError for parameters that are invalid, alone or together."""
    settings.check_params()
    priors, schedule = records(settings)
    sweeps, burn_in = settings.n_sweeps, schedule.n_burn_in
    numbers = not isinstance(sweeps, str) and not isinstance(burn_in, str)
    if schedule.backfit is None and numbers and int(burn_in) >= int(sweeps):
        raise InputError(f"n_burn_in must be smaller than n_sweeps, but is {burn_in} of {sweeps}")
    if (schedule.sampler, priors.labels) == ("blocked", "crp"):
        raise InputError("the sampler 'blocked' needs labels='dirichlet': for labels='crp' use sampler='collapsed'")


def records(settings: BayesianSettings) -> tuple[Priors, Schedule]:
    """Return the records for experts, with defaults where there are none."""
    return settings.priors or Priors(), settings.schedule or Schedule()


def check_checkpoint(path: str | Path, about: dict[str, Any]) -> None:
    """Raise InputError for a checkpoint of other data or other parameters."""
    saved = read_header(path)["about"]
    if saved["data"] != about["data"]:
        raise InputError(
            f"{path} is a checkpoint of other data: pass the observations (and features) that the fit began with"
        )
    ours, theirs = (fixed_parameters(each["parameters"]) for each in (about, saved))
    other = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if other:
        changes = ", ".join(f"{name}={theirs.get(name)!r:.60} (not {ours.get(name)!r:.60})" for name in other)
        raise InputError(f"{path} is a checkpoint of a fit with {changes}")


def fixed_parameters(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the encoded parameters that must not change when a run is resumed, by their present names."""
    return {name: value for name, value in present_names(saved).items() if name not in MAY_DIFFER}


def seed_for(settings: BayesianSettings, resume: str | Path | None) -> int:
    """Return the seed; one that was drawn is taken from the checkpoint."""
    if resume is not None and not isinstance(settings.random_state, (int, np.integer)):
        return int(read_header(resume)["about"]["seed"])
    return seed_of(settings.random_state)


def checkpointing_of(
    settings: BayesianSettings, observations: Observations, resume: str | Path | None, seed: int,
    given: Given = (None, None),
) -> Checkpointing:  # fmt: skip
    """Return where the run is saved and what it goes on from, checked."""
    parameters = {name: encoded(x) for name, x in plain_parameters(settings, ("callbacks", "verbose")).items()}
    wanted = settings.checkpoint is not None or resume is not None
    about = {"parameters": parameters, "data": fingerprint(observations, *given) if wanted else "", "seed": seed}
    if resume is not None:
        check_checkpoint(resume, about)
    return Checkpointing(settings.checkpoint, records(settings)[1].checkpoint_every, resume, about)


def plan_of(settings: BayesianSettings, observations: Observations, seed: int, given: Given = (None, None)) -> FitPlan:
    """Return what the fit needs, in the units of the data, from parameters that have been checked."""
    priors, schedule = records(settings)
    blanks, variance = observations.blank_weight is not None, _variance(observations)
    shapes = _shapes(settings, observations)
    n, n_effects = len(shapes), 2 if priors.effects == "stencils" else 0
    row_noise = (None if blanks else ROW_NOISE) if priors.row_noise == "auto" else priors.row_noise
    if blanks and row_noise is not None:
        raise InputError("row_noise needs missing cells: with observed zeros set row_noise=None")
    calibrated = _is_calibrated(settings, observations, n)
    held = not isinstance(settings.noise, str)
    sigma2 = float(settings.noise) ** 2 if held else NOISE * variance
    sigma_max = np.inf if priors.sigma_max is None else float(priors.sigma_max)
    if not held:
        sigma2 = min(sigma2, sigma_max**2)
    each = STRUCTURE * variance / (n - n_effects)
    scale = _scale(settings, observations, calibrated, sigma2)
    alpha = _per_stencil(priors.alpha, n)
    hyper = Hyperparameters(
        shapes=shapes,
        alpha=alpha,
        beta=alpha if priors.beta is None else _per_stencil(priors.beta, n),
        sampler=schedule.sampler,  # type: ignore[arg-type]
        label_prior=priors.labels,  # type: ignore[arg-type]
        tau2=_template_variances(priors.tau, variance, n_effects, n - n_effects),
        eta=(2.0, 0.5 * variance) if priors.eta is None else priors.eta,
        gamma=(5.0, 4.0 * each) if priors.gamma is None else priors.gamma,
        sigma_max=sigma_max,
        sample_sigma=not calibrated and not held,
        row_noise=None if row_noise is None else float(row_noise),
        continuous=priors.effects == "continuous",
        growing=settings.n_clusters is None,
        start=schedule.init,  # type: ignore[arg-type]
        start_rounds=FEW_ROUNDS if (calibrated or blanks) and schedule.backfit is None else MOST_ROUNDS,
        quick_start=blanks and schedule.backfit is None,
        sub=tuple(np.atleast_1d(schedule.n_sub).tolist()),
        seed=seed,
        slopes=(2.0, SLOPES * variance),
        scale=scale,
        mixed=scale is not None and settings.likelihood == "auto",
    )
    run = _run_plan(settings, schedule, observations.nnz, n)
    chains, threads, shards = settings.n_chains, settings.n_threads, schedule.n_shards
    weights = ALONE
    if calibrated and priors.effects == "auto" and schedule.backfit is None:
        sparse = settings.n_stencils == "auto" and per_line(observations) < SPARSE
        weights = (0.0, 1.0) if sparse else (1.0, MOST_WEIGHT)
    return FitPlan(
        hyper, run, sigma2, each, calibrated, weights, n_features(settings, observations), given,
        not blanks, chains, settings.engine, threads, n_shards=shards,
    )  # fmt: skip


def n_features(settings: BayesianSettings, observations: Observations) -> int | None:
    """Return the number of features of what was observed on which rows have slopes; None leaves it to the data."""
    (priors, schedule), most = records(settings), min(observations.shape) - EXTRA
    possible = observations.blank_weight is None and not observations.is_complete
    if isinstance(priors.implicit, int):
        if not possible or priors.implicit > most:
            why = f"there can be {max(most, 0)} at most" if possible else "there are no missing cells"
            raise InputError(f"implicit={priors.implicit} features of what was observed cannot be had: {why}")
        return priors.implicit
    return None if priors.implicit == "auto" and possible and schedule.backfit is None else 0


def _scale(settings: BayesianSettings, observations: Observations, calibrated: bool, sigma2: float) -> Scale | None:
    """Return the scale of ordinal observations, or None where they are taken as normal.

    Cut points are those with which values have their frequencies in a normal distribution of the same variance.
    """
    if settings.likelihood == "gaussian":
        return None
    values = None if observations.blank_weight is not None else levels_of(observations)
    if settings.likelihood == "auto":
        if values is None or len(values) < FEWEST_LEVELS or not calibrated or settings.n_chains < 2:
            return None
    elif values is None:
        why = "with observed zeros" if observations.blank_weight is not None else f"for more than {MOST_LEVELS} values"
        raise InputError(f"there is no likelihood='ordinal' {why}: use likelihood='gaussian'")
    assert values is not None
    return Scale.of_shares(values, level_weights(observations, values), float(np.sqrt(sigma2)))


def _is_calibrated(settings: BayesianSettings, observations: Observations, n_stencils: int) -> bool:
    """Return whether the noise is calibrated on held-out observations."""
    if settings.noise not in ("auto", "calibrated"):
        return False
    labels = n_stencils * sum(observations.shape)
    possible = observations.blank_weight is None and observations.nnz >= 20
    if settings.noise == "calibrated" and not possible:
        why = "blanks are observed zeros" if observations.blank_weight is not None else "there are too few observations"
        warn(f"the noise cannot be calibrated, since {why}: it is sampled")
    return possible and (settings.noise == "calibrated" or observations.nnz < PER_LABEL * labels)


def _run_plan(settings: BayesianSettings, schedule: Schedule, nnz: int, n_stencils: int) -> RunPlan:
    """Return how long to run and what to keep."""
    most = PATIENT
    if not settings.early_stopping:  # held-out observations decide otherwise
        most = int(np.clip(WORK / (nnz * min(n_stencils, STENCILS[1]) * settings.n_chains), *SWEEPS))
    plan = RunPlan(
        n_sweeps=None if isinstance(settings.n_sweeps, str) else int(settings.n_sweeps),
        most_sweeps=most,
        n_burn_in=None if isinstance(schedule.n_burn_in, str) else int(schedule.n_burn_in),
        thin=None if isinstance(schedule.thin, str) else int(schedule.thin),
        max_draws=schedule.max_draws,
        tol=schedule.tol,
        patience=schedule.patience,
        rao_blackwell=bool(schedule.rao_blackwell),
    )
    if schedule.backfit is None:
        return plan
    return replace(plan, n_sweeps=n_stencils, n_burn_in=n_stencils - 1, thin=1, visits=schedule.backfit)


def _template_variances(tau: float | str, variance: float, n_effects: int, n_stencils: int) -> list[float] | None:
    """Return tau^2 of each stencil, those of the effects first; None where it is sampled.

    The first stencil has most of the structure, the l-th one l-th of that, and beyond `FALL_FASTER` the shares fall
    with the square of l: however many there are, the first ones stay large enough for their labels to settle.
    """
    if tau == "sampled":
        return None
    index = np.arange(1.0, n_stencils + 1.0)
    shares = np.minimum(1.0 / index, FALL_FASTER / index**2)
    scaled = STRUCTURE * variance * shares / shares.sum()
    own = scaled.tolist() if isinstance(tau, str) else [float(tau) ** 2] * n_stencils
    return [STRUCTURE / 2.0 * variance] * n_effects + own


def _shapes(settings: BayesianSettings, observations: Observations) -> list[tuple[int, int]]:
    """Return (k_rows, k_cols) of each stencil, those of the effects first."""
    (priors, schedule), shape = records(settings), observations.shape
    n_stencils, n_clusters = automatic_sizes(observations)
    if not isinstance(settings.n_stencils, str):
        n_stencils = int(settings.n_stencils)
    if settings.n_clusters is None:
        if (schedule.sampler, priors.labels) != ("collapsed", "crp"):
            raise InputError("n_clusters=None (no bound) needs sampler='collapsed' and labels='crp'")
        shapes = [(min(UNBOUNDED, shape[0]), min(UNBOUNDED, shape[1]))] * n_stencils
    else:
        given = n_clusters if isinstance(settings.n_clusters, str) else settings.n_clusters
        shapes = stencil_shapes(given, n_stencils, shape)
    if max(max(k) for k in shapes) > MOST_BAYES_CLUSTERS:
        raise InputError(f"n_clusters can be at most {MOST_BAYES_CLUSTERS} here, not {max(max(k) for k in shapes)}")
    if priors.effects == "stencils":
        shapes = [(min(EFFECT_CLUSTERS, shape[0]), 1), (1, min(EFFECT_CLUSTERS, shape[1])), *shapes]
    return shapes


def automatic_sizes(observations: Observations) -> tuple[int, tuple[int, int]]:
    """Return the number of stencils, and of their row and column clusters, for data of this size.

    The more observations a row or column has, the more stencils pay. Where columns are fewer than rows, each has more
    observations and can be split into more clusters: their numbers are as the square roots of the observations. Labels
    of few clusters carry few bits, so there are more stencils of them.

    Examples
    --------
    >>> i, j = np.divmod(np.arange(40_000), 100)
    >>> automatic_sizes(Observations.from_coo(i, j, 1.0 + (i + j) % 5))
    (30, (7, 14))
    """
    n_rows, n_cols = (observations.shape[axis] - len(observations.empty(axis)) for axis in (0, 1))
    ratio = (n_cols / n_rows) ** 0.25
    k_rows, k_cols = (max(round(CLUSTERS * x), FEWEST_CLUSTERS) for x in (ratio, 1.0 / ratio))
    stencils = per_line(observations) / PER_STENCIL * np.log(CLUSTERS) / np.log(min(k_rows, k_cols))
    return int(np.clip(5 * round(stencils / 5), *STENCILS)), (min(k_rows, MOST_CLUSTERS), min(k_cols, MOST_CLUSTERS))


def per_line(observations: Observations) -> float:
    """Return the observations per row and column that has any."""
    return observations.nnz / sum(observations.shape[axis] - len(observations.empty(axis)) for axis in (0, 1))


def _variance(observations: Observations) -> float:
    """Return the weighted variance of the data; raise InputError for constant data."""
    low, high = observations.value_range
    if observations.blank_weight is not None:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        raise InputError(f"all values are {low:g}: there is nothing to learn from constant data")
    mean, total = observations.mean(), observations.total_weight()
    squares, step = 0.0, 1 << 20
    for lo in range(0, observations.nnz, step):  # in pieces, to need little memory
        part = slice(lo, lo + step)
        each = (observations.stored_values[part].astype(np.float64) - mean) ** 2
        if observations.stored_weights is not None:
            each *= observations.stored_weights[part] * observations.weight_step
        squares += float(each.sum())
        observations.release_pages()
    if observations.blank_weight is not None:
        cells = observations.shape[0] * observations.shape[1] - observations.nnz
        squares += observations.blank_weight * cells * mean**2
    return squares / total


def _per_stencil(value: Any, n: int) -> list[float]:
    """Return one number per stencil, from a number or a sequence (whose last one is repeated)."""
    given = [float(x) for x in np.atleast_1d(value)]
    return (given + given[-1:] * n)[:n]


def parts_of(
    settings: BayesianSettings, observations: Observations, seed: int
) -> tuple[Observations, RunningValidation | None]:
    """Return what is fitted, and what is held out for early stopping."""
    if not settings.early_stopping:
        return observations, None
    training, held_out = validation_split(observations, records(settings)[1].validation_fraction, seed)
    rows, cols, values = held_out.coo()
    clip = resolve_clip(settings.clip, observations.value_range) or (-np.inf, np.inf)
    return training, RunningValidation(Running(rows, cols), values, held_out.weights, clip)
