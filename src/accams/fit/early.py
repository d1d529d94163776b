"""How many stencils? As many as lower the error on a slice of the data that the fit does not see."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.data.splits import some_positions
from accams.engine.base import State
from accams.errors import InputError
from accams.fit.backfit import Step
from accams.fit.keys import Purpose, generator

MOST = 1_000_000  # observations that are held out


@dataclass
class ValidationSet:
    """Held-out cells and their prediction, kept up to date stencil by stencil."""

    observations: Observations
    clip: tuple[float, float] | None
    prediction: NDArray[np.float64] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.rows, self.cols, self.values = self.observations.coo()
        self.weights = self.observations.weights
        self.prediction = np.zeros(0)

    def rmse_after(self, state: State) -> float:
        """The error with all stencils of `state` in; they are only ever added at the end."""
        if self.count == 0:
            self.prediction = np.full(len(self.values), state.engine.grid.offset)
        if self.count < len(state.templates):
            new = replace(state.stencils(first=self.count), offset=0.0)
            self.prediction += new.predict(self.rows, self.cols)
            self.count += len(new)
        shown = self.prediction if self.clip is None else np.clip(self.prediction, *self.clip)
        return float(np.sqrt(np.average((shown - self.values) ** 2, weights=self.weights)))


@dataclass
class EarlyStopping:
    """Watches the held-out error and stops when it has not improved for `patience` stencils."""

    held_out: ValidationSet
    patience: int
    best: float = np.inf
    n_stencils: int = 0
    history: list[Step] = field(default_factory=list)

    def begin(self, state: State) -> None:
        """Take the error of the offset alone as the one to beat."""
        self.best = self.held_out.rmse_after(state)

    def __call__(self, state: State, step: Step) -> bool:
        error = self.held_out.rmse_after(state)
        self.history.append(replace(step, validation_rmse=error))
        if error < self.best:
            self.best, self.n_stencils = error, step.stencil + 1
        return step.stencil + 1 - self.n_stencils >= self.patience


def validation_split(observations: Observations, fraction: float, seed: int) -> tuple[Observations, Observations]:
    """Training and validation part of the stored entries, at random."""
    if observations.blank_weight is not None:
        raise InputError(
            "early stopping holds out entries, but with observed zeros a held-out entry would count as a zero: "
            "set early_stopping=False and choose n_stencils yourself"
        )
    held = min(max(1, int(round(fraction * observations.nnz))), MOST)
    if held >= observations.nnz:
        raise InputError(
            f"early stopping needs observations to hold out, but there are only {observations.nnz}: "
            "set early_stopping=False"
        )
    return observations.split(some_positions(observations.nnz, held, generator(seed, Purpose.VALIDATION)))
