"""StencilSum: an offset and a sum of stencils."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.errors import InputError
from accams.html import html_table
from accams.model.codes import Codes, position_pairs
from accams.model.packing import save
from accams.model.size import Size, bytes_text, model_bits, size_of
from accams.model.stencil import Labels, Stencil, SumFields, label_type, times, whole_steps

if TYPE_CHECKING:
    from accams.data.observations import Observations

__all__ = ["Labels", "Stencil", "StencilSum", "label_type"]


@dataclass(frozen=True, eq=False, repr=False)
class StencilSum(SumFields):
    """The model ``offset + sum_l template_l[row_labels_l[i], col_labels_l[j]]``, plus effects if there are any.

    Parameters
    ----------
    shape : (int, int)
    offset : float
    stencils : sequence of Stencil
    unseen_rows, unseen_cols : arrays of positions
        Rows and columns without training data: they are predicted as the average row (column), like position -1.
    row_effects, col_effects : arrays or None
        One number per row and per column, added to the sum (0 for those without training data).

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (int(self.shape[0]), int(self.shape[1])))
        if getattr(self.stencils, "shape", None) != self.shape:  # those of a file are unpacked on first access
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
            if getattr(self, name) is not None:
                effects = np.asarray(getattr(self, name), dtype=np.float32)
                if effects.shape != (size,) or not np.isfinite(effects).all():
                    raise InputError(f"{name} must be {size} finite numbers")
                object.__setattr__(self, name, effects)

    @property
    def templates(self) -> list[NDArray[np.float32]]:
        """The template of each stencil."""
        known = getattr(self.stencils, "templates", None)  # without unpacking labels
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
        effects = sum(32.0 * len(x) for x in (self.row_effects, self.col_effects) if x is not None)
        return effects + model_bits(self.shape, [(T.shape[0], T.shape[1]) for T in self.templates])

    @property
    def size(self) -> Size:
        """Size in bits by the paper's formula, in entropy of the labels, and in bytes on disk, part by part."""
        return size_of(self)

    def __len__(self) -> int:
        return len(self.stencils)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"StencilSum({m:,} x {n:,}, {len(self)} stencils, {self.bits / 8000:,.1f} KB)"

    def _repr_html_(self) -> str:
        m, n = self.shape
        rows = {"shape": f"{m:,} x {n:,}", "stencils": f"{len(self):,}", "offset": f"{self.offset:.6g}"}
        return html_table("stencil sum", rows | {"size": bytes_text(self.bits / 8)})

    def append(self, template: ArrayLike, row_labels: ArrayLike, col_labels: ArrayLike) -> Self:
        """Return a sum with one more stencil at the end.

        Parameters
        ----------
        template : array-like (row cluster, column cluster)
        row_labels, col_labels : array-like of int

        Returns
        -------
        StencilSum
        """
        stencil = Stencil(np.asarray(template), np.asarray(row_labels), np.asarray(col_labels))
        return replace(self, stencils=(*self.stencils, stencil))

    def truncate(self, n_stencils: int) -> Self:
        """Return the sum of the first `n_stencils` stencils.

        Parameters
        ----------
        n_stencils : int

        Returns
        -------
        StencilSum
        """
        if not 0 <= n_stencils <= len(self):
            raise InputError(f"this model has {len(self)} stencils, so it cannot be cut to {n_stencils}")
        return replace(self, stencils=self.stencils[:n_stencils])

    def transposed(self) -> Self:
        """Return the sum with rows and columns exchanged."""
        turned = [Stencil(s.template.T, s.col_labels, s.row_labels, s.step) for s in self.stencils]
        unseen, effects = (self.unseen_cols, self.unseen_rows), (self.col_effects, self.row_effects)
        return type(self)(self.shape[::-1], self.offset, tuple(turned), *unseen, *effects)

    def rounded(self, to: str | float) -> Self:
        """Return a sum with templates rounded to fewer bits.

        Parameters
        ----------
        to : {"float16", "int8", "int4"} or float
            Type of the entries: floats of 16 bits, or integers of 8 or 4 bits times a step of each template. A number
            is the largest error of an entry: as in the paper's lemma on compression, a prediction is then off by at
            most that times the number of stencils.

        Returns
        -------
        StencilSum

        Examples
        --------
        >>> model = StencilSum((2, 2)).append([[0.52, -0.18]], [0, 0], [0, 1]).rounded(0.05)
        >>> model.templates[0].round(2), round(model.stencils[0].step, 6)
        (array([[ 0.5, -0.2]], dtype=float32), 0.1)
        """
        return replace(self, stencils=tuple(_rounded(s, to) for s in self.stencils))

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Predict the cells (rows[p], cols[p]).

        Position -1 is an unknown row (column): the average of the template's rows (columns), weighted by how many rows
        (columns) with training data have each label.

        Parameters
        ----------
        rows, cols : array-like of int

        Returns
        -------
        array of float
        """
        return self.codes.predict(*position_pairs(rows, cols, self.shape))

    def dense(self) -> NDArray[np.float64]:
        """Return the whole matrix of predictions (m x n numbers: only for matrices that fit in memory)."""
        out, codes = np.full(self.shape, self.offset), self.codes
        for p in range(len(self)):
            out += codes.template(p)[codes.rows[:-1, p]][:, codes.cols[:-1, p]]
        if codes.row_effects is not None:
            out += codes.row_effects[:-1, None]
        if codes.col_effects is not None:
            out += codes.col_effects[:-1]
        return out

    def residual(self, observations: "Observations") -> NDArray[np.float64]:
        """Return observed value minus prediction of every stored entry, in row order.

        Parameters
        ----------
        observations : Observations
            Of the same shape.

        Returns
        -------
        array of float
        """
        if observations.shape != self.shape:
            raise InputError(f"the observations are {observations.shape} but the model is {self.shape}")
        rows, cols, values = observations.coo()
        return values - self.predict(rows, cols)

    def save(self, path: str | Path, *, coding: str = "auto") -> None:
        """Write the model to one file; `accams.load` reads it.

        Parameters
        ----------
        path : path
        coding : {"auto", "entropy", "packed"}
            Coding of labels: entropy-coded, or packed, so that the file is opened without decoding anything; "auto"
            takes the smaller one.
        """
        save(path, self, coding=coding)

    @cached_property
    def codes(self) -> Codes:
        """Labels and templates laid out for prediction."""
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
            raise InputError(f"templates can be rounded to float16, int8, int4 or within an error, not {to!r}")
        step = most / (2 ** (int(to[3:]) - 1) - 1) if most else 1.0
    else:
        step = 2.0 * float(to)
        if not 0.0 < step < np.inf:
            raise InputError(f"the error of templates must be a number above 0, not {to!r}")
    step = float(np.float32(step))
    return replace(stencil, template=times(whole_steps(template, step), step), step=step)
