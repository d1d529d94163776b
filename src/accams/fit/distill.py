"""Distillation: approximate a matrix or predictor by one stencil sum whose file has a given maximum size."""

from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.encode import Encoding
from accams.fit.price import ENTRY_BITS
from accams.fit.search import CLOSE, SLOPE, Search, Unseen, Watch
from accams.fit.starts import add_part, add_stencil, grow, levels_start
from accams.fit.target import Target
from accams.fit.whole import Part, Whole
from accams.model import file
from accams.model.stencils import StencilSum
from accams.threads import Threads

Shape = tuple[int, int]
Model = Encoding | Whole
ROUNDS = 12  # rounds of improving labels and templates
SEARCH = 8  # prices tried for the start
LOPSIDED = 4.0  # ratio of the sides from which on there are many more clusters on the short side
SHORT = 4096  # if it is at most this long: beyond, its labels are not cheap
MOST_CLUSTERS = 512
STEEPEST = 30.0  # power of the size with which errors may be expected to fall, where precision is most of it
GROWTHS, NEAR = 4, 0.5  # prices at which stencils are grown, until the size is within so many doublings
ROOM = 0.9  # used fraction of the bytes below which stencils are added to quantised vectors too,
SMALL = (8, 8)  # of this shape
FILL = 2e7  # bounds the work of adding stencils at a time: their number times the labels of all stencils
# Clusters of the long side that are tried, and bits of templates relative to those of labels: many clusters begin well,
# and those that are not worth their bits die out. By factors, the time grows with the square of the clusters.
BY_FACTORS = ((16, 0.25), (32, 0.25))
LOPSIDED_WHOLE, WHOLE = ((256, 3.0),), ((64, 1.0),)
QUICK = 1 << 18  # cells up to which more starts take next to no time


@dataclass(frozen=True)
class Source:
    """What is approximated: by its factors alone or, where all of its cells are in memory, by those."""

    target: Target
    threads: Threads
    seed: int
    matrix: NDArray[np.floating] | None = None

    def levels(self, price: float) -> Encoding:
        """Return quantised singular vectors."""
        return levels_start(self.target, price, self.threads, self.seed)

    def of(self, encoding: Encoding) -> Model:
        """Return the same stencils in the form in which they are to be improved."""
        if self.matrix is None:
            return encoding
        whole = Whole.of(self.matrix, self.target.offset, self.threads)
        for p, T in enumerate(encoding.templates):
            rows, cols = (np.ascontiguousarray(labels[:, p]) for labels in encoding.labels)
            whole.add(Part(rows, cols, T))
        return whole

    def empty(self) -> Model:
        """Return no stencils."""
        return self.of(Encoding.empty(self.target, self.threads))

    def grow(self, model: Model, shape: Shape, price: float, bits: float = np.inf) -> int:
        """Add stencils of this shape while each is worth its bits, and up to so many of these; return how many."""
        if isinstance(model, Whole):
            return grow(model, add_part, shape, price, self.seed, bits=bits)
        most = np.inf
        if len(model):
            most = max(1.0, FILL / (sum(self.target.shape) * (1 + len(model))))
        added = grow(model, add_stencil, shape, price, self.seed, most)
        if added and most < np.inf:
            model.refit()
        return added

    def shapes(self) -> list[Shape]:
        """Return shapes of templates for starts with clusters."""
        short, long = sorted(self.target.shape)
        lopsided = long >= LOPSIDED * short and short <= SHORT
        if self.matrix is None:
            wanted: tuple[tuple[int, float], ...] = BY_FACTORS if lopsided else ()
        else:
            wanted = LOPSIDED_WHOLE if lopsided else WHOLE
            if lopsided and short * long <= QUICK:
                wanted += BY_FACTORS
        shapes = []
        for k_long, share in wanted:
            a, b = 2, min(k_long, long)
            while a < min(short, MOST_CLUSTERS) and ENTRY_BITS * a * b < share * (short * log2(a) + long * log2(b)):
                a += 2
            a = min(a, short)
            shapes.append((a, b) if self.target.shape[0] < self.target.shape[1] else (b, a))
        return [shape for shape in shapes if min(shape) >= 2]


@dataclass(frozen=True)
class Start:
    """Stencils to begin with, made at a price, and the shape of those that are added to them."""

    model: Model
    price: float
    shape: Shape | None = None

    def score(self, search: Search) -> float:
        """Return the error to be expected at the maximum size, from the size now and what a byte saves."""
        rounded = self.model.rounded(self.price)  # of clusters with few members, precision is most of the size
        error, size = rounded.left()[0], search.size(rounded, self.price)
        fall = float(np.clip(8.0 * self.price * (size - search.least) / max(error, 1e-300), 0.0, STEEPEST))
        return float(error * search.share(size) ** fall)


def grow_best(source: Source, price: float, bits: float = np.inf) -> Whole | None:
    """Return stencils of a matrix in memory that are worth their bits at a price, from the better of its starts.

    None if all starts have more than so many bits.
    """
    found = list[tuple[float, Whole]]()
    for shape in (None, *source.shapes()):
        model = source.of(source.levels(price)) if shape is None else source.empty()
        assert isinstance(model, Whole)
        if shape is not None:
            source.grow(model, shape, price, bits)
        if model.all_bits() <= bits:
            model.round(price)
            found.append((model.error() + price * model.all_bits(), model))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def distill(
    target: Target, max_bytes: int, unseen: Unseen, *, matrix: NDArray[np.floating] | None = None,
    start: StencilSum | None = None, seed: int = 0, threads: Threads | None = None, watch: Watch | None = None,
) -> StencilSum:  # fmt: skip
    """Return a stencil sum close to `target` whose file has at most `max_bytes`.

    The price per bit is adjusted until the file just fits. Several starts are made, and the one that promises the
    lowest error is continued. `start` is a stencil sum that is tried too. `matrix` has the
    cells of the target, if they are in memory and weigh the same: then these are approximated, and the target is needed
    for the start only.
    """
    threads = threads or Threads()
    least = len(file.to_bytes(StencilSum(target.shape, target.offset, (), *unseen)))
    if max_bytes < least:
        raise InputError(f"max_bytes={max_bytes:,} is too small: a model without any stencil takes {least:,}")
    search = Search(int(max_bytes), least, unseen, ROUNDS + SEARCH, watch)
    source = Source(target, threads, seed, matrix)
    price, encoding = _first_price(search, source)
    begun = [Start(source.of(encoding), price)]
    begun += [_grown(search, source, shape, price) for shape in source.shapes()]
    if start is not None:
        begun.append(Start(Encoding.of(start, target, threads), price))
    if len(begun) > 1:
        for each in begun:
            search.improve(each.model, each.price, 2)
        begun.sort(key=lambda each: each.score(search))
    best = begun[0]
    del begun
    price = _improve(search, source, best)
    return search.fit(best.model, price) or StencilSum(target.shape, target.offset, (), *unseen)


def _first_price(search: Search, source: Source) -> tuple[float, Encoding]:
    """Find the price per bit at which quantised singular vectors have about the maximum size."""
    price = float(np.square(source.target.singular_values).sum()) / (8.0 * search.max_bytes) + 1e-300
    encoding = source.levels(price)
    for _ in range(SEARCH):
        search.report(encoding)
        share = search.share(search.size(encoding, price))
        if abs(log2(share)) < 0.05:
            break
        price *= share ** (1.0 / SLOPE)
        encoding = source.levels(price)
    return price, encoding


def _grown(search: Search, source: Source, shape: Shape, price: float) -> Start:
    """Return stencils of a shape, grown at a price at which they have about the maximum size.

    By factors that would take too long: there, stencils are added later.
    """
    for _ in range(GROWTHS):
        model = source.empty()
        source.grow(model, shape, price)
        search.report(model)
        share = search.share(search.size(model, price))
        if source.matrix is None or abs(log2(share)) < NEAR:
            break
        price *= share ** (1.0 / SLOPE)
    return Start(model, price, shape)


def _improve(search: Search, source: Source, start: Start) -> float:
    """Improve a start and add stencils while bytes are left; return the final price."""
    model, shape, price = start.model, start.shape, start.price
    for _ in range(ROUNDS // 3):
        search.improve(model, price, 3)
        price *= search.share(search.size(model, price)) ** (0.5 / SLOPE)
        if shape is not None or search.share(search.size(model, price)) < ROOM:
            _fill(search, source, model, shape or SMALL, price)
    return price


def _fill(search: Search, source: Source, model: Model, shape: Shape, price: float) -> None:
    """Add stencils of this shape, then of smaller shapes, while bytes are left."""
    while min(shape) >= 2 and search.size(model, price) < (1.0 - CLOSE) * search.max_bytes:
        source.grow(model, shape, price)
        shape = shape[0] // 2, shape[1] // 2
