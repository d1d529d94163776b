"""New users from their ratings: how close folding in comes to having trained with them, and what others do.

A tenth of the users is left out of the fit; four fifths of their ratings (or 5, or 20) are their history, the rest is
predicted. Beside it: the average user, item means, the same model fitted with the whole histories, and LensKit's ALS,
which solves for a new user's vector (`pip install lenskit`; the best of a few settings, chosen by the test error).

Run: python experiments/fold_in.py [--set ml-100k|ml-1m] [--folder DIR]       (DIR keeps the models between runs)
     python experiments/fold_in.py --time MODEL             (only the times, for a model with draws that was saved)
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

import accams
from accams import BayesianACCAMS
from common import machine, table, use_local_data
from export import lines

TIMED = (5, 20, 100, 165)  # the last is the average of MovieLens 1M
HISTORIES = (5, 20, None)  # ratings of each new user that are known; None: all but those to predict
SMALL = 50_000  # bytes
LENSKIT = [(features, regularisation) for features in (8, 20, 50) for regularisation in (0.05, 0.1, 0.2)]


@dataclass(frozen=True)
class Split:
    """Users to train with, and new ones, each with a history and ratings to predict."""

    pairs: np.ndarray
    y: np.ndarray
    train: np.ndarray
    histories: list[np.ndarray]
    tests: list[np.ndarray]

    @classmethod
    def of(cls, name: str, most: int | None) -> Split:
        pairs, y = lines(name)
        random = np.random.default_rng(0)
        users = np.unique(pairs[:, 0])
        new = np.sort(random.choice(users, len(users) // 10, replace=False))
        outside = np.isin(pairs[:, 0], new)
        test = outside & (random.random(len(y)) < 0.2)
        histories, tests = [], []
        for user in new:
            own = np.flatnonzero(pairs[:, 0] == user)
            histories.append(random.permutation(own[~test[own]])[:most])
            tests.append(own[test[own]])
        return cls(pairs, y, np.flatnonzero(~outside), histories, tests)

    def rmse(self, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[float, float]:
        """Error over all new users' test ratings, and the median milliseconds of a user."""
        away, times = [], []
        for history, test in zip(self.histories, self.tests, strict=True):
            began = perf_counter()
            found = predict(history, test)
            times.append(perf_counter() - began)
            away.append(np.clip(found, 1, 5) - self.y[test])
        return float(np.sqrt(np.mean(np.concatenate(away) ** 2))), 1000 * float(np.median(times))


def model_of(path: Path | None, pairs: np.ndarray, y: np.ndarray) -> Any:
    """A fitted model, kept in a file."""
    if path is not None and path.is_file():
        return accams.load(path)
    model = BayesianACCAMS().fit(pairs, y).model_
    if path is not None:
        model.save(path)
    return model


def folding(model: Any, split: Split) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Predictions for a new user by folding in."""
    known = set(model.col_index.ids.tolist())

    def predict(history: np.ndarray, test: np.ndarray) -> np.ndarray:
        seen = [p for p in history if split.pairs[p, 1] in known]
        if not seen:
            return model.predict([(-1, item) for item in split.pairs[test, 1]])
        return model.fold_in(split.pairs[seen, 1], split.y[seen]).predict(split.pairs[test, 1])

    return predict


def lenskit(split: Split) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Predictions of LensKit's ALS, with the best of a few settings."""
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.training import TrainingOptions

    pairs, y = split.pairs[split.train], split.y[split.train].astype(float)
    data = from_interactions_df(pd.DataFrame({"user_id": pairs[:, 0], "item_id": pairs[:, 1], "rating": y}))
    found = []
    for features, regularisation in LENSKIT:
        scorer = BiasedMFScorer(features=features, regularization=regularisation, epochs=20)
        scorer.train(data, TrainingOptions(rng=0))

        def predict(history: np.ndarray, test: np.ndarray, scorer: Any = scorer) -> np.ndarray:
            own = ItemList(item_ids=split.pairs[history, 1], rating=split.y[history].astype(float))
            scores = scorer(RecQuery(user_items=own), ItemList(item_ids=split.pairs[test, 1])).scores()
            return np.nan_to_num(scores, nan=y.mean())

        found.append((split.rmse(predict)[0], predict))
    return min(found, key=lambda each: each[0])[1]


def methods_of(split: Split, most: int | None, files: list[Path | None]) -> dict[str, Any]:
    """What predicts a user's test ratings from its history, by name."""
    pairs, y, train = split.pairs, split.y, split.train
    model = model_of(files[0], pairs[train], y[train])
    small = model.compress(SMALL, ids=False, verbose=False)
    counts = np.bincount(pairs[train, 1], minlength=pairs[:, 1].max() + 1)
    means = np.bincount(pairs[train, 1], y[train], len(counts)) / np.maximum(counts, 1)
    means[counts == 0] = y[train].mean()
    methods: dict[str, Any] = {
        "item means": lambda _, test: means[pairs[test, 1]],
        "the average user": lambda _, test: model.predict([(-1, item) for item in pairs[test, 1]]),
        "`fold_in`, 32 draws": folding(model, split),
        f"`fold_in`, compressed to {SMALL // 1000} KB": folding(small, split),
    }
    if importlib.util.find_spec("lenskit"):
        methods["LensKit ALS"] = lenskit(split)
    if most is None:
        both = np.concatenate([train, *split.histories])
        fitted = model_of(files[1], pairs[both], y[both])
        methods["fitted with the histories"] = lambda _, test: fitted.predict(pairs[test])
    return methods


def print_times(path: Path) -> None:
    """How long folding in takes, by how many ratings are known; films are drawn by how often they were rated."""
    whole = accams.load(path)
    models = {"32 draws": whole, "50 KB": whole.compress(SMALL, lists=False, verbose=False)}
    random, ids, weights = np.random.default_rng(0), whole.col_index.ids, whole.activity[1]
    rows = []
    for size in TIMED:
        row = [str(size)]
        for model in models.values():
            times = []
            for _ in range(40):
                films = ids[random.choice(len(ids), size, replace=False, p=weights / weights.sum())].tolist()
                history = dict(zip(films, random.integers(1, 6, size).astype(float).tolist(), strict=True))
                began = perf_counter()
                model.fold_in(history)
                times.append(perf_counter() - began)
            row.append(f"{1e3 * median(times[5:]):.2f} ms")
        rows.append(row)
    print(table(["ratings known", *models], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="ml-100k")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--time", type=Path, metavar="MODEL")
    given = parser.parse_args()
    if given.time is not None:
        print_times(given.time)
        print(machine())
        return
    use_local_data()
    files = [given.folder and given.folder / f"{given.set}-{which}.accams" for which in ("without", "with")]
    rows = []
    for most in HISTORIES:
        split = Split.of(given.set, most)
        size = f"{np.mean([len(each) for each in split.histories]):.0f} on average" if most is None else str(most)
        for name, predict in methods_of(split, most, files).items():
            error, each = split.rmse(predict)
            rows.append([size, name, f"{error:.4f}", f"{each:.1f}"])
            print(*rows[-1], flush=True)
    print(table(["ratings known", "method", "RMSE", "ms a user, predictions included"], rows))
    print(machine(*(["lenskit"] if importlib.util.find_spec("lenskit") else [])))


if __name__ == "__main__":
    main()
