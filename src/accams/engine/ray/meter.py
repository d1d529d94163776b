"""What a chain on a cluster costs: time of each kind of question, the slowest worker, and bytes that travel."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from accams.engine.ray.worker import Answer, News

log = logging.getLogger("accams.ray")


@dataclass
class Cost:
    """What the questions of a sweep took.

    Attributes
    ----------
    seconds : dict
        Of each kind of question, from asking to the last answer.
    working : array
        Seconds that each worker was at it.
    sent, shared, received : int
        Bytes that went to every worker with questions, and those that went once to every machine, through the object
        store; bytes of all answers.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    questions: int = 0
    working: Any = 0.0
    sent: int = 0
    shared: int = 0
    received: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{what} {spent:.2f} s" for what, spent in self.seconds.items())
        slowest = int(np.argmax(self.working))
        return (
            f"{self.questions} questions ({kinds}), workers busy {np.min(self.working):.2f} to "
            f"{np.max(self.working):.2f} s (worker {slowest} longest), {self.shared / 1e6:.3f} MB shared, "
            f"{self.sent / 1e6:.3f} MB sent, {self.received / 1e6:.3f} MB received"
        )


class Meter:
    """Adds up the costs of a chain, sweep by sweep."""

    def __init__(self, chain: int) -> None:
        self.chain, self.sweeps = chain, 0
        self.now, self.last = Cost(), Cost()
        self._gauges: dict[str, Any] = {}

    def note(self, what: str, began: float, news: Sequence[News], args: Sequence[Any], answers: list[Answer]) -> None:
        """A question has been answered."""
        cost = self.now
        cost.questions += 1
        cost.seconds[what] += perf_counter() - began
        cost.working = cost.working + np.array([answer.seconds for answer in answers])
        cost.sent += len(answers) * (size_of(news) + size_of(args))
        cost.received += sum(size_of(answer.found) for answer in answers)

    def end_sweep(self) -> None:
        """A sweep is over: log what it took, and let Ray's metrics have it."""
        if not self.now.questions:
            return
        self.sweeps, self.last, self.now = self.sweeps + 1, self.now, Cost()
        log.info("chain %d, sweep %d: %s", self.chain, self.sweeps, self.last)
        figures = {
            "accams_sweep_seconds": ("Seconds of a sweep's questions", sum(self.last.seconds.values())),
            "accams_slowest_worker_seconds": ("Seconds of the slowest worker in a sweep", np.max(self.last.working)),
            "accams_shared_bytes": ("Bytes a sweep sends to every machine", self.last.shared),
            "accams_received_bytes": ("Bytes of all answers in a sweep", self.last.received),
        }
        for name, (text, value) in figures.items():
            if name not in self._gauges:
                from ray.util.metrics import Gauge

                self._gauges[name] = Gauge(name, text, ("chain",))
            self._gauges[name].set(float(value), {"chain": str(self.chain)})


def size_of(what: Any) -> int:
    """Bytes of all arrays in something; the rest is small."""
    if isinstance(what, np.ndarray):
        return what.nbytes
    if isinstance(what, dict):
        return size_of(list(what.values()))
    if isinstance(what, list | tuple):
        return sum(size_of(each) for each in what)
    return size_of(vars(what)) if hasattr(what, "__dataclass_fields__") else 0
