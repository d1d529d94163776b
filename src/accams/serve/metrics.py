"""What the service counts, for Prometheus; worker processes share their counts through a folder of files."""

import os
import time
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from accams.writing import is_alive

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # variable of the environment that makes the library share its counts
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and gauges of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry, "namespace": "accams"}
        self.requests = Counter(
            "requests", "Requests by route, method and status.", ["route", "method", "status"], **own
        )
        self.seconds = Histogram("request_seconds", "Time to answer, by route.", ["route"], buckets=BUCKETS, **own)
        self.loads = Counter("loads", "Files of models that were loaded or refused.", ["model", "result"], **own)
        self.events = Counter("feedback_events", "Events written to the feedback log.", **own)
        self.in_flight = Gauge("in_flight", "Requests being answered.", multiprocess_mode="livesum", **own)
        self.memory = Gauge("memory_bytes", "Resident memory.", multiprocess_mode="livesum", **own)
        self.loaded = Gauge(
            "model_loaded_timestamp_seconds", "When a model was loaded last.", ["model"],
            multiprocess_mode="mostrecent", **own,
        )  # fmt: skip
        self._dead = set[int]()
        self._counters = dict[tuple[str, str, int], tuple[Counter, Histogram]]()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        counter = self._counters.get((route, method, status))
        if counter is None:  # looking them up by their labels takes longer
            counter = self.requests.labels(route, method, status), self.seconds.labels(route)
            self._counters[route, method, status] = counter
        counter[0].inc()
        counter[1].observe(seconds)

    def serves(self, name: str) -> None:
        """Tell that a model was loaded."""
        self.loaded.labels(name).set(time.time())
        self.loads.labels(name, "loaded").inc()

    def text(self) -> bytes:
        """Return all counts, of all worker processes."""
        self.memory.set(resident_bytes())
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        self._forget_dead(Path(os.environ[FOLDER]))
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)

    def _forget_dead(self, folder: Path) -> None:
        """Leave out what worker processes that are no more have held."""
        for path in folder.glob("gauge_live*_*.db"):
            process = int(path.stem.rpartition("_")[2])
            if process not in self._dead and not is_alive(process):
                self._dead.add(process)
                mark_process_dead(process)  # type: ignore[no-untyped-call]


def resident_bytes() -> int:
    """Return the memory that this process holds, or 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
