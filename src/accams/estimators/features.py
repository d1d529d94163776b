"""From tables of features to what a fit needs of them: more ids, and numbers for every user and item."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.features import NOUNS, FeatureTable, grown
from accams.data.inputs import pair_names
from accams.data.observations import Observations
from accams.errors import InputError, warn
from accams.fitted.placing import extended
from accams.model.features import Encoder
from accams.model.knowledge import Knowledge

Floats = NDArray[np.float64]
Known = tuple[Knowledge | None, Knowledge | None]


def with_features(
    observations: Observations, X: Any, y: Any, user_features: Any, item_features: Any
) -> tuple[Observations, Known]:
    """Return observations that have the ids of the tables too, and what the tables say of users and of items.

    Ids without ratings are new users and items. Those of a store are left as they are: its files cannot grow.
    """
    names, known = pair_names(X, y), list[Knowledge | None]()
    for axis, frame in enumerate((user_features, item_features)):
        if frame is None:
            known.append(None)
            continue
        if observations.blank_weight is not None:
            raise InputError("features need missing cells: with observed zeros there are none")
        table = FeatureTable.of(frame, axis, None if names is None else str(names[axis]))
        index = (observations.row_index, observations.col_index)[axis]
        table = table.named_as(index, axis)
        lines = table.positions(index, axis)
        encoder = Encoder.learned(table)
        if observations.store is None:
            index, lines = extended(index, table.ids)
            observations = grown(observations, axis, index)
        elif (lines < 0).any():
            warn(f"{int((lines < 0).sum()):,} {NOUNS[axis]}s of the features have no ratings, and are left out")
            table, lines = table.only(lines >= 0), lines[lines >= 0]
        known.append(Knowledge.of(encoder, table, lines, len(index)))
    return observations, (known[0], known[1])


def features_of(known: Known) -> tuple[Floats | None, Floats | None]:
    """Return what slopes are on, of users and of items."""
    users, items = (None if each is None else each.features() for each in known)
    return users, items
