"""Compress a panel of a matrix: choose stencils, and the step of what they leave, so that a promise is kept.

Bytes are spent on stencils as long as they save more on what is left, and on that until the promise is kept. Every
promise is checked on the values that are read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.distill import distill
from accams.fit.ladder import MORE_ROUNDS, NONE, Ladder, Rung
from accams.fit.numbers import LARGEST, MARGIN, Numbers, check_bound, numbers_of
from accams.model.arithmetic import Arithmetic
from accams.model.panel import Base, Content, Packed, tick_for
from accams.model.residual import NEAR, NO_SKIP, TILE, Layout, Skip, bits_of, choose_layout, sampled
from accams.model.stencils import StencilSum
from accams.threads import Threads

ROWS = 1 << 21  # cells by which sizes are estimated
RISES = 2  # rungs in a row that do not pay, after which none does
SMALL = 400  # bytes of what is left, below which no stencils are tried
PHASES = 8  # of steps, where there are no stencils
DEAD = 0.12  # of a step, around half a step, that rounds to 0 where only the mean error counts
CLOSE = 0.01  # share of the bytes, or of the error, that may stay unused
RICH = 0.3  # bits a cell from which on what stencils leave may be worth storing without a bound
FINEST = 2.0**-28  # step of cells, with which even the farthest are reached
FILES = 6  # that are made to meet a number of bytes
Steps = NDArray[np.int32]


@dataclass(frozen=True)
class Promise:
    """What is promised of a panel: "max_error", "max_rmse" or "max_bytes", and how much."""

    kind: str
    amount: float


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


class PanelFit:
    """Compresses one panel."""

    def __init__(
        self, values: NDArray[Any], promise: Promise, *, seed: int = 0, threads: Threads | None = None,
        near: tuple[tuple[int, int], ...] = NEAR, tile: tuple[int, int] = TILE, outside: int = 0,
        report: Callable[[float], None] = lambda error: None,
    ) -> None:  # fmt: skip
        self.promise, self.threads, self.seed, self.report = promise, threads or Threads(), seed, report
        self.near, self.tile, self.outside = near, tile, outside
        bound = promise.amount if promise.kind == "max_error" else None
        if bound is not None:
            check_bound(values, bound)
        self.numbers: Numbers = numbers_of(values, bound, None if promise.kind == "max_bytes" else promise.amount)
        self.shape = values.shape[0], values.shape[1]
        self.ladder = Ladder(self.numbers.cells, seed, self.threads, lambda x: report(x * self._to_values))
        self._layout_of_kinds = Layout(tile)
        if self.numbers.kinds is not None:
            kinds = self.numbers.kinds.astype(np.int32)
            self._layout_of_kinds = choose_layout(kinds, NO_SKIP, tile, near)

    @property
    def _to_values(self) -> float:
        """What errors of cells are multiplied by to be errors of values."""
        return float(np.ldexp(1.0, self.numbers.scale)) / max(self.numbers.divisor, 1)

    def pack(self) -> tuple[Packed, Errors]:
        """Return the panel's header fields and tensors, and its errors."""
        fit = {"max_error": self._bounded, "max_rmse": self._within_rmse, "max_bytes": self._within_bytes}
        content = fit[self.promise.kind]()
        return content.pack(self.threads), self._errors(self._decoded(content), content)

    # -- promises ---------------------------------------------------------------------------------------------------

    def _bounded(self) -> Content:
        """Return the smallest panel in which no cell is off by more than the bound."""
        bound = self.promise.amount
        if self.numbers.divisor:
            units = min(bound * self.numbers.divisor, LARGEST)
            step = 2 * int(units if self.numbers.divisor <= 8 else units * (1.0 - 1e-9)) + 1.0
        else:
            eps = float(np.finfo(self.numbers.values.dtype).eps)
            step = 2.0 * bound * (1.0 - MARGIN * eps) / self._to_values
        rung, _ = self._climb(lambda rung: (self._bytes_at(rung, step), step))
        if np.isfinite(rung.price):
            better = self.ladder.rung(rung.price, MORE_ROUNDS)
            rung = min((rung, better), key=lambda each: self._bytes_at(each, step))
        else:  # where nothing is predicted, values that are often the same may fall into one step or into two
            shifts = np.arange(PHASES) / PHASES * step / self._per_cell
            rung = min((self._shifted(rung, x) for x in shifts), key=lambda each: self._bytes_at(each, step))
        content = self._content(rung.stencils, step)
        wrong = self._off(self._decoded(content), bound)
        return content if wrong is None else self._with_kept(content, wrong)

    def _within_rmse(self) -> Content:
        """Return a small panel whose root mean squared error is at most so much."""
        wanted = self.promise.amount / self._to_values
        for _ in range(FILES):
            rung, step = self._climb(partial(self._at_error, wanted=wanted))
            if not step and np.isfinite(rung.price):
                rung = self._cheapest(rung, wanted)
            content = self._content(rung.stencils, step, DEAD)
            errors = self._errors(self._decoded(content), content)
            if errors.rms <= self.promise.amount:
                return content
            wanted *= 0.98 * self.promise.amount / errors.rms
        return self._with_worst_kept(content)

    def _within_bytes(self) -> Content:
        """Return an accurate panel of at most so many bytes."""
        most, cells = int(self.promise.amount), self.shape[0] * self.shape[1]
        room = most - self._overhead()
        if 8.0 * room < RICH * cells:
            return self._small(most)
        best: tuple[float, Rung, float] | None = None
        last: list[Rung] = []
        for rung in self._rungs():
            if rung.size >= room:
                break
            last.append(rung)
            error, step = self._at_bytes(rung, room)
            if best is None or error < best[0]:
                best = error, rung, step
            if step <= (1.0 + CLOSE) * self._smallest_step() or (error > best[0] and len(last) > 3):
                break
        if best is None or _expected(last, room) < best[0]:
            return self._small(most)
        return self._to_size(best[1], best[2], most)

    # -- stencils and steps -----------------------------------------------------------------------------------------

    def _rungs(self) -> Any:
        yield self.ladder.bare
        for price in self.ladder.prices():
            yield self.ladder.rung(price)

    def _climb(self, cost: Callable[[Rung], tuple[float, float]]) -> tuple[Rung, float]:
        """Return the rung of least cost, in bytes, and its step."""
        bare = self.ladder.bare
        (least, step), best, rises = cost(bare), bare, 0
        for price in self.ladder.prices():
            done = not step or least < SMALL or best.error <= 1e-12 * self.ladder.variance
            if done or rises == RISES:
                break
            rung = self.ladder.rung(price)
            bytes_, its_step = cost(rung)
            if bytes_ < least:
                least, step, best, rises = bytes_, its_step, rung, 0
            else:
                rises += 1
            if rung.size > least:
                break
        return best, step

    @staticmethod
    def _shifted(rung: Rung, shift: float) -> Rung:
        """Return a rung with another offset."""
        return replace(rung, stencils=replace(rung.stencils, offset=rung.stencils.offset + shift))

    def _arithmetic(self, stencils: StencilSum, step: float) -> Arithmetic:
        n = self.numbers
        if n.values.dtype.kind in "iub":
            step = float(np.rint(step))
        whole = bool(n.divisor)
        return Arithmetic(
            n.values.dtype, n.scale, stencils.offset, tick_for(stencils), int(step) if whole else step, n.divisor,
            n.low, n.high,
        )  # fmt: skip

    def _predicted(self, stencils: StencilSum, arithmetic: Arithmetic) -> NDArray[Any]:
        whole = slice(0, self.shape[0]), slice(0, self.shape[1])
        return arithmetic.predicted(Base.of(stencils, arithmetic.tick).block(*whole, self.threads))

    def _steps(self, stencils: StencilSum, step: float, dead: float = 0.0) -> tuple[Steps, NDArray[np.bool_], Any]:
        arithmetic = self._arithmetic(stencils, step)
        predicted = self._predicted(stencils, arithmetic)
        steps, far = arithmetic.steps_to(self.numbers.exact, predicted, dead)
        number = self.numbers.is_number
        if number is not None:
            steps[~number] = 0
            far &= number
        return steps, far, (arithmetic, predicted)

    def _bytes_at(self, rung: Rung, step: float, dead: float = 0.0, layout: Layout | None = None) -> float:
        """Return about how many bytes a panel takes with these stencils and this step."""
        steps, far, _ = self._steps(rung.stencils, step, dead)
        return rung.size + self._bits(steps, layout or self._layout(steps)) / 8.0 + 10.0 * float(far.sum())

    def _layout(self, steps: Steps) -> Layout:
        return choose_layout(steps, self._skip, self.tile, self.near)

    @property
    def _skip(self) -> Skip:
        return NO_SKIP if self.numbers.kinds is None else self.numbers.kinds

    def _bits(self, steps: Steps, layout: Layout) -> float:
        tiles = list(layout.tiles(self.shape))
        some = sampled(tiles, ROWS)
        cells = [sum((b - a) * (d - c) for a, b, c, d in each) for each in (tiles, some)]
        return bits_of(steps, self._skip, layout, some) * cells[0] / cells[1] + 40.0 * len(tiles)

    def _at_error(self, rung: Rung, wanted: float) -> tuple[float, float]:
        """Return about the bytes with these stencils and as many steps as an error needs, and the step; 0 for none."""
        if rung.error <= wanted**2:
            return rung.size, 0.0
        step = self._step_for(rung, lambda step: self._error_at(rung, step) <= wanted)[0]
        return self._bytes_at(rung, step, DEAD), step

    def _step_for(self, rung: Rung, fine: Callable[[float], bool]) -> tuple[float, float]:
        """Return a step that is fine enough, and one that is not, close to each other."""
        low, high = self._smallest_step(), 0.0
        high = max(64.0 * float(np.sqrt(rung.error)) * self._per_cell, 2.0 * low)
        while high > (1.0 + CLOSE) * low and (not self.numbers.divisor or high - low > 1.0):
            step = float(np.sqrt(low * high))
            low, high = (step, high) if fine(step) else (low, step)
        return low, high

    @property
    def _per_cell(self) -> float:
        """What steps of cells are multiplied by, where they count whole numbers."""
        return float(np.ldexp(1.0, self.numbers.scale)) if self.numbers.divisor else 1.0

    def _smallest_step(self) -> float:
        n = self.numbers
        return 1.0 if n.divisor else max(FINEST, float(np.finfo(n.values.dtype).eps))

    def _error_at(self, rung: Rung, step: float) -> float:
        """Return the root mean squared error of cells with these stencils and this step."""
        steps, far, (arithmetic, predicted) = self._steps(rung.stencils, step, DEAD)
        whole = int(arithmetic.step) * steps.astype(np.int64) if self.numbers.divisor else arithmetic.step * steps
        rest = (self.numbers.exact - predicted - whole) / self._per_cell
        rest[far] = 0.0  # which are kept
        number = self.numbers.is_number
        rest = rest if number is None else rest[number]
        return float(np.sqrt(np.mean(np.square(rest)))) if rest.size else 0.0

    def _at_bytes(self, rung: Rung, room: float) -> tuple[float, float]:
        """Return the error with these stencils and steps that fill the room, and the step."""
        layout = self._layout(self._steps(rung.stencils, self._usual_step(rung, room), DEAD)[0])
        step = self._smallest_step()
        if self._bytes_at(rung, step, DEAD, layout) > room:
            step = self._step_for(rung, lambda step: self._bytes_at(rung, step, DEAD, layout) > room)[1]
        return float(self._error_at(rung, step)), step

    def _usual_step(self, rung: Rung, room: float) -> float:
        """Return about the step with which what stencils leave takes so many bytes, if it is normally distributed."""
        bits = 8.0 * max(room - rung.size, 1.0) / (self.shape[0] * self.shape[1])
        step = 4.0 * float(np.sqrt(rung.error)) * self._per_cell * 0.5 ** min(bits, 64.0)
        return float(max(step, self._smallest_step()))

    def _cheapest(self, rung: Rung, wanted: float) -> Rung:
        """Return stencils that just have the wanted error, found between a rung and the one before."""
        low, high = rung.price, rung.price * 4.0
        for _ in range(3):
            price = float(np.sqrt(low * high))
            found = self.ladder.rung(price, MORE_ROUNDS)
            if found.error <= wanted**2:
                low = price
                rung = min((rung, found), key=lambda each: each.size)
                if found.error > (wanted * (1.0 - CLOSE)) ** 2:
                    break
            else:
                high = price
        return rung

    # -- sizes ------------------------------------------------------------------------------------------------------

    def _overhead(self) -> int:
        """Return the bytes of a panel without stencils and steps; raise InputError if there is no room for it."""
        size = self._content(self.ladder.bare.stencils, 0.0).pack(self.threads).nbytes
        if size > self.promise.amount:
            raise InputError(
                f"max_bytes={int(self.promise.amount) + self.outside:,} is too small: without any stencil the file "
                f"takes {size + self.outside:,}"
            )
        return size

    def _small(self, most: int) -> Content:
        """Return the best panel of stencils alone."""
        bare = self.ladder.bare
        room = most - self._overhead() + bare.size
        source = self.ladder.source
        content = self._content(bare.stencils, 0.0)
        for _ in range(FILES):
            if room <= bare.size:
                break
            stencils = distill(
                source.target, int(room), NONE, matrix=source.matrix, seed=self.seed, threads=self.threads,
                watch=lambda each: self.report(each.rmse * self._to_values),
            )  # fmt: skip
            content = self._content(stencils, 0.0)
            excess = content.pack(self.threads).nbytes - most
            if excess <= 0:
                return content
            room -= excess + 8
        return self._content(bare.stencils, 0.0)

    def _to_size(self, rung: Rung, step: float, most: int) -> Content:
        """Return the panel with these stencils and the finest step with which it fits."""
        rung = self.ladder.rung(rung.price, MORE_ROUNDS) if np.isfinite(rung.price) else rung
        best: Content | None = None
        low, high, smallest = 0.0, np.inf, self._smallest_step()  # steps known to be too small, and small enough
        for _ in range(2 * FILES):
            step = max(step, smallest)
            content = self._content(rung.stencils, step, DEAD)
            size = content.pack(self.threads).nbytes
            if size <= most:
                best, high = content, step
                if size >= (1.0 - CLOSE) * most or step <= (1.0 + CLOSE) * smallest:
                    break
            else:
                low = step
            # A cell takes log2 of the steps in its range: so many more bytes for a finer step.
            doublings = 8.0 * (size - (1.0 - 0.5 * CLOSE) * most) / (self.shape[0] * self.shape[1])
            guess = max(step * 2.0 ** float(np.clip(doublings, -64.0, 64.0)), smallest)
            step = guess if low < guess < high else np.sqrt(low * high) if low and high < np.inf else guess
            if self.numbers.divisor:
                step = float(max(1.0, np.rint(step)))
                if not low < step < high:
                    step = low + 1.0 if best is None else 0.0
                if not step:
                    break
        if best is not None and step <= (1.0 + CLOSE) * smallest:
            everything = self._with_kept(self._content(self.ladder.bare.stencils, 0.0), np.ones(self.shape, bool))
            return everything if everything.pack(self.threads).nbytes <= most else best
        return best or self._small(most)

    # -- contents ---------------------------------------------------------------------------------------------------

    def _content(self, stencils: StencilSum, step: float, dead: float = 0.0) -> Content:
        n, steps, kept = self.numbers, None, self.numbers.kept
        arithmetic = self._arithmetic(stencils, step)
        layout = Layout(self.tile)
        if step:
            steps, far, _ = self._steps(stencils, step, dead)
            kept = (far if kept is None else kept | far) if far.any() else kept
            layout = self._layout(steps)
        at = np.zeros(0, np.int64) if kept is None else np.flatnonzero(kept)
        layouts = layout, self._layout_of_kinds
        return Content(stencils, arithmetic, steps, n.kinds, layouts, at, n.values.ravel()[at])

    def _decoded(self, content: Content) -> NDArray[Any]:
        """Return the values that will be read, but for those that are no numbers."""
        predicted = self._predicted(content.stencils, content.arithmetic)
        out = content.arithmetic.values(predicted, content.steps)
        out.ravel()[content.kept_at] = content.kept
        return out

    def _differences(self, out: NDArray[Any]) -> NDArray[Any]:
        values = self.numbers.values
        if values.dtype.kind in "iub":
            a, b = np.maximum(values, out), np.minimum(values, out)
            return np.asarray(a.astype(np.uint64) - b.astype(np.uint64))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.abs(values.astype(np.float64) - out.astype(np.float64))

    def _off(self, out: NDArray[Any], bound: float) -> NDArray[np.bool_] | None:
        """Return which numbers are off by more than the bound; None if none is."""
        most = bound if self.numbers.divisor else np.nextafter(bound, 0.0)
        wrong = self._differences(out) > most
        if self.numbers.kinds is not None:
            wrong &= self.numbers.kinds == 0
        return wrong if wrong.any() else None

    def _with_kept(self, content: Content, more: NDArray[np.bool_]) -> Content:
        """Return a panel in which more cells are kept as they are."""
        kept = more.ravel().copy()
        kept[content.kept_at] = True
        at = np.flatnonzero(kept)
        return replace(content, kept_at=at, kept=self.numbers.values.ravel()[at])

    def _with_worst_kept(self, content: Content) -> Content:
        """Return a panel in which as many of the worst cells are kept as they are as the mean error needs."""
        away = self._differences(self._decoded(content)).astype(np.float64)
        if self.numbers.kinds is not None:
            away[self.numbers.kinds > 0] = 0.0
        with np.errstate(over="ignore"):
            squares = np.square(away / self.promise.amount)
        n = away.size if self.numbers.kinds is None else int((self.numbers.kinds == 0).sum())
        rising = np.sort(squares, axis=None)
        fine = int(np.searchsorted(np.cumsum(rising), 0.999 * n, side="right"))
        return content if fine == len(rising) else self._with_kept(content, squares >= rising[fine])

    def _errors(self, out: NDArray[Any], content: Content) -> Errors:
        away = self._differences(out).astype(np.float64)
        if self.numbers.kinds is not None:
            away = away[self.numbers.kinds == 0]
        return Errors.of(away)


def _expected(rungs: list[Rung], room: float) -> float:
    """Return the error to be expected of stencils alone in so many bytes, by the last two rungs."""
    found = [rung for rung in rungs if np.isfinite(rung.price)][-2:]
    if len(found) < 2 or found[1].size <= found[0].size:
        return np.inf
    fall = log2(max(found[0].error, 1e-300) / max(found[1].error, 1e-300)) / log2(found[1].size / found[0].size)
    return float(np.sqrt(found[1].error * (found[1].size / room) ** fall))
