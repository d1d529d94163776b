"""New items in lists by choice: an update beside a new fit, with the first ratings of items that were not fitted.

MovieLens: all ratings of some items, popular to middling ones, and all ratings of some users are left out of the fit.
Then the items come, with the first of their ratings: so many of each item, spread over all users; or, as it is in a
shop, all ratings by a share of the users, who are those that were there since. The users who were left out tell four
fifths of their ratings of the other items, and lists for them should find what they like of the rest:

- new: NDCG@10 and recall@50 of the new items that they like, in lists of all items;
- among new: NDCG@10 in lists of the new items alone;
- known: NDCG@10 of the hidden fifth, in lists of all items, in which new items now take their places;
- both: NDCG@10 of all of these;
- told: NDCG@10 of the hidden fifth in lists of known items, for those who also told their ratings of the new items.

Beside the update: the items left out, a fit to the same ratings with the same penalty and dropout (the whole map; a
stencil sum where all ratings have come), and nearest neighbours (cosine of who chose what), of the same ratings.

Run: python experiments/new_items.py [--set 100k|1m] [--items 200] [--whole] [--fits]
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pandas as pd
from scipy import sparse

from accams import ItemACCAMS, Model
from accams.data import datasets
from common import machine, table, use_local_data

POPULAR = 0.4  # share of the items among which the new ones are drawn, the most popular ones
TEST = 0.1  # share of the users
HIDDEN = 0.2  # share of their ratings
LIKE = 4.0
LENGTH = 50
FIRST: tuple[int | float, ...] = (5, 20, 0.02, 0.1, 1.0)  # ratings of each item, or share of the users
COLUMNS = ("new", "recall@50", "among new", "known", "both", "told")


@dataclass
class Task:
    """Who is in the fit, which items are new, and what the others tell."""

    ratings: sparse.csr_array
    new: np.ndarray
    train: np.ndarray
    test: np.ndarray
    hidden: np.ndarray  # (user of the test, item)

    @classmethod
    def of(cls, name: str, n_items: int) -> Task:
        data = datasets.movielens(name).observations
        i, j, values = data.coo()
        random, (m, n) = np.random.default_rng(0), data.shape
        popular = np.argsort(-np.bincount(j, minlength=n), kind="stable")[: int(POPULAR * n)]
        new = np.sort(random.choice(popular, n_items, replace=False))
        test = np.sort(random.choice(m, int(TEST * m), replace=False))
        ratings = sparse.csr_array((values, (i, j)), shape=(m, n))
        hidden = random.random((len(test), n)) < HIDDEN
        return cls(ratings, new, np.setdiff1d(np.arange(m), test), test, hidden)

    def told(self, with_new: bool) -> pd.DataFrame:
        given = np.where(self.hidden, 0.0, self.ratings[self.test].toarray())
        if not with_new:
            given[:, self.new] = 0.0
        return as_table(np.arange(len(self.test)), given)

    def liked(self, new: bool, known: bool) -> np.ndarray:
        likes = self.ratings[self.test].toarray() >= LIKE
        is_new = np.isin(np.arange(likes.shape[1]), self.new)
        return likes & np.where(is_new, new, known & self.hidden)

    def fitted(self) -> pd.DataFrame:
        given = self.ratings[self.train].toarray()
        given[:, self.new] = 0.0
        return as_table(self.train, given)

    def first(self, how: float) -> pd.DataFrame:
        """The first ratings of the new items."""
        random, given = np.random.default_rng(1), self.ratings[self.train].toarray()[:, self.new]
        keep = np.zeros(given.shape, np.bool_)
        if isinstance(how, int):
            for q in range(given.shape[1]):
                keep[random.permutation(np.flatnonzero(given[:, q]))[:how], q] = True
        else:
            keep[random.permutation(len(given))[: round(how * len(given))]] = True
        return as_table(self.train, np.where(keep, given, 0.0), self.new)


def as_table(users: np.ndarray, given: np.ndarray, items: np.ndarray | None = None) -> pd.DataFrame:
    i, j = np.nonzero(given)
    return pd.DataFrame({"user": users[i], "item": j if items is None else items[j], "rating": given[i, j]})


def lists_of(model: Model, history: pd.DataFrame, n_users: int, n: int, among: np.ndarray | None = None) -> np.ndarray:
    found = model.recommend(history=history, n=n, candidates=None if among is None else among.tolist()).to_pandas()
    out = np.full((n_users, n), -1)
    out[found["user"].to_numpy(), found["rank"].to_numpy() - 1] = found["item"].to_numpy()
    return out


def measured(task: Task, make_lists) -> list[str]:  # type: ignore[no-untyped-def]
    """Return the columns, given a function from (with new items in the histories, length, among) to lists."""
    known = np.setdiff1d(np.arange(task.ratings.shape[1]), task.new)
    lists, among, told = make_lists(False, LENGTH, None), make_lists(False, 10, task.new), make_lists(True, 10, known)
    new, old, both = task.liked(True, False), task.liked(False, True), task.liked(True, True)
    numbers = [mean_ndcg(lists, new), mean_recall(lists, new), mean_ndcg(among, new)]
    numbers += [mean_ndcg(lists, old), mean_ndcg(lists, both), mean_ndcg(told, old)]
    return [f"{x:.4f}" for x in numbers]


def mean_ndcg(lists: np.ndarray, liked: np.ndarray, k: int = 10) -> float:
    some = liked.any(axis=1)
    hits = np.take_along_axis(liked, np.maximum(lists[:, :k], 0), 1) & (lists[:, :k] >= 0)
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    best = np.cumsum(discounts)[np.minimum(liked.sum(axis=1), k) - 1]
    return float(np.mean((hits @ discounts / best)[some]))


def mean_recall(lists: np.ndarray, liked: np.ndarray) -> float:
    some = liked.any(axis=1)
    hits = np.take_along_axis(liked, np.maximum(lists, 0), 1) & (lists >= 0)
    return float(np.mean(hits.sum(axis=1)[some] / np.minimum(liked.sum(axis=1), lists.shape[1])[some]))


def of_model(task: Task, model: Model):  # type: ignore[no-untyped-def]
    def make(with_new: bool, n: int, among: np.ndarray | None) -> np.ndarray:
        inside = None if among is None else np.intersect1d(among, model.items)
        if inside is not None and not len(inside):
            return np.full((len(task.test), n), -1)
        return lists_of(model, task.told(with_new), len(task.test), n, inside)

    return make


def of_neighbours(task: Task, known: pd.DataFrame, weight_of):  # type: ignore[no-untyped-def]
    shape = task.ratings.shape
    X = sparse.csr_array((weight_of(known.rating.to_numpy()), (known.user, known.item)), shape=shape)
    both = (X.T @ X).toarray()
    lengths = np.sqrt(np.maximum(np.diagonal(both), 1e-12))
    both /= lengths[:, None] * lengths
    np.fill_diagonal(both, 0.0)

    def make(with_new: bool, n: int, among: np.ndarray | None) -> np.ndarray:
        told = task.told(with_new)
        history = sparse.csr_array(
            (weight_of(told.rating.to_numpy()), (told.user, told.item)), (len(task.test), shape[1])
        )
        scores = history @ both
        scores[told.user, told.item] = -np.inf
        if among is not None:
            scores[:, np.setdiff1d(np.arange(shape[1]), among)] = -np.inf
        return np.argsort(-scores, axis=1, kind="stable")[:, :n]

    return make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=["100k", "1m"], default="1m")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--whole", action="store_true", help="whole maps in place of stencil sums")
    parser.add_argument("--fits", action="store_true", help="fit stencil sums again every time: minutes each")
    given = parser.parse_args()
    use_local_data()
    warnings.simplefilter("ignore")  # of items that are not in a model
    task, size = Task.of(given.set, given.items), {"max_bytes": None} if given.whole else {}
    ratings = task.fitted()
    began = perf_counter()
    base = ItemACCAMS(verbose=False, random_state=0, **size).fit(ratings)  # type: ignore[arg-type]
    ridge = {"penalty": base.penalty_, "dropout": base.dropout_}
    print(f"fitted: {base.model_}, {ridge}, {perf_counter() - began:.1f} s", flush=True)
    lines = [["left out", "", *measured(task, of_model(task, base.model_)), ""]]
    for how in FIRST:
        first = task.first(how)
        name = f"{how} of each" if isinstance(how, int) else f"those of {100 * how:g} % of users"
        about = f"{name}: {len(first):,} ratings by {first.user.nunique():,} users"
        began = perf_counter()
        model = base.model_.update(first, history="model")
        seconds = perf_counter() - began
        lines.append([about, "updated", *measured(task, of_model(task, model)), f"{seconds:.1f}"])
        every = pd.concat([ratings, first])
        again = {"fitted again, whole map": {"max_bytes": None}}
        if not given.whole and (given.fits or how == FIRST[-1]):
            again = {"fitted again": {}, **again}
        for kind, how_large in again.items():
            began = perf_counter()
            fit = ItemACCAMS(verbose=False, random_state=0, **ridge, **how_large).fit(every)  # type: ignore[arg-type]
            seconds = perf_counter() - began
            lines.append(["", kind, *measured(task, of_model(task, fit.model_)), f"{seconds:.1f}"])
        weight_of = base.model_.item_map.feedback.weights
        lines.append(["", "neighbours", *measured(task, of_neighbours(task, every, weight_of)), ""])
        print(*lines[-4:], sep="\n", flush=True)
    print(table(["first ratings", "lists", *COLUMNS, "seconds"], lines))
    print(machine())


if __name__ == "__main__":
    main()
