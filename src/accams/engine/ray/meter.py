"""Costs of a chain on a cluster: time per kind of request, the slowest worker, and bytes sent and received."""

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from accams.engine.ray.worker import Event, Reply

log = logging.getLogger("accams.ray")


@dataclass
class Cost:
    """Costs of the requests of a sweep."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # per kind, until the last reply
    requests: int = 0
    working: Any = 0.0  # seconds that each worker was busy
    sent: int = 0  # bytes to every worker, with requests
    shared: int = 0  # bytes once to every machine, through the object store
    received: int = 0  # bytes of all replies

    def __str__(self) -> str:
        kinds = ", ".join(f"{request} {spent:.2f} s" for request, spent in self.seconds.items())
        slowest = int(np.argmax(self.working))
        return (
            f"{self.requests} requests ({kinds}), workers busy {np.min(self.working):.2f} to "
            f"{np.max(self.working):.2f} s (worker {slowest} longest), {self.shared / 1e6:.3f} MB shared, "
            f"{self.sent / 1e6:.3f} MB sent, {self.received / 1e6:.3f} MB received"
        )


class Meter:
    """Costs of a chain, sweep by sweep."""

    def __init__(self, chain: int) -> None:
        self.chain, self.sweeps = chain, 0
        self.now, self.last = Cost(), Cost()
        self._gauges: dict[str, Any] = {}

    def note(self, request: str, began: float, events: list[Event], args: Any, replies: list[Reply]) -> None:
        cost = self.now
        cost.requests += 1
        cost.seconds[request] += perf_counter() - began
        cost.working = cost.working + np.array([reply.seconds for reply in replies])
        cost.sent += len(replies) * (size_of(events) + size_of(args))
        cost.received += sum(size_of(reply.result) for reply in replies)

    def end_sweep(self) -> None:
        """Log the costs of a sweep, and report them to Ray's metrics."""
        if not self.now.requests:
            return
        self.sweeps, self.last, self.now = self.sweeps + 1, self.now, Cost()
        log.info("chain %d, sweep %d: %s", self.chain, self.sweeps, self.last)
        figures = {
            "accams_sweep_seconds": ("Seconds of a sweep's requests", sum(self.last.seconds.values())),
            "accams_slowest_worker_seconds": ("Seconds of the slowest worker in a sweep", np.max(self.last.working)),
            "accams_shared_bytes": ("Bytes a sweep sends to every machine", self.last.shared),
            "accams_received_bytes": ("Bytes of all replies in a sweep", self.last.received),
        }
        for name, (text, value) in figures.items():
            if name not in self._gauges:
                from ray.util.metrics import Gauge

                self._gauges[name] = Gauge(name, text, ("chain",))
            self._gauges[name].set(float(value), {"chain": str(self.chain)})


def size_of(value: Any) -> int:
    """Return the bytes of all arrays within a value; the rest is small."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return size_of(list(value.values()))
    if isinstance(value, list | tuple):
        return sum(size_of(item) for item in value)
    return size_of(vars(value)) if hasattr(value, "__dataclass_fields__") else 0
