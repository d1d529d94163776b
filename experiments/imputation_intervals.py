"""How often the intervals of `ACCAMSImputer` hold, and how long new rows take.

Intervals: the share of hidden cells within 1.645 standard deviations, of small tables with 10 to 90 % missing at random
(means of seeds), beside the RMSE in units of the standard deviation of the column, of ours and of column means. Rows:
seconds for 1,000 new rows at once and for one row, on one thread, of planted tables.

Run: python experiments/imputation_intervals.py [--seeds 2]
"""

from __future__ import annotations

import argparse
from statistics import mean, median
from time import perf_counter

import numpy as np

from accams import ACCAMSImputer
from common import machine, table
from imputation import DATA, Matrix, in_units

SHARES = (0.1, 0.3, 0.6, 0.9)
SHAPES = ((150, 4), (600, 20), (8000, 8), (3000, 60), (2000, 300))


def planted(rows: int, cols: int, rank: int = 4, noise: float = 0.6) -> Matrix:
    random = np.random.default_rng(0)
    full = random.normal(size=(rows, rank)) @ random.normal(size=(rank, cols)) / np.sqrt(rank)
    return full + noise * random.normal(size=full.shape)


def tables() -> dict[str, Matrix]:
    from sklearn.datasets import load_linnerud

    found = {name: DATA[name]().X for name in ("iris", "wine", "diabetes", "breast_cancer")}
    found["linnerud"] = in_units(np.hstack(load_linnerud(return_X_y=True)))
    return {
        **found,
        "planted": planted(300, 20),
        "planted, wide": planted(40, 200),
        "noise": planted(200, 8, noise=1e6),
    }


def intervals(seeds: int) -> list[list[object]]:
    lines: list[list[object]] = []
    for name, X in tables().items():
        scale = X.std(axis=0)
        for share in SHARES:
            held, ours, means = list[float](), list[float](), list[float]()
            for seed in range(seeds):
                hidden = np.random.default_rng(seed).random(X.shape) < share
                gappy = np.where(hidden, np.nan, X)
                imputer = ACCAMSImputer(random_state=seed, keep_empty_features=True, verbose=False)
                full, std = imputer.fit_transform(gappy, return_std=True)
                away = np.abs(full - X)[hidden]
                held.append(float(np.mean(away <= 1.645 * std[hidden])))
                ours.append(float(np.sqrt(np.mean((((full - X) / scale)[hidden]) ** 2))))
                known = np.where(hidden, 0.0, X).sum(axis=0) / np.maximum((~hidden).sum(axis=0), 1)
                means.append(float(np.sqrt(np.mean((((known - X) / scale)[hidden]) ** 2))))
            lines.append([name, f"{share:.0%}", f"{mean(held):.1%}", f"{mean(ours):.3f}", f"{mean(means):.3f}"])
            print(*lines[-1], flush=True)
    return lines


def new_rows() -> list[list[object]]:
    lines: list[list[object]] = []
    for rows, cols in SHAPES:
        X = planted(rows + 1000, cols)
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        imputer = ACCAMSImputer(random_state=0, verbose=False, n_threads=1).fit(X[:rows])
        imputer.transform(X[rows : rows + 2])
        began = perf_counter()
        imputer.transform(X[rows:])
        together, alone = perf_counter() - began, list[float]()
        for row in range(rows, rows + 20):
            began = perf_counter()
            imputer.transform(X[row : row + 1])
            alone.append(perf_counter() - began)
        lines.append([f"{rows:,} x {cols}", f"{together:.2f}", f"{1000 * median(alone):.0f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    found = intervals(parser.parse_args().seeds)
    print(table(["table", "missing", "90 % intervals hold", "RMSE", "RMSE of means"], found), "\n")
    print(table(["fitted on", "1,000 new rows, s", "one row, ms"], new_rows()))
    print(machine("scikit-learn"))


if __name__ == "__main__":
    main()
