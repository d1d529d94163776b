"""A run of the sampler: sweeps of all chains, what is kept of them, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.fit.chains import Chains
from accams.fit.gibbs import Chain
from accams.fit.keys import Purpose, generator
from accams.fit.running import Keeper, Running
from accams.model.posterior import Draw

Cells = tuple[NDArray[np.int64], NDArray[np.int64]]
N_PROBES = 2000  # cells whose running mean tells whether the run has settled
N_TRACED = 64  # of them are followed sweep by sweep
FEWEST_SWEEPS = 100
CHECK_EVERY = 10
HOLD = 25  # sweeps in which row weights are kept at one on average, where the burn-in is not given
BURN_IN = 0.25  # of the sweeps
LOOK_BACK = 0.8


@dataclass(frozen=True)
class RunPlan:
    """How long to run and what to keep.

    Attributes
    ----------
    n_sweeps : int or None
        None: until the running mean has settled, at most `most_sweeps`.
    n_burn_in : int or None
        None: the first quarter.
    thin : int or None
        Sweeps from one kept draw to the next; None: so that there are at most `max_draws` in all.
    tol : float
        The running mean has settled when the last fifth of the sweeps changed it by less than this share of the mean
        squared error: about so much, relatively, could be gained by going on for a quarter longer.
    visits : int or None
        Backfitting: each sweep fits the next stencil by so many visits; None visits all stencils in each sweep.
    patience : int
        Sweeps without a better validation error after which the run ends, where there is a validation part.
    """

    n_sweeps: int | None = None
    most_sweeps: int = 500
    n_burn_in: int | None = None
    thin: int | None = None
    max_draws: int = 400
    tol: float = 1e-4
    patience: int = 50
    rao_blackwell: bool = False
    visits: int | None = None

    def burn_in(self, sweeps: int) -> int:
        """Sweeps to leave out after so many."""
        return int(BURN_IN * sweeps) if self.n_burn_in is None else self.n_burn_in


@dataclass(frozen=True)
class Sweep:
    """What a callback is told after each sweep of all chains.

    Attributes
    ----------
    phase : "calibrating" or "sampling"
    sweep, n_sweeps : int, int or None
        Counted from 1, and how many are planned or, where the run ends by itself, expected so far.
    rmse : float
        Of the chains' present draws on the training data (mean over chains).
    sigma : float
        Noise of the sampler.
    occupied : float
        Row and column clusters in use per stencil, on average.
    moved : float
        Share of all labels that changed.
    seconds : float
        Since the fit began.
    change : float or None
        How much the running mean still moves, as a share of the mean squared error: the run ends below `tol`.
    validation_rmse, validation_rmse_draw : float or None
        Of the running mean and of the present draws, where there is a validation part.
    visits : array (stencil, 5) or None
        What became of each stencil, on average over the chains; columns as the fields of `accams.fit.visits.Visit`.
    """

    phase: Literal["calibrating", "sampling"]
    sweep: int
    n_sweeps: int | None
    rmse: float
    sigma: float
    occupied: float
    moved: float
    seconds: float
    change: float | None = None
    validation_rmse: float | None = None
    validation_rmse_draw: float | None = None
    visits: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)


@dataclass
class RunningValidation:
    """Cells whose prediction is followed, and what is known of them."""

    running: Running
    values: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    clip: tuple[float, float] = (-np.inf, np.inf)

    def rmse(self, prediction: NDArray[np.float64]) -> float:
        """Of a prediction at these cells."""
        assert self.values is not None
        error = np.clip(prediction, *self.clip) - self.values
        return float(np.sqrt(np.average(error * error, weights=self.weights)))


@dataclass
class Run:
    """The state of a run between two sweeps; a checkpoint holds exactly this.

    Attributes
    ----------
    chains, plan
    scale : float
        Mean squared error of predictions, about: on this scale are changes of the running mean judged.
    probes : Running
    asked : Running or None
        The cells that the user wants predicted.
    validation : RunningValidation or None
    """

    chains: Chains
    plan: RunPlan
    scale: float
    probes: Running
    keeper: Keeper
    asked: Running | None = None
    validation: RunningValidation | None = None
    sweep: int = 0
    traces: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    past: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    history: list[Sweep] = field(default_factory=list)
    best: tuple[float, int] = (np.inf, 0)
    began: float = field(default_factory=perf_counter)
    settled: bool = False

    def step(self) -> Sweep:
        """One sweep of all chains, recorded."""
        plan, chains = self.plan, self.chains
        hold = self.sweep < (HOLD if plan.n_burn_in is None else plan.n_burn_in)
        for chain in chains.chains:
            chain.normalise_rows = hold and not chain.hyper.sample_sigma
        if plan.visits is None:
            chains.run_sweep()
        else:
            chains.backfit(self.sweep, plan.visits)
        if plan.n_burn_in is None or self.sweep >= plan.n_burn_in:
            self._record()
        self.sweep += 1
        report = self._report()
        self.history.append(report)
        return report

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        if self.sweep >= (self.plan.n_sweeps or self.plan.most_sweeps):
            return True
        since = max(self.best[1], self.plan.n_burn_in or 0)
        stale = self.validation is not None and self.plan.visits is None and self.sweep - since >= self.plan.patience
        return self.settled or stale

    def draws(self) -> list[Draw]:
        """The draws kept, without those of the burn-in; the present state if there are none."""
        kept = self.keeper.since(self.plan.burn_in(self.sweep))
        found = kept or self.chains.each(lambda chain: _draw(chain, self.sweep, self.plan.rao_blackwell))
        return [draw.settled() for draw in found]

    def _record(self) -> None:
        watched = [self.probes, self.asked, None if self.validation is None else self.validation.running]
        for running in watched:
            if running is not None:
                running.add(self.sweep, self.chains.predict_at(running.rows, running.cols))
        if self.keeper.wants(self.sweep):
            draws = self.chains.each(lambda chain: _draw(chain, self.sweep, self.plan.rao_blackwell))
            self.keeper.add(draws, self.plan.burn_in(self.sweep + 1))

    def _report(self) -> Sweep:
        chains, plan = self.chains.chains, self.plan
        numbers = np.array(self.chains.each(_numbers))
        traced = slice(0, N_TRACED)
        now = {"sigma": numbers[:, 0], "tau": numbers[:, 1], "log_joint": numbers[:, 2], "occupied": numbers[:, 3]}
        now["probes"] = self.chains.predict_at(self.probes.rows[traced], self.probes.cols[traced])
        for name, value in now.items():
            self.traces.setdefault(name, []).append(value)
        watched = self.validation is not None and self.validation.running.blocks
        validation, of_draws = self._validate() if watched else (None, None)
        labels = sum(chains[0].state.shape) * max(len(chains[0].hyper.shapes), 1)
        change = self._check()
        return Sweep(
            "sampling",
            self.sweep,
            plan.n_sweeps or self._expected(change),
            float(np.sqrt(np.mean(numbers[:, 4]))),
            float(np.sqrt(np.mean(numbers[:, 0] ** 2))),
            float(np.mean(numbers[:, 3])),
            float(np.mean([chain.moved for chain in chains])) / labels,
            perf_counter() - self.began,
            change,
            validation,
            of_draws,
            visits=np.mean([chain.visits for chain in chains], axis=0),
        )

    def _expected(self, change: float | None) -> int | None:
        """Sweeps at which the run will end if the running mean goes on settling as one over their number."""
        if change is None or self.plan.tol == 0.0:
            return None
        return int(min(max(self.sweep * change / self.plan.tol, self.sweep, FEWEST_SWEEPS), self.plan.most_sweeps))

    def _check(self) -> float | None:
        """How much the last fifth of the sweeps moved the running mean; the run settles when that is little."""
        if not self.probes.blocks or self.sweep % CHECK_EVERY:
            return self.history[-1].change if self.history else None
        mean, _ = self.probes.combined(self.plan.burn_in(self.sweep))
        earlier = [before for sweep, before in self.past if sweep <= LOOK_BACK * self.sweep]
        self.past.append((self.sweep, mean))
        if not earlier:
            return None
        self.past = [each for each in self.past if each[0] > LOOK_BACK * self.sweep - CHECK_EVERY]
        change = float(np.mean((mean - earlier[-1]) ** 2) / self.scale)
        self.settle(change)
        return change

    def settle(self, change: float | None) -> None:
        """Note whether so little change ends the run."""
        little = change is not None and change < self.plan.tol
        self.settled = little and self.plan.n_sweeps is None and self.sweep >= FEWEST_SWEEPS

    def _validate(self) -> tuple[float, float]:
        """Validation error of the running mean and of the present draws."""
        assert self.validation is not None
        running = self.validation.running
        mean, _ = running.combined(self.plan.burn_in(self.sweep))
        error = self.validation.rmse(mean)
        if error < self.best[0]:
            self.best = error, self.sweep
        draws = self.chains.predict_at(running.rows, running.cols)
        return error, float(np.mean([self.validation.rmse(f) for f in draws]))


def make_probes(observations: Observations, seed: int, size: int = N_PROBES) -> Running:
    """Cells made of the row of one observation and the column of another: as active as what users ask for."""
    random = generator(seed, Purpose.PROBES)
    size = min(size, observations.nnz)
    one, other = random.integers(observations.nnz, size=(2, size))
    rows = np.searchsorted(observations.row_starts, one, side="right") - 1
    found = Running(rows.astype(np.int64), observations.cols[other].astype(np.int64))
    observations.release_pages()
    return found


def run(state: Run, watch: Callable[[Run, Sweep], bool] | None = None) -> bool:
    """Sweep until done or `watch` says so; False if a keyboard interrupt ended it (after whole stencils)."""
    try:
        while not state.done:
            report = state.step()
            if watch is not None and watch(state, report):
                break
    except KeyboardInterrupt:
        return False
    return True


def _draw(chain: Chain, sweep: int, probable: bool) -> Draw:
    shares = chain.row_shares() if probable else None
    weights = None
    if chain.state.row_weights is not None:
        mass, w = chain.state.engine.row_mass, chain.row_weights()
        weights = (mass @ w / mass.sum() / w).astype(np.float32)
    return Draw(chain.number, sweep, chain.state.codes(), shares, weights)


def _numbers(chain: Chain) -> tuple[float, float, float, float, float]:
    """sigma, tau, log joint, clusters in use per stencil, and mean squared error on the training data."""
    state = chain.state
    used = sum(int(np.count_nonzero(counts)) for both in chain.counts for counts in both)
    occupied = used / max(len(state.templates), 1)
    error = max(state.squared_error(), 0.0) / state.engine.observations.total_weight()
    tau = float(np.sqrt(np.mean(chain.tau2))) if len(chain.tau2) else 0.0
    return float(np.sqrt(chain.sigma2)), tau, chain.log_joint(), occupied, error
