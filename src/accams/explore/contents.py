"""What answers about a model are made of: references to items, blocks, the tree, and places on the map."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import parsed
from accams.errors import InputError, UnknownIdError
from accams.explore.clusters import Clusters
from accams.fitted.model import Model
from accams.fitted.ranking import NOUNS
from accams.use.explain import MEMBERS
from accams.use.hierarchy import Node
from accams.use.ids import as_ids, known
from accams.use.places import places
from accams.use.scoring import Positions
from accams.use.search import Search

Json = dict[str, Any]
EXACT = 1 << 53  # integers of JavaScript are exact below
LIKED_BY = 5  # clusters of users that are named with an item
MOST_SEEN = 200  # items of a user's history that are named
MAP_MEMBERS = 3  # items that name a branch on the map
SMALL = 0.01  # share of the users below which a cluster is named after larger ones: it says little
DIGITS = 9  # to which numbers are compared, so that rounding errors decide no order
PLACES = 4  # digits of the coordinates of the map
VERSION_DIGITS = 12  # of the digest of a model's file


class Contents:
    """What `accams.explore.Explorer`, which documents the parameters, makes its answers of."""

    def __init__(
        self, model: Model, titles: Mapping[Any, str] | None = None, name: str = "model", version: str = "",
        size: int | None = None,
    ) -> None:  # fmt: skip
        self.source, self.titles, self.name, self.version = model, dict(titles or {}), name, version
        self._size = size
        self._blocks = dict[tuple[int, int, int], Json]()  # one for each cluster, at most
        self._first = dict[tuple[int, int, int], tuple[list[int], list[Json]]]()

    @property
    def head(self) -> Json:
        """What every answer begins with: name and version of the model."""
        return {"model": self.name, "version": self.version}

    @cached_property
    def clusters(self) -> Clusters:
        """Clusters of the single sum."""
        return Clusters(self.source.explainer)

    def position(self, side: int, which: Any) -> int:
        """Return the position of a user (side 0) or an item (side 1) by id, or by the id as text.

        Parameters
        ----------
        side : {0, 1}
        which : id, or id as text

        Returns
        -------
        int
        """
        index = self.source.indices[side]
        found = index.place(which)
        if found < 0:
            asked = parsed(which) if isinstance(which, str) and index.ids.dtype.kind == "i" else which
            known(index, as_ids([asked]), NOUNS[side])  # raises, with the nearest ids
            raise UnknownIdError(f"there is no {NOUNS[side]} {which!r} in this model")
        return found

    def ref(self, position: int) -> Json:
        """Return the id and the title of an item.

        Parameters
        ----------
        position : int

        Returns
        -------
        dict
        """
        item = self._items[position]
        return {"item": plain(item), "title": self.titles.get(item)}

    def refs(self, positions: Iterable[int]) -> list[Json]:
        """Return the ids and the titles of items.

        Parameters
        ----------
        positions : iterable of int

        Returns
        -------
        list of dict
        """
        return [self.ref(p) for p in positions]

    @cached_property
    def _items(self) -> list[Any]:
        """Ids of all items, as values of plain Python: looking up one in an array takes longer."""
        return list(self.source.items.tolist())

    def item_block(self, stencil: int, label: int, itself: int = -1) -> Json:
        """Return a cluster of items; position `itself` is counted but not named.

        Parameters
        ----------
        stencil, label : int
        itself : int, default -1

        Returns
        -------
        dict
        """
        key = 1, stencil, label
        if key not in self._blocks:
            first = self.clusters.items(stencil, label)
            refs = self.refs(first)
            block = {"label": label, "size": self.clusters.size(1, stencil, label), "members": refs[:MEMBERS]}
            # In this order, since another thread may look for the block meanwhile.
            self._first[key], self._blocks[key] = (first, refs), block
        first, refs = self._first[key]
        if itself not in first:
            return self._blocks[key]
        others = [ref for p, ref in zip(first, refs, strict=True) if p != itself]
        return {**self._blocks[key], "members": others[:MEMBERS]}

    def user_block(self, stencil: int, label: int) -> Json:
        """Return a cluster of users, without their ids, and what they like.

        Parameters
        ----------
        stencil, label : int

        Returns
        -------
        dict
        """
        key = 0, stencil, label
        if key not in self._blocks:
            likes = self.refs(self.clusters.examples(stencil, label))
            self._blocks[key] = {"label": label, "size": self.clusters.size(0, stencil, label), "likes": likes}
        return self._blocks[key]

    def _answer(self, **content: Any) -> Json:
        return {**self.head, **content}

    def _ids(self, side: int, positions: Iterable[int] | Positions) -> list[Any]:
        found: NDArray[Any] = self.source.indices[side].ids[np.asarray(positions, np.int64)]
        return list(found.tolist())

    def _average(self, row: int, col: int) -> float | None:
        """Return the prediction for the average user, or the average item."""
        if not self.source.predicts:
            return None
        return float(self.source.clipped(self.source.moments(np.array([row]), np.array([col]))[0])[0])

    def _liked_by(self, labels: list[int]) -> list[Json]:
        """Return the clusters of users that like an item with these labels most, compared with the average user."""
        found, least = list[tuple[bool, float, int, int, float]](), SMALL * self.source.shape[0]
        for s, c in enumerate(labels):
            line = np.asarray(self.clusters.codes.template(s)[:, c], np.float64)
            sizes = self.clusters.sizes(0, s)[:-1]
            for a in np.flatnonzero(sizes).tolist():
                value = float(line[a] - line[-1])
                found.append((bool(sizes[a] < least), -round(value, DIGITS), s, a, value))
        best = sorted(found)[:LIKED_BY]
        return [{"stencil": s, "value": value, **self.user_block(s, a)} for *_, s, a, value in best]

    def _shape_of(self, s: int) -> Json:
        rows, cols = self.clusters.codes.template(s).shape
        return {"stencil": s, "rows": rows - 1, "cols": cols - 1, "contribution": self.clusters.contribution(s)}

    @cached_property
    def _grown(self) -> Model:
        """The model whose labels split items: a map that is held whole has none."""
        item_map = self.source.item_map
        whole = item_map is not None and item_map.stencils is None
        return replace(self.source.explainer, item_map=None) if whole and self.source.predicts else self.source

    def tree(self, side: str, depth: int, branches: int | None, members: int) -> Node:
        """Return the tree of items or users.

        Parameters
        ----------
        side : {"items", "users"}
        depth, branches, members
            As for `hierarchy`.

        Returns
        -------
        Node
        """
        return self._grown.hierarchy(depth, side, branches=branches, members=members)

    @cached_property
    def _items_tree(self) -> Node | None:
        """The tree of items that is shown unless another one is asked for; None where there are no labels."""
        try:
            return self.tree("items", 3, 3, 6)
        except InputError:
            return None

    def _node(self, node: Node, items: bool) -> Json:
        return {**self._branch(node, items), "children": [self._node(child, items) for child in node.children]}

    def _branch(self, node: Node, items: bool = True) -> Json:
        members: list[Json] = [{"user": plain(x)} for x in node.members]
        if items:
            members = [{"item": plain(x), "title": self.titles.get(x)} for x in node.members]
        return {"stencil": node.stencil, "labels": list(node.labels), "size": node.size, "members": members}

    @cached_property
    def _split(self) -> tuple[Any, Positions]:
        """The stencil sum that splits items, and the items with data."""
        model = self._grown
        if model.item_map is not None and model.item_map.stencils is not None:
            return model.item_map.stencils.codes, model.item_map.chosen
        return self.clusters.codes, self.clusters.model.with_data(1)

    def _path(self, p: int) -> list[Json]:
        """Return the branches of the tree in which an item is, from the root on."""
        node, (codes, items) = self._items_tree, self._split
        at = int(np.searchsorted(items, p))
        if node is None or at == len(items) or items[at] != p:
            return []
        path = [self._branch(node)]
        while True:
            inside = [child for child in node.children if codes.cols[p, child.stencil] in child.labels]
            if not inside:
                return path
            node = inside[0]
            path.append(self._branch(node))

    @cached_property
    def places(self) -> tuple[Positions, NDArray[np.float64], Positions, list[list[int]]]:
        """Items with data, their coordinates, their branches of the tree (-1: none), and the best known of each."""
        codes, items = self._split
        plane = places(codes, items).round(PLACES) + 0.0
        group, branches = np.full(len(items), -1), () if self._items_tree is None else self._items_tree.children
        for number, child in enumerate(branches):
            group[np.isin(codes.cols[items, child.stencil], child.labels)] = number
        order = np.argsort(-self.clusters.weights[1][items], kind="stable")
        best = [items[order[group[order] == number][:MAP_MEMBERS]].tolist() for number in range(len(branches))]
        return items, plane, group, best

    @cached_property
    def _search(self) -> Search:
        ids = [str(x) for x in self._items]
        titles = [self.titles.get(x, text) for x, text in zip(self._items, ids, strict=True)]
        return Search(titles, self.clusters.weights[1], ids)


def plain(name: Any) -> Any:
    """Return an id as JSON has it: an integer that JavaScript would round is text.

    Examples
    --------
    >>> plain(7), plain(2**53 + 1)
    (7, '9007199254740993')
    """
    return str(name) if isinstance(name, int) and abs(name) >= EXACT else name
