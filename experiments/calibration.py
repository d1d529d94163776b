"""Why the noise collapses, and what the calibration does about it: the study behind docs/calibration.md.

On each data set a tenth of the entries is held out. For noise levels held at a range of values: error of the draws on
the training part, of single draws and of the chains' average on the held-out part, and the entropy of row labels.
Beside them, where the sampled noise goes, and what `noise="calibrated"` finds. Writes calibration.csv,
calibration-paths.json and the figures of the page.

Run: python experiments/calibration.py [--sets planted ml-100k jester ml-1m] [--sweeps 150] [--figures docs/figures]
"""

from __future__ import annotations

import argparse
import csv
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, use_local_data

from accams.data import datasets
from accams.data.observations import Observations
from accams.data.planted import planted_stencils
from accams.data.splits import random_split
from accams.estimators.bayes_settings import setup_of
from accams.estimators.bayesian import BayesianACCAMS
from accams.fit.chains import Chains

HERE = Path(__file__).resolve().parent
SHARES = (0.1, 0.16, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8)  # noise variance as a share of the data's
N_CHAINS = 4
PLANTED_SIGMA = 0.5
COLUMNS = ("set", "row_noise", "share", "sigma2", "train", "draw", "mean", "every_chain", "entropy", "moved")


def observations(name: str) -> Observations:
    """A data set by name."""
    if name == "planted":
        return planted_stencils(
            (600, 400), n_stencils=4, n_clusters=5, density=0.1, noise=PLANTED_SIGMA, random_state=0
        ).observations
    return (
        datasets.jester().observations
        if name == "jester"
        else datasets.movielens(name.removeprefix("ml-")).observations
    )


def chains_at(training: Observations, sigma: float | str, row_noise: Any) -> Chains:
    """Chains as `BayesianACCAMS` would make them, on one thread."""
    setup = setup_of(BayesianACCAMS(noise=sigma, row_noise=row_noise), training, 0)
    return Chains(training, "cpu", setup.priors, N_CHAINS, setup.sigma2, setup.tau2, 1)


def entropy_of(chains: Chains) -> float:
    """Mean entropy of a row's label given all else, in bits."""
    chain = chains.chains[0]
    shares, ends = chain.row_shares()[:-1] / 255.0, np.cumsum([len(T) + 1 for T in chain.state.templates])
    parts = [p / np.maximum(p.sum(axis=1, keepdims=True), 1e-9) for p in np.split(shares, ends[:-1], axis=1)]
    return float(np.mean([-np.sum(p * np.log2(np.maximum(p, 1e-12)), axis=1).mean() for p in parts]))


def held(job: tuple[str, float, Any, int]) -> dict[str, Any]:
    """One noise level: what the chains come to."""
    name, share, row_noise, sweeps = job
    use_local_data()
    training, test = random_split(observations(name), 0.1, 0)
    rows, cols, y = test.coo()
    sigma2 = share * float(np.var(training.values))
    chains = chains_at(training, float(np.sqrt(sigma2)), row_noise)
    total, drawn, moved = np.zeros((N_CHAINS, len(y))), 0.0, 0.0
    kept = sweeps - sweeps // 4
    for sweep in range(sweeps):
        for chain in chains.chains:
            chain.normalise_rows = sweep < sweeps // 4
        chains.run_sweep()
        if sweep >= sweeps // 4:
            f = chains.predict_at(rows, cols)
            total += f / kept
            drawn += float(np.mean((f - y) ** 2)) / kept
            moved += float(np.mean([chain.moved for chain in chains.chains])) / kept
    state = chains.chains[0].state
    mean = total.mean(axis=0)
    return {
        "set": name,
        "row_noise": "none" if row_noise is None else row_noise,
        "share": share,
        "sigma2": sigma2,
        "train": np.mean([c.state.squared_error(row_weighted=True) for c in chains.chains]) / training.total_weight(),
        "draw": drawn,
        "mean": float(np.mean((mean - y) ** 2)),
        "every_chain": float(np.mean((total - y) ** 2)),
        "entropy": entropy_of(chains),
        "moved": moved / (sum(state.shape) * len(state.templates)),
    }


def paths(name: str, sweeps: int) -> dict[str, Any]:
    """Where the sampled noise goes, and what the calibration finds."""
    use_local_data()
    training, _ = random_split(observations(name), 0.1, 0)
    sampled = chains_at(training, "sampled", None)
    path = []
    for _ in range(sweeps):
        sampled.run_sweep()
        path.append(float(np.mean([chain.sigma2 for chain in sampled.chains])))
    model = BayesianACCAMS(n_sweeps=1, n_threads=1, verbose=False).fit(training)
    found = model.calibration_
    return {"set": name, "sampled": path, "levels": found.levels, "errors": found.errors, "sigma2": found.sigma2}


def write(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows([{k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])


def figure(rows: list[dict[str, Any]], found: dict[str, Any], path: Path) -> None:
    """Errors and entropy against the noise that is held."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = sorted((r for r in rows if r["row_noise"] != "none"), key=lambda r: r["sigma2"])
    x = [r["sigma2"] for r in rows]
    fig, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, label in (
        ("train", "training, single draw"),
        ("draw", "held out, single draw"),
        ("mean", "held out, mean"),
    ):
        left.plot(x, [r[name] for r in rows], "o-", ms=3, label=label)
    left.plot(x, x, "k:", lw=1, label="the level itself")
    left.axvline(found["sigma2"], color="grey", lw=1, ls="--", label="calibrated")
    left.set(xlabel="noise variance held", ylabel="mean squared error", xscale="log")
    left.legend(fontsize=7, frameon=False)
    right.plot(x, [r["entropy"] for r in rows], "o-", ms=3)
    right.set(xlabel="noise variance held", ylabel="entropy of a row label (bits)", xscale="log", ylim=(0, None))
    fig.suptitle(rows[0]["set"])
    fig.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["planted", "ml-100k", "jester", "ml-1m"])
    parser.add_argument("--sweeps", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures")
    given = parser.parse_args()
    given.figures.mkdir(parents=True, exist_ok=True)
    jobs = [(name, share, noise, given.sweeps) for name in given.sets for share in SHARES for noise in ("auto", None)]
    with ProcessPoolExecutor(given.jobs) as pool:
        following = [pool.submit(paths, name, given.sweeps) for name in given.sets]
        rows = list(pool.map(held, jobs))
        found = [each.result() for each in following]
    write(given.out / "calibration.csv", rows, COLUMNS)
    (given.out / "calibration-paths.json").write_text(json.dumps(found))
    for each in found:
        figure([r for r in rows if r["set"] == each["set"]], each, given.figures / f"calibration-{each['set']}.svg")
        print(each["set"], "calibrated", round(each["sigma2"], 4), "sampled ends at", round(each["sampled"][-1], 4))


if __name__ == "__main__":
    main()
