"""A Ray cluster as this engine uses it: groups of workers that are asked all together, and replaced when they die."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from socket import create_connection
from threading import Lock
from traceback import format_exception
from typing import Any

import numpy as np

from accams.engine.ray.pieces import Load, Whole
from accams.engine.ray.worker import Answer, News, Worker
from accams.errors import InputError

log = logging.getLogger("accams.ray")
SMALL = 1 << 16  # bytes that are sent along with a call; more is shared through the object store
TRIES = 5  # workers that may die one after another before they have answered
PATIENCE = 20.0  # seconds that a new worker waits for a core of its own


def connect() -> Cluster:
    """The cluster that this process is connected to, the one that RAY_ADDRESS names, or one of this machine alone."""
    ray = _library()
    if ray.is_initialized():
        return Cluster(ray, started=False)
    named = os.environ.get("RAY_ADDRESS")
    _start(ray, **({"address": named} if named else {"address": "local", "include_dashboard": False}))
    return Cluster(ray, started=True)


def join(address: str) -> None:
    """Connect to a cluster that is running."""
    _start(_library(), address=address)


def _library() -> Any:
    if find_spec("ray") is None:
        raise InputError("engine='ray' needs Ray: pip install 'accams[ray]', or use engine='cpu'")
    import ray

    return ray


def _start(ray: Any, **how: Any) -> None:
    where = how["address"]
    what = "Ray could not be started" if where == "local" else f"there is no Ray cluster at {where}"
    try:
        _knock(where)
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **how)
    except Exception as error:
        if any("authentication token" in line.lower() for line in format_exception(error)):
            raise InputError(
                f"the Ray cluster at {where} asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN where "
                "~/.ray/auth_token is not the one of the cluster"
            ) from None
        raise InputError(f"{what} ({_line(error)}): start one with ray start --head, or use engine='cpu'") from None


def _knock(address: str) -> None:
    """See whether anybody is there: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        create_connection((host, int(port)), timeout=5.0).close()


class Cluster:
    """What there is of machines and cores."""

    def __init__(self, ray: Any, *, started: bool) -> None:
        self._ray, self._started = ray, started
        self.cores = [int(each["Resources"]["CPU"]) for each in _machines(ray)]  # of each machine that has some

    def kept(self, load: tuple[Load, Load]) -> Any:
        """The same, where every group can have it."""
        return self._ray.put(load)

    def group(self, loads: Sequence[Any], whole: Whole, cpus: float) -> Group:
        """Workers, each with so many cores (or such a share of one)."""
        return Group(self._ray, loads, whole, cpus)

    def check_room(self, groups: Sequence[Group], need: int) -> None:
        """Refuse a fit whose workers need more memory, each so many bytes, than a machine has that they are on."""
        homes = Counter(home for group in groups for home in group.homes)
        for node in self._ray.nodes():
            there, wanted = node["Resources"].get("memory", float("inf")), need * homes[node["NodeID"]]
            if wanted > there:
                raise InputError(
                    f"the workers on {node['NodeManagerHostname']} need about {wanted / 1e9:.2g} GB for this fit, and "
                    f"Ray has {there / 1e9:.2g} GB for them: use more machines (and n_shards), or fewer chains"
                )

    def each(self, kind: type, given: tuple[Any, ...], tasks: Sequence[Any]) -> Iterator[Any]:
        """What ``kind(*given).do(task)`` gives for every task, in any order; Ray does those again that are lost.

        There is one such object for each core.
        """
        ray, again = self._ray, {"max_restarts": TRIES, "max_task_retries": TRIES, "scheduling_strategy": "SPREAD"}
        made = ray.remote(kind).options(num_cpus=1, **again)
        servers = [made.remote(*given) for _ in range(min(len(tasks), sum(self.cores)))]
        todo = iter(tasks)
        try:
            busy = {server.do.remote(task): server for server, task in zip(servers, todo, strict=False)}
            while busy:
                [done], _ = ray.wait(list(busy), num_returns=1)
                server = busy.pop(done)
                for task in islice(todo, 1):
                    busy[server.do.remote(task)] = server
                try:
                    yield ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise _cause(error) from (None if isinstance(error.cause, InputError) else error)
                except ray.exceptions.RayError as error:
                    raise _lost(servers.index(server), TRIES + 1, error) from error
        finally:
            for server in servers:
                with suppress(Exception):
                    ray.kill(server)

    def leave(self) -> None:
        """Stop Ray, if it was started here."""
        if self._started:
            self._ray.shutdown()


class Group:
    """Workers that hold all rows and all columns between them."""

    def __init__(self, ray: Any, loads: Sequence[Any], whole: Whole, cpus: float) -> None:
        self._ray, self._loads, self._whole, self._cpus = ray, loads, whole, cpus
        self._lock, self.generation, self._workers = Lock(), [0] * len(loads), list[Any]()
        try:
            self._workers += [self._start(number, num_cpus=cpus) for number in range(len(loads))]
            self._await_all()
            self.homes: list[str] = [self._home(number) for number in range(len(loads))]
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._workers)

    def ask(
        self, chain: int, known: list[int], news: Sequence[News], story: Callable[[], list[News]], what: str, *args: Any
    ) -> list[Answer]:
        """The answers of all workers, in their order.

        A worker that is as the chain knows it (its generation is in `known`) hears the news; one that is new hears the
        whole story.
        """
        told, calls = list[News](), dict[Any, int]()

        def send(number: int) -> None:
            with self._lock:
                worker, generation = self._workers[number], self.generation[number]
            fresh, known[number] = known[number] != generation, generation
            if fresh and not told:
                told.extend(story())
            calls[worker.ask.remote(chain, told if fresh else news, what, *args)] = number

        for number in range(len(self)):
            send(number)
        answers, lost = dict[int, Answer](), [0] * len(self)
        while calls:
            call = self._ray.wait(list(calls), num_returns=1)[0][0]
            number = calls.pop(call)
            try:
                answers[number] = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from (None if isinstance(error.cause, InputError) else error)
            except self._ray.exceptions.RayError as error:
                lost[number] += 1
                if lost[number] > TRIES:
                    raise _lost(number, lost[number], error) from error
                self._replace(number, known[number], error)
                send(number)
        return [answers[number] for number in range(len(self))]

    def shared(self, what: Any) -> Any:
        """Something that all workers are to get: itself if it is small, else a reference to where it is shared."""
        return self._ray.put(what) if isinstance(what, np.ndarray) and what.nbytes > SMALL else what

    def close(self) -> None:
        """Stop all workers."""
        for worker in self._workers:
            with suppress(Exception):  # Ray may have been shut down meanwhile
                self._ray.kill(worker)

    def _start(self, number: int, **where: Any) -> Any:
        """A worker; it gets cores (`num_cpus`), or a place (`scheduling_strategy`)."""
        options = {"scheduling_strategy": "SPREAD", **where}
        return self._ray.remote(_Remote).options(**options).remote(
            self._loads[number], self._whole, max(1, int(self._cpus))
        )  # fmt: skip

    def _await_all(self) -> None:
        """Wait until every worker has found a place, and say so if that takes long."""
        waiting = [worker.ready.remote() for worker in self._workers]
        _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=PATIENCE)
        if waiting:
            there = self._ray.available_resources().get("CPU", 0.0)
            need = f"{len(waiting)} workers with {self._cpus:g} cores each"
            log.warning("waiting for room in the cluster for %s (%g cores are free): see n_threads", need, there)
            self._ray.wait(waiting, num_returns=len(waiting))

    def _home(self, number: int) -> str:
        """The machine of a worker; one that dies before it has answered is replaced."""
        for turn in range(TRIES + 1):
            try:
                return str(self._ray.get(self._workers[number].ready.remote()))
            except self._ray.exceptions.RayError as error:
                if turn == TRIES or isinstance(_lost(number, turn, error), NotInstalledError):
                    raise _lost(number, turn + 1, error) from error
                self._replace(number, self.generation[number], error)
        raise AssertionError

    def _replace(self, number: int, generation: int, error: Exception) -> None:
        """Start a worker anew, unless another chain has done so; where no core comes free for it, it shares some."""
        with self._lock:
            if self.generation[number] != generation:
                return
            log.warning("worker %d of the cluster is lost (%s): its part is made anew", number, _line(error))
            self._ray.kill(self._workers[number])
            worker = self._start(number, num_cpus=self._cpus)
            if not self._ray.wait([worker.ready.remote()], timeout=PATIENCE)[0]:
                log.warning("no core has come free for worker %d: it shares those of others", number)
                self._ray.kill(worker)
                worker = self._start(number, num_cpus=0, scheduling_strategy=self._beside(number))
            self._workers[number] = worker
            self.generation[number] += 1

    def _beside(self, number: int) -> Any:
        """A machine with cores, another one for each worker if there are several."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        machines = _machines(self._ray)
        return NodeAffinitySchedulingStrategy(machines[number % len(machines)]["NodeID"], soft=True)


class NotInstalledError(InputError):
    """A machine of the cluster has no accams."""


def _machines(ray: Any) -> list[dict[str, Any]]:
    """Those that have cores."""
    return [each for each in ray.nodes() if each["Alive"] and each["Resources"].get("CPU", 0) >= 1]


def _lost(number: int, times: int, error: Exception) -> InputError:
    """What to say of a worker that dies again and again."""
    if "failed to import" in str(error) or "No module named 'accams'" in str(error):
        return NotInstalledError(
            "a machine of the cluster cannot import accams: install the same version on all of them"
        )
    return InputError(
        f"worker {number} of the cluster died {times} times in a row ({_line(error)}): if its machine is out of "
        "memory, spread the data over more of them"
    )


def _cause(error: Any) -> Exception:
    """What a worker's work has failed with."""
    return error.cause if isinstance(error.cause, Exception) else error


class _Remote(Worker):
    """A worker in a process of the cluster."""

    def __init__(self, load: tuple[Load, Load], whole: Whole, n_threads: int) -> None:
        import ray

        def fetch(what: Any) -> Any:
            return np.array(ray.get(what)) if isinstance(what, ray.ObjectRef) else what

        super().__init__(load, whole, n_threads, fetch)

    def ready(self) -> str:
        """The machine on which it has found a place."""
        import ray

        return str(ray.get_runtime_context().get_node_id())


def _line(error: Exception) -> str:
    """The first line of what an error says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
