"""Matrices of integers as bytes, in tiles that can be decoded one by one.

This is how what stencils leave of a matrix is stored: as multiples of a step. `kernels/residual.py` describes the code.
The frequencies of tokens are those of the whole matrix; contexts of similar frequencies share them, so that a small
matrix does not pay for many tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.coding import PRECISIONS, WORD, Bytes, Ints, decode_ints, encode_ints, frequencies
from accams.model.container import Tensors
from accams.threads import Threads

TILE = (512, 512)
DECAYS = (2, 3, 5, 7)  # of the averages of contexts: over about 4 to 128 cells
SAMPLE = 1 << 20  # cells by which a layout is chosen
ENTRY = 7.0  # approximate bits of a frequency in a table,
TABLE = 60.0  # and of what else comes with one
GAIN = 0.01  # share of the bits that prediction from neighbours must save
MOST_WEIGHT = 1 << 10  # of a neighbour
MOST_TAPS = 4
NEAR = ((0, 1), (1, 0), (1, 1))  # the neighbours by which cells may be predicted: left, above, and both
CUT = "its residual is cut short or damaged"
Cells = NDArray[np.int32]
Skip = NDArray[np.uint8]
NO_SKIP: Skip = np.zeros((0, 0), np.uint8)
Taps = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Layout:
    """How a matrix of integers is cut and described.

    Attributes
    ----------
    tile : (int, int)
        Rows and columns of a tile; those at the ends are smaller.
    decay : int
        Averages of contexts follow the last 2^decay cells.
    taps : ((int, int, int), ...)
        Neighbours by which a cell is predicted: how many rows above, how many columns before, and the weight in 2^-8.
    """

    tile: tuple[int, int] = TILE
    decay: int = DECAYS[0]
    taps: Taps = ()

    def arrays(self) -> tuple[Ints, Ints]:
        """Return offsets and weights of the neighbours."""
        table = np.array(self.taps, np.int64).reshape(-1, 3)
        return np.ascontiguousarray(table[:, :2]), np.ascontiguousarray(table[:, 2])

    def grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return the number of tiles from top to bottom, and from left to right."""
        return -(-shape[0] // self.tile[0]), -(-shape[1] // self.tile[1])

    def tiles(self, shape: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over (first row, end, first column, end) of each tile."""
        (m, n), (height, width) = shape, self.tile
        for i in range(0, m, height):
            for j in range(0, n, width):
                yield i, min(i + height, m), j, min(j + width, n)

    def fields(self) -> dict[str, Any]:
        """Return what a header holds of it."""
        return {"tile": list(self.tile), "decay": self.decay, "taps": [list(each) for each in self.taps]}

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "Layout":
        """Undo `fields`; raise ValueError for what cannot be."""
        tile, decay, taps = fields["tile"], fields["decay"], fields["taps"]
        numbers = [*tile, decay, *(x for each in taps for x in each)]
        if not all(type(x) is int for x in numbers) or len(tile) != 2 or not all(len(each) == 3 for each in taps):
            raise ValueError(CUT)
        before = all((a, b) > (0, 0) and 0 <= a < 1 << 31 and 0 <= b < 1 << 31 for a, b, _ in taps)
        small = all(abs(w) <= MOST_WEIGHT for *_, w in taps) and len(taps) <= MOST_TAPS
        if min(tile) < 1 or max(tile) > 1 << 31 or not 0 <= decay <= 16 or not before or not small:
            raise ValueError(CUT)
        return cls((tile[0], tile[1]), decay, tuple((a, b, w) for a, b, w in taps))


@dataclass(frozen=True, eq=False)
class Tables:
    """Frequencies of tokens by class of context."""

    classes: Ints  # of each context
    freq: Ints  # (class, token)
    precision: Ints
    starts: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", np.cumsum(self.freq, axis=1) - self.freq)

    @classmethod
    def of(cls, counts: Ints) -> "Tables":
        """Return the tables for these counts (context, token)."""
        groups = merged(counts)
        classes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        models = [_model(counts[group].sum(axis=0)) for group in groups]
        return cls(classes, np.array([f for _, f in models]), np.array([p for p, _ in models]))

    def slots(self) -> NDArray[np.uint8]:
        """Return the token of each slot of each class, for decoding."""
        out = np.zeros((len(self.freq), 1 << int(self.precision.max())), np.uint8)
        for q, freq in enumerate(self.freq):
            tokens = np.repeat(np.arange(len(freq), dtype=np.uint8), freq)
            out[q, : len(tokens)] = tokens
        return out

    def to_bytes(self) -> Bytes:
        """Return them as bytes."""
        ends = np.flatnonzero(np.diff(self.classes)) + 1
        return encode_ints(np.concatenate([[len(self.freq)], ends, self.precision, self.freq.ravel()]))

    @classmethod
    def from_bytes(cls, data: Bytes, n: int) -> "Tables":
        """Undo `to_bytes` of n classes; raise ValueError for what cannot be."""
        from accams.kernels.residual import CONTEXTS, TOKENS

        if type(n) is not int or not 1 <= n <= CONTEXTS:
            raise ValueError(CUT)
        numbers = decode_ints(data, 2 * n + n * TOKENS)
        ends, precision, freq = numbers[1:n], numbers[n : 2 * n], numbers[2 * n :].reshape(n, TOKENS)
        widths = np.diff(np.concatenate([[0], ends, [CONTEXTS]]))
        good = np.isin(precision, PRECISIONS) & (freq >= 0).all(axis=1) & (freq <= 1 << PRECISIONS[-1]).all(axis=1)
        if numbers[0] != n or (widths < 1).any() or not good.all() or (freq.sum(axis=1) != 1 << precision).any():
            raise ValueError(CUT)
        return cls(np.repeat(np.arange(n), widths), freq, precision)


def merged(counts: Ints) -> list[Ints]:
    """Return groups of neighbouring contexts that share a table, since one of their own would not pay.

    Examples
    --------
    >>> counts = np.zeros((4, 3), np.int64)
    >>> counts[0], counts[1], counts[3] = (9000, 10, 0), (900, 1, 0), (0, 5000, 5000)
    >>> [group.tolist() for group in merged(counts)]
    [[0, 1], [2, 3]]
    """
    used = np.flatnonzero(counts.any(axis=1))
    ends = [*(used[:-1] + 1).tolist(), len(counts)] if len(used) else [len(counts)]  # unused ones go with the next
    groups = [np.arange(lo, hi) for lo, hi in pairwise([0, *ends])]
    sums = [counts[group].sum(axis=0).astype(np.float64) for group in groups]
    costs = [_cost(x) for x in sums]
    both = [_cost(a + b) for a, b in pairwise(sums)]
    while both:
        gains = np.array(costs[:-1]) + costs[1:] - both
        p = int(gains.argmax())
        if gains[p] < 0.0:
            break
        groups[p : p + 2], sums[p : p + 2] = [np.concatenate(groups[p : p + 2])], [sums[p] + sums[p + 1]]
        costs[p : p + 2], both[p : p + 1] = [both[p]], []
        for q in (p - 1, p):
            if 0 <= q < len(both):
                both[q] = _cost(sums[q] + sums[q + 1])
    return groups


def _cost(counts: NDArray[np.float64]) -> float:
    """Return the bits of tokens that come so often, and of their table."""
    used = counts[counts > 0]
    return float(-(used * np.log2(used / used.sum())).sum()) + ENTRY * len(used) + TABLE if used.size else 0.0


def _model(counts: Ints) -> tuple[int, Ints]:
    """Return the precision, and the frequencies, that take the fewest bits."""

    def bits(model: tuple[int, Ints]) -> float:
        precision, freq = model
        used = counts > 0
        return float(counts[used] @ (precision - np.log2(freq[used]))) + float(np.log2(freq + 1.0).sum())

    least = max(int((counts > 0).sum()), 2)
    return min(((p, frequencies(counts, p)) for p in PRECISIONS if 1 << p >= least), key=bits)


@dataclass(frozen=True, eq=False)
class _Described:
    """The tokens of a tile, and what is below them."""

    tokens: NDArray[np.uint8]
    contexts: NDArray[np.uint8]
    below: Bytes
    counts: Ints


def _describe(Q: Cells, skip: Skip, layout: Layout, tile: tuple[int, int, int, int], bits: bool = True) -> _Described:
    from accams.kernels.residual import CONTEXTS, TOKENS, describe

    i0, i1, j0, j1 = tile
    size = (i1 - i0) * (j1 - j0)
    tokens, contexts = np.empty(size, np.uint8), np.empty(size, np.uint8)
    extra, widths, counts = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros((CONTEXTS, TOKENS), np.int64)
    taps, weights = layout.arrays()
    n = describe(i0, i1, j0, j1, Q, skip, taps, weights, layout.decay, tokens, contexts, extra, widths, counts)
    below = np.zeros(0, np.uint8)
    if bits:
        from accams.model.coding import pack_bits

        some = np.flatnonzero(widths[:n])
        below = pack_bits(extra[some], widths[some])
    return _Described(tokens[:n].copy(), contexts[:n].copy(), below, counts)


def choose_layout(Q: Cells, skip: Skip, tile: tuple[int, int], near: Sequence[tuple[int, int]] = NEAR) -> Layout:
    """Return the layout that describes some of the tiles in the fewest bits."""
    tiles = sampled(list(Layout(tile).tiles((Q.shape[0], Q.shape[1]))), SAMPLE)
    plain = min((Layout(tile, decay) for decay in DECAYS), key=lambda each: bits_of(Q, skip, each, tiles))
    weights = _fitted_weights(Q, skip, tiles, near)
    if not weights:
        return plain
    least = bits_of(Q, skip, plain, tiles)
    by_near = min((Layout(tile, decay, weights) for decay in DECAYS), key=lambda each: bits_of(Q, skip, each, tiles))
    return by_near if bits_of(Q, skip, by_near, tiles) < (1.0 - GAIN) * least else plain


def sampled(tiles: list[tuple[int, int, int, int]], cells: int) -> list[tuple[int, int, int, int]]:
    """Return tiles of about so many cells in all, evenly spread."""
    each = max(1, (tiles[0][1] - tiles[0][0]) * (tiles[0][3] - tiles[0][2])) if tiles else 1
    n = max(1, cells // each)
    return tiles if len(tiles) <= n else [tiles[p] for p in np.linspace(0, len(tiles) - 1, n).astype(int)]


def bits_of(Q: Cells, skip: Skip, layout: Layout, tiles: Sequence[tuple[int, int, int, int]]) -> float:
    """Return the bits of these tiles, tables included."""
    from accams.kernels.residual import DIRECT

    counts = sum(_describe(Q, skip, layout, tile, bits=False).counts for tile in tiles)
    if isinstance(counts, int):
        return 0.0
    below = np.maximum((np.arange(counts.shape[1]) - DIRECT) // 2 + 3, 0) * (np.arange(counts.shape[1]) >= DIRECT)
    return float(sum(_cost(counts[group].sum(axis=0).astype(float)) for group in merged(counts))) + float(
        (counts @ below).sum()
    )


def _fitted_weights(
    Q: Cells, skip: Skip, tiles: Sequence[tuple[int, int, int, int]], near: Sequence[tuple[int, int]]
) -> Taps:
    """Return weights of neighbours by least squares, large integers cut to the usual size."""
    gram, side = np.zeros((len(near), len(near))), np.zeros(len(near))
    up, left = max(a for a, _ in near), max(b for _, b in near)
    for i0, i1, j0, j1 in tiles:
        x = Q[i0:i1, j0:j1].astype(np.float64)
        if skip.size:
            x[skip[i0:i1, j0:j1] > 0] = 0.0
        if x.shape[0] <= up or x.shape[1] <= left:
            continue
        bound = 4.0 * np.sqrt(np.mean(np.minimum(np.abs(x), 8.0 * np.median(np.abs(x)) + 8.0) ** 2)) + 1.0
        x = np.clip(x, -bound, bound)
        m, n = x.shape
        others = np.stack([x[up - a : m - a, left - b : n - b].ravel() for a, b in near])
        gram += others @ others.T
        side += others @ x[up:, left:].ravel()
    if not np.trace(gram):
        return ()
    weights = np.linalg.solve(gram + 1e-6 * np.trace(gram) * np.eye(len(near)), side)
    whole = np.clip(np.rint(256.0 * weights), -MOST_WEIGHT, MOST_WEIGHT).astype(int).tolist()
    return tuple((a, b, w) for (a, b), w in zip(near, whole, strict=True) if w)


def encode(Q: Cells, skip: Skip, layout: Layout, threads: Threads) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold a matrix of integers; cells with `skip` are left out."""
    tiles = list(layout.tiles((Q.shape[0], Q.shape[1])))
    described = threads.map(lambda p, _: _describe(Q, skip, layout, tiles[p]), [(p, p + 1) for p in range(len(tiles))])
    tables = Tables.of(sum(each.counts for each in described))
    streams = threads.map(lambda p, _: _stream(described[p], tables), [(p, p + 1) for p in range(len(tiles))])
    below = [each.below for each in described]
    sizes = np.array([[len(x) for x in streams], [len(x) for x in below]], np.int64)
    tensors = {
        "tables": tables.to_bytes(),
        "tokens": np.concatenate([np.zeros(0, np.uint8), *streams]),
        "sizes": encode_ints(sizes),
    }
    if sizes[1].any():
        tensors["below"] = np.concatenate(below)
    return {**layout.fields(), "classes": len(tables.freq)}, tensors


def _stream(tile: _Described, tables: Tables) -> Bytes:
    from accams.kernels.residual import encode_tokens

    n = len(tile.tokens)
    words = np.zeros(n + 2, np.uint16)
    used = encode_tokens(
        n, tile.tokens, tile.contexts, tables.classes, tables.freq, tables.starts, tables.precision, words
    )
    return words[len(words) - used :].astype(WORD, copy=False).view(np.uint8)


class Tiles:
    """A matrix of integers as `encode` stores it, of which any block can be decoded."""

    def __init__(self, fields: dict[str, Any], tensors: Tensors, shape: tuple[int, int]) -> None:
        self.shape, self.layout = shape, Layout.of(fields)
        self.tables = Tables.from_bytes(tensors["tables"], fields["classes"])
        self._slots = self.tables.slots()
        down, across = self.layout.grid(shape)
        sizes = decode_ints(tensors["sizes"], 2 * down * across).reshape(2, down, across)
        self._tokens, self._below = tensors["tokens"], tensors.get("below", np.zeros(0, np.uint8))
        ends = [np.cumsum(x, dtype=np.int64) for x in sizes]
        for x, each in zip((self._tokens, self._below), ends, strict=True):
            if (sizes < 0).any() or x.dtype != np.uint8 or x.ndim != 1 or (each[-1] if len(each) else 0) != len(x):
                raise ValueError(CUT)
        if (sizes[0] % 2).any():
            raise ValueError(CUT)
        self._ends = [np.concatenate([[0], x]) for x in ends]

    def block(self, rows: slice, cols: slice, skip: Skip, threads: Threads) -> tuple[Cells, tuple[int, int]]:
        """Return the tiles that hold these rows and columns, and the first row and column of them.

        `skip` is that of the same tiles.
        """
        (height, width), (m, n), across = self.layout.tile, self.shape, self.layout.grid(self.shape)[1]
        top, bottom = rows.start // height, -(-rows.stop // height)
        left, right = cols.start // width, -(-cols.stop // width)
        origin = top * height, left * width
        out = np.zeros((min(bottom * height, m) - origin[0], min(right * width, n) - origin[1]), np.int32)
        wanted = [(a, b) for a in range(top, bottom) for b in range(left, right)]

        def run(lo: int, hi: int) -> bool:
            return all(self._decode(a, b, a * across + b, skip, origin, out) for a, b in wanted[lo:hi])

        if not all(threads.map(run, [(p, p + 1) for p in range(len(wanted))])):
            raise ValueError(CUT)
        return out, origin

    def _decode(self, a: int, b: int, p: int, skip: Skip, origin: tuple[int, int], out: Cells) -> bool:
        from accams.kernels.residual import decode_tile

        (height, width), (m, n) = self.layout.tile, self.shape
        words, below = (
            x[ends[p] : ends[p + 1]] for x, ends in zip((self._tokens, self._below), self._ends, strict=True)
        )
        tables, (taps, weights) = self.tables, self.layout.arrays()
        box = a * height, min((a + 1) * height, m), b * width, min((b + 1) * width, n)
        streams = np.ascontiguousarray(words).view(WORD).astype(np.uint16), np.ascontiguousarray(below)
        return bool(
            decode_tile(
                *box, *streams, taps, weights, self.layout.decay, skip, tables.classes, tables.freq, tables.starts,
                tables.precision, self._slots, *origin, out,
            )
        )  # fmt: skip
