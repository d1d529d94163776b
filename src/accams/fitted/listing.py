"""Lists by what people choose: from the history of known users, of guests, or of many users at once, by raw ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accams.data.inputs import Choices, choices_of, ids_of_frame, is_frame, is_sparse, positions, values_of
from accams.data.observations import Observations
from accams.errors import InputError, warn
from accams.fitted.parts import Parts
from accams.fitted.ranking import NOUNS, chosen, seen_by
from accams.model.interactions import Interactions
from accams.model.itemmap import NOBODY
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


def with_history(model: Parts, history: Any, users: Any, unknown: str = "average") -> Asked:
    """Return those whose history is given: one guest, or all users (or `users`) of a table of observations."""
    assert model.item_map is not None
    feedback = model.item_map.feedback
    matrix = isinstance(history, np.ndarray) and history.ndim == 2
    if isinstance(history, (Observations, Choices)) or is_frame(history) or is_sparse(history) or matrix:
        return _of_table(model, history, users, unknown)
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


def _of_table(model: Parts, history: Any, users: Any, unknown: str) -> Asked:
    assert model.item_map is not None
    choices = choices_of(history)
    given, weights = choices.observations, weights_in(choices, model)
    names = given.row_index.ids
    columns = known_items(model, given.col_index.ids)[given.cols]
    rows = np.repeat(np.arange(len(names)), np.diff(given.row_starts))
    all_of_them = Interactions.at(rows, columns, len(names), weights.astype(np.float32))
    if users is not None:
        names = ids_of_frame(users, model.id_names[0]) if is_frame(users) else as_ids(users)
        find = positions(given.row_index, names) if unknown == "average" else known(given.row_index, names, NOUNS[0])
        all_of_them = all_of_them.take(find)
    return Asked(names, all_of_them, positions(model.row_index, names))


def weights_in(choices: Choices, model: Parts) -> Floats:
    """Return the weight of each choice by the rule of the model; one without a value is a like."""
    assert model.item_map is not None
    given = choices.observations
    weights = np.ones(given.nnz)
    if choices.valued:
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


def has_values(history: Any) -> bool:
    """Return whether this is the history of one person, with values: {item: value}, or pairs (item, value)."""
    pairs = isinstance(history, (list, tuple)) and all(isinstance(x, tuple) and len(x) == 2 for x in history)
    return (isinstance(history, Mapping) or pairs) and len(history) > 0


def _of_one(history: Any) -> tuple[NDArray[Any], Floats | None]:
    """Return items and values of one history; without values, all are likes."""
    if isinstance(history, Path):
        raise InputError(f"history takes data, not a path: read it first, Observations.from_file({str(history)!r})")
    if hasattr(history, "items") and hasattr(history, "index") and not isinstance(history, (Mapping, list, tuple)):
        history = dict(history.items())  # a Series of values by item
    if isinstance(history, Mapping):
        return as_ids(list(history)), values_of(list(history.values()), "history", len(history))
    if has_values(history):
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
    best = model.lists.best(histories, n, left_out, among)
    which, ranks, j = chosen(best.items)
    rules = np.where(best.by_popularity[which], POPULAR, "").astype(object)
    found = best.scores[which, ranks - 1]
    mean, std = _predicted(model, asked, which, j, return_std)
    return recommendations(asked.names[which], model.col_index.ids[j], ranks, found, std, rules, mean)


def _predicted(
    model: Parts, asked: Asked, which: Positions, j: Positions, return_std: bool
) -> tuple[Floats | None, Floats | None]:
    """Return predicted values and their deviations, where the model knows those who ask."""
    if return_std:
        model.need_spread("return_std")
    if not model.predicts or (asked.guest is None and (asked.rows < 0).all()):
        return None, None
    mean, variance = model.moments(asked.rows[which], j) if asked.guest is None else asked.guest.moments(j)
    if asked.guest is None:  # of those whom it does not know there is nothing to say
        mean, variance = (np.where(asked.rows[which] < 0, np.nan, x) for x in (mean, variance))
    return model.clipped(mean), model.deviation(mean, np.sqrt(variance)) if return_std else None


def reasons(model: Parts, asked: Asked, item: Any) -> ListExplanation:
    """Take the score of an item in somebody's list apart."""
    assert model.item_map is not None
    j = known(model.col_index, as_ids([item]), NOUNS[1])
    histories, names = Histories.of(asked.chosen), (asked.names[0], item)
    if model.item_map.levels[j[0]] == NOBODY:
        return because(names, 0.0, [], 0.0)
    best = model.lists.best(histories, 1, Interactions(np.zeros(2, np.int64), np.zeros(0, np.int64)), j)
    score = float(best.scores[0, 0])
    if best.by_popularity[0]:
        return because(names, score, [], score)
    values = histories.weights * model.item_map.entries(histories.items, np.broadcast_to(j, histories.items.shape))
    others = histories.items != j  # nothing speaks for itself
    ids, values = model.col_index.ids[histories.items[others]].tolist(), values[others]
    return because(names, score, [Reason(x, float(value)) for x, value in zip(ids, values, strict=True)], 0.0)
