"""Update a model: take in new observations of users and items without fitting again."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from accams.data.deltas import latest
from accams.data.inputs import Choices
from accams.errors import InputError, NoValuesError
from accams.fit.late import placed
from accams.fitted.folding import check_values
from accams.fitted.listing import known_items
from accams.fitted.merging import Cells, Merged, digest_of, history_of, merged, replaced, with_stand_ins
from accams.fitted.parts import Parts, Taken
from accams.fitted.placing import folded_into
from accams.model.interactions import Interactions
from accams.settings.kinds import Integer
from accams.use.ids import known

P = TypeVar("P", bound=Parts)


def updated(model: P, X: Any, y: ArrayLike | None, history: Any, min_ratings: int, random_state: Any) -> P:
    """Return a model that has taken in observations: see `Model.update`."""
    Integer(1).check("min_ratings", min_ratings)
    earlier, choices = history_of(history), latest(X, y)
    _check(model, choices)
    if earlier is None:
        names = choices.observations.col_index.ids
        cols = known(model.col_index, names, "item") if model.predicts else known_items(model, names)
        news = replaced(model, choices, cols)
        return _with(model, news, replace(news.cells, values=model.latent(news.cells.values)), random_state)
    digest = digest_of(choices, earlier, min_ratings, random_state)
    if model.taken is not None and model.taken.digest == digest:
        return model
    news = merged(model, choices, earlier, min_ratings)
    before = model.taken or Taken(0, "")
    total = before.observations + news.n_new if model.interactions is not None else max(before.observations, news.n_new)
    error = before.rmse if model.evaluation is None else model.evaluation.rmse
    cells = with_stand_ins(model, news.cells, news.rows, random_state) if model.predicts else news.cells
    return replace(_with(model, news, cells, random_state), taken=Taken(total, digest, error))


def _check(model: Parts, choices: Choices) -> None:
    """Refuse positions where the model has ids, weights, and values of another scale."""
    given = choices.observations
    if given.row_index.is_positional and not all(index.is_positional for index in model.indices):
        raise InputError("update needs the ids of users and items: pass a table, or pairs and values")
    if not model.predicts:
        return
    if given.weights is not None:
        raise InputError("update does not take weights: pass the observations without them")
    if not choices.valued:
        raise NoValuesError("update needs values, and the table has no column of them: name it rating, value or score")
    check_values(model, given.values)


def _with(model: P, news: Merged, cells: Cells, random_state: Any) -> P:
    """Return a model with these rows and columns folded in; `cells` have values where those of `news` have none."""
    rows, grown = news.rows, model
    if not model.predicts:
        shape = len(news.row_index), len(news.col_index)
        stencils = replace(model.stencils, shape=shape)
        grown = replace(grown, row_index=news.row_index, col_index=news.col_index, stencils=stencils)
    elif len(rows):
        if len(news.cols):
            grown = _with_raters(grown, news, cells, random_state)
            grown = folded_into(grown, 1, news.col_index, news.cols, cells.by_col(news.cols), random_state)
        grown = folded_into(grown, 0, news.row_index, rows, cells.by_row(rows), random_state)
    seen, item_map = model.interactions, model.item_map
    if item_map is not None:
        item_map, seen = item_map.grown(len(news.col_index)), seen or _no_history(model)
        item_map = item_map if news.late is None else placed(item_map, news.late)
    if seen is not None:
        own = news.cells.interactions(rows)
        own = own if item_map is not None else replace(own, weights=None)
        seen = seen.put(rows, len(news.row_index), own)
    return replace(grown, interactions=seen, item_map=item_map, evaluation=None)  # which was that of the old model


def _with_raters(model: P, news: Merged, cells: Cells, random_state: Any) -> P:
    """Return a model with the new rows: those with a cell in the new columns by what they have in the others."""
    rows = news.rows[~np.isin(news.rows, model.with_data(0))]
    if not len(rows):
        return model
    raters = cells.rows[np.isin(cells.cols, news.cols)]
    told = cells.only(np.isin(cells.rows, raters) & np.isin(cells.cols, model.with_data(1)))
    return folded_into(model, 0, news.row_index, rows, told.by_row(rows), random_state)


def _no_history(model: Parts) -> Interactions:
    """Return the interactions of users of whom none are known."""
    none = np.zeros(0, np.int64)
    return Interactions(np.zeros(len(model.row_index) + 1, np.int64), none, none.astype(np.float32))
