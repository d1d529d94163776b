"""Quantised SVDs, as strong as we know how to make them: what a matrix takes as a product of two thin ones.

- Columns of both factors are scaled by the singular values and share one step, so that each rounded number adds as much
  to the error; what falls below the step is not stored, which also decides the rank (reverse water-filling).
- Numbers are rounded to the level of lowest error + price * bits, with a dead zone therefore.
- Both factors are refitted in turn, column by column, given everything else as it is stored.
- Levels are entropy-coded as our labels are, each column with frequencies of its own. With `contexts`, these also
  depend on how large the row's levels in earlier columns were, which a reader knows by then.

Rows and columns may be in any order, as for our stencils.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accams.fit.target import Target
from accams.kernels.jit import kernel
from accams.model.coding import encode_ints, encode_labels

PRICE = 0.07  # of a bit, in squared steps
FINER = 0.92  # each step of a sweep over sizes, relative to the last
COARSEST = 0.1  # first step of the sweep, in largest singular values
FEWER = (1.0, 0.9)  # columns of an SVD that is too large, in shares of those that should fit
COARSER = 0.7  # likewise, for a first guess
SLOPE = 0.7  # the step grows with the size to the minus this power, about
TRIES = 5  # to meet a size,
HELD = 3  # of them of the rank of the one before,
FILLED = 0.998  # or this much of it
SWEEPS = 3  # over all columns of both factors, along the sweep over sizes,
MORE_SWEEPS = 12  # and where a size is to be met
CONTEXTS = 4
ENOUGH = 1024  # rows below which frequencies by context cost more than they save
UNSEEN = 0.3  # count of a level that does not occur
MOST_LEVEL = 8000  # that is coded
SCALE = 4  # bytes of a column's scale
HEADER = 16  # offset, step, shape


@dataclass(frozen=True)
class QuantisedSVD:
    """left @ right.T, as read from so many bytes, and how much less than nothing at all its squared error is."""

    size: int
    step: float
    left: np.ndarray
    right: np.ndarray
    gain: float

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    @property
    def which(self) -> str:
        return f"rank {self.rank}, step {self.step:.3g}"


@dataclass
class Side:
    """One factor: levels[i, j] * units[i] * steps[j], where rows are scaled by the roots of their weights."""

    levels: np.ndarray  # int32
    units: np.ndarray
    steps: np.ndarray
    contexts: int

    @property
    def values(self) -> np.ndarray:
        return (self.levels * self.steps * self.units[:, None]).astype(np.float32)

    def keep(self, columns: np.ndarray) -> None:
        self.levels, self.steps = np.asfortranarray(self.levels[:, columns]), self.steps[columns]


@kernel
def choose_levels(wanted, units, step, price, bits, classes, out):
    """Set out[i] to the level of lowest (wanted[i] - level * units[i] * step)^2 + price * bits[class, level].

    Candidates are the nearest level, the next towards zero, and zero. Column 2 |a| - (a < 0) of `bits` is level a's.
    """
    last = bits.shape[1] - 1
    for i in range(wanted.size):
        size = units[i] * step
        nearest = int(np.rint(wanted[i] / size))
        best, least = 0, np.inf
        for level in (nearest, nearest - np.sign(nearest), 0):
            at = min(2 * abs(level) - (level < 0), last)
            cost = (wanted[i] - level * size) ** 2 + price * bits[classes[i], at]
            if cost < least:
                best, least = level, cost
        out[i] = best


def symbols(levels: np.ndarray) -> np.ndarray:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    return 2 * np.abs(levels) - (levels < 0)


def classes_of(activity: np.ndarray, contexts: int) -> np.ndarray:
    """Equally many rows in each class, up to ties."""
    if contexts == 1 or not activity.any():
        return np.zeros(len(activity), np.int64)
    return np.searchsorted(np.quantile(activity, np.arange(1, contexts) / contexts), activity)


def activity_of(levels: np.ndarray) -> np.ndarray:
    """What a column adds to the activity of each row."""
    sizes = np.abs(levels)
    return sizes / max(float(sizes.mean()), 1e-9)


def bits_of(levels: np.ndarray, classes: np.ndarray, contexts: int) -> np.ndarray:
    """Bits of each symbol in each class, with room for one more level of either sign."""
    coded = symbols(levels)
    k = int(coded.max()) + 3
    counts = np.bincount(classes * k + coded, minlength=contexts * k).reshape(contexts, k) + UNSEEN
    return np.log2(counts.sum(axis=1))[:, None] - np.log2(counts)


def segments(levels: np.ndarray, contexts: int) -> list[np.ndarray]:
    """The symbols of each column, or of each class of a column, that have frequencies of their own."""
    found, activity = list[np.ndarray](), np.zeros(len(levels))
    for column in levels.T:
        coded, classes = symbols(column).astype(np.uint16), classes_of(activity, contexts)
        parts = [part for k in range(contexts) if len(part := coded[classes == k])]
        found += parts if sum(map(cost, parts)) < cost(coded) else [coded]
        activity += activity_of(column)
    return found


def cost(coded: np.ndarray) -> float:
    """About the bits of a segment and of its frequencies."""
    counts = np.bincount(coded)
    used = counts[counts > 0]
    return float(used @ (np.log2(len(coded)) - np.log2(used))) + 4.0 * len(counts)


def bytes_of(side: Side) -> int:
    """Bytes of the levels, their frequencies, the largest symbols, and a bit for each column: by context or not."""
    parts = segments(side.levels, side.contexts)
    k = [int(part.max()) + 1 for part in parts]
    return sum(map(len, encode_labels(parts, k))) + len(encode_ints(np.array(k))) + -(-side.levels.shape[1] // 8)


def refit(side: Side, other: np.ndarray, product: np.ndarray, price: float) -> None:
    """Choose the levels of one factor anew, column by column; product = matrix @ other."""
    values, G = np.asfortranarray(side.values), other.T @ other
    contexts, activity = side.contexts, np.zeros(len(values))
    for j in range(values.shape[1]):
        classes = classes_of(activity, contexts)
        wanted = (product[:, j] - values @ G[:, j]) / G[j, j] + values[:, j]
        bits = bits_of(side.levels[:, j], classes, contexts)
        choose_levels(wanted, side.units, side.steps[j], price / G[j, j], bits, classes, side.levels[:, j])
        values[:, j] = side.levels[:, j] * side.units * side.steps[j]
        activity += activity_of(side.levels[:, j])


@dataclass(frozen=True)
class Problem:
    """The matrix left @ right.T, with rows and columns scaled by the roots of their weights, and how they are rounded.

    A number of row i is rounded to a multiple of units[i] * step.
    """

    left: np.ndarray
    right: np.ndarray
    row_units: np.ndarray
    col_units: np.ndarray
    contexts: int

    @property
    def finest(self) -> float:
        """The step below which levels become too large to be coded."""
        sides = (self.left, self.row_units), (self.right * np.linalg.norm(self.left, axis=0), self.col_units)
        return max(float((np.abs(factor) / units[:, None]).max()) for factor, units in sides) / MOST_LEVEL

    def refit(self, P: Side, Q: Side, price: float) -> None:
        """Choose all levels anew, in turn, and drop columns of zeros."""
        for side, other, mine, others in ((P, Q, self.left, self.right), (Q, P, self.right, self.left)):
            values = other.values
            refit(side, values, mine @ (others.T @ values), price)
            used = P.levels.any(axis=0) & Q.levels.any(axis=0)
            if not used.all():
                P.keep(used)
                Q.keep(used)

    def rounded(self, step: float, rank: int | None) -> tuple[Side, Side]:
        """Both factors, rounded for themselves, of a rank or until a further column is not worth its bits."""
        S, price = np.linalg.norm(self.left, axis=0), PRICE * step**2
        P, Q = list[np.ndarray](), list[np.ndarray]()
        for s, u, v in zip(S, self.left.T, self.right.T, strict=True):
            levels = rounded(u, self.row_units, step, price), rounded(v * s, self.col_units, step, price)
            p, q = levels[0] * self.row_units * step, levels[1] * self.col_units * step / s
            gain = 2 * (p @ u) * (q @ v) - (p @ p) * (q @ q)
            if len(P) == rank or gain <= (rank is None) * price * sum(cost(symbols(each)) for each in levels):
                break
            P.append(levels[0])
            Q.append(levels[1])
        steps = np.full(len(P), step), step / S[: len(P)]
        return self.side(P, self.row_units, steps[0]), self.side(Q, self.col_units, steps[1])

    def side(self, columns: list[np.ndarray], units: np.ndarray, steps: np.ndarray) -> Side:
        levels = np.stack(columns, axis=1) if columns else np.zeros((len(units), 0), np.int32)
        return Side(np.asfortranarray(levels), units, steps, self.contexts if len(units) >= ENOUGH else 1)

    def weights(self, P: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
        """The weight of each column's product, at which they come closest to the matrix, and what they gain."""
        G = (P.T @ P).astype(np.float64) * (Q.T @ Q)
        b = ((self.left.T @ P) * (self.right.T @ Q)).sum(axis=0, dtype=np.float64)
        weights = np.linalg.solve(G, b) if len(b) else b
        return weights, float(b @ weights)


def rounded(x: np.ndarray, units: np.ndarray, step: float, price: float) -> np.ndarray:
    """The levels of numbers for themselves."""
    none, levels = np.zeros(len(x), np.int64), np.zeros(len(x), np.int32)
    bits = bits_of(np.rint(x / units / step).astype(np.int32), none, 1)
    choose_levels(x.astype(np.float32), units, step, price, bits, none, levels)
    return levels


def scales_of(weights: np.ndarray, coarse: bool) -> tuple[np.ndarray, int]:
    """What numbers of each row are multiplied by before they are rounded, and the bytes that say so.

    The roots of the weights, to a power of two, or one and the same for all rows.
    """
    roots = np.sqrt(weights)
    if not coarse:
        return np.full(len(roots), np.sqrt(np.mean(weights))), 0
    powers = np.rint(np.log2(roots)).astype(np.int64)
    labels = (powers - powers.min()).astype(np.uint16)
    return 2.0**powers, sum(map(len, encode_labels([labels], [int(labels.max()) + 1])))


def svd_of_size(target: Target, size: int, sweeps: int = SWEEPS) -> QuantisedSVD:
    """One of about a size, and never larger, with a few tries; all weights have to be one."""
    roots = [np.sqrt(weights) for weights in (target.row_weights, target.col_weights)]
    left, right = (np.asarray(factor, np.float32) for factor in (target.left, target.right))
    problem = Problem(left, right, roots[0], roots[1], CONTEXTS)
    step = float(target.singular_values[0])
    best = rough = quantised_svd(problem, roots, step, HEADER, 0)  # nothing but the offset
    while rough.size < size and step > problem.finest:
        step *= COARSER
        rough = quantised_svd(problem, roots, step, HEADER, 0)
    found = [best, *fitted(problem, roots, HEADER, size, rough, sweeps)]
    large = min((each for each in found if each.size > size), key=lambda each: each.size, default=rough)
    for less in FEWER:  # where singular values are all alike, rank and step have to be chosen apart
        rank = int(less * large.rank * size / large.size)
        found.append(quantised_svd(problem, roots, large.step, HEADER, sweeps, rank))
    return max((each for each in found if each.size <= size), key=lambda each: each.gain)


def quantised_svds(
    target: Target, largest: int, sizes: Sequence[int] = (), contexts: int = CONTEXTS
) -> Iterator[QuantisedSVD]:
    """Those of falling steps up to a size, and some more that just take one of `sizes`.

    Weights of rows and columns count, as in `distill`: rows of a large weight are rounded more finely if that is worth
    the bytes that say how finely.
    """
    roots = [np.sqrt(weights) for weights in (target.row_weights, target.col_weights)]
    left, right = (
        np.asarray(factor * root[:, None], np.float32)
        for factor, root in zip((target.left, target.right), roots, strict=True)
    )
    equal = all(np.ptp(root) == 0 for root in roots)
    for coarse in (False,) if equal else (False, True):
        scales = [scales_of(weights, coarse) for weights in (target.row_weights, target.col_weights)]
        units = [root / scale for root, (scale, _) in zip(roots, scales, strict=True)]
        problem = Problem(left, right, units[0], units[1], contexts)
        yield from swept(problem, roots, sum(size for _, size in scales) + HEADER, largest, sizes)


def swept(
    problem: Problem, roots: Sequence[np.ndarray], extra: int, largest: int, sizes: Sequence[int]
) -> Iterator[QuantisedSVD]:
    """Those of one way to round."""
    step = COARSEST * float(np.linalg.norm(problem.left[:, 0]))
    found = list[QuantisedSVD]()
    while step > problem.finest and not (found and found[-1].size >= largest):
        found.append(quantised_svd(problem, roots, step, extra))
        yield found[-1]
        step *= FINER
    for size in sizes:
        below = max((each for each in found if each.size <= size), key=lambda each: each.size, default=found[0])
        yield from fitted(problem, roots, extra, size, below, MORE_SWEEPS)


def fitted(
    problem: Problem, roots: Sequence[np.ndarray], extra: int, size: int, last: QuantisedSVD, sweeps: int
) -> Iterator[QuantisedSVD]:
    """Some of about this size, found from one of another; the last ones hold the rank, so that sizes are smooth."""
    low, high = problem.finest, np.inf
    for attempt in range(TRIES):
        step = max(last.step * (last.size / (FILLED * size)) ** SLOPE, problem.finest)
        if not low < step < high:
            step = float(np.sqrt(low * high)) if high < np.inf else low
        rank = None if attempt < TRIES - HELD else last.rank
        if attempt == TRIES - HELD:
            low, high = problem.finest, np.inf
        last = quantised_svd(problem, roots, step, extra, sweeps, rank)
        low, high = (max(low, step), high) if last.size > size else (low, min(high, step))
        yield last


def quantised_svd(
    problem: Problem, roots: Sequence[np.ndarray], step: float, extra: int,
    sweeps: int = SWEEPS, rank: int | None = None,
) -> QuantisedSVD:  # fmt: skip
    """The one of a step."""
    P, Q = problem.rounded(step, rank)
    for _ in range(sweeps):
        problem.refit(P, Q, PRICE * step**2)
    left, right = P.values, Q.values
    weights, gain = problem.weights(left, right)
    size = bytes_of(P) + bytes_of(Q) + SCALE * len(weights) + extra
    return QuantisedSVD(size, step, left * weights / roots[0][:, None], right / roots[1][:, None], gain)
