"""One small stencil sum in place of a large predictor: the best of at most so many bytes on disk."""

from __future__ import annotations

from math import log2

import numpy as np

from accams.errors import InputError
from accams.fit.encode import Encoding
from accams.fit.price import ENTRY_BITS
from accams.fit.search import CLOSE, SLOPE, Search, Unseen, Watch
from accams.fit.starts import clusters_start, grow, levels_start
from accams.fit.target import Target
from accams.model import file
from accams.model.stencils import StencilSum
from accams.threads import Threads

Shape = tuple[int, int]
ROUNDS = 12  # of improving labels and templates
SEARCH = 8  # prices tried for the start
LOPSIDED = 4.0  # sides of so different lengths also begin with clusters,
SHORT = 4096  # if the shorter one is no longer than this: what is cheap there is not at any length
ROOM = 0.9  # share of the bytes below which stencils are added to quantised vectors too,
SMALL = (8, 8)  # of this shape
FILL = 2e7  # labels at most, of all stencils together, looked at for all that are added at a time
SHARE = 0.25  # of the bits of labels that clusters may take for templates


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
    search = Search(int(max_bytes), least, unseen, ROUNDS + SEARCH, watch)
    price, encoding = _first_price(search, target, threads, seed)
    found: list[tuple[Encoding, Shape | None]] = [(encoding, None)]
    found += [(clusters_start(target, shape, price, threads, seed), shape) for shape in _shapes(target.shape)]
    if start is not None:
        found.append((Encoding.of(start, target, threads), None))
    if len(found) > 1:
        for each, _ in found:
            search.improve(each, price, 2)
        found.sort(key=lambda each: each[0].error() + price * 8.0 * search.size(each[0], price))
    encoding, shape = found[0]
    price = _improved(search, encoding, shape, price, seed)
    return search.fit(encoding, price) or StencilSum(target.shape, target.offset, (), *unseen)


def _first_price(search: Search, target: Target, threads: Threads, seed: int) -> tuple[float, Encoding]:
    """The price of a bit at which quantised singular vectors are about as large as the model may be."""
    price = float(np.square(target.singular_values).sum()) / (8.0 * search.max_bytes) + 1e-300
    found = levels_start(target, price, threads, seed)
    for _ in range(SEARCH):
        search.tell(found)
        share = search.share(search.size(found, price))
        if abs(log2(share)) < 0.05:
            break
        price *= share ** (1.0 / SLOPE)
        found = levels_start(target, price, threads, seed)
    return price, found


def _improved(search: Search, encoding: Encoding, shape: Shape | None, price: float, seed: int) -> float:
    """Rounds of improving and filling the room that is left; returns the price at the end."""
    for _ in range(ROUNDS // 3):
        search.improve(encoding, price, 3)
        price *= search.share(search.size(encoding, price)) ** (0.5 / SLOPE)
        if shape is not None or search.share(search.size(encoding, price)) < ROOM:
            _fill(search, encoding, shape or SMALL, price, seed)
    return price


def _fill(search: Search, encoding: Encoding, shape: Shape, price: float, seed: int) -> None:
    """More stencils, and smaller ones, if there is room for them."""
    while min(shape) >= 2 and search.size(encoding, price) < (1.0 - CLOSE) * search.max_bytes:
        most = max(1.0, FILL / (sum(encoding.target.shape) * (1 + len(encoding.templates))))
        if grow(encoding, shape, price, seed, most):
            encoding.refit()
        shape = shape[0] // 2, shape[1] // 2


def _shapes(shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Template shapes for clusters: many on the short side, where labels cost little."""
    if max(shape) < LOPSIDED * min(shape) or min(shape) > SHORT:
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
