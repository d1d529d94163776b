"""How much memory observations and a fit need."""

from __future__ import annotations

import os
from math import log2
from typing import NamedTuple

SLOTS = 4  # beyond those of the stencils asked for
TILE = 1 << 16  # partners whose labels a GPU has at hand: as many as 16 bits can name
PIECES = 32, 512  # observations that a GPU's thread does in one go, at least and at most
THREADS = 132 * 1024  # of a large GPU
DISK_BLOCK, DISK_AHEAD = 1 << 20, 2  # observations that are read together, and blocks that wait to be worked on
PYTHON = 300 << 20  # with its libraries


def memory_estimate(
    shape: tuple[int, int],
    nnz: int,
    *,
    n_stencils: int = 13,
    n_clusters: int | tuple[int, int] = 10,
    n_chains: int = 1,
    weights: bool = False,
    value_bytes: int = 4,
    engine: str = "cpu",
    n_shards: int = 1,
) -> int:
    """Bytes that observations and a fit need at their peak (reading the data not counted).

    Per rating: a column index (2 bytes up to 65,536 columns, else 4), a row index (likewise), the value
    (2 bytes for whole and half stars, else 4), and two residuals of 4 bytes for every chain held at once; 8 more
    with weights. Per row and column: 16 bytes per cluster of the other side (for each chain that runs at once: one a
    core), the labels, and the starts.

    With ``engine="disk"``, what is in memory while ratings stay on disk: buffers, what rows and columns need, and
    Python itself. With ``engine="cuda"``, those on the GPU: 4 per rating for both indices (none of a complete matrix)
    and 8 for the residuals of each chain, 8 more with weights, and what rows and columns need. With ``engine="ray"``,
    those of each of `n_shards` workers.

    Examples
    --------
    >>> memory_estimate((480_189, 17_770), 100_480_507) / 100_480_507 < 19.5
    True
    >>> memory_estimate((480_189, 17_770), 100_480_507, n_stencils=125, engine="cuda") / 1e9 < 1.4
    True
    """
    m, n = shape
    k_rows, k_cols = (n_clusters, n_clusters) if isinstance(n_clusters, int) else n_clusters
    if engine == "cuda":
        return on_gpu(shape, nnz, n_stencils, (k_rows, k_cols), n_chains, weights).all_of_it
    if engine == "disk":
        return _streamed(shape, nnz, n_stencils, (k_rows, k_cols), n_chains)
    index = (2 if n <= 65_536 else 4) + (2 if m <= 65_536 else 4)
    if engine == "ray":
        per_rating = index + 8 * n_chains + (8 if weights else 0)
        sums = 16 * (m * k_cols + n * k_rows) * n_chains
        labels = (n_stencils + 8) * (m + n) * n_chains  # and what passes make of them
        return PYTHON + (per_rating * nnz + sums) // n_shards + labels
    per_rating = index + value_bytes + 8 * n_chains + (8 if weights else 0)
    sums = 16 * (m * k_cols + n * k_rows) * min(n_chains, os.cpu_count() or 1)
    labels = (n_stencils + 2) * (m + n) * n_chains
    return per_rating * nnz + sums + labels + 16 * (m + n + 2)


def _streamed(shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int) -> int:
    """Bytes of a process that fits ratings which stay on disk."""
    (m, n), cores = shape, os.cpu_count() or 1
    buffers = (max(1, cores // n_chains) + DISK_AHEAD) * min(nnz, DISK_BLOCK) * 12
    sums = 16 * (m * k[1] + n * k[0]) * min(n_chains, cores)
    seeding = 2 * sums + 8 * (m + n) * max(k)  # first labels
    return PYTHON + n_chains * (buffers + 3 * (n_stencils + 2) * (m + n)) + sums + seeding + 48 * (m + n + 2)


class OnGpu(NamedTuple):
    """Bytes on a GPU: what must be there, and observations, which can pass by instead."""

    fixed: int
    observations: int

    @property
    def all_of_it(self) -> int:
        return self.fixed + self.observations


def on_gpu(
    shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int, weights: bool
) -> OnGpu:
    """What a fit needs on a GPU."""
    m, n = shape
    complete, piece = nnz == m * n, piece_size(nnz)
    engine = sums = 0
    for own, partners, clusters in ((m, n, k[1]), (n, m, k[0])):
        tiles = -(-partners // TILE)
        share = nnz / max(1, own * tiles * piece)  # of a piece that a row's observations in a tile are
        pieces = int(min(nnz, own * tiles * max(1 + share / 3, share + 0.5)))
        cut = own if tiles > 1 else int(own * min(1.0, share * share))
        engine += pieces * (16 if complete else 12) + 12 * own
        sums += clusters * (pieces * (16 if weights else 8) + 16 * cut)
    slots = (n_stencils + SLOTS) * (m + n + 4 * 1024 + 16 * 32)
    per_rating = (0 if complete else 4) + (8 if weights else 0) + 8 * n_chains
    return OnGpu(engine + n_chains * (slots + sums + 28 * m), per_rating * nnz)


def piece_size(nnz: int, threads: int = THREADS) -> int:
    """Observations of a piece at most: a share of what each of so many threads has to do, so that all end together."""
    least, most = PIECES
    share = 0.75 * nnz / threads
    return min(most, max(least, 1 << int(log2(share)))) if share >= least else least
