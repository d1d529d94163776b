"""Users and items that a model knows by their features: how much these tell, and places for those without ratings."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from accams.data.features import FeatureTable
from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError
from accams.fit.noise import noise_of
from accams.fitted.expecting import fixed_entries, label_priors, regression_of
from accams.fitted.folding import UNTOLD
from accams.fitted.parts import Parts
from accams.fitted.placing import Seen, extended, folded_into, put
from accams.model.interactions import Interactions
from accams.threads import SINGLE_BLAS
from accams.use.scoring import Floats, Positions
from accams.use.traits import Regression

P = TypeVar("P", bound=Parts)
Rated = tuple[Positions, Positions, Floats, Floats]
PENALTIES = 10.0 ** np.arange(-1.0, 5.1, 0.5)  # of the regression, relative to the mean weight of a row,
POWERS = 0.0, 0.5, 1.0  # which is one of these of its number of ratings
SURE = 2.0  # standard errors by which features must be better than none
DRAWS = 32  # by which the regression is judged,
LINES, PARTNERS = 4_000, 256  # at cells of so many rows with so many columns, or more of these where rows are few
LABELLED = 200  # rows whose labels are drawn by their features, to see how far draws are apart then


def informed(model: P, observations: Observations, random_state: Any, sampled: bool) -> P:
    """Return a model of these observations whose users and items without any are placed by their features.

    A `sampled` noise is that of an observation of weight one, another one that of mean weight.
    """
    with SINGLE_BLAS:
        for axis in (1, 0):
            if model.knowledge[axis] is not None:
                model = calibrated(model, axis, observations, sampled)
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
        raise InputError(UNTOLD.format(f"{noun}s", f"{noun}_features"))
    table = FeatureTable.of(frame, axis, model.id_names[axis]).named_as(model.indices[axis], axis)
    index, lines = extended(model.indices[axis], table.ids)
    active = model.activity
    # placed by features before, or never
    silent = np.isin(np.arange(model.shape[axis]), model.unseen[axis]) if active is None else active[axis] <= 1.0
    known = known.put(lines, len(index), table)
    model = replace(model, knowledge=put(model.knowledge, axis, known))
    again = lines[(lines >= len(silent)) | silent[np.minimum(lines, max(len(silent) - 1, 0))]]
    with SINGLE_BLAS:
        return _grown(_placed(model, axis, index, np.sort(again), random_state), axis)


def calibrated(model: P, axis: int, observations: Observations, sampled: bool = False) -> P:
    """Return a model with the penalty of the regression on features, and the spread of what it does not tell.

    Both come from known rows as if they were new: each is predicted by the features of all others, and compared with
    its ratings. The spread is such that intervals hold as many of them as they should.
    """
    thin, known = model.thin(DRAWS), model.knowledge[axis]
    assert known is not None
    turned = thin if axis == 0 else thin.transposed
    regression, rows = regression_of(turned)
    posterior = turned.posterior
    if len(rows) < 2 or posterior is None:
        return model
    some, random = _evenly(np.arange(len(rows)), LINES), np.random.default_rng(0)
    partners, most = np.flatnonzero(observations.counts(1 - axis)), LINES * PARTNERS // len(some)
    partners = np.sort(random.choice(partners, min(len(partners), most), replace=False))
    means, fixed = _told(turned, rows[some], partners)
    i, j, values, weights = _rated(observations, axis, rows[some], partners)
    if not len(values):
        return model
    if not sampled:
        weights = weights * (observations.nnz / observations.total_weight())
    parts = list[Regression]()
    for power in POWERS:
        counted = regression_of(replace(turned, knowledge=(replace(known, power=power), None)))[0].weights[some]
        parts.append(Regression(regression.traits[some], counted, 0.0))
    rest = model.latent(values) - fixed[i, j]
    chosen, relative = _choice(parts, means, (i, j, rest, weights))
    penalty = relative * float(parts[chosen].weights.mean())
    left_out = means - next(parts[chosen].left_out_errors(means, np.array([penalty]))) + fixed
    known = replace(known, power=POWERS[chosen], penalty=penalty * len(rows) / len(some))
    turned = replace(turned, knowledge=(known, None))
    users = partners[j] if axis == 1 else np.full(len(j), -1)
    apart = _apart(turned, _evenly(rows, LABELLED), _evenly(partners, PARTNERS))
    variance = apart + model.row_noise(users) / weights
    if turned.linear is not None:
        variance = variance + turned.linear.variances_of_new(rows[some][i], partners[j])
    if posterior.effects is not None:
        variance = variance + posterior.effects.spread_of(1, partners[j])
    means = left_out[i, j]
    more = noise_of(values, values - means, variance, np.ones(len(values)), True, model.scale)
    return replace(model, knowledge=put(model.knowledge, axis, replace(known, spread=more**2)))


def _choice(parts: list[Regression], means: Floats, rated: Rated) -> tuple[int, float]:
    """Return which regression predicts the ratings of rows that it leaves out best, and with which penalty.

    With few ratings the best one says little: it must be better than the strongest penalty, with which features tell
    next to nothing. `rated` are row, column and what is to be predicted by `means` (row, column), and the weight
    of each rating.
    """
    (i, j, rest, weights), losses, chosen = rated, list[Floats](), list[tuple[int, float]]()
    for number, part in enumerate(parts):
        relative = PENALTIES * part.weights.mean()
        for penalty, errors in zip(PENALTIES.tolist(), part.left_out_errors(means, relative), strict=True):
            square = weights * np.square(rest - (means[i, j] - errors[i, j]))
            by_row = np.bincount(i, square, len(means))  # since ratings of a row depend on each other
            losses.append(by_row.astype(np.float64))
            chosen.append((number, penalty))
    total = [float(x.sum()) for x in losses]
    none = min((p for p, (_, penalty) in enumerate(chosen) if penalty == PENALTIES[-1]), key=total.__getitem__)
    best = min(range(len(total)), key=total.__getitem__)
    gain = losses[none] - losses[best]
    return chosen[best if gain.sum() > SURE * np.sqrt(np.square(gain).sum()) else none]


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


def _told(model: Parts, rows: Positions, partners: Positions) -> tuple[Floats, Floats]:
    """Return what the model says of these rows at some columns, in two parts: the second is that of their features."""
    assert model.posterior is not None
    i, j, shape = np.repeat(rows, len(partners)), np.tile(partners, len(rows)), (len(rows), len(partners))
    means = model.posterior.moments_of_draws(i, j)[0].reshape(shape)
    linear, of_features = model.linear, np.zeros(shape)
    if linear is not None:
        fixed = fixed_entries(model)
        of_features = linear.rows[rows][:, fixed].astype(np.float64) @ linear.cols[partners][:, fixed].T
    return means - of_features, of_features


def _rated(observations: Observations, axis: int, rows: Positions, partners: Positions) -> Rated:
    """Return the observations of these rows (columns) at some partners: places among both, values, and weights."""
    users, items = (rows, partners) if axis == 0 else (partners, rows)
    place = np.full(observations.shape[1], -1)
    place[items] = np.arange(len(items))
    starts = np.asarray(observations.row_starts)
    cells = [
        starts[user] + np.flatnonzero(place[observations.cols[starts[user] : starts[user + 1]]] >= 0) for user in users
    ]
    i, inside = np.repeat(np.arange(len(users)), list(map(len, cells))), np.concatenate([starts[:0], *cells])
    j, values = place[observations.cols[inside]], observations.stored_values[inside].astype(np.float64)
    weights = np.ones(len(values))
    if observations.stored_weights is not None:
        weights = observations.stored_weights[inside] * observations.weight_step
    observations.release_pages()
    return (i, j, values, weights) if axis == 0 else (j, i, values, weights)


def _apart(model: Parts, rows: Positions, partners: Positions) -> float:
    """Return the variance over draws of rows that have labels by their features alone, the mean over some columns."""
    known, random = model.knowledge[0], np.random.default_rng(0)
    assert known is not None
    priors, values = label_priors(model, known.traits(rows)), []
    for d, codes in enumerate(model.codes):
        logs, total = priors.logs(codes, model.sums.label_priors[d][1]), np.zeros((len(rows), len(partners)))
        begins = np.cumsum(codes.heights) - codes.heights
        for s, (first, height) in enumerate(zip(begins.tolist(), codes.heights.tolist(), strict=True)):
            p = np.cumsum(np.exp(logs[:, first : first + height]), axis=1)
            labels = (random.random((len(rows), 1)) * p[:, -1:] > p).sum(axis=1)
            total += codes.template(s)[labels][:, codes.cols[partners, s]]
        values.append(total)
    return float(np.var(values, axis=0).mean())
