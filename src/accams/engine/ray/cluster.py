"""A Ray cluster: groups of workers that serve requests together and are replaced when they die."""

import logging
import os
import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from socket import create_connection
from threading import Lock
from traceback import format_exception
from typing import Any

import numpy as np

from accams.engine.ray.shards import Load, MatrixInfo
from accams.engine.ray.worker import Event, Reply, Worker
from accams.errors import InputError, warn

log = logging.getLogger("accams.ray")
SMALL = 1 << 16  # bytes of an array sent with a call; larger ones go through the object store
TRIES = 5  # workers that may die in a row before one has replied
TOKENS = (2, 52)  # version of Ray that knows them
PATIENCE = 20.0  # seconds to wait for a core for a new worker


def connect() -> "Cluster":
    """Return the connected cluster, the one named by RAY_ADDRESS, or a new one on this machine alone."""
    named = os.environ.get("RAY_ADDRESS")
    if not named and "ray" not in sys.modules:  # Ray reads it when it is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if os.environ["RAY_AUTH_MODE"] == "token" and not _has_token():
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # Ray would write one to the home, if there is any
    ray = _library()
    if ray.is_initialized():
        return Cluster(ray, started=False)
    _start(ray, **({"address": named} if named else {"address": "local", "include_dashboard": False}))
    if not named and not _asks_for_token(ray):
        warn(
            "the Ray cluster of this fit obeys everyone who can reach this machine: use Ray 2.52 or later and set "
            "RAY_AUTH_MODE=token"
        )
    return Cluster(ray, started=True)


def _has_token() -> bool:
    """Return whether Ray finds a token by itself."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return True
    return os.path.isfile(os.path.expanduser("~/.ray/auth_token"))


def _asks_for_token(ray: Any) -> bool:
    """Return whether a cluster that was started here refuses those who do not have its token.

    Ray listens on all interfaces, whatever the address of its node is.
    """
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    return version >= TOKENS and os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def join(address: str) -> None:
    """Connect to a running cluster."""
    _start(_library(), address=address)


def _library() -> Any:
    if find_spec("ray") is None:
        raise InputError("engine='ray' needs Ray: pip install 'accams[ray]', or use engine='cpu'")
    import ray

    return ray


def _start(ray: Any, **how: Any) -> None:
    where = how["address"]
    problem = "Ray could not be started" if where == "local" else f"there is no Ray cluster at {where}"
    try:
        _knock(where)
        with _own_end():
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **how)
    except Exception as error:
        if any("authentication token" in line.lower() for line in format_exception(error)):
            raise InputError(
                f"the Ray cluster at {where} asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN if "
                "~/.ray/auth_token does not hold the token of the cluster"
            ) from None
        raise InputError(f"{problem} ({_line(error)}): start one with ray start --head, or use engine='cpu'") from None


@contextmanager
def _own_end() -> Iterator[None]:
    """Keep this process's own handling of SIGTERM, in whose place Ray puts another."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _knock(address: str) -> None:
    """Fail fast if the cluster is unreachable; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        create_connection((host, int(port)), timeout=5.0).close()


class Cluster:
    """Machines and cores of a cluster."""

    def __init__(self, ray: Any, *, started: bool) -> None:
        self._ray, self._started = ray, started
        self.cores = [int(node["Resources"]["CPU"]) for node in _machines(ray)]  # per machine that has any

    def kept(self, load: tuple[Load, Load]) -> Any:
        """Put a loader into the object store, for every group to use."""
        return self._ray.put(load)

    def group(self, loads: Sequence[Any], matrix: MatrixInfo, cpus: float) -> "WorkerGroup":
        """Start workers with so many cores each (or such a fraction of one)."""
        return WorkerGroup(self._ray, loads, matrix, cpus)

    def check_room(self, groups: Sequence["WorkerGroup"], need: int) -> None:
        """Raise if the workers on some machine, `need` bytes each, exceed its memory."""
        homes = Counter(home for group in groups for home in group.homes)
        for node in self._ray.nodes():
            available, wanted = node["Resources"].get("memory", float("inf")), need * homes[node["NodeID"]]
            if wanted > available:
                raise InputError(
                    f"the workers on {node['NodeManagerHostname']} need about {wanted / 1e9:.2g} GB for this fit, but "
                    f"Ray has only {available / 1e9:.2g} GB for them: use more machines (and n_shards), or fewer chains"
                )

    def each(self, kind: type, given: tuple[Any, ...], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield ``kind(*given).do(task)`` of all tasks, in any order, by an object per core; Ray repeats those lost."""
        ray, again = self._ray, {"max_restarts": TRIES, "max_task_retries": TRIES, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(kind).options(num_cpus=1, **again)
        servers = [actor.remote(*given) for _ in range(min(len(tasks), sum(self.cores)))]
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


class WorkerGroup:
    """Workers whose shards make up the whole matrix."""

    def __init__(self, ray: Any, loads: Sequence[Any], matrix: MatrixInfo, cpus: float) -> None:
        self._ray, self._loads, self._matrix, self._cpus = ray, loads, matrix, cpus
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
        self, chain: int, known: list[int], events: Sequence[Event], replay: Callable[[], list[Event]], request: str,
        *args: Any,
    ) -> list[Reply]:  # fmt: skip
        """Send events and a request to all workers, and return their replies in order.

        A worker whose generation is in `known` gets the events; one that has been replaced since gets those of
        `replay`, which bring it to the present state.
        """
        replayed, calls = list[Event](), dict[Any, int]()

        def send(number: int) -> None:
            with self._lock:
                worker, generation = self._workers[number], self.generation[number]
            fresh, known[number] = known[number] != generation, generation
            if fresh and not replayed:
                replayed.extend(replay())
            calls[worker.ask.remote(chain, replayed if fresh else events, request, *args)] = number

        for number in range(len(self)):
            send(number)
        replies, lost = dict[int, Reply](), [0] * len(self)
        while calls:
            call = self._ray.wait(list(calls), num_returns=1)[0][0]
            number = calls.pop(call)
            try:
                replies[number] = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from (None if isinstance(error.cause, InputError) else error)
            except self._ray.exceptions.RayError as error:
                lost[number] += 1
                if lost[number] > TRIES:
                    raise _lost(number, lost[number], error) from error
                self._replace(number, known[number], error)
                send(number)
        return [replies[number] for number in range(len(self))]

    def shared(self, value: Any) -> Any:
        """Return a value for all workers: itself if it is small, else a reference into the object store."""
        return self._ray.put(value) if isinstance(value, np.ndarray) and value.nbytes > SMALL else value

    def close(self) -> None:
        for worker in self._workers:
            with suppress(Exception):  # Ray may have been shut down meanwhile
                self._ray.kill(worker)

    def _start(self, number: int, **where: Any) -> Any:
        """Start a worker with cores (`num_cpus`) or at a place (`scheduling_strategy`)."""
        actor = self._ray.remote(_Remote).options(**{"scheduling_strategy": "SPREAD", **where})
        return actor.remote(self._loads[number], self._matrix, max(1, int(self._cpus)))

    def _await_all(self) -> None:
        """Wait until every worker is placed, with a warning if that takes long."""
        waiting = [worker.ready.remote() for worker in self._workers]
        _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=PATIENCE)
        if waiting:
            free = self._ray.available_resources().get("CPU", 0.0)
            need = f"{len(waiting)} workers with {self._cpus:g} cores each"
            log.warning("waiting for room in the cluster for %s (%g cores are free): see n_threads", need, free)
            self._ray.wait(waiting, num_returns=len(waiting))

    def _home(self, number: int) -> str:
        """Return the machine of a worker, which is replaced if it dies before it replies."""
        for turn in range(TRIES + 1):
            try:
                return str(self._ray.get(self._workers[number].ready.remote()))
            except self._ray.exceptions.RayError as error:
                if turn == TRIES or isinstance(_lost(number, turn, error), NotInstalledError):
                    raise _lost(number, turn + 1, error) from error
                self._replace(number, self.generation[number], error)
        raise AssertionError

    def _replace(self, number: int, generation: int, error: Exception) -> None:
        """Replace a worker, unless another chain has done so; if no core becomes free for it, it shares some."""
        with self._lock:
            if self.generation[number] != generation:
                return
            log.warning("worker %d of the cluster is lost (%s): its shard is rebuilt", number, _line(error))
            self._ray.kill(self._workers[number])
            worker = self._start(number, num_cpus=self._cpus)
            if not self._ray.wait([worker.ready.remote()], timeout=PATIENCE)[0]:
                log.warning("no core has become free for worker %d: it shares those of others", number)
                self._ray.kill(worker)
                worker = self._start(number, num_cpus=0, scheduling_strategy=self._beside(number))
            self._workers[number] = worker
            self.generation[number] += 1

    def _beside(self, number: int) -> Any:
        """Choose a machine with cores, a different one per worker if there are several."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        machines = _machines(self._ray)
        return NodeAffinitySchedulingStrategy(machines[number % len(machines)]["NodeID"], soft=True)


class NotInstalledError(InputError):
    """Raised when a machine of the cluster has no accams."""


def _machines(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


def _lost(number: int, times: int, error: Exception) -> InputError:
    """Return the error for a worker that has died repeatedly."""
    if "failed to import" in str(error) or "No module named 'accams'" in str(error):
        return NotInstalledError(
            "a machine of the cluster cannot import accams: install the same version on all of them"
        )
    return InputError(
        f"worker {number} of the cluster died {times} times in a row ({_line(error)}): if its machine is out of "
        "memory, spread the data over more of them"
    )


def _cause(error: Any) -> Exception:
    return error.cause if isinstance(error.cause, Exception) else error


class _Remote(Worker):
    """Worker in a process of the cluster."""

    def __init__(self, load: tuple[Load, Load], matrix: MatrixInfo, n_threads: int) -> None:
        import ray

        def fetch(value: Any) -> Any:
            return np.array(ray.get(value)) if isinstance(value, ray.ObjectRef) else value

        super().__init__(load, matrix, n_threads, fetch)

    def ready(self) -> str:
        """Return the machine on which it was placed."""
        import ray

        return str(ray.get_runtime_context().get_node_id())


def _line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
