"""Early stopping: choose the number of stencils by the error on held-out observations."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.data.splits import some_positions
from accams.engine.base import State
from accams.errors import InputError
from accams.fit.backfit import Step
from accams.fit.keys import Purpose, generator

MOST = 1_000_000  # observations held out at most


@dataclass
class ValidationSet:
    """Held-out observations and their predictions, updated as stencils are added."""

    observations: Observations
    clip: tuple[float, float] | None
    prediction: NDArray[np.float64] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.rows, self.cols, self.values = self.observations.coo()
        self.weights = self.observations.weights
        self.prediction = np.zeros(0)

    def rmse_after(self, state: State) -> float:
        """Return the error with all stencils of `state`, to which stencils may only have been appended."""
        if self.count == 0:
            self.prediction = np.full(len(self.values), state.engine.grid.offset)
        if self.count < len(state.templates):
            new = replace(state.stencils(first=self.count), offset=0.0)
            self.prediction += new.predict(self.rows, self.cols)
            self.count += len(new)
        clipped = self.prediction if self.clip is None else np.clip(self.prediction, *self.clip)
        return float(np.sqrt(np.average((clipped - self.values) ** 2, weights=self.weights)))


@dataclass
class EarlyStopping:
    """Watcher that stops when the held-out error has not improved for `patience` stencils."""

    held_out: ValidationSet
    patience: int
    best: float = np.inf
    n_stencils: int = 0
    history: list[Step] = field(default_factory=list)

    def begin(self, state: State) -> None:
        """Set the best error to that of the offset alone."""
        self.best = self.held_out.rmse_after(state)

    def __call__(self, state: State, step: Step) -> bool:
        error = self.held_out.rmse_after(state)
        self.history.append(replace(step, validation_rmse=error))
        if error < self.best:
            self.best, self.n_stencils = error, step.stencil + 1
        return step.stencil + 1 - self.n_stencils >= self.patience


def validation_split(observations: Observations, fraction: float, seed: int) -> tuple[Observations, Observations]:
    """Split the stored entries at random into a training and a validation part."""
    if observations.blank_weight is not None:
        raise InputError(
            "early stopping cannot be used with observed zeros, where held-out entries would count as zeros: "
            "set early_stopping=False and choose n_stencils yourself"
        )
    held = min(max(1, int(round(fraction * observations.nnz))), MOST)
    if held >= observations.nnz:
        raise InputError(
            f"early stopping needs observations to hold out, but there are only {observations.nnz}: "
            "set early_stopping=False"
        )
    return observations.split(some_positions(observations.nnz, held, generator(seed, Purpose.VALIDATION)))
