"""Learn which items go with which from who chose what: X'X, and a ridge chosen on held-out choices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accams.fit.keys import Purpose, generator
from accams.fit.regression import Ridge, dropped, solved
from accams.model.interactions import Interactions

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Watch = Callable[[int, int], None]
CELLS = 1 << 24  # of a block of users by items, in single precision
FEWEST_ITEMS = 5  # of a user whose choices are held out
SHARE, USUAL_USERS, MOST_USERS = 0.1, 200, 2000  # users on whom a ridge is chosen; of few, a third
FEWEST_USERS = 20  # with something to find
HIDDEN = 0.2  # share of their choices that is to be found
MOST_ITEMS = 3000  # in the regressions that are tried: the most popular ones
FIRST = 1.0  # penalty that is tried first, by the mean mass of an item
STEP, MOST_TRIALS = 2.0, 16  # from one penalty, and from one share of choices that are kept, to the next
HALVINGS, MOST_HALVINGS = 1, 6  # of that share: tried first, and at most
LENGTH = 100  # of the lists that are compared


def masses_of(choices: Interactions, size: int) -> Floats:
    """Return the sum of squared weights of each item."""
    weights = None if choices.weights is None else np.square(choices.weights.astype(np.float64))
    return np.bincount(choices.columns, weights, size).astype(np.float64)


def among(choices: Interactions, items: Positions, size: int) -> Interactions:
    """Return the choices of some items alone, by their places among those."""
    place = np.full(size, -1, np.int64)
    place[items] = np.arange(len(items))
    users = np.repeat(np.arange(len(choices.starts) - 1), np.diff(choices.starts))
    return Interactions.at(users, place[choices.columns], len(choices.starts) - 1, choices.weights)


def gram_of(choices: Interactions, size: int) -> Floats:
    """Return X'X, where X holds the weights of choices (user by item)."""
    gram, weights = np.zeros((size, size)), choices.weights
    block = max(1, CELLS // max(size, 1))
    for lo in range(0, len(choices.starts) - 1, block):
        starts = choices.starts[lo : lo + block + 1]
        cells = slice(int(starts[0]), int(starts[-1]))
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        dense = np.zeros((len(starts) - 1, size), np.float32)  # exact enough for a block: sums of blocks are in double
        dense[rows, choices.columns[cells]] = 1.0 if weights is None else weights[cells]
        used = np.flatnonzero(dense.any(axis=0))
        if 2 * len(used) < size:  # few items in this block
            part = dense[:, used]
            gram[np.ix_(used, used)] += part.T @ part
        else:
            gram += dense.T @ dense
    return gram


@dataclass(frozen=True)
class Trial:
    """Users held out: what is given of their choices, and what is to be found."""

    items: Positions  # the most popular ones
    gram: Floats  # of all other users
    given: Floats  # (user, item): weights
    seen: NDArray[np.bool_]  # (user, item): given, so that it cannot be found
    wanted: NDArray[np.bool_]  # (user, item)

    @classmethod
    def of(cls, choices: Interactions, gram: Floats, seed: int) -> Self | None:
        """Hold out some users; None if there are too few."""
        random = generator(seed, Purpose.VALIDATION)
        counts = np.diff(choices.starts)
        able = np.flatnonzero(counts >= FEWEST_ITEMS)
        number = min(MOST_USERS, max(USUAL_USERS, int(SHARE * len(able))), len(able) // 3)
        if number < FEWEST_USERS:
            return None
        users = np.sort(random.permutation(able)[:number])
        items = np.sort(np.argsort(-np.diagonal(gram), kind="stable")[:MOST_ITEMS])
        some = among(choices.take(users), items, len(gram))
        rest = gram[np.ix_(items, items)] - gram_of(some, len(items))
        rows, cols = np.repeat(np.arange(number), np.diff(some.starts)), some.columns
        weights = np.ones(len(cols)) if some.weights is None else some.weights.astype(np.float64)
        largest = np.zeros(number)
        np.maximum.at(largest, rows, weights)
        hidden = random.random(len(cols)) < HIDDEN
        given, seen, wanted = np.zeros((number, len(items))), *np.zeros((2, number, len(items)), np.bool_)
        shown = ~hidden
        given[rows[shown], cols[shown]], seen[rows[shown], cols[shown]] = weights[shown], True
        liked = hidden & (weights >= 0.5 * largest[rows]) & (weights > 0.0)
        wanted[rows[liked], cols[liked]] = True
        some_wanted = wanted.any(axis=1)
        if some_wanted.sum() < FEWEST_USERS:
            return None
        return cls(items, rest, given[some_wanted], seen[some_wanted], wanted[some_wanted])

    def ndcg(self, ridge: Ridge) -> float:
        """Return the mean NDCG of lists by the map of this ridge."""
        scores = self.given @ solved(dropped(self.gram, ridge.dropout), ridge.penalty)
        scores[self.seen] = -np.inf
        length = min(LENGTH, scores.shape[1])
        top = np.argpartition(-scores, length - 1, axis=1)[:, :length]
        order = np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable")
        hits = np.take_along_axis(self.wanted, np.take_along_axis(top, order, 1), 1)
        discounts = 1.0 / np.log2(np.arange(2, length + 2))
        best = np.cumsum(discounts)[np.minimum(self.wanted.sum(axis=1), length) - 1]
        return float(np.mean(hits @ discounts / best))


def first_penalty(gram: Floats) -> float:
    """Return a penalty of the right order: some times the mean mass of an item that was chosen."""
    masses = np.diagonal(gram)
    masses = masses[masses > 0.0]
    return FIRST * float(masses.mean()) if len(masses) else 1.0


def chosen_ridge(
    choices: Interactions, gram: Floats, seed: int, penalty: float | None = None, dropout: float | None = None,
    watch: Watch | None = None,
) -> Ridge:  # fmt: skip
    """Return the penalty and the dropout whose lists find most of what held-out users chose.

    The search walks from a first guess, in steps of a factor of two of the penalty or of the share of choices that are
    kept, as long as lists get better. What is given stays as it is.
    """
    first, trial = first_penalty(gram) if penalty is None else penalty, None
    if penalty is None or dropout is None:
        trial = Trial.of(choices, gram, seed)
    tried = dict[tuple[int, int], float]()

    def ridge_at(step: int, halvings: int) -> Ridge:
        return Ridge(first * STEP**step, 1.0 - STEP**-halvings if dropout is None else dropout)

    def measured(place: tuple[int, int]) -> float:
        if place not in tried and trial is not None:
            tried[place] = trial.ndcg(ridge_at(*place))
            if watch is not None:
                watch(len(tried), max(len(tried) + 1, 6))
        return tried[place]

    at, last = (0, HALVINGS), None
    while trial is not None and at != last and len(tried) < MOST_TRIALS:
        step, halvings = last = at
        near = [(step + by, halvings) for by in (1, -1) if penalty is None]
        near += [(step, halvings + by) for by in (1, -1) if dropout is None and 0 <= halvings + by <= MOST_HALVINGS]
        at = max((at, *near), key=measured)  # ties stay
    return ridge_at(*at)
