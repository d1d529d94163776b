"""A fit within a memory limit of 1 GiB, which streams its store, beside the same fit in memory, and on Ray with two
shards: time and peak memory of the process that fits.

Run: python experiments/scale/stream.py STORE [--sweeps 4] [--stencils 10] [--noise sampled] [--limit 1]
     [--engines disk cpu ray]
(STORE by experiments/scale/ingest.py; with --noise calibrated, eight chains look for the noise first)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import machine, table

FIT = """
import hashlib, resource, sys, time
import numpy as np
from accams import BayesianACCAMS, Observations, Priors, Schedule
store, engine, noise, s, sweeps, limit = *sys.argv[1:4], *map(int, sys.argv[4:6]), float(sys.argv[6])
times = []
def watch(step):
    times.append(step.seconds)
obs = Observations.open(store, trust=True)
opened = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
schedule = Schedule(n_burn_in=sweeps - 1, thin=1, n_shards=2,
                    memory_limit=limit * 2.0**30 if engine == "disk" else None)
model = BayesianACCAMS(s, 10, engine="ray" if engine == "ray" else "auto", n_sweeps=sweeps, n_chains=1, noise=noise,
                       priors=Priors(row_noise=None), schedule=schedule, verbose=False, callbacks=[watch])
model.fit(obs)
assert model.engine_ == engine
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
stencils = model.stencils_
digest = hashlib.sha256()
for each in (*stencils.templates, *stencils.row_labels, *stencils.col_labels):
    digest.update(np.ascontiguousarray(each).tobytes())
print(times[0], float(np.median(np.diff(times))), times[-1], opened, peak, digest.hexdigest()[:16])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--stencils", type=int, default=10)
    parser.add_argument("--noise", choices=["sampled", "calibrated"], default="sampled")
    parser.add_argument("--engines", nargs="+", choices=["disk", "cpu", "ray"], default=["disk", "cpu", "ray"])
    parser.add_argument("--limit", type=float, default=1.0, help="GiB [%(default)s]")
    given = parser.parse_args()
    rows = []
    for engine in given.engines:
        numbers = given.stencils, given.sweeps, given.limit
        command = [sys.executable, "-c", FIT, str(given.store), engine, given.noise, *map(str, numbers)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        *found, digest = done.stdout.split()
        first, each, whole, opened, peak = map(float, found)
        sizes = f"{opened / 2**30:.2f}", f"{peak / 2**30:.2f}"
        rows.append([engine, f"{first:.1f}", f"{each:.2f}", f"{whole:.1f}", *sizes, digest])
        print(*rows[-1], flush=True)
    head = ["engine", "first sweep, s", "sweep, s", "fit, s", "GiB opened", "GiB peak", "labels and templates"]
    print(table(head, rows))
    print(machine())


if __name__ == "__main__":
    main()
