"""Users and items that a model knows by their features: how much these tell, and places for those without ratings."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from accams.data.features import FeatureTable
from accams.data.ids import Index
from accams.errors import InputError
from accams.fitted.expecting import fixed_entries, label_priors, regression_of
from accams.fitted.parts import Parts
from accams.fitted.placing import Seen, extended, folded_into, put
from accams.model.interactions import Interactions
from accams.use.scoring import Floats, Positions
from accams.use.traits import penalty_for

P = TypeVar("P", bound=Parts)
PENALTIES = tuple(10.0**x for x in np.arange(0.0, 6.6, 0.5))
DRAWS = 64  # by which the regression is judged,
LINES, PARTNERS = 4_000, 64  # at cells of so many rows with so many columns
LABELLED = 200  # rows whose labels are drawn by their features, to see how far draws are apart then


def informed(model: P, random_state: Any = 0) -> P:
    """Return a model whose users and items without ratings are placed by their features."""
    for axis in (1, 0):
        if model.knowledge[axis] is not None:
            model = calibrated(model, axis)
            known = model.knowledge[axis]
            assert known is not None
            lines = np.intersect1d(model.unseen[axis], np.flatnonzero(known.given))
            model = _placed(model, axis, model.indices[axis], lines, random_state)
    return model


def informed_by(model: P, user_features: Any, item_features: Any, random_state: Any = 0) -> P:
    """Return a model with the features of these users and items: itself, where there are none."""
    for axis, frame in enumerate((user_features, item_features)):
        if frame is not None:
            model = with_features(model, axis, frame, random_state)
    return model


def with_features(model: P, axis: int, frame: Any, random_state: Any = 0) -> P:
    """Return a model with the features of more users (axis 0) or items; those that are new to it are placed by them."""
    known = model.knowledge[axis]
    if known is None:
        noun = ("user", "item")[axis]
        raise InputError(f"the model knows no features of {noun}s: fit it with {noun}_features")
    table = FeatureTable.of(frame, axis, model.id_names[axis])
    index, lines = extended(model.indices[axis], table.ids)
    active = model.activity
    silent = np.ones(0, np.bool_) if active is None else active[axis] <= 1.0  # placed by features before, or never
    known = known.put(lines, len(index), table)
    model = replace(model, knowledge=put(model.knowledge, axis, known))
    again = lines[(lines >= len(silent)) | silent[np.minimum(lines, len(silent) - 1)]]
    return _grown(_placed(model, axis, index, np.sort(again), random_state), axis)


def calibrated(model: P, axis: int) -> P:
    """Return a model with the penalty of the regression on features, and the spread of what it does not tell.

    Both come from known rows as if they were new: each is predicted by the features of all others.
    """
    thin, known = model.thin(DRAWS), model.knowledge[axis]
    assert known is not None
    turned = thin if axis == 0 else thin.transposed
    regression, rows = regression_of(turned)
    if len(rows) < 2 or turned.posterior is None:
        return model
    some = _evenly(np.arange(len(rows)), LINES)
    partners = _evenly(turned.with_data(1), PARTNERS)
    values = _told(turned, rows[some], partners)
    penalty, error = penalty_for(regression.traits[some], regression.weights[some], values, PENALTIES)
    known = replace(known, penalty=penalty * len(rows) / len(some))
    turned = replace(turned, knowledge=(known, None))
    spread = max(error - _apart(turned, _evenly(rows, LABELLED), partners), 0.0)
    return replace(model, knowledge=put(model.knowledge, axis, replace(known, spread=spread)))


def _placed(model: P, axis: int, index: Index, lines: Positions, random_state: Any) -> P:
    """Place rows (columns) without ratings by their features."""
    if not len(lines):
        return model
    none = np.zeros(0, np.int64)
    nothing = Seen(np.zeros(len(lines) + 1, np.int64), none, none.astype(np.float64))
    return folded_into(model, axis, index, lines, nothing, random_state)


def _grown(model: P, axis: int) -> P:
    """Let interactions and lists know of more users, or items, who have none."""
    seen, size, none = model.interactions, model.shape[axis], np.zeros(0, np.int64)
    if axis == 1:
        return model if model.item_map is None else replace(model, item_map=model.item_map.grown(size))
    if seen is None or len(seen.starts) - 1 == size:
        return model
    return replace(model, interactions=seen.put(none, size, Interactions(np.zeros(1, np.int64), none)))


def _evenly(positions: Positions, most: int) -> Positions:
    """Return at most so many of the positions, evenly spaced."""
    return np.asarray(
        positions[np.unique(np.linspace(0, len(positions) - 1, min(len(positions), most)).round().astype(int))]
    )


def _told(model: Parts, rows: Positions, partners: Positions) -> Floats:
    """Return what the model says of these rows at some columns, less what slopes on their features say."""
    assert model.posterior is not None
    i, j = np.repeat(rows, len(partners)), np.tile(partners, len(rows))
    mean = model.posterior.moments_of_draws(i, j)[0].reshape(len(rows), len(partners))
    linear, known = model.linear, model.knowledge[0]
    if linear is None or known is None:
        return mean
    fixed = fixed_entries(model)
    return np.asarray(mean - linear.rows[rows][:, fixed].astype(np.float64) @ linear.cols[partners][:, fixed].T)


def _apart(model: Parts, rows: Positions, partners: Positions) -> float:
    """Return the variance over draws of rows that have labels by their features alone, the mean over some columns."""
    known, random = model.knowledge[0], np.random.default_rng(0)
    assert known is not None
    priors, values = label_priors(model, known.traits(rows)), []
    for d, codes in enumerate(model.codes):
        logs, total = priors.logs(codes, model.sums.label_priors[d][1]), np.zeros((len(rows), len(partners)))
        for s, ends in enumerate(np.split(np.arange(logs.shape[1]), np.cumsum(codes.heights)[:-1])):
            p = np.cumsum(np.exp(logs[:, ends]), axis=1)
            labels = (random.random((len(rows), 1)) * p[:, -1:] > p).sum(axis=1)
            total += codes.template(s)[labels][:, codes.cols[partners, s]]
        values.append(total)
    return float(np.var(values, axis=0).mean())
