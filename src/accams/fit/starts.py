"""Starts of an encoding: quantised singular vectors, or clusters of rows and columns.

Quantised vectors: each pair of singular vectors becomes a stencil whose template is the outer product of their levels,
as fine as the price per bit allows. Such a sum is a quantised SVD, which the optimisation then improves. It is the
better start where both sides have about the same length.

Clusters: stencils are added one by one, each by clustering rows and columns along the leading directions of the
residual, as in ACCAMS. It is the better start where one side is short: its labels are cheap, so it can have many.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from accams.fit.encode import Encoding
from accams.fit.keys import Purpose, generator
from accams.fit.price import CODE_BITS, ENTRY_BITS
from accams.fit.target import EXTRA, Floats, Target, leading
from accams.fit.whole import Part, Whole
from accams.kernels import encode as kernels
from accams.kernels.cross import cross_sums
from accams.threads import Threads

FEWEST_LEVELS, MOST_LEVELS = 8, 64  # bounds of the maximum number of levels of a vector:
LEVELS = 1000  # LEVELS / l for the l-th, so that all together have a few thousand
NOTHING = 1e-6  # singular values below, relative to the largest, are rounding errors
GIVE_UP = 3  # pairs of vectors not worth their bits after which the start is complete
SAMPLE = 4_000  # rows from which levels are chosen
K_MEANS_SAMPLE = 20_000  # rows from which clusters are chosen
ROUNDS = 12  # iterations of the quantiser
K_MEANS_ROUNDS = 8
DIRECTIONS = 8  # leading directions of the residual along which rows and columns are clustered
ALTERNATIONS = 8
VISITS = 3  # of a new stencil, before the next is added


def levels_start(target: Target, price: float, threads: Threads, seed: int = 0) -> Encoding:
    """Return quantised singular vectors, as many as are worth their bits."""
    encoding, labels, sigma = Encoding.empty(target, threads), [list[NDArray[np.uint16]](), []], target.singular_values
    random, failed = generator(seed, Purpose.PROJECTION, 1), 0
    for l, scale in enumerate(sigma):
        if scale <= NOTHING * sigma[0]:
            break
        most = int(np.clip(LEVELS / (l + 1), FEWEST_LEVELS, MOST_LEVELS))
        rows, row_levels = _levels(target.left[:, l], target.row_weights, price, most, random, threads)
        cols, col_levels = _levels(target.right[:, l] * scale, target.col_weights, price, most, random, threads)
        if min(len(row_levels), len(col_levels)) < 2:
            failed += 1
            if failed == GIVE_UP:
                break
            continue
        labels[0].append(rows)
        labels[1].append(cols)
        encoding.templates.append(np.outer(row_levels, col_levels / scale))
    if encoding.templates:
        encoding.labels = [np.ascontiguousarray(np.stack(codes, axis=1)) for codes in labels]
    return encoding


def _levels(
    x: Floats, weights: Floats, price: float, most: int, random: np.random.Generator, threads: Threads
) -> tuple[NDArray[np.uint16], Floats]:
    """Quantise a vector under a price per bit; return labels and the level of each label.

    As in Lloyd's algorithm, values are assigned to the level of lowest error plus price * bits, and levels and bits are
    recomputed from the assignment.
    """
    some = random.choice(len(x), SAMPLE, replace=False) if len(x) > SAMPLE else slice(None)
    sample, w = x[some], weights[some]
    share = price * len(sample) / len(x)  # price per bit in the sample
    step = np.sqrt(6.0 * share / np.log(2.0) / w.mean()) if price else 0.0
    low, high = np.quantile(sample, [0.001, 0.999])
    k = int(np.clip((high - low) / max(step, 1e-12 * (high - low + 1e-300)) + 1, 2, most))
    levels, bits = np.linspace(low, high, k), np.full(k, np.log2(k))
    for _ in range(ROUNDS):
        labels = _assign(sample, w, levels, share * bits, threads)
        mass = np.bincount(labels, weights=w, minlength=len(levels))
        counts = np.bincount(labels, minlength=len(levels))
        used = counts > 0
        levels = (np.bincount(labels, weights=w * sample, minlength=len(levels))[used]) / mass[used]
        fixed = (ENTRY_BITS * used.sum() + CODE_BITS) * len(sample) / len(x)  # assuming a square template
        bits = fixed / counts[used] - np.log2(counts[used] / len(sample))
    labels = _assign(x, weights, levels, price * bits, threads)
    used, new = np.unique(labels, return_inverse=True)
    return new.astype(np.uint16), levels[used]


def _assign(x: Floats, weights: Floats, levels: Floats, prices: Floats, threads: Threads) -> NDArray[np.int64]:
    out = np.empty(len(x), np.int64)
    ranges = threads.split_evenly(len(x), len(levels))
    threads.run(kernels.nearest_levels, ranges, np.ascontiguousarray(x), weights, levels, prices, out)
    return out


class Growing(Protocol):
    """A stencil sum to which stencils are added."""

    def error(self) -> float:
        """Return the change of the squared error by all stencils."""

    def all_bits(self) -> float:
        """Return the bits of all stencils."""

    def drop(self, p: int) -> None:
        """Remove a stencil."""

    def __len__(self) -> int: ...


G = TypeVar("G", bound=Growing)
Adding = Callable[[G, tuple[int, int], float, np.random.Generator], None]  # adds a stencil of a shape at a price


def grow(
    model: G, add: Adding[G], shape: tuple[int, int], price: float, seed: int = 0, most: float = np.inf,
    bits: float = np.inf,
) -> int:  # fmt: skip
    """Add stencils of this shape while each is worth its bits, `most` at most, up to so many bits; return how many."""
    cost, added = model.error() + price * model.all_bits(), 0
    while added < most and model.all_bits() <= bits:
        add(model, shape, price, generator(seed, Purpose.PROJECTION, 2, len(model)))
        now = model.error() + price * model.all_bits()
        if now >= cost:
            model.drop(len(model) - 1)
            break
        cost, added = now, added + 1
    return added


def add_part(whole: Whole, shape: tuple[int, int], price: float, random: np.random.Generator) -> None:
    """Add a stencil whose labels are clusters along the leading directions of the residual, then improved."""
    (m, n), rest = whole.shape, whole.rest
    basis = np.linalg.qr(rest @ random.normal(size=(n, min(DIRECTIONS + EXTRA, m, n))).astype(np.float32))[0]
    other = np.linalg.qr(rest.T @ basis)[0]
    U, S, Vt = np.linalg.svd(rest @ other, full_matrices=False)
    rows, cols = (U * S)[:, :DIRECTIONS], ((other @ Vt.T) * S)[:, :DIRECTIONS]
    labels = [
        _k_means(x.astype(np.float64), np.ones(len(x)), k, random).astype(np.uint16)
        for x, k in zip((rows, cols), shape, strict=True)
    ]
    whole.add(Part(labels[0], labels[1], whole.means(labels[0], labels[1], shape)))
    for _ in range(VISITS):
        whole.visit(len(whole) - 1, price)
    whole.compact(len(whole) - 1)


def add_stencil(encoding: Encoding, shape: tuple[int, int], price: float, random: np.random.Generator) -> None:
    weights = encoding.weights(0), encoding.weights(1)
    a, b = (np.sqrt(w)[:, None] for w in weights)
    size = encoding.target.shape[1]
    rank = min(DIRECTIONS, min(encoding.target.shape))
    U, S, V = leading(
        lambda x: a * rest_product(encoding, 0, b * x), lambda y: b * rest_product(encoding, 1, a * y), size, rank,
        int(random.integers(2**31)),
    )  # fmt: skip
    points = U * S / a, V * S / b
    new = [_k_means(x, w, k, random) for x, w, k in zip(points, weights, shape, strict=True)]
    encoding.labels = [
        np.ascontiguousarray(np.column_stack([old, added.astype(np.uint16)]))
        for old, added in zip(encoding.labels, new, strict=True)
    ]
    encoding.templates.append(np.zeros(shape))
    encoding.forget(0, 1)
    _alternate(encoding, price)


def rest_product(encoding: Encoding, axis: int, x: Floats) -> Floats:
    """Multiply the residual of the target (axis 0), or its transpose (axis 1), by x."""
    out = encoding.lines(axis) @ (encoding.lines(1 - axis).T @ x)
    if not encoding.templates:
        return np.asarray(out)
    other = encoding.first(1 - axis)
    sums = np.zeros((other[-1], x.shape[1]))
    kernels.code_sums(encoding.labels[1 - axis], other, np.ones(len(x)), np.ascontiguousarray(x), sums)
    lines = encoding.spread(axis, sums)
    labels, first = encoding.labels[axis], encoding.first(axis)
    encoding.threads.run(
        kernels.subtract_lines, encoding.threads.split_evenly(len(out), labels.shape[1] * x.shape[1]), labels, first,
        lines, out,
    )  # fmt: skip
    return out


def _alternate(encoding: Encoding, price: float) -> None:
    """Update row labels, template, column labels, template of the last stencil, in turn."""
    encoding.templates[-1] = _block_means(encoding)
    for _ in range(ALTERNATIONS):
        for axis in (0, 1):
            fits, mass = _rest_by_label(encoding, axis)
            T = encoding.templates[-1] if axis == 0 else encoding.templates[-1].T
            first = encoding.first(axis)
            prices = price * encoding.bits(axis)[first[-2] :]
            labels, weights = encoding.labels[axis], encoding.weights(axis)
            labels[:, -1] = (T**2 @ mass - fits @ (2.0 * T.T) + prices / weights[:, None]).argmin(axis=1)
            encoding.templates[-1] = _block_means(encoding, axis, fits, mass)
    encoding.forget(0, 1)


def _rest_by_label(encoding: Encoding, axis: int) -> tuple[Floats, Floats]:
    """Return the residual without the last stencil, summed over its column labels, and the weight of each label."""
    labels, weights = encoding.labels[1 - axis][:, -1], encoding.weights(1 - axis)
    k = encoding.templates[-1].shape[1 - axis]
    indicator = np.zeros((len(labels), k))
    indicator[np.arange(len(labels)), labels] = weights
    last = encoding.templates[-1]
    encoding.templates[-1] = np.zeros_like(last)
    fits = rest_product(encoding, axis, indicator)
    encoding.templates[-1] = last
    return fits, indicator.sum(axis=0)


def _block_means(encoding: Encoding, axis: int = 0, fits: Floats | None = None, mass: Floats | None = None) -> Floats:
    """Return the best template of the last stencil, given its labels and all other stencils."""
    if fits is None or mass is None:
        fits, mass = _rest_by_label(encoding, axis)
    labels, weights = encoding.labels[axis][:, -1], encoding.weights(axis)
    sums = np.zeros((encoding.templates[-1].shape[axis], len(mass)))
    cross_sums(labels.astype(np.int64), np.ascontiguousarray(fits * weights[:, None]), sums)
    total = np.outer(np.bincount(labels, weights=weights, minlength=len(sums)), mass)
    T = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0.0)
    return T if axis == 0 else np.ascontiguousarray(T.T)


def _k_means(points: Floats, weights: Floats, k: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return labels by k-means++ and a few rounds of k-means."""
    some = random.choice(len(points), K_MEANS_SAMPLE, replace=False) if len(points) > K_MEANS_SAMPLE else slice(None)
    x, w = points[some], weights[some]
    centres = _seeds(x, w, k, random)
    for _ in range(K_MEANS_ROUNDS):
        labels = (np.square(centres).sum(axis=1) - 2.0 * x @ centres.T).argmin(axis=1)
        mass, sums = np.bincount(labels, weights=w, minlength=k), np.zeros_like(centres)
        cross_sums(labels, np.ascontiguousarray(x * w[:, None]), sums)
        centres = np.divide(sums, mass[:, None], out=centres, where=mass[:, None] > 0.0)
    return np.asarray((np.square(centres).sum(axis=1) - 2.0 * points @ centres.T).argmin(axis=1))


def _seeds(x: Floats, w: Floats, k: int, random: np.random.Generator) -> Floats:
    centres = np.zeros((k, x.shape[1]))
    far = np.ones(len(x))
    for c in range(k):
        chance = w * far
        total = float(chance.sum())
        pick = random.choice(len(x), p=chance / total) if total > 0.0 else random.integers(len(x))
        centres[c] = x[pick]
        distance = np.square(x - centres[c]).sum(axis=1)
        far = distance if c == 0 else np.minimum(far, distance)
    return centres
