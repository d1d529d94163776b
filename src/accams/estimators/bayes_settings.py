"""From the parameters of BayesianACCAMS and the data to what the fit needs: checked, and in the units of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accams.data.observations import Observations
from accams.engine.memory import DISK_AHEAD, DISK_BLOCK, memory_estimate
from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.encoding import encoded_parameters
from accams.fit.bayesian import Saving, Setup
from accams.fit.calibrate import N_CHAINS, held_out_size
from accams.fit.checkpoint import fingerprint, read_header
from accams.fit.early import MOST as MOST_VALIDATION
from accams.fit.early import validation_split
from accams.fit.keys import seed_of
from accams.fit.priors import Priors
from accams.fit.run import Plan, Watched
from accams.fit.running import BLOCKS, Running
from accams.threads import available_cores

if TYPE_CHECKING:
    from accams.estimators.bayesian import BayesianACCAMS

STRUCTURE = 0.4  # share of the data's variance that all templates together have, a priori
NOISE = 0.45  # share of it that the noise begins with
ROW_NOISE = 30.0
EFFECT_CLUSTERS = 20
VISITS = 20  # per stencil, in backfitting
FALL_FASTER = 30  # stencils, from which on the variances of templates fall with the square of the index
PER_LABEL = 50  # observations of each label on average from which on choosing labels fits hardly any noise
MAY_DIFFER = (
    "callbacks", "checkpoint", "checkpoint_every", "clip", "memory_limit", "n_shards", "n_sweeps", "n_threads", "tol",
    "verbose",
)  # fmt: skip
STENCILS = (1, 5)  # tens of stencils: fewest and most, where the user does not say,
PER_TEN = 13.0  # and how many observations a row or column must have on average for each ten of them
CLUSTERS, FEWEST_CLUSTERS, MOST_CLUSTERS = 10, 3, 33  # of rows and columns: the geometric mean, and the bounds
SWEEPS = (150, 500)  # most sweeps of a run that ends by itself: for large data and for small,
WORK = 4e10  # in between as many as visit so many ratings, over all chains and at most so many stencils as above;
PATIENT = 5000  # most sweeps with early stopping
UNBOUNDED = 8  # clusters to begin with where there is no bound
MOST_BAYES_CLUSTERS = 255


def check(model: BayesianACCAMS) -> None:
    """Refuse parameters that cannot be, each with one sentence."""
    for name in ("n_chains", "max_draws", "patience", "checkpoint_every"):
        checks.whole(name, getattr(model, name), 1)
    for name, low in (("n_stencils", 1), ("n_sweeps", 1), ("n_burn_in", 0), ("thin", 1)):
        if not _is_auto(getattr(model, name)):
            checks.whole(name, getattr(model, name), low)
    sweeps, burn_in = model.n_sweeps, model.n_burn_in
    if model.schedule == "gibbs" and not isinstance(sweeps, str) and not isinstance(burn_in, str) and burn_in >= sweeps:
        raise InputError(f"n_burn_in={model.n_burn_in} leaves none of the n_sweeps={model.n_sweeps} sweeps")
    for name in ("n_threads", "n_shards"):
        if getattr(model, name) is not None:
            checks.whole(name, getattr(model, name), 1)
    checks.one_of("sampler", model.sampler, ("blocked", "collapsed"))
    checks.one_of("prior", model.prior, ("dirichlet", "crp"))
    if (model.sampler, model.prior) == ("blocked", "crp"):
        raise InputError("sampler='blocked' needs prior='dirichlet': for prior='crp' use sampler='collapsed'")
    checks.one_of("init", model.init, ("accams", "prior"))
    checks.one_of("schedule", model.schedule, ("gibbs", "backfit"))
    checks.one_of("effects", model.effects, (None, "stencils", "continuous"))
    if isinstance(model.noise, str):
        checks.one_of("noise", model.noise, ("calibrated", "sampled"))
    else:
        checks.number("noise", model.noise, 0.0, open_low=True)
    if isinstance(model.tau, str):
        checks.one_of("tau", model.tau, ("scaled", "sampled"))
    else:
        checks.number("tau", model.tau, 0.0, open_low=True)
    if model.row_noise is not None and not _is_auto(model.row_noise):
        checks.number("row_noise", model.row_noise, 0.0, open_low=True)
    if model.sigma_max is not None:
        checks.number("sigma_max", model.sigma_max, 0.0, open_low=True)
    _subs(model.n_sub)
    _check_path("checkpoint", model.checkpoint)
    for name in ("eta", "gamma"):
        _check_pair(name, getattr(model, name))
    checks.number("tol", model.tol, 0.0)
    checks.number("validation_fraction", model.validation_fraction, 0.0, 0.9, open_low=True)
    for name in ("early_stopping", "rao_blackwell"):
        checks.one_of(name, getattr(model, name), (True, False))
    checks.one_of("verbose", model.verbose, (True, False, "auto"))
    checks.clip(model.clip)
    checks.callbacks(model.callbacks)


def check_checkpoint(path: str | Path, about: dict[str, Any]) -> None:
    """Refuse a checkpoint of other data or other parameters."""
    there = read_header(path)["about"]
    if there["data"] != about["data"]:
        raise InputError(f"{path} is a checkpoint of other data: pass the observations that the fit began with")
    mine, theirs = about["parameters"], there["parameters"]
    other = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if other:
        changes = ", ".join(f"{name}={theirs.get(name)!r} (not {mine.get(name)!r})" for name in other)
        raise InputError(f"{path} is a checkpoint of a fit with {changes}")


def seed_for(model: BayesianACCAMS, resume: str | Path | None) -> int:
    """The seed; one that was drawn is taken from the checkpoint."""
    if resume is not None and not isinstance(model.random_state, (int, np.integer)):
        return int(read_header(resume)["about"]["seed"])
    return seed_of(model.random_state)


def saving_of(model: BayesianACCAMS, observations: Observations, resume: str | Path | None, seed: int) -> Saving:
    """Where the run is saved and what it goes on from, checked."""
    fixed = {"n_sweeps"} if model.schedule == "backfit" else set[str]()  # there it is visits, not length
    parameters = encoded_parameters(model, set(MAY_DIFFER) - fixed)
    wanted = model.checkpoint is not None or resume is not None
    about = {"parameters": parameters, "data": fingerprint(observations) if wanted else "", "seed": seed}
    if resume is not None:
        check_checkpoint(resume, about)
    return Saving(model.checkpoint, model.checkpoint_every, resume, about)


def setup_of(model: BayesianACCAMS, observations: Observations, seed: int) -> Setup:
    """What the fit needs, from parameters that have been checked."""
    blanks = observations.blank_weight is not None
    variance, shape = _variance(observations), observations.shape
    shapes = _shapes(model, observations)
    n, n_effects = len(shapes), 2 if model.effects == "stencils" else 0
    row_noise = (None if blanks else ROW_NOISE) if _is_auto(model.row_noise) else model.row_noise
    if blanks and row_noise is not None:
        raise InputError("row_noise needs missing cells: with observed zeros set row_noise=None")
    calibrated = model.noise == "calibrated" and not blanks and 20 <= observations.nnz < PER_LABEL * n * sum(shape)
    held = not isinstance(model.noise, str)
    sigma2 = float(model.noise) ** 2 if held else NOISE * variance
    sigma_max = np.inf if model.sigma_max is None else float(model.sigma_max)
    if not held:
        sigma2 = min(sigma2, sigma_max**2)
    each = STRUCTURE * variance / (n - n_effects)
    alpha = _per_stencil("alpha", model.alpha, n)
    priors = Priors(
        shapes=shapes,
        alpha=alpha,
        beta=alpha if model.beta is None else _per_stencil("beta", model.beta, n),
        sampler=model.sampler,  # type: ignore[arg-type]
        label_prior=model.prior,  # type: ignore[arg-type]
        tau2=_template_variances(model.tau, variance, n_effects, n - n_effects),
        eta=(2.0, 0.5 * variance) if model.eta is None else model.eta,
        gamma=(5.0, 4.0 * each) if model.gamma is None else model.gamma,
        sigma_max=sigma_max,
        sample_sigma=not calibrated and not held,
        row_noise=None if row_noise is None else float(row_noise),
        continuous=model.effects == "continuous",
        growing=model.n_clusters is None,
        start=model.init,  # type: ignore[arg-type]
        sub=_subs(model.n_sub),
        seed=seed,
    )
    plan = Plan(
        n_sweeps=None if _is_auto(model.n_sweeps) else int(model.n_sweeps),
        most_sweeps=_most_sweeps(model, observations.nnz * min(n, 10 * STENCILS[1]) * model.n_chains),
        n_burn_in=None if _is_auto(model.n_burn_in) else int(model.n_burn_in),
        thin=None if _is_auto(model.thin) else int(model.thin),
        max_draws=model.max_draws,
        tol=model.tol,
        patience=model.patience,
        rao_blackwell=bool(model.rao_blackwell),
    )
    if model.schedule == "backfit":
        visits = VISITS if plan.n_sweeps is None else plan.n_sweeps
        plan = replace(plan, n_sweeps=n, n_burn_in=n - 1, thin=1, visits=visits)
    chains, threads, shards = model.n_chains, model.n_threads, model.n_shards
    return Setup(priors, plan, sigma2, each, calibrated, chains, model.engine, threads, n_shards=shards)


def _template_variances(tau: float | str, variance: float, n_effects: int, n_stencils: int) -> list[float] | None:
    """tau^2 of each stencil, those of the effects first; None where it is sampled.

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


def _most_sweeps(model: BayesianACCAMS, ratings_per_sweep: int) -> int:
    """When a run ends that nothing else has ended; where held-out observations decide, later."""
    return PATIENT if model.early_stopping else int(np.clip(WORK / ratings_per_sweep, *SWEEPS))


def _shapes(model: BayesianACCAMS, observations: Observations) -> list[tuple[int, int]]:
    """(k_rows, k_cols) of each stencil, those of the effects first."""
    shape = observations.shape
    n_stencils, n_clusters = automatic_sizes(observations)
    if not _is_auto(model.n_stencils):
        n_stencils = int(model.n_stencils)
    if model.n_clusters is None:
        if (model.sampler, model.prior) != ("collapsed", "crp"):
            raise InputError("n_clusters=None (no bound) needs sampler='collapsed' and prior='crp'")
        shapes = [(min(UNBOUNDED, shape[0]), min(UNBOUNDED, shape[1]))] * n_stencils
    else:
        shapes = checks.shapes(n_clusters if _is_auto(model.n_clusters) else model.n_clusters, n_stencils, shape)
    if max(max(k) for k in shapes) > MOST_BAYES_CLUSTERS:
        raise InputError(f"n_clusters can be at most {MOST_BAYES_CLUSTERS} here, not {max(max(k) for k in shapes)}")
    if model.effects == "stencils":
        shapes = [(min(EFFECT_CLUSTERS, shape[0]), 1), (1, min(EFFECT_CLUSTERS, shape[1])), *shapes]
    return shapes


def automatic_sizes(observations: Observations) -> tuple[int, tuple[int, int]]:
    """Stencils, and their row and column clusters, for data of this size.

    The more observations a row or column has, the more stencils pay. Where columns are fewer than rows, each has more
    observations and can be told apart into more clusters: their numbers are as the square roots of the observations.

    Examples
    --------
    >>> i, j = np.divmod(np.arange(40_000), 100)
    >>> automatic_sizes(Observations.from_coo(i, j, 1.0 + (i + j) % 5))
    (50, (7, 14))
    """
    n_rows, n_cols = (observations.shape[axis] - len(observations.empty(axis)) for axis in (0, 1))
    tens = np.clip(round(observations.nnz / (n_rows + n_cols) / PER_TEN), *STENCILS)
    ratio = (n_cols / n_rows) ** 0.25
    k_rows, k_cols = (max(round(CLUSTERS * x), FEWEST_CLUSTERS) for x in (ratio, 1.0 / ratio))
    return 10 * int(tens), (min(k_rows, MOST_CLUSTERS), min(k_cols, MOST_CLUSTERS))


def _variance(observations: Observations) -> float:
    """Weighted variance of the data; refuses constant data."""
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


def _per_stencil(name: str, value: Any, n: int) -> list[float]:
    """One positive number per stencil, from a number or a sequence (whose last one is repeated)."""
    if checks.is_number(value):
        return [checks.number(name, value, 0.0, open_low=True)] * n
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str) or not len(value):
        raise InputError(f"{name} must be a number above 0, or one for each stencil, not {value!r}")
    given = [checks.number(name, x, 0.0, open_low=True) for x in value]
    return (given + given[-1:] * n)[:n]


def _check_pair(name: str, value: Any) -> None:
    if value is None:
        return
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not pair or not all(checks.is_number(x) and 0 < x < np.inf for x in value):
        raise InputError(f"{name} must be two numbers above 0 (shape and scale of an inverse gamma), not {value!r}")


def _subs(value: Any) -> tuple[int, ...]:
    """Label updates per visit: of the first sweeps, the last one for all others."""
    if isinstance(value, (list, tuple, np.ndarray)) and len(value):
        return tuple(checks.whole("n_sub", x, 1) for x in value)
    return (checks.whole("n_sub", value, 1),)


def _check_path(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, (str, Path)):
        raise InputError(f"{name} must be a path, not {value!r}")
    if not Path(value).parent.is_dir():
        raise InputError(f"there is no folder {Path(value).parent} to write {Path(value).name} into")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def parts_of(model: BayesianACCAMS, observations: Observations, seed: int) -> tuple[Observations, Watched | None]:
    """What is fitted, and what is held out to end early."""
    if not model.early_stopping:
        return observations, None
    training, held_out = validation_split(observations, model.validation_fraction, seed)
    rows, cols, values = held_out.coo()
    clip = observations.value_range if model.clip is True else model.clip or (-np.inf, np.inf)
    return training, Watched(Running(rows, cols), values, held_out.weights, clip)


def within_memory(model: BayesianACCAMS, observations: Observations, setup: Setup) -> Setup:
    """Refuse a fit that would not fit into `memory_limit` or the machine, before anything is allocated.

    A store that does not fit is streamed, if that does.
    """
    if model.memory_limit is None:
        limit, whose = _memory_of_machine(), "this machine has"
    else:
        limit, whose = checks.number("memory_limit", model.memory_limit, 0.0, open_low=True), "memory_limit allows"
    shapes, calibrated = setup.priors.shapes, setup.calibrated
    k = max(k for k, _ in shapes), max(k for _, k in shapes)
    weights = observations.stored_weights is not None
    at_once = max(model.n_chains, N_CHAINS) if calibrated else model.n_chains
    if model.engine == "ray" and observations.store is not None:
        return setup  # ratings are not on this machine
    if model.engine in ("cuda", "ray"):  # residuals are on the GPU, whose engine counts them, or with the workers
        at_once = 1
    sizes = [
        memory_estimate(
            observations.shape, observations.nnz, n_stencils=len(shapes), n_clusters=k, n_chains=n, weights=weights
        )
        for n in (1, at_once)
    ]
    on_disk = observations.store is not None and observations.blank_weight is None
    if sizes[1] > limit and model.engine in ("auto", "disk") and on_disk:
        streamed = _streamed(model, observations, setup, at_once, k)
        if streamed > limit:
            advice = "use fewer chains"
            if calibrated and model.n_chains <= N_CHAINS:
                advice = f"set noise='sampled' or a number (calibration needs {N_CHAINS} chains)"
            raise InputError(
                f"this fit needs about {streamed / 1e9:.2g} GB even if the ratings stay on disk, more than {whose} "
                f"({limit / 1e9:.2g} GB): {advice}"
            )
        return replace(setup, engine="disk")
    if sizes[1] > limit:
        per_chain = max((sizes[1] - sizes[0]) / max(at_once - 1, 1), 1.0)
        fits = int(1 + (limit - sizes[0]) // per_chain) if sizes[0] <= limit else 0
        advice = f"set n_chains={fits}" if fits >= 1 else "even one chain does not fit"
        if calibrated and 1 <= fits < N_CHAINS:
            advice += f" and noise='sampled' or a number (calibration needs {N_CHAINS} chains)"
        raise InputError(
            f"{at_once} chains need about {sizes[1] / 1e9:.2g} GB, more than {whose} ({limit / 1e9:.2g} GB): {advice}"
        )
    return setup


def _streamed(
    model: BayesianACCAMS, observations: Observations, setup: Setup, n_chains: int, k: tuple[int, int]
) -> int:
    """Bytes of a fit whose ratings stay on disk."""
    shape, nnz = observations.shape, observations.nnz
    held = held_out_size(nnz) * (48 + 40 * n_chains) if setup.calibrated else 0  # places, and what chains say of them
    if model.early_stopping:
        watched = min(int(model.validation_fraction * nnz), MOST_VALIDATION)
        held += watched * (64 + 16 * (BLOCKS + 2) * model.n_chains)
    longest = max(int(observations.counts(axis).max()) for axis in (0, 1))
    room = n_chains * (max(1, available_cores() // n_chains) + DISK_AHEAD)
    rows = 12 * max(0, longest - DISK_BLOCK) * room  # a row is read as a whole
    need = memory_estimate(
        shape, nnz, n_stencils=len(setup.priors.shapes), n_clusters=k, n_chains=n_chains, engine="disk"
    )
    return need + rows + held


def _memory_of_machine() -> float:
    """Bytes of memory, or no bound where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
