"""Quantised SVDs as compressors of a matrix: of a size, or with what they leave stored within an error.

What is left is rounded to whole multiples of twice the error and entropy-coded, with frequencies for each pair of a
class of rows and a class of columns: classes hold rows (columns) whose levels are about equally large.
"""

from __future__ import annotations

from math import floor

import numpy as np

from accams.fit.target import Target, of_matrix
from accams.model.coding import Bytes, decode_labels, encode_ints, encode_labels
from rivals.coders import INSIDE, Method, Stored
from rivals.matrices import Matrix
from rivals.svd import HEADER, QuantisedSVD, svd_of_size, symbols

MOST_RANK = 400  # of a matrix whose full SVD would take long
CLASSES = 8
LARGEST = 8000  # symbol that is coded: larger ones are stored beside
ENOUGH = 2  # SVDs that do worse than the best so far, before the search ends
SHARES = (0.02, 0.06, 0.15, 0.35)  # of the bytes of the residual alone, for SVDs below it


def target_of(matrix: Matrix) -> Target:
    m, n = matrix.values.shape
    return of_matrix(matrix.values.astype(np.float64), np.ones(m), np.ones(n), MOST_RANK)


def dense(target: Target, svd: QuantisedSVD) -> np.ndarray:
    return svd.left.astype(np.float32) @ svd.right.astype(np.float32).T + np.float32(target.offset)


def sized(matrix: Matrix, size: int) -> Stored:
    target = target_of(matrix)
    svd = svd_of_size(target, size)
    return Stored(svd.size, lambda: dense(target, svd), svd.which)


def classes(levels: np.ndarray, axis: int) -> np.ndarray:
    """Rows or columns by the mean size of their levels, about equally many in each class."""
    sizes = np.abs(levels).mean(axis=axis)
    return np.searchsorted(np.quantile(sizes, np.arange(1, CLASSES) / CLASSES), sizes).astype(np.uint16)


class Levels:
    """Whole numbers of a matrix, entropy-coded."""

    def __init__(self, levels: np.ndarray) -> None:
        coded = symbols(levels)
        self.shape, over = levels.shape, np.flatnonzero(coded > LARGEST)
        self.lines = [classes(levels, axis) for axis in (1, 0)]
        parts = self.cut(np.minimum(coded, LARGEST).astype(np.uint16))
        self.k = [int(part.max(initial=0)) + 1 for part in parts]
        self.lengths = [len(part) for part in parts]
        self.coded = encode_labels(parts, self.k)
        self.over, self.beyond = over, levels.ravel()[over]
        self.size = sum(map(len, self.all_bytes()))

    def all_bytes(self) -> list[Bytes]:
        lines = encode_labels(self.lines, [CLASSES] * 2)
        beside = [np.array(self.k), np.diff(self.over, prepend=0), self.beyond]
        return [*self.coded, *lines, *map(encode_ints, beside)]

    def cut(self, values: np.ndarray) -> list[np.ndarray]:
        """The values of each pair of classes."""
        rows, cols = ([np.flatnonzero(line == c) for c in range(CLASSES)] for line in self.lines)
        return [values[np.ix_(r, c)].ravel() for r in rows for c in cols]

    def read(self) -> np.ndarray:
        parts = iter(decode_labels(*self.coded, self.lengths, self.k))
        rows, cols = ([np.flatnonzero(line == c) for c in range(CLASSES)] for line in self.lines)
        out = np.empty(self.shape, np.int64)
        for r in rows:
            for c in cols:
                out[np.ix_(r, c)] = next(parts).reshape(len(r), len(c))
        out = np.where(out % 2, -(out + 1) // 2, out // 2)
        out.ravel()[self.over] = self.beyond
        return out


def step_of(matrix: Matrix, error: float) -> float:
    """The distance of levels: whole numbers need fewer."""
    return 2.0 * floor(error) + 1.0 if matrix.values.dtype.kind in "iu" else 2.0 * error * INSIDE


def with_residual(matrix: Matrix, step: float, approximate: np.ndarray | float, size: int, which: str) -> Stored:
    """An approximation of a size, and what it leaves; whole numbers are approximated by whole ones."""
    whole = matrix.values.dtype.kind in "iu"
    base = np.rint(approximate) if whole else np.asarray(approximate, np.float64)
    levels = Levels(np.rint((matrix.values - base) / step).astype(np.int64))
    return Stored(size + levels.size, lambda: base + step * levels.read(), which)


def bounded(matrix: Matrix, error: float) -> Stored:
    """The smallest of the residual alone and of the residuals of larger and larger SVDs."""
    step, best = step_of(matrix, error), classed(matrix, error)
    target, alone, worse = target_of(matrix), best.size, 0
    for share in SHARES:
        svd = svd_of_size(target, int(share * alone))
        each = with_residual(matrix, step, dense(target, svd), svd.size + HEADER, svd.which)
        worse += each.size >= best.size
        best = each if each.size < best.size else best
        if worse == ENOUGH:
            break
    return best


def classed(matrix: Matrix, error: float) -> Stored:
    """The residual of the mean alone."""
    return with_residual(matrix, step_of(matrix, error), float(matrix.values.mean()), HEADER, "no SVD")


SVD_CODERS = (
    Method("uniform by classes of rows and columns", (), classed, None),
    Method("quantised SVD + residual", (), bounded, None),
    Method("quantised SVD", (), None, sized),
)
