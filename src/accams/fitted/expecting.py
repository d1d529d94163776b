"""What a model expects of new rows by their features alone, before any rating: their labels and their slopes."""

import numpy as np
from numpy.typing import NDArray

from accams.fitted.parts import Parts
from accams.use.fold import Expected
from accams.use.scoring import Floats, Positions
from accams.use.traits import MOST_LINES, LabelPriors, Regression, with_constant


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
    return Expected(priors, np.where(given[:, None], lines, 0.0), given[:, None] & fixed)


def regression_of(model: Parts) -> tuple[Regression, Positions]:
    """Return the regression on the features of rows, and the rows that it is on."""
    if "regression" not in model._kept:
        model._kept["regression"] = _regression_of(model)
    return model._kept["regression"]  # type: ignore[no-any-return]


def _regression_of(model: Parts) -> tuple[Regression, Positions]:
    known, active = model.knowledge[0], model.activity
    assert known is not None
    counts = np.ones(model.shape[0]) if active is None else active[0] - 1.0
    given = known.given[: model.shape[0]]  # there may be more that the model is about to take in
    rows = np.setdiff1d(np.flatnonzero(given & (counts > 0.0)), model.unseen[0])
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
