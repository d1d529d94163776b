"""BayesianACCAMS where every cell is known: the CMU faces (dense engine) and the Oregon-2 graph (blanks are zeros).

Beside ACCAMS of the same shape: relative error of one draw, of the mean over all draws, and 90 % intervals.

Run: python experiments/bayes_matrices.py [--sweeps 40]
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from accams import ACCAMS, BayesianACCAMS, Priors, Schedule
from accams.data import datasets
from accams.data.observations import Observations
from common import machine, table, use_local_data

MOST = 400_000  # cells of a kind that are looked at


def cells(observations: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Some of the stored cells and of the blanks, their values, and how many cells each of them stands for."""
    rows, cols, values = observations.coo()
    random, (m, n) = np.random.default_rng(0), observations.shape
    pick = random.permutation(len(values))[:MOST]
    stored = rows[pick], cols[pick], values[pick], np.full(len(pick), len(values) / len(pick))
    if observations.blank_weight is None:
        return stored
    blank = np.setdiff1d(random.integers(m * n, size=MOST), rows.astype(np.int64) * n + cols)
    zeros = blank // n, blank % n, np.zeros(len(blank)), np.full(len(blank), (m * n - len(values)) / len(blank))
    return tuple(np.concatenate(pair) for pair in zip(stored, zeros, strict=True))  # type: ignore[return-value]


def line(name: str, observations: Observations, model: ACCAMS | BayesianACCAMS) -> list[object]:
    """Fit, and measure."""
    rows, cols, y, weight = cells(observations)
    began = perf_counter()
    model.fit(observations)
    took = perf_counter() - began

    def relative(found: np.ndarray) -> float:
        return float(np.sqrt((weight * (found - y) ** 2).sum() / (weight * y**2).sum()))

    one = relative(model.stencils_.predict(rows, cols))
    if isinstance(model, ACCAMS):
        return [name, f"{one:.4f}", "", "", "", f"{took:.1f}"]
    mean, interval = model.posterior_.predict(rows, cols, quantiles=[0.05, 0.95])
    inside = np.average((y >= interval[:, 0]) & (y <= interval[:, 1]), weights=weight)
    return [name, f"{one:.4f}", f"{relative(mean):.4f}", f"{inside:.1%}", f"{model.sigma_:.3g}", f"{took:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=40)
    sweeps = parser.parse_args().sweeps
    use_local_data()
    header = ["model", "one draw", "mean of draws", "90 % intervals cover", "sigma", "seconds"]
    for title, observations in (
        ("faces", datasets.faces().observations),
        ("Oregon-2", datasets.as_graph("oregon2").observations),
    ):
        rows = [line("ACCAMS 8 x 16", observations, ACCAMS(8, 16, verbose=False))]
        for sampler, prior in (("blocked", "dirichlet"), ("collapsed", "crp")):
            priors, schedule = Priors(labels=prior), Schedule(sampler=sampler)
            model = BayesianACCAMS(8, 16, n_chains=2, n_sweeps=sweeps, priors=priors, schedule=schedule, verbose=False)
            rows.append(line(f"{sampler}, {prior}", observations, model))
        print(f"{title}: {observations}\n\n{table(header, rows)}\n", flush=True)
    print(machine())


if __name__ == "__main__":
    main()
