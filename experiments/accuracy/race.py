"""How long until myFM's accuracy on MovieLens 1M? Ours and myFM, one after the other, on the same cores.

myFM samples on one core, so it gets a chain per core (2), which are averaged: a result of n iterations is the mean of
the last two thirds of them. Ours is a whole fit, calibration included: a short one, and the defaults.
Times are of fitting alone, without reading data, compiling or predicting. The data of `export.py`, split of seed 0.

Run: python experiments/accuracy/race.py --data DIR [--rival PYTHON] [--rank 20] [--iterations 300]
PYTHON: the interpreter of an environment that has myfm 0.4.0; it runs this file with --myfm.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from libraries import Job, Part, one_hot, parts, score

JOB = Job("ml-1m", 0, "myfm")
CHAINS, WARM = 2, 100_000
OURS: list[dict[str, Any]] = [{"n_sweeps": 40}, {}]


def myfm(given: argparse.Namespace) -> None:
    """One chain: writes its prediction after each iteration, and the time until then without predicting."""
    from myfm import MyFMRegressor

    train, test = parts(JOB, given.data)
    X, X_test, shapes = one_hot(train, test)
    predictions, times, paused = [], [], 0.0
    began = perf_counter()

    def note(_: int, fm: Any, *others: Any) -> tuple[bool, None]:
        nonlocal paused
        now = perf_counter()
        times.append(now - began - paused)
        predictions.append(fm.predict_score(X_test, []).astype(np.float32))
        paused += perf_counter() - now
        return False, None

    model = MyFMRegressor(rank=given.rank, random_seed=given.myfm)
    model.fit(X, train.values, group_shapes=shapes, n_iter=given.iterations, n_kept_samples=1, callback=note)
    np.savez(given.data / f"race-{given.myfm}.npz", predictions=predictions, times=times)


def rival(given: argparse.Namespace, train: Part, test: Part) -> list[tuple[str, float, float]]:
    """Both chains at once, each on a core; what they come to after some iterations."""
    options = ["--data", str(given.data), "--rank", str(given.rank), "--iterations", str(given.iterations)]

    def run(chain: int) -> tuple[np.ndarray, np.ndarray]:
        subprocess.run([given.rival, __file__, *options, "--myfm", str(chain)], check=True, stderr=subprocess.DEVNULL)
        with np.load(given.data / f"race-{chain}.npz") as file:
            return file["predictions"], file["times"]

    with ThreadPoolExecutor(CHAINS) as pool:
        chains = list(pool.map(run, range(1, CHAINS + 1)))
    found = []
    for n in sorted({given.iterations, *(n for n in (30, 60, 100, 150, 200, 300) if n < given.iterations)}):
        mean = np.mean([each[n // 3 : n].mean(axis=0, dtype=np.float64) for each, _ in chains], axis=0)
        took = max(float(times[n - 1]) for _, times in chains)
        found.append((f"myFM rank {given.rank}, {n} iterations", took, score(mean, train, test)[0]))
    return found


def ours(setting: dict[str, Any], train: Part, test: Part) -> tuple[str, float, float]:
    """A fit of `BayesianACCAMS`."""
    from sklearn.base import clone

    from accams import BayesianACCAMS

    pairs, asked = (np.column_stack([part.rows, part.cols]) for part in (train, test))
    model = BayesianACCAMS(verbose=False, random_state=0).set_params(**setting)
    clone(model).set_params(n_sweeps=2).fit(pairs[:WARM], train.values[:WARM])  # compiles the kernels
    began = perf_counter()
    model.fit(pairs, train.values)
    took = perf_counter() - began
    name = ", ".join(f"{key}={value}" for key, value in setting.items()) or "defaults"
    return f"BayesianACCAMS, {name}", took, score(model.predict(asked), train, test)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of export.py")
    parser.add_argument("--rival", help="Python that has myfm; only ours without")
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--settings", type=json.loads, default=OURS, help="of ours: a list of parameters as JSON")
    parser.add_argument("--myfm", type=int, help="run as a chain of myFM with this seed")
    given = parser.parse_args()
    if given.myfm is not None:
        return myfm(given)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from common import machine, table

    train, test = parts(JOB, given.data)
    rows = [] if given.rival is None else rival(given, train, test)
    rows += [ours(each, train, test) for each in given.settings]
    print(table(["model", "seconds", "test RMSE"], [[n, f"{t:.0f}", f"{e:.4f}"] for n, t, e in rows]))
    if given.rival is None:
        return
    best = min(e for n, _, e in rows if n.startswith("myFM"))
    theirs = [min(t for n, t, e in rows if n.startswith("myFM") and e <= best + more) for more in (0.0, 2e-4)]
    mine = min((t for n, t, e in rows if n.startswith("Bayesian") and e <= best), default=np.inf)
    print(f"myFM's best, {best:.4f}: after {theirs[0]:.0f} s (0.0002 above it: {theirs[1]:.0f} s); ours: {mine:.0f} s")
    print(machine())


if __name__ == "__main__":
    main()
