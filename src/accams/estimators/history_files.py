"""How a fit went, as tensors of a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fit.backfit import Step
from accams.fit.sample import Sweep
from accams.fit.visits import Visit

WHOLE = {"sweep", "n_sweeps", "stencil", "n_stencils", "iterations"}
APART = {"phase", "visit", "visits"}
Tensors = dict[str, NDArray[Any]]


def pack_history(history: Sequence[Step] | Sequence[Sweep]) -> tuple[list[str], Tensors]:
    """The names of what is recorded, and all of it as two arrays."""
    names = [each.name for each in fields(history[0]) if each.name not in APART]
    table = [[_number(getattr(each, name)) for name in names] for each in history]
    visits = [each.visit if isinstance(each, Step) else each.visits for each in history]
    return names, {"history": np.array(table, np.float64), "visits": np.array(visits, np.float64)}


def unpack_history(names: list[str], tensors: Tensors) -> list[Step] | list[Sweep]:
    """The records again."""
    table, visits = tensors["history"], tensors["visits"]
    if table.shape != (len(visits), len(names)) or visits.shape[-1] != len(Visit._fields):
        raise ValueError("its history is cut short")
    lines: list[dict[str, Any]] = [
        {name: _read(name, x) for name, x in zip(names, line, strict=True)} for line in table
    ]
    if visits.ndim == 2:
        return [Step(**line, visit=Visit(*x.tolist())) for line, x in zip(lines, visits, strict=True)]
    return [Sweep("sampling", **line, visits=x) for line, x in zip(lines, visits, strict=True)]


def _number(x: float | None) -> float:
    return np.nan if x is None else x


def _read(name: str, x: np.float64) -> float | int | None:
    if np.isnan(x):
        return None
    return int(x) if name in WHOLE else float(x)
