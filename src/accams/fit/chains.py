"""Several chains in parallel."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.choose import make_engine
from accams.fit.blocks import Blocks
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters
from accams.threads import available_cores

T = TypeVar("T")
Then = Callable[[Chain], Any]
GPU_CHAINS = 2  # chains at once on a GPU
MANY = 4  # chains, from which on those of observed zeros wait for the interpreter and gain nothing by further threads,
PER_THREAD = 1 << 20  # unless each has so many stored cells and labels to go through
SMALL = 1 << 14  # cells and labels; chains with less wait for the interpreter, and are faster one after another


def nothing(_: Chain) -> None:
    """Return None: nothing is wanted of a chain."""


class Chains:
    """All chains of a fit on one engine; results do not depend on how many run at once.

    Chains are distributed over threads; with more threads than chains, each chain uses several if there is work enough.
    """

    def __init__(
        self, observations: Observations, engine: str, hyper: Hyperparameters, n_chains: int, sigma2: float,
        tau2: float, n_threads: int | None = None, chunk_size: int | None = None, n_shards: int | None = None,
        blocks: Blocks | None = None,
    ) -> None:  # fmt: skip
        self.blocks = blocks or Blocks()  # of features on which there are slopes
        cores = n_threads or available_cores()
        if observations.blank_weight is None and observations.nnz + sum(observations.shape) < SMALL:
            cores = 1  # not where blanks are zeros: chains at once make larger calls there
        most = cores // n_chains
        if n_chains >= MANY and observations.blank_weight is not None:
            most = min(most, (observations.nnz + sum(observations.shape) * len(hyper.shapes)) // PER_THREAD)
        per_chain: int | None = max(1, most)
        if engine == "ray":  # threads only wait for the cluster, which has its own cores
            cores, per_chain = n_chains, n_threads
        if engine == "cuda":  # the GPU waits for Python, which runs one thread at a time: a second one keeps it busy
            at_once = min(GPU_CHAINS, cores, n_chains)
            cores, per_chain = at_once, max(1, cores // at_once)
        self.at_once = min(cores, n_chains)
        self.engine: Engine = make_engine(
            observations, engine, len(hyper.shapes) + 2, per_chain, chunk_size=chunk_size,
            row_weights=hyper.row_noise is not None, latent=hyper.scale is not None, callers=self.at_once,
            n_chains=n_chains, shapes=hyper.shapes, n_shards=n_shards, features=self.blocks.both,
        )  # fmt: skip
        try:
            self.chains = [Chain(self.engine.new_state(c), hyper, c, sigma2, tau2) for c in range(n_chains)]
        except BaseException:
            self.engine.close()
            raise
        self._pool = self._new_pool()
        self._stop = Event()

    def __len__(self) -> int:
        return len(self.chains)

    def each(self, work: Callable[[Chain], T]) -> list[T]:
        """Return the result of `work` for every chain; on a keyboard interrupt each finishes its visits."""
        futures = list[Future[T]]()
        try:
            for chain in self.chains:
                futures.append(self._pool.submit(work, chain))
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            self._stop.set()
            try:
                self._pool.shutdown()  # waits for chains already started, even if interrupted while starting them
            finally:
                self._pool = self._new_pool()
            raise

    def run_sweep(self, then: Then = nothing) -> list[Any]:
        """Run a sweep of every chain and return what `then` makes of it, without waiting for the others in between."""
        return self._each(lambda chain: chain.run_sweep(self._stop.is_set), then)

    def backfit(self, stencil: int, visits: int, then: Then = nothing) -> list[Any]:
        """Fit one stencil of every chain and return what `then` makes of it."""
        return self._each(lambda chain: chain.backfit(stencil, visits, self._stop.is_set), then)

    def _each(self, advance: Callable[[Chain], bool], then: Then) -> list[Any]:
        def work(chain: Chain) -> Any:
            try:
                if not advance(chain):
                    raise KeyboardInterrupt
                return then(chain)
            finally:
                if len(self) > self.at_once:  # make room for the next chain
                    chain.state.release()

        return self.each(work)

    def predict_at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the current prediction of each chain at these cells as an array (chain, cell)."""
        return np.stack(self.each(lambda chain: chain.state.predict_at(rows, cols)))

    def slope_terms(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what each block of slopes adds at these cells (block, cell): the mean of normal chains, if any are."""
        kinds = {chain.ordinal for chain in self.chains}

        def terms(chain: Chain) -> list[NDArray[np.float64]]:
            asked = self.blocks.slices if chain.ordinal == min(kinds) else []
            return [chain.state.slope_terms(*each, rows, cols) for each in asked]

        return np.asarray(np.mean([x for x in self.each(terms) if x], axis=0))

    def row_weights(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the precision of these rows, averaged over chains."""
        return np.asarray(np.mean([chain.row_weights()[rows] for chain in self.chains], axis=0))

    def continue_from(self, others: Sequence[Chain], kept: Sequence[NDArray[np.bool_] | None] = (None, None)) -> None:
        """Copy the stencils, variances and row weights of other chains (fitted to other observations)."""
        self.each(lambda chain: chain.continue_from(others[chain.number], kept))

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.at_once, thread_name_prefix="accams-chain")

    def close(self) -> None:
        try:
            self._pool.shutdown()
        finally:
            self.engine.close()
