"""A tree of the columns (or rows), by the labels that a few stencils give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.model.codes import Codes
from accams.use.scoring import Floats, Positions


@dataclass(frozen=True, eq=False)
class Node:
    """A branch of the tree: the columns that share a label, or a group of labels, in each stencil so far.

    Attributes
    ----------
    stencil : int or None
        The stencil whose labels make this branch; None at the root.
    labels : tuple of int
        Its labels here.
    size : int
    members : tuple
        Ids of the most typical ones: those whose predictions lean most towards what makes the branch.
    line : array
        What makes it: for each label of the other side, how far predictions here are from those for all, less the
        branch's own level.
    children : tuple of Node
    """

    stencil: int | None
    labels: tuple[int, ...]
    size: int
    members: tuple[Any, ...]
    line: Floats
    children: tuple[Node, ...]

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """All nodes with their depth, each before its children."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def to_dict(self, name: Callable[[Any], Any] = lambda x: x) -> dict[str, Any]:
        """Nested dictionaries of plain values; `name` turns ids into what is shown."""
        return {
            "stencil": self.stencil,
            "labels": list(self.labels),
            "size": self.size,
            "members": [name(x) for x in self.members],
            "line": [round(float(x), 6) for x in self.line],
            "children": [child.to_dict(name) for child in self.children],
        }

    def text(self, name: Callable[[Any], str] = str, width: int = 100) -> str:
        """The tree as lines of text."""
        lines = []
        for depth, node in self.walk():
            shown = f"{'  ' * depth}{node.size:,}: {', '.join(map(name, node.members))}"
            lines.append(shown if len(shown) <= width else shown[: width - 3] + "...")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Tree:
    """What the tree is made from."""

    codes: Codes
    index: Index
    side: int
    weights: Floats  # by which members of the root are named
    members: int
    branches: int | None
    least: int
    keep: Callable[[list[Any]], Sequence[Any]] | None

    def grow(self, stencils: Sequence[int], inside: Positions) -> Node:
        """The tree of these columns by these stencils, one level each."""
        return self._node(None, (), inside, list(stencils), np.zeros(len(self._others)), np.zeros(0))

    def _node(
        self, stencil: int | None, labels: tuple[int, ...], inside: Positions, left: list[int], lean: Floats,
        line: Floats,
    ) -> Node:  # fmt: skip
        typical = inside[np.argsort(-self._leaning(lean)[inside], kind="stable")[: self.members]]
        children = []
        if left:
            groups, lines = self._groups(left[0])
            own = self._labels[inside, left[0]]
            for group, each in zip(groups, lines, strict=True):
                there = self._kept(inside[np.isin(own, group)])
                if len(there) >= self.least:
                    towards = lean + np.append(each, 0.0)[self._others[:, left[0]]]
                    children.append(self._node(left[0], tuple(group), there, left[1:], towards, each))
        ids = tuple(self.index.ids[typical].tolist())
        return Node(stencil, labels, len(inside), ids, line, tuple(children))

    def _groups(self, s: int) -> tuple[list[list[int]], list[Floats]]:
        """Labels of a stencil in groups that are alike, in the order in which they differ most, and their lines."""
        lines, own, across = self._lines[s]
        groups = merged(lines, own, across, self.branches)
        means = [own[group] @ lines[group] / own[group].sum() for group in groups]
        weighted = np.array(means) * np.sqrt(across)
        main = np.linalg.svd(weighted, full_matrices=False)[2][0]
        order = np.argsort(weighted @ main, kind="stable")
        if order[0] > order[-1]:  # either way round is right: begin with the end that has the lower label
            order = order[::-1]
        return [groups[p] for p in order], [means[p] for p in order]

    def _kept(self, inside: Positions) -> Positions:
        """Those that the filter keeps."""
        if self.keep is None:
            return inside
        return np.intersect1d(inside, self.index.find(list(self.keep(self.index.ids[inside].tolist()))))

    def _leaning(self, lean: Floats) -> Floats:
        """How much each column's predictions lean towards a direction, given by a number for each row."""
        if not lean.any():
            return self.weights
        found = np.zeros(len(self._labels))
        for s in range(len(self.codes.starts)):
            lines = self._lines[s][0]
            towards = np.bincount(self._others[:, s], weights=lean, minlength=lines.shape[1] + 1)[: lines.shape[1]]
            found += np.append(lines @ towards, 0.0)[self._labels[:, s]]
        return found

    @cached_property
    def _lines(self) -> list[tuple[Floats, Floats, Floats]]:
        return [centred_lines(self.codes, s, self.side) for s in range(len(self.codes.starts))]

    @property
    def _labels(self) -> NDArray[np.unsignedinteger]:
        return (self.codes.rows, self.codes.cols)[self.side][:-1]

    @property
    def _others(self) -> NDArray[np.unsignedinteger]:
        return (self.codes.cols, self.codes.rows)[self.side][:-1]


def centred_lines(codes: Codes, s: int, side: int) -> tuple[Floats, Floats, Floats]:
    """Lines of a template, one for each label, less their own level and less the average line; shares of labels."""
    template = np.asarray(codes.template(s)[:-1, :-1], np.float64)
    lines = template if side == 0 else template.T
    labels, others = (codes.rows, codes.cols) if side == 0 else (codes.cols, codes.rows)
    own, across = (
        np.bincount(x[:-1, s], minlength=k + 1)[:k] + 1e-9 for x, k in ((labels, len(lines)), (others, lines.shape[1]))
    )
    own, across = own / own.sum(), across / across.sum()
    lines = lines - (lines @ across)[:, None]
    return lines - own @ lines, own, across


def telling(codes: Codes, side: int) -> Positions:
    """The stencils in the order of how much they tell apart: the variance of their centred lines."""
    found = []
    for s in range(len(codes.starts)):
        lines, own, across = centred_lines(codes, s, side)
        found.append(float(own @ np.square(lines) @ across))
    return np.argsort(-np.array(found), kind="stable")


def merged(lines: Floats, own: Floats, across: Floats, most: int | None) -> list[list[int]]:
    """Labels that occur, in at most `most` groups: the two groups that are most alike become one, again and again."""
    groups = [[a] for a in range(len(lines)) if own[a] > 1e-6]
    while most is not None and len(groups) > most:
        weights = np.array([own[group].sum() for group in groups])
        means = np.array([own[group] @ lines[group] / own[group].sum() for group in groups]) * np.sqrt(across)
        apart = (
            np.square(means[:, None] - means).sum(axis=2) * weights[:, None] * weights / (weights[:, None] + weights)
        )
        np.fill_diagonal(apart, np.inf)
        a, b = sorted(divmod(int(apart.argmin()), len(groups)))
        groups[a] = sorted(groups[a] + groups.pop(b))
    return groups
