"""Diagnostics of a fit: each stencil in each sweep, and whether chains agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.backfit import Step, Visit
from accams.fit.run import Sweep
from accams.model.posterior import Mixing, Posterior
from accams.use.records import Records

Floats = NDArray[np.float64]
SIDES = ("rows", "cols")


class StencilDiagnostics(NamedTuple):
    """Labels of one side of a stencil after one sweep."""

    sweep: int
    stencil: int
    side: str
    entropy: float
    changed: float
    gain: float


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a fit, sweep by sweep and stencil by stencil.

    Attributes
    ----------
    entropy : array (sweep, stencil, side)
        Bits per label, of rows (side 0) and columns (1): 0 when all labels are the same, log2 k when all k clusters are
        equally large. For several chains, their mean, here and below.
    changed : array (sweep, stencil, side)
        Share of the labels that changed; 1 when ACCAMS fits a stencil for the first time.
    gain : array (sweep, stencil)
        Reduction of the mean squared error on the training data by the stencil, given the others.
    rmse : array (sweep,)
        Training RMSE after each sweep (of single draws).
    error : array (sweep, stencil) or None
        ACCAMS: training RMSE after each stencil.
    sigma, validation_rmse : array (sweep,) or None
        BayesianACCAMS: noise of the sampler; error of the running mean where there was a validation set.
    posterior : Posterior or None
        Holds the traces.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> matrix = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])
    >>> course = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(matrix).model_.diagnostics()
    >>> course.entropy.shape, bool(course.rmse[-1] < 0.01)
    ((1, 2, 2), True)
    >>> course.records()[0].side
    'rows'
    """

    entropy: Floats
    changed: Floats
    gain: Floats
    rmse: Floats
    error: Floats | None = None
    sigma: Floats | None = None
    validation_rmse: Floats | None = None
    posterior: Posterior | None = None

    def mixing(self) -> list[Mixing]:
        """Return R-hat and effective sample sizes of the traced quantities, by ArviZ (models with draws)."""
        if self.posterior is None:
            raise InputError("mixing is about chains of draws (BayesianACCAMS); this model has a single stencil sum")
        return self.posterior.mixing()

    def records(self) -> Records[StencilDiagnostics]:
        """Return one line for each sweep, stencil and side, as records with `to_pandas` and the like."""
        sweeps, stencils, _ = self.entropy.shape
        sweep, stencil, side = np.indices(self.entropy.shape).reshape(3, -1)
        columns = {
            "sweep": sweep + 1,
            "stencil": stencil,
            "side": np.array(SIDES)[side],
            "entropy": self.entropy.ravel(),
            "changed": self.changed.ravel(),
            "gain": np.repeat(self.gain.reshape(sweeps * stencils), len(SIDES)),
        }
        return Records(StencilDiagnostics, columns)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of `records` by name."""
        return self.records().to_dict()

    def __str__(self) -> str:
        sweeps = f"{len(self.rmse)} sweep{'s' if len(self.rmse) > 1 else ''}"
        lines = [f"{sweeps}, training RMSE {self.rmse[-1]:.4f}; stencils after the last one:"]
        lines.append("stencil  entropy of rows, columns (bits)  changed rows, columns  gain")
        for l, (bits, moved, gain) in enumerate(zip(self.entropy[-1], self.changed[-1], self.gain[-1], strict=True)):
            left, middle = f"{bits[0]:.2f}, {bits[1]:.2f}", f"{moved[0]:.1%}, {moved[1]:.1%}"
            lines.append(f"{l:7}  {left:32}  {middle:21}  {gain:.4g}")
        return "\n".join(lines)


def diagnostics_of(history: Sequence[Step] | Sequence[Sweep], posterior: Posterior | None) -> Diagnostics:
    if not history:
        raise InputError("this model has no record of its fit: compressed models and files without ids leave it out")
    if isinstance(history[0], Step):
        return _of_steps([step for step in history if isinstance(step, Step)])
    sweeps = [sweep for sweep in history if isinstance(sweep, Sweep)]
    visits = np.array([sweep.visits for sweep in sweeps], np.float64)
    validation = np.array([sweep.validation_rmse for sweep in sweeps], np.float64)  # None becomes NaN
    return Diagnostics(
        *_parts(visits),
        rmse=np.array([sweep.rmse for sweep in sweeps]),
        sigma=np.array([sweep.sigma for sweep in sweeps]),
        validation_rmse=None if np.isnan(validation).all() else validation,
        posterior=posterior,
    )


def _of_steps(history: list[Step]) -> Diagnostics:
    """Return the diagnostics of ACCAMS; stencils that an unfinished last sweep did not reach stay as they were."""
    sweeps, width = history[-1].sweep + 1, max(step.stencil for step in history) + 1
    visits, error = np.zeros((sweeps, width, len(Visit._fields))), np.zeros((sweeps, width))
    for step in history:
        assert step.visit is not None
        error[step.sweep, step.stencil] = step.rmse
        visits[step.sweep, step.stencil] = step.visit
    for stencil in range(history[-1].stencil + 1, width):
        error[-1, stencil] = history[-1].rmse
        visits[-1, stencil] = visits[-2, stencil]
        visits[-1, stencil, 2:4] = 0.0
    last = {step.sweep: step.rmse for step in history}
    return Diagnostics(*_parts(visits), rmse=np.array(list(last.values())), error=error)


def _parts(visits: Floats) -> tuple[Floats, Floats, Floats]:
    """Return entropy, change and gain from the columns of `Visit`."""
    return visits[..., 0:2], visits[..., 2:4], visits[..., 4]
