"""A run of the sampler: sweeps of all chains, their recorded results, and the stopping rule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.fit.blend import Blend
from accams.fit.chains import Chains
from accams.fit.gibbs import Chain
from accams.fit.keys import Purpose, generator
from accams.fit.linear import SlopeMeans
from accams.fit.running import Keeper, Running
from accams.fit.shares import row_shares
from accams.model.posterior import Draw
from accams.model.scale import Scale

Cells = tuple[NDArray[np.int64], NDArray[np.int64]]
N_PROBES = 2000  # cells whose running mean shows whether the run has converged
N_TRACED = 64  # probes that are traced sweep by sweep
FEWEST_SWEEPS = 100
CHECK_EVERY = 10
HOLD = 25  # sweeps in which row weights are rescaled to mean one, if the burn-in is not given
BURN_IN = 0.25  # fraction of the sweeps
LOOK_BACK = 0.8  # the running mean is compared with that at this fraction of the sweeps


@dataclass(frozen=True)
class RunPlan:
    """Length of a run and draws to keep."""

    n_sweeps: int | None = None  # None runs until the running mean has converged, at most `most_sweeps`
    most_sweeps: int = 500
    n_burn_in: int | None = None  # None takes the first quarter
    thin: int | None = None  # sweeps from one kept draw to the next; None adapts it to keep at most `max_draws` in all
    max_draws: int = 600
    # the running mean has converged when the last fifth of the sweeps changed it by less than this fraction of the mean
    # squared error, which is about the relative gain of running for a quarter longer
    tol: float = 1e-4
    patience: int = 50  # with validation data, the run ends after this many sweeps without a lower validation error
    rao_blackwell: bool = False  # whether draws hold the conditional probabilities of row labels
    # backfitting: each sweep fits the next stencil by this many visits; None visits all stencils in each sweep
    visits: int | None = None

    def burn_in(self, sweeps: int) -> int:
        return int(BURN_IN * sweeps) if self.n_burn_in is None else self.n_burn_in


@dataclass(frozen=True)
class Sweep:
    """Progress of a Bayesian fit, passed to callbacks after each sweep of all chains.

    Attributes
    ----------
    phase : {"calibrating", "sampling"}
    sweep, n_sweeps : int, int or None
        Number of this sweep, counted from 1; sweeps planned or, where the run ends by convergence, expected so far.
    rmse : float
        Training error of the current draws, averaged over chains.
    sigma : float
        Noise level of the sampler.
    occupied : float
        Occupied row and column clusters per stencil, averaged over stencils and chains.
    moved : float
        Fraction of all labels that changed.
    seconds : float
        Time since the fit began; NaN where the history comes from a file, which keeps no times.
    change : float or None
        Change of the running mean, as a fraction of the mean squared error; the run ends below `tol`.
    validation_rmse, validation_rmse_draw : float or None
        Validation error of the running mean and of the current draws, with validation data.
    visits : array of shape (n_stencils, 5) or None
        Statistics of each stencil, averaged over chains; columns are the fields of `accams.fit.backfit.Visit`.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import BayesianACCAMS
    >>> sweeps = []
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> model = BayesianACCAMS(2, 2, n_chains=2, n_sweeps=8, callbacks=[sweeps.append], verbose=False).fit(matrix)
    >>> sweeps[-1].phase, sweeps[-1].sweep, sweeps[-1].n_sweeps
    ('sampling', 8, 8)
    """

    phase: Literal["calibrating", "sampling"]
    sweep: int
    n_sweeps: int | None
    rmse: float
    sigma: float
    occupied: float
    moved: float
    seconds: float = field(compare=False)
    change: float | None = None
    validation_rmse: float | None = None
    validation_rmse_draw: float | None = None
    visits: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)


@dataclass
class RunningValidation:
    """Validation data and the running mean of the predictions at its cells."""

    running: Running
    values: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    clip: tuple[float, float] = (-np.inf, np.inf)
    scale: Scale | None = None  # on which predictions are to be read

    def rmse(self, prediction: NDArray[np.float64]) -> float:
        expected = prediction if self.scale is None else self.scale.mean(prediction)
        error = np.clip(expected, *self.clip) - self.values
        return float(np.sqrt(np.average(error * error, weights=self.weights)))


class Outcome(NamedTuple):
    """What is recorded of one chain after a sweep."""

    predictions: list[NDArray[np.float64]]  # at each set of cells asked for
    draw: Draw | None
    statistics: tuple[float, float, float, float, float]


@dataclass
class Run:
    """State of a run between two sweeps: the content of a checkpoint."""

    chains: Chains
    plan: RunPlan
    scale: float  # approximate mean squared error of predictions: the unit of changes of the running mean
    probes: Running  # cells by which convergence is judged
    keeper: Keeper
    asked: Running | None = None  # cells whose predictions the user asked for (`predict_at`)
    validation: RunningValidation | None = None
    slopes: SlopeMeans = field(default_factory=SlopeMeans)
    sweep: int = 0
    traces: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    past: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)  # sweeps, running means at the probes
    history: list[Sweep] = field(default_factory=list)
    best: tuple[float, int] = (np.inf, 0)  # lowest validation error and its sweep
    began: float = field(default_factory=perf_counter)
    settled: bool = False
    blend: Blend | None = None  # with the additive model
    latent: tuple[float, float] = (0.0, 1.0)  # shift and factor of what ordinal chains predict

    def read_on(self, scale: Scale | None, latent: tuple[float, float]) -> None:
        """Set the scale of ordinal observations, and the shift and factor that bring ordinal chains onto it."""
        self.latent = latent
        if self.validation is not None:
            self.validation.scale = scale

    def ordinal(self, chain: int) -> bool:
        """Return whether a chain takes observations as ordinal."""
        return self.chains.chains[chain].ordinal

    def predict_at(self, cells: Running) -> NDArray[np.float64]:
        """Return the current predictions of all chains (chain, cell), on one scale."""
        return np.stack(self.chains.each(lambda chain: self._predict(chain, cells)))

    def _predict(self, chain: Chain, cells: Running) -> NDArray[np.float64]:
        f = chain.state.predict_at(cells.rows, cells.cols)
        return self.latent[0] + self.latent[1] * f if chain.ordinal else f

    def step(self) -> Sweep:
        plan, chains = self.plan, self.chains
        # Rescaling row weights to mean one is not a Gibbs step. With a fixed sigma^2 it is part of its calibration and
        # ends with the burn-in; with a sampled one it must not happen.
        hold = self.sweep < (HOLD if plan.n_burn_in is None else plan.n_burn_in)
        for chain in chains.chains:
            chain.normalise_rows = hold and not chain.hyper.sample_sigma
        recorded = plan.n_burn_in is None or self.sweep >= plan.n_burn_in
        watched = self._watched() if recorded else [self.probes]
        wanted = recorded and self.keeper.wants(self.sweep)

        def outcome(chain: Chain) -> Outcome:
            predictions = [self._predict(chain, cells) for cells in watched]
            draw = _draw(chain, self.sweep, plan.rao_blackwell) if wanted else None
            return Outcome(predictions, draw, _statistics(chain))

        outcomes: list[Outcome]
        if plan.visits is None:
            outcomes = chains.run_sweep(outcome)
        else:
            outcomes = chains.backfit(self.sweep, plan.visits, outcome)
        predictions = [np.stack(each) for each in zip(*(o.predictions for o in outcomes), strict=True)]
        if recorded:
            for cells, values in zip(watched, predictions, strict=True):
                cells.add(self.sweep, values)
            self.slopes.add(self.sweep, chains.chains, self.latent[1])
        if wanted:
            self.keeper.add([o.draw for o in outcomes if o.draw is not None], plan.burn_in(self.sweep + 1))
        self.sweep += 1
        report = self._report([o.statistics for o in outcomes], predictions, recorded)
        self.history.append(report)
        return report

    @property
    def done(self) -> bool:
        if self.sweep >= (self.plan.n_sweeps or self.plan.most_sweeps):
            return True
        since = max(self.best[1], self.plan.n_burn_in or 0)
        stale = self.validation is not None and self.plan.visits is None and self.sweep - since >= self.plan.patience
        return self.settled or stale

    def draws(self) -> list[Draw]:
        """Return the kept draws after the burn-in, or the current state if there are none."""
        kept = self.keeper.since(self.plan.burn_in(self.sweep)) or self._current_draws()
        return [draw.settled() for draw in kept]

    def _current_draws(self) -> list[Draw]:
        return self.chains.each(lambda chain: _draw(chain, self.sweep, self.plan.rao_blackwell))

    def _watched(self) -> list[Running]:
        """Return the sets of cells whose predictions are recorded: first the probes, last those of validation data."""
        validation = None if self.validation is None else self.validation.running
        return [self.probes, *(cells for cells in (self.asked, validation) if cells is not None)]

    def _report(
        self, statistics: list[tuple[float, ...]], predictions: list[NDArray[np.float64]], recorded: bool
    ) -> Sweep:
        chains = self.chains.chains
        sigma, tau, log_joint, occupied, error = np.array(statistics).T
        probes = predictions[0][:, :N_TRACED]
        traced = {"sigma": sigma, "tau": tau, "log_joint": log_joint, "occupied": occupied, "probes": probes}
        for name, values in traced.items():
            self.traces.setdefault(name, []).append(values)
        validated = recorded and self.validation is not None
        validation_rmse, validation_rmse_draw = self._validate(predictions[-1]) if validated else (None, None)
        change = self._check()
        return Sweep(
            "sampling", self.sweep, self.plan.n_sweeps or self._expected(change),
            rmse=float(np.sqrt(np.mean(error))),
            sigma=float(np.sqrt(np.mean(sigma**2))),
            occupied=float(np.mean(occupied)),
            moved=float(np.mean([chain.moved for chain in chains])) / chains[0].n_labels,
            seconds=perf_counter() - self.began, change=change,
            validation_rmse=validation_rmse, validation_rmse_draw=validation_rmse_draw,
            visits=np.mean([chain.visits for chain in chains], axis=0),
        )  # fmt: skip

    def _expected(self, change: float | None) -> int | None:
        """Return the expected length of the run, extrapolating `change` as inversely proportional to the sweeps."""
        if change is None or self.plan.tol == 0.0:
            return None
        return int(min(max(self.sweep * change / self.plan.tol, self.sweep, FEWEST_SWEEPS), self.plan.most_sweeps))

    def _check(self) -> float | None:
        """Return the change of the running mean over the last fifth of the sweeps, and update `settled`."""
        if not self.probes.blocks or self.sweep % CHECK_EVERY:
            return self.history[-1].change if self.history else None
        mean, _ = self.probes.combined(self.plan.burn_in(self.sweep))
        earlier = [before for sweep, before in self.past if sweep <= LOOK_BACK * self.sweep]
        self.past.append((self.sweep, mean))
        if not earlier:
            return None
        self.past = [(sweep, old) for sweep, old in self.past if sweep > LOOK_BACK * self.sweep - CHECK_EVERY]
        weight = 1.0 if self.blend is None else self.blend.weight
        change = weight**2 * float(np.mean((mean - earlier[-1]) ** 2) / self.scale)
        self.settle(change)
        return change

    def settle(self, change: float | None) -> None:
        """Set `settled`: whether this change is small enough to end the run."""
        little = change is not None and change < self.plan.tol
        self.settled = little and self.plan.n_sweeps is None and self.sweep >= FEWEST_SWEEPS

    def _validate(self, predictions: NDArray[np.float64]) -> tuple[float, float]:
        """Return the validation error of the running mean and of the current predictions, and update `best`."""
        assert self.validation is not None
        running = self.validation.running
        mean, _ = running.combined(self.plan.burn_in(self.sweep))
        error = self.validation.rmse(self._blended(mean, running))
        if error < self.best[0]:
            self.best = error, self.sweep
        return error, float(np.mean([self.validation.rmse(self._blended(f, running)) for f in predictions]))

    def _blended(self, prediction: NDArray[np.float64], at: Running) -> NDArray[np.float64]:
        return prediction if self.blend is None else self.blend.mean(prediction, at.rows, at.cols)


def make_probes(observations: Observations, seed: int, size: int = N_PROBES) -> Running:
    """Pair rows and columns of random observations: cells with the activity of those that users ask for."""
    random = generator(seed, Purpose.PROBES)
    size = min(size, observations.nnz)
    one, other = random.integers(observations.nnz, size=(2, size))
    rows = np.searchsorted(observations.row_starts, one, side="right") - 1
    probes = Running(rows.astype(np.int64), observations.cols[other].astype(np.int64))
    observations.release_pages()
    return probes


def run(state: Run, watch: Callable[[Run, Sweep], bool] | None = None) -> bool:
    """Sweep until done or until `watch` returns True; return False if a keyboard interrupt ended the run."""
    try:
        while not state.done:
            report = state.step()
            if watch is not None and watch(state, report):
                break
    except KeyboardInterrupt:
        return False
    return True


def _draw(chain: Chain, sweep: int, rao_blackwell: bool) -> Draw:
    shares = row_shares(chain) if rao_blackwell else None
    row_noise = None
    if chain.state.row_weights is not None:
        mass, w = chain.state.engine.row_mass, chain.row_weights()
        row_noise = (mass @ w / mass.sum() / w).astype(np.float32)
    return Draw(chain.number, sweep, chain.state.codes(), shares, row_noise)


def _statistics(chain: Chain) -> tuple[float, float, float, float, float]:
    """Return sigma, tau, log joint density, occupied clusters per stencil, and mean squared training error.

    The error of an ordinal chain is that of its latent values.
    """
    tau = float(np.sqrt(np.mean(chain.tau2))) if len(chain.tau2) else 0.0
    return float(np.sqrt(chain.sigma2)), tau, chain.log_joint(), chain.occupied(), chain.mean_squared_error()
