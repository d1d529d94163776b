"""A stencil sum in place of an item-item map, fitted in the metric of the regression that the map solves.

Which items go with which is a regression of what people chose on itself (EASE, Steck 2019): the map B minimises

    |X - X B|^2 + lambda |B|^2    with a diagonal of zeros,

and with A = X'X + lambda I the loss of any other map S of zero diagonal is larger by exactly tr((B - S)' A (B - S)).
So this is the error that a stencil sum in place of B should minimise; its diagonal, which is never used, is free. (X'X
is what dropout makes of it: see `accams.fit.regression`.) The
gradient needs B no more than A does: off the diagonal, A B is X'X.

Lines of the map are scaled by h, about the square root of the diagonal of A (`scales`): the metric of the scaled map
has a diagonal of about ones, so that the lines of popular items do not need finer templates than others.

The start is the best map of low rank in this metric, B V V' with V the leading eigenvectors of B'AB, quantised: each
pair of vectors becomes a stencil whose template is the outer product of their levels. Rounds of improving the labels
and the template of each stencil in turn then lower the error at the same price per bit; they gain most.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError
from accams.fit.keys import Purpose, generator
from accams.fit.price import CODE_BITS, ENTRY_BITS, code_bits, in_steps
from accams.fit.regression import Directions, leading, solved
from accams.fit.search import SLOPE
from accams.kernels import itemmap as kernels
from accams.model.itemmap import groups_of, levels_of, scales_of, sum_bytes
from accams.model.stencils import Stencil, StencilSum, label_type
from accams.threads import Threads

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RIDGE = 1e-6  # of the metric between clusters, relative to its mean: clusters without members keep a template line
FEWEST_BITS = 1.0  # of a label, by which the number of directions at the start is bounded
GIVE_UP = 3  # directions not worth their bits after which the start is complete
MOST_STEPS = 31  # of a quantised vector, to either side
START = 1.3  # size of the start, relative to what is asked for: rounds make it smaller
ROUNDS, MOST_ROUNDS = 4, 30  # of improving; more while the file is too large
AIM = 0.985  # of the bytes to be used


@dataclass
class Problem:
    """The scaled regression: what stencil sums are fitted to."""

    metric: NDArray[np.float32]  # A / h h'
    target: NDArray[np.float32]  # X'X / h, with a diagonal of zeros
    scales: Floats  # h
    levels: Labels  # how often each item was chosen

    @classmethod
    def of(cls, gram: Floats, penalty: float) -> Self:
        """From X'X and lambda."""
        diagonal, levels = np.diagonal(gram) + penalty, levels_of(np.diagonal(gram))
        scales = scales_of(levels, penalty)
        target = (gram / scales[:, None]).astype(np.float32, order="C")  # passes go line by line
        metric = (gram / scales[:, None] / scales).astype(np.float32, order="C")
        np.fill_diagonal(metric, diagonal / scales**2)
        np.fill_diagonal(target, 0.0)
        return cls(metric, target, scales, levels)

    @cached_property
    def groups(self) -> Labels:
        """Group of each item: the frequencies of labels in a file, and so the prices of labels, differ by group."""
        out = np.empty(self.size, np.int64)
        for number, items in enumerate(groups_of(self.levels)):
            out[items] = number
        return out

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.scales)


@dataclass
class Part:
    """One stencil of the sum, with the metric summed over its row clusters."""

    rows: Labels
    cols: Labels
    template: Floats
    sums: Floats  # (row cluster, item)

    @property
    def lines(self) -> Floats:
        """The metric times the stencil (column cluster, item)."""
        return np.ascontiguousarray(self.template.T @ self.sums)

    @property
    def diagonal(self) -> Floats:
        """Entries of the stencil at the diagonal, which is left out."""
        return np.asarray(self.template[self.rows, self.cols])

    def compact(self) -> Self:
        """Return the stencil without clusters that have no members."""
        (rows, at), (cols, to) = (np.unique(x, return_inverse=True) for x in (self.rows, self.cols))
        return type(self)(at.astype(np.int64), to.astype(np.int64), self.template[np.ix_(rows, cols)], self.sums[rows])


@dataclass
class Map:
    """A stencil sum that approximates the scaled map, and what it leaves: target - metric @ sum."""

    problem: Problem
    threads: Threads = field(default_factory=Threads)
    seed: int = 0
    parts: list[Part] = field(default_factory=list)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.left = self.problem.target.copy()

    def add(self, rows: Labels, cols: Labels, template: Floats | None = None) -> None:
        """Add a stencil with these labels, by default with the best template for them."""
        shape = int(rows.max()) + 1, int(cols.max()) + 1
        nothing = Part(rows, cols, np.zeros(shape), np.zeros((shape[0], len(rows))))
        self._run(kernels.label_sums, self.problem.metric, rows, nothing.sums)
        if template is None:
            template = self._best_template(*self._wanted(nothing, rows, nothing.sums), rows, cols, nothing.sums)
        self.parts.append(replace(nothing, template=np.ascontiguousarray(template, np.float64)))
        self._exchange(nothing, self.parts[-1])

    def round(self, price: float) -> int:
        """Improve the labels and the template of each stencil in turn; return how many labels changed."""
        order = generator(self.seed, Purpose.PROJECTION, self.rounds).permutation(self.problem.size)
        self.rounds += 1
        moved = 0
        for l, old in enumerate(self.parts):
            new = self._improved(old, price, order)
            self._exchange(old, new)
            self.parts[l] = new.compact()
            moved += sum(int(np.count_nonzero(x != y)) for x, y in ((old.rows, new.rows), (old.cols, new.cols)))
        self.parts = [part for part in self.parts if min(part.template.shape) > 1 or part.template.any()]
        return moved

    def scaled(self) -> Floats:
        """Return the scaled map, with a diagonal of zeros."""
        out = np.zeros((self.problem.size,) * 2)
        for part in self.parts:
            out += part.template[part.rows][:, part.cols]
        np.fill_diagonal(out, 0.0)
        return out

    def error(self) -> float:
        """Return tr(S'AS) - 2 tr(S'G): by how much the regression's loss differs from that of no map at all."""
        return float(-np.sum(self.scaled() * (self.problem.target + self.left)))

    def to_sum(self, price: float) -> StencilSum:
        """Return the scaled map as a stencil sum, with templates quantised for this price per bit."""
        stencils, each = [], np.arange(self.problem.size)
        for part in self.parts:
            weight = self.problem.size * float(part.sums[part.rows, each].sum())
            template, step = in_steps(part.template, price, weight)
            rows, cols = (x.astype(label_type(k)) for x, k in zip((part.rows, part.cols), template.shape, strict=True))
            stencils.append(Stencil(template, rows, cols, step))
        return StencilSum((self.problem.size,) * 2, 0.0, tuple(stencils))

    # -- one stencil ----------------------------------------------------------------------------------------------

    def _improved(self, old: Part, price: float, order: Labels) -> Part:
        """Return a stencil with better row labels, then better column labels, then the best template for them."""
        rows, cols, sums = old.rows.copy(), old.cols.copy(), old.sums.copy()
        gradient, lines = np.zeros((old.template.shape[1], self.problem.size)), old.lines
        self._run(kernels.label_sums, self.left, cols, gradient)
        counts = np.bincount(cols, minlength=old.template.shape[1]).astype(np.float64)
        prices = self._prices(rows, old.template.shape, price)
        now = lines, cols, counts, self.problem.groups, prices, gradient
        kernels.improve_rows(self.problem.metric, order, old.template, *now, rows, sums)

        wanted, between = self._wanted(old, rows, sums)
        template = self._best_template(wanted, between, rows, cols, sums)
        square = np.einsum("aq,ab,bq->q", template, between, template)
        prices = self._prices(cols, template.shape[::-1], price)
        given = wanted, sums, self.problem.metric, rows, template, square, self.problem.groups, prices
        self._run(kernels.improve_cols, *given, cols)
        return Part(rows, cols, self._best_template(wanted, between, rows, cols, sums), sums)

    def _wanted(self, old: Part, rows: Labels, sums: Floats) -> tuple[Floats, Floats]:
        """Return what the other stencils leave, summed over row clusters off the diagonal, and the metric likewise."""
        each, wanted = np.arange(self.problem.size), np.zeros(sums.shape)
        self._run(kernels.cluster_lines, self.left, rows, wanted)
        lines, diagonal = old.lines, old.diagonal
        totals, between = (np.stack([np.bincount(rows, x, len(sums)) for x in of], axis=1) for of in (lines, sums))
        wanted += totals[:, old.cols] - diagonal * sums
        wanted[rows, each] -= lines[old.cols, each] - diagonal * np.diagonal(self.problem.metric)
        return wanted, (between + between.T) / 2.0

    def _best_template(self, wanted: Floats, between: Floats, rows: Labels, cols: Labels, sums: Floats) -> Floats:
        k, width = len(wanted), int(cols.max()) + 1
        matrices, sides = np.zeros((width, k, k)), np.zeros((width, k))
        kernels.normal_equations(wanted, sums, self.problem.metric, between, rows, cols, matrices, sides)
        matrices[:, np.arange(k), np.arange(k)] += RIDGE * np.trace(between) / k + 1e-30
        return np.ascontiguousarray(np.linalg.solve(matrices, sides[:, :, None])[:, :, 0].T)

    def _exchange(self, old: Part, new: Part) -> None:
        """Bring `left` up to date after a stencil has changed."""
        pairs, which = np.unique(old.cols * new.template.shape[1] + new.cols, return_inverse=True)
        before, after = np.divmod(pairs, new.template.shape[1])
        changes = np.ascontiguousarray((old.lines[before] - new.lines[after]).T, np.float32)
        diagonal = (new.diagonal - old.diagonal).astype(np.float32)
        self._run(kernels.exchange, self.left, self.problem.metric, changes, which.astype(np.int32), diagonal)

    def _prices(self, labels: Labels, shape: tuple[int, ...], price: float) -> Floats:
        """Return what each use of a label costs, by group; `shape` is that of the template, these labels first."""
        groups, k = self.problem.groups, shape[0]
        counts = np.bincount(groups * k + labels, minlength=(int(groups.max()) + 1) * k).reshape(-1, k)
        uses = counts.sum(axis=0)
        bits = code_bits(counts, counts.sum(axis=1, keepdims=True), 0) + ENTRY_BITS * shape[1] / np.maximum(uses, 0.5)
        return np.where(uses > 0, price * bits, np.inf)

    def _run(self, kernel: Callable[..., None], *args: Any) -> None:
        """Run a kernel over ranges of all items."""
        self.threads.run(kernel, self.threads.split_evenly(self.problem.size, self.problem.size), *args)


def compressed_map(
    gram: Floats, penalty: float, max_bytes: int, *, seed: int = 0, threads: Threads | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[StencilSum, Floats, float]:  # fmt: skip
    """Return a stencil sum of at most `max_bytes` in place of the map, the scales of its lines, and the price of a bit.

    Parameters
    ----------
    gram, penalty
        X'X and lambda of the regression.
    max_bytes : int
        Size of the sum in a file.
    seed, threads
        Of the directions and of the order in which labels are improved; for the passes.
    watch : callable, optional
        Called as ``watch(round, rounds)`` after each round.
    """
    empty, levels = StencilSum((len(gram),) * 2, 0.0, ()), levels_of(np.diagonal(gram))
    least = sum_bytes(empty, levels)
    if max_bytes < least:
        raise InputError(f"max_bytes={max_bytes:,} is too small: a map without any stencil takes {least:,}")
    dense = solved(gram, penalty)
    problem, threads = Problem.of(gram, penalty), threads or Threads()
    number = int(np.ceil(START * 8.0 * max_bytes / (2.0 * problem.size * FEWEST_BITS)))
    found = leading(gram, penalty, dense, number, generator(seed, Purpose.PROJECTION))
    del dense
    price = _first_price(found, problem, START * max_bytes)
    model = _quantised(Map(problem, threads, seed), found, price)
    best, paid = empty, price
    for number in range(MOST_ROUNDS):
        model.round(price)
        if watch is not None:
            watch(min(number + 1, ROUNDS), ROUNDS)
        made = model.to_sum(price)
        share = (sum_bytes(made, levels) - least) / max(max_bytes - least, 1)
        best, paid = (made, price) if share <= 1.0 and len(made) else (best, paid)
        if not model.parts or (number + 1 >= ROUNDS and share <= 1.0):
            break
        price *= float(np.clip((share / AIM) ** (0.5 / SLOPE), 0.5, 2.0))  # larger steps would end all stencils
    return best, problem.scales, paid


def _first_price(found: Directions, problem: Problem, size: float) -> float:
    """Return the price per bit at which the quantised directions have about this many bytes, by bisection."""
    low, high = np.log2(np.square(found.sizes[0]) / problem.size + 1e-300) + np.array([-40.0, 40.0])
    for _ in range(40):
        middle = 0.5 * (low + high)
        bits = 0.0
        for pair in _steps(found, problem, 2.0**middle):
            ranges = [int(np.ptp(x)) + 1 for x in pair]
            bits += ENTRY_BITS * ranges[0] * ranges[1] + sum(_entropy(x, problem.groups) for x in pair)
        low, high = (middle, high) if bits > 8.0 * size else (low, middle)
    return float(2.0**high)


def _steps(found: Directions, problem: Problem, price: float) -> Iterator[tuple[Labels, Labels]]:
    """Yield the directions in steps of the size that the price asks for, as long as they are worth their bits.

    Each vector is in its scale: an error of either adds its square to the error of the map.
    """
    step, failed = np.sqrt(6.0 * price / np.log(2.0)), 0
    for rows, cols, size in zip(found.rows.T, found.cols.T, found.sizes, strict=True):
        gain, pair = float(size) ** 2, list[Labels]()
        for x in (problem.scales * rows, size * cols):
            wide = max(step, np.abs(x).max() / MOST_STEPS, 1e-300)
            pair.append(np.rint(x / wide).astype(np.int64))
            gain -= float(np.square(x - wide * pair[-1]).sum()) + price * _entropy(pair[-1], problem.groups)
        failed = 0 if gain > 0.0 else failed + 1
        if failed == GIVE_UP:
            return
        if gain > 0.0:
            yield pair[0], pair[1]


def _entropy(x: Labels, groups: Labels) -> float:
    """Return the bits of these numbers, each coded by its frequency in its group, and of the frequencies."""
    k = int(np.ptp(x)) + 1
    counts = np.bincount(groups * k + x - x.min(), minlength=(int(groups.max()) + 1) * k).reshape(-1, k)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    used = counts > 0
    return float(-np.sum(counts[used] * np.log2(shares[used]))) + CODE_BITS * int(used.sum())


def _quantised(model: Map, found: Directions, price: float) -> Map:
    """Add the quantised directions as stencils: their templates are the best ones for these labels."""
    for pair in _steps(found, model.problem, price):
        rows, cols = (np.unique(x, return_inverse=True)[1].astype(np.int64) for x in pair)
        model.add(rows, cols)
    return model
