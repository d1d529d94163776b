"""Prediction intervals of users and items never seen, on dense ratings: coverage of 80 and 95 % intervals.

All ratings of a twentieth of the users and of a twentieth of the items are held out, and a tenth of the others. Ratings
are discrete, so coverage is that of the randomised probability integral transform, as in `tables.py`; Jester's are
steps of 0.01, where this is plain coverage.

Run: python experiments/unseen.py [--sets ml-100k ml-1m jester] [--seeds 0 1 2] [--sweeps 40]
"""

from __future__ import annotations

import argparse

import numpy as np

from accams import BayesianACCAMS, Observations
from accams.data import datasets
from common import machine, table, use_local_data
from tables import Forecast, Ints, covered, transformed

SETS = ("ml-100k", "ml-1m", "jester")
SHARE = 0.05
KINDS = ("both known", "new user", "new item", "both new")


def observations(name: str) -> Observations:
    found = datasets.jester() if name == "jester" else datasets.movielens(name.removeprefix("ml-"))
    return found.observations


def measured(name: str, seed: int, sweeps: int) -> list[list[str]]:
    """Return a line for each kind of cell."""
    obs, random = observations(name), np.random.default_rng(seed)
    rows, cols, values = obs.coo()
    new = [random.random(size) < SHARE for size in obs.shape]
    kind: Ints = new[0][rows] + 2 * new[1][cols]
    test = (kind > 0) | (random.random(len(values)) < 0.1)
    part = Observations.from_coo(rows[~test], cols[~test], values[~test], shape=obs.shape)
    model = BayesianACCAMS(n_sweeps=sweeps, random_state=seed, verbose=False).fit(part)
    mean, std = model.predict(np.stack([rows, cols], axis=1)[test], return_std=True)
    u = transformed(values[test], Forecast(mean, std, 0.0), np.unique(values))
    lines = []
    for number, what in enumerate(KINDS):
        here = kind[test] == number
        shares = [covered(u[here], level) for level in (0.8, 0.95)]
        error = np.sqrt(np.mean((mean[here] - values[test][here]) ** 2))
        lines.append([name, str(seed), what, f"{here.sum():,}", f"{error:.4f}", *shares])
        print(*lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--sweeps", type=int, default=40)
    given = parser.parse_args()
    use_local_data()
    lines = [line for name in given.sets for seed in given.seeds for line in measured(name, seed, given.sweeps)]
    print(table(["set", "seed", "cells", "number", "RMSE", "80 %", "95 %"], lines))
    print(machine())


if __name__ == "__main__":
    main()
