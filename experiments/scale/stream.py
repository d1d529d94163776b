"""A fit within a memory limit of 1 GiB, which streams its store, beside the same fit in memory: time and peak memory.

Run: python experiments/scale/stream.py STORE [--sweeps 3] [--stencils 10]      (STORE by experiments/scale/ingest.py)
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
from accams import BayesianACCAMS, Observations
store, engine, s, sweeps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
times = []
def watch(step):
    times.append(step.seconds)
obs = Observations.open(store, verify=False)
opened = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
limit = 2.0**30 if engine == "disk" else None
model = BayesianACCAMS(s, 10, engine="auto", memory_limit=limit, n_sweeps=sweeps, n_burn_in=sweeps - 1,
                       thin=1, n_chains=1, noise="sampled", row_noise=None, verbose=False, callbacks=[watch])
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
    given = parser.parse_args()
    rows = []
    for engine in ("disk", "cpu"):
        command = [sys.executable, "-c", FIT, str(given.store), engine, str(given.stencils), str(given.sweeps)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        *numbers, digest = done.stdout.split()
        first, each, whole, opened, peak = map(float, numbers)
        sizes = f"{opened / 2**30:.2f}", f"{peak / 2**30:.2f}"
        rows.append([engine, f"{first:.1f}", f"{each:.2f}", f"{whole:.1f}", *sizes, digest])
        print(*rows[-1], flush=True)
    head = ["engine", "first sweep, s", "sweep, s", "fit, s", "GiB opened", "GiB peak", "labels and templates"]
    print(table(head, rows))
    print(machine())


if __name__ == "__main__":
    main()
