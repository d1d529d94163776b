"""Time lists: fits of `ItemACCAMS` on MovieLens 1M, and a list from a history at 3,706 and at 100,000 items.

The large catalogue is planted: people of a hundred tastes choose among 100,000 items of very different popularity.
EASE (without dropout, its penalty given) makes the same lists of MovieLens from its dense map: a sum of the lines of
the history, and the ten best.

Run: python experiments/list_speed.py [--sizes N ...] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from accams import ItemACCAMS, Observations
from accams.data import datasets
from accams.fit.regression import solved
from common import machine, table, use_local_data
from lists.protocols import as_matrix
from lists.rivals import gram

HISTORY, LENGTH, LISTS, WARM_UP = 50, 10, 300, 20
TASTES = 100


def planted(n_items: int, n_users: int, choices: int, seed: int = 0) -> Observations:
    """Return who chose what in a catalogue whose popularity falls as the square root of the rank."""
    random = np.random.default_rng(seed)
    own, each = random.integers(TASTES, size=n_users), n_items // TASTES
    shares = 1.0 / np.sqrt(1.0 + np.arange(n_items))
    chance = np.cumsum(shares) / shares.sum()
    anywhere = np.searchsorted(chance, random.random((n_users, choices)))
    place = np.minimum(anywhere // TASTES, each - 1) * TASTES + own[:, None]  # as popular, but of the own taste
    items = np.where(random.random((n_users, choices)) < 0.7, place, anywhere)
    users = np.repeat(np.arange(n_users), choices)
    found = sparse.coo_array((np.ones(users.size), (users, items.ravel())), shape=(n_users, n_items)).tocsr()
    found.data[:] = 1.0
    return Observations.from_sparse(found)


def fitted(obs: Observations, **how: Any) -> tuple[Any, float]:
    """Return a fitted model, and the seconds that it took."""
    began = perf_counter()
    model = ItemACCAMS(verbose=False, **how).fit(obs)
    return model, perf_counter() - began


def milliseconds(make: Callable[[np.ndarray], object], obs: Observations) -> float:
    """Return the median time of a list, for histories of items that are as popular as those chosen."""
    random, times = np.random.default_rng(1), []
    chance = np.bincount(obs.cols, minlength=obs.shape[1]) / obs.nnz
    for _ in range(LISTS):
        history = random.choice(len(chance), HISTORY, replace=False, p=chance)
        began = perf_counter()
        make(history)
        times.append(1e3 * (perf_counter() - began))
    return median(times[WARM_UP:])


def line_of(name: str, obs: Observations, **how: Any) -> list[Any]:
    """Fit a model and return a line of the table."""
    model, seconds = fitted(obs, **how)
    ids = model.model_.items
    took = milliseconds(lambda history: model.recommend(history=ids[history], n=LENGTH), obs)
    return [name, f"{len(ids):,}", model.n_stencils_, f"{seconds:.1f}", f"{took:.2f}"]


def of_dense(item_map: np.ndarray, history: np.ndarray) -> np.ndarray:
    """Return the best items by a dense map."""
    scores = item_map[history].sum(axis=0)
    scores[history] = -np.inf
    best = np.argpartition(-scores, LENGTH)[:LENGTH]
    return best[np.argsort(-scores[best])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[100_000, 400_000], help="bytes of maps of MovieLens")
    parser.add_argument("--quick", action="store_true", help="MovieLens 100K, and a catalogue of 10,000 items")
    given = parser.parse_args()
    use_local_data()
    films = datasets.movielens("100k" if given.quick else "1m").observations
    fitted(datasets.movielens("100k").observations, max_bytes=20_000, max_items=500)  # compiles
    lines = [line_of(f"ItemACCAMS, {size:,} bytes", films, max_bytes=size) for size in given.sizes]
    began = perf_counter()
    dense = solved(gram(as_matrix(films), "weighted"), 400.0).astype(np.float32)
    seconds = perf_counter() - began
    took = milliseconds(lambda history: of_dense(dense, history), films)
    lines.append(["EASE, penalty given", f"{films.shape[1]:,}", "", f"{seconds:.1f}", f"{took:.2f}"])
    n_items = 10_000 if given.quick else 100_000
    lines.append(line_of("ItemACCAMS", planted(n_items, n_items // 2, 40)))
    print(table(["model", "items", "stencils", "seconds of the fit", "ms a list (median)"], lines))
    print(machine())


if __name__ == "__main__":
    main()
