"""New items and new users from their features, beside a regression on the features and Bayesian factorisation.

A fifth of the users, a fifth of the items and a fifth of the other ratings are held out, as in an example of cmfrec:
*warm* are ratings of known users and items, *new items* those of known users, *new users* those of known items, *both*
the rest. Features of films are genres and year, of users age, sex and occupation. Everything that is fitted sees the
same ratings and the same features.

- *content ridge*: the values on the features of the user, of the item and all their products, beside shrunken effects
  of users and items (0 for new ones); the penalty is chosen on a tenth of the training part.
- *myFM*: Bayesian factorisation machine of ids and features, *probit* that of ordinal ratings (needs myfm).

Intervals are judged by the randomised probability integral transform where predictions have probabilities.

Run: python experiments/cold_start.py [--set 1m] [--seeds 0] [--methods ours plain ridge myfm probit] [--keep 1.0]
     [--setting JSON]                                                  (needs pip install 'accams[bench]' for myFM)
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import ndtr

from accams import BayesianACCAMS, Model
from accams.data import datasets
from accams.data.features import FeatureTable
from accams.model.features import Encoder
from common import machine, table, use_local_data
from film_features import movielens_features

PENALTIES = (3.0, 30.0, 300.0, 3000.0)
SHRINK = 5.0  # ratings as which the mean of a user or item counts in the effects of the ridge
RANK, ITERATIONS = 10, 200
GROUPS = ("warm", "new items", "new users", "both")


class Split(NamedTuple):
    """Ratings to fit, those of each group to predict, and the features."""

    train: pd.DataFrame
    test: dict[str, pd.DataFrame]
    users: pd.DataFrame
    items: pd.DataFrame


def split_of(name: str, seed: int, keep: float) -> Split:
    """Hold out a fifth of users, items and ratings, and keep a share of the rest to fit."""
    data = datasets.movielens(name)
    i, j, y = data.observations.coo()
    ratings = pd.DataFrame(
        {"user": data.observations.row_index.ids[i], "item": data.observations.col_index.ids[j], "y": y}
    )
    random = np.random.default_rng(seed)
    new = [set(random.choice(ids, len(ids) // 5, replace=False).tolist()) for ids in (
        np.unique(ratings["user"]), np.unique(ratings["item"]))]  # fmt: skip
    new_user, new_item = ratings["user"].isin(new[0]), ratings["item"].isin(new[1])
    known = ratings[~new_user & ~new_item]
    held = random.random(len(known)) < 0.2
    kept = known[~held]
    kept = kept[random.random(len(kept)) < keep] if keep < 1.0 else kept
    seen = known["user"].isin(kept["user"]) & known["item"].isin(kept["item"])
    test = {
        "warm": known[held & seen],
        "new items": ratings[~new_user & new_item],
        "new users": ratings[new_user & ~new_item],
        "both": ratings[new_user & new_item],
    }
    users, items = movielens_features(name)
    return Split(kept, test, users, items)


class Prediction(NamedTuple):
    """Means by group, and the share of ratings within intervals of 90 %, where there are any."""

    means: dict[str, np.ndarray]
    coverage: dict[str, float] | None
    seconds: float


def ours(split: Split, setting: dict[str, Any], features: bool = True) -> Prediction:
    """Fit the model with features, or without."""
    model = BayesianACCAMS(random_state=0, verbose=False).set_params(**setting)
    given = {"user_features": split.users, "item_features": split.items} if features else {}
    began = perf_counter()
    model.fit(split.train[["user", "item"]], split.train["y"], **given)
    seconds = perf_counter() - began
    means, inside = {}, {}
    for group, test in split.test.items():
        inner = model.model_
        places = [
            index.find(test[side].to_numpy()) for index, side in zip(inner.indices, ("user", "item"), strict=True)
        ]
        mean, variance = inner.moments(*places)
        means[group] = inner.clipped(mean)
        inside[group] = covered(inner, mean, variance, test["y"].to_numpy())
    return Prediction(means, inside, seconds)


def covered(model: Model, mean: np.ndarray, variance: np.ndarray, y: np.ndarray, p: float = 0.9) -> float:
    """Share of the probability of each rating within the central interval: a step of the scale counts by its part."""
    values = np.unique(y)
    cuts = model.scale.cuts if model.scale is not None else (values[1:] + values[:-1]) / 2
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    at, scale = np.searchsorted(values, y), np.sqrt(variance)
    low, high = ndtr((edges[at] - mean) / scale), ndtr((edges[at + 1] - mean) / scale)
    inside = np.clip(np.minimum(high, 0.5 + p / 2) - np.maximum(low, 0.5 - p / 2), 0.0, None)
    return float(np.mean(inside / np.maximum(high - low, 1e-300)))


class Traits:
    """Standardised traits of users and items, and how to find those of a table of ratings."""

    def __init__(self, split: Split) -> None:
        tables = [FeatureTable.of(x, axis) for axis, x in enumerate((split.users, split.items))]
        self.traits = [Encoder.learned(x).traits(x) for x in tables]
        self.places = [{x: p for p, x in enumerate(table.ids.tolist())} for table in tables]

    def lines(self, test: pd.DataFrame) -> list[np.ndarray]:
        return [np.array([at[x] for x in test[side]]) for at, side in zip(self.places, ("user", "item"), strict=True)]

    def design(self, test: pd.DataFrame) -> np.ndarray:
        """Features of the user, of the item, and all products."""
        U, V = (traits[at] for traits, at in zip(self.traits, self.lines(test), strict=True))
        return np.hstack([U, V, np.einsum("ru,rv->ruv", U, V).reshape(len(U), -1)]).astype(np.float32)


def effects(train: pd.DataFrame) -> tuple[float, dict[Any, float], dict[Any, float]]:
    """Mean and shrunken effects of users and items."""
    mean, rest = train["y"].mean(), train["y"] - train["y"].mean()
    sides = []
    for side in ("item", "user"):
        sums = rest.groupby(train[side]).agg(["sum", "count"])
        each = (sums["sum"] / (sums["count"] + SHRINK)).to_dict()
        rest = rest - train[side].map(each)
        sides.append(each)
    return mean, sides[1], sides[0]


def ridge(split: Split) -> Prediction:
    """Ridge regression on features, of what the effects of known users and items leave."""
    began, traits = perf_counter(), Traits(split)
    means: dict[str, np.ndarray] = {}
    for group, known in (("warm", (1, 1)), ("new items", (1, 0)), ("new users", (0, 1)), ("both", (0, 0))):

        def base(test: pd.DataFrame, fitted: tuple[Any, ...], known: tuple[int, int] = known) -> np.ndarray:
            mean, users, items = fitted
            out = np.full(len(test), mean)
            out += known[0] * test["user"].map(users).fillna(0.0).to_numpy()
            return out + known[1] * test["item"].map(items).fillna(0.0).to_numpy()

        inner = np.random.default_rng(1).random(len(split.train)) < 0.1
        part, held = split.train[~inner], split.train[inner]
        penalty = min(PENALTIES, key=lambda x: _loss(traits, part, held, base, x))
        fitted = effects(split.train)
        weights = _weights(traits, split.train, split.train["y"].to_numpy() - base(split.train, fitted), penalty)
        test = split.test[group]
        means[group] = base(test, fitted) + _apply(traits, test, weights)
    return Prediction({g: np.clip(x, 1, 5) for g, x in means.items()}, None, perf_counter() - began)


def _loss(traits: Traits, part: pd.DataFrame, held: pd.DataFrame, base: Any, penalty: float) -> float:
    fitted = effects(part)
    weights = _weights(traits, part, part["y"].to_numpy() - base(part, fitted), penalty)
    return float(np.mean((held["y"].to_numpy() - base(held, fitted) - _apply(traits, held, weights)) ** 2))


def _weights(traits: Traits, train: pd.DataFrame, rest: np.ndarray, penalty: float) -> np.ndarray:
    p = sum(x.shape[1] for x in traits.traits) + int(np.prod([x.shape[1] for x in traits.traits])) + 1
    gram, right = np.zeros((p, p)), np.zeros(p)
    for lo in range(0, len(train), 20_000):
        X = traits.design(train.iloc[lo : lo + 20_000])
        X = np.hstack([np.ones((len(X), 1), np.float32), X])
        gram += X.T @ X
        right += X.T @ rest[lo : lo + 20_000]
    return np.linalg.solve(gram + penalty * np.eye(p), right)


def _apply(traits: Traits, test: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
    pieces = [traits.design(test.iloc[lo : lo + 20_000]) for lo in range(0, len(test), 20_000)]
    return np.concatenate([weights[0] + X @ weights[1:] for X in pieces])


def myfm(split: Split, probit: bool = False) -> Prediction:
    """Factorisation machine of ids and the same traits, of normal or of ordinal ratings."""
    import myfm as fm

    began, traits = perf_counter(), Traits(split)
    blocks = [sparse.hstack([sparse.eye(len(x)), sparse.csr_matrix(x)]).tocsr() for x in traits.traits]
    shapes = [size for x in traits.traits for size in (len(x), x.shape[1])]

    def relations(test: pd.DataFrame) -> list[Any]:
        return [fm.RelationBlock(at, block) for at, block in zip(traits.lines(test), blocks, strict=True)]

    how = {"n_iter": ITERATIONS, "n_kept_samples": ITERATIONS - 50, "group_shapes": shapes}
    values, levels = np.unique(split.train["y"].to_numpy(), return_inverse=True)
    if probit:
        ordered = fm.MyFMOrderedProbit(RANK, random_seed=0).fit(None, levels, relations(split.train), **how)
        means = {g: ordered.predict_proba(None, relations(test)) @ values for g, test in split.test.items()}
    else:
        model = fm.MyFMRegressor(RANK, random_seed=0)
        model.fit(None, values[levels], relations(split.train), **how)
        means = {g: np.clip(model.predict(None, relations(test)), 1, 5) for g, test in split.test.items()}
    return Prediction(means, None, perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="1m")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--methods", nargs="+", default=["ours", "plain", "ridge", "myfm", "probit"])
    parser.add_argument("--keep", type=float, default=1.0, help="share of the ratings to fit: how models do with less")
    parser.add_argument("--setting", type=json.loads, default={}, help="parameters of ours as JSON")
    chosen = parser.parse_args()
    use_local_data()
    methods = {
        "ours": ("BayesianACCAMS, features", lambda split: ours(split, chosen.setting)),
        "plain": ("BayesianACCAMS", lambda split: ours(split, chosen.setting, False)),
        "ridge": ("content ridge", ridge),
        "myfm": ("myFM, features", myfm),
        "probit": ("myFM, features, probit", lambda split: myfm(split, True)),
    }
    lines = []
    for seed in chosen.seeds:
        split = split_of(chosen.set, seed, chosen.keep)
        for method in chosen.methods:
            name, run = methods[method]
            found = run(split)
            errors = [np.sqrt(np.mean((found.means[g] - split.test[g]["y"]) ** 2)) for g in GROUPS]
            inside = ["-" if found.coverage is None else f"{100 * found.coverage[g]:.1f}" for g in GROUPS]
            lines.append([str(seed), name, *(f"{x:.4f}" for x in errors), *inside, f"{found.seconds:.0f}"])
            print(", ".join(lines[-1]), flush=True)
    print(table(["seed", "method", *GROUPS, *(f"90 %: {g}" for g in GROUPS), "seconds"], lines))
    print(machine())


if __name__ == "__main__":
    main()
