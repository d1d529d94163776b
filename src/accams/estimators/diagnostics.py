"""How a fit went: what became of each stencil in each sweep, and whether the chains agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.backfit import Step
from accams.fit.visits import Visit
from accams.model.posterior import Mixing, Posterior

Floats = NDArray[np.float64]
SIDES = ("rows", "cols")


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What happened in a fit, sweep by sweep and stencil by stencil.

    Attributes
    ----------
    entropy : array (sweep, stencil, side)
        Bits per label, of rows (side 0) and columns (1): 0 when all labels are the same, log2 k when all k clusters are
        equally large. For several chains, their mean, here and below.
    changed : array (sweep, stencil, side)
        Share of the labels that changed; 1 when ACCAMS fits a stencil for the first time.
    gain : array (sweep, stencil)
        By how much the stencil lowers the mean squared error on the training data, the others being as they are.
    rmse : array (sweep,)
        On the training data, after each sweep (of single draws).
    error : array (sweep, stencil) or None
        ACCAMS: the same after each stencil.
    sigma, validation_rmse : array (sweep,) or None
        BayesianACCAMS: the noise of the sampler; the error of the running mean where there was a validation part.
    posterior : Posterior or None
        With traces of what does not depend on how clusters are numbered.
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
        """R-hat and effective sample sizes of the traced quantities, by ArviZ (models with draws)."""
        if self.posterior is None:
            raise InputError("mixing is about chains of draws (BayesianACCAMS); this model has a single stencil sum")
        return self.posterior.mixing()

    def columns(self) -> dict[str, NDArray[Any]]:
        """One line for each sweep, stencil and side: columns for a DataFrame of any library."""
        sweeps, stencils, _ = self.entropy.shape
        sweep, stencil, side = np.indices(self.entropy.shape).reshape(3, -1)
        return {
            "sweep": sweep + 1,
            "stencil": stencil,
            "side": np.array(SIDES)[side],
            "entropy": self.entropy.ravel(),
            "changed": self.changed.ravel(),
            "gain": np.repeat(self.gain.reshape(sweeps * stencils), len(SIDES)),
        }

    def __str__(self) -> str:
        sweeps = f"{len(self.rmse)} sweep{'s' if len(self.rmse) > 1 else ''}"
        lines = [f"{sweeps}, training RMSE {self.rmse[-1]:.4f}; stencils after the last one:"]
        lines.append("stencil  entropy of rows, columns (bits)  changed rows, columns  gain")
        for l, (bits, moved, gain) in enumerate(zip(self.entropy[-1], self.changed[-1], self.gain[-1], strict=True)):
            left, middle = f"{bits[0]:.2f}, {bits[1]:.2f}", f"{moved[0]:.1%}, {moved[1]:.1%}"
            lines.append(f"{l:7}  {left:32}  {middle:21}  {gain:.4g}")
        return "\n".join(lines)


def diagnostics_of(model: Any) -> Diagnostics:
    """What `diagnostics` of a fitted model gives."""
    history = getattr(model, "history_", None)
    if not history:
        raise InputError(
            "this model does not know how it was fitted: small models and files without ids do not keep that"
        )
    if isinstance(history[0], Step):
        return _of_steps(history)
    visits = np.array([each.visits for each in history], np.float64)
    validation = np.array([np.nan if each.validation_rmse is None else each.validation_rmse for each in history])
    return Diagnostics(
        *_parts(visits),
        rmse=np.array([each.rmse for each in history]),
        sigma=np.array([each.sigma for each in history]),
        validation_rmse=None if np.isnan(validation).all() else validation,
        posterior=model.posterior_,
    )


def _of_steps(history: list[Step]) -> Diagnostics:
    """Of ACCAMS; in a last sweep that was not finished, the other stencils are as they were and have not changed."""
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
    """Entropy, change and gain, from columns as in `Visit`."""
    return visits[..., 0:2], visits[..., 2:4], visits[..., 4]
