"""Items beyond those of the regression: labels for the long tail in a stencil sum that was fitted to the head.

The regression of all items on one another takes the square of their number. Of a large catalogue only the most popular
items, the *head*, are in it; every other item then gets the column labels that lower the same error most, with the
templates as they are, but for a label of zeros that each stencil gets for items that it has nothing to say of. Column j
of the map is a sum of one template column per stencil: with P the choices of users summed by row label, the error is
quadratic in those columns, and all of it follows from P'P, P'X and how often each item was chosen, so that an item
costs the square of the number of labels. So items of the tail can be recommended; as part of a history they say next to
nothing (they were chosen by few) and have rows of zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.items import masses_of
from accams.fit.regression import Ridge
from accams.kernels import tail as kernels
from accams.model.interactions import Interactions
from accams.model.itemmap import scales_of, sum_bytes
from accams.model.stencils import Stencil, StencilSum, label_type

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
PASSES = 4  # over all stencils, after the first
SILENT = 0.9  # share of the labels of the tail that is expected to be that of zeros
DEARER, MOST = 2.0, 40  # growth of the price of a bit while the file is too large, and tries
CELLS = 1 << 24  # of a block of users by labels


@dataclass
class Options:
    """Labels of one side, those of all stencils numbered one after another; the last of each is that of zeros."""

    first: Positions
    labels: Positions  # (item, stencil)

    @classmethod
    def of(cls, labels: Sequence[NDArray[Any]], sizes: list[int], head: Positions, size: int) -> "Options":
        """From the labels of the head; those of other items are that of zeros."""
        every = np.tile(np.array(sizes) - 1, (size, 1))
        every[head] = np.stack([x.astype(np.int64) for x in labels], axis=1)
        return cls(np.cumsum([0, *sizes]), every)

    @property
    def number(self) -> int:
        """Labels of all stencils."""
        return int(self.first[-1])

    def sums(self, items: Positions, weights: Floats) -> Floats:
        """Return, for each pair of labels, the weights of the items that have both."""
        dense = np.zeros((len(items), self.number))
        dense[np.arange(len(items))[:, None], self.first[:-1] + self.labels[items]] = 1.0
        return np.asarray((dense * weights[:, None]).T @ dense)

    def prices(self, head: Positions, price: float) -> Floats:
        """Return the price of each label of an item in the tail, most of which have the last one."""
        found = [np.zeros(0)]
        for s, (lo, hi) in enumerate(zip(self.first[:-1], self.first[1:], strict=True)):
            counts = np.maximum(np.bincount(self.labels[head, s], minlength=hi - lo)[: hi - lo - 1], 1)
            found.append(-np.log2(np.append((1.0 - SILENT) * counts / counts.sum(), SILENT)))
        return price * np.concatenate(found)


def extended(
    stencils: StencilSum, price: float, head: Positions, choices: Interactions, levels: Positions, ridge: Ridge,
    max_bytes: int,
) -> StencilSum:  # fmt: skip
    """Return the stencil sum of all items, given the one of the head.

    Parameters
    ----------
    stencils : StencilSum
        The scaled map of the items in `head`.
    price : float
        Error that one bit must save.
    head : positions
        In ascending order.
    choices : Interactions
        Who chose what, of all items.
    levels : array
        How often each item was chosen (`ItemMap.levels`).
    ridge : Ridge
        Penalty and dropout of the regression.
    max_bytes : int
        Size of the result in a file.
    """
    size = len(levels)
    if not len(stencils):
        return StencilSum((size, size), 0.0, ())
    templates = [np.pad(T.astype(np.float64), ((0, 1), (0, 1))) for T in stencils.templates]
    rows = Options.of(stencils.row_labels, [len(T) for T in templates], head, size)
    cols = Options.of(stencils.col_labels, [T.shape[1] for T in templates], head, size)
    tail = np.setdiff1d(np.arange(size), head)
    scales = scales_of(levels, ridge.penalty)
    told, held, linear = error_of_columns(rows, templates, head, tail, choices, scales, ridge)
    quadratic = told + held
    for _ in range(MOST):
        labels, prices = np.zeros((len(tail), len(templates)), np.int64), cols.prices(head, price)
        kernels.choose_labels(0, len(tail), linear, quadratic, cols.first, prices, PASSES, labels)
        cols.labels[tail] = labels
        made = _sum_of(stencils, templates, rows, cols)
        if sum_bytes(made, levels) <= max_bytes:
            return made
        price *= DEARER
    raise InputError(f"{max_bytes:,} bytes are too few for a map of {size:,} items: give more")


def error_of_columns(
    rows: Options, templates: list[Floats], head: Positions, tail: Positions, choices: Interactions, scales: Floats,
    ridge: Ridge,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return D, H and, for each item of the tail, c: labels whose indicator is v have the error v'(D + H)v - 2 c'v.

    D is what the choices say, and H is the penalty.
    """
    items = choices.columns.astype(np.int64)
    weights = np.ones(len(items)) if choices.weights is None else choices.weights.astype(np.float64)
    place_of = np.full(len(scales), -1, np.int64)
    place_of[tail] = np.arange(len(tail))
    kept, missing = 1.0 - ridge.dropout, ridge.dropout * masses_of(choices, len(scales))
    told, held = (
        rows.sums(head, (x / np.square(scales))[head]) for x in (missing, np.full(len(scales), ridge.penalty))
    )
    wanted = np.zeros((len(tail), rows.number))
    step = max(1, CELLS // rows.number)
    for lo in range(0, len(choices.starts) - 1, step):
        starts = choices.starts[lo : lo + step + 1]
        chosen = np.zeros((len(starts) - 1, rows.number))  # by row label
        kernels.gather_by_user(starts, items, weights / scales[items], place_of, rows.labels, rows.first, chosen)
        told += kept * (chosen.T @ chosen)
        kernels.gather_by_item(starts, items, weights, place_of, chosen, wanted)
    told, held = (on_lines(templates, on_lines(templates, x, rows.first).T, rows.first) for x in (told, held))
    return told, held, kept * on_lines(templates, wanted, rows.first)


def on_lines(templates: list[Floats], table: Floats, first: Positions) -> Floats:
    """Return a table over all row labels times the templates: one over all column labels."""
    return np.hstack([table[:, lo:hi] @ T for T, lo, hi in zip(templates, first[:-1], first[1:], strict=True)])


def _sum_of(stencils: StencilSum, templates: list[Floats], rows: Options, cols: Options) -> StencilSum:
    made = []
    for s, (old, T) in enumerate(zip(stencils.stencils, templates, strict=True)):
        own, other = (x.labels[:, s].astype(label_type(k)) for x, k in zip((rows, cols), T.shape, strict=True))
        made.append(Stencil(T.astype(np.float32), own, other, old.step))
    return StencilSum((len(rows.labels), len(cols.labels)), 0.0, tuple(made))
