"""The `ray` engine: the driver has labels and templates, the workers of a cluster have the ratings."""

from __future__ import annotations

from accams.data.memory import memory_estimate
from accams.data.observations import Observations
from accams.engine.base import Engine
from accams.engine.grid import Grid
from accams.engine.ray.cluster import Cluster, Group, connect
from accams.engine.ray.pieces import Whole, cuts, loaders
from accams.engine.ray.state import RayState
from accams.errors import InputError
from accams.threads import Threads


class RayEngine(Engine):
    """Observations with missing cells, cut into shards, each of which a worker of the cluster has.

    A shard is some rows and some columns, with about as many ratings as any other. Chains are spread over groups of
    workers, as many as there are cores for.

    Parameters
    ----------
    n_shards : int or None
        None: one for each machine of the cluster.
    n_cpus : int or None
        Cores of all workers together; None: all that the cluster has.
    """

    name = "ray"
    in_turn = False

    def __init__(
        self, observations: Observations, grid: Grid, threads: Threads, n_stencils: int = 1, *, n_chains: int = 1,
        k: tuple[int, int] = (1, 1), n_shards: int | None = None, n_cpus: int | None = None,
        cluster: Cluster | None = None,
    ) -> None:  # fmt: skip
        super().__init__(observations, grid, threads)
        obs, self._groups, self._made = observations, list[Group](), -1
        self._cluster = cluster or connect()
        try:
            cores = self._cluster.cores or [1]
            shards = n_shards or min(len(cores), *obs.shape)
            if shards > min(obs.shape):
                raise InputError(f"n_shards={shards} is more than there are rows or columns: {min(obs.shape)} at most")
            n_groups = max(1, min(n_chains, (n_cpus or sum(cores)) // shards))
            uniform = obs.is_complete and obs.stored_weights is None
            whole = Whole(obs.shape, grid, self.row_step, obs.weight_step, uniform)
            ranges = cuts(obs.row_starts, shards), cuts(obs.col_starts, shards)
            loads = [self._cluster.kept(load) for load in loaders(obs, ranges)]
            cpus = cores_each(cores, shards * n_groups, n_cpus)
            for _ in range(n_groups):
                self._groups.append(self._cluster.group(loads, whole, cpus))
            weighted, chains = obs.stored_weights is not None, -(-n_chains // n_groups)
            need = memory_estimate(
                obs.shape, obs.nnz, n_stencils=n_stencils, n_clusters=k, n_chains=chains, weights=weighted,
                engine="ray", n_shards=shards,
            )  # fmt: skip
            self._cluster.check_room(self._groups, need)
        except BaseException:
            self.close()
            raise

    def new_state(self, chain: int = 0) -> RayState:
        """A state whose residual is the data less the offset."""
        self._made += 1
        return RayState(self, self._made, self._groups[chain % len(self._groups)])

    def close(self) -> None:
        """Stop the workers, and Ray if it was started here."""
        try:
            super().close()
        finally:
            for group in self._groups:
                group.close()
            self._cluster.leave()


def cores_each(machines: list[int], workers: int, most: int | None = None) -> float:
    """Cores for each of so many workers, so that all of them find a place on machines with so many cores.

    A share of one where there are fewer cores than workers. `most` bounds those of all together; if it is more than
    there are, the cluster is expected to grow.
    """
    there = sum(machines)
    if most is not None and most > there:
        return most // workers or 1 / -(-workers // most)
    total = there if most is None else most
    for cores in range(total // workers, 0, -1):
        if sum(each // cores for each in machines) >= workers:
            return cores
    return 1 / -(-workers // total)
