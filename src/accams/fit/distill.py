"""One small stencil sum in place of a large predictor: the best of at most so many bytes on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.encode import ENTRY_BITS, Encoding
from accams.fit.starts import clusters_start, grow, levels_start
from accams.fit.target import Target
from accams.model import file
from accams.model.stencils import StencilSum
from accams.threads import Threads

Shape = tuple[int, int]
Unseen = tuple[NDArray[np.int64], NDArray[np.int64]]
ROUNDS = 12  # of improving labels and templates
SEARCH = 8  # prices tried for the start, and for the end
CLOSE = 0.015  # share of the bytes that may be left
SLOPE = 0.55  # the bytes fall about as this power of the price
LOPSIDED = 4.0  # sides of so different lengths also begin with clusters
ROOM = 0.9  # share of the bytes below which stencils are added to quantised vectors too,
SMALL = (8, 8)  # of this shape
SHARE = 0.25  # of the bits of labels that clusters may take for templates


@dataclass(frozen=True)
class Round:
    """What a callback is told: rounds done and planned, the model's distance from the target as it stands, seconds."""

    done: int
    planned: int
    rmse: float
    seconds: float


Watch = Callable[[Round], None]


def distill(
    target: Target, max_bytes: int, unseen: Unseen, *, start: StencilSum | None = None, seed: int = 0,
    threads: Threads | None = None, watch: Watch | None = None,
) -> StencilSum:  # fmt: skip
    """A stencil sum close to `target` whose file has at most `max_bytes`.

    The price of a bit is raised or lowered until the file is as large as it may be. `start` is a sum to begin with
    beside those that are made.
    """
    threads = threads or Threads()
    least = len(file.to_bytes(StencilSum(target.shape, target.offset, (), *unseen)))
    if max_bytes < least:
        raise InputError(f"max_bytes={max_bytes:,} is too small: a model without any stencil takes {least:,}")
    search = _Search(target, int(max_bytes), least, unseen, perf_counter(), seed, watch)
    price, encoding = search.first_price(threads)
    found: list[tuple[Encoding, Shape | None]] = [(encoding, None)]
    found += [(clusters_start(target, shape, price, threads, seed), shape) for shape in _shapes(target.shape)]
    if start is not None:
        found.append((Encoding.of(start, target, threads), None))
    if len(found) > 1:
        for each, _ in found:
            search.improve(each, price, 2)
        found.sort(key=lambda each: search.cost(each[0], price))
    return search.finish(*found[0], price)


@dataclass
class _Search:
    target: Target
    max_bytes: int
    least: int
    unseen: Unseen
    began: float
    seed: int
    watch: Watch | None
    done: int = 0

    def first_price(self, threads: Threads) -> tuple[float, Encoding]:
        """The price of a bit at which quantised singular vectors are about as large as the model may be."""
        price = float(np.square(self.target.singular_values).sum()) / (8.0 * self.max_bytes) + 1e-300
        found = levels_start(self.target, price, threads, self.seed)
        for _ in range(SEARCH):
            share = self.share(self.size(found, price))
            if abs(log2(share)) < 0.05:
                break
            price *= share ** (1.0 / SLOPE)
            found = levels_start(self.target, price, threads, self.seed)
        return price, found

    def share(self, size: int) -> float:
        """What part of the room for stencils a file of this size takes, within bounds that a price can follow."""
        return float(np.clip((size - self.least) / max(self.max_bytes - self.least, 1), 0.1, 10.0))

    def size(self, encoding: Encoding, price: float) -> int:
        """Bytes of the file."""
        return len(file.to_bytes(encoding.to_sum(price, self.unseen)))

    def cost(self, encoding: Encoding, price: float) -> float:
        """Error and bits."""
        return encoding.error() + price * 8.0 * self.size(encoding, price)

    def improve(self, encoding: Encoding, price: float, rounds: int) -> None:
        """Labels of rows, templates, labels of columns, templates; then what does not pay is dropped."""
        for _ in range(rounds):
            moved = 0
            for axis in (0, 1):
                moved += encoding.improve_labels(axis, price)
                encoding.refit()
            encoding.compact()
            if encoding.drop_what_does_not_pay(price):
                encoding.refit()
            self._tell(encoding)
            if moved == 0:
                break

    def finish(self, encoding: Encoding, shape: Shape | None, price: float) -> StencilSum:
        """Improve, then turn the price until the file is as large as it may be."""
        for _ in range(ROUNDS // 3):
            self.improve(encoding, price, 3)
            price *= self.share(self.size(encoding, price)) ** (0.5 / SLOPE)
            if shape is not None or self.share(self.size(encoding, price)) < ROOM:
                self._fill(encoding, shape or SMALL, price)
        best: tuple[float, StencilSum] | None = None
        for _ in range(2 * SEARCH):
            model, error = self._rounded(encoding, price)
            size = len(file.to_bytes(model))
            if size <= self.max_bytes and (best is None or error < best[0]):
                best = error, model
            if size <= self.max_bytes and (size >= (1.0 - CLOSE) * self.max_bytes or not self._worth_more(encoding)):
                break
            price *= float(np.clip(self.share(size) / (1.0 - CLOSE / 2.0), 0.5, 2.0)) ** (1.0 / SLOPE)
            self.improve(encoding, price, 1)
        if best is None:
            return StencilSum(self.target.shape, self.target.offset, (), *self.unseen)
        return best[1]

    def _fill(self, encoding: Encoding, shape: Shape, price: float) -> None:
        """More stencils, and smaller ones, if there is room for them."""
        while min(shape) >= 2 and self.size(encoding, price) < (1.0 - CLOSE) * self.max_bytes:
            if grow(encoding, shape, price, self.seed):
                encoding.refit()
            shape = shape[0] // 2, shape[1] // 2

    def _rounded(self, encoding: Encoding, price: float) -> tuple[StencilSum, float]:
        """The model with its templates rounded and labels chosen for those, and its error."""
        rounded = encoding.rounded(price)
        for axis in (0, 1):
            rounded.improve_labels(axis, price)
        rounded.compact()
        return rounded.to_sum(price, self.unseen), rounded.error()

    def _worth_more(self, encoding: Encoding) -> bool:
        """Whether there is any error left to spend bytes on."""
        total = float(np.square(self.target.singular_values).sum())
        return total + encoding.error() > 1e-9 * total

    def _tell(self, encoding: Encoding) -> None:
        self.done += 1
        if self.watch is not None:
            total = float(np.square(self.target.singular_values).sum()) + np.nan_to_num(self.target.rest)
            rmse = float(np.sqrt(max(total + encoding.error(), 0.0) / self.target.total_weight))
            self.watch(Round(self.done, max(ROUNDS + SEARCH, self.done), rmse, perf_counter() - self.began))


def _shapes(shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Template shapes for clusters: many on the short side, where labels cost little."""
    if max(shape) < LOPSIDED * min(shape):
        return []
    found = []
    for k_long in (16, 32):
        k_short = 2
        while k_short < min(min(shape), 256) and ENTRY_BITS * k_long * k_short < SHARE * (
            min(shape) * log2(k_short) + max(shape) * log2(k_long)
        ):
            k_short += 2
        found.append((k_short, k_long) if shape[0] < shape[1] else (k_long, k_short))
    return found
