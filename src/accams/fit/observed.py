"""Rate-distortion optimisation of a stencil sum for observed entries: the counterpart of `Encoding` for missing cells.

A round visits every stencil: its rows, then its columns, take the labels of lowest squared error plus `price` times
their bits, given all other stencils; then all templates are refitted jointly. Labels and stencils that are not worth
their bits die out.
"""

from copy import copy
from typing import Self

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
    """Templates and labels that approximate observed entries.

    The engine holds the data; its grid must have the offset of the model. `shrinkage` is the penalty of squared
    template entries, added to the squared error.
    """

    def __init__(self, engine: Engine, model: StencilSum, shrinkage: float = 0.0) -> None:
        self.engine, self.settings = engine, BackfitSettings([], shrinkage=shrinkage)
        self.fixed: list[tuple[NDArray[np.float32], float]] | None = None  # quantised templates, steps
        self._unit = engine.grid.step**2 * engine.grid.weight_step  # one squared tick in units of the data
        self._without = engine.new_state().squared_error()
        ticks = [engine.grid.template(T.astype(np.float64) / engine.grid.step) for T in model.templates]
        self.state = self._restored(ticks, list(model.row_labels), list(model.col_labels))

    def round(self, price: float) -> int:
        """Improve the stencils in turn, drop those not worth their bits, refit; return the number of labels changed."""
        moves = [self._visit(l, price) for l in range(len(self.state.templates))]
        old, kept = self.state, [l for l, moved in enumerate(moves) if moved is not None]
        if len(kept) < len(moves):
            self.state = self._restored(
                [old.templates[l] for l in kept], [old.row_labels[l] for l in kept], [old.col_labels[l] for l in kept]
            )
        refit(self.state, self.settings.shrinkage)
        return sum(1 if moved is None else moved for moved in moves)

    def copy(self) -> Self:
        result = copy(self)
        result.state = self._restored(self.state.templates, self.state.row_labels, self.state.col_labels)
        return result

    def rounded(self, price: float) -> Self:
        result, state = copy(self), self.state
        grid, weight = self.engine.grid, self.engine.observations.total_weight()
        result.fixed = [in_steps(grid.values(T), price, weight) for T in state.templates]
        ticks = [grid.template(T.astype(np.float64) / grid.step) for T, _ in result.fixed]
        result.state = state = self._restored(ticks, state.row_labels, state.col_labels)
        for l in range(len(ticks)):
            state.begin(l)
            for axis in (0, 1):
                state.update(axis, result._rule(ticks[l], axis, price))
            state.end(ticks[l])
        return result

    def left(self) -> tuple[float, float, float]:
        return self.state.squared_error(), self._without, self.engine.observations.total_weight()

    def to_sum(self, price: float, unseen: Unseen) -> StencilSum:
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

    def _visit(self, stencil: int, price: float) -> int | None:
        """Improve one stencil; return the number of labels changed, or None if it is not worth its bits.

        The template of such a stencil becomes zero, so that later visits of the round see the residual without it.
        """
        state, grid = self.state, self.engine.grid
        T, moved, explained = state.templates[stencil], 0, 0.0
        state.begin(stencil)
        for axis in (0, 1):
            tables = state.update(axis, self._rule(T, axis, price))
            T, explained = best_template(tables, grid, self.settings)
            moved += tables.moved
        used = np.prod([len(np.unique(labels)) for labels in state.labels])
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
    """Return a stencil without unused labels."""
    kept = []
    for axis, labels in enumerate((rows, cols)):
        used, new = np.unique(labels, return_inverse=True)
        T = np.take(T, used.astype(np.int64), axis=axis)
        kept.append(new.astype(label_type(len(used))))
    return Stencil(T, kept[0], kept[1], step)
