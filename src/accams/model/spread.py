"""Spread: the predictive variance of a small model, by a class of the row and a class of the column."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.coding import decode_labels, encode_labels
from accams.model.container import Tensors

Positions = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_CLASSES = 64


@dataclass(frozen=True, eq=False)
class Spread:
    """Variance of an observation around the prediction of a model that has no draws.

    The cell (i, j) has variance ``table[row_classes[i], col_classes[j]]``, a stencil of variances. The last class of
    each side is that of rows (columns) never seen, and of position -1.
    """

    table: Floats
    row_classes: NDArray[np.uint8]
    col_classes: NDArray[np.uint8]

    def variance(self, i: Positions, j: Positions) -> Floats:
        """Return the variance at these cells; -1 is a row (column) never seen."""
        rows, cols = self._classes
        return np.asarray(self.table[rows[i], cols[j]])

    @cached_property
    def _classes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Classes of rows and of columns, that of position -1 last."""
        unknown_row, unknown_col = (np.uint8(k - 1) for k in self.table.shape)
        return np.append(self.row_classes, unknown_row), np.append(self.col_classes, unknown_col)

    def transposed(self) -> "Spread":
        """Return the spread of the transposed matrix."""
        return Spread(self.table.T, self.col_classes, self.row_classes)

    def grown(self, size: int) -> "Spread":
        """Return the spread of `size` rows, in which the new ones count as never seen."""
        classes = np.full(size, len(self.table) - 1, np.uint8)
        classes[: len(self.row_classes)] = self.row_classes
        return Spread(self.table, classes, self.col_classes)

    def without(self, row: int) -> "Spread":
        """Return the spread without one row."""
        return Spread(self.table, np.delete(self.row_classes, row), self.col_classes)


def pack(spread: Spread) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors; variances are stored in single precision."""
    labels, models = encode_labels([spread.row_classes, spread.col_classes], list(spread.table.shape))
    tensors: Tensors = {"classes": labels, "models": models, "variances": spread.table.astype(np.float32).ravel()}
    return {"shape": list(spread.table.shape)}, tensors


def unpack(fields: dict[str, Any], tensors: Tensors, shape: tuple[int, int]) -> Spread:
    """Undo `pack`; raise ValueError for damaged data."""
    sizes = [int(k) for k in fields["shape"]]
    variances = tensors["variances"]
    if len(sizes) != 2 or not all(1 <= k <= MOST_CLASSES for k in sizes) or variances.shape != (sizes[0] * sizes[1],):
        raise ValueError("the spread has no such table")
    if not (np.isfinite(variances) & (variances > 0)).all():
        raise ValueError("the spread has variances that are not positive")
    rows, cols = decode_labels(tensors["classes"], tensors["models"], list(shape), sizes)
    return Spread(variances.astype(np.float64).reshape(sizes), rows.astype(np.uint8), cols.astype(np.uint8))
