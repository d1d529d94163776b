"""Labels that take more than a pass: first ones, those of refilled clusters, and those drawn one after another."""

import numpy as np
from numpy.typing import NDArray

from accams.engine import kmeans
from accams.engine.passes import Passes, Random
from accams.engine.rules import Collapsed, Nearest
from accams.engine.tables import Table, Tables, own_first
from accams.kernels import assign, sample
from accams.model.stencils import Labels, label_type

MOST_CLUSTERS = 255  # of the collapsed sampler, where nothing else bounds them: a label stays one byte


def seed(
    state: Passes, axis: int, init: kmeans.Init, generator: Random, effort: kmeans.Effort, complete: bool
) -> Labels:
    """Return labels of an axis when the other has none yet; `complete` says that no cell is missing."""
    if state.k[axis] == 1:
        return np.zeros(state.shape[axis], np.uint8)
    if init == "random":
        return _cluster_all_coordinates(state, axis, generator, effort.max_iter)
    others = state.shape[1 - axis]  # from here on, k-means on random groups of them
    if not complete:
        state.set_labels(1 - axis, kmeans.plain_groups(others, state.k[1 - axis], generator))
        return state.k_means(axis, init, generator, effort.max_iter, effort.n_trials)
    groups = kmeans.signed_groups(others, state.shape[axis], generator)
    n, l = np.empty((2, state.shape[axis], groups.k), dtype=np.int64)
    state.gather(axis, groups.labels, n, l)
    ranges, threads, k = state.row_ranges(axis), state.engine.threads, state.k[axis]
    return kmeans.cluster(
        *groups.combine(l), k, init, generator, effort.max_iter, threads, ranges, True, effort.n_trials, effort.n_points
    )


def fill_empty_clusters(state: Passes, axis: int, rule: Nearest, T: NDArray[np.float64], counts: Table) -> int:
    """Move the row that gains most by being alone into each empty cluster (the cost can only fall); return how many."""
    n, l = state.sums(axis)
    labels, counts = state.labels[axis].copy(), counts.copy()
    gains = np.empty(len(labels))
    args = n, l, T, rule.curvature, rule.shrinkage, labels, gains
    state.engine.threads.run(assign.misfits, state.row_ranges(axis), *args)
    empty = list(np.flatnonzero(counts == 0))
    moved = 0
    for row in np.argsort(-gains, kind="stable")[: 4 * len(empty)]:
        if not empty or gains[row] <= 0:
            break
        if counts[labels[row]] > 1:
            counts[labels[row]] -= 1
            labels[row] = empty.pop(0)
            counts[labels[row]] += 1
            moved += 1
    if moved:
        state.set_labels(axis, labels)
    return moved


def _cluster_all_coordinates(state: Passes, axis: int, generator: Random, max_iter: int) -> Labels:
    """Run the paper's row clustering: k random rows as centres, then k-means over all coordinates."""
    k = min(state.k[axis], state.shape[axis])
    V = state.lines(axis, np.sort(generator.choice(state.shape[axis], size=k, replace=False)))
    labels: Labels | None = None
    for _ in range(max_iter):
        new = np.argmin(state.table_costs(axis, V), axis=1).astype(label_type(state.k[axis]))
        if labels is not None and np.array_equal(new, labels):
            break
        labels = new
        n, l = np.zeros((2, state.shape[1 - axis], k), dtype=np.int64)
        state.gather(1 - axis, labels, n, l)
        V = kmeans.means(n, l)
    assert labels is not None
    return labels


def update_collapsed(state: Passes, axis: int, rule: Collapsed, before: Tables | None = None) -> Tables:
    """Draw labels for all rows (axis 0) or columns (axis 1) in order; `before` are the tables of the present ones.

    Where the number of clusters is unbounded, the kernel stops when no empty one is left and continues with larger
    tables; at the end the occupied clusters are numbered from 0.
    """
    n, l = state.sums(axis)
    weights, labels, k = state.own_weights(axis), state.labels[axis], state.k[axis]
    known = before or state.tables(axis)
    N, L = (np.array(own_first(x, axis), order="C") for x in (known.N, known.L))
    tables = [N, L, np.bincount(labels, minlength=k)]
    row, moved = 0, 0
    while row < len(labels):
        growing = rule.growing and len(tables[0]) < MOST_CLUSTERS
        if growing:
            tables = [_with_more_clusters(x) for x in tables]
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


def _with_more_clusters(table: Table) -> Table:
    lines = min(max(2 * len(table), 8), MOST_CLUSTERS)
    return np.concatenate([table, np.zeros((lines - len(table), *table.shape[1:]), np.int64)])
