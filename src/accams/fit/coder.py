"""Panels of a matrix as stencils and steps: their bytes and their errors, for stencils and a step that are given."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fit.ladder import Rung
from accams.fit.numbers import Numbers
from accams.kernels.residual import squares_left
from accams.model.arithmetic import MOST_STEPS, Arithmetic
from accams.model.panel import Base, Content, tick_for
from accams.model.residual import NEAR, NO_SKIP, TILE, Layout, Skip, bits_of, choose_layout, sampled
from accams.model.stencils import StencilSum
from accams.threads import Threads

ROWS = 1 << 21  # cells by which sizes are estimated, and that are compared at a time
DEAD = 0.12  # of a step, around half a step, that rounds to 0 where only the mean error counts
CLOSE = 0.01  # share of the bytes, or of the error, that may stay unused
FINEST = 2.0**-28  # step of cells, with which even the farthest are reached
Steps = NDArray[np.int32]


@dataclass(frozen=True)
class Errors:
    """Errors of the numbers of a panel."""

    n: int
    rms: float
    largest: float

    @classmethod
    def of(cls, away: NDArray[np.float64]) -> "Errors":
        """Return the errors of differences; their squares may be too large, or too small, for doubles."""
        largest = float(away.max(initial=0.0))
        unit = largest or 1.0
        return cls(away.size, unit * float(np.sqrt(np.mean(np.square(away / unit)))) if away.size else 0.0, largest)

    @classmethod
    def joined(cls, parts: Sequence["Errors"]) -> "Errors":
        """Return the errors of all panels."""
        n, unit = sum(each.n for each in parts), max(each.rms for each in parts) or 1.0
        mean = sum(each.n * (each.rms / unit) ** 2 for each in parts) / max(n, 1)
        return cls(n, unit * float(np.sqrt(mean)), max(each.largest for each in parts))


class Coder:
    """Turns the numbers of a panel into its content, given stencils and a step."""

    def __init__(
        self, numbers: Numbers, threads: Threads, near: tuple[tuple[int, int], ...] = NEAR, tile: tuple[int, int] = TILE
    ) -> None:
        self.numbers, self.threads, self.near, self.tile = numbers, threads, near, tile
        self.shape = numbers.values.shape[0], numbers.values.shape[1]
        self._ticks: tuple[StencilSum, NDArray[np.int32]] | None = None
        self._rest: tuple[StencilSum, NDArray[np.float64]] | None = None
        self._layout_of_kinds = Layout(tile)
        if numbers.kinds is not None:
            self._layout_of_kinds = choose_layout(numbers.kinds.astype(np.int32), NO_SKIP, tile, near)

    @property
    def to_values(self) -> float:
        """What errors of cells are multiplied by to be errors of values."""
        return float(np.ldexp(1.0, self.numbers.scale)) / max(self.numbers.divisor, 1)

    def _arithmetic(self, stencils: StencilSum, step: float) -> Arithmetic:
        n = self.numbers
        if n.values.dtype.kind in "iub":
            step = float(np.rint(step))
        whole = bool(n.divisor)
        return Arithmetic(
            n.values.dtype, n.scale, stencils.offset, tick_for(stencils), int(step) if whole else step, n.divisor,
            n.low, n.high,
        )  # fmt: skip

    def _predicted(self, stencils: StencilSum, arithmetic: Arithmetic) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Iterate over rows and their predictions; a few million cells come at a time, since panels are large."""
        if self._ticks is None or self._ticks[0] is not stencils:  # several steps are tried with the same ones
            whole = slice(0, self.shape[0]), slice(0, self.shape[1])
            self._ticks = stencils, Base.of(stencils, arithmetic.tick).block(*whole, self.threads)
        each = max(1, ROWS // self.shape[1])
        for lo in range(0, self.shape[0], each):
            rows = slice(lo, min(lo + each, self.shape[0]))
            yield rows, arithmetic.predicted(self._ticks[1][rows])

    def steps(self, stencils: StencilSum, step: float, dead: float = 0.0) -> tuple[Steps, NDArray[np.bool_]]:
        """Return steps from predictions to values, and which cells they do not reach."""
        arithmetic = self._arithmetic(stencils, step)
        steps, far = np.empty(self.shape, np.int32), np.empty(self.shape, bool)
        for rows, predicted in self._predicted(stencils, arithmetic):
            steps[rows], far[rows] = arithmetic.steps_to(self.numbers.exact[rows], predicted, dead)
        number = self.numbers.is_number
        if number is not None:
            steps[~number] = 0
            far &= number
        return steps, far

    def bytes_at(self, rung: Rung, step: float, dead: float = 0.0, layout: Layout | None = None) -> float:
        """Return about how many bytes a panel takes with these stencils and this step."""
        steps, far = self.steps(rung.stencils, step, dead)
        return rung.size + self._bits(steps, layout or self.layout(steps)) / 8.0 + 10.0 * float(far.sum())

    def layout(self, steps: Steps) -> Layout:
        """Return how these steps are stored in the fewest bytes."""
        return choose_layout(steps, self._skip, self.tile, self.near)

    @property
    def _skip(self) -> Skip:
        return NO_SKIP if self.numbers.kinds is None else self.numbers.kinds

    def _bits(self, steps: Steps, layout: Layout) -> float:
        tiles = list(layout.tiles(self.shape))
        some = sampled(tiles, ROWS)
        cells = [sum((b - a) * (d - c) for a, b, c, d in each) for each in (tiles, some)]
        return bits_of(steps, self._skip, layout, some) * cells[0] / cells[1] + 40.0 * len(tiles)

    def step_for(self, rung: Rung, fine: Callable[[float], bool]) -> tuple[float, float]:
        """Return a step that is fine enough, and one that is not, close to each other."""
        low, high = self.smallest_step(), 0.0
        high = max(64.0 * float(np.sqrt(rung.error)) * self.per_cell, 2.0 * low)
        while high > (1.0 + CLOSE) * low and (not self.numbers.divisor or high - low > 1.0):
            step = float(np.sqrt(low * high))
            low, high = (step, high) if fine(step) else (low, step)
        return low, high

    @property
    def per_cell(self) -> float:
        """What steps of cells are multiplied by, where they count whole numbers."""
        return float(np.ldexp(1.0, self.numbers.scale)) if self.numbers.divisor else 1.0

    def smallest_step(self) -> float:
        """Return the finest step that is worth while: of whole numbers 1, of floats about their precision."""
        n = self.numbers
        return 1.0 if n.divisor else max(FINEST, float(np.finfo(n.values.dtype).eps))

    def error_at(self, rung: Rung, step: float) -> float:
        """Return the root mean squared error of cells with these stencils and this step."""
        away, whole = self._away(rung.stencils), bool(self.numbers.divisor)
        sums = np.empty(self.shape[0])
        ranges = self.threads.split_evenly(*self.shape)
        step = float(np.rint(step)) if whole else step
        self.threads.run(squares_left, ranges, away, step, DEAD, whole, float(MOST_STEPS), sums)
        number = self.numbers.is_number
        n = away.size if number is None else int(number.sum())
        return float(np.sqrt(sums.sum() / n)) / self.per_cell if n else 0.0

    def _away(self, stencils: StencilSum) -> NDArray[np.float64]:
        """Return how far the cells are from their predictions, in units of the steps; 0 for what is no number."""
        if self._rest is None or self._rest[0] is not stencils:  # the errors of many steps follow
            arithmetic = self._arithmetic(stencils, 1.0)
            away = np.empty(self.shape)
            for rows, predicted in self._predicted(stencils, arithmetic):
                np.subtract(self.numbers.exact[rows], predicted, out=away[rows])
            if self.numbers.is_number is not None:
                away[~self.numbers.is_number] = 0.0
            self._rest = stencils, away
        return self._rest[1]

    def content(self, stencils: StencilSum, step: float, dead: float = 0.0) -> Content:
        """Return the content of a panel with these stencils and this step; 0 for none."""
        n, steps, kept = self.numbers, None, self.numbers.kept
        arithmetic = self._arithmetic(stencils, step)
        layout = Layout(self.tile)
        if step:
            steps, far = self.steps(stencils, step, dead)
            kept = (far if kept is None else kept | far) if far.any() else kept
            layout = self.layout(steps)
        at = np.zeros(0, np.int64) if kept is None else np.flatnonzero(kept)
        layouts = layout, self._layout_of_kinds
        return Content(stencils, arithmetic, steps, n.kinds, layouts, at, n.values.ravel()[at])

    def with_kept(self, content: Content, more: NDArray[np.bool_]) -> Content:
        """Return a panel in which more cells are kept as they are."""
        if not more.any():
            return content
        kept = more.ravel().copy()
        kept[content.kept_at] = True
        at = np.flatnonzero(kept)
        return replace(content, kept_at=at, kept=self.numbers.values.ravel()[at])

    def with_worst_kept(self, content: Content, rmse: float) -> Content:
        """Return a panel in which as many of the worst cells are kept as they are as this mean error needs."""
        squares = np.concatenate([away.astype(np.float64) for away in self._differences(content)])
        with np.errstate(over="ignore"):
            squares = np.square(squares / rmse)
        n = squares.size if self.numbers.kinds is None else int((self.numbers.kinds == 0).sum())
        rising = np.sort(squares, axis=None)
        fine = int(np.searchsorted(np.cumsum(rising), 0.999 * n, side="right"))
        return content if fine == len(rising) else self.with_kept(content, squares >= rising[fine])

    # -- errors -----------------------------------------------------------------------------------------------------

    def off(self, content: Content, bound: float) -> NDArray[np.bool_]:
        """Return which numbers are off by more than the bound."""
        most = bound if self.numbers.divisor else np.nextafter(bound, 0.0)
        return np.concatenate([away > most for away in self._differences(content)])

    def errors(self, content: Content) -> Errors:
        """Return the errors of all numbers."""
        found, lo = list[Errors](), 0
        for away in self._differences(content):
            kinds = None if self.numbers.kinds is None else self.numbers.kinds[lo : lo + len(away)]
            found.append(Errors.of(away.astype(np.float64) if kinds is None else away[kinds == 0].astype(np.float64)))
            lo += len(away)
        return Errors.joined(found)

    def _differences(self, content: Content) -> Iterator[NDArray[Any]]:
        """Iterate over how far the values that will be read are from those that came; 0 for what is no number."""
        arithmetic, n = content.arithmetic, self.shape[1]
        for rows, predicted in self._predicted(content.stencils, arithmetic):
            out = arithmetic.values(predicted, None if content.steps is None else content.steps[rows])
            first, last = np.searchsorted(content.kept_at, [rows.start * n, rows.stop * n])
            out.ravel()[content.kept_at[first:last] - rows.start * n] = content.kept[first:last]
            yield self._distance(self.numbers.values[rows], out, rows)

    def _distance(self, values: NDArray[Any], out: NDArray[Any], rows: slice) -> NDArray[Any]:
        if values.dtype.kind in "iub":
            a, b = np.maximum(values, out), np.minimum(values, out)
            return np.asarray(a.astype(np.uint64) - b.astype(np.uint64))
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(values.astype(np.float64) - out.astype(np.float64))
        if self.numbers.kinds is not None:
            away[self.numbers.kinds[rows] > 0] = 0.0
        return away
