"""Update a model: take in new observations of users without fitting again, or forget a user."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.ids import Index
from accams.data.inputs import choices_of, observations_of
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fit.keys import seed_of
from accams.fitted.distilling import activity
from accams.fitted.folding import check_values
from accams.fitted.listing import known_items, weights_in
from accams.fitted.parts import Parts
from accams.model.codes import Codes
from accams.model.interactions import Interactions
from accams.model.posterior import Draw, Posterior
from accams.model.stencils import Stencil, StencilSum
from accams.use.fold import Folded, fold_labels
from accams.use.ids import as_ids, known
from accams.use.scoring import Positions, Sums

P = TypeVar("P", bound=Parts)


@dataclass(frozen=True)
class Places:
    """Positions of updated rows: known rows stay where they are, new ones are appended."""

    rows: Positions
    size: int

    def put(self, old: NDArray[Any], new: Any) -> NDArray[Any]:
        """Return an array over all rows with new entries for the updated ones."""
        out = np.empty((self.size, *old.shape[1:]), old.dtype)
        out[: len(old)] = old
        out[self.rows] = new
        return out


def updated(model: P, X: Any, y: ArrayLike | None, random_state: Any) -> P:
    """Return a model that has taken in all observations of some rows."""
    if not model.predicts:
        return _with_histories(model, X, y)
    observations = observations_of(X, y)
    if observations.weights is not None:
        raise InputError("update does not take weights: pass the observations without them")
    _check_ids(model, observations)
    filled = np.flatnonzero(np.diff(observations.row_starts) > 0)
    columns = known(model.col_index, observations.col_index.ids, "item")
    check_values(model, observations.values)
    index, places = _with_rows(model.row_index, observations.row_index.ids[filled])
    begins = np.append(observations.row_starts[:-1][filled], observations.nnz)
    parts = begins, columns[observations.cols], observations.values
    one = Sums([model.stencils.codes], [None])
    variance = model.effect_variance
    folded = fold_labels(one, model.noise, *parts, blank=model.blank, effect_variance=variance)
    stencils, posterior = _sum_with(model.stencils, folded, places), model.posterior
    if posterior is not None:
        folded = fold_labels(model.sums, model.noise, *parts, seed_of(random_state), model.blank, variance)
        draws = [_draw_with(draw, folded, d, places) for d, draw in enumerate(posterior.draws)]
        effects = posterior.effects
        if effects is not None:
            stds: Any = 0.0
            if effects.blended:
                draws = _with_shared_effects(draws)
                stds = np.sqrt(effects.variance_given(np.diff(begins), model.noise))
            effects = effects.put(places.rows, places.size, stds)
        posterior = replace(posterior, shape=stencils.shape, draws=tuple(draws), effects=effects)
    seen, active = model.interactions, model.activity
    new = Interactions(begins, parts[1])
    if model.item_map is not None:
        seen = seen or _no_history(model)
        new = replace(new, weights=model.item_map.feedback.weights(observations.values).astype(np.float32))
    if active is not None:
        active = places.put(active[0], activity(np.diff(observations.row_starts)[filled])), active[1]
    return replace(
        model,
        stencils=stencils,
        posterior=posterior,
        row_index=index,
        evaluation=None,  # was that of the old model
        spread=None if model.spread is None else model.spread.put(places.rows, places.size),
        activity=active,
        interactions=None if seen is None else seen.put(places.rows, places.size, new),
    )


def _check_ids(model: Parts, observations: Observations) -> None:
    """Refuse positions where the model has ids."""
    if observations.row_index.is_positional and not all(index.is_positional for index in model.indices):
        raise InputError("update needs the ids of users and items: pass a table, or pairs and values")


def _no_history(model: Parts) -> Interactions:
    """Return the interactions of users of whom none are known."""
    none = np.zeros(0, np.int64)
    return Interactions(np.zeros(len(model.row_index) + 1, np.int64), none, none.astype(np.float32))


def _with_histories(model: P, X: Any, y: ArrayLike | None) -> P:
    """Return a model of lists that knows the histories of more users: there is nothing to fit."""
    choices = choices_of(X, y)
    given = choices.observations
    _check_ids(model, given)
    filled = np.flatnonzero(np.diff(given.row_starts) > 0)
    index, places = _with_rows(model.row_index, given.row_index.ids[filled])
    columns = known_items(model, given.col_index.ids)[given.cols]
    rows = np.repeat(np.arange(len(filled)), np.diff(given.row_starts)[filled])
    new = Interactions.at(rows, columns, len(filled), weights_in(choices, model).astype(np.float32))
    old = model.interactions or _no_history(model)
    return replace(
        model,
        stencils=replace(model.stencils, shape=(places.size, model.shape[1])),
        row_index=index,
        interactions=old.put(places.rows, places.size, new),
    )


def forgotten(model: P, user: Any) -> P:
    """Return a model without one user: its id, labels, noise, probes and interactions."""
    row = int(known(model.row_index, as_ids([user]), "user")[0])
    stencils, posterior = _sum_without(model.stencils, row), model.posterior
    if posterior is not None:
        unseen = model.stencils.unseen_rows, model.stencils.unseen_cols
        draws = tuple(_draw_without(draw, unseen, row) for draw in posterior.draws)
        effects = None if posterior.effects is None else posterior.effects.without(row)
        if effects is not None and effects.blended:
            draws = tuple(_with_shared_effects(draws))
        posterior = _without_probes(replace(posterior, shape=stencils.shape, draws=draws, effects=effects), row)
    known_activity, seen = model.activity, model.interactions
    return replace(
        model,
        stencils=stencils,
        posterior=posterior,
        row_index=Index(np.delete(model.row_index.ids, row)),
        spread=None if model.spread is None else model.spread.without(row),
        activity=None if known_activity is None else (np.delete(known_activity[0], row), known_activity[1]),
        interactions=None if seen is None else seen.without(row),
    )


def _with_rows(index: Index, names: NDArray[Any]) -> tuple[Index, Places]:
    """Return the ids with new ones appended, and the positions of these rows."""
    rows = index.find(names).copy()
    new = np.flatnonzero(rows < 0)
    rows[new] = len(index) + np.arange(len(new))
    if not len(new):
        return index, Places(rows, len(index))
    size = len(index) + len(new)
    if index.is_positional and names[new].tolist() == list(range(len(index), size)):
        return Index(None, size), Places(rows, size)
    return Index(as_ids(index.ids.tolist() + names[new].tolist())), Places(rows, size)


def _sum_with(model: StencilSum, folded: Folded, places: Places) -> StencilSum:
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


def _sum_without(model: StencilSum, row: int) -> StencilSum:
    stencils = [Stencil(s.template, np.delete(s.row_labels, row), s.col_labels, s.step) for s in model.stencils]
    unseen = model.unseen_rows[model.unseen_rows != row]
    effects = None if model.row_effects is None else np.delete(model.row_effects, row)
    shape = model.shape[0] - 1, model.shape[1]
    unseen = unseen - (unseen > row)
    return StencilSum(shape, model.offset, tuple(stencils), unseen, model.unseen_cols, effects, model.col_effects)


def _draw_with(draw: Draw, folded: Folded, d: int, places: Places) -> Draw:
    """Return a draw with labels of these rows, drawn by their probabilities."""
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


def _with_shared_effects(draws: Sequence[Draw]) -> list[Draw]:
    """Return draws with the mean of their effects of rows in one array, as those of a blend have."""
    first = draws[0]
    together = np.stack([draw.codes.row_effects for draw in draws])  # type: ignore[misc]
    shared = replace(first, made=replace(first.codes, row_effects=together.mean(axis=0)))
    return [draw.sharing_effects(shared) for draw in draws]


def _draw_without(draw: Draw, unseen: tuple[Positions, Positions], row: int) -> Draw:
    """Return a draw without one row, whose share in the average row is taken out too."""
    noise, shares = (None if x is None else np.delete(x, row, axis=0) for x in (draw.row_noise, draw.row_shares))
    return Draw.of(draw.chain, draw.sweep, _sum_without(draw.stencils(*unseen), row), shares, noise)


def _without_probes(posterior: Posterior, row: int) -> Posterior:
    """Return a posterior whose traces do not follow predictions of one row."""
    keep = posterior.probes[:, 0] != row
    probes = posterior.probes[keep]
    probes = np.column_stack([probes[:, 0] - (probes[:, 0] > row), probes[:, 1]])
    traces = {name: x[:, :, keep] if x.ndim == 3 else x for name, x in posterior.traces.items()}
    return replace(posterior, probes=probes, traces=traces)


def _certain(codes: Codes, labels: NDArray[Any], width: int) -> NDArray[np.uint8]:
    heights = codes.heights
    shares = np.zeros((len(labels), width), np.uint8)
    np.put_along_axis(shares, np.cumsum(heights) - heights + labels, 255, axis=1)
    return shares
