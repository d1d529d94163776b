"""What a model expects of new rows by their features alone, before any rating: their labels and their slopes."""

import numpy as np
from numpy.typing import NDArray

from accams.fitted.parts import Parts
from accams.use.explain import Traits
from accams.use.fold import Expected
from accams.use.scoring import Floats, Positions
from accams.use.traits import MOST_LINES, LabelPriors, Regression, with_constant

NAMED, LEAST = 2, 0.03  # traits that are told of a label, which add so much to its probability


def expected_of(model: Parts, traits: Floats) -> Expected:
    """Return what is expected of new rows with these standardised traits (NaN in a row: nothing is known of it)."""
    known, priors = model.knowledge[0], label_priors(model, traits)
    assert known is not None
    if model.linear is None:
        none = np.zeros((len(traits), 0))
        return Expected(priors, none, none.astype(np.bool_))
    given = np.asarray(np.isfinite(traits).all(axis=1))
    regression, rows = priors.regression, priors.rows
    coefficients = regression.solution @ model.linear.rows[rows].astype(np.float64)
    lines = with_constant(np.nan_to_num(traits)) @ coefficients
    fixed = fixed_entries(model)
    if fixed.any():
        lines[:, fixed] = known.encoder.projected(np.nan_to_num(traits))
    return Expected(priors, np.where(given[:, None], lines, model.linear.rows[-1]), given[:, None] & fixed)


def speaking_traits(model: Parts, row: int, col: int, own: Floats | None = None) -> Traits:
    """Return a function that tells which features of a row or a column without ratings speak for a label.

    `own` are the standardised traits of a new row (-1), None if it has none.
    """
    both = own if row < 0 else _of_silent(model, 0, row), _of_silent(model, 1, col)

    def told(side: int, stencil: int, label: int) -> tuple[str, ...]:
        known, traits = model.knowledge[side], both[side]
        if known is None or traits is None:
            return ()
        codes, (regression, lines) = model.explainer.stencils.codes, regression_of(model, side)
        members = (codes.rows, codes.cols)[side][lines, stencil] == label
        added = np.where(traits > 0.0, regression.solution[1:] @ members * traits, 0.0)
        best = np.argsort(-added, kind="stable")[:NAMED].tolist()
        return tuple(dict.fromkeys(known.encoder.said(traits, t) for t in best if added[t] > LEAST))

    return told


def _of_silent(model: Parts, axis: int, line: int) -> Floats | None:
    """Return the standardised traits of a row or a column without ratings; None where it has any, or no features."""
    known, active = model.knowledge[axis], model.activity
    if known is None or active is None or active[axis][line] > 1.0:
        return None
    return np.asarray(known.traits(np.array([line]))[0])


def regression_of(model: Parts, axis: int = 0) -> tuple[Regression, Positions]:
    """Return the regression on the features of rows (columns), and the rows that it is on."""
    key = "regression", axis
    if key not in model._kept:
        model._kept[key] = _regression_of(model, axis)
    return model._kept[key]  # type: ignore[no-any-return]


def _regression_of(model: Parts, axis: int) -> tuple[Regression, Positions]:
    known, active = model.knowledge[axis], model.activity
    assert known is not None
    counts = np.ones(model.shape[axis]) if active is None else active[axis] - 1.0
    given = known.given[: model.shape[axis]]  # there may be more that the model is about to take in
    rows = np.setdiff1d(np.flatnonzero(given & (counts > 0.0)), model.unseen[axis])
    if len(rows) > MOST_LINES:
        rows = rows[np.linspace(0, len(rows) - 1, MOST_LINES).round().astype(int)]
    return Regression(known.traits(rows), counts[rows] ** known.power, known.penalty), rows


def label_priors(model: Parts, traits: Floats) -> LabelPriors:
    """Return the label priors of new rows with these traits."""
    return LabelPriors(*regression_of(model), traits)


def fixed_entries(model: Parts) -> NDArray[np.bool_]:
    """Return which entries of a row of the linear part are features that a table gives: the last ones."""
    linear = model.linear
    assert linear is not None
    d = linear.rows.shape[1]
    return np.asarray(np.arange(d) >= d - linear.given[0])
