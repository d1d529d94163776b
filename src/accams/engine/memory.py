"""Estimates of the memory that a fit needs, here or on a GPU. Imports nothing of CUDA."""

import os
from math import log2
from typing import NamedTuple

DISK_BLOCK, DISK_AHEAD = 1 << 20, 2  # `disk`: observations read at a time, and blocks read ahead
PYTHON = 300 << 20  # the interpreter with its libraries
MOST_PRODUCTS = 1 << 26  # of features, kept for all chains
SLOPE_BLOCKS = 8  # of sweeps, in which slopes are added up
SLOTS = 4  # on a GPU, besides those of the stencils: two for work, two to be safe
TILE = 1 << 16  # partners per tile at most, so that a partner's place in its tile takes 16 bits
PIECES = 32, 512  # observations per piece, at least and at most: a thread's share of a pass
THREADS = 132 * 1024  # of a large GPU


def memory_estimate(
    shape: tuple[int, int], nnz: int, *, n_stencils: int = 13, n_clusters: int | tuple[int, int] = 10,
    n_chains: int = 1, weights: bool = False, value_bytes: int = 4, engine: str = "cpu", n_shards: int = 1,
    ordinal: bool = False, n_features: int = 0,
) -> int:  # fmt: skip
    """Return the bytes that observations and a fit need at their peak (reading the data not counted).

    Per rating: a column index (2 bytes up to 65,536 columns, else 4), a row index (likewise), the value
    (2 bytes for whole and half stars, else 4), and two residuals of 4 bytes for every chain held at once; 8 more
    with weights. Per row and column: 16 bytes per cluster of the other side (for each chain that runs at once: one per
    core), the labels, and the starts.

    Parameters
    ----------
    shape, nnz : (int, int), int
        Rows and columns, and the number of observations.
    n_stencils, n_clusters, n_chains : int
        As in `BayesianACCAMS`; `n_clusters` may be a pair (rows, columns).
    weights : bool, default False
        Whether observations have weights.
    value_bytes : int, default 4
        Bytes of a value as it is stored.
    engine : str, default "cpu"
        ``"disk"`` estimates the process that streams ratings from disk: buffers, rows and columns, and Python itself.
        ``"cuda"`` estimates the GPU: 4 bytes per rating for both indices (none for a complete matrix), 8 for the
        residuals of each chain, 8 more with weights, and rows and columns. ``"ray"`` estimates each worker.
    n_shards : int, default 1
        Workers of ``engine="ray"``.
    ordinal : bool, default False
        Whether the likelihood is ordinal. Latent values take 4 more bytes per rating and chain and the steps of the
        rating scale 1 byte per rating, twice as much on a GPU and on a cluster; with ``engine="disk"`` they are on
        disk too, but for those at hand.
    n_features : int, default 0
        Features of columns on which rows have slopes: 4 bytes for each of them, row and chain, about 50 more for each
        of them and row, and 4 for each pair of them and row as long as these are at most 256 MB.

    Returns
    -------
    int

    Examples
    --------
    >>> memory_estimate((480_189, 17_770), 100_480_507) / 100_480_507 < 19.5
    True
    >>> memory_estimate((480_189, 17_770), 100_480_507, n_stencils=125, engine="cuda") / 1e9 < 1.4
    True
    """
    m, n = shape
    k_rows, k_cols = (n_clusters, n_clusters) if isinstance(n_clusters, int) else n_clusters
    slopes = slope_bytes(shape, n_features, n_chains)
    if engine == "cuda":
        return device_bytes(shape, nnz, n_stencils, (k_rows, k_cols), n_chains, weights, ordinal).total + slopes
    if engine == "disk":
        return _streamed(shape, nnz, n_stencils, (k_rows, k_cols), n_chains, ordinal) + slopes
    index = (2 if n <= 65_536 else 4) + (2 if m <= 65_536 else 4)
    if engine == "ray":
        per_rating = index + 8 * n_chains + (8 if weights else 0) + (8 * n_chains + 2 if ordinal else 0)
        sums = 16 * (m * k_cols + n * k_rows) * n_chains
        labels = (n_stencils + 8) * (m + n) * n_chains  # with the copies that passes make of them
        return PYTHON + (per_rating * nnz + sums) // n_shards + labels + slopes
    per_rating = index + value_bytes + 8 * n_chains + (8 if weights else 0)
    if ordinal:  # `dense` keeps them in both orders
        per_rating += (8 * n_chains + 2) if engine == "dense" else 4 * n_chains + 1
    sums = 16 * (m * k_cols + n * k_rows) * min(n_chains, os.cpu_count() or 1)
    labels = (n_stencils + 2) * (m + n) * n_chains
    return per_rating * nnz + sums + labels + 16 * (m + n + 2) + slopes


def slope_bytes(shape: tuple[int, int], n_features: int, n_chains: int) -> int:
    """Return the bytes of slopes of rows, of each chain and of a draw, of products of features, and of their means."""
    at_once, products = min(n_chains, os.cpu_count() or 1), shape[0] * n_features**2
    kept = 4 * products if products <= MOST_PRODUCTS else 0
    return (
        (4 * (n_chains + 2 * at_once) + 4 * (SLOPE_BLOCKS + 4)) * shape[0] * n_features + n_features * shape[1] + kept
    )


def _streamed(
    shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int, ordinal: bool
) -> int:
    """Return the bytes of a process that fits ratings which stay on disk."""
    (m, n), cores = shape, os.cpu_count() or 1
    at_work, block = max(1, cores // n_chains), min(nnz, DISK_BLOCK)
    buffers = (at_work + DISK_AHEAD) * block * 12 + (at_work * block * 25 if ordinal else 0)
    sums = 16 * (m * k[1] + n * k[0]) * min(n_chains, cores)
    seeding = 2 * sums + 8 * (m + n) * max(k)  # first labels
    return PYTHON + n_chains * (buffers + 3 * (n_stencils + 2) * (m + n)) + sums + seeding + 48 * (m + n + 2)


class DeviceBytes(NamedTuple):
    """Bytes on a GPU: those that must stay there, and those of observations, which can be streamed instead."""

    fixed: int
    observations: int

    @property
    def total(self) -> int:
        """Bytes with all observations on the device."""
        return self.fixed + self.observations


def device_bytes(
    shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int, weights: bool,
    ordinal: bool = False,
) -> DeviceBytes:  # fmt: skip
    """Estimate the bytes that a fit needs on a GPU."""
    m, n = shape
    complete, piece = nnz == m * n, piece_size(nnz)
    engine = sums = 0
    for own, partners, clusters in ((m, n, k[1]), (n, m, k[0])):
        tiles = -(-partners // TILE)
        share = nnz / max(1, own * tiles * piece)  # mean length of a row's observations in a tile, in pieces
        pieces = int(min(nnz, own * tiles * max(1 + share / 3, share + 0.5)))
        cut = own if tiles > 1 else int(own * min(1.0, share * share))
        engine += pieces * (16 if complete else 12) + 12 * own
        sums += clusters * (pieces * (16 if weights else 8) + 16 * cut)
    slots = (n_stencils + SLOTS) * (m + n + 4 * 1024 + 16 * 32)  # labels, a template of 32 x 32, sizes of clusters
    per_rating = (0 if complete else 4) + (8 if weights else 0) + 8 * n_chains + (8 * n_chains + 2 if ordinal else 0)
    return DeviceBytes(engine + n_chains * (slots + sums + 28 * m), per_rating * nnz)


def piece_size(nnz: int, threads: int = THREADS) -> int:
    """Return the most observations of a piece, a power of two below each thread's share, so that all end together."""
    least, most = PIECES
    share = 0.75 * nnz / threads
    return min(most, max(least, 1 << int(log2(share)))) if share >= least else least
