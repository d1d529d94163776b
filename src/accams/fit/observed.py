"""A stencil sum that comes close to observed entries in few bits: what `Encoding` is where cells are missing.

A round visits every stencil: its rows, then its columns take the labels of lowest squared error plus `price` times
their bits, all other stencils standing as they are; then all templates are refitted at once. Labels that are not worth
their bits die out, and so do stencils.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import Engine, State
from accams.engine.rules import Nearest, Template
from accams.fit.backfit import BackfitSettings, best_template
from accams.fit.price import code_bits, in_steps, stencil_bits
from accams.fit.refit import refit
from accams.fit.search import Unseen
from accams.model.stencils import Labels, Stencil, StencilSum, label_type


class Observed:
    """Templates and labels on their way.

    Parameters
    ----------
    engine : Engine
        The data; its grid must have the offset of the model.
    model : StencilSum
    shrinkage : float
        shrinkage * sum(T^2) is added to the squared error.
    """

    def __init__(self, engine: Engine, model: StencilSum, shrinkage: float = 0.0) -> None:
        self.engine, self.settings = engine, BackfitSettings([], shrinkage=shrinkage)
        self.fixed: list[tuple[NDArray[np.float32], float]] | None = None  # templates in whole steps, if they are
        self._unit = engine.grid.step**2 * engine.grid.weight_step  # what one squared tick stands for
        self._without = engine.new_state().squared_error()
        ticks = [engine.grid.template(T.astype(np.float64) / engine.grid.step) for T in model.templates]
        self.state = self._restored(ticks, list(model.row_labels), list(model.col_labels))

    def round(self, price: float) -> int:
        """Labels and templates of all stencils in turn, then all templates; what does not pay is dropped."""
        moves = [self._visit(l, price) for l in range(len(self.state.templates))]
        old, left = self.state, [l for l, moved in enumerate(moves) if moved is not None]
        if len(left) < len(moves):
            self.state = self._restored(
                [old.templates[l] for l in left], [old.row_labels[l] for l in left], [old.col_labels[l] for l in left]
            )
        refit(self.state, self.settings.shrinkage)
        return sum(1 if moved is None else moved for moved in moves)

    def copy(self) -> Observed:
        """One that can go its own way."""
        made = copy(self)
        made.state = self._restored(self.state.templates, self.state.row_labels, self.state.col_labels)
        return made

    def rounded(self, price: float) -> Observed:
        """A copy with templates in whole steps, as coarse as the price allows, and labels chosen for those."""
        made = copy(self)
        grid, weight = self.engine.grid, self.engine.observations.total_weight()
        made.fixed = [in_steps(grid.values(T), price, weight) for T in self.state.templates]
        ticks = [grid.template(T.astype(np.float64) / grid.step) for T, _ in made.fixed]
        made.state = made._restored(ticks, self.state.row_labels, self.state.col_labels)
        for l in range(len(ticks)):
            made.state.begin(l)
            for axis in (0, 1):
                made.state.update(axis, made._rule(ticks[l], axis, price))
            made.state.end(ticks[l])
        return made

    def left(self) -> tuple[float, float, float]:
        """Squared error: as it is, without any stencil, and the weight of all entries."""
        return self.state.squared_error(), self._without, self.engine.observations.total_weight()

    def to_sum(self, price: float, unseen: Unseen) -> StencilSum:
        """The model; templates in whole steps, unless bits cost nothing."""
        state, grid, weight = self.state, self.engine.grid, self.engine.observations.total_weight()
        pairs: list[tuple[NDArray[np.float32], float | None]] = [(grid.values(T), None) for T in state.templates]
        if self.fixed is not None:
            pairs = [*self.fixed]
        elif price > 0.0:
            pairs = [in_steps(values, price, weight) for values, _ in pairs]
        parts = [
            _compact(values, state.row_labels[l], state.col_labels[l], step) for l, (values, step) in enumerate(pairs)
        ]
        return StencilSum(state.shape, grid.offset, tuple(parts), *unseen)

    # -- inside -------------------------------------------------------------------------------------------------

    def _visit(self, stencil: int, price: float) -> int | None:
        """One stencil: labels of rows, template, labels of columns, template; labels changed, None if it does not pay.

        Then its template becomes zero, so that those after it know that it has gone.
        """
        state, grid = self.state, self.engine.grid
        T, moved, explained = state.templates[stencil], 0, 0.0
        state.begin(stencil)
        for axis in (0, 1):
            tables = state.update(axis, self._rule(T, axis, price))
            T, explained = best_template(tables, grid, self.settings)
            moved += tables.moved
        used = np.prod([len(np.unique(each)) for each in state.labels])
        pays = price == 0.0 or explained * self._unit > price * stencil_bits(int(used), state.labels)
        state.end(T if pays else np.zeros_like(T))
        return moved if pays else None

    def _rule(self, T: Template, axis: int, price: float) -> Nearest:
        shrinkage = self.settings.shrinkage / self.engine.grid.weight_step
        if price == 0.0:
            return Nearest(T, 1.0, shrinkage)
        counts = np.bincount(self.state.labels[axis], minlength=self.state.k[axis])
        bits = code_bits(counts, self.state.shape[axis], self.state.k[1 - axis])
        return Nearest(T, 1.0, shrinkage, price / self._unit * bits)

    def _restored(self, templates: list[Template], row_labels: list[Labels], col_labels: list[Labels]) -> State:
        state = self.engine.new_state()
        state.restore(templates, row_labels, col_labels)
        return state


def _compact(T: NDArray[np.float32], rows: Labels, cols: Labels, step: float | None) -> Stencil:
    """Without the labels that no row (column) has."""
    kept = []
    for axis, labels in enumerate((rows, cols)):
        used, new = np.unique(labels, return_inverse=True)
        T = np.take(T, used.astype(np.int64), axis=axis)
        kept.append(new.astype(label_type(len(used))))
    return Stencil(T, kept[0], kept[1], step)
