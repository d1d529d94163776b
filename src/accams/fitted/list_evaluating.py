"""Evaluate the lists of a model on held-out data, by raw ids."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from accams.data.inputs import choices_of, positions
from accams.errors import InputError
from accams.fitted import listing
from accams.fitted.parts import Parts
from accams.fitted.ranking import best_items, ranked_by
from accams.model.interactions import Interactions
from accams.use.list_evaluation import LENGTH, ListEvaluation, popular_lists, quality_of
from accams.use.lists import Histories, without
from accams.use.scoring import Positions

LIKED = 0.5  # of the largest weight: what is weaker is not what a list should find


class NothingToFindError(InputError):
    """No user with a history has new likes in the held-out data."""


def evaluated(model: Parts, X: Any, y: ArrayLike | None, history: Any, by: str) -> ListEvaluation:
    """Return how well lists find the held-out choices of users, given their history."""
    order = ranked_by(model, by)
    choices = choices_of(X, y)
    held_out = choices.observations
    asked = _asked(model, held_out.row_index.ids, history)
    columns = positions(model.col_index, held_out.col_index.ids)[held_out.cols]
    weights = np.asarray(held_out.values, np.float64)
    if model.item_map is not None:
        weights = listing.weights_in(choices, model)
        columns = np.where((weights >= LIKED * weights.max(initial=0.0)) & (weights > 0.0), columns, -1)
    else:
        columns = np.where(weights >= np.mean(weights), columns, -1)
    rows = np.repeat(np.arange(len(held_out.row_index)), np.diff(held_out.row_starts))
    before = asked.chosen
    wanted = without(Interactions.at(rows, columns, len(held_out.row_index)), before)
    able = np.flatnonzero((np.diff(wanted.starts) > 0) & (np.diff(before.starts) > 0))
    if not len(able):
        raise NothingToFindError("there is nothing to find: no user with a history has new likes in this data")
    own, wanted = before.take(able), wanted.take(able)
    popularity = _popularity(model)
    if order == "choice":
        ranked = model.lists.best(Histories.of(own), LENGTH, Interactions(own.starts, own.columns)).items
        ranked = np.pad(ranked, ((0, 0), (0, LENGTH - ranked.shape[1])), constant_values=-1)
    else:
        ranked = _by_value(model, asked.rows[able], own)
    by_popularity = popular_lists(popularity, own)
    return ListEvaluation(
        len(able), len(wanted), quality_of(ranked, wanted, popularity), quality_of(by_popularity, wanted, popularity)
    )


def _asked(model: Parts, names: Any, history: Any) -> listing.Asked:
    """Return the users of the held-out data: with the history given, or with that of the model."""
    if history is not None:
        if model.item_map is None:
            raise InputError("a history is for models with lists: this one takes it from the model")
        return listing.with_history(model, history, names)
    return listing.known_users(model, names, "average")


def _popularity(model: Parts) -> Any:
    """Return how often each item was chosen."""
    if model.item_map is not None:
        return model.item_map.popularity
    if model.interactions is None:
        raise InputError("this model does not know what its users have seen: load it with its history")
    return np.bincount(model.interactions.columns, minlength=model.shape[1]).astype(np.float64)


def _by_value(model: Parts, rows: Positions, own: Interactions) -> Positions:
    """Return lists by predicted value."""
    number = np.arange(len(rows))
    found = best_items(model, rows, number, LENGTH, (own, number), None, False, None)
    ranked = np.full((len(rows), LENGTH), -1, np.int64)
    ranked[found["user"].astype(np.int64), found["rank"] - 1] = positions(model.col_index, found["item"])
    return ranked
