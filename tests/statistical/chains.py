"""Tiny problems, chains on them, and records of every sweep."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import twins
from exact import Exact, Partition, canonical, together

from accams.engine.base import State
from accams.engine.choose import make_engine
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters

PAIRS = [("blocked", "dirichlet"), ("collapsed", "dirichlet"), ("collapsed", "crp")]
ROW_WEIGHTS = np.array([0.5, 2.0, 1.0, 0.25])


@dataclass
class Problem:
    """Data of one kind (`twins.case`) on one engine, with given row weights or none."""

    kind: str
    engine: str
    row_weights: bool = False
    shape: tuple[int, int] = (4, 4)
    seed: int = 0
    data: twins.Case = field(init=False)

    def __post_init__(self) -> None:
        self.data = twins.case(self.kind, self.shape, self.seed)

    @property
    def omega(self) -> np.ndarray:
        """Return the precision of every cell in units of 1 / sigma^2."""
        return self.data.W * (ROW_WEIGHTS[: self.shape[0], None] if self.row_weights else 1.0)

    def state(self, n_stencils: int) -> State:
        """Return a new state with offset 0."""
        engine = make_engine(self.data.observations, self.engine, n_stencils, 1, offset=0.0, row_weights=True)
        state = engine.new_state()
        if self.row_weights:
            state.set_row_weights(ROW_WEIGHTS[: self.shape[0]])
        return state

    def exact(self, hyper: Hyperparameters, sigma2: float, tau2=None) -> Exact:
        """Return the posterior by enumeration."""
        return Exact(self.data.X, self.omega, hyper, sigma2, hyper.tau2 if tau2 is None else tau2)


@dataclass
class Draws:
    """Draws of a chain: labels[stencil][side] as partitions, cells of the model, variances."""

    labels: list[list[list[Partition]]]
    cells: np.ndarray
    sigma2: np.ndarray
    tau2: np.ndarray

    def pairs(self, stencil: int, side: int) -> np.ndarray:
        """Return the indicators, draw by draw, of pairs of rows (columns) in one cluster."""
        each = np.array(self.labels[stencil][side])
        first, second = np.triu_indices(each.shape[1], 1)
        return each[:, first] == each[:, second]


def pair_probabilities(every: list[Partition], p: np.ndarray) -> np.ndarray:
    """Return the probabilities that pairs of rows (columns) are in one cluster."""
    return np.array([together(x)[np.triu_indices(len(x), 1)] for x in every]).T @ p


def cells(state: State) -> np.ndarray:
    """Return the model as a vector of cells."""
    return (twins.model_ticks(state) * state.engine.grid.step).ravel()


def run(chain: Chain, sweeps: int, burn: int = 100) -> Draws:
    """Return the draws of `sweeps` sweeps after a burn-in."""
    for _ in range(burn):
        chain.run_sweep()
    state, n_stencils = chain.state, len(chain.hyper.shapes)
    out = Draws([[[], []] for _ in range(n_stencils)], np.empty((sweeps, 0)), np.empty(sweeps), np.empty((sweeps, 0)))
    models, taus = [], []
    for sweep in range(sweeps):
        chain.run_sweep()
        for stencil, sides in enumerate(out.labels):
            sides[0].append(canonical(state.row_labels[stencil]))
            sides[1].append(canonical(state.col_labels[stencil]))
        models.append(cells(state))
        taus.append(chain.tau2.copy())
        out.sigma2[sweep] = chain.sigma2
    out.cells, out.tau2 = np.array(models), np.array(taus)
    return out
