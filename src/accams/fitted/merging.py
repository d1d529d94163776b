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
from accams.fitted.listing import NAMED, known_items, weights_in
from accams.fitted.parts import Parts
from accams.fitted.placing import Seen, extended, folded_into
from accams.model.interactions import Interactions, Weights
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
    n_new: int  # observations that the model does not know of


def merged(model: Parts, choices: Choices, history: Any, min_ratings: int) -> Merged:
    """Merge new observations with a history, and choose the columns to fold in: see `Model.update`."""
    given = choices.observations
    row_index, rows = extended(model.row_index, given.row_index.ids)
    col_index, cols = extended(model.col_index, given.col_index.ids)
    new = _cells(model, choices, rows, cols)
    changed = np.unique(new.rows), np.unique(new.cols)
    known = _within(of_model(model), *changed)
    past = known
    if not isinstance(history, str):
        past = past.then(_within(_cells(model, history, *_found(row_index, col_index, history)), *changed))
    both = past.then(new)
    fold, left_out = _columns(model, past, new, both, col_index, min_ratings)
    new = new.only(~np.isin(new.cols, left_out))
    told = past if model.interactions is None else known
    n_new = len(told.then(new).rows) - len(told.rows)
    rows = np.unique(new.rows)
    both = _within(both, rows, fold)
    both = both.only(~np.isin(both.cols, left_out))
    row_index, row_places = _only(model.row_index, row_index, rows)
    col_index, col_places = _only(model.col_index, col_index, fold)
    cells = Cells(row_places[both.rows], col_places[both.cols], both.values, both.weights)
    return Merged(row_index, col_index, row_places[rows], col_places[fold], cells, n_new)


def _columns(
    model: Parts, past: Cells, new: Cells, both: Cells, index: Index, min_ratings: int
) -> tuple[Positions, Positions]:
    """Return the columns to fold in, and new ones to leave out."""
    n, size = model.shape[1], len(index)
    if not model.predicts:
        known_items(model, index.ids[n:])  # warns
        return np.zeros(0, np.int64), np.arange(n, size)
    before, now, more = past.counts(size), both.counts(size), new.counts(size)
    if model.interactions is None and model.activity is not None:
        before[:n] = np.maximum(before[:n], np.rint(model.activity[1] - 1.0).astype(np.int64))
    has_data = np.isin(np.arange(size), model.with_data(1))
    asked = np.where(has_data, more >= before, True) & (more > 0)
    few = np.flatnonzero(asked & ~has_data & (now < min_ratings))
    if len(few):
        shown = ", ".join(map(repr, index.ids[few[:NAMED]].tolist())) + (", ..." if len(few) > NAMED else "")
        what = "1 new item was" if len(few) == 1 else f"{len(few):,} new items were"
        warn(f"{what} left out for now, with ratings by fewer than {min_ratings} users: {shown}")
    fold = np.flatnonzero(asked & (now >= min_ratings))
    if model.item_map is not None and len(fold) and fold[-1] >= n:
        warn(
            f"{int(np.sum(fold >= n)):,} new items are predicted, and ranked by value, but are not in lists by choice "
            "before the next fit"
        )
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
    return Merged(row_index, model.col_index, everybody, np.zeros(0, np.int64), cells, 0)


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


def _found(row_index: Index, col_index: Index, choices: Choices) -> tuple[Positions, Positions]:
    given = choices.observations
    return row_index.find(given.row_index.ids), col_index.find(given.col_index.ids)


def _within(cells: Cells, rows: Positions, cols: Positions) -> Cells:
    """Return the cells in one of these rows or columns."""
    known = (cells.rows >= 0) & (cells.cols >= 0)
    return cells.only(known & (np.isin(cells.rows, rows) | np.isin(cells.cols, cols)))


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
