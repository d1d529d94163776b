"""The `ray` engine: the driver has labels and templates, the workers of a cluster have the ratings."""

from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.grid import Grid
from accams.engine.memory import memory_estimate
from accams.engine.ray.cluster import Cluster, WorkerGroup, connect
from accams.engine.ray.shards import MatrixInfo, cuts, loaders
from accams.engine.ray.state import RayState
from accams.errors import InputError
from accams.threads import Threads


class RayEngine(Engine):
    """Observations with missing cells, cut into shards, one for each worker of a group.

    A shard is some rows and some columns, with about as many ratings as any other. Chains are spread over as many
    groups of workers as there are cores for. `n_shards` is one per machine if not given; `n_cpus`, those of all workers
    together, are all cores of the cluster.
    """

    name = "ray"
    in_turn = False

    def __init__(
        self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int = 1, *, n_chains: int = 1,
        k: tuple[int, int] = (1, 1), n_shards: int | None = None, n_cpus: int | None = None,
        cluster: Cluster | None = None,
    ) -> None:  # fmt: skip
        super().__init__(observations, grid, threads)
        obs, self._groups, self._last_chain = observations, list[WorkerGroup](), -1
        self._cluster = cluster or connect()
        try:
            cores = self._cluster.cores or [1]
            shards = n_shards or min(len(cores), *obs.shape)
            if shards > min(obs.shape):
                raise InputError(
                    f"n_shards={shards} is more than there are rows or columns: use {min(obs.shape)} at most"
                )
            n_groups = max(1, min(n_chains, (n_cpus or sum(cores)) // shards))
            matrix = MatrixInfo(obs.shape, grid, obs.weight_step, self.uniform)
            ranges = cuts(obs.row_starts, shards), cuts(obs.col_starts, shards)
            loads = [self._cluster.kept(load) for load in loaders(obs, ranges)]
            cpus = cores_each(cores, shards * n_groups, n_cpus)
            for _ in range(n_groups):
                self._groups.append(self._cluster.group(loads, matrix, cpus))
            need = memory_estimate(
                obs.shape, obs.nnz, n_stencils=n_stencils, n_clusters=k, n_chains=-(-n_chains // n_groups),
                weights=obs.stored_weights is not None, engine="ray", n_shards=shards,
            )  # fmt: skip
            self._cluster.check_room(self._groups, need)
        except BaseException:
            self.close()
            raise

    def new_state(self, chain: int = 0) -> RayState:
        self._last_chain += 1  # workers know chains by these numbers; `chain` may come again
        return RayState(self, self._last_chain, self._groups[chain % len(self._groups)])

    def close(self) -> None:
        """Stop the workers, and Ray if it was started here."""
        try:
            super().close()
        finally:
            for group in self._groups:
                group.close()
            self._cluster.leave()


def cores_each(machines: list[int], workers: int, most: int | None = None) -> float:
    """Return the cores for each worker such that all of them fit on machines with so many cores.

    A fraction where there are fewer cores than workers. `most` bounds the cores of all workers together; if it exceeds
    those of the machines, the cluster is expected to grow.
    """
    available = sum(machines)
    if most is not None and most > available:
        return most // workers or 1 / -(-workers // most)
    total = available if most is None else most
    for cores in range(total // workers, 0, -1):
        if sum(machine // cores for machine in machines) >= workers:
            return cores
    return 1 / -(-workers // total)
