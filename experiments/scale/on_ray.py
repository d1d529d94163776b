"""Ray with two shards on two cores beside two threads: 20 million planted ratings, seconds a sweep, the same labels.

Each fit has a process of its own; they are run in turns, and medians over all sweeps but the first are reported.

Run: python experiments/scale/on_ray.py FOLDER [--million 20] [--turns 3]      (the store is kept in FOLDER)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import itertools

from accams.data.planted import planted_stencils
from common import machine, table

SHAPE = 138_493, 26_744  # of MovieLens 20M
FIT = """
import hashlib, sys
from pathlib import Path
import numpy as np
from accams import BayesianACCAMS, Observations, Priors, Schedule, memory_estimate

def peak(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20

def watch(step):
    times.append(step.seconds)
    if step.sweep == sweeps and engine == "ray":
        of = [each.parent.name for each in Path("/proc").glob("[0-9]*/cmdline") if each.read_bytes()[:5] == b"ray::"]
        peaks.append(max(map(peak, of)))

store, engine, s, sweeps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
times, peaks, obs = [], [], Observations.open(store, trust=True)
schedule = Schedule(n_burn_in=sweeps - 1, thin=1, n_shards=2)
model = BayesianACCAMS(s, 10, engine=engine, n_threads=2, n_sweeps=sweeps, n_chains=1, noise="sampled",
                       priors=Priors(row_noise=4.0), schedule=schedule, verbose=False, callbacks=[watch])
model.fit(obs)
digest = hashlib.sha256()
for each in (*model.stencils_.templates, *model.stencils_.row_labels, *model.stencils_.col_labels):
    digest.update(np.ascontiguousarray(each).tobytes())
if peaks:
    print(f"GiB of a worker: {peaks[0]:.2f}, estimated "
          f"{memory_estimate(obs.shape, obs.nnz, n_stencils=s, engine='ray', n_shards=2) / 2**30:.2f}; "
          f"of the process that fits: {peak('self'):.2f}", file=sys.stderr)
print(digest.hexdigest()[:16], *times)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--million", type=float, default=20.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--stencils", type=int, default=10)
    given = parser.parse_args()
    store = given.folder / f"{given.million:g}M.store"
    if not store.exists():
        share = (given.million / 20.0) ** 0.5
        shape = int(SHAPE[0] * share), int(SHAPE[1] * share)
        made = planted_stencils(shape, 10, 10, nnz=int(1e6 * given.million), noise=0.8, degrees="long-tailed")
        made.observations.to_store(store)
        print(f"made {made.observations}", flush=True)
    each: dict[str, list[float]] = {"cpu": [], "ray": []}
    first: dict[str, list[float]] = {"cpu": [], "ray": []}
    digests = dict[str, set[str]](cpu=set(), ray=set())
    for turn in range(given.turns):
        for engine in ("cpu", "ray"):
            command = [sys.executable, "-c", FIT, str(store), engine, str(given.stencils), str(given.sweeps)]
            digest, *times = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[
                -1 - given.sweeps :
            ]
            ends = list(map(float, times))
            digests[engine].add(digest)
            first[engine].append(ends[0])
            each[engine] += [b - a for a, b in itertools.pairwise(ends)]
            print(
                f"turn {turn}, {engine}: first {ends[0]:.2f} s, then {median(each[engine]):.3f} s a sweep", flush=True
            )
    names = {"cpu": "two threads", "ray": "Ray, two shards"}
    rows = [[names[e], f"{median(first[e]):.1f}", f"{median(each[e]):.3f}", *sorted(digests[e])] for e in each]
    print(table(["engine", "first sweep, s", "sweep, s", "labels and templates"], rows))
    print(f"Ray's speed is {median(each['cpu']) / median(each['ray']):.2f} of that of two threads.")
    visits = 2e6 * given.million * given.stencils / median(each["cpu"]) / 2
    print(f"Two threads visit {visits / 1e6:.0f} million ratings a second and core.")
    print(machine())


if __name__ == "__main__":
    main()
