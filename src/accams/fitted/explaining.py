"""Explain predictions and grow the tree of items, by raw ids."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accams.errors import InputError
from accams.fitted.expecting import speaking_traits
from accams.fitted.parts import Parts
from accams.fitted.ranking import NOUNS, axis_of
from accams.model.codes import Codes
from accams.settings.kinds import Integer
from accams.use.clusters import group_traits
from accams.use.explain import Explanation, explain
from accams.use.hierarchy import Node, Tree, telling
from accams.use.ids import as_ids, known
from accams.use.records import ClusterTrait, Records
from accams.use.scoring import Floats, Positions

Keep = Callable[[list[Any]], Sequence[Any]]


def explanation(model: Parts, user: Any, item: Any) -> Explanation:
    """Take the prediction of one known user and item apart."""
    i, j = known(model.row_index, as_ids([user]), NOUNS[0]), known(model.col_index, as_ids([item]), NOUNS[1])
    mean = model.moments(i, j)[0]
    values = float(mean[0]), float(model.clipped(mean)[0])
    many = model.posterior is not None
    row, col = int(i[0]), int(j[0])
    traits = speaking_traits(model, row, col)
    return explain(model.explainer.members, row, col, (user, item), *values, many, traits=traits)


def cluster_traits(model: Parts, side: str, stencil: int, n: int) -> Records[ClusterTrait]:
    """Tell the features that members of the clusters of a stencil have in common."""
    axis = axis_of(side)
    Integer(1).check("n", n)
    told_of, small = model.knowledge[axis], model.explainer
    if told_of is None:
        raise InputError(f"the model knows no features of {side}: fit it with {NOUNS[axis]}_features")
    if not isinstance(stencil, (int, np.integer)) or not 0 <= stencil < len(small.stencils):
        raise InputError(f"stencil must be an integer from 0 to {len(small.stencils) - 1}, not {stencil!r}")
    codes, lines = small.stencils.codes, small.with_data(axis)
    labels = (codes.rows, codes.cols)[axis][lines, stencil].astype(np.int64)
    return group_traits(told_of, lines, labels, codes.template(stencil).shape[axis] - 1, n)


def hierarchy(
    model: Parts, depth: int, side: str, branches: int | None, least: int | None, members: int, candidates: Any,
    stencils: Any, keep: Keep | None,
) -> Node:  # fmt: skip
    """Grow the tree of items or users."""
    for name, value in (("depth", depth), ("branches", branches), ("least", least), ("members", members)):
        if value is not None or name in ("depth", "members"):
            Integer(1).check(name, value)
    axis = axis_of(side)
    codes, weights, inside = _labelled(model, axis)
    index = model.indices[axis]
    if candidates is not None:
        inside = np.intersect1d(known(index, as_ids(candidates), NOUNS[axis]), inside)
    order = telling(codes, axis) if stencils is None else np.asarray(stencils, np.int64)
    if order.ndim != 1 or (len(order) and not (order.min() >= 0 and order.max() < len(codes.starts))):
        allowed = f"numbers between 0 and {len(codes.starts) - 1}" if len(codes.starts) else "none: there are none"
        raise InputError(f"stencils must be {allowed}, not {stencils!r}")
    least = max(2, round(0.01 * len(inside))) if least is None else least
    tree = Tree(codes, index, axis, weights, members, branches, least, keep)
    return tree.grow(order[:depth].tolist(), inside)


def _labelled(model: Parts, axis: int) -> tuple[Codes, Floats, Positions]:
    """Return the stencils that split users or items, how prominent each of those is, and which have data."""
    item_map = model.item_map
    if axis == 1 and item_map is not None:
        if item_map.stencils is None:
            raise InputError("a tree follows labels, and this model holds the whole item map: fit it with max_bytes")
        return item_map.stencils.codes, item_map.popularity, item_map.chosen
    if not model.predicts:
        raise InputError("this model makes lists from histories: it has no labels of users")
    small = model.explainer
    return small.stencils.codes, small.members.weights[axis], small.with_data(axis)
