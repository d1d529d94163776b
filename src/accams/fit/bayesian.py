"""bACCAMS from observations to a posterior: calibrate the noise, then sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.fit import checkpoint
from accams.fit.calibrate import N_CHAINS, Calibration, calibrate, held_out_split
from accams.fit.chains import Chains
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.fit.run import N_TRACED, Cells, Run, RunningValidation, RunPlan, Sweep, make_probes, run
from accams.fit.running import FIRST_INTERVAL, Keeper, Running
from accams.model.posterior import Posterior
from accams.model.stencils import StencilSum

Floats = NDArray[np.float64]
Watcher = Callable[[Sweep], bool]
End = Literal["done", "stopped", "interrupted"]
LOWEST = 1e-8  # of what it begins with: the noise variance never falls below


@dataclass(frozen=True)
class FitPlan:
    """All that a fit needs beside the observations.

    Attributes
    ----------
    sigma2 : float
        Noise variance to begin with, or to hold.
    tau2 : float
        Variance of templates to begin with where it is sampled.
    calibrated : bool
        Whether the noise is calibrated on held-out observations first.
    """

    hyper: Hyperparameters
    run: RunPlan
    sigma2: float
    tau2: float
    calibrated: bool
    n_chains: int = 4
    engine: str = "auto"
    n_threads: int | None = None
    chunk_size: int | None = None
    n_shards: int | None = None


@dataclass(frozen=True)
class BayesianFit:
    """What a fit came to.

    Attributes
    ----------
    posterior : Posterior
    stencils : StencilSum
        The last draw of the first chain.
    asked : (mean, variance over draws) at the cells named beforehand, or None
    """

    posterior: Posterior
    stencils: StencilSum
    history: list[Sweep]
    calibration: Calibration | None
    sigma: float
    engine: str
    interrupted: bool
    asked: tuple[Floats, Floats] | None = None


@dataclass(frozen=True)
class Checkpointing:
    """Where and how often a run is saved, and what goes into the file beside it; a file to go on from.

    Attributes
    ----------
    path : path or None
    every : int
        Sweeps from one checkpoint to the next.
    resume : path or None
        The checkpoint to go on from.
    about : dict
        What the run belongs to: kept in the file.
    """

    path: str | Path | None = None
    every: int = 50
    resume: str | Path | None = None
    about: dict[str, Any] = field(default_factory=dict)


def fit(
    observations: Observations, plan: FitPlan, asked: Cells | None = None, validation: RunningValidation | None = None,
    watch: Watcher | None = None, saving: Checkpointing | None = None,
) -> BayesianFit:  # fmt: skip
    """Calibrate if asked, then run all chains until done, interrupted, or `watch` says so."""
    began, saving = perf_counter(), saving or Checkpointing()
    end: End
    found, warm, end = None, list[Chain](), "done"
    if plan.calibrated and saving.resume is None:
        found, warm, end = _calibrated(observations, plan, began, watch)
    chains = _chains(observations, plan, plan.sigma2 if found is None else found.sigma2)
    try:
        if found is not None and plan.run.visits is None:
            chains.continue_from(_nearest(warm, found.sigma2))
            chains.set_sigma2(found.sigma2)
        warm.clear()
        state = begin(chains, observations, plan, found, asked, validation, began)
        if saving.resume is not None:
            found = checkpoint.restore(saving.resume, state, *checkpoint.read(saving.resume))

        def told(state: Run, sweep: Sweep) -> bool:
            stop = watch is not None and watch(sweep)
            if saving.path is not None and (stop or state.done or state.sweep % saving.every == 0):
                checkpoint.save(saving.path, state, found, saving.about)
            return stop

        if end == "done" and not run(state, told):
            end = "interrupted"
        return finish(state, found, end == "interrupted")
    finally:
        chains.close()


def begin(
    chains: Chains, observations: Observations, plan: FitPlan, found: Calibration | None, asked: Cells | None,
    validation: RunningValidation | None, began: float,
) -> Run:  # fmt: skip
    """A run that has not made a sweep yet."""
    keeper = Keeper(plan.run.max_draws, plan.run.thin or FIRST_INTERVAL, plan.run.thin is not None)
    scale = plan.sigma2 if found is None else found.error
    probes = make_probes(observations, plan.hyper.seed)
    wanted = None if asked is None else Running(*asked)
    return Run(chains, plan.run, scale, probes, keeper, wanted, validation, began=began)


def finish(state: Run, found: Calibration | None, interrupted: bool) -> BayesianFit:
    """What the run has come to."""
    burn_in, engine = state.plan.burn_in(state.sweep), state.chains.engine
    draws = state.draws()
    first = 0 if state.plan.n_burn_in is None and not state.history else min(burn_in, max(len(state.history) - 1, 0))
    traces = {name: np.stack(values[first:], axis=1) for name, values in state.traces.items()}
    sigma = float(np.sqrt(np.mean(traces["sigma"] ** 2))) if traces else float(np.sqrt(state.chains.chains[0].sigma2))
    probes = np.column_stack([state.probes.rows, state.probes.cols])[:N_TRACED]
    posterior = Posterior(engine.observations.shape, tuple(draws), sigma, traces, probes)
    if found is not None:
        posterior = replace(posterior, noise=found.predictive_noise(posterior))
    obs = engine.observations
    stencils = next(d for d in reversed(draws) if d.chain == 0).stencils(obs.empty(0), obs.empty(1))
    asked = None
    if state.asked is not None:
        if not state.asked.blocks:
            state.asked.add(state.sweep, state.chains.predict_at(state.asked.rows, state.asked.cols))
        asked = state.asked.combined(burn_in)
    return BayesianFit(posterior, stencils, state.history, found, sigma, engine.name, interrupted, asked)


def _chains(observations: Observations, plan: FitPlan, sigma2: float, n_chains: int | None = None) -> Chains:
    return Chains(
        observations, plan.engine, plan.hyper, n_chains or plan.n_chains, sigma2, plan.tau2, plan.n_threads,
        plan.chunk_size, plan.n_shards,
    )  # fmt: skip


def _calibrated(
    observations: Observations, plan: FitPlan, began: float, watch: Watcher | None
) -> tuple[Calibration, list[Chain], End]:
    """The noise level, the chains that found it, and how it ended."""
    part, held_out = held_out_split(observations, plan.hyper.seed)
    engine = "auto" if plan.engine == "dense" else plan.engine  # a part has gaps
    chains = _chains(part, replace(plan, engine=engine), plan.sigma2, max(N_CHAINS, plan.n_chains))
    bounds = LOWEST * plan.sigma2, plan.hyper.sigma_max**2
    last, stopped = plan.sigma2, False

    def told(sweep: int, n_sweeps: int, sigma2: float) -> bool:
        nonlocal last, stopped
        last = sigma2
        stopped = watch is not None and watch(_report(chains, sweep, n_sweeps, began))
        return stopped

    try:
        found = calibrate(chains, held_out, plan.n_chains, bounds, told)
        return found, chains.chains, "stopped" if stopped else "done"
    except KeyboardInterrupt:
        return Calibration(last, float(np.sqrt(last)), last), chains.chains, "interrupted"
    finally:
        chains.close()


def _nearest(warm: list[Chain], sigma2: float) -> list[Chain]:
    """The chains, those whose noise was nearest first."""
    return sorted(warm, key=lambda chain: abs(np.log(chain.sigma2 / sigma2)))


def _report(chains: Chains, sweep: int, n_sweeps: int, began: float) -> Sweep:
    state = chains.chains[0].state
    labels = sum(state.shape) * max(len(state.templates), 1)
    rmse = np.sqrt(max(state.squared_error(), 0.0) / state.engine.observations.total_weight())
    used = sum(int(np.count_nonzero(each)) for both in chains.chains[0].counts for each in both)
    return Sweep(
        "calibrating",
        sweep,
        n_sweeps,
        float(rmse),
        float(np.sqrt(chains.chains[0].sigma2)),
        used / max(len(state.templates), 1),
        chains.chains[0].moved / labels,
        perf_counter() - began,
    )
