"""Evaluate lists on held-out choices: are they found, and how much of the catalogue is shown?"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accams import metrics
from accams.model.interactions import Interactions
from accams.use.scoring import Floats, Positions

LENGTH = 100  # of the lists that are compared
HEAD = 0.8  # share of all choices that the most popular items make up; others are the long tail


class ListQuality(NamedTuple):
    """How good lists are.

    Attributes
    ----------
    recall_10, recall_20, ndcg_10, ndcg_100 : float
        Means over users (`accams.metrics`).
    coverage : float
        Share of the items that are in somebody's first ten.
    long_tail : float
        Share of the long tail in the first ten: items beyond the most popular ones that make up 80 % of all choices.
    """

    recall_10: float
    recall_20: float
    ndcg_10: float
    ndcg_100: float
    coverage: float
    long_tail: float


@dataclass(frozen=True)
class ListEvaluation:
    """Lists of a model beside those of popularity, on the same held-out choices.

    Attributes
    ----------
    n_users, n_choices : int
        Users with held-out choices, and how many those are.
    lists, popularity : ListQuality

    Examples
    --------
    >>> import pandas as pd
    >>> from accams import ItemACCAMS
    >>> people, goods = ["ann", "ann", "bob", "bob", "cid"], ["tea", "milk", "tea", "milk", "rum"]
    >>> likes = pd.DataFrame({"user": people, "item": goods})
    >>> model = ItemACCAMS(penalty=1.0, verbose=False).fit(likes).model_
    >>> evaluation = model.evaluate_lists(pd.DataFrame({"user": ["cid"], "item": ["tea"]}))
    >>> evaluation.n_users, evaluation.n_choices, evaluation.lists.recall_10
    (1, 1, 1.0)
    """

    n_users: int
    n_choices: int
    lists: ListQuality
    popularity: ListQuality


def quality_of(ranked: Positions, relevant: Interactions, popularity: Floats) -> ListQuality:
    """Return how well lists (positions, padded with -1) find what is relevant to each user."""
    found = [relevant.columns[lo:hi] for lo, hi in zip(relevant.starts[:-1], relevant.starts[1:], strict=True)]
    order = np.argsort(-popularity, kind="stable")
    share = np.cumsum(popularity[order]) / max(float(popularity.sum()), 1e-300)
    head = order[: int(np.searchsorted(share, HEAD)) + 1]
    first = ranked[:, :10]
    shown = first[first >= 0]
    return ListQuality(
        metrics.recall(ranked, found, 10), metrics.recall(ranked, found, 20), metrics.ndcg(ranked, found, 10),
        metrics.ndcg(ranked, found, LENGTH), metrics.coverage(ranked, len(popularity), 10),
        float(np.mean(~np.isin(shown, head))) if len(shown) else 0.0,
    )  # fmt: skip


def popular_lists(popularity: Floats, left_out: Interactions, n: int = LENGTH) -> Positions:
    """Return the most popular items that each user has not seen."""
    order = np.argsort(-popularity, kind="stable")
    order = order[popularity[order] > 0.0]
    best = np.full((len(left_out.starts) - 1, n), -1, np.int64)
    for user, (lo, hi) in enumerate(zip(left_out.starts[:-1], left_out.starts[1:], strict=True)):
        some = order[: n + hi - lo]
        rest = some[~np.isin(some, left_out.columns[lo:hi])][:n]
        best[user, : len(rest)] = rest
    return best
