"""A tree of the columns (or rows) by their labels in a few stencils."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.model.codes import Codes
from accams.use.scoring import Floats, Positions


@dataclass(frozen=True, eq=False)
class Node:
    """A branch of the tree: the items that share a label, or a group of labels, in each stencil so far.

    Attributes
    ----------
    stencil : int or None
        Stencil whose labels make this branch; None at the root.
    labels : tuple of int
        Labels of that stencil in this branch.
    size : int
        Number of items.
    members : tuple
        Ids of the most typical items: those whose predictions lean most towards `line`.
    line : array
        For each label of the other side, how far predictions of this branch are from those of all items, less the
        branch's mean.
    children : tuple of Node
    """

    stencil: int | None
    labels: tuple[int, ...]
    size: int
    members: tuple[Any, ...]
    line: Floats
    children: tuple["Node", ...]

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Node"]]:
        """Iterate over all nodes with their depth, parents first."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def to_dict(self, name: Callable[[Any], Any] = lambda x: x) -> dict[str, Any]:
        """Return nested dictionaries of plain values, with ids replaced by ``name(id)``."""
        return {
            "stencil": self.stencil,
            "labels": list(self.labels),
            "size": self.size,
            "members": [name(x) for x in self.members],
            "line": [round(float(x), 6) for x in self.line],
            "children": [child.to_dict(name) for child in self.children],
        }

    def text(self, name: Callable[[Any], str] = str, width: int = 100) -> str:
        """Return the tree as lines of text."""
        lines = []
        for depth, node in self.walk():
            shown = f"{'  ' * depth}{node.size:,}: {', '.join(map(name, node.members))}"
            lines.append(shown if len(shown) <= width else shown[: width - 3] + "...")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def html(self, name: Callable[[Any], str] = str) -> str:
        """Return the tree as nested HTML lists."""

        def item(node: Node) -> str:
            below = f"<ul>{''.join(map(item, node.children))}</ul>" if node.children else ""
            return f"<li>{node.size:,}: {escape(', '.join(map(name, node.members)))}{below}</li>"

        return f"<ul>{item(self)}</ul>"

    def _repr_html_(self) -> str:
        return self.html()


@dataclass(frozen=True)
class Tree:
    """Grows the tree of one side of a model."""

    codes: Codes
    index: Index
    side: int
    weights: Floats  # those of the root's members are largest
    members: int
    branches: int | None
    least: int
    keep: Callable[[list[Any]], Sequence[Any]] | None

    def grow(self, stencils: Sequence[int], inside: Positions) -> Node:
        """Return the tree of these columns by these stencils, one level each."""
        return self._node(None, (), inside, list(stencils), np.zeros(len(self._others)), np.zeros(0))

    def _node(
        self, stencil: int | None, labels: tuple[int, ...], inside: Positions, left: list[int], lean: Floats,
        line: Floats,
    ) -> Node:  # fmt: skip
        typical = inside[np.argsort(-self._leaning(lean, inside), kind="stable")[: self.members]]
        children = []
        if left:
            s, labels_inside = left[0], self._labels[inside, left[0]]
            for group, mean in zip(*grouped(*self._lines[s], self.branches), strict=True):
                branch = inside[np.isin(labels_inside, group)]
                if self.keep is not None:
                    branch = np.intersect1d(branch, self.index.find(list(self.keep(self.index.ids[branch].tolist()))))
                if len(branch) >= self.least:
                    towards = lean + np.append(mean, 0.0)[self._others[:, s]]
                    children.append(self._node(s, tuple(group), branch, left[1:], towards, mean))
        ids = tuple(self.index.ids[typical].tolist())
        return Node(stencil, labels, len(inside), ids, line, tuple(children))

    def _leaning(self, lean: Floats, inside: Positions) -> Floats:
        """Return how much predictions of these columns lean towards a direction, given by a number per row."""
        if not lean.any():
            return self.weights[inside]
        leaning, labels = np.zeros(len(inside)), self._labels[inside]
        for s in range(len(self.codes.starts)):
            lines = self._lines[s][0]
            towards = np.bincount(self._others[:, s], weights=lean, minlength=lines.shape[1] + 1)[: lines.shape[1]]
            leaning += np.append(lines @ towards, 0.0)[labels[:, s]]
        return leaning

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
    """Return the lines of a template, less their means and the average line, and the shares of both sides' labels."""
    template = np.asarray(codes.template(s)[:-1, :-1], np.float64)
    lines = template if side == 0 else template.T
    labels, others = (codes.rows, codes.cols) if side == 0 else (codes.cols, codes.rows)
    along, across = (
        np.bincount(x[:-1, s], minlength=k + 1)[:k] + 1e-9 for x, k in ((labels, len(lines)), (others, lines.shape[1]))
    )
    along, across = along / along.sum(), across / across.sum()
    lines = lines - (lines @ across)[:, None]
    return lines - along @ lines, along, across


def telling(codes: Codes, side: int) -> Positions:
    """Return the stencils by how much they separate: the variance of their centred lines, largest first."""
    variances = []
    for s in range(len(codes.starts)):
        lines, along, across = centred_lines(codes, s, side)
        variances.append(float(along @ np.square(lines) @ across))
    return np.argsort(-np.array(variances), kind="stable")


def grouped(lines: Floats, along: Floats, across: Floats, most: int | None) -> tuple[list[list[int]], list[Floats]]:
    """Merge the labels of a stencil into at most `most` groups; return them along the main axis, with their lines.

    The two most similar groups are merged, again and again. Arguments are those that `centred_lines` returns.
    """
    groups = [[a] for a in range(len(lines)) if along[a] > 1e-6]
    while most is not None and len(groups) > most:
        weights = np.array([along[group].sum() for group in groups])
        means = np.array(_means(lines, along, groups)) * np.sqrt(across)
        apart = (
            np.square(means[:, None] - means).sum(axis=2) * weights[:, None] * weights / (weights[:, None] + weights)
        )
        np.fill_diagonal(apart, np.inf)
        a, b = sorted(divmod(int(apart.argmin()), len(groups)))
        groups[a] = sorted(groups[a] + groups.pop(b))
    centres = _means(lines, along, groups)
    weighted = np.array(centres) * np.sqrt(across)
    order = np.argsort(weighted @ np.linalg.svd(weighted, full_matrices=False)[2][0], kind="stable")
    if order[0] > order[-1]:  # the sign of the axis is arbitrary: begin with the end that has the lower label
        order = order[::-1]
    return [groups[p] for p in order], [centres[p] for p in order]


def _means(lines: Floats, along: Floats, groups: list[list[int]]) -> list[Floats]:
    return [along[group] @ lines[group] / along[group].sum() for group in groups]
