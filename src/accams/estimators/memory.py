"""Memory of a fit: refuse one that would not fit, or stream it from disk."""

import os
from dataclasses import replace
from typing import Any

from accams.data.observations import Observations
from accams.engine.memory import DISK_AHEAD, DISK_BLOCK, memory_estimate
from accams.errors import InputError
from accams.fit.bayesian import FitPlan
from accams.fit.calibrate import N_CHAINS, held_out_size
from accams.fit.early import MOST as MOST_VALIDATION
from accams.fit.pattern import MOST_TELLING, tells_anything
from accams.fit.running import BLOCKS
from accams.settings.bayesian import BayesianSettings, Schedule
from accams.threads import available_cores


def within_memory(settings: BayesianSettings, observations: Observations, plan: FitPlan) -> FitPlan:
    """Raise InputError before anything is allocated if a fit would exceed `memory_limit` or the machine's memory.

    A store that does not fit is streamed, if that does.
    """
    limit, whose = (settings.schedule or Schedule()).memory_limit, "memory_limit allows"
    if limit is None:
        limit, whose = memory_of_machine(), "this machine has"
    shapes, calibrated = plan.hyper.shapes, plan.calibrated
    k = max(k for k, _ in shapes), max(k for _, k in shapes)
    weights = observations.stored_weights is not None
    at_once = max(settings.n_chains, N_CHAINS) if calibrated else settings.n_chains
    if settings.engine == "ray" and observations.store is not None:
        return plan  # ratings are not on this machine
    if settings.engine in ("cuda", "ray"):  # residuals are on the GPU, whose engine counts them, or with the workers
        at_once = 1
    fixed: dict[str, Any] = {"n_stencils": len(shapes), "n_clusters": k, "weights": weights}
    fixed |= {"ordinal": plan.hyper.scale is not None, "n_features": features_at_most(plan)}

    def estimates() -> list[int]:
        return [memory_estimate(observations.shape, observations.nnz, n_chains=n, **fixed) for n in (1, at_once)]

    sizes = estimates()
    if sizes[1] > limit and plan.n_features is None and not tells_anything(observations, plan.hyper.seed):
        plan, fixed["n_features"] = replace(plan, n_features=0), 0
        sizes = estimates()
    on_disk = observations.store is not None and observations.blank_weight is None
    if sizes[1] > limit and settings.engine in ("auto", "disk") and on_disk:
        streamed = _streamed(settings, observations, plan, at_once, k)
        if streamed > limit:
            advice = "use fewer chains"
            if calibrated and settings.n_chains <= N_CHAINS:
                advice = f"set noise='sampled' or a number (calibration needs {N_CHAINS} chains)"
            raise InputError(
                f"this fit needs about {streamed / 1e9:.2g} GB even if the ratings stay on disk, more than {whose} "
                f"({limit / 1e9:.2g} GB): {advice}"
            )
        return replace(plan, engine="disk")
    if sizes[1] > limit:
        per_chain = max((sizes[1] - sizes[0]) / max(at_once - 1, 1), 1.0)
        fits = int(1 + (limit - sizes[0]) // per_chain) if sizes[0] <= limit else 0
        advice = f"set n_chains={fits}" if fits >= 1 else "even one chain does not fit"
        if calibrated and 1 <= fits < N_CHAINS:
            advice += f" and noise='sampled' or a number (calibration needs {N_CHAINS} chains)"
        raise InputError(
            f"{at_once} chains need about {sizes[1] / 1e9:.2g} GB, more than {whose} ({limit / 1e9:.2g} GB): {advice}"
        )
    return plan


def features_at_most(plan: FitPlan) -> int:
    """Return how many features rows may have slopes on."""
    given: int = sum(x.shape[1] for x in plan.given if x is not None)
    return given + (MOST_TELLING if plan.n_features is None else plan.n_features)


def _streamed(
    settings: BayesianSettings, observations: Observations, plan: FitPlan, n_chains: int, k: tuple[int, int]
) -> int:
    """Bytes of a fit whose ratings stay on disk."""
    shape, nnz = observations.shape, observations.nnz
    held = held_out_size(nnz) * (48 + 40 * n_chains) if plan.calibrated else 0  # places, and what chains say of them
    if settings.early_stopping:
        watched = min(int((settings.schedule or Schedule()).validation_fraction * nnz), MOST_VALIDATION)
        held += watched * (64 + 16 * (BLOCKS + 2) * settings.n_chains)
    longest = max(int(observations.counts(axis).max()) for axis in (0, 1))
    room = n_chains * (max(1, available_cores() // n_chains) + DISK_AHEAD)
    rows = 12 * max(0, longest - DISK_BLOCK) * room  # a row is read as a whole
    need = memory_estimate(
        shape, nnz, n_stencils=len(plan.hyper.shapes), n_clusters=k, n_chains=n_chains, engine="disk",
        ordinal=plan.hyper.scale is not None, n_features=features_at_most(plan),
    )  # fmt: skip
    return need + rows + held


def memory_of_machine() -> float:
    """Bytes of memory, or no bound where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
