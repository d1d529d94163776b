"""How a fit went, as tensors of a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fit.backfit import Step
from accams.fit.run import Sweep
from accams.fit.visits import Visit

WHOLE = {"sweep", "n_sweeps", "stencil", "n_stencils", "iterations"}
APART = {"phase", "visit", "visits"}
MAYBE = {"n_sweeps", "change", "validation_rmse", "validation_rmse_draw"}  # not always there
LARGEST = 1 << 31  # of a whole number
Tensors = dict[str, NDArray[Any]]


def pack_history(history: Sequence[Step] | Sequence[Sweep]) -> tuple[list[str], Tensors]:
    """The names of what is recorded, and all of it as two arrays."""
    names = _names(type(history[0]))
    table = [[_number(getattr(each, name)) for name in names] for each in history]
    visits = [each.visit if isinstance(each, Step) else each.visits for each in history]
    return names, {"history": _narrow(np.array(table, np.float64)), "visits": _narrow(np.array(visits, np.float64))}


def unpack_history(names: list[str], tensors: Tensors, n_stencils: int) -> list[Step] | list[Sweep]:
    """The records again, of a model with so many stencils; refuses what no fit can have recorded."""
    table, visits = tensors["history"], tensors["visits"]
    kind: type[Step] | type[Sweep] = Step if "stencil" in names else Sweep
    right = visits.ndim == (2 if kind is Step else 3) and visits.shape[-1] == len(Visit._fields)
    if names != _names(kind) or table.shape != (len(visits), len(names)) or not len(table) or not right:
        raise ValueError("its history is cut short")
    if np.isinf(table).any() or np.isinf(visits).any():
        raise ValueError("its history makes no sense")
    lines = [{name: _read(name, x) for name, x in zip(names, line, strict=True)} for line in table.tolist()]
    if kind is Step:
        steps = [Step(**line, visit=Visit(*x)) for line, x in zip(lines, visits.tolist(), strict=True)]  # type: ignore[arg-type]
        _check_steps(steps, n_stencils)
        return steps
    if visits.shape[1] != n_stencils:
        raise ValueError("its history is of another model")
    wide = visits.astype(np.float64)
    return [Sweep("sampling", **line, visits=x) for line, x in zip(lines, wide, strict=True)]  # type: ignore[arg-type]


def _check_steps(steps: list[Step], n_stencils: int) -> None:
    """Stencils come one after another, sweep after sweep."""
    width = steps[0].n_stencils
    for p, step in enumerate(steps):
        if step.n_stencils != width or (step.sweep, step.stencil) != divmod(p, max(width, 1)):
            raise ValueError("its history makes no sense")
    if min(len(steps), width) != n_stencils:
        raise ValueError("its history is of another model")


def _names(kind: type[Step] | type[Sweep]) -> list[str]:
    return [each.name for each in fields(kind) if each.name not in APART]


def _narrow(x: NDArray[np.float64]) -> NDArray[Any]:
    """Seven digits are enough, unless numbers are too large for that."""
    there = np.abs(x[np.isfinite(x)])
    return x.astype(np.float32) if not there.size or there.max() < np.finfo(np.float32).max else x


def _number(x: float | None) -> float:
    return np.nan if x is None else x


def _read(name: str, x: float) -> float | int | None:
    if np.isnan(x):
        if name not in MAYBE:
            raise ValueError(f"its history lacks {name}")
        return None
    if name not in WHOLE:
        return x
    if not (0 <= x < LARGEST and x == int(x)):
        raise ValueError(f"its history has {name} {x:g}")
    return int(x)
