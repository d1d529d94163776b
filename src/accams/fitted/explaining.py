"""Explain predictions and grow the tree of items, by raw ids."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accams.errors import InputError
from accams.fitted.parts import Parts
from accams.fitted.ranking import NOUNS, axis_of
from accams.settings.kinds import Integer
from accams.use.explain import Explanation, explain
from accams.use.hierarchy import Node, Tree, telling
from accams.use.ids import as_ids, known

Keep = Callable[[list[Any]], Sequence[Any]]


def explanation(model: Parts, user: Any, item: Any) -> Explanation:
    """Take the prediction of one known user and item apart."""
    i, j = known(model.row_index, as_ids([user]), NOUNS[0]), known(model.col_index, as_ids([item]), NOUNS[1])
    mean = model.moments(i, j)[0]
    values = float(mean[0]), float(model.clipped(mean)[0])
    many = model.posterior is not None
    return explain(model.explainer.members, int(i[0]), int(j[0]), (user, item), *values, many)


def hierarchy(
    model: Parts, depth: int, side: str, branches: int | None, least: int | None, members: int, candidates: Any,
    stencils: Any, keep: Keep | None,
) -> Node:  # fmt: skip
    """Grow the tree of items or users."""
    for name, value in (("depth", depth), ("branches", branches), ("least", least), ("members", members)):
        if value is not None or name in ("depth", "members"):
            Integer(1).check(name, value)
    axis, small = axis_of(side), model.explainer
    codes, index = small.stencils.codes, small.indices[axis]
    inside = np.arange(len(index)) if candidates is None else known(index, as_ids(candidates), NOUNS[axis])
    inside = np.setdiff1d(inside, small.unseen[axis])
    order = telling(codes, axis) if stencils is None else np.asarray(stencils, np.int64)
    if order.ndim != 1 or (len(order) and not (order.min() >= 0 and order.max() < len(codes.starts))):
        allowed = f"numbers between 0 and {len(codes.starts) - 1}" if len(codes.starts) else "none: there are none"
        raise InputError(f"stencils must be {allowed}, not {stencils!r}")
    least = max(2, round(0.01 * len(inside))) if least is None else least
    tree = Tree(codes, index, axis, small.members.weights[axis], members, branches, least, keep)
    return tree.grow(order[:depth].tolist(), inside)
