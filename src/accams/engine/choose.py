"""Choice and construction of the engine of a fit."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.grid import Grid
from accams.errors import InputError
from accams.threads import Threads

ENGINES = "auto", "cpu", "dense", "graph", "cuda", "disk", "ray"


def choose(observations: Observations, name: str) -> str:
    """Return the name of the engine, with "auto" resolved from the data.

    Observed zeros go to `graph`, complete matrices to `dense`, everything else to `cpu`, which is faster
    as soon as a cell is missing (experiments/density.py). GPUs, streaming from disk and clusters are used only on
    request: `cuda`, `disk`, `ray`.
    """
    if name not in ENGINES:
        raise InputError(f"engine must be {', '.join(map(repr, ENGINES[:-1]))} or {ENGINES[-1]!r}, not {name!r}")
    blanks = observations.blank_weight is not None
    if name == "auto":
        return "graph" if blanks else "dense" if observations.is_complete else "cpu"
    if blanks != (name == "graph"):
        reason = "observed zeros need engine='graph'" if blanks else "engine='graph' needs zeros='observed'"
        raise InputError(f"engine={name!r} does not fit these observations: {reason}")
    return name


def make_engine(
    observations: Observations, name: str, n_stencils: int, n_threads: int | None = None, *,
    chunk_size: int | None = None, offset: float | None = None, row_weights: bool = False, latent: bool = False,
    callers: int = 1, n_chains: int = 1, shapes: Sequence[tuple[int, int]] = (), n_shards: int | None = None,
    features: tuple[NDArray[np.floating] | None, NDArray[np.floating] | None] = (None, None),
) -> Engine:  # fmt: skip
    """Return an engine for these observations and `n_stencils` stencils, optionally with weights of rows.

    `latent`: with room for the latent values of ordinal observations. `features` of rows and of columns are
    standardised; columns and rows will have slopes on them.

    `callers` is the number of threads that will use it at once, `n_chains` the number of states, and `shapes` those of
    the stencils, where memory depends on them. With `ray`, `n_threads` counts those of all workers together, and the
    data is cut into `n_shards`.
    """
    from accams.engine.cpu import CpuEngine
    from accams.engine.dense import DenseEngine
    from accams.engine.disk import DiskEngine
    from accams.engine.graph import GraphEngine

    kinds: dict[str, type[Engine]] = {"cpu": CpuEngine, "dense": DenseEngine, "graph": GraphEngine, "disk": DiskEngine}
    chosen = choose(observations, name)
    with_slopes = any(x is not None for x in features)
    grid = Grid.of(observations, n_stencils, offset, row_weights=row_weights, latent=latent, slopes=with_slopes)
    rows, cols = (None if x is None else grid.feature_ticks(x) for x in features)
    k = max((k for k, _ in shapes), default=1), max((k for _, k in shapes), default=1)
    if chosen == "ray":
        from accams.engine.ray.engine import RayEngine

        driver, cores = Threads(None, chunk_size, callers), n_threads
        return RayEngine(
            observations, grid, driver, n_stencils, n_chains=n_chains, k=k, n_shards=n_shards, n_cpus=cores,
            ordinal=latent, features=(rows, cols),
        )  # fmt: skip
    threads = Threads(n_threads, chunk_size, callers)
    if chosen == "cuda":
        from accams.engine.cuda.engine import CudaEngine

        engine: Engine = CudaEngine(observations, grid, threads, n_stencils, n_chains=n_chains, k=k, ordinal=latent)
    else:
        engine = kinds[chosen](observations, grid, threads)
    engine.features = rows, cols
    return engine
