"""StencilSum: an offset and a sum of stencils, each a small template with one label per row and per column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.model.codes import Codes, Labels, label_type, position_pairs
from accams.model.packing import times, whole_steps
from accams.model.size import Size, model_bits, size_of
from accams.model.writing import save

if TYPE_CHECKING:
    from accams.data.observations import Observations

__all__ = ["Labels", "Stencil", "StencilSum", "label_type"]


@dataclass(frozen=True, eq=False)
class Stencil:
    """S[i, j] = template[row_labels[i], col_labels[j]]."""

    template: NDArray[np.float32]
    row_labels: Labels
    col_labels: Labels
    step: float | None = None  # where the template's entries are whole multiples of one number

    def __post_init__(self) -> None:
        template = np.asarray(self.template, dtype=np.float32)
        if template.ndim != 2 or template.size == 0:
            raise InputError(f"a template is a matrix of at least one block, not an array of shape {template.shape}")
        object.__setattr__(self, "template", template)
        if self.step is not None:
            object.__setattr__(self, "step", float(np.float32(self.step)))
            if not (
                0.0 < self.step < np.inf
                and np.array_equal(times(whole_steps(template, self.step), self.step), template)
            ):
                raise InputError(f"the template's entries are not whole multiples of {self.step}")
        for name, k in (("row_labels", template.shape[0]), ("col_labels", template.shape[1])):
            labels = np.asarray(getattr(self, name))
            if labels.ndim != 1 or labels.dtype.kind not in "iu":
                raise InputError(f"{name} must be a vector of whole numbers")
            if labels.size and not (int(labels.min()) >= 0 and int(labels.max()) < k):
                raise InputError(f"{name} must lie between 0 and {k - 1}, the template's size less one")
            object.__setattr__(self, name, labels.astype(label_type(k), copy=False))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, not of the template."""
        return len(self.row_labels), len(self.col_labels)


@dataclass(frozen=True, eq=False, repr=False)
class StencilSum:
    """The model: ``offset + sum_l template_l[row_labels_l[i], col_labels_l[j]]``, and effects if there are any.

    Parameters
    ----------
    shape : (int, int)
    offset : float
    stencils : sequence of Stencil
    unseen_rows, unseen_cols : arrays of positions
        Rows and columns without any training data: they are predicted as the average row (column), like
        position -1.
    row_effects, col_effects : arrays or None
        One number more per row and per column, added to the sum (0 for those never seen).

    Examples
    --------
    >>> model = StencilSum((2, 3), offset=1.0).append([[0.5, -0.5]], [0, 0], [0, 1, 1])
    >>> model.dense()
    array([[1.5, 0.5, 0.5],
           [1.5, 0.5, 0.5]])
    >>> model.predict([0, 1], [0, 2])
    array([1.5, 0.5])
    >>> model.bits  # one bit per column, two numbers of 32 bits
    67.0
    """

    shape: tuple[int, int]
    offset: float = 0.0
    stencils: Sequence[Stencil] = ()
    unseen_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unseen_cols: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    row_effects: NDArray[np.float32] | None = None
    col_effects: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (int(self.shape[0]), int(self.shape[1])))
        if getattr(self.stencils, "shape", None) != self.shape:  # not those of a file, unfolded when looked at
            object.__setattr__(self, "stencils", tuple(self.stencils))
            for stencil in self.stencils:
                if stencil.shape != self.shape:
                    raise InputError(f"a stencil of shape {stencil.shape} does not fit a model of shape {self.shape}")
        object.__setattr__(self, "offset", float(self.offset))
        if not isfinite(self.offset):
            raise InputError(f"the offset must be a finite number, not {self.offset}")
        for name, size in (("unseen_rows", self.shape[0]), ("unseen_cols", self.shape[1])):
            unseen = np.asarray(getattr(self, name))
            if unseen.dtype.kind not in "iu" or (unseen.size and (int(unseen.min()) < 0 or int(unseen.max()) >= size)):
                raise InputError(f"{name} must be positions between 0 and {size - 1}")
            object.__setattr__(self, name, unseen.astype(np.int64, copy=False))
        for name, size in (("row_effects", self.shape[0]), ("col_effects", self.shape[1])):
            each = getattr(self, name)
            if each is not None:
                each = np.asarray(each, dtype=np.float32)
                if each.shape != (size,) or not np.isfinite(each).all():
                    raise InputError(f"{name} must be {size} finite numbers")
                object.__setattr__(self, name, each)

    # -- parts --------------------------------------------------------------------------------------------

    @property
    def templates(self) -> list[NDArray[np.float32]]:
        """The template of each stencil."""
        known = getattr(self.stencils, "templates", None)  # without unfolding labels
        return [s.template for s in self.stencils] if known is None else list(known)

    @property
    def row_labels(self) -> list[Labels]:
        """The row labels of each stencil."""
        return [s.row_labels for s in self.stencils]

    @property
    def col_labels(self) -> list[Labels]:
        """The column labels of each stencil."""
        return [s.col_labels for s in self.stencils]

    @property
    def bits(self) -> float:
        """Size by the paper's formula: sum of m log2 k_rows + n log2 k_cols + 32 k_rows k_cols, and 32 per effect."""
        effects = sum(32.0 * len(each) for each in (self.row_effects, self.col_effects) if each is not None)
        return effects + model_bits(self.shape, [(T.shape[0], T.shape[1]) for T in self.templates])

    @property
    def size(self) -> Size:
        """What it takes: bits by the paper's formula, entropy of the labels, and bytes on disk, part by part."""
        return size_of(self)

    def __len__(self) -> int:
        return len(self.stencils)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"StencilSum({m:,} x {n:,}, {len(self)} stencils, {self.bits / 8000:,.1f} KB)"

    # -- building -----------------------------------------------------------------------------------------

    def append(self, template: ArrayLike, row_labels: ArrayLike, col_labels: ArrayLike) -> StencilSum:
        """A new sum with one more stencil at the end."""
        stencil = Stencil(np.asarray(template), np.asarray(row_labels), np.asarray(col_labels))
        return replace(self, stencils=(*self.stencils, stencil))

    def truncate(self, n_stencils: int) -> StencilSum:
        """A new sum of the first `n_stencils` stencils."""
        if not 0 <= n_stencils <= len(self):
            raise InputError(f"this model has {len(self)} stencils, so it cannot be cut to {n_stencils}")
        return replace(self, stencils=self.stencils[:n_stencils])

    def transposed(self) -> StencilSum:
        """The same with rows for columns."""
        turned = [Stencil(s.template.T, s.col_labels, s.row_labels, s.step) for s in self.stencils]
        unseen, effects = (self.unseen_cols, self.unseen_rows), (self.col_effects, self.row_effects)
        return StencilSum(self.shape[::-1], self.offset, tuple(turned), *unseen, *effects)

    def rounded(self, to: str | float) -> StencilSum:
        """A new sum with smaller templates.

        Parameters
        ----------
        to : {"float16", "int8", "int4"} or float
            How entries are stored: as floats of 16 bits, or as whole numbers of 8 or 4 bits times the template's
            own step. A number is the largest error that an entry may have: as in the paper's lemma on compression,
            a prediction is then off by at most that times the number of stencils.

        Examples
        --------
        >>> model = StencilSum((2, 2)).append([[0.52, -0.18]], [0, 0], [0, 1]).rounded(0.05)
        >>> model.templates[0].round(2), round(model.stencils[0].step, 6)
        (array([[ 0.5, -0.2]], dtype=float32), 0.1)
        """
        return replace(self, stencils=tuple(_rounded(s, to) for s in self.stencils))

    # -- use ----------------------------------------------------------------------------------------------

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Predictions at the cells (rows[p], cols[p]).

        Position -1 stands for a row (column) that was never seen: the average of the template rows
        (columns), weighted by how many seen rows (columns) have each label.
        """
        return self.codes.predict(*position_pairs(rows, cols, self.shape))

    def dense(self) -> NDArray[np.float64]:
        """The whole matrix of predictions (m x n numbers: only for matrices that fit in memory)."""
        out, codes = np.full(self.shape, self.offset), self.codes
        for p in range(len(self)):
            out += codes.template(p)[codes.rows[:-1, p]][:, codes.cols[:-1, p]]
        if codes.row_effects is not None:
            out += codes.row_effects[:-1, None]
        if codes.col_effects is not None:
            out += codes.col_effects[:-1]
        return out

    def residual(self, observations: Observations) -> NDArray[np.float64]:
        """Observed value minus prediction for every stored entry, in row order."""
        if observations.shape != self.shape:
            raise InputError(f"the observations are {observations.shape} but the model is {self.shape}")
        rows, cols, values = observations.coo()
        return values - self.predict(rows, cols)

    def save(self, path: str | Path, *, coding: str = "auto") -> None:
        """Write the model to one file; `accams.load` reads it.

        Parameters
        ----------
        coding : {"auto", "entropy", "packed"}
            Of labels: entropy-coded, or packed, so that the file is opened without decoding anything; "auto" takes
            what is smaller.
        """
        save(path, self, coding=coding)

    @cached_property
    def codes(self) -> Codes:
        """Labels and templates as prediction wants them."""
        labels, unseen = (self.row_labels, self.col_labels), (self.unseen_rows, self.unseen_cols)
        effects = self.row_effects, self.col_effects
        return Codes.of(self.templates, labels, self.shape, unseen, effects, self.offset)


def _rounded(stencil: Stencil, to: str | float) -> Stencil:
    template, most = stencil.template, float(np.abs(stencil.template).max())
    if to == "float16":
        if most > float(np.finfo(np.float16).max):
            raise InputError(f"a template entry of {most:.3g} is too large for float16")
        return replace(stencil, template=template.astype(np.float16).astype(np.float32), step=None)
    if isinstance(to, str):
        if to not in ("int8", "int4"):
            raise InputError(f"templates can be rounded to float16, int8, int4 or within a number, not {to!r}")
        step = most / (2 ** (int(to[3:]) - 1) - 1) if most else 1.0
    else:
        step = 2.0 * float(to)
        if not 0.0 < step < np.inf:
            raise InputError(f"the error of templates must be a number above 0, not {to!r}")
    step = float(np.float32(step))
    return replace(stencil, template=times(whole_steps(template, step), step), step=step)
