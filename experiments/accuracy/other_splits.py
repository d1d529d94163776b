"""Test accuracy on the five folds that come with MovieLens 100K, and on the latest tenth of the ratings.

The folds u1 to u5 hold out 20,000 ratings each. A split by time holds out the latest tenth, most of it by users who
have no earlier ratings; *known* are those whose user and film both have some. Ours can weigh ratings by their age
(`--half-life DAYS`), and be told how films were rated lately: for each of `--period DAYS`, the mean of what the model
leaves of the last ratings of a film, shrunken by so many ratings (`--shrink`), is added. The rivals are those of
`libraries.py` with its settings, in the same process: biases, SVD with the parameters that it found best on seed 0, and
myFM (mean of `--chains` chains).

Run: python experiments/accuracy/other_splits.py [--splits u1 u2 u3 u4 u5 time] [--set 100k] [--setting JSON]
     [--methods ours bias svd myfm] [--chains 1] [--half-life DAYS] [--period DAYS ...] [--shrink 20]
(needs pip install 'accams[bench]')
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zipfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accams import BayesianACCAMS
from common import machine, table, use_local_data
from libraries import Job, Part, myfm_predictions, surprise_predictions

DAY = 86_400.0
SVD = {"100k": "n_factors=100 n_epochs=100 lr_all=0.005 reg_all=0.1", "1m": "n_epochs=40 lr_all=0.005 reg_all=0.05"}
MYFM = {"100k": "rank=20 n_iter=512 n_kept_samples=300", "1m": "rank=20 n_iter=300 n_kept_samples=200"}


class Split(NamedTuple):
    train: Part
    test: Part
    ages: np.ndarray  # of the ratings of the training part, in days before the latest of them

    @property
    def known(self) -> np.ndarray:
        """Whether both user and film of a test rating have ratings in the training part."""
        return np.isin(self.test.rows, self.train.rows) & np.isin(self.test.cols, self.train.cols)


def lines_of(name: str, file: str) -> np.ndarray:
    """User, film, rating and time of every line of a file of the archive."""
    with zipfile.ZipFile(Path(os.environ["ACCAMS_DATA"]) / f"ml-{name}.zip") as archive:
        text = archive.read(f"ml-{name}/{file}").decode("latin-1").replace("::", "\t")
    return np.loadtxt(text.splitlines(), dtype=np.int64)


def split_of(name: str, kind: str) -> Split:
    if kind == "time":
        lines = lines_of(name, "u.data" if name == "100k" else "ratings.dat")
        late = lines[:, 3] >= np.partition(lines[:, 3], -(len(lines) // 10))[-(len(lines) // 10)]
        train, test = lines[~late], lines[late]
    else:
        train, test = (lines_of(name, f"{kind}.{part}") for part in ("base", "test"))
    train_part, test_part = (Part(x[:, 0], x[:, 1], x[:, 2].astype(float)) for x in (train, test))
    return Split(train_part, test_part, (train[:, 3].max() - train[:, 3]) / DAY)


class Ours(NamedTuple):
    mean: np.ndarray
    coverage: float  # share of ratings within intervals of 90 %
    left: np.ndarray  # of the ratings of the training part

    def with_period(self, split: Split, days: float, shrink: float) -> np.ndarray:
        """Predictions with what the model has left of the latest ratings of each film."""
        late = split.ages <= days
        cols, size = split.train.cols[late], int(max(split.train.cols.max(), split.test.cols.max())) + 1
        more = np.bincount(cols, self.left[late], size) / (np.bincount(cols, minlength=size) + shrink)
        return np.clip(self.mean + more[split.test.cols], 1.0, 5.0)


def ours(split: Split, setting: dict[str, Any], half_life: float | None) -> Ours:
    """Fit ours, with weights if there is a half-life."""
    model = BayesianACCAMS(verbose=False).set_params(**setting)
    weights = None if half_life is None else np.maximum(0.5 ** (split.ages / half_life), 0.05)
    pairs = np.stack(split.train[:2], axis=1)
    model.fit(pairs, split.train.values, sample_weight=weights)
    mean, ends = model.predict(np.stack(split.test[:2], axis=1), quantiles=[0.05, 0.95])
    y = split.test.values
    coverage = float(np.mean((y >= ends[:, 0]) & (y <= ends[:, 1])))
    return Ours(mean, coverage, split.train.values - model.predict(pairs))


def theirs(split: Split, name: str, method: str, chains: int) -> np.ndarray:
    setting = {"bias": "default", "svd": SVD[name], "myfm": MYFM[name]}[method]
    predict = myfm_predictions if method == "myfm" else surprise_predictions
    jobs = [Job(f"ml-{name}", 0, method, setting, chain) for chain in range(chains if method == "myfm" else 1)]
    return np.clip(np.mean([predict(job, split.train, split.test) for job in jobs], axis=0), 1.0, 5.0)


def rmse(errors: np.ndarray) -> str:
    return f"{np.sqrt(np.mean(errors**2)):.4f}" if len(errors) else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", nargs="+", default=["u1", "u2", "u3", "u4", "u5", "time"])
    parser.add_argument("--set", default="100k", choices=["100k", "1m"])
    parser.add_argument("--methods", nargs="+", default=["ours", "bias", "svd", "myfm"])
    parser.add_argument("--setting", type=json.loads, default={}, help="parameters of ours as JSON")
    parser.add_argument("--chains", type=int, default=1, help="chains of myFM")
    parser.add_argument("--half-life", type=float, help="days in which a rating comes to weigh half as much")
    parser.add_argument("--period", nargs="*", type=float, default=[], help="days of the latest ratings of a film")
    parser.add_argument("--shrink", type=float, default=20.0, help="ratings by which their mean is shrunken")
    given = parser.parse_args()
    use_local_data()
    print(machine())
    rows = list[tuple[str, ...]]()

    def tell(kind: str, split: Split, method: str, found: np.ndarray, coverage: str, seconds: float) -> None:
        errors, known, took = found - split.test.values, split.known, f"{seconds:.0f}"
        rows.append((kind, method, rmse(errors), rmse(errors[known]), f"{known.mean():.2f}", coverage, took))
        print(*rows[-1], flush=True)

    for kind in given.splits:
        split = split_of(given.set, kind)
        for method in given.methods:
            began = perf_counter()
            if method != "ours":
                tell(kind, split, method, theirs(split, given.set, method, given.chains), "-", perf_counter() - began)
                continue
            found = ours(split, given.setting, given.half_life)
            tell(kind, split, method, found.mean, f"{found.coverage:.3f}", perf_counter() - began)
            for days in given.period:
                tell(kind, split, f"ours, {days:g} days", found.with_period(split, days, given.shrink), "-", 0.0)
    print(table(("split", "method", "RMSE", "RMSE of known", "share known", "coverage of 90 %", "seconds"), rows))


if __name__ == "__main__":
    main()
