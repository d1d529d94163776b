"""What a sweep of BayesianACCAMS costs: linear in ratings, stencils and sweeps (planted ratings, one chain).

Run: python experiments/bayes_cost.py [--largest 16]       (in million ratings)
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

from accams import BayesianACCAMS, Schedule
from accams.data.observations import Observations
from accams.data.planted import planted_stencils
from common import machine, table

SWEEPS = 25


def planted(millions: float) -> Observations:
    """Ratings with as many rows per rating as MovieLens 1M."""
    shape = (int(6040 * millions), 3706)
    return planted_stencils(shape, 4, 10, nnz=int(1e6 * millions), noise=0.8, random_state=0).observations


def times(observations: Observations, n_stencils: int, n_sweeps: int) -> list[float]:
    """Seconds of each sweep."""
    schedule = Schedule(init="prior", max_draws=1)
    model = BayesianACCAMS(n_stencils, noise=0.8, n_chains=1, n_sweeps=n_sweeps, schedule=schedule, verbose=False)
    model.fit(observations)
    return np.diff([sweep.seconds for sweep in model.history_]).tolist()


def line(label: object, took: list[float], work: float) -> list[object]:
    return [label, f"{1e3 * median(took):.0f}", f"{1e9 * median(took) / work:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=16)
    largest = parser.parse_args().largest
    sizes = [m for m in (1, 2, 4, 8, 16, 32, 64) if m <= largest]
    rows = []
    for millions in sizes:
        observations = planted(millions)
        rows.append(line(millions, times(observations, 10, SWEEPS), 10 * observations.nnz))
    print(table(["million ratings (10 stencils)", "ms a sweep", "ns per rating and stencil"], rows) + "\n")
    one = planted(1)
    rows = [line(s, times(one, s, SWEEPS), s * one.nnz) for s in (5, 10, 20, 40, 80, 160)]
    print(table(["stencils (1 million ratings)", "ms a sweep", "ns per rating and stencil"], rows) + "\n")
    whole = times(one, 10, 401)
    rows = [[n, f"{sum(whole[:n]):.2f}", f"{1e3 * sum(whole[:n]) / n:.0f}"] for n in (50, 100, 200, 400)]
    print(table(["sweeps (1 million ratings, 10 stencils)", "seconds in all", "ms a sweep"], rows))
    print(machine())


if __name__ == "__main__":
    main()
