"""Explorer: a model's blocks, stencils, items, users, map and tree as dictionaries ready for JSON."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
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


class Explorer:
    """Answers about a model for people who look around in it.

    Blocks, stencils and clusters are those of the model's single sum: of a model with many draws, the small one that
    explains it, which takes some seconds the first time. Predictions are the model's own.

    Parameters
    ----------
    model : Model
    titles : mapping, optional
        Names of item ids.
    name : str, default "model"
        Name of the model in answers.
    version : str, default ""
        Version of the model in answers.
    size : int, optional
        Bytes of the model's file; computed where it is not given.

    Examples
    --------
    >>> from accams import ACCAMS
    >>> model = ACCAMS(n_stencils=1, n_clusters=2).fit(np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])).model_
    >>> explorer = Explorer(model, {0: "Heat"})
    >>> explorer.item("0")["title"], [block["size"] for block in explorer.item("0")["blocks"]]
    ('Heat', [2])
    """

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

    def prepare(self) -> None:
        """Compute all that answers are taken from, which takes a while, before anybody waits for it."""
        for what in (self.model, self.items, lambda: self.search("a"), lambda: self.clusters.weights):
            with suppress(InputError):  # of models without labels, or without items
                what()

    # -- answers ------------------------------------------------------------------------------------------

    def model(self) -> Json:
        """Return what the model is and what it can do."""
        model, (users, items) = self.source, self.source.shape
        posterior, values = model.posterior, model.value_range
        if self._size is None:
            self._size = model.file_size
        return self._answer(
            users=users,
            items=items,
            stencils=len(model.stencils),
            draws=None if posterior is None else len(posterior),
            bytes=self._size,
            estimator=model.info.estimator,
            predicts=model.predicts,
            lists=model.item_map is not None,
            spread=model.has_spread,
            history=model.interactions is not None,
            titles=bool(self.titles),
            values=list(values) if model.predicts and np.isfinite(values).all() else None,
            offset=model.stencils.offset,
            rmse=None if model.evaluation is None else model.evaluation.rmse,
            names=list(model.id_names),
            terms=len(self.clusters.codes.starts),
            like=self._like,
            features=[] if model.knowledge[0] is None else list(model.knowledge[0].kinds),
            named_users=users > 0,
        )

    @property
    def _like(self) -> float | None:
        """The value of a rating that says no more than that an item is liked, for lists without predicted values."""
        item_map = self.source.item_map
        if item_map is None:
            return None
        return float(item_map.feedback.liked_from) if item_map.feedback.kind == "ratings" else 1.0

    def item(self, item: Any) -> Json:
        """Return an item: its blocks, the users who like it most, and its place in the tree of items.

        Parameters
        ----------
        item : id, or id as text

        Returns
        -------
        dict
        """
        p = self.position(1, item)
        labels = self.clusters.labels(1, p)
        return self._answer(
            **self.ref(p),
            weight=float(self.clusters.weights[1][p]),
            average=self._average(-1, p),
            blocks=[{"stencil": s, **self.item_block(s, c, p)} for s, c in enumerate(labels)],
            liked_by=self._liked_by(labels),
            path=self._path(p),
        )

    def user(self, user: Any) -> Json:
        """Return a user: blocks, and what is known to have been seen.

        Parameters
        ----------
        user : id, or id as text

        Returns
        -------
        dict
        """
        p = self.position(0, user)
        seen = None if self.source.interactions is None else self.source.interactions.of(np.array([p]))[1]
        return self._answer(
            user=plain(self._ids(0, [p])[0]),
            weight=float(self.clusters.weights[0][p]),
            average=self._average(p, -1),
            blocks=[{"stencil": s, **self.user_block(s, a)} for s, a in enumerate(self.clusters.labels(0, p))],
            n_seen=None if seen is None else len(seen),
            seen=[] if seen is None else self.refs(np.sort(seen)[:MOST_SEEN].tolist()),
        )

    def stencils(self) -> Json:
        """Return the size of each stencil, and how much it contributes to predictions."""
        return self._answer(stencils=[self._shape_of(s) for s in range(len(self.clusters.codes.starts))])

    def stencil(self, stencil: Any) -> Json:
        """Return one stencil: its template, and the clusters of its rows and columns.

        Parameters
        ----------
        stencil : int, or text of one
            Counted from 0.

        Returns
        -------
        dict
        """
        number, s = len(self.clusters.codes.starts), parsed(str(stencil))
        if not isinstance(s, int) or not 0 <= s < number:
            there = f"they are numbered from 0 to {number - 1}" if number else "it has none"
            raise UnknownIdError(f"there is no stencil {stencil} in this model: {there}")
        template = np.asarray(self.clusters.codes.template(s)[:-1, :-1], np.float64)
        return self._answer(
            stencil=s,
            contribution=self.clusters.contribution(s),
            template=template.tolist(),
            rows=[self.user_block(s, a) for a in range(template.shape[0])],
            cols=[self.item_block(s, c) for c in range(template.shape[1])],
        )

    def hierarchy(self, side: str = "items", depth: int = 3, branches: int | None = 3, members: int = 6) -> Json:
        """Return the tree of items or users.

        Parameters
        ----------
        side : {"items", "users"}, default "items"
        depth : int, default 3
        branches : int or None, default 3
            Labels that are alike are merged until a node has at most so many branches; None merges none.
        members : int, default 6
            Ids that are named in each branch.

        Returns
        -------
        dict
        """
        root = self.tree(side, depth, branches, members)
        return self._answer(side=side, root=self._node(root, side == "items"))

    def map(self) -> Json:
        """Return a place in the plane for each item with data, and the branch of the tree in which it is."""
        items, plane, group, groups = self.places
        return self._answer(
            items=list(map(plain, self._ids(1, items))),
            titles=[self.titles.get(x) for x in self._ids(1, items)],
            x=plane[:, 0].tolist(),
            y=plane[:, 1].tolist(),
            weight=self.clusters.weights[1][items].tolist(),
            group=group.tolist(),
            groups=[{"members": self.refs(members)} for members in groups],
        )

    def items(self, n: int = 24) -> Json:
        """Return the best-known items, in turn from each branch of the tree.

        Parameters
        ----------
        n : int, default 24

        Returns
        -------
        dict
        """
        items, _, group, _ = self.places
        order = np.argsort(-self.clusters.weights[1][items], kind="stable")
        turn = np.empty(len(items), np.int64)
        for number in np.unique(group):
            inside = order[group[order] == number]
            turn[inside] = np.arange(len(inside)) if number >= 0 else len(items)  # those in no branch last
        best = items[order[np.lexsort((group[order], turn[order]))]][:n]
        return self._answer(items=self.refs(best.tolist()))

    def search(self, query: str, n: int = 10) -> Json:
        """Return items by their titles or ids, with errors of typing.

        Parameters
        ----------
        query : str
        n : int, default 10

        Returns
        -------
        dict
            Best first.
        """
        found = self._search.find(query, n)
        return self._answer(items=[{**self.ref(p), "score": score} for p, score in found])

    # -- parts of answers ---------------------------------------------------------------------------------

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

    # -- the tree and the map -----------------------------------------------------------------------------

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
