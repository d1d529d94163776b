"""Labels drawn one after another, with as many clusters as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accams.engine.rules import Collapsed
from accams.engine.tables import Table, Tables, own_first
from accams.kernels import sample

if TYPE_CHECKING:
    from accams.engine.base import State

MOST_CLUSTERS = 255  # where there is no other bound


def update_one_by_one(state: State, axis: int, rule: Collapsed, before: Tables | None = None) -> Tables:
    """New labels for all rows (axis 0) or columns (axis 1), in their order; `before` has the tables as they are.

    Where the number of clusters is not bounded, the kernel stops when it has no empty one left and goes on with more
    room; in the end the occupied ones are numbered from 0.
    """
    n, l = state.sums(axis)
    weights, labels = state.own_weights(axis), state.labels[axis]
    known = before or state.tables(axis)
    tables = [np.array(own_first(x, axis), order="C") for x in (known.N, known.L)]
    tables.append(np.bincount(labels, minlength=state.k[axis]))
    row, moved, renumbered = 0, 0, False
    while row < len(labels):
        growing = rule.growing and len(tables[0]) < MOST_CLUSTERS
        if growing:
            tables = [_with_room(x) for x in tables]
        how = rule.kappa, rule.rho, rule.concentration, rule.crp, growing
        row, changed = sample.collapsed(row, n, l, weights, *how, *rule.key, labels, *tables)
        moved += changed
    if rule.growing:
        used = np.flatnonzero(tables[2])
        labels[:] = np.searchsorted(used, labels)
        tables = [x[used] for x in tables]
        renumbered = len(used) != state.k[axis]
        state.k = (len(used), state.k[1]) if axis == 0 else (state.k[0], len(used))
    if moved or renumbered:
        state.forget_sums(1 - axis)
    N, L, counts = tables
    return Tables(own_first(N, axis), own_first(L, axis), counts, moved)


def _with_room(table: Table) -> Table:
    """The table with lines for as many more clusters."""
    lines = min(max(2 * len(table), 8), MOST_CLUSTERS)
    return np.concatenate([table, np.zeros((lines - len(table), *table.shape[1:]), np.int64)])
