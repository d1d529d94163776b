"""Distillation: approximate a matrix or predictor by one stencil sum whose file has a given maximum size."""

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
ROUNDS = 12  # rounds of improving labels and templates
SEARCH = 8  # prices tried for the start
LOPSIDED = 4.0  # ratio of the sides from which on starts with clusters are tried too,
SHORT = 4096  # if the shorter side is at most this long: beyond, its labels are not cheap
ROOM = 0.9  # used fraction of the bytes below which stencils are added to quantised vectors too,
SMALL = (8, 8)  # of this shape
FILL = 2e7  # bounds the work of adding stencils at a time: their number times the labels of all stencils
SHARE = 0.25  # bits of templates, relative to those of labels, when choosing shapes of clusters


def distill(
    target: Target, max_bytes: int, unseen: Unseen, *, start: StencilSum | None = None, seed: int = 0,
    threads: Threads | None = None, watch: Watch | None = None,
) -> StencilSum:  # fmt: skip
    """Return a stencil sum close to `target` whose file has at most `max_bytes`.

    The price per bit is adjusted until the file just fits. `start` is an additional sum to start from; of all starts,
    the one of lowest error + price * bits after two rounds is continued.
    """
    threads = threads or Threads()
    least = len(file.to_bytes(StencilSum(target.shape, target.offset, (), *unseen)))
    if max_bytes < least:
        raise InputError(f"max_bytes={max_bytes:,} is too small: a model without any stencil takes {least:,}")
    search = Search(int(max_bytes), least, unseen, ROUNDS + SEARCH, watch)
    price, encoding = _first_price(search, target, threads, seed)
    starts: list[tuple[Encoding, Shape | None]] = [(encoding, None)]
    starts += [(clusters_start(target, shape, price, threads, seed), shape) for shape in _shapes(target.shape)]
    if start is not None:
        starts.append((Encoding.of(start, target, threads), None))
    if len(starts) > 1:
        for encoding, _ in starts:
            search.improve(encoding, price, 2)
        starts.sort(key=lambda pair: pair[0].error() + price * 8.0 * search.size(pair[0], price))
    encoding, shape = starts[0]
    price = _improve(search, encoding, shape, price, seed)
    return search.fit(encoding, price) or StencilSum(target.shape, target.offset, (), *unseen)


def _first_price(search: Search, target: Target, threads: Threads, seed: int) -> tuple[float, Encoding]:
    """Find the price per bit at which quantised singular vectors have about the maximum size."""
    price = float(np.square(target.singular_values).sum()) / (8.0 * search.max_bytes) + 1e-300
    encoding = levels_start(target, price, threads, seed)
    for _ in range(SEARCH):
        search.report(encoding)
        share = search.share(search.size(encoding, price))
        if abs(log2(share)) < 0.05:
            break
        price *= share ** (1.0 / SLOPE)
        encoding = levels_start(target, price, threads, seed)
    return price, encoding


def _improve(search: Search, encoding: Encoding, shape: Shape | None, price: float, seed: int) -> float:
    """Improve the encoding and add stencils while bytes are left; return the final price."""
    for _ in range(ROUNDS // 3):
        search.improve(encoding, price, 3)
        price *= search.share(search.size(encoding, price)) ** (0.5 / SLOPE)
        if shape is not None or search.share(search.size(encoding, price)) < ROOM:
            _fill(search, encoding, shape or SMALL, price, seed)
    return price


def _fill(search: Search, encoding: Encoding, shape: Shape, price: float, seed: int) -> None:
    """Add stencils of this shape, then of smaller shapes, while bytes are left."""
    while min(shape) >= 2 and search.size(encoding, price) < (1.0 - CLOSE) * search.max_bytes:
        most = max(1.0, FILL / (sum(encoding.target.shape) * (1 + len(encoding.templates))))
        if grow(encoding, shape, price, seed, most):
            encoding.refit()
        shape = shape[0] // 2, shape[1] // 2


def _shapes(shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Return template shapes for starts with clusters: many clusters on the short side, where labels are cheap."""
    if max(shape) < LOPSIDED * min(shape) or min(shape) > SHORT:
        return []
    shapes = []
    for k_long in (16, 32):
        k_short = 2
        while k_short < min(min(shape), 256) and ENTRY_BITS * k_long * k_short < SHARE * (
            min(shape) * log2(k_short) + max(shape) * log2(k_long)
        ):
            k_short += 2
        shapes.append((k_short, k_long) if shape[0] < shape[1] else (k_long, k_short))
    return shapes
