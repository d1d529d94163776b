"""What else a dense matrix can be stored as in few bytes, each with its size and its error.

- Quantised SVDs: one step for both factors, refitted as they are stored, entropy-coded by context (`svd.py`).
- Semidiscrete decompositions (Kolda and O'Leary): offset + sum of d x y', with x and y of -1, 0 and 1, one term after
  another. Stronger than the original in one thing: all d are fitted anew after each term.
- Residual quantisers (faiss): every column, or every piece of a row, is a sum of one entry from each of a few
  codebooks. Codes are entropy-coded; codebooks count too, each column quantised over its range.

The first two, and residual quantisers of whole columns, do not see the order of rows and columns, as our stencils do
not. Pieces of a row do: in an image, neighbouring pixels are alike.

Used by `compression.py`; the last needs `pip install faiss-cpu` and is left out without it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accams.fit.target import Target
from accams.model.coding import decode_labels, encode_labels
from rivals.svd import quantised_svds

SCALES = 8  # bytes of a column's two scales
STARTS = 4  # of each semidiscrete term, of which the best is taken
ENOUGH = 1e-4  # relative gain below which a term is good enough
PIECES = (64, 256, 1024)  # numbers of a row that a residual quantiser takes as one vector
CODE_BITS = (4, 6, 8)
BOOK_BITS = (4, 6, 8)
TRAINING_BEAM, BEAM = 2, 8  # sums of codebook entries that are followed at a time
SPARED = (1.0, 1.15)  # more stages than fit without entropy coding, of which some do with it
SAMPLE = 8_000  # vectors that codebooks are learned from, or
PER_ENTRY = 40  # vectors for each of their entries


@dataclass(frozen=True)
class Point:
    """What one setting of a rival comes to."""

    size: int
    error: float
    which: str


def best(points: Sequence[Point], size: int) -> Point:
    """The most accurate that is not larger."""
    fitting = [each for each in points if each.size <= size]
    return min(fitting, key=lambda each: each.error, default=Point(0, float("nan"), ""))


def bytes_at(points: Sequence[Point], error: float) -> float:
    """The bytes at which the most accurate of each size have this error, between two sizes on a line of logarithms."""
    before: Point | None = None
    for each in sorted(points, key=lambda each: (each.size, each.error)):
        if each.error <= error:
            if before is None:
                return float(each.size)
            share = np.log(before.error / error) / np.log(before.error / each.error)
            return float(before.size * (each.size / before.size) ** share)
        if before is None or each.error < before.error:
            before = each
    return float("nan")


def quantised(factor: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    """A codebook with each column at so many levels over its range, and its bytes, entropy-coded."""
    low, high = factor.min(axis=0), factor.max(axis=0)
    step = np.maximum(high - low, 1e-12) / (2**bits - 1)
    levels = np.rint((factor - low) / step).astype(np.uint16)
    coded = encode_labels(list(levels.T), [2**bits] * factor.shape[1])
    return low + step * levels, sum(map(len, coded)) + SCALES * factor.shape[1]


def svd_points(centred: Any, target: Target, largest: int, sizes: Sequence[int] = ()) -> Iterator[Point]:
    """Quantised SVDs of a whole matrix, dense or sparse, without its offset."""
    total, cells = float((centred * centred).sum()), centred.shape[0] * centred.shape[1]
    for each in quantised_svds(target, largest, sizes):
        product = (centred @ each.right * each.left).sum()
        square = ((each.left.T @ each.left) * (each.right.T @ each.right)).sum()
        yield Point(each.size, float(np.sqrt((total - 2 * product + square) / cells)), each.which)


def signs(S: np.ndarray) -> np.ndarray:
    """For each column s the x of -1, 0 and 1 with the largest (x's)^2 / x'x: the signs of some largest entries."""
    size = np.abs(S)
    falling = -np.sort(-size, axis=0)
    reached = np.cumsum(falling, axis=0, dtype=np.float64) ** 2 / np.arange(1, len(S) + 1)[:, None]
    least = np.take_along_axis(falling, reached.argmax(axis=0)[None], axis=0)
    return np.sign(S) * (size >= least)


def semidiscrete_term(R: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The x and y that take most off the squares of R, found in turn from a few starts."""
    X, before = signs(random.normal(size=(len(R), STARTS)).astype(R.dtype)), 0.0
    while True:
        Y = signs(R.T @ X)
        S = R @ Y
        X = signs(S)
        gain = (X * S).sum(axis=0) ** 2 / ((X * X).sum(axis=0) * (Y * Y).sum(axis=0))
        if gain.max() <= (1 + ENOUGH) * before:
            return X[:, gain.argmax()], Y[:, gain.argmax()]
        before = gain.max()


def semidiscrete(matrix: np.ndarray, offset: float, largest: int) -> list[Point]:
    """A semidiscrete decomposition after each of its terms, up to a size."""
    random, points = np.random.default_rng(0), list[Point]()
    A = matrix - offset
    R, total = A.astype(np.float32), np.square(A).sum()
    X, Y = (np.zeros((n, 0), np.float32) for n in A.shape)
    b, d = np.zeros(0), np.zeros(0, np.float32)
    while not points or points[-1].size < largest:
        x, y = semidiscrete_term(R, random)
        X, Y, b, before = np.c_[X, x], np.c_[Y, y], np.append(b, x @ A @ y), np.append(d, 0)
        G = (X.T @ X).astype(np.float64) * (Y.T @ Y)
        d = np.linalg.solve(G, b).astype(np.float32)
        R -= (X * (d - before)) @ Y.T
        labels, k = [*(X.T + 1).astype(np.uint16), *(Y.T + 1).astype(np.uint16)], [3] * (2 * len(d))
        coded = encode_labels(labels, k)
        error = float(np.sqrt((total - 2 * d @ b + d @ G @ d) / A.size))
        points.append(Point(sum(map(len, coded)) + d.nbytes, error, f"{len(d)} terms"))

    lengths = [A.shape[0]] * len(d) + [A.shape[1]] * len(d)
    read = [each.astype(np.float32) - 1 for each in decode_labels(*coded, lengths, k)]
    rebuilt = (np.array(read[: len(d)]).T * d) @ np.array(read[len(d) :])
    assert np.isclose(np.sqrt(np.mean((A - rebuilt) ** 2)), points[-1].error, rtol=1e-5)
    return points


def through_bytes(codes: np.ndarray, k: int) -> tuple[int, np.ndarray]:
    """Bytes of one stage's codes (rows by pieces) and what is read from them: one model, or one for each piece."""
    ways = []
    for arrays in ([codes.ravel()], list(codes.T)):
        sizes = [k] * len(arrays)
        coded = encode_labels(arrays, sizes)
        ways.append((sum(map(len, coded)), coded, [len(each) for each in arrays], sizes))
    bytes_, coded, lengths, sizes = min(ways, key=lambda way: way[0])
    read = decode_labels(*coded, lengths, sizes)
    return bytes_, read[0] if len(read) == 1 else np.array(read).T.ravel()


def quantiser_of(x: np.ndarray, stages: int, bits: int) -> Any:
    """A residual quantiser of so many stages, learned from some of the vectors."""
    import faiss

    quantiser = faiss.ResidualQuantizer(x.shape[1], stages, bits)
    quantiser.max_beam_size = TRAINING_BEAM
    sample = max(SAMPLE, PER_ENTRY * 2**bits)
    random = np.random.default_rng(0)
    quantiser.train(x if len(x) <= sample else x[random.choice(len(x), sample, replace=False)])
    return quantiser


def first_stages(whole: Any, stages: int, bits: int) -> Any:
    """The quantiser of the first stages alone: each was learned on what the earlier ones left."""
    import faiss

    part = faiss.ResidualQuantizer(whole.d, stages, bits)
    books = faiss.vector_to_array(whole.codebooks)[: stages * 2**bits * whole.d]
    faiss.copy_array_to_vector(books, part.codebooks)
    part.is_trained, part.max_beam_size = True, BEAM
    part.compute_codebook_tables()
    return part


def quantised_vectors(x: np.ndarray, pieces: int, quantiser: Any, bits: int, name: str) -> list[Point]:
    """A residual quantiser of the rows of x, `pieces` of which were one, with codebooks in several precisions."""
    import faiss

    k, stages = 2**bits, quantiser.M
    codes = faiss.unpack_bitstrings(quantiser.compute_codes(x), stages, bits).astype(np.uint16)
    stored = [through_bytes(each.reshape(-1, pieces), k) for each in codes.T]
    entries = faiss.vector_to_array(quantiser.codebooks).reshape(-1, x.shape[1])
    points = []
    for precision in BOOK_BITS:
        columns, bytes_ = quantised(entries.T, precision)
        books = columns.T.astype(np.float32)
        left = x.copy()
        for book, (_, read) in zip(np.split(books, stages), stored, strict=True):
            left -= book[read]
        error = float(np.sqrt(np.mean(np.square(left), dtype=np.float64)))
        which = f"{name}, {stages} codebooks of {k} in {precision} bits"
        points.append(Point(bytes_ + sum(size for size, _ in stored), error, which))
    return points


def residual_quantisers(matrix: np.ndarray, offset: float, length: int | None, sizes: Sequence[int]) -> list[Point]:
    """Those of rows in pieces of a length, or of whole columns, with as many codebooks as sizes allow."""
    centred = np.ascontiguousarray(matrix - offset if length else matrix.T - offset, np.float32)
    x = centred.reshape(-1, length or centred.shape[1])
    name = f"rows in pieces of {length}" if length else "columns"
    points = list[Point]()
    for bits in CODE_BITS:
        per_stage = [len(x) * bits / 8 + 2**bits * (x.shape[1] * precision / 8 + SCALES) for precision in BOOK_BITS[:2]]
        wanted = sorted({int(share * size / each) for size in sizes for each in per_stage for share in SPARED} - {0})
        if wanted:
            whole = quantiser_of(x, wanted[-1], bits)
        for stages in wanted:
            part = first_stages(whole, stages, bits)
            points += quantised_vectors(x, len(x) // len(centred), part, bits, name)
        print(f"{name}, {bits} bits: {len(wanted)} quantisers of {wanted[0]} to {wanted[-1]} stages", flush=True)
    return points


def face_rivals(matrix: np.ndarray, target: Target, sizes: Sequence[int]) -> dict[str, list[Point]]:
    """All of them, by name."""
    largest = max(sizes)
    found = {
        "quantised SVD": list(svd_points(matrix - target.offset, target, largest, sizes)),
        "semidiscrete": semidiscrete(matrix, target.offset, largest),
    }
    print("quantised SVDs and semidiscrete decompositions are done", flush=True)
    if importlib.util.find_spec("faiss") is None:
        print("faiss is not installed: residual quantisers are left out")
        return found
    found["residual quantiser, columns"] = residual_quantisers(matrix, target.offset, None, sizes)
    pieces = [residual_quantisers(matrix, target.offset, length, sizes) for length in PIECES]
    found["residual quantiser, pieces of rows"] = [point for each in pieces for point in each]
    return found
