"""What every fitted model can be asked for: recommendations, new rows, likeness, explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.frames import frame_like, ids_of_frame
from accams.estimators.inputs import (
    is_frame,
    is_sparse,
    known_positions,
    observations_of,
    pairs_of,
    positions,
    values_of,
)
from accams.model.posterior import Posterior
from accams.model.stencils import StencilSum
from accams.use.explain import Explanation, explain
from accams.use.guest import Guest
from accams.use.hierarchy import Node, Tree, telling
from accams.use.ids import as_ids, check_number, known
from accams.use.recommend import recommend
from accams.use.scoring import Catalogue, Seen
from accams.use.similar import MEASURES, likeness
from accams.use.view import View

if TYPE_CHECKING:
    from accams.estimators.usable import Usable

SIDES = {"rows": 0, "users": 0, "cols": 1, "columns": 1, "items": 1}
SMALLEST_NOISE = 1e-3  # of the range of values: a fit without error still says little about a new row
UNKNOWN_NOISE = 0.2  # of the range of values, where the model does not say
EXPLAINING_BYTES = 3.5  # per row and column, of the small model that explains many draws
LEAST_EXPLAINING = 4000


def view_of(model: Usable) -> View:
    """The model as the functions that use it see it; made once."""
    kept = model.__dict__.get("_view")
    posterior: Posterior | None = getattr(model, "posterior_", None)
    seen, activity = getattr(model, "seen_", None), getattr(model, "activity_", None)
    ids = model.row_index_, model.col_index_
    parts = model.stencils_, posterior, *ids, seen, activity
    if kept is not None and kept.clip == model._bounds():
        before = kept.stencils, kept.posterior, kept.rows, kept.cols, kept.seen, kept.activity
        if all(one is other for one, other in zip(parts, before, strict=True)):
            return kept  # type: ignore[no-any-return]
    low, high = model.value_range_
    noise = getattr(model, "sigma_", None) or getattr(model, "train_rmse_", None) or UNKNOWN_NOISE * (high - low)
    noise = max(float(noise), SMALLEST_NOISE * (high - low)) or 1.0
    blank = float(getattr(model, "zero_weight_", None) or 0.0)
    view = View(model.stencils_, posterior, *ids, model._bounds(), noise, seen, activity, Distilled(model), blank)
    model.__dict__["_view"] = view
    return view


@dataclass
class Distilled:
    """The small sum that explains a model of many draws, made when it is first asked for."""

    model: Usable
    made: StencilSum | None = None

    def __call__(self) -> StencilSum:
        if self.made is None:
            size = int(max(EXPLAINING_BYTES * sum(self.model.stencils_.shape), LEAST_EXPLAINING))
            known_weights = getattr(self.model, "activity_", None) is not None
            self.made = self.model.distill(size, weights="activity" if known_weights else "uniform")
        return self.made


def recommendations(
    model: Usable, user: Any, n: int, exclude_seen: bool, seen: Any, candidates: Any, unknown: str,
    return_std: bool, quantile: float | None,
) -> Any:  # fmt: skip
    """What `recommend` of a fitted model gives."""
    checks.one_of("unknown", unknown, ("error", "average"))
    view = view_of(model)
    check_number(n, len(view.cols), "columns")
    if isinstance(user, Guest):
        if seen is not None:
            raise InputError("a guest's history is known: pass no seen")
        how = {"candidates": candidates, "return_std": return_std, "quantile": quantile}
        return user.recommend(n, exclude_seen=exclude_seen, **how)
    names = ids_of_frame(user, id_names(model)[0]) if is_frame(user) else as_ids(user)
    rows = known(view.rows, names, "row") if unknown == "error" else positions(view.rows, names)
    columns = None if candidates is None else np.unique(known(view.cols, as_ids(candidates), "column"))
    what = seen_columns(model, view, seen, names, rows) if exclude_seen else None
    found = recommend(view, rows, names, n, what, columns, return_std, quantile)
    if not is_frame(user):
        return found
    return frame_like(user, found.columns(*id_names(model)))


def seen_columns(
    model: Usable, view: View, seen: Any, names: NDArray[Any], rows: NDArray[np.int64]
) -> tuple[Seen, NDArray[np.int64]]:
    """What is not to be recommended, because it has been observed, and which of its rows are those asked for."""
    if seen is None:
        if view.seen is None:
            raise InputError(
                "this model does not know what its rows have observed: pass seen= (the ratings, or pairs of ids), or "
                "exclude_seen=False (--seen FILE, --include-seen)"
            )
        return view.seen, rows
    if is_sparse(seen) or (isinstance(seen, np.ndarray) and seen.ndim == 2 and seen.shape[1] != 2):
        seen = observations_of(seen)
    raw_rows, raw_cols = pairs_of(seen, getattr(model, "feature_names_in_", None))
    asked, own = Index.of(names)
    known_positions(view.rows, view.cols, raw_rows, raw_cols)  # warns where they cannot be meant
    return Seen.at(positions(asked, raw_rows), positions(view.cols, raw_cols), len(asked)), own


def folded_in(model: Usable, history: Any, y: ArrayLike | None, side: str, n_draws: int) -> Guest:
    """What `fold_in` of a fitted model gives."""
    checks.whole("n_draws", n_draws, 1)
    view = view_of(model).thin(n_draws)
    if side_of(side) == 1:
        view = view.transposed
    columns, values = history_of(history, y)
    if len(columns) == 0:
        raise InputError("the history is empty: give at least one value, such as {column id: value}")
    if not np.isfinite(values).all():
        raise InputError("the history has values that are missing (NaN) or infinite")
    check_values(model, values)
    return Guest.of(view, columns, values)


def check_values(model: Usable, values: NDArray[np.float64]) -> None:
    """Refuse values that are not on the scale of those that the model was fitted to."""
    low, high = model.value_range_
    single = values.astype(np.float32)  # as the training values were
    outside = values[(single < np.float32(low)) | (single > np.float32(high))]
    if len(outside):
        raise InputError(
            f"there is a value {outside[0]:g}, but the model's values lie between {low:g} and {high:g}: bring it onto "
            "that scale"
        )


def history_of(history: Any, y: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Columns and values of one row."""
    if isinstance(history, Observations):
        raise InputError("fold_in takes the values of one row, such as {column id: value}")
    if y is not None:
        columns = as_ids(history)
        return columns, values_of(y, "y", len(columns))
    if isinstance(history, Mapping):
        return as_ids(list(history)), values_of(list(history.values()), "history", len(history))
    if is_frame(history) or hasattr(history, "items"):
        raise InputError("give columns and values apart: fold_in(table['item'], table['rating'])")
    pairs = list(history) if hasattr(history, "__iter__") else [history]
    if not all(isinstance(pair, (list, tuple, np.ndarray)) and len(pair) == 2 for pair in pairs):
        raise InputError("the history must be {column id: value}, pairs (column id, value), or columns and values y")
    return as_ids([pair[0] for pair in pairs]), values_of([pair[1] for pair in pairs], "history", len(pairs))


def most_similar(model: Usable, which: Any, n: int, side: str, by: str, candidates: Any) -> list[tuple[Any, float]]:
    """What `similar` of a fitted model gives."""
    checks.one_of("by", by, MEASURES)
    axis, view = side_of(side), view_of(model)
    index = (view.rows, view.cols)[axis]
    check_number(n, len(index), ("rows", "columns")[axis])
    position = known(index, as_ids([which]), ("row", "column")[axis])
    catalogue = _alike(model, view, axis, by)
    if candidates is not None:
        among = known(index, as_ids(candidates), ("row", "column")[axis])
        catalogue = Catalogue.of(catalogue.sums, np.unique(among))
    itself = catalogue.places_of(np.zeros(1, np.int64), Seen(np.array([0, 1]), position))
    found = catalogue.best(position, n, itself)[0]
    found = found[found >= 0]
    rows = np.broadcast_to(position, found.shape)
    scores = np.mean([codes.predict(rows, found) for codes in catalogue.sums.codes], axis=0)
    return list(zip(index.ids[found].tolist(), scores.tolist(), strict=True))


def _alike(model: Usable, view: View, axis: int, by: str) -> Catalogue:
    """The catalogue of likeness, made once."""
    kept = model.__dict__.setdefault("_likeness", {})
    if kept.get("view") is not view:
        kept.clear()
        kept["view"] = view
    found = kept.get((axis, by))
    if found is None:
        unseen = (view.stencils.unseen_rows, view.stencils.unseen_cols)[axis]
        there = np.setdiff1d(np.arange(view.stencils.shape[axis]), unseen)
        found = kept[axis, by] = Catalogue.of(likeness(view.sums, axis, by), there)
    return found  # type: ignore[no-any-return]


def explanation(model: Usable, user: Any, item: Any) -> Explanation:
    """What `explain` of a fitted model gives."""
    if isinstance(user, Guest):
        return user.explain(item)
    view = view_of(model)
    i, j = known(view.rows, as_ids([user]), "row"), known(view.cols, as_ids([item]), "column")
    mean = view.moments(i, j)[0]
    prediction = view.clipped(mean)
    many = view.posterior is not None
    values = float(mean[0]), float(prediction[0])
    return explain(view.explainer.members, int(i[0]), int(j[0]), (user, item), *values, many)


def hierarchy(
    model: Usable, depth: int, side: str, branches: int | None, least: int | None, members: int,
    candidates: Any, stencils: Any, keep: Any,
) -> Node:  # fmt: skip
    """What `hierarchy` of a fitted model gives."""
    for name, value in (("depth", depth), ("branches", branches), ("least", least), ("members", members)):
        if value is not None or name in ("depth", "members"):
            checks.whole(name, value, 1)
    axis, view = side_of(side), view_of(model).explainer
    codes, index = view.stencils.codes, (view.rows, view.cols)[axis]
    unseen = (view.stencils.unseen_rows, view.stencils.unseen_cols)[axis]
    there = np.arange(len(index)) if candidates is None else known(index, as_ids(candidates), ("row", "column")[axis])
    there = np.setdiff1d(there, unseen)
    order = telling(codes, axis) if stencils is None else np.asarray(stencils, np.int64)
    if order.ndim != 1 or (len(order) and not (order.min() >= 0 and order.max() < len(codes.starts))):
        there_are = f"numbers between 0 and {len(codes.starts) - 1}" if len(codes.starts) else "none: there are none"
        raise InputError(f"stencils must be {there_are}, not {stencils!r}")
    least = max(2, round(0.01 * len(there))) if least is None else least
    tree = Tree(codes, index, axis, view.members.weights[axis], members, branches, least, keep)
    return tree.grow(order[:depth].tolist(), there)


def side_of(side: str) -> int:
    """0 for rows, 1 for columns."""
    checks.one_of("side", side, tuple(SIDES))
    return SIDES[side]


def id_names(model: Usable) -> tuple[str, str]:
    names = getattr(model, "feature_names_in_", None)
    return ("row", "col") if names is None else (str(names[0]), str(names[1]))
