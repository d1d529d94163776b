"""Fuzz everything that comes from outside: `make fuzz`, or `python tests/fuzz/run.py --help`.

Every case is made from the seed, the target and its number, so a fault is repeated with
`python tests/fuzz/run.py --only model --first 1234 --cases 1`. Cases run in processes of their own with a limit on
memory; one that dies, hangs or takes more than its bounds is counted, and the next goes on behind it. Kernels are
compiled with bounds checks.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

SLOW = 20.0  # seconds of processor time that a case may take, besides kernels that are compiled in it
HANGING = 300.0  # seconds after which a process is ended
MEMORY = 768 << 20  # bytes by which the resident memory may grow over what it was before the first case
HARD = 64 << 30  # bytes of address space beyond that of a started process: a database reserves much for each core
TOGETHER = 2000  # cases of one process: all targets get their turn
OUTCOMES = ("refused", "accepted", "fault")


def work(target: str, first: int, last: int, seed: int) -> None:
    """Run cases in this process; a line before and after each."""
    import numpy as np
    from numba.core import event
    from targets import TARGETS, check_message

    from accams.errors import AccamsError

    faulthandler.enable()
    compiling = event.TimingListener()
    event.register("numba:compile", compiling)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 if Path("/proc/self/statm").exists() else 0
    resource.setrlimit(resource.RLIMIT_AS, (size + HARD, size + HARD))
    use, peak = TARGETS[target], 0
    for number in range(first, last):
        say({"begin": number})
        random = case(target, number, seed)
        folder, outcome, what = Path(tempfile.mkdtemp(prefix="accams-fuzz-")), "accepted", ""
        began, before = time.process_time(), compiling.duration if compiling.done else 0.0
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                use(folder, random)
        except AccamsError as error:
            outcome = "refused"
            try:
                check_message(error)
            except Exception as worse:
                outcome, what = "fault", str(worse)
        except BaseException as error:
            outcome, what = "fault", f"{type(error).__name__}: {str(error)[:300]}"
        shutil.rmtree(folder, ignore_errors=True)
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        grown, peak = (now - peak if peak else 0), max(peak, now)
        if grown > MEMORY:
            outcome, what = "fault", f"it took {grown >> 20:,} MB"
        compiled = compiling.duration - before if compiling.done else 0.0
        seconds = time.process_time() - began - compiled
        if seconds > SLOW:
            outcome, what = "fault", f"it took {seconds:.0f} s"
        say({"end": number, "outcome": outcome, "what": what, "seconds": seconds})


def case(target: str, number: int, seed: int = 0) -> Any:
    """Return the random numbers of a case."""
    import numpy as np

    return np.random.default_rng([seed, crc32(target.encode()), number])


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


class Worker:
    """A process with cases of one target; started again behind one that ends it."""

    def __init__(self, target: str, first: int, last: int, seed: int) -> None:
        self.target, self.next, self.last, self.seed = target, first, last, seed
        self.counts, self.faults, self.slowest = Counter[str](), list[tuple[int, str]](), 0.0
        self.process: subprocess.Popen[str] | None = None
        self.since, self.current = time.monotonic(), -1

    def start(self) -> None:
        command = [sys.executable, __file__, "--work", self.target, str(self.next), str(self.last), str(self.seed)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.since, self.current = time.monotonic(), -1

    def read(self) -> bool:
        """Take in a line; return False at the end of the process."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return False
        told = json.loads(line)
        self.since = time.monotonic()
        if "begin" in told:
            self.current = told["begin"]
        else:
            self.next, self.current = told["end"] + 1, -1
            self.counts[told["outcome"]] += 1
            if told["outcome"] == "fault":
                self.faults.append((told["end"], told["what"]))
            self.slowest = max(self.slowest, told["seconds"])
        return True

    def ended(self, what: str) -> None:
        """Count the case that ended the process."""
        at = self.current if self.current >= 0 else self.next
        self.counts["fault"] += 1
        self.faults.append((at, what))
        self.next = at + 1

    def stop(self) -> int:
        assert self.process is not None
        self.process.kill()
        return self.process.wait()


def run(workers: list[Worker], at_once: int, deadline: float) -> None:
    """Run all of them, so many at a time, until the deadline."""
    waiting, running = list(workers), list[Worker]()
    while (waiting or running) and time.monotonic() < deadline:
        while waiting and len(running) < at_once:
            worker = waiting.pop(0)
            worker.start()
            running.append(worker)
        outputs = {worker.process.stdout: worker for worker in running if worker.process is not None}
        for output in select.select(list(outputs), [], [], 1.0)[0]:
            worker = outputs[output]
            if worker.read():
                continue
            code = worker.stop()
            running.remove(worker)
            if worker.next < worker.last:
                worker.ended(f"the process ended with {code} ({signal.Signals(-code).name if code < 0 else 'exit'})")
                waiting.append(worker)
        for worker in list(running):
            if time.monotonic() - worker.since > HANGING:
                worker.stop()
                running.remove(worker)
                worker.ended(f"no end after {HANGING:.0f} s")
                waiting.append(worker)
    for worker in running:
        worker.stop()


def show(workers: list[Worker]) -> int:
    """Print what was found; return the number of faults."""
    print(f"{'target':12}{'cases':>9}{'refused':>9}{'accepted':>9}{'faults':>8}{'slowest s':>11}")
    names = list(dict.fromkeys(worker.target for worker in workers))
    for name in names:
        own = [worker for worker in workers if worker.target == name]
        counts = sum((worker.counts for worker in own), Counter[str]())
        numbers = "".join(f"{counts[x]:{width}}" for x, width in zip(OUTCOMES, (9, 9, 8), strict=True))
        slowest = max(worker.slowest for worker in own)
        print(f"{name:12}{counts.total():9}{numbers}{slowest:11.2f}")
    faults = [(worker.target, *fault) for worker in workers for fault in worker.faults]
    alike = Counter[tuple[str, str]]()
    for target, number, what in faults:
        alike[target, what[:30]] += 1
        if alike[target, what[:30]] <= 3:
            print(f"fault: --only {target} --first {number} --cases 1: {what}")
    print(f"{sum(worker.counts.total() for worker in workers):,} cases, {len(faults)} faults")
    return len(faults)


def main() -> int:
    from targets import TARGETS

    parser = argparse.ArgumentParser(description="Fuzz everything that comes from outside.")
    parser.add_argument("--cases", type=int, default=1000, help="of each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work[0], *map(int, given.work[1:]))
        return 0
    size = min(TOGETHER, max(1, given.cases * len(given.only) // (2 * given.workers)))
    last = given.first + given.cases
    starts = range(given.first, last, size)
    workers = [Worker(name, lo, min(lo + size, last), given.seed) for lo in starts for name in given.only]
    began = time.monotonic()
    run(workers, given.workers, began + given.seconds)
    return min(1, show(workers))


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if os.environ["NUMBA_BOUNDSCHECK"] == "1":  # numba's cache does not tell these kernels from others
        os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parents[2] / "build" / "fuzz-kernels")
    sys.exit(main())
