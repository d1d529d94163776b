"""One stencil, the types of labels, and the fields of a sum of stencils."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError

Labels = NDArray[np.unsignedinteger[Any]]
Positions = NDArray[np.int64]


def label_type(k: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest unsigned type for labels below `k`."""
    return np.uint8 if k <= 2**8 else np.uint16 if k <= 2**16 else np.uint32


@dataclass(frozen=True, eq=False)
class Stencil:
    """S[i, j] = template[row_labels[i], col_labels[j]].

    Parameters
    ----------
    template : array of float32 (row cluster, column cluster)
    row_labels, col_labels : arrays of int
        Cluster of each row and of each column.
    step : float, optional
        A number of which all entries of the template are integer multiples, if there is one.

    Examples
    --------
    >>> stencil = Stencil([[0.5, -0.5]], [0, 0], [0, 1, 1])
    >>> stencil.shape, stencil.template.shape
    ((2, 3), (1, 2))
    >>> stencil.template[stencil.row_labels][:, stencil.col_labels]
    array([[ 0.5, -0.5, -0.5],
           [ 0.5, -0.5, -0.5]], dtype=float32)
    """

    template: NDArray[np.float32]
    row_labels: Labels
    col_labels: Labels
    step: float | None = None

    def __post_init__(self) -> None:
        template = np.asarray(self.template, dtype=np.float32)
        if template.ndim != 2 or template.size == 0:
            raise InputError(f"a template is a matrix of at least one block, not an array of shape {template.shape}")
        object.__setattr__(self, "template", template)
        if self.step is not None:
            step = float(np.float32(self.step))
            object.__setattr__(self, "step", step)
            if not (0.0 < step < np.inf and np.array_equal(times(whole_steps(template, step), step), template)):
                raise InputError(f"the template's entries are not integer multiples of {step}")
        for name, k in (("row_labels", template.shape[0]), ("col_labels", template.shape[1])):
            labels = np.asarray(getattr(self, name))
            if labels.ndim != 1 or labels.dtype.kind not in "iu":
                raise InputError(f"{name} must be a vector of integers")
            if labels.size and not (int(labels.min()) >= 0 and int(labels.max()) < k):
                raise InputError(f"{name} must lie between 0 and {k - 1}, the template's size less one")
            object.__setattr__(self, name, labels.astype(label_type(k), copy=False))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, not of the template."""
        return len(self.row_labels), len(self.col_labels)


@dataclass(frozen=True, eq=False, repr=False)
class SumFields:
    """The fields of a `StencilSum`, which documents them."""

    shape: tuple[int, int]
    offset: float = 0.0
    stencils: Sequence[Stencil] = ()
    unseen_rows: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unseen_cols: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    row_effects: NDArray[np.float32] | None = None
    col_effects: NDArray[np.float32] | None = None


def whole_steps(template: NDArray[np.floating], step: float) -> NDArray[np.int64]:
    """Return the nearest integer multiples of `step`."""
    return np.rint(template / np.float64(step)).astype(np.int64)


def times(multiples: NDArray[np.int64], step: float) -> NDArray[np.float32]:
    """Return integer multiples of `step` as numbers: the only place where they are multiplied, so that all agree."""
    return (multiples * np.float64(step)).astype(np.float32)
