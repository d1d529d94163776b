"""Merge new observations with earlier ones, by position; where earlier values are not at hand, predictions stand in."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.data.inputs import Choices, choices_of
from accams.data.observations import Observations
from accams.errors import InputError, warn
from accams.fit.late import Late
from accams.fitted.listing import NAMED, weights_in
from accams.fitted.parts import Parts
from accams.fitted.placing import Seen, extended, folded_into
from accams.model.interactions import Interactions, Weights
from accams.model.itemmap import NOBODY, ItemMap, masses_at
from accams.use.scoring import Floats, Positions

P = TypeVar("P", bound=Parts)
OF_MODEL = "model"
ROUNDS, DRAWS = 3, 32  # of correcting stand-ins, and by which this is done
USUAL = 20  # observations of a user, where a model does not say how many there were


@dataclass(frozen=True)
class Cells:
    """Cells by position, with their values (NaN: not at hand) and how much each counts as a choice."""

    rows: Positions
    cols: Positions
    values: Floats
    weights: Weights

    def only(self, mask: NDArray[Any]) -> "Cells":
        """Return some of the cells."""
        return Cells(self.rows[mask], self.cols[mask], self.values[mask], self.weights[mask])

    def then(self, later: "Cells") -> "Cells":
        """Return the cells of both in order of rows and columns; where both have one, the later."""
        rows, cols = np.concatenate([self.rows, later.rows]), np.concatenate([self.cols, later.cols])
        key = rows * (int(cols.max(initial=0)) + 1) + cols
        _, last = np.unique(key[::-1], return_index=True)
        keep = len(key) - 1 - last
        values, weights = (np.concatenate([getattr(x, name) for x in (self, later)]) for name in ("values", "weights"))
        return Cells(rows[keep], cols[keep], values[keep], weights[keep])

    def beyond(self, other: "Cells") -> "Cells":
        """Return the cells that the other ones are not."""
        width = int(max(self.cols.max(initial=0), other.cols.max(initial=0))) + 1
        return self.only(~np.isin(self.rows * width + self.cols, other.rows * width + other.cols))

    def by_row(self, rows: Positions) -> Seen:
        """Return the observations of these rows, which ascend."""
        inside = self.only(np.isin(self.rows, rows))
        return Seen(np.searchsorted(inside.rows, np.append(rows, np.iinfo(np.int64).max)), inside.cols, inside.values)

    def by_col(self, cols: Positions) -> Seen:
        """Return the observations of these columns, which ascend."""
        order = np.lexsort((self.rows, self.cols))
        return Cells(self.cols[order], self.rows[order], self.values[order], self.weights[order]).by_row(cols)

    def counts(self, size: int) -> Positions:
        """Return the number of cells in each column."""
        return np.bincount(self.cols, minlength=size)

    def interactions(self, rows: Positions) -> Interactions:
        """Return the same as interactions of these rows."""
        inside = self.only(np.isin(self.rows, rows))
        begins, cols, _ = self.by_row(rows)
        return Interactions(begins, cols, inside.weights)


@dataclass(frozen=True)
class Merged:
    """What an update is made of."""

    row_index: Index
    col_index: Index
    rows: Positions  # to be folded in
    cols: Positions
    cells: Cells  # all observations of these rows and columns
    n_new: int = 0  # observations that the model does not know of
    late: Late | None = None  # items to be placed in the item map


def merged(model: Parts, choices: Choices, history: Any, min_ratings: int) -> Merged:
    """Merge new observations with a history, and choose the columns to fold in: see `Model.update`."""
    given = choices.observations
    row_index, places = extended(model.row_index, given.row_index.ids)
    col_index, cols = extended(model.col_index, given.col_index.ids)
    new = _cells(model, choices, places, cols)
    changed = np.unique(new.rows), np.unique(new.cols)
    known = _within(of_model(model), *changed)
    past, earlier = known, known.only(np.zeros(len(known.rows), np.bool_))
    if not isinstance(history, str):
        earlier = _earlier(model, row_index, col_index, history)
        past = past.then(_within(earlier.only(earlier.rows < len(row_index)), *changed))
    both = past.then(new)
    fold, left_out = _columns(model, past, new, both, col_index, min_ratings)
    new = new.only(~np.isin(new.cols, left_out))
    told = past if model.interactions is None else known
    fresh = new.beyond(told)
    rows = np.unique(new.rows)
    both = _within(both, rows, fold)
    both = both.only(~np.isin(both.cols, left_out))
    row_index, row_places = _only(model.row_index, row_index, rows)
    col_index, col_places = _only(model.col_index, col_index, fold)
    cells = replace(both, rows=row_places[both.rows], cols=col_places[both.cols])
    found = Merged(row_index, col_index, row_places[rows], col_places[fold], cells)
    late = None
    if model.item_map is not None and len(fold):
        every = of_model(model).then(earlier).then(new)
        every = _known(replace(every, cols=col_places[every.cols]))
        before = np.bincount(past.cols, np.square(past.weights), len(col_places))[fold].astype(np.float64)
        active = _active(given, (places, cols), np.unique(fresh.rows), fold)
        late = _late(model.item_map.grown(len(col_index)), found.cols, every, before, active)
    return replace(found, n_new=len(fresh.rows), late=late)


def _active(given: Observations, places: tuple[Positions, Positions], users: Positions, items: Positions) -> Positions:
    """Return how many of these users did something since each item came: all of them, where there are no times."""
    if given.times is None or given.times.dtype.kind not in "iufM":
        return np.full(len(items), len(users))
    rows, cols, _ = given.coo()
    when = np.unique(given.times, return_inverse=True)[1]
    last, first = np.zeros(int(places[0].max()) + 1, np.int64), np.full(int(places[1].max()) + 1, len(when))
    np.maximum.at(last, places[0][rows], when)
    np.minimum.at(first, places[1][cols], when)
    return len(users) - np.searchsorted(np.sort(last[users]), first[items])


def _late(item_map: ItemMap, items: Positions, every: Cells, before: Floats, active: Positions) -> Late | None:
    """Return the items to be placed in the item map, which knows all ids; None if the earlier choices are not at hand.

    What those who chose an item chose before says where it belongs.
    """
    choices = Interactions.at(every.rows, every.cols, int(every.rows.max(initial=-1)) + 1, every.weights)
    late = Late.of(item_map, items, choices, before, active)
    if late.is_enough_for(item_map):
        return late
    number = int(np.count_nonzero(item_map.levels[items] == NOBODY))
    if number:
        what = "1 new item is" if number == 1 else f"{number:,} new items are"
        warn(f"{what} not in lists by choice, which takes what users chose before: pass that as history")
    return None


def _columns(
    model: Parts, past: Cells, new: Cells, both: Cells, index: Index, min_ratings: int
) -> tuple[Positions, Positions]:
    """Return the columns to fold in, and new ones to leave out."""
    n, size = model.shape[1], len(index)
    before, now, more = past.counts(size), both.counts(size), new.counts(size)
    if model.interactions is None and model.activity is not None:
        before[:n] = np.maximum(before[:n], np.rint(model.activity[1] - 1.0).astype(np.int64))
    has_data = np.isin(np.arange(size), model.with_data(1))
    listed = has_data
    if model.item_map is not None:
        listed = has_data & np.isin(np.arange(size), model.item_map.chosen)
        if model.interactions is None:
            before[:n] = np.maximum(before[:n], np.rint(masses_at(model.item_map.levels)).astype(np.int64))
    asked = np.where(listed, more >= before, True) & (more > 0)
    few = np.flatnonzero(asked & ~has_data & (now < min_ratings))
    if len(few):
        shown = ", ".join(map(repr, index.ids[few[:NAMED]].tolist())) + (", ..." if len(few) > NAMED else "")
        what = "1 new item was" if len(few) == 1 else f"{len(few):,} new items were"
        warn(f"{what} left out for now, with ratings by fewer than {min_ratings} users: {shown}")
    fold = np.flatnonzero(asked & (now >= min_ratings))
    return fold, few[few >= n]


def replaced(model: Parts, choices: Choices, cols: Positions) -> Merged:
    """Return all observations of some rows, at known columns (-1: left out), in place of their earlier ones."""
    given = choices.observations
    filled = given.row_index.ids[np.diff(given.row_starts) > 0]
    row_index, _ = extended(model.row_index, filled)
    rows = row_index.find(given.row_index.ids)
    cells = _cells(model, choices, rows, cols)
    none = cells.only(np.zeros(len(cells.rows), np.bool_))
    cells = none.then(cells.only(cells.cols >= 0))
    everybody = np.unique(row_index.find(filled))
    return Merged(row_index, model.col_index, everybody, np.zeros(0, np.int64), cells)


def with_stand_ins(model: P, cells: Cells, rows: Positions, random_state: Any) -> Cells:
    """Return cells with stand-ins for values that are not at hand: such that folding them in gives the predictions.

    With many draws, predictions themselves would be drawn to the average row once more with each update. So what
    folding in makes of the stand-ins is compared with the predictions, and the difference added. A known row of which
    the model does not know what was observed has stand-ins at the most active columns, as many as it had observations.
    """
    if model.interactions is None:
        cells = _of_active(model, rows[rows < model.shape[0]]).then(cells)
    values = cells.values.copy()
    blank = np.isnan(values)
    values[~blank] = model.latent(values[~blank])
    values[blank] = model.moments(cells.rows[blank], cells.cols[blank])[0]
    mine = np.flatnonzero(blank & np.isin(cells.rows, rows))  # others stay as they are
    if model.posterior is not None and len(mine):
        unknown, few = replace(cells, values=values).only(mine), model.thin(DRAWS)
        target, lines = few.moments(unknown.rows, unknown.cols)[0], np.unique(unknown.rows)
        for _ in range(ROUNDS):
            seen = unknown.by_row(lines)
            folded = folded_into(few, 0, model.row_index, lines, seen, random_state)
            off = target - folded.moments(unknown.rows, unknown.cols)[0]
            unknown = replace(unknown, values=unknown.values + off)
        values[mine] = unknown.values
    return replace(cells, values=values)


def of_model(model: Parts) -> Cells:
    """Return the cells that a model knows to have been observed; their values are not at hand."""
    own = model.interactions
    if own is None:
        own = Interactions(np.zeros(model.shape[0] + 1, np.int64), np.zeros(0, np.int64))
    rows = np.repeat(np.arange(len(own.starts) - 1), np.diff(own.starts))
    weights = np.ones(len(own), np.float32) if own.weights is None else own.weights
    return Cells(rows, own.columns.astype(np.int64), np.full(len(own), np.nan), weights)


def history_of(history: Any) -> Any:
    """Return what `history` of `Model.update` stands for: "model", None or choices."""
    if history is None or (isinstance(history, str) and history == OF_MODEL):
        return history
    if isinstance(history, str):
        raise InputError(f"history must be the earlier observations, or 'model', not {history!r}: read the file first")
    return choices_of(history)


def digest_of(*parts: Any) -> str:
    """Return what identifies observations and settings: the same ones are not taken in twice."""
    sha = sha256()
    for part in parts:
        if isinstance(part, Choices):
            for each in _bytes_of(part.observations):
                sha.update(each)
        else:
            sha.update(repr(part).encode())
    return sha.hexdigest()[:32]


def _bytes_of(observations: Observations) -> Iterator[bytes]:
    for index in (observations.row_index, observations.col_index):
        yield index.ids.tobytes() if index.ids.dtype.kind == "i" else repr(index.ids.tolist()).encode()
    for x in observations.coo():
        yield x.tobytes()


def _cells(model: Parts, choices: Choices, rows: Positions, cols: Positions) -> Cells:
    """Return observations as cells, given the positions of their rows and columns."""
    given = choices.observations
    i, j, values = given.coo()
    weights = np.ones(len(i)) if model.item_map is None else weights_in(choices, model)
    cells = Cells(rows[i], cols[j], values.astype(np.float64), weights.astype(np.float32))
    return cells


def _earlier(model: Parts, row_index: Index, col_index: Index, choices: Choices) -> Cells:
    """Return the cells of a history in known columns; rows that are not known come after all others."""
    given = choices.observations
    return _known(
        _cells(model, choices, extended(row_index, given.row_index.ids)[1], col_index.find(given.col_index.ids))
    )


def _within(cells: Cells, rows: Positions, cols: Positions) -> Cells:
    """Return the cells in one of these rows or columns."""
    known = _known(cells)
    return known.only(np.isin(known.rows, rows) | np.isin(known.cols, cols))


def _known(cells: Cells) -> Cells:
    return cells.only((cells.rows >= 0) & (cells.cols >= 0))


def _only(known: Index, every: Index, wanted: Positions) -> tuple[Index, Positions]:
    """Return the known ids and those that are wanted of the others, and the new place of each (-1: left out)."""
    new = wanted[wanted >= len(known)]
    places = np.full(len(every), -1, np.int64)
    places[: len(known)] = np.arange(len(known))
    places[new] = len(known) + np.arange(len(new))
    return extended(known, every.ids[new])[0], places


def _of_active(model: Parts, rows: Positions) -> Cells:
    """Return the most active columns of each row, as many as it had observations; no value is at hand."""
    columns = model.with_data(1)
    counts = np.full(len(rows), USUAL)
    if model.activity is not None:
        counts = np.rint(model.activity[0][rows] - 1.0).astype(np.int64)
        columns = columns[np.argsort(-model.activity[1][columns], kind="stable")]
    counts = np.where(np.isin(rows, model.unseen[0]), 0, np.minimum(counts, len(columns)))
    inner = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return Cells(np.repeat(rows, counts), columns[inner], np.full(len(inner), np.nan), np.ones(len(inner), np.float32))
