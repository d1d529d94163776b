"""Any ratings table: ours beside tuned biases, myFM and Surprise's SVD, by error, coverage, log score, time and size.

Tables are CSV files with a user, an item and a rating in each line; --thin adds MovieLens 1M with so many ratings of
each user, drawn at random. The split of a seed is `default_rng(seed).permutation` over the lines of the file, its first
tenth the test. Ours runs with its defaults on all cores, the rivals as they are, on one. The damping of the biases is
chosen on a tenth of the training part. myFM has rank 10, and its intervals come from its samples. SVD has Surprise's
defaults, and its intervals, like those of the biases, come from the errors on that tenth.

Ratings are discrete, so coverage is that of the randomised probability integral transform, and the log score is that of
the probability of the rating (less is better). Coverage by number of ratings (of the user or of the item, whichever has
fewer) is that of the test; where MovieLens 1M is thinned, also of many ratings that were left out, since the test has
few of users and items with hardly any. "against biases" is the difference of the mean squared errors, in
standard errors of paired cells: below 0 where the method is better.

Run: python experiments/tables.py FOLDER --thin 1 2 5 10 20 --seeds 0 1 2 --out tables.csv
(needs MovieLens 1M for --thin, and pip install 'accams[bench]'; lines that the CSV has are not run again)
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from accams import BayesianACCAMS, Observations
from accams.baselines import biases
from accams.data import datasets
from common import machine, table, use_local_data

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CLASSES = {"0": (0, 0), "1": (1, 1), "2-5": (2, 5), "6-20": (6, 20), "more": (21, 1 << 40)}
DAMPING = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
MYFM = {"n_iter": 200, "n_kept_samples": 150}
MORE = 200_000  # left-out ratings by which coverage is measured
COLUMNS = ["table", "seed", "method", "rmse", "80 %", "95 %", "log score", "against biases", "seconds", "KB"]


class Ratings(NamedTuple):
    """Positions and ratings, in the order of the file."""

    rows: Ints
    cols: Ints
    values: Floats

    def at(self, which: Ints) -> Ratings:
        return Ratings(*(x[which] for x in self))

    def split(self, seed: int) -> tuple[Ratings, Ratings]:
        order = np.random.default_rng(seed).permutation(len(self.values))
        first = int(0.1 * len(order))
        return self.at(order[first:]), self.at(order[:first])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.max()) + 1, int(self.cols.max()) + 1

    def observations(self, shape: tuple[int, int]) -> Observations:
        return Observations.from_coo(self.rows, self.cols, self.values, shape=shape, duplicates="mean")


class Forecast(NamedTuple):
    """Mean and standard deviation of each test rating, and the bytes of the model."""

    mean: Floats
    std: Floats
    size: float


def ours(train: Ratings, test: Ratings, shape: tuple[int, int], seed: int) -> Forecast:
    model = BayesianACCAMS(random_state=seed, verbose=False).fit(train.observations(shape))
    mean, std = model.predict(np.stack([test.rows, test.cols], axis=1), return_std=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m", history=False)
        return Forecast(mean, std, (Path(folder) / "m").stat().st_size)


def tuned_biases(train: Ratings, test: Ratings, shape: tuple[int, int], seed: int) -> Forecast:
    inner, held = train.split(seed)
    obs = inner.observations(shape)
    errors = {
        (a, b): float(np.mean((biases(obs, a, b).predict(held.rows, held.cols) - held.values) ** 2))
        for a in DAMPING for b in DAMPING
    }  # fmt: skip
    best = min(errors, key=lambda pair: errors[pair])
    mean = biases(train.observations(shape), *best).predict(test.rows, test.cols)
    return Forecast(mean, np.full(len(mean), np.sqrt(errors[best])), 4.0 * sum(shape))


def myfm(train: Ratings, test: Ratings, shape: tuple[int, int], seed: int) -> Forecast:
    from myfm import MyFMRegressor
    from scipy.sparse import hstack, identity

    units = [identity(size, format="csr") for size in shape]
    X = hstack([units[0][train.rows], units[1][train.cols]], "csr")
    model = MyFMRegressor(rank=10, random_seed=seed)
    model.fit(X, train.values, group_shapes=list(shape), **MYFM)
    total, squares, noise = np.zeros(len(test.values)), np.zeros(len(test.values)), 0.0
    samples, alphas = model.predictor_.samples, [hyper.alpha for hyper in model.history_.hypers]
    for sample, alpha in zip(samples, alphas[-len(samples) :], strict=True):
        u, v = test.rows, shape[0] + test.cols
        x = sample.w0 + sample.w[u] + sample.w[v] + np.einsum("ij,ij->i", sample.V[u], sample.V[v])
        total += x
        squares += x * x
        noise += 1.0 / alpha
    n = len(samples)
    mean = total / n
    spread = np.maximum(squares / n - mean**2, 0.0)
    return Forecast(mean, np.sqrt(spread + noise / n), 4.0 * 11 * sum(shape) * n)


def svd(train: Ratings, test: Ratings, shape: tuple[int, int], seed: int) -> Forecast:
    import surprise

    def fitted(part: Ratings, at: Ratings) -> Floats:
        entries = [(u, i, r, None) for u, i, r in zip(*(x.tolist() for x in part), strict=True)]
        model = surprise.SVD(random_state=seed)
        model.fit(surprise.Dataset(surprise.Reader()).construct_trainset(entries))
        pairs = zip(at.rows.tolist(), at.cols.tolist(), strict=True)
        return np.array([model.predict(u, i, clip=False).est for u, i in pairs])

    inner, held = train.split(seed)
    std = float(np.sqrt(np.mean((fitted(inner, held) - held.values) ** 2)))
    mean = fitted(train, test)
    return Forecast(mean, np.full(len(mean), std), 4.0 * 101 * sum(shape))


METHODS: dict[str, Callable[..., Forecast]] = {"biases": tuned_biases, "ours": ours, "myfm": myfm, "svd": svd}


def masses(values: Floats, found: Forecast, levels: Floats) -> tuple[Floats, Floats]:
    """Return the predicted probability below and up to each rating: levels share the normal distribution's mass."""
    edges = np.concatenate([[-np.inf], (levels[1:] + levels[:-1]) / 2, [np.inf]])
    at = np.searchsorted(levels, values)
    return tuple(ndtr((edges[at + side] - found.mean) / found.std) for side in (0, 1))  # type: ignore[return-value]


def transformed(values: Floats, found: Forecast, levels: Floats) -> Floats:
    """Return the randomised probability integral transform."""
    low, high = masses(values, found, levels)
    return low + np.random.default_rng(0).random(len(values)) * (high - low)


def covered(u: Floats, level: float) -> str:
    return f"{100 * np.mean(np.abs(u - 0.5) < level / 2):.1f}" if len(u) else "-"


def measured(
    name: str, ratings: Ratings, more: Ratings, seed: int, methods: list[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return a line a method, and the coverage by number of ratings, to which `more` ratings are added."""
    train, test = ratings.split(seed)
    asked, n = Ratings(*(np.concatenate(pair) for pair in zip(test, more, strict=True))), len(test.values)
    shape, levels = ratings.shape, np.unique(ratings.values)
    counts = [np.bincount(x, minlength=size) for x, size in zip(train[:2], shape, strict=True)]
    fewest = np.minimum(counts[0][asked.rows], counts[1][asked.cols])
    low, high = train.values.min(), train.values.max()
    lines, classes, reference = [], [], None
    for method in methods:
        began = perf_counter()
        found = METHODS[method](train, asked, shape, seed)
        seconds = perf_counter() - began
        errors = np.square(np.clip(found.mean[:n], low, high) - test.values)
        reference = errors if reference is None else reference
        gap = errors - reference
        against = gap.mean() / (gap.std() / np.sqrt(len(gap))) if gap.any() else 0.0
        u = transformed(asked.values, found, levels)
        mass = np.subtract(*masses(asked.values, found, levels)[::-1])[:n]
        score = float(np.mean(-np.log(np.maximum(mass, 1e-12))))
        rmse = float(np.sqrt(errors.mean()))
        shares = [covered(u[:n], level) for level in (0.8, 0.95)]
        size = found.size / 1000
        line = [f"{rmse:.4f}", *shares, f"{score:.4f}", f"{against:+.1f}", f"{seconds:.1f}", f"{size:,.0f}"]
        lines.append([name, str(seed), method, *line])
        for kind, (least, most) in CLASSES.items():
            inside = (fewest >= least) & (fewest <= most)
            shares = [covered(u[inside], level) for level in (0.8, 0.95)]
            classes.append([name, str(seed), method, kind, f"{inside.sum():,}", *shares])
        print(*lines[-1], flush=True)
    return lines, classes


def read(path: Path) -> tuple[Ratings, Ratings]:
    """Return a table of ratings, of which none is left out; pairs that come again count again, as in the file."""
    import pandas as pd

    columns = pd.read_csv(path).iloc[:, :3]
    rows, cols = (pd.factorize(columns.iloc[:, axis])[0].astype(np.int64) for axis in (0, 1))
    found = Ratings(rows, cols, columns.iloc[:, 2].to_numpy(np.float64))
    return found, found.at(np.zeros(0, np.int64))


def thinned(ratings: Ratings, most: int, seed: int) -> tuple[Ratings, Ratings]:
    """Return at most so many ratings of each user, drawn at random, and some of those left out."""
    order = np.random.default_rng(seed).permutation(len(ratings.values))
    order = order[np.argsort(ratings.rows[order], kind="stable")]
    starts = np.searchsorted(ratings.rows[order], np.arange(ratings.shape[0]))
    place = np.arange(len(order)) - starts[ratings.rows[order]]
    kept, rest = ratings.at(np.sort(order[place < most])), ratings.at(order[place >= most])
    known = [np.unique(x) for x in kept[:2]]
    rest = rest.at(np.flatnonzero(np.isin(rest.rows, known[0]) & np.isin(rest.cols, known[1])))
    rest = rest.at(np.random.default_rng(seed).permutation(len(rest.values))[:MORE])
    return tuple(
        Ratings(np.searchsorted(known[0], part.rows), np.searchsorted(known[1], part.cols), part.values)
        for part in (kept, rest)
    )  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of .csv or .csv.gz files")
    parser.add_argument("--thin", nargs="*", type=int, default=[], help="ratings a user of MovieLens 1M")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path, help="CSV file to which lines are added")
    asked: Any = parser.parse_args()
    use_local_data()
    os.environ.setdefault("TQDM_DISABLE", "1")  # the bar of myFM
    jobs: list[tuple[str, Callable[[int], tuple[Ratings, Ratings]]]] = []
    if asked.thin:
        obs = datasets.movielens("1m").observations
        rows, cols, values = obs.coo()
        film = Ratings(rows, cols, values.astype(np.float64))
        jobs += [(f"ml-1m, {most} a user", lambda seed, most=most: thinned(film, most, seed)) for most in asked.thin]
    files = sorted(asked.folder.glob("*.csv*")) if asked.folder else []
    jobs += [(path.name.split(".")[0], lambda seed, path=path: read(path)) for path in files]
    done = {tuple(row[:3]) for row in csv.reader(asked.out.open())} if asked.out and asked.out.exists() else set()
    lines, classes = [], []
    for name, load in jobs:
        for seed in asked.seeds:
            missing = [method for method in asked.methods if (name, str(seed), method) not in done]
            if not [method for method in missing if method != "biases"]:
                continue
            both = measured(name, *load(seed), seed, list(dict.fromkeys(["biases", *missing])))
            lines += both[0]
            classes += both[1]
            if asked.out:
                with asked.out.open("a", newline="") as file:
                    csv.writer(file).writerows(both[0])
    print(table(COLUMNS, lines))
    print(table(["table", "seed", "method", "ratings", "cells", "80 %", "95 %"], classes))
    print(machine())


if __name__ == "__main__":
    main()
