"""Statistics of a visit to a stencil that do not depend on how its clusters are numbered."""

from collections.abc import Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import State
from accams.engine.rules import Template
from accams.engine.tables import Tables, gain_of


class Visit(NamedTuple):
    """Statistics of one stencil after a visit."""

    row_entropy: float  # of its labels in bits: 0 when all are equal, log2 k when all k clusters have the same size
    col_entropy: float
    row_changed: float  # fraction of the labels changed by an update, averaged over the visit
    col_changed: float
    gain: float  # reduction of the mean squared error, given all others; row noise weights rows by their precision


def entropy(counts: NDArray[Any]) -> float:
    """Return the entropy in bits of labels with these counts.

    Examples
    --------
    >>> entropy(np.array([5, 5])), entropy(np.array([7, 0])), entropy(np.array([0]))
    (1.0, 0.0, 0.0)
    """
    used = counts[counts > 0]
    return float(log2(used.sum()) - used @ np.log2(used) / used.sum()) if used.size > 1 else 0.0


def visit_of(counts: Sequence[NDArray[Any]], changed: Sequence[float], gain: float) -> Visit:
    """Return the statistics of a visit from the counts of row and column labels and the fractions that changed."""
    return Visit(entropy(counts[0]), entropy(counts[1]), changed[0], changed[1], gain)


def gain(state: State, tables: Tables, T: Template) -> float:
    """Return the reduction of the squared error by a stencil with these tables and this template."""
    return gain_of(tables, T) * state.weight_unit * state.engine.grid.step**2
