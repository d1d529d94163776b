"""What every fitted model can be asked for: recommendations, new rows, likeness, explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators import checks
from accams.estimators.frames import frame_like, ids_of_frame
from accams.estimators.inputs import is_frame, pairs_of, positions, values_of
from accams.model.posterior import Posterior
from accams.model.stencils import StencilSum
from accams.use.explain import Explanation, explain
from accams.use.guest import Guest
from accams.use.hierarchy import Node, Tree, telling
from accams.use.ids import known
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
    if kept is not None and kept.stencils is model.stencils_ and kept.clip == _range(model):
        return kept  # type: ignore[no-any-return]
    posterior: Posterior | None = getattr(model, "posterior_", None)
    low, high = model.value_range_
    noise = getattr(model, "sigma_", None) or getattr(model, "train_rmse_", None) or UNKNOWN_NOISE * (high - low)
    noise = max(float(noise), SMALLEST_NOISE * (high - low)) or 1.0

    def distil() -> StencilSum:
        size = int(max(EXPLAINING_BYTES * sum(model.stencils_.shape), LEAST_EXPLAINING))
        known_weights = getattr(model, "activity_", None) is not None
        return model.distill(size, weights="activity" if known_weights else "uniform")

    seen, activity = getattr(model, "seen_", None), getattr(model, "activity_", None)
    ids = model.row_index_, model.col_index_
    model.__dict__["_view"] = View(model.stencils_, posterior, *ids, _range(model), noise, seen, activity, distil)
    return model.__dict__["_view"]  # type: ignore[no-any-return]


def _range(model: Usable) -> tuple[float, float] | None:
    checks.clip(model.clip)
    if isinstance(model.clip, bool):
        return model.value_range_ if model.clip else None
    return model.clip


def recommendations(
    model: Usable, user: Any, n: int, exclude_seen: bool, seen: Any, candidates: Any, unknown: str,
    return_std: bool, quantile: float | None,
) -> Any:  # fmt: skip
    """What `recommend` of a fitted model gives."""
    checks.whole("n", n, 1)
    checks.one_of("unknown", unknown, ("error", "average"))
    view = view_of(model)
    if isinstance(user, Guest):
        if seen is not None:
            raise InputError("a guest's history is known: pass no seen")
        how = {"candidates": candidates, "return_std": return_std, "quantile": quantile}
        return user.recommend(n, exclude_seen=exclude_seen, **how)
    names = ids_of_frame(user, _row_name(model)) if is_frame(user) else as_ids(user)
    rows = known(view.rows, names, "row") if unknown == "error" else positions(view.rows, names)
    columns = None if candidates is None else known(view.cols, as_ids(candidates), "column")
    what = seen_columns(model, view, seen) if exclude_seen else None
    found = recommend(view, rows, names, n, what, columns, return_std, quantile)
    if not is_frame(user):
        return found
    return frame_like(user, found.columns(*_names(model)))


def seen_columns(model: Usable, view: View, seen: Any) -> Seen:
    """What is not to be recommended, because it has been observed."""
    if seen is None:
        if view.seen is None:
            raise InputError(
                "this model does not know what its rows have observed: pass seen= (the ratings, or pairs of ids), or "
                "exclude_seen=False (--seen FILE, --include-seen)"
            )
        return view.seen
    rows, cols = pairs_of(seen, getattr(model, "feature_names_in_", None))
    i, j = positions(view.rows, rows), positions(view.cols, cols)
    inside = (i >= 0) & (j >= 0)
    order = np.argsort(i[inside], kind="stable")
    starts = np.searchsorted(i[inside][order], np.arange(len(view.rows) + 1))
    return Seen(starts.astype(np.int64), j[inside][order])


def folded_in(model: Usable, history: Any, y: ArrayLike | None, side: str, n_draws: int) -> Guest:
    """What `fold_in` of a fitted model gives."""
    checks.whole("n_draws", n_draws, 1)
    view = view_of(model).thin(n_draws)
    if side_of(side) == 1:
        view = view.transposed()
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
    outside = values[(values < low) | (values > high)]
    if len(outside):
        raise InputError(f"there is a value {outside[0]:g}, but the model's values lie between {low:g} and {high:g}")


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
    pairs = list(history)
    if not all(isinstance(pair, (list, tuple, np.ndarray)) and len(pair) == 2 for pair in pairs):
        raise InputError("the history must be {column id: value}, pairs (column id, value), or columns and values y")
    return as_ids([pair[0] for pair in pairs]), values_of([pair[1] for pair in pairs], "history", len(pairs))


def most_similar(model: Usable, which: Any, n: int, side: str, by: str) -> list[tuple[Any, float]]:
    """What `similar` of a fitted model gives."""
    checks.whole("n", n, 1)
    checks.one_of("by", by, MEASURES)
    axis, view = side_of(side), view_of(model)
    index = (view.rows, view.cols)[axis]
    position = known(index, as_ids([which]), ("row", "column")[axis])
    catalogue = _alike(model, view, axis, by)
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
    if (axis, by) not in kept:
        unseen = (view.stencils.unseen_rows, view.stencils.unseen_cols)[axis]
        there = np.setdiff1d(np.arange(view.stencils.shape[axis]), unseen)
        kept[axis, by] = Catalogue.of(likeness(view.sums, axis, by), there)
    return kept[axis, by]  # type: ignore[no-any-return]


def explanation(model: Usable, user: Any, item: Any) -> Explanation:
    """What `explain` of a fitted model gives."""
    if isinstance(user, Guest):
        return user.explain(item)
    view = view_of(model)
    i, j = known(view.rows, as_ids([user]), "row"), known(view.cols, as_ids([item]), "column")
    mean = view.moments(i, j)[0]
    prediction = view.clipped(mean)
    return explain(view.explainer.members, int(i[0]), int(j[0]), (user, item), float(mean[0]), float(prediction[0]))


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
        raise InputError(f"stencils must be numbers between 0 and {len(codes.starts) - 1}, not {stencils!r}")
    least = max(2, round(0.01 * len(there))) if least is None else least
    tree = Tree(codes, index, axis, view.members.weights[axis], members, branches, least, keep)
    return tree.grow(order[:depth].tolist(), there)


def side_of(side: str) -> int:
    """0 for rows, 1 for columns."""
    checks.one_of("side", side, tuple(SIDES))
    return SIDES[side]


def as_ids(ids: Any) -> NDArray[Any]:
    """One id, or several, as an array that keeps their types."""
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__"):
        ids = [ids]
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    array = np.empty(len(listed), object)
    array[:] = listed
    whole = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in listed)
    return array.astype(np.int64) if whole and listed and abs(max(listed, key=abs)) < 2**63 else array


def _names(model: Usable) -> tuple[str, str]:
    names = getattr(model, "feature_names_in_", None)
    return ("row", "col") if names is None else (str(names[0]), str(names[1]))


def _row_name(model: Usable) -> str:
    return _names(model)[0]
