"""Implicit feedback: MovieLens 1M, ratings of 4 and 5 as positives, all blanks observed with a small weight.

Per user, the test part is 10 positives left out at random (users with at least 20); ranked are all films that the
user has no training positive for. Recall@10 and NDCG@10 beside popularity.

Run: python experiments/implicit_feedback.py
"""

from __future__ import annotations

import numpy as np
from common import machine, table, use_local_data
from scipy import sparse

from accams import ACCAMS, Observations, metrics
from accams.data import datasets
from accams.data.splits import leave_out


def top_n(scores: np.ndarray, seen: sparse.csr_array, users: np.ndarray, n: int = 10) -> np.ndarray:
    """The n best columns of each row that are not in `seen`."""
    scores = scores.copy()
    for line, user in enumerate(users):
        scores[line, seen.indices[seen.indptr[user] : seen.indptr[user + 1]]] = -np.inf
    best = np.argpartition(-scores, n, axis=1)[:, :n]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1)


def main() -> None:
    use_local_data()
    ratings = datasets.movielens("1m").observations
    i, j, x = ratings.coo()
    liked = sparse.csr_array((np.ones((x >= 4).sum()), (i[x >= 4], j[x >= 4])), shape=ratings.shape)
    training, test = leave_out(Observations.from_sparse(liked, zeros="observed"), n=10, random_state=0, min_train=10)
    seen = sparse.csr_array((training.values, training.cols, training.row_starts), shape=ratings.shape)
    truth = sparse.csr_array((test.values, test.cols, test.row_starts), shape=ratings.shape)
    users = np.flatnonzero(np.diff(truth.indptr))
    relevant = truth[users]

    def measure(scores: np.ndarray) -> list[str]:
        ranked = top_n(scores, seen, users)
        return [f"{metrics.recall(ranked, relevant, 10):.4f}", f"{metrics.ndcg(ranked, relevant, 10):.4f}"]

    popularity = np.asarray(seen.sum(axis=0)).ravel()
    rows = [["popularity", "", *measure(np.broadcast_to(popularity, (len(users), len(popularity))))]]
    for weight in (1.0, 0.3, 0.1):
        observations = Observations.from_sparse(seen, zeros="observed", zero_weight=weight)
        for s, rate in ((13, 1.0), (13, 0.2), (40, 0.2)):
            model = ACCAMS(s, 10, learning_rate=rate, verbose=False).fit(observations)
            scores = model.stencils_.dense()[users]
            rows.append([f"ACCAMS k=10, s={s}, learning rate {rate:g}", f"{weight:g}", *measure(scores)])
            print(rows[-1], flush=True)
    print(f"{len(users):,} users, {test.nnz:,} positives left out")
    print(table(["method", "zero_weight", "recall@10", "NDCG@10"], rows))
    print(machine())


if __name__ == "__main__":
    main()
