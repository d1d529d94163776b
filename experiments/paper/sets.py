"""The data of the studies: ratings in the order of their file and their splits, faces, and the graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accams import Observations
from accams.data import datasets
from accams.data.datasets._base import Source, member, read_bytes
from accams.data.datasets._ratings import BASE_URL, EDITIONS, NETFLIX
from accams.data.splits import permutation_test_positions
from accams.errors import MissingDataError
from rivals import Ratings

SEEDS = (0, 1, 2)
SEPARATORS = {"u.data": "\t", "ratings.dat": "::"}


@dataclass(frozen=True)
class Split:
    """Nine tenths of the ratings to learn from, one to be tested on."""

    train: Ratings
    test: Ratings

    @property
    def observations(self) -> Observations:
        """The training part, as accams takes it."""
        return Observations.from_coo(*self.train[:3], shape=self.train.shape)

    def rmse(self, prediction: np.ndarray, of: Ratings | None = None) -> float:
        """Error of predictions for the test part (or another), clipped to the range of the training part."""
        low, high = self.train.values.min(), self.train.values.max()
        truth = (of or self.test).values
        return float(np.sqrt(np.mean((np.clip(prediction, low, high) - truth) ** 2)))

    def some_train(self, most: int = 200_000) -> Ratings:
        """Training ratings enough to tell the training error."""
        n = len(self.train.values)
        return self.train if n <= most else self.train.take(np.random.default_rng(0).permutation(n)[:most])


@lru_cache(maxsize=2)
def ratings(name: str) -> Ratings:
    """All ratings of a set, as its file orders them (Netflix: by user)."""
    if name == "netflix":
        obs = datasets.netflix().observations
        return Ratings.of(*obs.coo(), obs.shape)
    size = name.removeprefix("ml-")
    obs, edition = datasets.movielens(size).observations, EDITIONS[size]
    found = Source(f"{name}.zip", f"{BASE_URL}{name}.zip", edition.md5, (name,)).find()
    text = read_bytes(member(found, lambda inner: inner.rsplit("/", 1)[-1] == edition.ratings, edition.ratings))
    numbers = np.array(text.decode().replace(SEPARATORS[edition.ratings], " ").split(), np.int64).reshape(-1, 4)
    rows, cols = obs.row_index.positions(numbers[:, 0]), obs.col_index.positions(numbers[:, 1])
    return Ratings.of(rows, cols, numbers[:, 2].astype(np.float64), obs.shape)


@lru_cache(maxsize=2)
def split(name: str, seed: int) -> Split:
    """The 90:10 split of a seed: the same for all methods, and that of all other tables."""
    everything = ratings(name)
    test = np.zeros(len(everything.values), dtype=bool)
    test[permutation_test_positions(len(test), 0.1, seed)] = True
    return Split(everything.take(~test), everything.take(test))


@lru_cache(maxsize=1)
def tuning_split(name: str) -> Split:
    """What settings are chosen by: ratings that are in no test part at all, parted once more."""
    everything = ratings(name)
    free = np.ones(len(everything.values), dtype=bool)
    for seed in SEEDS:
        free[permutation_test_positions(len(free), 0.1, seed)] = False
    return Split(*everything.take(free).hold_out())


def rating_sets(quick: bool) -> list[str]:
    """Which sets of ratings are used: the small one, or the larger and Netflix where the user has it."""
    if quick:
        return ["ml-100k"]
    try:
        NETFLIX.find()
    except MissingDataError:
        return ["ml-1m"]
    return ["ml-1m", "netflix"]


@lru_cache(maxsize=1)
def faces() -> tuple[np.ndarray, tuple[int, int]]:
    """The images, one a row, and the shape of one."""
    found = datasets.faces()
    return found.observations.values.reshape(found.observations.shape).astype(np.float64), found.image_shape


@lru_cache(maxsize=1)
def graph() -> Observations:
    """Oregon-2, both directions of each edge, blanks observed as zeros."""
    return datasets.as_graph("oregon2").observations
