"""Rows and columns of a matrix, cut into pieces of about the same size: what each worker of a cluster holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data import store, transpose
from accams.data.observations import Observations
from accams.engine.grid import Grid
from accams.errors import InputError
from accams.threads import Range


class Piece(NamedTuple):
    """Rows (or columns) first .. last, and their observations in that order.

    Row first + i has the partners ``partners[starts[i]:starts[i + 1]]``.
    """

    axis: int
    first: int
    last: int
    starts: NDArray[np.int64]
    partners: NDArray[np.unsignedinteger[Any]]
    values: NDArray[np.floating[Any]]
    weights: NDArray[np.int32] | None


@dataclass(frozen=True)
class Whole:
    """What a worker has to know of all observations, beside its pieces."""

    shape: tuple[int, int]
    grid: Grid
    row_step: float
    weight_step: float  # of the weights of the observations
    uniform: bool


Load = Callable[[], Piece]


def cuts(starts: NDArray[np.int64], pieces: int) -> list[Range]:
    """Ranges of rows with about equally many entries, as many as asked for (the last ones may be empty)."""
    entries = int(starts[-1])
    inner = np.searchsorted(starts, np.linspace(0, entries, pieces + 1)[1:-1])
    return list(pairwise([0, *inner.tolist(), len(starts) - 1]))


def from_store(path: Path, stamp: int, axis: int, first: int, last: int) -> Piece:
    """A piece of a store, whose files are mapped; the store must be the one with this stamp."""
    if not store.is_store(path) and path.name.startswith("."):
        raise InputError(
            f"what is left of the store after holding some ratings out ({path}) is not to be seen from "
            f"{gethostname()}: put the store on a disk that all machines share and that can be written to, or hold "
            "nothing out (noise='sampled' or a number, no early stopping, --test 0)"
        )
    if not store.is_store(path):
        raise InputError(
            f"the store {path} is not to be seen from {gethostname()}: put it where every machine of the cluster "
            "finds it under this path (a shared disk, or a copy on each)"
        )
    if store.stamp(path) != stamp:
        raise InputError(
            f"the store {path} on {gethostname()} is another one than where the fit was started: copy it anew"
        )
    starts, partners, values, weights = store.order(path, axis)
    lo, hi = int(starts[first]), int(starts[last])
    here = None if weights is None else weights[lo:hi]
    return Piece(axis, first, last, np.asarray(starts[first : last + 1]) - lo, partners[lo:hi], values[lo:hi], here)


def loaders(observations: Observations, ranges: tuple[list[Range], list[Range]]) -> list[tuple[Load, Load]]:
    """For every worker, what loads its rows and its columns: small where they come from a store."""
    obs, made = observations, list[list[Load]]()
    for axis, each in enumerate(ranges):
        if obs.store is not None:
            stamp = store.stamp(obs.store)
            made.append([partial(from_store, obs.store, stamp, axis, *range_) for range_ in each])
        else:
            made.append([partial(Piece, *piece) for piece in _from_memory(obs, axis, each)])
    return list(zip(*made, strict=True))


def _from_memory(obs: Observations, axis: int, ranges: list[Range]) -> list[Piece]:
    starts, partners = ((obs.row_starts, obs.cols), (obs.col_starts, obs.rows))[axis]
    values, weights = obs.stored_values, obs.stored_weights
    if axis == 1:
        pattern = obs.row_starts, obs.cols, obs.shape[1]
        values = transpose.to_column_order(*pattern, values)
        weights = None if weights is None else transpose.to_column_order(*pattern, weights)
    pieces = list[Piece]()
    for first, last in ranges:
        lo, hi = int(starts[first]), int(starts[last])
        here = None if weights is None else weights[lo:hi]
        own = np.asarray(starts[first : last + 1]) - lo
        pieces.append(Piece(axis, first, last, own, partners[lo:hi], values[lo:hi], here))
    return pieces
