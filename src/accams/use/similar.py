"""Similarity of rows or of columns.

The similarity of two columns is a sum over stencils of a number for each pair of labels: itself a stencil sum, whose
rows and columns are both the model's columns. So the most similar ones are found as recommendations are.
"""

import numpy as np

from accams.model.codes import Codes
from accams.use.hierarchy import centred_lines
from accams.use.scoring import Floats, Sums

MEASURES = ("weighted", "hamming")


def likeness(sums: Sums, side: int, by: str) -> Sums:
    """Return the stencil sums of the similarity of two rows (side 0) or two columns (side 1).

    "hamming" is the share of stencils, over all sums, in which both have the same label, as in the paper. "weighted"
    uses the templates: 1 - d / 2v, where d is the squared difference between the two lines of the template, each less
    its own mean, summed over stencils, and v the variance of lines. 1 is the same, 0 as different as any two.
    """
    similarity = _by_labels if by == "hamming" else _by_templates
    return Sums([similarity(codes, side) for codes in sums.codes], [None] * len(sums.codes))


def _by_labels(codes: Codes, side: int) -> Codes:
    ks = [codes.template(s).shape[side] for s in range(len(codes.starts))]
    return _square(codes, side, [np.diag(np.append(np.ones(k - 1), 0.0)) / len(ks) for k in ks], 0.0)


def _by_templates(codes: Codes, side: int) -> Codes:
    tables, variance = list[Floats](), 0.0
    for s in range(len(codes.starts)):
        lines, shares, across = centred_lines(codes, s, side)
        lines = np.concatenate([lines, np.zeros((1, lines.shape[1]))]) * np.sqrt(across)  # and the average one
        shares = np.append(shares, 0.0)
        square = np.square(lines).sum(axis=1)
        tables.append(square[:, None] + square - 2.0 * lines @ lines.T)
        variance += float(shares @ tables[-1] @ shares) / 2.0
    scale = -2.0 * variance
    return _square(codes, side, [table / scale if variance > 0.0 else np.zeros_like(table) for table in tables], 1.0)


def _square(codes: Codes, side: int, tables: list[Floats], offset: float) -> Codes:
    """Return the stencil sum with one table of pairs of labels of one side per stencil."""
    labels = (codes.rows, codes.cols)[side]
    flat = np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])
    starts = np.cumsum([0, *(table.size for table in tables)])[:-1].astype(np.int64)
    widths = np.array([len(table) for table in tables], np.int64)
    return Codes(labels, labels, flat, starts, widths, None, None, offset)
