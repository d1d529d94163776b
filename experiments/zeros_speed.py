"""Time `BayesianACCAMS` of likes: films liked on MovieLens 1M, all other cells observed zeros, 50 stencils, 8 chains.

With `--before`, the `src` folder of another version (``git worktree add ../before COMMIT``, then ../before/src), fits
of both are run in turn, each in a process of its own, and the ratio of their medians is printed. A first fit of three
sweeps compiles.

Run: python experiments/zeros_speed.py [--before FOLDER] [--cores N] [--repeats N] [--sweeps N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from common import ROOT, machine, table, use_local_data

FIT = """
import sys
from time import perf_counter
import numpy as np
from scipy import sparse
from accams import BayesianACCAMS, Observations

path, sweeps = sys.argv[1], int(sys.argv[2])
likes = Observations.from_sparse(sparse.load_npz(path), zeros="observed", zero_weight=0.3)
def fit(n_sweeps):
    began = perf_counter()
    model = BayesianACCAMS(n_stencils=50, noise="sampled", n_chains=8, n_sweeps=n_sweeps, verbose=False).fit(likes)
    return perf_counter() - began, model.train_rmse_
fit(3)
print(*fit(sweeps))
"""


def likes_of_movielens(path: Path) -> None:
    """Write who liked what, but for what leave-ten-out holds out."""
    from scipy import sparse

    from accams.data import datasets
    from lists.protocols import as_matrix, leave_ten_out, weigh

    use_local_data()
    sparse.save_npz(path, weigh(leave_ten_out(as_matrix(datasets.movielens("1m").observations)).ratings, "likes"))


def seconds_and_error(source: Path, likes: Path, sweeps: int, cores: int | None) -> tuple[float, float]:
    """Return the time of a fit by the code in a folder, and its training error."""

    def pin() -> None:
        if cores is not None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])

    command = [sys.executable, "-c", FIT, str(likes), str(sweeps)]
    where = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=where, preexec_fn=pin, check=True, stdout=subprocess.PIPE, text=True)
    took, error = map(float, done.stdout.split()[-2:])
    return took, error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="src folder of another version")
    parser.add_argument("--cores", type=int, help="run on so many cores only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=60)
    given = parser.parse_args()
    sources = {"this version": ROOT / "src"}
    if given.before is not None:
        if not (given.before / "accams").is_dir():
            parser.error(f"{given.before} has no folder accams: pass the src folder of another version")
        sources["before"] = given.before.resolve()
    times: dict[str, list[float]] = {name: [] for name in sources}
    errors = dict.fromkeys(sources, 0.0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "likes.npz"
        likes_of_movielens(path)
        for _ in range(given.repeats):
            for name, source in sources.items():
                took, errors[name] = seconds_and_error(source, path, given.sweeps, given.cores)
                times[name].append(took)
                print(f"{name}: {took:.1f} s", flush=True)
    lines = [[name, f"{median(each):.1f}", f"{errors[name]:.4f}"] for name, each in times.items()]
    print(table(["code", "seconds (median)", "training RMSE"], lines))
    if "before" in times:
        print(f"{median(times['before']) / median(times['this version']):.1f} times as fast")
    print(machine())


if __name__ == "__main__":
    main()
