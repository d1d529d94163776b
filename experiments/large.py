"""Distilling at the shape of Netflix: how much memory and time it takes, and how close it comes.

Planted data of 480,189 x 17,770 with 5 million observations; `BayesianACCAMS` with a few draws makes the model, and a
new process opens its file and distils it. The peak memory is that of the new process; the distance is over cells drawn
by activity, as they count.

Run: python experiments/large.py [--model FILE] [--kilobytes 1000 4000]      (FILE keeps the model between runs)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from accams import BayesianACCAMS, Priors, Schedule
from accams.data.planted import planted_stencils
from common import machine, table

SHAPE, OBSERVATIONS = (480_189, 17_770), 5_000_000

DISTIL = """
import resource, sys, time
import numpy as np
import accams
from accams.model import file
model = accams.load(sys.argv[1])
opened = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
small = model.distill(int(sys.argv[2]), verbose=False)
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
random = np.random.default_rng(1)
i, j = (random.choice(len(w), 200000, p=w / w.sum()) for w in model.activity)
whole = model.posterior.predict(i, j)
away = np.sqrt(np.mean((small.predict(i, j) - whole) ** 2))
print(len(file.to_bytes(small)), len(small), took, opened / 2**20, peak / 2**20, away, whole.std())
"""


def fit(path: Path) -> None:
    data = planted_stencils(SHAPE, 10, 6, nnz=OBSERVATIONS, noise=0.8, scale=0.35, offset=3.6, degrees="long-tailed")
    priors, schedule = Priors(row_noise=None), Schedule(n_burn_in=20, max_draws=20)
    model = BayesianACCAMS(20, n_chains=2, n_sweeps=30, noise="sampled", priors=priors, schedule=schedule)
    model.fit(data.observations).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        fit(given.fit)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = given.model or Path(folder) / "model.accams"
        if not path.is_file():  # in a process of its own: what this one holds would count as the peak of the next
            subprocess.run([sys.executable, __file__, "--fit", str(path)], check=True)
        rows = []
        for size in given.kilobytes:
            done = subprocess.run(
                [sys.executable, "-c", DISTIL, str(path), str(1000 * size)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            bytes_, stencils, took, opened, peak, away, spread = map(float, done.stdout.split())
            rows.append(
                [size, f"{bytes_:,.0f}", f"{stencils:.0f}", f"{away:.3f} of {spread:.3f}", f"{took:.0f}"]
                + [f"{opened:.2f}", f"{peak:.2f}"]
            )
            print(*rows[-1], flush=True)
    print(table(["KB", "bytes", "stencils", "RMS distance", "seconds", "GiB opened", "GiB peak"], rows))
    print(machine())


if __name__ == "__main__":
    main()
