"""Protocols of an evaluation of lists: training data, histories, what is to be found, and measures.

A rating of 4 or 5 is a like. Each protocol makes two tasks in the same way: settings are chosen on the validation task,
which sees nothing of the test task, and results are those of the test task.

leave-ten-out
    Ten random likes of each user with at least twenty are held out. All else is training data, and the user's part of
    it is the history. The validation task holds out ten more from the training data, in the same way.
strong-generalisation
    A tenth of the users are test users, none of whose ratings are training data: a random 80 % of their ratings are
    the history, and the likes among the others are to be found. Another tenth are the validation users, and neither
    are in the training data of either task.
temporal
    The last tenth of all ratings, by one cut in time for everybody, are the test: likes after the cut of users with
    ratings before it. The validation task cuts off the last tenth of the training data, in the same way.

Lists rank all items that are not in the history, whatever their rating there. Items without any rating in the training
data stay among those to be found, although no method here can find them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from accams import Observations, metrics
from accams.data.splits import by_time, leave_out

LIKE = 4.0
LENGTH = 100  # of a list
HEAD = 0.8  # share of the likes that the popular items have, those not in the long tail
INPUTS = {"likes": 0.0, "weighted": 0.3}  # weight of an item that was rated lower, where that of a like is 1
BLOCK = 500  # users whose scores are held at once

Lists = NDArray[np.int64]  # positions of items, best first; one line a user
Scores = Callable[[NDArray[np.int64]], NDArray[np.floating]]  # of all items, for users by their position


@dataclass(frozen=True)
class Task:
    """Training data, and the histories of some users with what they should find.

    Rows of `history` and `relevant` are these users; `users` are their rows in `ratings`, or None if they have none.
    `times` are those of the ratings, in their order, where a protocol goes by time.
    """

    ratings: sparse.csr_array
    history: sparse.csr_array
    relevant: sparse.csr_array
    users: NDArray[np.int64] | None = None
    times: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        """Check that nothing to be found is visible, and that every user has a history and something to find."""
        known = self.history if self.users is None else self.history + self.ratings[self.users]
        assert (known != 0).multiply(self.relevant).nnz == 0
        assert self.users is None or (self.history != self.ratings[self.users]).nnz == 0
        assert np.diff(self.history.indptr).all()
        assert np.diff(self.relevant.indptr).all()

    @classmethod
    def of_known(cls, ratings: sparse.csr_array, held: sparse.csr_array, times: NDArray[Any] | None = None) -> Task:
        """Return the task of the users in `ratings` with held-out likes."""
        known = np.flatnonzero(np.diff(ratings.indptr))
        ratings, held = ratings[known], held[known]
        users = np.flatnonzero(np.diff(held.indptr))
        return cls(ratings, ratings[users], held[users], users, times)

    def measure(self, lists: Lists) -> dict[str, float]:
        """Compute the measures of these lists.

        Coverage is the share of all items that are in the top ten of at least one user. The long tail are all items but
        the most popular ones that have 80 % of the likes in the training data; its share in the top tens is given.
        """
        likes = np.asarray(weigh(self.ratings, "likes").sum(axis=0)).ravel()
        popular = np.argsort(-likes, kind="stable")
        before = np.cumsum(likes[popular]) - likes[popular]
        tail = np.ones(len(likes), bool)
        tail[popular[before < HEAD * likes.sum()]] = False
        ten = lists[:, :10]
        return {
            "recall@10": metrics.recall(lists, self.relevant, 10),
            "recall@20": metrics.recall(lists, self.relevant, 20),
            "NDCG@10": metrics.ndcg(lists, self.relevant, 10),
            "NDCG@100": metrics.ndcg(lists, self.relevant, 100),
            "coverage": metrics.coverage(lists, len(likes), 10),
            "long tail": float(tail[ten[ten >= 0]].mean()),
        }

    def each(self, lists: Lists) -> NDArray[np.float64]:
        """Compute NDCG@10 of each user."""
        starts, cols = self.relevant.indptr, self.relevant.indices
        return np.array([metrics.ndcg(lists[[u]], [cols[starts[u] : starts[u + 1]]], 10) for u in range(len(lists))])

    def check(self, lists: Lists) -> None:
        """Check that no list has an item of the history."""
        who, place = np.nonzero(lists >= 0)
        assert not np.asarray(self.history[who, lists[who, place]]).any()


@dataclass(frozen=True)
class Protocol:
    """Two tasks of the same making."""

    name: str
    validation: Task
    test: Task


def best(history: sparse.csr_array, scores: Scores) -> Lists:
    """Rank the items that are not in the history by their scores."""
    lists = []
    for start in range(0, history.shape[0], BLOCK):
        who = np.arange(start, min(start + BLOCK, history.shape[0]))
        block = np.array(scores(who), np.float64)
        block[history[who].nonzero()] = -np.inf
        top = np.sort(np.argpartition(-block, LENGTH, axis=1)[:, :LENGTH], axis=1)
        order = np.argsort(-np.take_along_axis(block, top, axis=1), axis=1, kind="stable")
        lists.append(np.take_along_axis(top, order, axis=1))
    return np.concatenate(lists)


def weigh(ratings: sparse.csr_array, kind: str) -> sparse.csr_array:
    """Return the input of a model of likes: 1 for a like, and what `INPUTS` says for a lower rating."""
    out = ratings.copy()
    out.data = np.where(ratings.data >= LIKE, 1.0, INPUTS[kind])
    out.eliminate_zeros()
    return out


def as_matrix(obs: Observations) -> sparse.csr_array:
    """Return the stored entries as a matrix of their positions."""
    return sparse.csr_array((obs.values, obs.cols.astype(np.int64), obs.row_starts), shape=obs.shape)


def leave_ten_out(ratings: sparse.csr_array, seed: int = 0) -> Task:
    """Return the task of finding ten likes of each user with at least twenty."""
    held = as_matrix(leave_out(Observations.from_sparse(weigh(ratings, "likes")), 10, seed, min_train=10)[1])
    rest = ratings - ratings.multiply(held)
    rest.eliminate_zeros()
    return Task.of_known(sparse.csr_array(rest), held)


def strong_generalisation(ratings: sparse.csr_array, seed: int = 0) -> Protocol:
    """Return the tasks of two tenths of the users, who are not in the training data."""
    random = np.random.default_rng(seed)
    users, tenth = random.permutation(ratings.shape[0]), ratings.shape[0] // 10
    training, tasks = ratings[np.sort(users[2 * tenth :])], []
    for part in (users[tenth : 2 * tenth], users[:tenth]):
        whole = ratings[np.sort(part)]
        counts = np.diff(whole.indptr)
        who = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((random.random(whole.nnz), who))
        rank = np.empty(whole.nnz)
        rank[order] = np.arange(whole.nnz) - whole.indptr[who]
        given = rank < np.ceil(0.8 * counts)[who]
        history, other = whole.copy(), whole.copy()
        history.data[~given], other.data[given] = 0.0, 0.0
        history.eliminate_zeros()
        relevant = weigh(other, "likes")
        asked = np.flatnonzero(np.diff(relevant.indptr))
        tasks.append(Task(training, history[asked], relevant[asked]))
    return Protocol("strong-generalisation", *tasks)


def temporal(obs: Observations) -> tuple[Task, Observations]:
    """Return the task of finding the likes among the last tenth of the ratings, and the ratings before."""
    before, after = by_time(obs, 0.1)
    return Task.of_known(as_matrix(before), weigh(as_matrix(after), "likes"), before.times), before


def protocols(obs: Observations) -> list[Protocol]:
    """Return the three protocols of a table of ratings with times."""
    ten = leave_ten_out(as_matrix(obs))
    late, before = temporal(obs)
    return [
        Protocol("leave-ten-out", leave_ten_out(ten.ratings, seed=1), ten),
        strong_generalisation(as_matrix(obs)),
        Protocol("temporal", temporal(before)[0], late),
    ]
