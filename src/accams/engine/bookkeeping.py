"""Labels and templates of a chain, kept in this process."""

import numpy as np

from accams.engine.passes import Data, Passes
from accams.engine.rules import Template
from accams.errors import InputError
from accams.kernels.sparse import MAX_LABELS
from accams.model.stencils import Labels, label_type


class Bookkeeping(Passes):
    """Stencils of a chain as arrays; passes over the data are left to subclasses."""

    def __init__(self, engine: Data) -> None:
        super().__init__(engine)
        self.templates: list[Template] = []
        self.row_labels: list[Labels] = []
        self.col_labels: list[Labels] = []
        self.current: int | None = None
        self._labels: list[Labels] = []  # of the current stencil: rows, columns

    @property
    def labels(self) -> list[Labels]:
        """Row and column labels of the current stencil."""
        return self._labels

    def begin(self, stencil: int, k: tuple[int, int] | None = None) -> None:
        """Make stencil number `stencil` the current one, or start a new one with k = (k_rows, k_cols)."""
        if self.current is not None:
            raise RuntimeError("end the current stencil before beginning another")
        self.current = stencil
        if stencil < len(self.templates):
            self.k = (self.templates[stencil].shape[0], self.templates[stencil].shape[1])
            self._labels = [self.row_labels[stencil].copy(), self.col_labels[stencil].copy()]
        else:
            assert k is not None
            if max(k) > MAX_LABELS:
                raise InputError(f"a stencil can have at most {MAX_LABELS} clusters per side, not {max(k)}")
            self.k = k
            self._labels = [np.zeros(size, label_type(k_axis)) for size, k_axis in zip(self.shape, k, strict=True)]
        self._residual_changed()

    def end(self, T: Template) -> None:
        """Store the current stencil with its labels and this template."""
        assert self.current is not None
        stencil, self.current = self.current, None
        if stencil == len(self.templates):
            self.templates.append(T)
            self.row_labels.append(self._labels[0])
            self.col_labels.append(self._labels[1])
        else:
            self.templates[stencil] = T
            self.row_labels[stencil], self.col_labels[stencil] = self._labels
        self._residual_changed()

    def set_labels(self, axis: int, labels: Labels) -> None:
        """Replace the current stencil's labels of an axis."""
        self._labels[axis] = labels.astype(label_type(self.k[axis]))
