"""Lists by what people choose: from the history of known users, of guests, or of many users at once, by raw ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accams.data.inputs import choices_of, is_frame, is_sparse, positions, values_of
from accams.data.observations import Observations
from accams.errors import InputError, warn
from accams.fitted.parts import Parts
from accams.fitted.ranking import NOUNS, chosen, seen_by
from accams.model.interactions import Interactions
from accams.use.because import ListExplanation, Reason, because
from accams.use.ids import as_ids, known
from accams.use.lists import Histories, joined
from accams.use.records import POPULAR, Recommendation, Records, recommendations
from accams.use.scoring import Floats, Positions

NAMED = 3  # unknown items in a message
GUEST = "guest"


class Guest(Protocol):
    """Somebody who was folded in (`FoldedRow`)."""

    @property
    def model(self) -> Parts: ...
    @property
    def positions(self) -> Positions: ...
    @property
    def values(self) -> Floats: ...
    @property
    def name(self) -> Any: ...
    def moments(self, columns: Positions) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True)
class Asked:
    """Who asks for lists: names, what they chose, and their rows in the model (-1: not in it)."""

    names: NDArray[Any]
    chosen: Interactions
    rows: Positions
    guest: Guest | None = None


def known_users(model: Parts, names: NDArray[Any], unknown: str) -> Asked:
    """Return users of the model, with the history that it holds."""
    if model.interactions is None:
        raise InputError(
            "lists need what a user has chosen, and this model holds no history: pass history (the ratings), or load "
            "it with its history"
        )
    rows = known(model.row_index, names, NOUNS[0]) if unknown == "error" else positions(model.row_index, names)
    return Asked(names, model.interactions.take(rows), rows)


def guest_of(row: Guest) -> Asked:
    """Return somebody who was folded in."""
    model = row.model
    assert model.item_map is not None
    weights = model.item_map.feedback.weights(row.values).astype(np.float32)
    own = Interactions(np.array([0, len(row.positions)]), row.positions, weights)
    return Asked(np.array([row.name], object), own, np.array([-1]), row if model.predicts else None)


def with_history(model: Parts, history: Any, users: Any) -> Asked:
    """Return those whose history is given: one guest, or all users (or `users`) of a table of observations."""
    assert model.item_map is not None
    feedback = model.item_map.feedback
    if isinstance(history, Observations) or is_frame(history) or is_sparse(history):
        return _of_table(model, history, users)
    if users is not None:
        raise InputError("give the users, or the history of somebody new as {item: value}, not both")
    items, values = _of_one(history)
    if values is not None and not np.isfinite(values).all():
        raise InputError("the history has values that are missing (NaN) or infinite")
    weights = np.ones(len(items)) if values is None else feedback.weights(values)
    columns = known_items(model, items)
    one = Interactions.at(np.where(columns < 0, -1, 0), columns, 1, weights.astype(np.float32))
    if len(np.unique(one.columns)) < len(one):
        raise InputError("an item comes twice in the history: give one value for each")
    return Asked(np.array([GUEST], object), one, np.array([-1]))


def _of_table(model: Parts, history: Any, users: Any) -> Asked:
    assert model.item_map is not None
    given = choices_of(history)
    names = given.row_index.ids
    columns = known_items(model, given.col_index.ids)[given.cols]
    weights = weights_in(given, model)
    rows = np.repeat(np.arange(len(names)), np.diff(given.row_starts))
    all_of_them = Interactions.at(rows, columns, len(names), weights.astype(np.float32))
    if users is not None:
        names = as_ids(users)
        all_of_them = all_of_them.take(positions(given.row_index, names))
    return Asked(names, all_of_them, positions(model.row_index, names))


def weights_in(given: Observations, model: Parts) -> Floats:
    """Return the weight of each observation by the rule of the model."""
    assert model.item_map is not None
    weights = model.item_map.feedback.weights(np.asarray(given.values, np.float64))
    return weights if given.weights is None else weights * given.weights


def known_items(model: Parts, items: NDArray[Any]) -> Positions:
    """Return the positions of items, -1 for unknown ones, which a warning names."""
    found = positions(model.col_index, items)
    unknown = np.asarray(items, object)[found < 0]
    if len(unknown):
        shown = ", ".join(map(repr, unknown[:NAMED].tolist())) + (", ..." if len(unknown) > NAMED else "")
        what = "item of the history is" if len(unknown) == 1 else "items of the history are"
        warn(f"{len(unknown):,} {what} unknown to this model and ignored: {shown}")
    return found


def _of_one(history: Any) -> tuple[NDArray[Any], Floats | None]:
    """Return items and values of one history; without values, all are likes."""
    if isinstance(history, Mapping):
        return as_ids(list(history)), values_of(list(history.values()), "history", len(history))
    if isinstance(history, (list, tuple)) and history and all(isinstance(x, tuple) and len(x) == 2 for x in history):
        return as_ids([x[0] for x in history]), values_of([x[1] for x in history], "history", len(history))
    return as_ids(history), None


def lists(
    model: Parts, asked: Asked, n: int, exclude_seen: bool, seen: Any, candidates: Any, return_std: bool
) -> Records[Recommendation]:
    """Return the best items for those who ask."""
    number, own = len(asked.names), asked.chosen
    nothing = Interactions(np.zeros(number + 1, np.int64), np.zeros(0, np.int64))
    left_out = nothing
    if exclude_seen:
        left_out = Interactions(own.starts, own.columns)
        if seen is not None:
            more, places = seen_by(model, seen, asked.names)
            left_out = joined(left_out, more.take(places))
    among = None if candidates is None else np.unique(known(model.col_index, as_ids(candidates), NOUNS[1]))
    histories = Histories.of(own)
    best, scores = model.lists.best(histories, n, left_out, among)
    which, ranks, j = chosen(best)
    rules = np.where(histories.are_empty[which], POPULAR, "").astype(object)
    found = scores[which, ranks - 1]
    mean, std = _predicted(model, asked, which, j, return_std)
    return recommendations(asked.names[which], model.col_index.ids[j], ranks, found, std, rules, mean)


def _predicted(
    model: Parts, asked: Asked, which: Positions, j: Positions, return_std: bool
) -> tuple[Floats | None, Floats | None]:
    """Return predicted values and their deviations, where the model knows those who ask."""
    if return_std:
        model.need_spread("return_std")
    if not model.predicts or (asked.guest is None and (asked.rows < 0).any()):
        return None, None
    mean, variance = model.moments(asked.rows[which], j) if asked.guest is None else asked.guest.moments(j)
    return model.clipped(mean), np.sqrt(variance) if return_std else None


def reasons(model: Parts, asked: Asked, item: Any) -> ListExplanation:
    """Take the score of an item in somebody's list apart."""
    assert model.item_map is not None
    j = known(model.col_index, as_ids([item]), NOUNS[1])
    histories, names = Histories.of(asked.chosen), (asked.names[0], item)
    _, scores = model.lists.best(histories, 1, Interactions(np.zeros(2, np.int64), np.zeros(0, np.int64)), j)
    score = float(scores[0, 0])
    if histories.are_empty[0]:
        return because(names, score, [], score)
    values = histories.weights * model.item_map.entries(histories.items, np.broadcast_to(j, histories.items.shape))
    ids = model.col_index.ids[histories.items].tolist()
    return because(names, score, [Reason(x, float(value)) for x, value in zip(ids, values, strict=True)], 0.0)
