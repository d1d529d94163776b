"""Features of rows and of columns, in blocks that are kept or left out together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Masks = tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]
NAMES = "implicit", "columns", "rows"
SURE = 2.0  # standard errors of the weight of a table's block, which it must exceed: with few held-out observations
# it is often large by chance. That what was observed tells something, singular values have said already.
LEAST = 0.5  # weight of a block on held-out observations: below, its slopes are mostly noise


@dataclass(frozen=True)
class Blocks:
    """Standardised features; None where there are none.

    Attributes
    ----------
    implicit : array (n, d)
        Features of columns by what was observed.
    columns, rows : array (n, d), array (m, d)
        Features of columns and of rows by tables.

    Examples
    --------
    >>> blocks = Blocks(np.ones((5, 3)), np.ones((5, 2)), np.ones((4, 1)))
    >>> blocks.slices
    [(0, slice(0, 3, None)), (0, slice(3, 5, None)), (1, slice(0, 1, None))]
    >>> few, masks = blocks.only([0.9, 0.7, 0.2])
    >>> few.rows is None, masks[0].tolist(), masks[1].tolist()
    (True, [True, True, True, True, True], [False])
    """

    implicit: Floats | None = None
    columns: Floats | None = None
    rows: Floats | None = None

    @property
    def present(self) -> list[str]:
        """Names of the blocks that there are."""
        return [name for name in NAMES if getattr(self, name) is not None]

    @property
    def both(self) -> tuple[Floats | None, Floats | None]:
        """Features of rows, and those of columns side by side."""
        parts = [x for x in (self.implicit, self.columns) if x is not None]
        return self.rows, np.hstack(parts) if parts else None

    @property
    def given(self) -> tuple[int, int]:
        """Number of features of rows and of columns that come from tables: the last ones."""
        rows, columns = (0 if x is None else x.shape[1] for x in (self.rows, self.columns))
        return rows, columns

    @property
    def slices(self) -> list[tuple[int, slice]]:
        """For each block the axis that has slopes on it, and which of its slopes."""
        out, at = list[tuple[int, slice]](), 0
        for name in self.present:
            width = getattr(self, name).shape[1]
            first = 0 if name == "rows" else at
            out.append((int(name == "rows"), slice(first, first + width)))
            at = first + width
        return out

    def only(self, weights: Sequence[float], always: Sequence[str] = ()) -> tuple[Self, Masks]:
        """Return the blocks of enough weight, and those of `always`, and the slopes that stay, by axis.

        Without weights all blocks stay.
        """
        masks: list[NDArray[np.bool_] | None] = [
            None if x is None else np.ones(x.shape[1], bool) for x in self.both[::-1]
        ]
        left_out = dict[str, None]()
        for name, (axis, some), weight in zip(self.present, self.slices, weights, strict=False):
            mask = masks[axis]
            if weight < LEAST and mask is not None and name not in always:
                mask[some], left_out[name] = False, None
        return replace(self, **left_out), (masks[0], masks[1])


def held_out_weights(terms: Floats, errors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weights of blocks that explain held-out observations best, by least squares, and standard errors.

    `terms` (block, cell) is what each block adds, `errors` what the whole model leaves.
    """
    root = np.sqrt(weights)
    A, y = (root * terms).T, root * (errors + terms.sum(axis=0))
    found, inverse = np.linalg.lstsq(A, y, rcond=None)[0], np.linalg.pinv(A.T @ A, hermitian=True)
    variance = float(np.mean(np.square(y - A @ found)))
    return found, np.sqrt(variance * np.maximum(np.diag(inverse), 0.0))
