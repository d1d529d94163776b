"""The collapsed sampler: labels drawn one row after another, with as many clusters as needed."""

import numpy as np

from accams.engine.passes import Passes
from accams.engine.rules import Collapsed
from accams.engine.tables import Table, Tables, own_first
from accams.kernels import sample

MOST_CLUSTERS = 255  # where nothing else bounds them: a label stays one byte


def update_collapsed(state: Passes, axis: int, rule: Collapsed, before: Tables | None = None) -> Tables:
    """Draw new labels for all rows (axis 0) or columns (axis 1) in order; `before` are the present tables.

    Where the number of clusters is unbounded, the kernel stops when no empty one is left and continues with larger
    tables; at the end the occupied clusters are numbered from 0.
    """
    n, l = state.sums(axis)
    weights, labels, k = state.own_weights(axis), state.labels[axis], state.k[axis]
    known = before or state.tables(axis)
    tables = [np.array(own_first(x, axis), order="C") for x in (known.N, known.L)]
    tables.append(np.bincount(labels, minlength=k))
    row, moved = 0, 0
    while row < len(labels):
        growing = rule.growing and len(tables[0]) < MOST_CLUSTERS
        if growing:
            tables = [_with_room(x) for x in tables]
        settings = rule.kappa, rule.rho, rule.concentration, rule.crp, growing
        row, changed = sample.collapsed(row, n, l, weights, *settings, *rule.key, labels, *tables)
        moved += changed
    if rule.growing:
        used = np.flatnonzero(tables[2])
        labels[:] = np.searchsorted(used, labels)
        tables = [x[used] for x in tables]
        k = len(used)
    if moved or k != state.k[axis]:
        state.k = (k, state.k[1]) if axis == 0 else (state.k[0], k)
        state.set_labels(axis, labels)
    N, L, counts = tables
    return Tables(own_first(N, axis), own_first(L, axis), counts, moved)


def _with_room(table: Table) -> Table:
    """Return the table with twice as many clusters."""
    lines = min(max(2 * len(table), 8), MOST_CLUSTERS)
    return np.concatenate([table, np.zeros((lines - len(table), *table.shape[1:]), np.int64)])
