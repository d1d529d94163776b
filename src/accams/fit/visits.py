"""What a visit does to a stencil, in numbers that do not depend on how clusters are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import State
from accams.engine.rules import Template
from accams.engine.tables import Tables, gain_of


class Visit(NamedTuple):
    """One stencil after a visit.

    Attributes
    ----------
    row_entropy, col_entropy : float
        Of its labels, in bits each: 0 when all are the same, log2 k when all k clusters are equally large.
    row_changed, col_changed : float
        Share of the labels that an update changed, on average over the visit.
    gain : float
        By how much the stencil lowers the mean squared error, the others being as they are (rows that have a noise of
        their own count by their precision).
    """

    row_entropy: float
    col_entropy: float
    row_changed: float
    col_changed: float
    gain: float


def entropy(counts: NDArray[Any]) -> float:
    """Bits per label where so many have each.

    Examples
    --------
    >>> entropy(np.array([5, 5])), entropy(np.array([7, 0])), entropy(np.array([0]))
    (1.0, 0.0, 0.0)
    """
    there = counts[counts > 0]
    return float(log2(there.sum()) - there @ np.log2(there) / there.sum()) if there.size > 1 else 0.0


def visit_of(counts: Sequence[NDArray[Any]], changed: Sequence[float], gain: float) -> Visit:
    """By how many rows and columns have each label, and the shares of them that changed."""
    return Visit(entropy(counts[0]), entropy(counts[1]), changed[0], changed[1], gain)


def gain(state: State, tables: Tables, T: Template) -> float:
    """By how much a stencil with these tables and this template lowers the squared error."""
    return gain_of(tables, T) * state.weight_unit * state.engine.grid.step**2
