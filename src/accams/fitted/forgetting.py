"""Forget a user: take the id, labels, noise, probes and interactions out of a model."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from accams.data.ids import Index
from accams.fitted.parts import Parts
from accams.fitted.placing import sum_without, without_row
from accams.use.ids import as_ids, known

P = TypeVar("P", bound=Parts)


def forgotten(model: P, user: Any) -> P:
    """Return a model without one user."""
    row = int(known(model.row_index, as_ids([user]), "user")[0])
    known_of = model.knowledge[0]
    posterior, seen, active = model.posterior, model.interactions, model.activity
    return replace(
        model,
        stencils=sum_without(model.stencils, row),
        posterior=None if posterior is None else without_row(posterior, model.unseen, row),
        row_index=Index(np.delete(model.row_index.ids, row)),
        spread=None if model.spread is None else model.spread.without(row),
        activity=None if active is None else (np.delete(active[0], row), active[1]),
        interactions=None if seen is None else seen.without(row),
        knowledge=(None if known_of is None else known_of.without(row), model.knowledge[1]),
    )
