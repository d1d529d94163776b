"""Lists by what people choose: scores of items given a history, from an item map, by position."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import THREADS, Codes
from accams.model.interactions import Interactions
from accams.model.itemmap import NOBODY, ItemMap
from accams.use.scoring import Catalogue, Floats, Positions, Sums

PART = 1 << 14  # items at least that a thread scores where it does not score all
GROUPS_OF_LISTS = 8  # groups of stencils in a block: their tables are of doubles, and stay in the fastest cache
CELLS = 1 << 23  # of a block of users by items, where the map is dense


@dataclass(frozen=True)
class Histories:
    """What some users chose: those of user u are ``items[starts[u]:starts[u + 1]]``, ascending, with weights."""

    starts: Positions
    items: Positions
    weights: Floats

    @classmethod
    def of(cls, chosen: Interactions) -> Self:
        """From interactions, in which each has weight 1 unless it says otherwise."""
        inside = chosen.ordered()
        weights = np.ones(len(inside)) if inside.weights is None else inside.weights.astype(np.float64)
        return cls(inside.starts.astype(np.int64), inside.columns.astype(np.int64), weights)

    def cut(self, lo: int, hi: int) -> "Histories":
        """Return users lo .. hi alone."""
        cells = slice(int(self.starts[lo]), int(self.starts[hi]))
        return Histories(self.starts[lo : hi + 1] - self.starts[lo], self.items[cells], self.weights[cells])


@dataclass(frozen=True)
class Lists:
    """An item map laid out for scoring."""

    item_map: ItemMap

    @cached_property
    def _codes(self) -> Codes:
        stencils = self.item_map.stencils
        assert stencils is not None
        return stencils.codes

    @cached_property
    def sums(self) -> Sums:
        """The stencil sum of the map, laid out for scoring."""
        return Sums([self._codes], [None])

    @cached_property
    def _scales(self) -> Floats:
        return self.item_map.scales

    @cached_property
    def _popularity(self) -> Floats:
        return self.item_map.popularity

    @cached_property
    def _diagonal(self) -> Floats:
        """The diagonal of the stencil sum, which scores must not have."""
        each = np.arange(self.item_map.size)
        return self._codes.predict(each, each)

    @cached_property
    def _every_item(self) -> "Candidates":
        return self._candidates(self.item_map.chosen)

    def _candidates(self, items: Positions) -> "Candidates":
        place_of = np.full(self.item_map.size, -1, np.int64)
        place_of[items] = np.arange(len(items))
        layout = None if self.item_map.stencils is None else Catalogue.of(self.sums, items, GROUPS_OF_LISTS)
        return Candidates(items, place_of, self._popularity[items], layout)

    def best(self, histories: Histories, n: int, left_out: Interactions, among: Positions | None = None) -> "Best":
        """Return the best `n` items (or all, if there are fewer) for each history.

        Items of `left_out` are not in the lists. A history of which the map has nothing to say gets the most popular
        ones.
        """
        items = self._every_item if among is None else self._candidates(among)
        number, n = len(histories.starts) - 1, min(n, len(items.items))
        found = Best.empty(number, n)
        if n:
            find = self._best_dense if items.layout is None else self._best_by_stencils
            find(histories, left_out, items, found)
        return found._replace(items=np.where(found.items >= 0, items.items[found.items] if n else -1, -1))

    def _best_by_stencils(
        self, histories: Histories, left_out: Interactions, items: "Candidates", found: "Best"
    ) -> None:
        from accams.kernels.lists import best_lists

        codes, layout = self._codes, items.layout
        assert layout is not None
        says = self.item_map.levels[histories.items] > NOBODY
        weights = np.where(says, histories.weights, 0.0) / self._scales[histories.items]
        given = histories.starts, histories.items, weights, items.place_of, self._diagonal, items.popularity
        tables = codes.rows, codes.flat, codes.starts, codes.widths, layout.places, layout.widths, layout.codes
        left = left_out.starts.astype(np.int64, copy=False), left_out.columns.astype(np.int64, copy=False)
        rest = *given, *tables, layout.widest, *left
        number, n_items = len(found.items), len(items.items)
        users = THREADS.split_evenly(number, layout.codes.size + 1)
        parts = THREADS.split_evenly(n_items, layout.codes.size // n_items, PART) if len(users) == 1 else []
        if len(parts) < 2:
            THREADS.run(best_lists, users, 0, n_items, *rest, *found)
            return

        def part(begin: int, end: int) -> Best:  # few users of a large catalogue: threads share the items
            some = Best.empty(number, found.items.shape[1])
            best_lists(0, number, begin, end, *rest, *some)
            return some

        found.merge(THREADS.map(part, parts))

    def _best_dense(self, histories: Histories, left_out: Interactions, items: "Candidates", found: "Best") -> None:
        from scipy import sparse

        step, (best, scores, by_popularity) = max(1, CELLS // max(self.item_map.size, 1)), found
        for lo in range(0, len(best), step):
            some = histories.cut(lo, min(lo + step, len(best)))
            users = len(some.starts) - 1
            shape = users, self.item_map.size
            x = sparse.csr_array((some.weights, some.items, some.starts), shape=shape)
            total = np.zeros(shape) if self.item_map.dense is None else np.asarray(x @ self.item_map.dense)
            by_popularity[lo : lo + users] = ~np.any(total != 0.0, axis=1)
            total = np.where(by_popularity[lo : lo + users, None], items.popularity, total[:, items.items])
            starts, columns = left_out.of(np.arange(lo, lo + users))
            places, rows = items.place_of[columns], np.repeat(np.arange(users), np.diff(starts))
            total[rows[places >= 0], places[places >= 0]] = -np.inf
            order = np.argsort(-total, axis=1, kind="stable")[:, : best.shape[1]]  # of ties the earlier, as above
            largest = np.take_along_axis(total, order, 1)
            best[lo : lo + users], scores[lo : lo + users] = np.where(largest > -np.inf, order, -1), largest


class Best(NamedTuple):
    """Lists: items and their scores, padded with -1, and whether each list is by popularity."""

    items: Positions
    scores: Floats
    by_popularity: NDArray[np.bool_]

    @classmethod
    def empty(cls, number: int, n: int) -> Self:
        return cls(np.full((number, n), -1, np.int64), np.zeros((number, n)), np.zeros(number, np.bool_))

    def merge(self, parts: Sequence["Best"]) -> None:
        """Write the best of lists that were made of consecutive parts of the items; of ties the earlier."""
        places = np.concatenate([part.items for part in parts], axis=1)
        scores = np.concatenate([part.scores for part in parts], axis=1)
        order = np.argsort(np.where(places >= 0, -scores, np.inf), axis=1, kind="stable")[:, : self.items.shape[1]]
        self.items[:], self.scores[:] = np.take_along_axis(places, order, 1), np.take_along_axis(scores, order, 1)
        self.by_popularity[:] = parts[0].by_popularity


@dataclass(frozen=True)
class Candidates:
    """Items to choose among."""

    items: Positions
    place_of: Positions  # place of every item among them, or -1
    popularity: Floats
    layout: Catalogue | None  # None where the map is dense


def joined(one: Interactions, two: Interactions) -> Interactions:
    """Return the columns of both, row by row."""
    columns = np.concatenate([one.columns.astype(np.int64), two.columns.astype(np.int64)])
    return Interactions.at(np.concatenate([_rows(one), _rows(two)]), columns, len(one.starts) - 1)


def without(one: Interactions, two: Interactions) -> Interactions:
    """Return the columns of the first that are not among those of the second, row by row."""
    size = int(max(one.columns.max(initial=0), two.columns.max(initial=0))) + 1
    rows, columns = _rows(one), one.columns.astype(np.int64)
    new = ~np.isin(rows * size + columns, _rows(two) * size + two.columns.astype(np.int64))
    return Interactions.at(rows[new], columns[new], len(one.starts) - 1)


def _rows(some: Interactions) -> Positions:
    return np.repeat(np.arange(len(some.starts) - 1), np.diff(some.starts))
