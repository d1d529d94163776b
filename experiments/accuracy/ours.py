"""Test accuracy of BayesianACCAMS on the splits of `libraries.py`, kept in ours.csv; prints it beside rivals.csv.

Every run is `BayesianACCAMS(**setting)` fitted to nine tenths of a data set and asked for the other tenth through
`predict`, as a user would. `--setting` takes parameters as JSON; `--paper` starts from `BayesianACCAMS.paper()`.

Run: python experiments/accuracy/ours.py [--sets ml-100k ml-1m jester] [--seeds 0 1 2] [--setting JSON] [--paper]
     [--features]
     python experiments/accuracy/ours.py --table            (only print what is known)
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accams import BayesianACCAMS, __version__
from accams.data.splits import permutation_test_positions
from accams.threads import available_cores
from common import table, use_local_data
from export import SEEDS, SETS, in_file_order, observations
from film_features import movielens_features

HERE = Path(__file__).resolve().parent
RIVALS = {"svdpp": "SVD++", "svd": "SVD", "myfm": "myFM"}
NAMES = {**RIVALS, "bias": "biases", "cocluster": "CoClustering"}
SHOWN = ("set", "seed", "setting", "rmse", "rmse_one_draw", "coverage_90", "sweeps", "seconds")
COLUMNS = (
    "set", "seed", "setting", "rmse", "mae", "rmse_all_sweeps", "rmse_one_draw", "coverage_90", "sigma",
    "predictive_sigma", "sweeps", "chains", "seconds", "cores", "version",
)  # fmt: skip


def run(name: str, seed: int, setting: dict[str, Any], paper: bool, features: bool = False) -> dict[str, Any]:
    """Fit one split and measure it, with features of films and users if asked for."""
    rows, cols, y = in_file_order(name, observations(name))[:3]
    pairs = np.stack([rows, cols], axis=1)
    test = permutation_test_positions(len(y), 0.1, seed)
    train = np.setdiff1d(np.arange(len(y)), test)
    model = BayesianACCAMS.paper(**setting) if paper else BayesianACCAMS().set_params(**setting)
    users, films = movielens_features(name.removeprefix("ml-")) if features else (None, None)
    began = perf_counter()
    model.fit(pairs[train], y[train], predict_at=pairs[test], user_features=users, item_features=films)
    seconds = perf_counter() - began
    mean, interval = model.predict(pairs[test], quantiles=[0.05, 0.95])
    one = np.clip(model.stencils_.predict(*_positions(model, pairs[test])), *model.value_range_)
    inside = (y[test] >= interval[:, 0]) & (y[test] <= interval[:, 1])
    told = json.dumps(setting) if setting else "" if paper else "defaults"
    label = ("paper " if paper else "") + ("features " if features else "") + told
    return {
        "set": name,
        "seed": seed,
        "setting": label.strip(),
        "rmse": f"{_rmse(mean, y[test]):.4f}",
        "mae": f"{np.mean(np.abs(mean - y[test])):.4f}",
        "rmse_all_sweeps": f"{_rmse(model.predicted_at_, y[test]):.4f}",
        "rmse_one_draw": f"{_rmse(one, y[test]):.4f}",
        "coverage_90": f"{np.mean(inside):.4f}",
        "sigma": f"{model.sigma_:.4f}",
        "predictive_sigma": f"{model.predictive_sigma_:.4f}",
        "sweeps": model.n_sweeps_,
        "chains": model.n_chains,
        "seconds": f"{seconds:.0f}",
        "cores": model.n_threads or available_cores(),
        "version": __version__,
    }


def _positions(model: BayesianACCAMS, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return model.row_index_.positions(pairs[:, 0]), model.col_index_.positions(pairs[:, 1])


def _rmse(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


def load(path: Path) -> list[dict[str, Any]]:
    """What is known already."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def keep(path: Path, row: dict[str, Any]) -> None:
    """Put one result into the file, in place of an older one of the same run."""
    same = ("set", "seed", "setting")
    rows = [old for old in load(path) if any(str(old[x]) != str(row[x]) for x in same)] + [row]
    rows.sort(key=lambda each: (each["set"], each["setting"], int(each["seed"])))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def compare(path: Path) -> str:
    """Our results and, for each set and seed, the best setting of each rival method."""
    rivals, out = load(HERE / "rivals.csv"), list[list[str]]()
    for row in load(path):
        here = [r for r in rivals if r["set"] == row["set"] and r["seed"] == str(row["seed"])]
        best = [min((float(r["rmse"]) for r in here if r["method"] == m), default=np.nan) for m in RIVALS]
        out.append([row[c] for c in SHOWN] + [f"{x:.4f}" for x in best])
    return table([*SHOWN, *RIVALS.values()], out)


def summary(path: Path) -> str:
    """Ours and the rivals, a line a setting, seeds side by side: the table of docs/results/measurements.md."""
    found = dict[tuple[str, str], dict[int, float]]()
    for row in load(path):
        found.setdefault((row["set"], f"BayesianACCAMS, {row['setting']}"), {})[int(row["seed"])] = float(row["rmse"])
    for row in load(HERE / "rivals.csv"):
        chains = f", {row['chains']} chains" if row["method"] == "myfm" else ""
        name = f"{NAMES[row['method']]}, {row['setting']}{chains}"
        found.setdefault((row["set"], name), {})[int(row["seed"])] = float(row["rmse"])
    lines = []
    for (name, method), by_seed in sorted(found.items(), key=lambda each: (SETS.index(each[0][0]), *each[1].values())):
        seeds = ", ".join(f"{by_seed[seed]:.4f}" if seed in by_seed else "-" for seed in SEEDS)
        lines.append([name, method, f"{np.mean(list(by_seed.values())):.4f}", seeds])
    return table(["set", "method", "test RMSE", "seeds 0, 1, 2"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--setting", type=json.loads, default={}, help="parameters as JSON")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--features", action="store_true", help="with genres, years, age, sex, occupation (MovieLens)")
    parser.add_argument("--out", type=Path, default=HERE / "ours.csv")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    given = parser.parse_args()
    use_local_data()
    if not given.table:
        for name in given.sets:
            for seed in given.seeds:
                row = run(name, seed, given.setting, given.paper, given.features)
                keep(given.out, row)
                print(", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    print(compare(given.out), summary(given.out), sep="\n\n")


if __name__ == "__main__":
    main()
