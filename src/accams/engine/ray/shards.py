"""Rows and columns of a matrix, cut into shards of about equal size for the workers of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data import build, store
from accams.data.observations import Observations
from accams.engine.grid import Grid
from accams.engine.passes import Features
from accams.errors import InputError
from accams.threads import Range


class AxisShard(NamedTuple):
    """Rows (or columns) first .. last: row first + i has the partners ``partners[starts[i]:starts[i + 1]]``."""

    axis: int
    first: int
    last: int
    starts: NDArray[np.int64]
    partners: NDArray[np.unsignedinteger[Any]]
    values: NDArray[np.floating[Any]]
    weights: NDArray[np.int32] | None


@dataclass(frozen=True)
class MatrixInfo:
    """Properties of the whole matrix that a worker needs besides its shard."""

    shape: tuple[int, int]
    grid: Grid
    weight_step: float  # of the weights of the observations
    uniform: bool
    features: Features = (None, None)


Load = Callable[[], AxisShard]


def cuts(starts: NDArray[np.int64], n_shards: int) -> list[Range]:
    """Return `n_shards` ranges of rows with about equally many entries (the last ones may be empty)."""
    entries = int(starts[-1])
    inner = np.searchsorted(starts, np.linspace(0, entries, n_shards + 1)[1:-1])
    return list(pairwise([0, *inner.tolist(), len(starts) - 1]))


def from_store(path: Path, stamp: int, axis: int, first: int, last: int) -> AxisShard:
    """Map a shard of a store from its files; the store must be the one with this stamp."""
    if not store.is_store(path) and path.name.startswith("."):
        raise InputError(
            f"the training part of the store ({path}) is not visible from {gethostname()}: put the store on a writable "
            "disk that all machines share, or hold nothing out (noise='sampled' or a number, no early stopping, no "
            "test set)"
        )
    if not store.is_store(path):
        raise InputError(
            f"the store {path} is not visible from {gethostname()}: put it where every machine of the cluster "
            "finds it under this path (a shared disk, or a copy on each)"
        )
    if store.stamp(path) != stamp:
        raise InputError(
            f"the store {path} on {gethostname()} differs from the one where the fit was started: copy it again"
        )
    starts, partners, values, weights = store.order(path, axis, first, last)
    return _shard(axis, (first, last), starts, partners, values, weights)


def loaders(observations: Observations, ranges: tuple[list[Range], list[Range]]) -> list[tuple[Load, Load]]:
    """Return, for every worker, functions that load its rows and its columns; small to send if they read a store."""
    obs, by_axis = observations, list[list[Load]]()
    for axis, parts in enumerate(ranges):
        if obs.store is not None:
            stamp = store.stamp(obs.store)
            by_axis.append([partial(from_store, obs.store, stamp, axis, *range_) for range_ in parts])
        else:
            by_axis.append([partial(AxisShard, *shard) for shard in _from_memory(obs, axis, parts)])
    return list(zip(*by_axis, strict=True))


def _from_memory(obs: Observations, axis: int, ranges: list[Range]) -> list[AxisShard]:
    starts, partners = ((obs.row_starts, obs.cols), (obs.col_starts, obs.rows))[axis]
    values, weights = obs.stored_values, obs.stored_weights
    if axis == 1:
        pattern = obs.row_starts, obs.cols, obs.shape[1]
        values = build.to_column_order(*pattern, values)
        weights = None if weights is None else build.to_column_order(*pattern, weights)
    return [_shard(axis, range_, starts, partners, values, weights) for range_ in ranges]


def _shard(axis: int, range_: Range, starts: Any, partners: Any, values: Any, weights: Any) -> AxisShard:
    first, last = range_
    lo, hi = int(starts[first]), int(starts[last])
    own_starts = np.asarray(starts[first : last + 1]) - lo
    own_weights = None if weights is None else weights[lo:hi]
    return AxisShard(axis, first, last, own_starts, partners[lo:hi], values[lo:hi], own_weights)
