"""Estimates of the memory that observations and a fit need."""

import os

from accams.engine.cuda.memory import device_bytes

DISK_BLOCK, DISK_AHEAD = 1 << 20, 2  # `disk`: observations read at a time, and blocks read ahead
PYTHON = 300 << 20  # the interpreter with its libraries


def memory_estimate(
    shape: tuple[int, int], nnz: int, *, n_stencils: int = 13, n_clusters: int | tuple[int, int] = 10,
    n_chains: int = 1, weights: bool = False, value_bytes: int = 4, engine: str = "cpu", n_shards: int = 1,
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
    if engine == "cuda":
        return device_bytes(shape, nnz, n_stencils, (k_rows, k_cols), n_chains, weights).total
    if engine == "disk":
        return _streamed(shape, nnz, n_stencils, (k_rows, k_cols), n_chains)
    index = (2 if n <= 65_536 else 4) + (2 if m <= 65_536 else 4)
    if engine == "ray":
        per_rating = index + 8 * n_chains + (8 if weights else 0)
        sums = 16 * (m * k_cols + n * k_rows) * n_chains
        labels = (n_stencils + 8) * (m + n) * n_chains  # with the copies that passes make of them
        return PYTHON + (per_rating * nnz + sums) // n_shards + labels
    per_rating = index + value_bytes + 8 * n_chains + (8 if weights else 0)
    sums = 16 * (m * k_cols + n * k_rows) * min(n_chains, os.cpu_count() or 1)
    labels = (n_stencils + 2) * (m + n) * n_chains
    return per_rating * nnz + sums + labels + 16 * (m + n + 2)


def _streamed(shape: tuple[int, int], nnz: int, n_stencils: int, k: tuple[int, int], n_chains: int) -> int:
    """Return the bytes of a process that fits ratings which stay on disk."""
    (m, n), cores = shape, os.cpu_count() or 1
    buffers = (max(1, cores // n_chains) + DISK_AHEAD) * min(nnz, DISK_BLOCK) * 12
    sums = 16 * (m * k[1] + n * k[0]) * min(n_chains, cores)
    seeding = 2 * sums + 8 * (m + n) * max(k)  # first labels
    return PYTHON + n_chains * (buffers + 3 * (n_stencils + 2) * (m + n)) + sums + seeding + 48 * (m + n + 2)
