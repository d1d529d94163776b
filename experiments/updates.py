"""Updating instead of fitting again: what is lost, by kind of user and item, and what it costs.

Ratings are split by time: the first 80 % are fitted, the next 10 % are feedback, the last 10 % are to be predicted. A
few items are made new: what was fitted has none of their ratings. Four models predict: the fitted one; updated with
the feedback and the ratings that were fitted; updated with the feedback alone, at once and in ten portions; and one
that is fitted again to everything. Users who are in neither part cannot be predicted by any, and are left out.

Run: python experiments/updates.py [--set ml-100k|ml-1m] [--model bayes|accams] [--sweeps 60]
"""

from __future__ import annotations

import argparse
import warnings
from time import perf_counter
from typing import Any

import numpy as np

from accams import ACCAMS, BayesianACCAMS, Model
from accams.data import Events, datasets
from accams.data.deltas import latest
from common import machine, table, use_local_data

NOISE = {"ml-100k": 0.93, "ml-1m": 0.85}  # about what calibration finds
NEW_ITEMS = 0.03  # share of the items that are made new
PORTIONS = 10


def by_time(name: str) -> tuple[Events, Events, Events]:
    """Ratings that are fitted, feedback, and ratings to predict, each in the order of time."""
    data = datasets.movielens(name.removeprefix("ml-")).observations
    i, j, values = data.coo()
    order = np.argsort(data.times, kind="stable")
    every = Events(data.row_index.ids[i], data.col_index.ids[j], values, np.asarray(data.times, np.float64))
    cuts = [int(share * len(order)) for share in (0.8, 0.9)]
    train, news, test = (part_of(every, part) for part in np.split(order, cuts))
    made_new = np.random.default_rng(0).choice(data.col_index.ids, int(NEW_ITEMS * data.shape[1]), replace=False)
    return part_of(train, ~np.isin(train.items, made_new)), news, test


def part_of(events: Events, which: np.ndarray) -> Events:
    return Events(events.users[which], events.items[which], events.values[which], events.times[which])


def joined(one: Events, two: Events) -> Events:
    return Events(*(np.concatenate([getattr(x, name) for x in (one, two)]) for name in vars(one)))


def pairs(events: Events) -> np.ndarray:
    return np.column_stack([events.users, events.items])


def fit(events: Events, given: Any) -> Model:
    if given.model == "accams":
        estimator: Any = ACCAMS(20, 10, learning_rate=0.3, random_state=0, verbose=False)
    else:
        settings = {"n_sweeps": given.sweeps, "n_chains": 2, "noise": NOISE[given.set]}
        estimator = BayesianACCAMS(20, 10, **settings, random_state=0, verbose=False)
    return estimator.fit(pairs(events), events.values).model_  # type: ignore[no-any-return]


def in_portions(model: Model, news: Events) -> Model:
    """Feedback that comes bit by bit, each time with all that came before, as a log grows."""
    for end in np.linspace(0, len(news), PORTIONS + 1).round().astype(int)[1:]:
        model = model.update(part_of(news, np.arange(end)), history="model")
    return model


def groups(train: Events, news: Events, test: Events) -> dict[str, np.ndarray]:
    """Kinds of ratings to predict."""
    users, items = np.isin(test.users, train.users), np.isin(test.items, train.items)
    told_users, told_items = np.isin(test.users, news.users), np.isin(test.items, news.items)
    return {
        "known user with feedback, known item": users & told_users & items,
        "known user without feedback, known item": users & ~told_users & items,
        "new user, known item": ~users & told_users & items,
        "new item": (users | told_users) & ~items & told_items,
        "all of these": (users | told_users) & (items | told_items),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=NOISE, default="ml-100k")
    parser.add_argument("--model", choices=["bayes", "accams"], default="bayes")
    parser.add_argument("--sweeps", type=int, default=60)
    given = parser.parse_args()
    use_local_data()
    warnings.simplefilter("ignore")  # of items with few ratings
    train, news, test = by_time(given.set)
    made = {
        "fitted": lambda: fit(train, given),
        "updated, with history": lambda: first.update(news, history=known),
        "updated, history='model'": lambda: first.update(news, history="model"),
        "in ten portions": lambda: in_portions(first, news),
        "fitted again": lambda: fit(joined(train, news), given),
    }
    errors, times = dict[str, np.ndarray](), dict[str, float]()
    for name, make in made.items():
        began = perf_counter()
        model = make()
        times[name] = perf_counter() - began
        errors[name] = model.predict(pairs(test)) - test.values
        if name == "fitted":
            first, known = model, latest(train).observations
            print(model.drift(news), flush=True)
        print(f"{name}: {model}, {times[name]:.1f} s", flush=True)
    lines = []
    for kind, which in groups(train, news, test).items():
        lines.append([kind, f"{which.sum():,}", *(f"{np.sqrt(np.mean(x[which] ** 2)):.4f}" for x in errors.values())])
    lines.append(["seconds", "", *(f"{x:.1f}" for x in times.values())])
    print(table(["ratings to predict", "number", *errors], lines))
    print(machine())


if __name__ == "__main__":
    main()
