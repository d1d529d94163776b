"""Pack the history of a fit into tensors of a model file."""

from collections.abc import Sequence, Set
from dataclasses import fields
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fit.backfit import Step, Visit
from accams.fit.run import Sweep

INTEGERS = {"sweep", "n_sweeps", "stencil", "n_stencils", "iterations"}
APART = {"phase", "visit", "visits"}
TIMES = {"seconds"}  # of files before 0.2.0: without them the same seed gives the same bytes
NULLABLE = {"n_sweeps", "change", "validation_rmse", "validation_rmse_draw"}
LARGEST = 1 << 31  # of an integer
Tensors = dict[str, NDArray[Any]]


def pack_history(history: Sequence[Step] | Sequence[Sweep]) -> tuple[list[str], Tensors]:
    """Return the names of the recorded quantities, and all of them as two arrays."""
    names = _names(type(history[0]))
    table = np.array([[getattr(x, name) for name in names] for x in history], np.float64)  # None becomes NaN
    visits = np.array([x.visit if isinstance(x, Step) else x.visits for x in history], np.float64)
    return names, {"history": _narrow(table), "visits": _narrow(visits)}


def unpack_history(names: list[str], tensors: Tensors, n_stencils: int) -> list[Step] | list[Sweep]:
    """Undo `pack_history` for a model of `n_stencils`; raise ValueError for an invalid history."""
    table, visits = tensors["history"], tensors["visits"]
    kind: type[Step] | type[Sweep] = Step if "stencil" in names else Sweep
    right = visits.ndim == (2 if kind is Step else 3) and visits.shape[-1] == len(Visit._fields)
    right = right and names in (_names(kind), _names(kind, TIMES))
    if table.shape != (len(visits), len(names)) or not len(table) or not right:
        raise ValueError("the fit history is cut short")
    if np.isinf(table).any() or np.isinf(visits).any():
        raise ValueError("invalid fit history")
    untimed: dict[str, float | None] = dict.fromkeys(TIMES, nan)
    lines = [untimed | {name: _read(name, x) for name, x in zip(names, line, strict=True)} for line in table.tolist()]
    if kind is Step:
        steps = [Step(**line, visit=Visit(*x)) for line, x in zip(lines, visits.tolist(), strict=True)]  # type: ignore[arg-type]
        _check_steps(steps, n_stencils)
        return steps
    if visits.shape[1] != n_stencils:
        raise ValueError("the fit history is of another model")
    wide = visits.astype(np.float64)
    return [Sweep("sampling", **line, visits=x) for line, x in zip(lines, wide, strict=True)]  # type: ignore[arg-type]


def _check_steps(steps: list[Step], n_stencils: int) -> None:
    """Raise ValueError unless stencils follow one another, sweep after sweep."""
    width = steps[0].n_stencils
    for p, step in enumerate(steps):
        if step.n_stencils != width or (step.sweep, step.stencil) != divmod(p, max(width, 1)):
            raise ValueError("invalid fit history")
    if min(len(steps), width) != n_stencils:
        raise ValueError("the fit history is of another model")


def _names(kind: type[Step] | type[Sweep], more: Set[str] = frozenset()) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in (APART | TIMES) - more]


def _narrow(x: NDArray[np.float64]) -> NDArray[Any]:
    """Convert to single precision, which is enough, unless numbers are too large for it."""
    largest = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    return x.astype(np.float32) if largest < np.finfo(np.float32).max else x


def _read(name: str, x: float) -> float | int | None:
    if np.isnan(x):
        if name not in NULLABLE:
            raise ValueError(f"the fit history lacks {name}")
        return None
    if name not in INTEGERS:
        return x
    if not (0 <= x < LARGEST and x == int(x)):
        raise ValueError(f"the fit history has {name} {x:g}")
    return int(x)
