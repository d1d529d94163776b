"""bACCAMS from observations to a posterior: calibrate the noise and the blend, then sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.errors import CheckpointWarning, WriteError, warn
from accams.fit import checkpoint, resuming
from accams.fit.additive import fit_additive
from accams.fit.blend import Blend
from accams.fit.blocks import Blocks
from accams.fit.calibrate import ALONE, N_CHAINS, Calibration, calibrate, held_out_split, stage_sweeps
from accams.fit.chains import Chains
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.fit.pattern import pattern_features
from accams.fit.run import N_TRACED, Cells, Run, RunningValidation, RunPlan, Sweep, make_probes, run
from accams.fit.running import FIRST_INTERVAL, Keeper, Running
from accams.model.posterior import Draw, Posterior
from accams.model.scale import Scale
from accams.model.stencils import StencilSum
from accams.writing import check as check_writable

Floats = NDArray[np.float64]
Watcher = Callable[[Sweep], bool]
End = Literal["done", "stopped", "interrupted"]
FEWEST_DRAWS = 4  # of each chain, however few would do
LOWEST = 1e-8  # lower bound of the calibrated noise variance, relative to the initial one


@dataclass(frozen=True)
class FitPlan:
    """Parameters of a Bayesian fit."""

    hyper: Hyperparameters
    run: RunPlan
    sigma2: float  # noise variance, or its initial value if it is sampled or calibrated
    tau2: float  # initial template variance, where it is sampled
    calibrated: bool  # whether the noise is first calibrated on held-out observations,
    weights: tuple[float, float] = ALONE  # and with it the weight of the stencils: its lowest and highest value,
    n_features: int | None = 0  # of the columns, by what was observed, on which rows have slopes; None: by the data
    given: tuple[Floats | None, Floats | None] = (None, None)  # features of rows and of columns, by tables
    additive: bool = True  # and whether an additive model is fitted, for this and for rows and columns never seen
    n_chains: int = 4
    engine: str = "auto"
    n_threads: int | None = None
    chunk_size: int | None = None
    n_shards: int | None = None


@dataclass(frozen=True)
class BayesianFit:
    """Result of a Bayesian fit."""

    posterior: Posterior
    stencils: StencilSum  # last draw of the first chain
    history: list[Sweep]
    calibration: Calibration | None
    sigma: float
    engine: str
    interrupted: bool
    asked: tuple[Floats, Floats] | None = None  # mean and variance over draws at the cells asked for
    scale: Scale | None = None  # on which predictions of ordinal observations are to be read


@dataclass
class Checkpointing:
    """Checkpoints to write during a fit, and one to resume from."""

    path: str | Path | None = None  # file to write
    every: int = 50  # sweeps from one checkpoint to the next
    resume: str | Path | None = None  # checkpoint to resume from
    about: dict[str, Any] = field(default_factory=dict)  # parameters, seed and fingerprint of the data, to be stored
    warned: bool = False  # that one could not be written

    def check(self) -> None:
        """Raise WriteError for a path that can never be written, before the fit."""
        if self.path is not None:
            check_writable(Path(self.path))

    def save(self, state: Run, calibration: Calibration | None) -> None:
        """Write a checkpoint; where that fails, warn once: a fit is not given up for it, and the disk may get room."""
        if self.path is None:
            return
        try:
            checkpoint.save(self.path, state, calibration, self.about)
        except WriteError as error:
            if not self.warned:
                warn(f"no checkpoint after sweep {state.sweep}, the fit goes on: {error}", CheckpointWarning)
            self.warned = True


def fit(
    observations: Observations, plan: FitPlan, asked: Cells | None = None, validation: RunningValidation | None = None,
    watch: Watcher | None = None, checkpoints: Checkpointing | None = None,
) -> BayesianFit:  # fmt: skip
    """Calibrate the noise if planned, then run all chains until done, interrupted, or `watch` returns True."""
    began, files = perf_counter(), checkpoints or Checkpointing()
    files.check()
    end: End
    calibration, warm, end = None, list[Chain](), "done"
    split = held_out_split(observations, plan.hyper.seed) if plan.calibrated and files.resume is None else None
    # Before anything that takes long: it refuses what it cannot resume.
    features = _features(observations if split is None else split[0], plan, files.resume)
    additive = fit_additive(observations, plan.given) if plan.additive else None  # before chains take memory
    if split is not None:
        calibration, warm, end = _calibrate(split, plan, features, began, watch)
    wanted = ("implicit",) if plan.n_features else ()  # by the user, not by the data
    blocks, kept = features.only([] if calibration is None else calibration.blocks, wanted)
    if additive is not None and calibration is not None and calibration.weight == 0.0:
        engine = warm[0].state.engine.name
        return without_stencils(observations, Blend(0.0, additive), calibration, engine, asked)
    chains = _chains(observations, plan, blocks, plan.sigma2 if calibration is None else calibration.sigma2)
    try:
        if calibration is not None and plan.run.visits is None:
            sigma2 = calibration.sigma2
            chains.continue_from(_nearest_of_a_kind(chains, warm, sigma2), kept)
            for chain in chains.chains:
                chain.level = sigma2
        warm.clear()
        state = begin(chains, observations, plan, calibration, asked, validation, began)
        if files.resume is not None:
            calibration = resuming.restore(files.resume, state, *checkpoint.read(files.resume))
            state.keeper.most = _most_draws(plan, calibration)
        if calibration is not None:
            state.read_on(calibration.scale, calibration.latent)

        if additive is not None:
            weight = 1.0 if calibration is None else calibration.weight
            state.blend = Blend(weight if end == "done" else min(weight, 1.0), additive)

        def after_sweep(state: Run, sweep: Sweep) -> bool:
            stop = watch is not None and watch(sweep)
            if stop or state.done or state.sweep % files.every == 0:
                files.save(state, calibration)
            return stop

        if end == "done" and not run(state, after_sweep):
            end = "interrupted"
        return finish(state, calibration, end == "interrupted")
    finally:
        chains.close()


def begin(
    chains: Chains, observations: Observations, plan: FitPlan, calibration: Calibration | None, asked: Cells | None,
    validation: RunningValidation | None, began: float,
) -> Run:  # fmt: skip
    keeper = Keeper(_most_draws(plan, calibration), plan.run.thin or FIRST_INTERVAL, plan.run.thin is not None)
    scale = plan.sigma2 if calibration is None else calibration.error
    probes = make_probes(observations, plan.hyper.seed)
    cells = None if asked is None else Running(*asked)
    return Run(chains, plan.run, scale, probes, keeper, cells, validation, began=began)


def finish(state: Run, calibration: Calibration | None, interrupted: bool) -> BayesianFit:
    burn_in, engine, obs = state.plan.burn_in(state.sweep), state.chains.engine, state.chains.engine.observations
    draws = [draw.scaled(*state.latent) if state.ordinal(draw.chain) else draw for draw in state.draws()]
    first = min(burn_in, max(len(state.history) - 1, 0))
    traces = {name: np.stack(values[first:], axis=1) for name, values in state.traces.items()}
    sigma = float(np.sqrt(np.mean(traces["sigma"] ** 2))) if traces else float(np.sqrt(state.chains.chains[0].sigma2))
    probes = np.column_stack([state.probes.rows, state.probes.cols])[:N_TRACED]
    linear = state.slopes.linear(state.chains, burn_in)
    plain = posterior = Posterior(obs.shape, tuple(draws), sigma, traces, probes, linear=linear)
    if state.blend is not None:
        posterior = state.blend.posterior(posterior)
    stretched = state.blend is not None and state.blend.weight > 1.0
    noise = sigma if calibration is None else calibration.predictive_noise(posterior)
    if state.blend is None:
        posterior = replace(posterior, noise=noise)
    else:
        posterior = state.blend.with_noise(posterior, noise, calibration is not None)
    shown = plain if stretched else posterior  # the factor is that of the mean: a single draw is better without
    stencils = next(d for d in reversed(shown.draws) if d.chain == 0).stencils(obs.empty(0), obs.empty(1))
    asked = None
    if state.asked is not None:
        if not state.asked.blocks:
            state.asked.add(state.sweep, state.predict_at(state.asked))
        asked = state.asked.combined(burn_in)
        i, j = state.asked.rows, state.asked.cols
        if stretched:
            before, after = plain.moments_of_draws(i, j), posterior.moments(i, j)
            asked = asked[0] + after[0] - before[0], np.maximum(asked[1] + after[1] - before[1], 0.0)
        elif state.blend is not None:
            asked = state.blend.mean(asked[0], i, j), state.blend.weight**2 * asked[1] + posterior.effect_spread(i, j)
    scale = _scale_of(state, calibration, posterior)
    return BayesianFit(posterior, stencils, state.history, calibration, sigma, engine.name, interrupted, asked, scale)


def _scale_of(state: Run, calibration: Calibration | None, posterior: Posterior) -> Scale | None:
    """Return the scale on which predictions are to be read: the calibrated one, or the sampler's with all spread."""
    own = state.chains.chains[0].hyper.scale
    if own is None or (calibration is not None and calibration.scale is not None):
        return None if calibration is None else calibration.scale
    spread = float(posterior.moments(state.probes.rows, state.probes.cols)[1].mean())
    return replace(own, spread=float(np.sqrt(posterior.noise**2 + spread)))


def _nearest_of_a_kind(chains: Chains, warm: Sequence[Chain], sigma2: float) -> list[Chain]:
    """Return for each chain one of those that were calibrated: of the same kind, and with the nearest noise levels."""
    near = sorted(warm, key=lambda chain: abs(np.log(chain.level / sigma2)))
    kinds = {kind: [chain for chain in near if chain.ordinal == kind] for kind in (False, True)}
    return [kinds[chain.ordinal].pop(0) for chain in chains.chains]


def _most_draws(plan: FitPlan, calibration: Calibration | None) -> int:
    """Return how many draws to keep at most: where that is known, as many as predict as well as all."""
    needed = plan.run.max_draws if calibration is None else calibration.draws_needed()
    return min(plan.run.max_draws, max(needed, FEWEST_DRAWS * plan.n_chains))


def fit_constant(observations: Observations, asked: Cells | None = None) -> BayesianFit:
    """Return a posterior of a single draw without stencils, for data that has one value only: without any spread."""
    one = StencilSum(observations.shape, observations.mean(), (), observations.empty(0), observations.empty(1))
    posterior = Posterior(one.shape, (Draw.of(0, 0, one),), 0.0)
    predicted = None if asked is None else posterior.moments(*asked)
    return BayesianFit(posterior, one, [], None, 0.0, "cpu", False, predicted)


def without_stencils(
    observations: Observations, blend: Blend, calibration: Calibration, engine: str, asked: Cells | None
) -> BayesianFit:
    """Return the additive model as a posterior of a single draw without stencils."""
    one = blend.without_stencils((observations.empty(0), observations.empty(1)))
    posterior = Posterior(one.shape, (Draw.of(0, 0, one),), calibration.noise, effects=blend.effects)
    predicted = None if asked is None else posterior.moments(*asked)
    sigma = float(np.sqrt(calibration.sigma2))
    return BayesianFit(posterior, one, [], calibration, sigma, engine, False, predicted, calibration.scale)


def _chains(
    observations: Observations, plan: FitPlan, blocks: Blocks, sigma2: float, n_chains: int | None = None
) -> Chains:
    return Chains(
        observations, plan.engine, plan.hyper, n_chains or plan.n_chains, sigma2, plan.tau2, plan.n_threads,
        plan.chunk_size, plan.n_shards, blocks,
    )  # fmt: skip


def _features(observations: Observations, plan: FitPlan, resume: str | Path | None) -> Blocks:
    """Return all features that the plan has, or those of a checkpoint."""
    rows, columns = plan.given
    if resume is not None:
        return resuming.blocks_of(resume, *checkpoint.read(resume), rows, columns)
    implicit = None if plan.n_features == 0 else pattern_features(observations, plan.n_features, plan.hyper.seed)
    return Blocks(implicit, columns, rows)


def _calibrate(
    split: tuple[Observations, Observations], plan: FitPlan, features: Blocks, began: float, watch: Watcher | None
) -> tuple[Calibration, list[Chain], End]:
    """Calibrate the noise; return the result, the chains used, and how the calibration ended."""
    part, held_out = split
    engine = "auto" if plan.engine == "dense" else plan.engine  # a split has missing cells
    additive = fit_additive(part, plan.given) if plan.additive else None
    chains = _chains(part, replace(plan, engine=engine), features, plan.sigma2, max(N_CHAINS, plan.n_chains))
    bounds = LOWEST * plan.sigma2, plan.hyper.sigma_max**2
    last, stopped = plan.sigma2, False

    def after_sweep(sweep: int, n_sweeps: int, sigma2: float) -> bool:
        nonlocal last, stopped
        last = sigma2
        stopped = watch is not None and watch(_report(chains.chains[0], sweep, n_sweeps, began))
        return stopped

    try:
        calibration = calibrate(
            chains, held_out, plan.n_chains, bounds, after_sweep, stage_sweeps(plan.run.most_sweeps), additive,
            plan.weights,
        )  # fmt: skip
        return calibration, chains.chains, "stopped" if stopped else "done"
    except KeyboardInterrupt:
        return Calibration(last, float(np.sqrt(last)), last), chains.chains, "interrupted"
    finally:
        chains.close()


def _report(chain: Chain, sweep: int, n_sweeps: int, began: float) -> Sweep:
    rmse, sigma = float(np.sqrt(chain.mean_squared_error())), float(np.sqrt(chain.sigma2))
    moved, seconds = chain.moved / chain.n_labels, perf_counter() - began
    return Sweep("calibrating", sweep, n_sweeps, rmse, sigma, chain.occupied(), moved, seconds)
