"""Compress a panel of a matrix: choose stencils, and the step of what they leave, so that a promise is kept.

Bytes are spent on stencils as long as they save more on what is left, and on that until the promise is kept. Every
promise is checked on the values that are read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.coder import CLOSE, DEAD, Coder, Errors
from accams.fit.distill import distill
from accams.fit.ladder import MORE_ROUNDS, NONE, Ladder, Rung
from accams.fit.numbers import LARGEST, MARGIN, check_bound, numbers_of
from accams.model.panel import Content, Packed
from accams.model.residual import NEAR, TILE
from accams.threads import Threads

RISES = 2  # rungs in a row that do not pay, after which none does
SMALL = 400  # bytes of what is left, below which no stencils are tried
PHASES = 8  # of steps, where there are no stencils
RICH = 0.3  # bits a cell from which on what stencils leave may be worth storing without a bound
HOPE = 2.0  # times the room that numbers may take without stencils, to hope that they fit exactly with some
FILES = 6  # that are made to meet a number of bytes


@dataclass(frozen=True)
class Promise:
    """What is promised of a panel: "max_error", "max_rmse" or "max_bytes", and how much."""

    kind: str
    amount: float


class PanelFit:
    """Compresses one panel."""

    def __init__(
        self, values: NDArray[Any], promise: Promise, *, seed: int = 0, threads: Threads | None = None,
        near: tuple[tuple[int, int], ...] = NEAR, tile: tuple[int, int] = TILE, outside: int = 0,
        report: Callable[[float], None] = lambda error: None,
    ) -> None:  # fmt: skip
        self.promise, self.threads, self.seed, self.report = promise, threads or Threads(), seed, report
        self.outside, self.shape = outside, (values.shape[0], values.shape[1])
        bound = promise.amount if promise.kind == "max_error" else None
        if bound is not None:
            check_bound(values, bound)
        self.numbers = numbers_of(values, bound, None if promise.kind == "max_bytes" else promise.amount)
        self.coder = Coder(self.numbers, self.threads, near, tile)
        to_values = self.coder.to_values  # not `self`: a circle would keep the panel in memory beside the next
        self.ladder = Ladder(self.numbers.cells, seed, self.threads, lambda x: report(x * to_values))

    def pack(self) -> tuple[Packed, Errors]:
        """Return the panel's header fields and tensors, and its errors."""
        exact = self._exact() if self.promise.kind == "max_bytes" and not self.numbers.divisor else None
        if exact is not None:
            return exact
        fit = {"max_error": self._bounded, "max_rmse": self._within_rmse, "max_bytes": self._within_bytes}
        content = fit[self.promise.kind]()
        return content.pack(self.threads), self.coder.errors(content)

    # -- promises ---------------------------------------------------------------------------------------------------

    def _bounded(self) -> Content:
        """Return the smallest panel in which no cell is off by more than the bound."""
        bound = self.promise.amount
        if self.numbers.divisor:
            units = min(bound * self.numbers.divisor, LARGEST)
            step = 2 * int(units if self.numbers.divisor <= 8 else units * (1.0 - 1e-9)) + 1.0
        else:
            eps = float(np.finfo(self.numbers.values.dtype).eps)
            step = 2.0 * bound * (1.0 - MARGIN * eps) / self.coder.to_values
        rung, _ = self._climb(lambda rung: (self.coder.bytes_at(rung, step), step))
        if np.isfinite(rung.price):
            better = self.ladder.rung(rung.price, MORE_ROUNDS)
            rung = min((rung, better), key=lambda each: self.coder.bytes_at(each, step))
        else:  # where nothing is predicted, values that are often the same may fall into one step or into two
            shifts = np.arange(PHASES) / PHASES * step / self.coder.per_cell
            rung = min((rung.shifted(x) for x in shifts), key=lambda each: self.coder.bytes_at(each, step))
        content = self.coder.content(rung.stencils, step)
        return self.coder.with_kept(content, self.coder.off(content, bound))

    def _within_rmse(self) -> Content:
        """Return a small panel whose root mean squared error is at most so much."""
        wanted = self.promise.amount / self.coder.to_values
        for _ in range(FILES):
            rung, step = self._climb(partial(self._at_error, wanted=wanted))
            if not step and np.isfinite(rung.price):
                rung = self._cheapest(rung, wanted)
            content = self.coder.content(rung.stencils, step, DEAD)
            errors = self.coder.errors(content)
            if errors.rms <= self.promise.amount:
                return content
            wanted *= 0.98 * self.promise.amount / errors.rms
        return self.coder.with_worst_kept(content, self.promise.amount)

    def _within_bytes(self) -> Content:
        """Return an accurate panel of at most so many bytes."""
        most, cells = int(self.promise.amount), self.shape[0] * self.shape[1]
        room = most - self._overhead()
        if 8.0 * room < RICH * cells:
            return self._poor(most)
        best: tuple[float, Rung, float] | None = None
        last: list[Rung] = []
        for rung in self.ladder.rungs(lambda: room):
            last.append(rung)
            error, step = self._at_bytes(rung, room)
            if best is None or error < best[0]:
                best = error, rung, step
            if step <= (1.0 + CLOSE) * self.coder.smallest_step() or (error > best[0] and len(last) > 3):
                break
        if best is None or _expected(last, room) < best[0]:
            return self._small(most)
        return self._to_size(best[1], best[2], most) or self._small(most)

    def _exact(self) -> tuple[Packed, Errors] | None:
        """Return a panel without errors if there is room for it: floats may be whole numbers, or decimals."""
        most = self.promise.amount
        try:
            fit = PanelFit(
                self.numbers.values, Promise("max_error", 0.0), seed=self.seed, threads=self.threads,
                near=self.coder.near, tile=self.coder.tile, outside=self.outside, report=self.report,
            )  # fmt: skip
        except InputError:
            return None
        if fit.coder.bytes_at(fit.ladder.bare, 1.0) > HOPE * most:
            return None
        packed, errors = fit.pack()
        return (packed, errors) if packed.nbytes <= most else None

    def _poor(self, most: int) -> Content:
        """Return an accurate panel of a small part of a bit per cell."""
        if min(self.shape) > 1:
            small = self._small(most)
            halving = 2.0 ** (-8.0 * most / (self.shape[0] * self.shape[1]))  # the best that steps can do with so many
            if self.coder.errors(small).rms <= halving * np.sqrt(self.ladder.variance) * self.coder.to_values:
                return small
        else:
            small = self.coder.content(self.ladder.bare.stencils, 0.0)
        steps = self._to_size(self.ladder.bare, 4.0 * float(np.sqrt(self.ladder.variance)) * self.coder.per_cell, most)
        found = [small] if steps is None else [small, steps]
        return min(found, key=lambda each: self.coder.errors(each).rms)

    # -- stencils and steps -----------------------------------------------------------------------------------------

    def _climb(self, cost: Callable[[Rung], tuple[float, float]]) -> tuple[Rung, float]:
        """Return the rung of least cost, in bytes, and its step."""
        best, least, step, rises = self.ladder.bare, np.inf, np.inf, 0

        def most() -> float:
            return least

        for rung in self.ladder.rungs(most):
            bytes_, its_step = cost(rung)
            if bytes_ < least:
                least, step, best, rises = bytes_, its_step, rung, 0
            else:
                rises += 1
            done = not step or least < SMALL or best.error <= 1e-12 * self.ladder.variance
            if done or rises == RISES:
                break
        return best, step

    def _at_error(self, rung: Rung, wanted: float) -> tuple[float, float]:
        """Return about the bytes with these stencils and as many steps as an error needs, and the step; 0 for none."""
        if rung.error <= wanted**2:
            return rung.size, 0.0
        step = self.coder.step_for(rung, lambda step: self.coder.error_at(rung, step) <= wanted)[0]
        return self.coder.bytes_at(rung, step, DEAD), step

    def _at_bytes(self, rung: Rung, room: float) -> tuple[float, float]:
        """Return the error with these stencils and steps that fill the room, and the step."""
        layout = self.coder.layout(self.coder.steps(rung.stencils, self._usual_step(rung, room), DEAD)[0])
        step = self.coder.smallest_step()
        if self.coder.bytes_at(rung, step, DEAD, layout) > room:
            step = self.coder.step_for(rung, lambda step: self.coder.bytes_at(rung, step, DEAD, layout) > room)[1]
        return float(self.coder.error_at(rung, step)), step

    def _usual_step(self, rung: Rung, room: float) -> float:
        """Return about the step with which what stencils leave takes so many bytes, if it is normally distributed."""
        bits = 8.0 * max(room - rung.size, 1.0) / (self.shape[0] * self.shape[1])
        step = 4.0 * float(np.sqrt(rung.error)) * self.coder.per_cell * 0.5 ** min(bits, 64.0)
        return float(max(step, self.coder.smallest_step()))

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
        size = self.coder.content(self.ladder.bare.stencils, 0.0).pack(self.threads).nbytes
        if size > self.promise.amount:
            asked, least = int(self.promise.amount) + self.outside, size + self.outside
            raise InputError(f"max_bytes={asked:,} is too small: give at least {least:,}")
        return size

    def _small(self, most: int) -> Content:
        """Return the best panel of stencils alone."""
        bare = self.ladder.bare
        room = most - self._overhead() + bare.size
        source = self.ladder.source
        content = self.coder.content(bare.stencils, 0.0)
        for _ in range(FILES):
            if room <= bare.size:
                break
            stencils = distill(
                source.target, int(room), NONE, matrix=source.matrix, seed=self.seed, threads=self.threads,
                watch=lambda each: self.report(each.rmse * self.coder.to_values),
            )  # fmt: skip
            content = self.coder.content(stencils, 0.0)
            excess = content.pack(self.threads).nbytes - most
            if excess <= 0:
                return content
            room -= excess + 8
        return self.coder.content(bare.stencils, 0.0)

    def _to_size(self, rung: Rung, step: float, most: int) -> Content | None:
        """Return the panel with these stencils and the finest step with which it fits, None if none does."""
        rung = self.ladder.rung(rung.price, MORE_ROUNDS) if np.isfinite(rung.price) else rung
        best: Content | None = None
        low, high, smallest = 0.0, np.inf, self.coder.smallest_step()  # steps known to be too small, and small enough
        for k in range(2 * FILES):
            step = max(step, smallest)
            content = self.coder.content(rung.stencils, step, DEAD)
            size = content.pack(self.threads).nbytes
            if size <= most:
                best, high = content, step
                if size >= (1.0 - CLOSE) * most or step <= (1.0 + CLOSE) * smallest:
                    break
            else:
                low = step
            # A cell takes log2 of the steps in its range: so many more bytes for a finer step. Where most steps are 0
            # it is fewer, so the least change doubles each time.
            doublings = 8.0 * (size - (1.0 - 0.5 * CLOSE) * most) / (self.shape[0] * self.shape[1])
            change = np.sign(doublings) * np.clip(abs(doublings), 0.5 * CLOSE * 2.0**k, 64.0)
            guess = max(step * 2.0 ** float(change), smallest)
            step = guess if low < guess < high else np.sqrt(low * high) if low and high < np.inf else guess
            if self.numbers.divisor:
                step = float(max(1.0, np.rint(step)))
                if not low < step < high:
                    step = low + 1.0 if best is None else 0.0
                if not step:
                    break
        if best is not None and step <= (1.0 + CLOSE) * smallest:
            everything = self.coder.with_kept(
                self.coder.content(self.ladder.bare.stencils, 0.0), np.ones(self.shape, bool)
            )
            return everything if everything.pack(self.threads).nbytes <= most else best
        return best


def _expected(rungs: list[Rung], room: float) -> float:
    """Return the error to be expected of stencils alone in so many bytes, by the last two rungs."""
    found = [rung for rung in rungs if np.isfinite(rung.price)][-2:]
    if len(found) < 2 or found[1].size <= found[0].size:
        return np.inf
    fall = log2(max(found[0].error, 1e-300) / max(found[1].error, 1e-300)) / log2(found[1].size / found[0].size)
    return float(np.sqrt(found[1].error * (found[1].size / room) ** fall))
