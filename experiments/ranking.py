"""Ranking: which films will a user like? Recall@10 and NDCG@10 on MovieLens 1M, ours beside what ranking is done with.

Ratings of 4 and 5 are likes. Per user with at least 20 of them, 10 are left out at random and have to be found among
all films that the user has not rated in the rest. Models of likes see 0s everywhere else, of a smaller weight; models
of ratings see the ratings, and order by predicted rating. Rivals (`pip install implicit`): alternating least squares
and nearest neighbours of items; of each, the best setting tried is shown, chosen by the test itself.

Run: python experiments/ranking.py [--set 100k|1m] [--quick]
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from accams import ACCAMS, BayesianACCAMS, Observations, metrics
from accams.data import datasets
from accams.data.splits import leave_out
from common import machine, table, use_local_data

N = 10


@dataclass(frozen=True)
class Task:
    """Ratings and likes to learn from, who is asked for, and what they should find."""

    ratings: Observations
    likes: sparse.csr_array
    users: np.ndarray
    relevant: sparse.csr_array

    @classmethod
    def of(cls, name: str) -> Task:
        ratings = datasets.movielens(name).observations
        i, j, x = ratings.coo()
        liked = sparse.csr_array((np.ones((x >= 4).sum()), (i[x >= 4], j[x >= 4])), shape=ratings.shape)
        training, test = leave_out(Observations.from_sparse(liked), n=N, random_state=0, min_train=10)
        likes, truth = (
            sparse.csr_array((part.values, part.cols, part.row_starts), shape=ratings.shape)
            for part in (training, test)
        )
        held = truth.toarray()[i, j] > 0
        users = np.flatnonzero(np.diff(truth.indptr))
        return cls(ratings.select(np.flatnonzero(~held)), likes, users, truth[users])

    def measure(self, ranked: np.ndarray) -> tuple[float, float]:
        return metrics.recall(ranked, self.relevant, N), metrics.ndcg(ranked, self.relevant, N)

    def best(self, scores: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The best films of each user by scores of all films, without those that were rated."""
        starts, cols, found = self.ratings.row_starts, self.ratings.cols, []
        for part in np.array_split(self.users, 20):
            block = np.array(scores(part), dtype=np.float64)
            for line, user in enumerate(part):
                block[line, cols[starts[user] : starts[user + 1]]] = -np.inf
            found.append(np.argsort(-block, axis=1, kind="stable")[:, :N])
        return np.concatenate(found)

    def recommended(self, model: Any, **how: Any) -> np.ndarray:
        """The same by `recommend`."""
        i, j, _ = self.ratings.coo()
        ids = model.row_index_.ids[self.users].tolist(), model.row_index_.ids[i], model.col_index_.ids[j]
        found = model.recommend(ids[0], N, seen=np.column_stack(ids[1:]), **how)
        return np.asarray(model.col_index_.positions(found["item"])).reshape(len(self.users), N)


def ours(task: Task, quick: bool) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name, setting, and what it recommends."""
    for weight in (0.3,) if quick else (1.0, 0.3, 0.1):
        zeros = Observations.from_sparse(task.likes, zeros="observed", zero_weight=weight)
        for s in (40,) if quick else (40, 100):
            model: Any = ACCAMS(s, 10, learning_rate=0.2, verbose=False).fit(zeros)
            yield "ACCAMS of likes", f"s={s}, zero_weight={weight:g}", task.recommended(model)
    zeros = Observations.from_sparse(task.likes, zeros="observed", zero_weight=0.3)
    for s in (30,) if quick else (50,):
        model = BayesianACCAMS(n_stencils=s, noise="sampled", n_sweeps=40 if quick else 100, verbose=False).fit(zeros)
        yield "BayesianACCAMS of likes", f"s={s}, zero_weight=0.3, sampled noise", task.recommended(model)
    model = BayesianACCAMS(n_sweeps=40 if quick else "auto", verbose=False).fit(task.ratings)
    yield "BayesianACCAMS of ratings", "by the mean", task.recommended(model)
    yield "BayesianACCAMS of ratings", "by the 10 % quantile", task.recommended(model, quantile=0.1)


def rivals(task: Task, quick: bool) -> Iterator[tuple[str, str, np.ndarray]]:
    popularity = np.asarray(task.likes.sum(axis=0)).ravel()
    yield "popularity", "", task.best(lambda users: np.tile(popularity, (len(users), 1)))
    if importlib.util.find_spec("implicit") is None:
        print("implicit is not installed: its methods are left out")
        return
    from implicit.als import AlternatingLeastSquares
    from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, TFIDFRecommender

    likes = sparse.csr_matrix(task.likes)
    for factors in (32,) if quick else (16, 32, 64, 128):
        for alpha in (2.0,) if quick else (1.0, 2.0, 5.0, 20.0):
            for regularisation in (0.05,) if quick else (0.05, 1.0):
                how: dict[str, Any] = {"factors": factors, "alpha": alpha, "regularization": regularisation}
                model = AlternatingLeastSquares(**how, iterations=20, random_state=0, num_threads=2)
                model.fit(likes, show_progress=False)
                left, right = np.asarray(model.user_factors), np.asarray(model.item_factors)
                setting = f"{factors} factors, alpha={alpha:g}, regularization={regularisation:g}"
                yield "ALS (implicit)", setting, task.best(lambda users, a=left, b=right: a[users] @ b.T)
    for kind in (CosineRecommender, TFIDFRecommender, BM25Recommender):
        for k in (50,) if quick else (5, 10, 20, 50, 100, 200):
            model = kind(K=k, num_threads=2)
            model.fit(likes, show_progress=False)
            alike = sparse.csr_array(model.similarity)
            scores = lambda users, alike=alike: (task.likes[users] @ alike).toarray()  # noqa: E731
            yield "item-kNN (implicit)", f"{kind.__name__.removesuffix('Recommender')}, K={k}", task.best(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="1m", choices=["100k", "1m"])
    parser.add_argument("--quick", action="store_true", help="few settings, short fits")
    given = parser.parse_args()
    use_local_data()
    task = Task.of(given.set)
    found: dict[str, list[Any]] = {}
    for method in (rivals, ours):
        began = perf_counter()
        for name, setting, ranked in method(task, given.quick):
            recall, ndcg = task.measure(ranked)
            seconds, began = perf_counter() - began, perf_counter()
            print(f"{name}, {setting}: recall {recall:.4f}, NDCG {ndcg:.4f}, {seconds:.0f} s", flush=True)
            key = f"{name} {setting}" if "quantile" in setting else name
            if key not in found or ndcg > found[key][3]:
                found[key] = [name, setting, recall, ndcg]
    print(f"\n{len(task.users):,} users, {task.relevant.nnz:,} likes left out")
    rows = [[name, setting, f"{recall:.4f}", f"{ndcg:.4f}"] for name, setting, recall, ndcg in found.values()]
    print(table(["method", "best setting", "recall@10", "NDCG@10"], rows))
    print(machine(*(["implicit"] if importlib.util.find_spec("implicit") else [])))


if __name__ == "__main__":
    main()
