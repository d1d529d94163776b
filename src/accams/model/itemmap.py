"""ItemMap: which items go with which, as a stencil sum or as a dense matrix.

Scores of somebody with the history x, one weight for each item, are x B: entry B[i, j] says how much having chosen i
speaks for j. Its diagonal is zero. A stencil sum holds the map with line i multiplied by `scales[i]`, about the root of
how often the item was chosen (`accams.fit.itemmap`).
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.feedback import Feedback
from accams.model import container
from accams.model.coding import decode_ints, encode_ints
from accams.model.container import Tensors
from accams.model.file import pack_sum, unpack_sum
from accams.model.stencils import Stencil, StencilSum
from accams.settings.common import FEEDBACK

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
FINE, COARSE = 8, 2  # steps of a factor of two: of how often an item was chosen, and of its scale
GROUP, MOST_GROUPS = 250, 8  # items in a group whose labels are coded alike, at least, and groups
NOBODY, MOST_LEVEL = -512, 512  # levels of an item that nobody chose, and of one chosen more often than any
MOST_USERS = 1 << 48
SUM = "sum."  # before the names of tensors of the stencil sum


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Which items go with which.

    Attributes
    ----------
    stencils : StencilSum or None
        The map with each line multiplied by its scale.
    dense : array (n, n) or None
        The map itself, in place of a stencil sum.
    levels : array of int
        How often each item was chosen, as logarithms in steps of 2^(1/8); -512 for an item that nobody chose.
    penalty : float
        Ridge penalty lambda of the regression that the map solves.
    n_users : int
        Users whose choices it was learned from.
    feedback : Feedback
        How values of a history become weights.
    dropout : float
        Dropout of that regression.

    Examples
    --------
    >>> import pandas as pd
    >>> from accams import ItemACCAMS
    >>> people, goods = ["ann", "ann", "bob", "bob", "cid"], ["tea", "milk", "tea", "milk", "rum"]
    >>> likes = pd.DataFrame({"user": people, "item": goods})
    >>> model = ItemACCAMS(penalty=1.0, verbose=False).fit(likes).model_
    >>> milk, rum, tea = range(3)  # positions, by the order of the ids
    >>> model.item_map.size, bool(model.item_map.to_dense()[tea, milk] > 0.1)
    (3, True)
    """

    stencils: StencilSum | None
    dense: NDArray[np.float32] | None
    levels: Positions
    penalty: float
    n_users: int
    feedback: Feedback
    dropout: float = 0.0

    @classmethod
    def empty(cls, masses: Floats, penalty: float, n_users: int, feedback: Feedback, dropout: float = 0.0) -> Self:
        """Return a map without content, for items chosen so often: `masses` are sums of squared weights.

        Parameters
        ----------
        masses : array of float
        penalty : float
        n_users : int
        feedback : Feedback
        dropout : float, default 0.0

        Returns
        -------
        ItemMap
        """
        return cls(None, None, levels_of(masses), penalty, n_users, feedback, dropout)

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.levels)

    @property
    def popularity(self) -> Floats:
        """About the share of users who chose each item."""
        return masses_at(self.levels) / max(self.n_users, 1)

    @property
    def scales(self) -> Floats:
        """Numbers by which lines of the stencil sum have to be divided."""
        return scales_of(self.levels, self.penalty)

    @property
    def chosen(self) -> Positions:
        """Items that somebody chose."""
        return np.flatnonzero(self.levels > NOBODY)

    def grown(self, size: int) -> "ItemMap":
        """Return a map of `size` items, of which nobody has chosen the new ones: they say nothing.

        Parameters
        ----------
        size : int
            At least as many items as there are.

        Returns
        -------
        ItemMap
        """
        new = size - self.size
        if not new:
            return self
        levels, stencils, dense = np.append(self.levels, np.full(new, NOBODY)), self.stencils, self.dense
        if dense is not None:
            dense = np.pad(dense, (0, new))
        if stencils is not None:
            parts = tuple(_with_silent(s, new) for s in stencils.stencils)
            stencils = replace(stencils, shape=(size, size), stencils=parts)
        return replace(self, levels=levels, stencils=stencils, dense=dense)

    def __str__(self) -> str:
        return "an item map" if self.stencils is None else f"an item map of {len(self.stencils)} stencils"

    def entries(self, i: Positions, j: Positions) -> Floats:
        """Return entries of the map; those on the diagonal and in lines of items that nobody chose are zero.

        Parameters
        ----------
        i, j : array of int
            Positions of items: of those that were chosen, and of those that they speak for.

        Returns
        -------
        array of float
        """
        if self.dense is not None:
            found = self.dense[i, j].astype(np.float64)
        elif self.stencils is not None:
            found = self.stencils.codes.predict(i, j) / self.scales[i]
        else:
            found = np.zeros(len(i))
        return np.where((self.levels[i] > NOBODY) & (i != j), found, 0.0)

    def to_dense(self) -> Floats:
        """Return the whole map."""
        each = np.arange(self.size)
        i, j = (x.ravel() for x in np.meshgrid(each, each, indexing="ij"))
        return self.entries(i, j).reshape(self.size, self.size)


def _with_silent(stencil: Stencil, new: int) -> Stencil:
    """Return a stencil with new rows and columns, in those clusters that add least to anything."""
    squares = np.square(stencil.template.astype(np.float64))
    labels = [
        np.append(old, np.full(new, np.argmin(squares.sum(axis=1 - axis)), old.dtype))
        for axis, old in enumerate((stencil.row_labels, stencil.col_labels))
    ]
    return replace(stencil, row_labels=labels[0], col_labels=labels[1])


def levels_of(masses: Floats) -> Positions:
    """Return how often items were chosen, rounded as `ItemMap.levels` holds it."""
    logs = np.rint(FINE * np.log2(np.where(masses > 0.0, masses, 1.0)))
    return np.where(masses > 0.0, np.clip(logs, NOBODY + 1, MOST_LEVEL), NOBODY).astype(np.int64)


def masses_at(levels: Positions) -> Floats:
    """Undo `levels_of`, up to rounding."""
    return np.where(levels > NOBODY, 2.0 ** (levels / FINE), 0.0)


def scales_of(levels: Positions, penalty: float) -> Floats:
    """Return the scales of lines: roots of masses plus penalty, in half octaves."""
    return np.exp2(np.rint(COARSE * 0.5 * np.log2(masses_at(levels) + penalty)) / COARSE)


def groups_of(levels: Positions) -> list[Positions]:
    """Return items in groups of about equal size, the least popular first.

    Popular items have other labels than rare ones: files hold the frequencies of labels for each group, in fewer bits.
    """
    number = int(np.clip(len(levels) // GROUP, 1, MOST_GROUPS))
    return [np.sort(x) for x in np.array_split(np.argsort(levels, kind="stable"), number)]


def sum_bytes(stencils: StencilSum, levels: Positions) -> int:
    """Return about how many bytes of a file a stencil sum takes as an item map."""
    fields, tensors = pack_sum(stencils, "auto", groups_of(levels))
    return len(container.to_bytes({"kind": "model", "format": 1, "shape": stencils.shape, **fields}, tensors))


def pack(item_map: ItemMap, coding: str, templates: str | float) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold a map."""
    rule = item_map.feedback
    fields: dict[str, Any] = {
        "penalty": item_map.penalty,
        "dropout": item_map.dropout,
        "users": item_map.n_users,
        "feedback": [rule.kind, rule.liked_from, rule.seen_weight, rule.unit],
        "sum": None,
    }
    tensors: Tensors = {"levels": encode_ints(item_map.levels)}
    if item_map.stencils is not None:
        one = item_map.stencils if templates == "float32" else item_map.stencils.rounded(templates)
        fields["sum"], inner = pack_sum(one, coding, groups_of(item_map.levels))
        tensors |= {SUM + name: x for name, x in inner.items()}
    if item_map.dense is not None:
        tensors["dense"] = item_map.dense
    return fields, tensors


def unpack(fields: dict[str, Any], tensors: Tensors, size: int) -> ItemMap:
    """Undo `pack`; raise ValueError for what cannot be a map."""
    levels = decode_ints(tensors["levels"], size)
    if len(levels) and not NOBODY <= int(levels.min()) <= int(levels.max()) <= MOST_LEVEL:
        raise ValueError("it cannot be how often items were chosen")
    stencils, dense = None, tensors.get("dense")
    if fields["sum"] is not None:
        inner = {name.removeprefix(SUM): x for name, x in tensors.items() if name.startswith(SUM)}
        stencils = unpack_sum(fields["sum"], inner, (size, size), groups_of(levels))
        effects = stencils.row_effects is not None or stencils.col_effects is not None
        if stencils.offset or effects or len(stencils.unseen_rows) or len(stencils.unseen_cols):
            raise ValueError("its map is no plain sum of stencils")
    if (dense is None) == (stencils is None):
        raise ValueError("it has no item map, or two")
    if dense is not None and (dense.shape != (size, size) or dense.dtype != np.float32):
        raise ValueError("its map has a wrong shape or type")
    if dense is not None and not np.isfinite(dense).all():
        raise ValueError("its map has entries that are not finite")
    penalty, users = float(fields["penalty"]), int(fields["users"])
    dropout = float(fields.get("dropout", 0.0))
    if penalty <= 0.0 or users > MOST_USERS or dropout >= 1.0:
        raise ValueError("its map was not learned from such numbers")
    kind, *numbers = fields["feedback"]
    liked_from, seen_weight, unit = map(float, numbers)
    if (
        kind not in FEEDBACK
        or not np.isfinite([liked_from, seen_weight, unit]).all()
        or seen_weight < 0.0
        or unit <= 0.0
    ):
        raise ValueError("its feedback is of an unknown kind")
    rule = Feedback(kind, liked_from, seen_weight, unit)
    return ItemMap(stencils, dense, levels, penalty, users, rule, dropout)
