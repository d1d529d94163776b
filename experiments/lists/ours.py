"""Our models. Bytes are those of the saved file, without the history of users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams import ACCAMS, BayesianACCAMS, ItemACCAMS, Observations
from lists.protocols import INPUTS, LENGTH, Lists, weigh
from lists.rivals import Fitted, Matrix, Method, Users

SIZES = (100_000, 400_000)


def item_accams(ratings: Matrix, max_bytes: int, input: str = "weighted", times: Any = None, **how: Any) -> Fitted:
    """Fit `ItemACCAMS`, which chooses penalty and dropout itself."""
    rows = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
    obs = Observations.from_coo(rows, ratings.indices, ratings.data, shape=ratings.shape, times=times)
    model: Any = ItemACCAMS(max_bytes, seen_weight=INPUTS[input], verbose=False, **how).fit(obs)

    def lists(history: Matrix, _: Users) -> Lists:
        found = model.recommend(history=Observations.from_sparse(history), n=LENGTH)
        return as_lists(found, np.arange(history.shape[0]))

    return Fitted(lists, saved_bytes(model))


def accams_of_likes(ratings: Matrix, input: str, n_stencils: int, zero_weight: float) -> Fitted:
    """Fit `ACCAMS` to the input, with zeros of a smaller weight elsewhere."""
    observed = Observations.from_sparse(weigh(ratings, input), zeros="observed", zero_weight=zero_weight)
    model: Any = ACCAMS(n_stencils, 10, learning_rate=0.2, verbose=False).fit(observed)
    return of_users(model, lambda history: weigh(history, input))


def bayesian_of_ratings(ratings: Matrix, n_sweeps: int | str) -> Fitted:
    """Fit `BayesianACCAMS` to ratings, and rank by their posterior mean."""
    model: Any = BayesianACCAMS(n_sweeps=n_sweeps, verbose=False).fit(Observations.from_sparse(ratings))
    return of_users(model, lambda history: history)


def of_users(model: Any, shown: Callable[[Matrix], Matrix]) -> Fitted:
    """Rank with a model of users and items; users it does not know are folded in by what `shown` gives of a history."""

    def lists(history: Matrix, users: Users) -> Lists:
        if users is not None:
            i, j = history.nonzero()
            found = model.recommend(users.tolist(), LENGTH, seen=np.column_stack([users[i], j]))
            return as_lists(found, users)
        out, known = np.full((history.shape[0], LENGTH), -1), shown(history)
        for u in range(len(out)):
            (seen, _), (items, values) = row(history, u), row(known, u)
            if len(items):  # a user without likes gets no list
                found = model.fold_in(items, values).recommend(min(LENGTH + len(seen), history.shape[1]))["item"]
                unseen = found[~np.isin(found, seen)][:LENGTH]
                out[u, : len(unseen)] = unseen
        return out

    return Fitted(lists, saved_bytes(model))


def as_lists(found: Any, users: NDArray[np.int64]) -> Lists:
    """Return records as one row for each of these users, which are in ascending order."""
    out = np.full((len(users), LENGTH), -1)
    out[np.searchsorted(users, found["user"]), found["rank"] - 1] = found["item"]
    return out


def row(x: Matrix, i: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the columns and values of a row."""
    part = slice(x.indptr[i], x.indptr[i + 1])
    return x.indices[part], x.data[part]


def saved_bytes(model: Any) -> int:
    """Return the size of the model's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.accams")
        model.save(path, history=False)
        return path.stat().st_size


def sized(max_bytes: int) -> Method:
    """Return `ItemACCAMS` of this size, which has no settings to search for."""
    return Method(f"ItemACCAMS, {max_bytes:,} bytes", item_accams, {"max_bytes": max_bytes})


def latest(input: str, max_bytes: int) -> Method:
    """Return `ItemACCAMS` of this size, which chooses on the latest choices of the training data."""
    start = {"max_bytes": max_bytes, "input": input, "held_out": "latest"}
    return Method(f"ItemACCAMS, {max_bytes:,} bytes, latest", item_accams, start, timed=True)


def of_users_and_items(quick: bool) -> tuple[Method, ...]:
    """Return the models of users and items: not made for lists, and slower."""
    start = {"input": "weighted", "n_stencils": 10 if quick else 100, "zero_weight": 0.3}
    sweeps = 40 if quick else "auto"
    return (
        Method("ACCAMS of likes", accams_of_likes, start, {"input": tuple(INPUTS)}),
        Method("BayesianACCAMS of ratings", bayesian_of_ratings, {"n_sweeps": sweeps}),
    )
