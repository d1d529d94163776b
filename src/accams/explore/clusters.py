"""Clusters of one stencil sum: their sizes, who is in them, and what they like, each computed once."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.fitted.parts import Parts
from accams.use.explain import Members
from accams.use.hierarchy import centred_lines
from accams.use.scoring import Floats, Positions

LIKES = 3  # items that are named to say what a cluster of users likes


class Clusters:
    """Clusters of the single stencil sum of a model, by position.

    What is computed is kept; how much that can be is bounded by the number of clusters.
    """

    def __init__(self, model: Parts) -> None:
        self.model, self.codes = model, model.stencils.codes
        self._likes = dict[int, Positions]()

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """How much rows and columns count: by their data, or by what was seen; else their prominence.

        Prominence has single precision, so that other programs get the same order.
        """
        model = self.model
        if model.activity is not None:
            return model.activity
        if not model.predicts and model.item_map is not None:
            return np.zeros(model.shape[0]), model.item_map.popularity
        if model.interactions is not None:
            seen = model.interactions
            counts = np.diff(seen.starts), np.bincount(seen.columns, minlength=model.shape[1])
            return counts[0].astype(np.float64), counts[1].astype(np.float64)
        rows, cols = model.members.weights
        return tuple(x.astype(np.float32).astype(np.float64) for x in (rows, cols))  # type: ignore[return-value]

    @cached_property
    def _members(self) -> Members:
        return Members(self.codes, *self.model.indices, self.weights)

    def labels(self, side: int, position: int) -> list[int]:
        """Return the label of a row (side 0) or a column (side 1) in each stencil."""
        return [int(x) for x in (self.codes.rows, self.codes.cols)[side][position]]

    def sizes(self, side: int, stencil: int) -> Positions:
        """Return the sizes of the clusters of rows (side 0) or columns (side 1), and last the number of all."""
        return np.array([size for size, _ in self._members.foremost(side, stencil)], np.int64)

    def items(self, stencil: int, label: int) -> list[int]:
        """Return the first columns of a cluster, one more than are named; the last cluster stands for all."""
        return list(self._members.foremost(1, stencil)[label][1].tolist())

    def size(self, side: int, stencil: int, label: int) -> int:
        """Return the size of one cluster."""
        return self._members.foremost(side, stencil)[label][0]

    def liked(self, stencil: int) -> Positions:
        """Return the column cluster that each row cluster leans to most, -1 for the average row.

        That is the first maximum of its line, less its mean and the average line, among clusters with members.
        """
        if stencil not in self._likes:
            lines = centred_lines(self.codes, stencil, 0)[0].copy()
            lines[:, self.sizes(1, stencil)[:-1] == 0] = -np.inf
            best = lines.argmax(axis=1) if np.isfinite(lines).any() else np.full(len(lines), -1)
            self._likes[stencil] = np.append(best, -1)
        return self._likes[stencil]

    def examples(self, stencil: int, label: int) -> list[int]:
        """Return a few items that a row cluster likes."""
        best = int(self.liked(stencil)[label])
        return self.items(stencil, best)[:LIKES] if best >= 0 else []

    def shares(self, side: int, stencil: int) -> Floats:
        """Return the share of rows (columns) with data in each cluster."""
        sizes = self.sizes(side, stencil)[:-1]
        total = int(sizes.sum())
        return sizes / total if total else np.full(len(sizes), 1.0 / len(sizes))

    def contribution(self, stencil: int) -> float:
        """Return the standard deviation of a template's entries over all cells with data."""
        template: NDArray[np.float64] = np.asarray(self.codes.template(stencil)[:-1, :-1], np.float64)
        p, q = self.shares(0, stencil), self.shares(1, stencil)
        return float(np.sqrt(p @ np.square(template - p @ template @ q) @ q))
