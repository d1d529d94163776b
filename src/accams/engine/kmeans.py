"""k-means on sums: every point has, per coordinate b, a weight n[i, b] and a sum l[i, b].

With centres T the cost of point i in cluster a is sum_b n * T[a, b]^2 - 2 * l * T[a, b], so the kernel is that of a
stencil. Points with missing coordinates have n = 0 there.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.kernels import assign
from accams.kernels.jit import readonly
from accams.model.stencils import label_type
from accams.threads import Range, Threads

Init = Literal["k-means++", "random"]
Ints = NDArray[np.int64]
SEED_POINTS = 1 << 15  # points among which first centres are chosen
SKETCH = 128  # coordinates of a sketch: distances are accurate to about 10 percent
SKETCH_CELLS = 1 << 24  # bound on the size of a sketch, which has fewer coordinates with many rows


class Effort(NamedTuple):
    """What first labels of rows may cost."""

    max_iter: int = 20
    n_trials: int = 4  # candidates per centre; more gain little
    n_points: int = SEED_POINTS  # among which first centres are chosen, where no cell is missing


THOROUGH, QUICK = Effort(), Effort(5, 1, 1 << 11)  # the latter where the sampler soon moves on from them


def cluster(
    n: Ints, l: Ints, k: int, init: Init, generator: np.random.Generator, max_iter: int, threads: Threads,
    ranges: list[Range], uniform: bool = False, n_trials: int = 1, n_points: int = SEED_POINTS,
) -> NDArray[np.unsignedinteger[Any]]:  # fmt: skip
    """Return labels of all points after seeding and at most `max_iter` rounds of assigning and averaging.

    `uniform` says that all points have the same n; `n_trials` is as in `centres`, `n_points` as in `some_points`.
    """
    labels = np.zeros(len(n), dtype=label_type(k))
    if k == 1:
        return labels
    some = some_points(len(n), generator, n_points)
    first = (n, l, ranges) if some is None else (n[some], l[some], threads.split_evenly(len(some), k))
    T = centres(*first[:2], k, init, generator, threads, first[2], n_trials)
    for _ in range(max_iter):
        N, L, moved = assigned(n, l, T, labels, threads, ranges, uniform)
        if moved == 0:
            break
        T = np.rint(means(N, L))
    return labels


def assigned(
    n: Ints, l: Ints, T: NDArray[np.float64], labels: NDArray[np.unsignedinteger[Any]], threads: Threads,
    ranges: list[Range], uniform: bool = False,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    """Label points by their nearest centre, in place; return weights and sums of clusters, and labels changed."""
    T, free = readonly(T), readonly(np.zeros(len(T)))

    def run(lo: int, hi: int) -> tuple[Ints, Ints, int]:
        N, L, counts = np.zeros(T.shape, np.int64), np.zeros(T.shape, np.int64), np.zeros(len(T), np.int64)
        moved = assign.nearest(lo, hi, n, l, None, T, 1.0, free, uniform, labels, N, L, counts)
        return N, L, int(moved)

    parts = threads.map(run, ranges)
    return sum(p[0] for p in parts), sum(p[1] for p in parts), sum(p[2] for p in parts)


def some_points(size: int, generator: np.random.Generator, most: int = SEED_POINTS) -> NDArray[np.int64] | None:
    """Return a random sample of points for choosing the first centres, or None if there are no more than `most`."""
    if size <= most:
        return None
    drawn = np.sort(generator.integers(0, size, most))  # np.unique in less time
    return np.asarray(drawn[np.append(True, drawn[1:] != drawn[:-1])])


def centres(
    n: Ints, l: Ints, k: int, init: Init, generator: np.random.Generator, threads: Threads, ranges: list[Range],
    n_trials: int = 1,
) -> NDArray[np.float64]:  # fmt: skip
    """Choose `k` points as first centres, uniformly or by k-means++ with the best of `n_trials` candidates each.

    With fewer distinct points than k, the remaining centres are zeros.
    """
    T = np.zeros((k, n.shape[1]))
    if init == "random":
        chosen = np.sort(generator.choice(len(n), size=min(k, len(n)), replace=False))
        T[: len(chosen)] = np.rint(means(n[chosen], l[chosen]))
        return T
    spread = np.empty(len(n))
    threads.run(assign.spreads, ranges, n, l, spread)
    distance = spread.copy()
    for a in range(k):
        seeds = _race(distance, generator, n_trials)
        if len(seeds) == 0:
            break
        tried = np.rint(means(n[seeds], l[seeds]))
        after = np.repeat(np.full((1, len(n)), np.inf) if a == 0 else distance[None], len(seeds), axis=0)
        threads.run(assign.distances, ranges, n, l, tried, spread, after)
        after[np.arange(len(seeds)), seeds] = 0.0
        best = int(np.argmin(after.sum(axis=1)))
        T[a], distance = tried[best], after[best]
    return T


def means(n: NDArray[Any], l: NDArray[Any]) -> NDArray[np.float64]:
    """Return l / n, and 0 where n is 0."""
    return np.asarray(np.divide(l, n, out=np.zeros(np.shape(l)), where=np.asarray(n) > 0), dtype=np.float64)


def _race(weights: NDArray[np.float64], generator: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Sample up to `n` positions without replacement by weight: those whose exponential clocks ring first."""
    clocks = generator.standard_exponential(len(weights))
    with np.errstate(divide="ignore"):
        times = np.where(weights > 0, clocks / np.maximum(weights, 1e-300), np.inf)
    n = min(n, len(times))
    first = np.argpartition(times, n - 1)[:n]
    first = first[np.argsort(times[first], kind="stable")]
    return first[np.isfinite(times[first])]


class SketchGroups(NamedTuple):
    """A random grouping of the other axis, in which groups 2g and 2g + 1 are subtracted from each other."""

    labels: NDArray[np.unsignedinteger[Any]]
    k: int

    def combine(self, l: Ints) -> tuple[Ints, Ints]:
        """Return the coordinates of the sketch: signed sums, all of weight one."""
        difference = l[:, 0::2] - l[:, 1::2]
        return np.ones_like(difference), difference


def signed_groups(size: int, points: int, generator: np.random.Generator) -> SketchGroups:
    """Draw groups of the other axis's `size` positions for a sketch of `points` complete rows.

    Signed sums over random groups preserve distances approximately (Johnson and Lindenstrauss; a count sketch).
    """
    groups = min(SKETCH, size, max(8, SKETCH_CELLS // points))
    labels = 2 * generator.integers(0, groups, size) + generator.integers(0, 2, size)
    return SketchGroups(labels.astype(np.uint8), 2 * groups)


def plain_groups(size: int, k: int, generator: np.random.Generator) -> NDArray[np.unsignedinteger[Any]]:
    """Draw at most `k` groups of the other axis's positions, for rows with missing cells.

    Distances with zeros for missing cells would compare which cells are observed rather than their values; so these
    groups are unsigned and keep their weights.
    """
    groups = min(k, size)
    return generator.integers(0, groups, size).astype(label_type(groups))
