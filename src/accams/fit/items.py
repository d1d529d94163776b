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
STEP = 2.0  # from one penalty, and from one share of choices that are kept, to the next
MOST_TRIALS = 30  # after which the search takes the best so far
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
    return Interactions.at(_rows_of(choices), place[choices.columns], len(choices.starts) - 1, choices.weights)


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
    """Choices held out: what is given of some users, and what is to be found."""

    items: Positions  # the most popular ones
    gram: Floats  # of all that is not held out
    given: Floats  # (user, item): weights
    seen: NDArray[np.bool_]  # (user, item): given, so that it cannot be found
    wanted: NDArray[np.bool_]  # (user, item)

    @classmethod
    def of(cls, choices: Interactions, gram: Floats, seed: int) -> Self | None:
        """Hold out some users, of whom some choices are to be found; None if there are too few."""
        random = generator(seed, Purpose.VALIDATION)
        able = np.flatnonzero(np.diff(choices.starts) >= FEWEST_ITEMS)
        number = min(MOST_USERS, max(USUAL_USERS, int(SHARE * len(able))), len(able) // 3)
        if number < FEWEST_USERS:
            return None
        users = np.sort(random.permutation(able)[:number])
        items = _popular(np.diagonal(gram))
        some = among(choices.take(users), items, len(gram))
        hidden = random.random(len(some)) < HIDDEN
        rest = gram[np.ix_(items, items)] - gram_of(some, len(items))
        return cls._made(items, rest, some.only(~hidden), some.only(hidden))

    @classmethod
    def by_time(cls, choices: Interactions, late: NDArray[np.bool_], size: int, seed: int) -> Self | None:
        """Hold out the late choices, which are to be found from the earlier ones of the same users."""
        random = generator(seed, Purpose.VALIDATION)
        before, after = choices.only(~late), choices.only(late)
        able = np.flatnonzero((np.diff(before.starts) > 0) & (np.diff(after.starts) > 0))
        if len(able) < FEWEST_USERS:
            return None
        users, items = np.sort(random.permutation(able)[:MOST_USERS]), _popular(masses_of(before, size))
        both = (among(x.take(users), items, size) for x in (before, after))
        return cls._made(items, gram_of(among(before, items, size), len(items)), *both)

    @classmethod
    def _made(cls, items: Positions, gram: Floats, shown: Interactions, hidden: Interactions) -> Self | None:
        """Take what users like most among hidden choices for what is to be found; None if too few have any."""
        size = len(shown.starts) - 1, len(items)
        given, seen, wanted, largest = np.zeros(size), *np.zeros((2, *size), np.bool_), np.zeros(size[0])
        parts = [(_rows_of(x), x.columns, _weights_of(x)) for x in (shown, hidden)]
        for rows, _, weights in parts:
            np.maximum.at(largest, rows, weights)
        (rows, cols, weights), (others, at, worth) = parts
        given[rows, cols], seen[rows, cols] = weights, True
        liked = (worth >= 0.5 * largest[others]) & (worth > 0.0)
        wanted[others[liked], at[liked]] = True
        some = wanted.any(axis=1)
        return cls(items, gram, given[some], seen[some], wanted[some]) if some.sum() >= FEWEST_USERS else None

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


def _popular(masses: Floats) -> Positions:
    return np.sort(np.argsort(-masses, kind="stable")[:MOST_ITEMS])


def _rows_of(choices: Interactions) -> Positions:
    return np.repeat(np.arange(len(choices.starts) - 1), np.diff(choices.starts))


def _weights_of(choices: Interactions) -> Floats:
    return np.ones(len(choices)) if choices.weights is None else choices.weights.astype(np.float64)


def first_penalty(gram: Floats) -> float:
    """Return a penalty of the right order: the mean mass of an item that was chosen."""
    masses = np.diagonal(gram)
    masses = masses[masses > 0.0]
    return FIRST * float(masses.mean()) if len(masses) else 1.0


def chosen_ridge(
    make_trial: Callable[[], Trial | None], gram: Floats, penalty: float | None = None, dropout: float | None = None,
    watch: Watch | None = None,
) -> Ridge:  # fmt: skip
    """Return the penalty and the dropout whose lists find most of what a trial holds out.

    The search walks from a first guess, in steps of a factor of two of the penalty or of the share of choices that are
    kept, while lists get better and not too many have been tried. What is given stays as it is.
    """
    first = first_penalty(gram) if penalty is None else penalty
    trial = make_trial() if penalty is None or dropout is None else None
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
