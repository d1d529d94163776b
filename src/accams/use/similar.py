"""Which rows or columns are alike.

How alike two columns are is itself a sum over stencils of a number for each pair of labels: a stencil sum, whose rows
and columns are both the model's columns. So the most similar ones are found as recommendations are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import Codes
from accams.use.hierarchy import centred_lines
from accams.use.scoring import Floats, Sums

MEASURES = ("weighted", "hamming")


def likeness(sums: Sums, side: int, by: str) -> Sums:
    """The stencil sums that tell how alike two rows (side 0) or two columns (side 1) are.

    "hamming" is the share of stencils, over all sums, in which both have the same label, as in the paper. "weighted"
    looks at what the labels mean: 1 - d / 2v, where d is the squared difference between the two lines of the template,
    each less its own mean, summed over stencils, and v the variance of lines. 1 is the same, 0 as different as any
    two.
    """
    made = [_by_labels(each, side) if by == "hamming" else _by_templates(each, side) for each in sums.codes]
    return Sums(made, [None] * len(made))


def _by_labels(codes: Codes, side: int) -> Codes:
    labels = (codes.rows, codes.cols)[side]
    ks = [codes.template(s).shape[side] for s in range(len(codes.starts))]
    return _square(labels, [np.diag(np.append(np.ones(k - 1), 0.0)) / len(ks) for k in ks], 0.0)


def _by_templates(codes: Codes, side: int) -> Codes:
    labels = (codes.rows, codes.cols)[side]
    tables, variance = list[Floats](), 0.0
    for s in range(len(codes.starts)):
        lines, own, across = centred_lines(codes, s, side)
        lines = np.concatenate([lines, np.zeros((1, lines.shape[1]))]) * np.sqrt(across)  # and the average one
        own = np.append(own, 0.0)
        square = np.square(lines).sum(axis=1)
        tables.append(square[:, None] + square - 2.0 * lines @ lines.T)
        variance += float(own @ tables[-1] @ own) / 2.0
    if variance <= 0.0:
        return _square(labels, [np.zeros_like(each) for each in tables], 1.0)
    return _square(labels, [-each / (2.0 * variance) for each in tables], 1.0)


def _square(labels: NDArray[np.unsignedinteger], tables: list[Floats], offset: float) -> Codes:
    """The stencil sum with one table of pairs of labels per stencil."""
    flat = np.concatenate([np.zeros(0), *(each.ravel() for each in tables)])
    starts = np.cumsum([0, *(each.size for each in tables)])[:-1].astype(np.int64)
    widths = np.array([len(each) for each in tables], np.int64)
    return Codes(labels, labels, flat, starts, widths, None, None, offset)
