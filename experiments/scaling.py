"""Time and memory of a fit against the number of ratings (planted, Netflix-shaped rows and columns).

Run: python experiments/scaling.py [millions ...]      default 1 5 20 100
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter

from accams import ACCAMS, memory_estimate
from accams.data.planted import planted_stencils
from common import machine, table


def one(millions: int) -> None:
    """One size in its own process: prints nnz, seconds per stencil and alternation, peak memory, estimate."""
    nnz = millions * 1_000_000
    shape = (max(1000, 480_189 * millions // 100), 17_770)
    planted = planted_stencils(shape, 4, 10, nnz=nnz, noise=0.8, random_state=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = perf_counter()
    model = ACCAMS(4, 10, max_iter=10, tol=0.0, learning_rate=0.5, verbose=False).fit(planted.observations)
    took = perf_counter() - began
    rounds = sum(step.iterations for step in model.history_)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    estimate = memory_estimate(shape, planted.observations.nnz, n_stencils=4)
    print(planted.observations.nnz, took, rounds, max(before, peak) * 1024, estimate, flush=True)


def main(sizes: list[int]) -> None:
    rows: list[list[object]] = []
    for millions in sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(millions)], capture_output=True, text=True, check=True
        )
        nnz, took, rounds, peak, estimate = (float(x) for x in done.stdout.split()[-5:])
        rows.append(
            [
                f"{nnz / 1e6:.0f}", f"{took:.1f}", f"{took / 4:.2f}", f"{1e9 * took / rounds / nnz:.1f}",
                f"{peak / 1e9:.2f}", f"{estimate / 1e9:.2f}", f"{estimate / nnz:.1f}",
            ]
        )  # fmt: skip
        print(rows[-1], flush=True)
    header = [
        "million ratings",
        "fit, s",
        "s per stencil",
        "ns per rating and alternation",
        "peak GB (with planting)",
    ]
    print(table([*header, "memory_estimate GB", "bytes per rating"], rows))
    print(machine())


if __name__ == "__main__":
    if "--one" in sys.argv:
        one(int(sys.argv[-1]))
    else:
        main([int(x) for x in sys.argv[1:]] or [1, 5, 20, 100])
