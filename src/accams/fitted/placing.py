"""Put rows or columns that were folded in into a model: known ones stay where they are, new ones are appended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.fit.keys import seed_of
from accams.fitted.distilling import activity
from accams.fitted.expecting import expected_of
from accams.fitted.parts import Parts
from accams.model.codes import Codes
from accams.model.posterior import Draw, Posterior
from accams.model.stencils import Stencil, StencilSum
from accams.use.fold import Folded, fold_labels
from accams.use.ids import as_ids
from accams.use.scoring import Floats, Positions, Sums

P = TypeVar("P", bound=Parts)


@dataclass(frozen=True)
class Places:
    """Positions of updated lines: known ones stay where they are, new ones are appended."""

    lines: Positions
    size: int

    def put(self, old: NDArray[Any], new: Any) -> NDArray[Any]:
        """Return an array over all lines with new entries for the updated ones."""
        out = np.empty((self.size, *old.shape[1:]), old.dtype)
        out[: len(old)] = old
        out[self.lines] = new
        return out


class Seen(NamedTuple):
    """Observations of some lines: those of the u-th are begins[u] .. begins[u + 1], at positions of the other axis."""

    begins: Positions
    others: Positions
    values: Floats


def extended(index: Index, names: NDArray[Any]) -> tuple[Index, Positions]:
    """Return the ids with unknown ones of `names` appended, and the position of each name."""
    found = index.find(names).copy()
    new = np.flatnonzero(found < 0)
    found[new] = len(index) + np.arange(len(new))
    if not len(new):
        return index, found
    size = len(index) + len(new)
    if index.is_positional and names[new].tolist() == list(range(len(index), size)):
        return Index(None, size), found
    return Index(as_ids(index.ids.tolist() + names[new].tolist())), found


def folded_into(model: P, axis: int, index: Index, lines: Positions, seen: Seen, random_state: Any) -> P:
    """Return a model with these rows (axis 0) or columns folded in; the other axis and all templates stay."""
    places = Places(lines, len(index))
    turn = _same if axis == 0 else _turned
    posterior = model.posterior
    effects = None if posterior is None or posterior.effects is None else turn(posterior.effects)
    variance: Any = model.effect_variance(axis=axis)
    known = model.knowledge[axis]
    expected, alone, told = None, None, np.zeros(len(lines), np.bool_)
    if known is not None:
        turned = model if axis == 0 else model.transposed
        traits = known.grown(places.size).traits(lines)
        told = known.grown(places.size).given[lines]
        traits[~told] = np.nan
        variance = None if variance is None else np.where(told, model.effect_variance(True, axis), variance)
        expected = expected_of(turned, traits)
        alone = replace(expected, lines=np.zeros((len(lines), 0)), fixed=np.zeros((len(lines), 0), np.bool_))
        model = replace(model, knowledge=put(model.knowledge, axis, known.grown(places.size)))
    one = Sums([turn(model.stencils.codes)], [None])
    folded = fold_labels(one, model.noise, *seen, blank=model.blank, effect_variance=variance, expected=alone)
    stencils = turn(_sum_with(turn(model.stencils), folded, places))
    if posterior is not None:
        linear = None if posterior.linear is None else turn(posterior.linear)
        sums = Sums([turn(codes) for codes in model.codes], [None] * len(posterior), linear)
        folded = fold_labels(sums, model.noise, *seen, seed_of(random_state) + axis, model.blank, variance, expected)
        draws = [_draw_with(draw, turn, folded, d, places) for d, draw in enumerate(posterior.draws)]
        if effects is not None:
            if effects.blended:
                draws = with_shared_effects(draws, axis)
            stds = np.sqrt(variance_of_new(model, axis, np.diff(seen.begins), told))
            effects = turn(effects.put(places.lines, places.size, stds))
        if linear is not None:
            linear = turn(linear.put(places.lines, places.size, folded.lines, folded.spreads))
        posterior = replace(posterior, shape=stencils.shape, draws=tuple(draws), effects=effects, linear=linear)
    active, counts = model.activity, activity(np.diff(seen.begins))
    if active is not None:
        active = (places.put(active[0], counts), active[1]) if axis == 0 else (active[0], places.put(active[1], counts))
    indices = {"row_index" if axis == 0 else "col_index": index}
    spread = None if model.spread is None else turn(turn(model.spread).grown(places.size))
    return replace(model, stencils=stencils, posterior=posterior, spread=spread, activity=active, **indices)  # type: ignore[arg-type]


def variance_of_new(model: Parts, axis: int, n: Positions | int, told: Any) -> Floats:
    """Return what the draws lack of the variance of new rows (columns) with n observations each.

    `told` says for each whether its features are known: these leave less of it.
    """
    known, noise = model.knowledge[axis], model.noise
    effects = None if model.posterior is None else model.posterior.effects
    if effects is not None and axis == 1:
        effects = effects.transposed()
    of_effects = effects.variance_given(n, noise) if effects is not None and effects.blended else 0.0
    if known is None or not known.spread > 0.0:
        return np.asarray(of_effects + np.zeros(np.shape(n)))
    return np.where(told, known.spread * noise**2 / (noise**2 + n * known.spread), of_effects)


def with_shared_effects(draws: Sequence[Draw], axis: int = 0) -> list[Draw]:
    """Return draws with the mean of their effects of rows (columns) in one array, as those of a blend have."""
    name = "row_effects" if axis == 0 else "col_effects"
    first = draws[0]
    together = np.stack([getattr(draw.codes, name) for draw in draws])
    shared = replace(first, made=replace(first.codes, **{name: together.mean(axis=0)}))
    return [draw.sharing_effects(shared) for draw in draws]


def without_row(posterior: Posterior, unseen: tuple[Positions, Positions], row: int) -> Posterior:
    """Return a posterior without one row, whose share in the average row is taken out too."""
    draws = [_draw_without(draw, unseen, row) for draw in posterior.draws]
    effects = None if posterior.effects is None else posterior.effects.without(row)
    if effects is not None and effects.blended:
        draws = with_shared_effects(draws)
    shape = posterior.shape[0] - 1, posterior.shape[1]
    linear = None if posterior.linear is None else posterior.linear.without(row)
    left = replace(posterior, shape=shape, draws=tuple(draws), effects=effects, linear=linear)
    return _without_probes(left, row)


def sum_without(model: StencilSum, row: int) -> StencilSum:
    """Return a stencil sum without one row."""
    stencils = [Stencil(s.template, np.delete(s.row_labels, row), s.col_labels, s.step) for s in model.stencils]
    unseen = model.unseen_rows[model.unseen_rows != row]
    effects = None if model.row_effects is None else np.delete(model.row_effects, row)
    shape = model.shape[0] - 1, model.shape[1]
    unseen = unseen - (unseen > row)
    return StencilSum(shape, model.offset, tuple(stencils), unseen, model.unseen_cols, effects, model.col_effects)


def put(both: tuple[Any, Any], axis: int, one: Any) -> tuple[Any, Any]:
    """Return a pair with another member."""
    return (one, both[1]) if axis == 0 else (both[0], one)


def _same(x: Any) -> Any:
    return x


def _turned(x: Any) -> Any:
    return x.transposed()


def _sum_with(model: StencilSum, folded: Folded, places: Places) -> StencilSum:
    labels = folded.labels[0]
    stencils = [
        Stencil(s.template, places.put(s.row_labels, labels[:, p]), s.col_labels, s.step)
        for p, s in enumerate(model.stencils)
    ]
    effects = model.row_effects
    if effects is not None:
        effects = places.put(effects, folded.constants[:, 0] - model.offset)
    unseen = np.setdiff1d(model.unseen_rows, places.lines)
    shape = places.size, model.shape[1]
    return StencilSum(shape, model.offset, tuple(stencils), unseen, model.unseen_cols, effects, model.col_effects)


def _draw_with(draw: Draw, turn: Any, folded: Folded, d: int, places: Places) -> Draw:
    """Return a draw with labels of these lines, drawn by their probabilities."""
    codes, labels = turn(draw.codes), folded.labels[d]
    rows = np.concatenate([places.put(codes.rows[:-1], labels), codes.rows[-1:]])
    effects = codes.row_effects
    if effects is not None:
        effects = np.append(places.put(effects[:-1], folded.constants[:, d] - codes.offset), effects[-1])
    noise, shares = draw.row_noise, draw.row_shares
    if noise is not None and turn is _same:
        old = places.lines < len(noise)
        noise = places.put(noise, np.where(old, noise[np.where(old, places.lines, 0)], np.mean(noise)))
    if shares is not None and turn is _same:
        shares = np.concatenate([places.put(shares[:-1], _certain(codes, labels, shares.shape[1])), shares[-1:]])
    return Draw(draw.chain, draw.sweep, turn(replace(codes, rows=rows, row_effects=effects)), shares, noise)


def _draw_without(draw: Draw, unseen: tuple[Positions, Positions], row: int) -> Draw:
    noise, shares = (None if x is None else np.delete(x, row, axis=0) for x in (draw.row_noise, draw.row_shares))
    return Draw.of(draw.chain, draw.sweep, sum_without(draw.stencils(*unseen), row), shares, noise)


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
