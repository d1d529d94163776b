"""A model that takes in rows with new observations, old ones and new ones, without fitting anything again."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError
from accams.estimators.distilling import activity
from accams.estimators.inputs import observations_of
from accams.estimators.using import check_values, view_of
from accams.fit.keys import seed_of
from accams.model.codes import Codes
from accams.model.posterior import Draw
from accams.model.stencils import Stencil, StencilSum
from accams.use.fold import Folded, fold_labels
from accams.use.ids import as_ids, known
from accams.use.scoring import Positions, Seen, Sums

if TYPE_CHECKING:
    from accams.estimators.usable import Usable


@dataclass(frozen=True)
class Places:
    """Where rows go: those that are known stay where they are, new ones come at the end."""

    rows: Positions
    size: int

    def put(self, old: NDArray[Any], new: Any) -> NDArray[Any]:
        """The numbers of all rows, with new ones for these."""
        out = np.empty((self.size, *old.shape[1:]), old.dtype)
        out[: len(old)] = old
        out[self.rows] = new
        return out


def updated(model: Usable, X: Any, y: ArrayLike | None, random_state: Any) -> Any:
    """What `update` of a fitted model gives."""
    observations = observations_of(X, y)
    if observations.weights is not None:
        raise InputError("update knows nothing of weights: pass the observations without them")
    if observations.row_index.is_positional and not (model.row_index_.is_positional and model.col_index_.is_positional):
        raise InputError("update needs the ids of rows and columns: pass a table, or pairs and values")
    filled = np.flatnonzero(np.diff(observations.row_starts) > 0)
    columns = known(model.col_index_, observations.col_index.ids, "column")
    check_values(model, observations.values)
    names = observations.row_index.ids[filled]
    index, places = _with_rows(model.row_index_, names)
    begins = np.append(observations.row_starts[:-1][filled], observations.nnz)
    parts = begins, columns[observations.cols], observations.values
    view, new = view_of(model), copy.copy(model)
    one = Sums([model.stencils_.codes], [None])
    new.stencils_ = _sum_with(model.stencils_, fold_labels(one, view.noise, *parts, blank=view.blank), places)
    if view.posterior is not None:
        folded = fold_labels(view.sums, view.noise, *parts, seed_of(random_state), view.blank)
        draws = [_draw_with(draw, folded, d, places) for d, draw in enumerate(view.posterior.draws)]
        new.posterior_ = replace(view.posterior, shape=new.stencils_.shape, draws=tuple(draws))  # type: ignore[attr-defined]
    new.row_index_ = index
    new.__dict__.pop("quality_", None)  # was that of the old model
    _note_activity(new, model, observations, filled, places)
    new.seen_ = _seen_with(getattr(model, "seen_", None), begins, parts[1], places)
    return new


def _with_rows(index: Index, names: NDArray[Any]) -> tuple[Index, Places]:
    """The ids with new ones at the end, and where these rows stand among them."""
    rows = index.find(names)
    new = np.flatnonzero(rows < 0)
    rows = rows.copy()
    rows[new] = len(index) + np.arange(len(new))
    if not len(new):
        return index, Places(rows, len(index))
    size = len(index) + len(new)
    if index.is_positional and names[new].tolist() == list(range(len(index), size)):
        return Index(None, size), Places(rows, size)
    return Index(as_ids(index.ids.tolist() + names[new].tolist())), Places(rows, size)


def _sum_with(model: StencilSum, folded: Folded, places: Places) -> StencilSum:
    """A stencil sum with the most probable labels of these rows."""
    labels = folded.labels[0]
    stencils = [
        Stencil(s.template, places.put(s.row_labels, labels[:, p]), s.col_labels, s.step)
        for p, s in enumerate(model.stencils)
    ]
    effects = model.row_effects
    if effects is not None:
        effects = places.put(effects, folded.constants[:, 0] - model.offset)
    unseen = np.setdiff1d(model.unseen_rows, places.rows)
    shape = places.size, model.shape[1]
    return StencilSum(shape, model.offset, tuple(stencils), unseen, model.unseen_cols, effects, model.col_effects)


def _draw_with(draw: Draw, folded: Folded, d: int, places: Places) -> Draw:
    """A draw with labels of these rows, drawn by their probabilities."""
    codes, labels = draw.codes, folded.labels[d]
    rows = np.concatenate([places.put(codes.rows[:-1], labels), codes.rows[-1:]])
    effects = codes.row_effects
    if effects is not None:
        effects = np.append(places.put(effects[:-1], folded.constants[:, d] - codes.offset), effects[-1])
    noise = draw.row_noise
    if noise is not None:
        old = places.rows < len(noise)
        noise = places.put(noise, np.where(old, noise[np.where(old, places.rows, 0)], np.mean(noise)))
    shares = draw.row_shares
    if shares is not None:
        shares = np.concatenate([places.put(shares[:-1], _certain(codes, labels, shares.shape[1])), shares[-1:]])
    return Draw(draw.chain, draw.sweep, replace(codes, rows=rows, row_effects=effects), shares, noise)


def _certain(codes: Codes, labels: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Labels as probabilities."""
    heights = codes.heights
    shares = np.zeros((len(labels), width), np.uint8)
    np.put_along_axis(shares, np.cumsum(heights) - heights + labels, 255, axis=1)
    return shares


def _note_activity(new: Usable, model: Usable, observations: Observations, filled: Positions, places: Places) -> None:
    old = getattr(model, "activity_", None)
    if old is not None:
        counts = np.diff(observations.row_starts)[filled]
        new.activity_ = places.put(old[0], activity(counts)), old[1]


def _seen_with(seen: Seen | None, begins: Positions, columns: Positions, places: Places) -> Seen | None:
    """What was observed, with what these rows have now in place of what they had."""
    if seen is None:
        return None
    old = len(seen.starts) - 1
    rows = [seen.columns[seen.starts[i] : seen.starts[i + 1]] for i in range(old)] + [columns[:0]] * (places.size - old)
    for u, row in enumerate(places.rows.tolist()):
        rows[row] = columns[begins[u] : begins[u + 1]]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in rows])]).astype(np.int64)
    return Seen(starts, np.concatenate([columns[:0], *rows]))
