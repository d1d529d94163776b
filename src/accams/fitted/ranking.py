"""Rank items: recommendations and similar items, by raw ids."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.data.inputs import ids_of_frame, is_frame, is_sparse, known_positions, observations_of, pairs_of, positions
from accams.errors import InputError, warn_deprecated
from accams.fitted.parts import Parts
from accams.model.interactions import Interactions
from accams.model.itemmap import NOBODY
from accams.settings.kinds import Words
from accams.use.ids import as_ids, check_number, known
from accams.use.records import AVERAGE_ROW, Recommendation, Records, SimilarItem, SimilarUser, recommendations
from accams.use.scoring import Catalogue, Positions
from accams.use.similar import MEASURES

ORDERS = Words("auto", "choice", "value")
SIDES = {"users": 0, "items": 1}
FORMER = {"rows": "users", "cols": "items", "columns": "items"}
NOUNS = ("user", "item")  # of rows and columns
Seen = tuple[Interactions, Positions] | None  # items to leave out, and the rows of the users asked for


def ranked_by(model: Parts, by: str, quantile: float | None = None) -> str:
    """Return whether lists are ranked by choice or by value."""
    ORDERS.check("by", by)
    if by == "auto":
        by = "choice" if model.item_map is not None and quantile is None else "value"
    if by == "choice":
        _ = model.lists  # says what is missing
        if quantile is not None:
            raise InputError("a quantile is one of predicted values: pass by='value', or no quantile")
    else:
        model.need_values("ranking by value")
    return by


def names_of(model: Parts, user: Any) -> NDArray[Any]:
    """Return ids of users, given by themselves or as a DataFrame."""
    return ids_of_frame(user, model.id_names[0]) if is_frame(user) else as_ids(user)


def silent(model: Parts, rows: Positions) -> NDArray[np.bool_]:
    """Return which users have chosen nothing while features tell what they may like: lists rank these by value."""
    known, seen = model.knowledge[0], model.interactions
    if known is None or seen is None or model.item_map is None or not model.predicts:
        return np.zeros(len(rows), np.bool_)
    chosen_nothing = np.asarray(seen.starts[rows + 1] == seen.starts[rows])
    return np.asarray((rows >= 0) & chosen_nothing & known.given_of(rows))


def recommend(
    model: Parts, user: Any, n: int, exclude_seen: bool, seen: Any, candidates: Any, unknown: str, return_std: bool,
    quantile: float | None,
) -> Records[Recommendation]:  # fmt: skip
    """Return the best items for some users."""
    names = names_of(model, user)
    rows = known(model.row_index, names, NOUNS[0]) if unknown == "error" else positions(model.row_index, names)
    left_out = _seen(model, seen, names, rows) if exclude_seen else None
    return best_items(model, rows, names, n, left_out, candidates, return_std, quantile)


def best_items(
    model: Parts, rows: Positions, names: NDArray[Any], n: int, seen: Seen, candidates: Any, return_std: bool,
    quantile: float | None,
) -> Records[Recommendation]:  # fmt: skip
    """Return the best `n` items for these rows (-1: the average one), called as in `names`."""
    lower = model.check_order(return_std, quantile)
    which, ranks, j = chosen(best_positions(model, rows, n, seen, catalogue_of(model, candidates), lower))
    i = rows[which]
    mean, variance = model.moments(i, j)
    rules = np.where(model.averaged[i], AVERAGE_ROW, "").astype(object)
    std = model.deviation(mean, np.sqrt(variance)) if return_std else None
    return recommendations(names[which], model.col_index.ids[j], ranks, model.clipped(mean), std, rules)


def best_positions(model: Parts, rows: Positions, n: int, seen: Seen, among: Catalogue, lower: float) -> Positions:
    """Return the positions of the best items of each row, best first, filled up with -1."""
    left_out = among.places_of(rows, None) if seen is None else among.places_of(seen[1], seen[0])
    if lower and model.spread_by_item(among.columns):
        return _best_by_quantile(model, among, rows, n, left_out, lower)
    return among.best(rows, n, left_out, model.row_variance(rows) if lower else None, lower)


def catalogue_of(model: Parts, candidates: Any) -> Catalogue:
    """Return the items to score: all with data, or the candidates."""
    if candidates is None:
        return model.catalogue
    return Catalogue.of(model.sums, np.unique(known(model.col_index, as_ids(candidates), NOUNS[1])))


def _best_by_quantile(
    model: Parts, catalogue: Catalogue, rows: Positions, n: int, left_out: tuple[Positions, Positions], lower: float
) -> Positions:
    """Rank by mean less `lower` standard deviations where the variance is not only that of draws: row by row."""
    columns, (starts, places) = catalogue.columns, left_out
    best = np.full((len(rows), min(n, len(columns))), -1, np.int64)
    for p, row in enumerate(rows.tolist()):
        mean, variance = model.moments(np.full(len(columns), row), columns)
        scores = mean - lower * np.sqrt(variance)
        seen = places[starts[p] : starts[p + 1]]
        scores[seen[seen >= 0]] = -np.inf
        order = np.argsort(-scores, kind="stable")[: best.shape[1]]
        order = order[scores[order] > -np.inf]
        best[p, : len(order)] = columns[order]
    return best


def chosen(best: Positions) -> tuple[Positions, Positions, Positions]:
    """Return row, rank and column of each line of an answer."""
    which, place = np.nonzero(best >= 0)
    return which, place + 1, best[which, place]


def _seen(model: Parts, seen: Any, names: NDArray[Any], rows: Positions) -> tuple[Interactions, Positions]:
    """Return the items to leave out, and the rows of the users asked for."""
    if seen is None:
        if model.interactions is None:
            raise InputError(
                "this model does not know what its users have seen: pass seen (the ratings, or pairs of ids), load it "
                "with its history, or set exclude_seen=False"
            )
        return model.interactions, rows
    return seen_by(model, seen, names)


def seen_by(model: Parts, seen: Any, names: NDArray[Any]) -> tuple[Interactions, Positions]:
    """Return what a table of pairs says that these users have seen, and the row of each in it."""
    if is_sparse(seen) or (isinstance(seen, np.ndarray) and seen.ndim == 2 and seen.shape[1] != 2):
        seen = observations_of(seen)
    raw_rows, raw_cols = pairs_of(seen, model.info.names)
    asked, places = Index.of(names)
    known_positions(*model.indices, raw_rows, raw_cols)  # warns if none is known
    return Interactions.at(positions(asked, raw_rows), positions(model.col_index, raw_cols), len(asked)), places


def similar(
    model: Parts, which: Any, n: int, side: str, by: str, candidates: Any
) -> Records[SimilarItem] | Records[SimilarUser]:
    """Return the items (users) most like one of them."""
    Words(*MEASURES).check("by", by)
    axis = axis_of(side)
    index = model.indices[axis]
    if axis == 1 and _is_new_to_lists(model, which):
        model = replace(model, item_map=None)
    if axis == 1 and model.item_map is not None:
        if model.item_map.stencils is None:
            return _similar_in_map(model, which, n, by, candidates)
    elif not model.predicts:
        raise InputError("this model makes lists from histories: it knows of no users that are more alike than others")
    elif not len(model.stencils):
        raise InputError(f"this model has no stencils: it knows of no {NOUNS[axis]}s that are more alike than others")
    check_number(n, len(index), f"{NOUNS[axis]}s")
    position = known(index, as_ids([which]), NOUNS[axis])
    catalogue = model.alike(axis, by)
    if candidates is not None:
        catalogue = Catalogue.of(catalogue.sums, np.unique(known(index, as_ids(candidates), NOUNS[axis])))
    itself = catalogue.places_of(np.zeros(1, np.int64), Interactions(np.array([0, 1]), position))
    nearest = catalogue.best(position, n, itself)[0]
    nearest = nearest[nearest >= 0]
    rows = np.broadcast_to(position, nearest.shape)
    scores = np.mean([codes.predict(rows, nearest) for codes in catalogue.sums.codes], axis=0)
    columns = {NOUNS[axis]: index.ids[nearest], "score": scores}
    return Records(SimilarItem, columns) if axis else Records(SimilarUser, columns)


def _is_new_to_lists(model: Parts, item: Any) -> bool:
    """Return whether values alone say what an item is like: nobody had chosen it when the map was made."""
    if model.item_map is None or not model.predicts:
        return False
    [position] = known(model.col_index, as_ids([item]), NOUNS[1])
    return bool(model.item_map.levels[position] == NOBODY)


def _similar_in_map(model: Parts, which: Any, n: int, by: str, candidates: Any) -> Records[SimilarItem]:
    """Compare the columns of a dense map: what speaks for both items, by correlation."""
    if by == "hamming":
        raise InputError("by='hamming' compares labels, and this model holds the whole map: fit it with max_bytes")
    check_number(n, len(model.col_index), "items")
    [position] = known(model.col_index, as_ids([which]), NOUNS[1])
    item_map = model.lists.item_map
    allowed = item_map.chosen if candidates is None else known(model.col_index, as_ids(candidates), NOUNS[1])
    allowed = np.setdiff1d(allowed, position)
    columns = np.zeros((item_map.size, len(allowed))) if item_map.dense is None else item_map.dense[:, allowed]
    itself = np.zeros(item_map.size) if item_map.dense is None else item_map.dense[:, position]
    columns, itself = columns - columns.mean(axis=0), itself - itself.mean()
    lengths = np.linalg.norm(columns, axis=0) * np.linalg.norm(itself)
    scores = itself @ columns / np.where(lengths > 0.0, lengths, 1.0)
    order = np.argsort(-scores, kind="stable")[:n]
    found = {NOUNS[1]: model.col_index.ids[allowed[order]], "score": scores[order].astype(np.float64)}
    return Records(SimilarItem, found)


def axis_of(side: str) -> int:
    """Return 0 for users (rows), 1 for items (columns)."""
    if isinstance(side, str) and side in FORMER:
        warn_deprecated(f"side={side!r}", f"side={FORMER[side]!r}")
        side = FORMER[side]
    Words(*SIDES).check("side", side)
    return SIDES[side]
