"""Why the noise collapses, and what the calibration does about it: the study behind docs/calibration.md.

On each data set a tenth of the entries is held out. For noise levels held at a range of values: error of the draws on
the training part, of single draws and of the chains' average on the held-out part, and the entropy of row labels.
Beside them, where the sampled noise goes, and what `noise="calibrated"` finds: all with 30 stencils of 10 x 10 unless
said. Writes calibration.csv, calibration-paths.json (results of other sets stay) and the figures of the page.

Run: python experiments/calibration.py [--sets planted ml-100k jester ml-1m] [--sweeps 150] [--show]
"""

from __future__ import annotations

import argparse
import csv
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from accams.data import datasets
from accams.data.observations import Observations
from accams.data.planted import planted_stencils
from accams.data.splits import random_split
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.planning import plan_of
from accams.fit.chains import Chains
from accams.settings.bayesian import Priors
from common import ROOT, table, use_local_data

HERE = Path(__file__).resolve().parent
SHARES = (0.1, 0.16, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8)  # noise variance as a share of the data's
PLANTED_SHARES = (0.016, 0.025, 0.04, 0.063, 0.1, 0.16, 0.25, 0.4)
NOISES = ("auto", "none")
STENCILS = (5, 10, 30)
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


def chains_at(training: Observations, sigma: float | str, row_noise: Any, n_stencils: int = 30) -> Chains:
    """Chains as `BayesianACCAMS` would make them, on one thread."""
    model = BayesianACCAMS(n_stencils, 10, noise=sigma, priors=Priors(row_noise=row_noise))
    plan = plan_of(model, training, 0)
    return Chains(training, "cpu", plan.hyper, N_CHAINS, plan.sigma2, plan.tau2, 1)


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
        "row_noise": row_noise or "none",
        "share": share,
        "sigma2": sigma2,
        "train": np.mean([c.state.squared_error(row_weighted=True) for c in chains.chains]) / training.total_weight(),
        "draw": drawn,
        "mean": float(np.mean((mean - y) ** 2)),
        "every_chain": float(np.mean((total - y) ** 2)),
        "entropy": entropy_of(chains),
        "moved": moved / (sum(state.shape) * len(state.templates)),
    }


def sampled(job: tuple[str, int, int]) -> dict[str, Any]:
    """Where the sampled noise goes, with so many stencils, and what it costs."""
    name, n_stencils, sweeps = job
    use_local_data()
    training, test = random_split(observations(name), 0.1, 0)
    rows, cols, y = test.coo()
    chains, path, total = chains_at(training, "sampled", None, n_stencils), [], np.zeros(len(y))
    for sweep in range(sweeps):
        chains.run_sweep()
        path.append(float(np.mean([chain.sigma2 for chain in chains.chains])))
        if sweep >= sweeps // 4:
            total += chains.predict_at(rows, cols).mean(axis=0) / (sweeps - sweeps // 4)
    return {"set": name, "n_stencils": n_stencils, "path": path, "mean": float(np.mean((total - y) ** 2))}


def calibrated(name: str) -> dict[str, Any]:
    """What the calibration finds."""
    use_local_data()
    training, _ = random_split(observations(name), 0.1, 0)
    found = BayesianACCAMS(30, 10, n_sweeps=1, n_threads=1, verbose=False).fit(training).calibration_
    return {
        "levels": found.levels,
        "errors": found.errors,
        "estimate": found.estimate,
        "sigma2": found.sigma2,
        "variance": float(np.var(training.values)),
    }


def write(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows([{k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [
            {k: v if k in ("set", "row_noise") else float(v) for k, v in row.items()} for row in csv.DictReader(file)
        ]


def figure(rows: list[dict[str, Any]], found: dict[str, Any], path: Path) -> None:
    """Errors and entropy against the noise that is held, and where the sampled noise goes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "accams", "svg.fonttype": "none"})
    from matplotlib import pyplot

    rows = sorted((r for r in rows if r["row_noise"] == "none"), key=lambda r: r["sigma2"])
    x = [r["sigma2"] for r in rows]
    fig, (left, middle, right) = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    lines = {"train": "training, one draw", "draw": "held out, one draw", "mean": "held out, mean of 4 chains"}
    for name, label in lines.items():
        left.plot(x, [r[name] for r in rows], "o-", ms=3, label=label)
    left.plot(x, x, "k:", lw=1, label="the level itself")
    left.axvline(found["calibrated"]["sigma2"], color="grey", lw=1, ls="--", label="calibrated")
    left.set(xlabel="noise variance held", ylabel="mean squared error", xscale="log")
    left.set_ylim(0, 1.45 * left.get_ylim()[1])
    left.legend(fontsize=8, frameon=False, loc="upper center", ncols=2)
    middle.plot(x, [r["entropy"] for r in rows], "o-", ms=3)
    middle.set(xlabel="noise variance held", ylabel="entropy of a row's label (bits)", xscale="log", ylim=(0, None))
    for axes in (left, middle):
        axes.set_xticks(x[::2], [f"{level:.2g}" for level in x[::2]])
        axes.minorticks_off()
    for each in found["sampled"]:
        sweeps = np.arange(1, len(each["path"]) + 1)
        right.plot(sweeps, each["path"], label=f"{each['n_stencils']} stencils, sampled")
    right.axhline(found["calibrated"]["sigma2"], color="grey", lw=1, ls="--", label="30 stencils, calibrated")
    right.set(xlabel="sweep", ylabel="noise variance", ylim=(0, None))
    right.legend(fontsize=8, frameon=False)
    fig.suptitle(f"{rows[0]['set']}: variance of the values {found['calibrated']['variance']:.3g}")
    fig.savefig(path, metadata={"Date": None})


def shares(name: str) -> tuple[float, ...]:
    return PLANTED_SHARES if name == "planted" else SHARES


def study(given: argparse.Namespace) -> None:
    """Compute everything and write it down."""
    names = given.sets
    jobs = [(name, share, noise, given.sweeps) for name in names for share in shares(name) for noise in ("auto", None)]
    free = [(name, s, given.sweeps) for name in names for s in STENCILS]
    with ProcessPoolExecutor(given.jobs) as pool:  # the longest first
        found = {name: pool.submit(calibrated, name) for name in reversed(names)}
        drawn = [pool.submit(sampled, job) for job in sorted(free, key=lambda job: (-names.index(job[0]), -job[1]))]
        rows = list(pool.map(held, reversed(jobs)))[::-1]
        draws = [each.result() for each in drawn]
    table_file, path_file = given.out / "calibration.csv", given.out / "calibration-paths.json"
    others = [row for row in read(table_file) if row["set"] not in names] if table_file.exists() else []
    write(table_file, others + rows, COLUMNS)
    known = json.loads(path_file.read_text()) if path_file.exists() else {}
    for name in names:
        known[name] = {"calibrated": found[name].result(), "sampled": [d for d in draws[::-1] if d["set"] == name]}
    path_file.write_text(json.dumps(known, indent=1))


def show(given: argparse.Namespace) -> None:
    """Draw the figures and print the tables from what was written down."""
    rows, known = read(given.out / "calibration.csv"), json.loads((given.out / "calibration-paths.json").read_text())
    given.figures.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, found in known.items():
        here = [row for row in rows if row["set"] == name]
        figure(here, found, given.figures / f"calibration-{name}.svg")
        best = {noise: min((r for r in here if r["row_noise"] == noise), key=lambda r: r["mean"]) for noise in NOISES}
        free = {each["n_stencils"]: each for each in found["sampled"]}
        lines.append(
            [name, f"{found['calibrated']['variance']:.3g}", f"{found['calibrated']['sigma2']:.3g}"]
            + [f"{best[noise]['sigma2']:.3g} ({best[noise]['mean'] ** 0.5:.4f})" for noise in NOISES]
            + [f"{free[s]['path'][-1]:.3g} ({free[s]['mean'] ** 0.5:.4f})" for s in STENCILS]
        )
    print("Noise variance (RMSE of the mean of 4 chains on the held-out tenth):")
    header = ["set", "values", "calibrated", "best held, row noise", "best held, no row noise"]
    print(table([*header, *(f"sampled, {s} stencils" for s in STENCILS)], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["planted", "ml-100k", "jester", "ml-1m"], help="smallest first")
    parser.add_argument("--sweeps", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures")
    parser.add_argument("--show", action="store_true", help="only draw and print what is known")
    given = parser.parse_args()
    if not given.show:
        study(given)
    show(given)


if __name__ == "__main__":
    main()
