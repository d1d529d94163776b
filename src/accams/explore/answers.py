"""Explorer: a model's blocks, stencils, items, users, map and tree as dictionaries ready for JSON."""

from contextlib import suppress
from typing import Any

import numpy as np

from accams.data.ids import parsed
from accams.errors import InputError, UnknownIdError
from accams.explore.contents import MOST_SEEN, Contents, Json, plain


class Explorer(Contents):
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

    def prepare(self) -> None:
        """Compute all that answers are taken from, which takes a while, before anybody waits for it."""
        for what in (self.model, self.items, lambda: self.search("a"), lambda: self.clusters.weights):
            with suppress(InputError):  # of models without labels, or without items
                what()

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
