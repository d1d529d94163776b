"""Synthetic data with known stencils, for tests, demonstrations and benchmarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accams.data.build import index_type
from accams.data.ids import Index
from accams.data.observations import Observations
from accams.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Seed = int | np.random.Generator | None
Degrees = Literal["uniform", "long-tailed"]

CHUNK = 1 << 22  # entries drawn at a time
ROUNDS = 8  # rounds of redrawing repeated columns before the rest of a row is drawn exactly
HEAD = 0.005  # flatness of the most popular columns; smaller is steeper


@dataclass(frozen=True)
class Planted:
    """Observations and the stencil sum behind them.

    Attributes
    ----------
    observations : Observations
        Entries, noise included.
    templates, row_labels, col_labels : list of ndarray
        One of each per stencil.
    offset : float
    noise : float
        Standard deviation of the noise.

    Examples
    --------
    >>> planted = planted_stencils((6, 4), n_stencils=1, n_clusters=2)
    >>> planted.observations.shape, planted.templates[0].shape
    ((6, 4), (2, 2))
    >>> bool(np.all(planted.predict([0, 1], [2, 2]) == planted.dense()[:2, 2]))
    True
    """

    observations: Observations
    templates: list[Floats]
    row_labels: list[Labels]
    col_labels: list[Labels]
    offset: float
    noise: float

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> Floats:
        """Return the cells (`rows`, `cols`) of the planted matrix, without noise.

        Parameters
        ----------
        rows, cols : array-like of int

        Returns
        -------
        array of float
        """
        i, j = np.asarray(rows), np.asarray(cols)
        return _stencil_sum(self.templates, self.row_labels, self.col_labels, self.offset, i, j)

    def dense(self) -> Floats:
        """Return the planted matrix, without noise."""
        m, n = self.observations.shape
        return self.predict(np.arange(m)[:, None], np.arange(n)[None, :])


def planted_stencils(
    shape: tuple[int, int], n_stencils: int, n_clusters: int | tuple[int, int], *, density: float = 1.0,
    nnz: int | None = None, noise: float = 0.0, random_state: Seed = 0,
    offset: float = 0.0, scale: float = 1.0, degrees: Degrees = "uniform",
) -> Planted:  # fmt: skip
    """Draw a stencil sum and observe some of its cells with noise.

    Entries are drawn a few million at a time in row order directly into the arrays of `Observations`, so that
    memory stays near the size of the result (6 bytes per entry up to 65,536 columns). Columns that repeat within a
    row are redrawn, which is sampling without replacement; dense rows are completed by sorted exponential keys.

    Parameters
    ----------
    shape : (int, int)
        Number of rows and columns.
    n_stencils : int
    n_clusters : int or (int, int)
        Number of row and column clusters, of equal size, give or take one.
    density : float
        Share of observed cells.
    nnz : int, optional
        Number of observed cells, instead of `density`.
    noise : float
        Standard deviation of the noise.
    random_state : int, Generator or None
    offset : float
    scale : float
        Standard deviation of the template entries, which are rounded to a power-of-two grid of about 2^-12 of
        it, so that their sums are exact.
    degrees : {"uniform", "long-tailed"}
        Rows equally active and columns equally popular, or as in real ratings: log-normal numbers of entries per
        row, and a share of each column proportional to 1 / (rank + 0.005 n).

    Returns
    -------
    Planted

    Examples
    --------
    >>> planted = planted_stencils((60, 40), 2, 3, density=0.5)
    >>> planted.observations
    Observations(60 x 40, 1,200 observed (50%), values -3.02856 to 1.34521)
    >>> rows, cols, values = planted.observations.coo()
    >>> bool(np.all(planted.predict(rows, cols) == values))
    True
    """
    m, n = int(shape[0]), int(shape[1])
    nnz = _checked_nnz((m, n), density, nnz, noise, scale, degrees)
    k_rows, k_cols = (n_clusters, n_clusters) if isinstance(n_clusters, int) else n_clusters
    if n_stencils < 0 or k_rows < 1 or k_cols < 1:
        raise InputError(
            f"n_stencils must be at least 0 and n_clusters at least 1, not {n_stencils} and {k_rows} x {k_cols}"
        )
    rng = np.random.default_rng(random_state)
    step = 2.0 ** (np.floor(np.log2(scale)) - 12)
    templates = [np.round(rng.normal(scale=scale, size=(k_rows, k_cols)) / step) * step for _ in range(n_stencils)]
    row_labels = [rng.permutation(m) % k_rows for _ in range(n_stencils)]
    col_labels = [rng.permutation(n) % k_cols for _ in range(n_stencils)]

    row_starts = np.concatenate([[0], np.cumsum(_row_degrees(m, n, nnz, degrees, rng))])
    columns = _Columns(n, degrees, rng)
    cols = np.empty(nnz, dtype=index_type(n))
    values = np.empty(nnz, dtype=np.float32)
    for first, last in _row_chunks(row_starts):
        part = slice(row_starts[first], row_starts[last])
        counts = np.diff(row_starts[first : last + 1])
        cols[part] = columns.draw(counts, rng)
        i = np.repeat(np.arange(first, last), counts)
        x = _stencil_sum(templates, row_labels, col_labels, offset, i, cols[part])
        values[part] = x + noise * rng.standard_normal(len(x), dtype=np.float32) if noise else x
    observations = Observations((m, n), row_starts, cols, values, Index(None, m), Index(None, n))
    return Planted(observations, templates, row_labels, col_labels, float(offset), float(noise))


def planted_graph(n_nodes: int, n_edges: int, n_blocks: int, random_state: Seed = 0) -> "sparse.csr_array":
    """Draw an undirected graph from a stochastic block model.

    Node v belongs to block ``v * n_blocks // n_nodes``. Edges within a block are the most likely; each pair of
    blocks has its own, mostly small, affinity.

    Parameters
    ----------
    n_nodes, n_edges, n_blocks : int
    random_state : int, Generator or None

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric, 0 and 1, with ``2 * n_edges`` stored cells and an empty diagonal.

    Examples
    --------
    >>> graph = planted_graph(50, 200, 4)
    >>> graph.shape, graph.nnz, int(graph.diagonal().sum()), abs(graph - graph.T).nnz
    ((50, 50), 400, 0, 0)
    """
    from scipy import sparse

    pairs = n_nodes * (n_nodes - 1) // 2
    if not 1 <= n_blocks <= n_nodes:
        raise InputError(f"n_blocks must be between 1 and the number of nodes ({n_nodes:,}), not {n_blocks}")
    if not 1 <= n_edges <= pairs:
        raise InputError(f"n_edges must be between 1 and {pairs:,} for {n_nodes:,} nodes, not {n_edges:,}")
    rng = np.random.default_rng(random_state)
    affinity = rng.random((n_blocks, n_blocks)) ** 6 * 0.3 + 0.005
    affinity = np.maximum(affinity, affinity.T)
    np.fill_diagonal(affinity, 1.0)
    few = pairs <= 1 << 22 or n_edges > pairs // 8
    i, j = (_edges_exactly if few else _edges_by_blocks)(n_nodes, n_edges, affinity, rng)
    ones = np.ones(2 * n_edges)
    graph = sparse.csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n_nodes, n_nodes))
    graph.sort_indices()
    return graph


def paper_example() -> tuple[Floats, list[Floats], list[Labels], list[Labels]]:
    """Return a 9 x 9 matrix, the sum of a 3 x 3 and a 3 x 2 stencil, as in the paper's introduction.

    It has 9 distinct rows and 6 distinct columns, so a single co-clustering needs 9 x 6 blocks.

    The rank is 4, the highest that stencils of these sizes can have together. The paper says 5 = 3 + 2, but
    the rows of the sum lie in the span of the indicators of 3 and of 2 column clusters, and the indicators of
    either labelling add up to the same all-ones vector: 3 + 2 - 1 dimensions.

    Returns
    -------
    matrix : ndarray of shape (9, 9)
    templates, row_labels, col_labels : list of two ndarray

    Examples
    --------
    >>> matrix, templates, row_labels, col_labels = paper_example()
    >>> int(np.linalg.matrix_rank(matrix)), [t.shape for t in templates]
    (4, [(3, 3), (3, 2)])
    >>> len(np.unique(matrix, axis=0)), len(np.unique(matrix, axis=1).T)
    (9, 6)
    """
    templates = [
        np.array([[8.0, 1.0, 4.0], [2.0, 9.0, 3.0], [5.0, 3.0, 7.0]]),
        np.array([[0.0, 12.0], [20.0, 6.0], [10.0, 30.0]]),
    ]
    row_labels = [np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])]
    col_labels = [np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 0, 1, 1, 0, 1])]
    i, j = np.arange(9)[:, None], np.arange(9)[None, :]
    return _stencil_sum(templates, row_labels, col_labels, 0.0, i, j), templates, row_labels, col_labels


class _Columns:
    """Sampler of distinct, ascending columns for each row, uniformly or by popularity.

    The column of rank r has popularity F((r + 1) / n) - F(r / n), where F(x) = log(1 + x / HEAD) up to a
    factor, which has a cheap inverse.
    """

    def __init__(self, n: int, degrees: Degrees, rng: np.random.Generator) -> None:
        self.n = n
        self.of_rank = rng.permutation(n) if degrees == "long-tailed" else None
        if self.of_rank is None:
            self.popularity = np.full(n, 1 / n)
        else:
            self.popularity = np.empty(n)
            self.popularity[self.of_rank] = np.diff(np.log1p(np.arange(n + 1) / (n * HEAD)))

    def draw(self, counts: Labels, rng: np.random.Generator) -> Labels:
        n, wanted = self.n, counts.copy()
        if counts.min() == n:
            return np.tile(np.arange(n), len(counts))
        wanted[4 * counts > n] = 0  # dense rows would repeat too often: drawn exactly below
        keys = np.empty(0, dtype=np.int64)
        for _ in range(ROUNDS):
            missing = wanted - np.bincount(keys // n, minlength=len(counts))
            if not missing.any():
                break
            rows = np.repeat(np.arange(len(counts)), missing)
            keys = _distinct(np.concatenate([keys, rows * n + self._any(len(rows), rng)]))
        lacking = np.flatnonzero(counts > np.bincount(keys // n, minlength=len(counts)))
        if len(lacking):
            keys = np.sort(np.concatenate([keys, self._exactly(lacking, counts, keys, rng)]))
        return keys % n

    def _any(self, size: int, rng: np.random.Generator) -> Labels:
        if self.of_rank is None:
            return rng.integers(self.n, size=size)
        x = np.expm1(rng.random(size) * np.log1p(1 / HEAD)) * HEAD
        rank = np.minimum((x * self.n).astype(np.int64), self.n - 1)
        return np.asarray(self.of_rank[rank])

    def _exactly(self, lacking: Labels, counts: Labels, keys: Labels, rng: np.random.Generator) -> Labels:
        """Complete these rows with the columns of the smallest exponential waiting times."""
        starts = np.searchsorted(keys, lacking * self.n)
        ends = np.searchsorted(keys, (lacking + 1) * self.n)
        drawn = []
        for row, start, end in zip(lacking, starts, ends, strict=True):
            wait = rng.exponential(size=self.n) / self.popularity
            wait[keys[start:end] - row * self.n] = np.inf
            missing = counts[row] - (end - start)
            drawn.append(row * self.n + np.argpartition(wait, missing - 1)[:missing])
        return np.concatenate(drawn)


def _stencil_sum(
    templates: Sequence[Floats], row_labels: Sequence[Labels], col_labels: Sequence[Labels], offset: float,
    i: NDArray[Any], j: NDArray[Any],
) -> Floats:  # fmt: skip
    total = np.full(np.broadcast_shapes(i.shape, j.shape), float(offset))
    for T, c, d in zip(templates, row_labels, col_labels, strict=True):
        total += T[c[i], d[j]]
    return total


def _row_degrees(m: int, n: int, nnz: int, degrees: Degrees, rng: np.random.Generator) -> Labels:
    """Draw the number of entries of each row: at most n, at least 1 if possible, `nnz` in all."""
    activity = np.ones(m) if degrees == "uniform" else rng.lognormal(sigma=1.2, size=m)
    low, least, most = float(nnz >= m), 0.0, float(n / activity.min())
    for _ in range(60):
        middle = (least + most) / 2
        if np.clip(middle * activity, low, n).sum() > nnz:
            most = middle
        else:
            least = middle
    counts = np.clip(least * activity, low, n).astype(np.int64)
    while (missing := nnz - int(counts.sum())) > 0:
        counts[rng.permutation(np.flatnonzero(counts < n))[:missing]] += 1
    return counts


def _row_chunks(row_starts: Labels) -> list[tuple[int, int]]:
    marks = np.arange(0, row_starts[-1], CHUNK)
    edges = np.unique(np.append(np.searchsorted(row_starts, marks), len(row_starts) - 1))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _distinct(keys: Labels) -> Labels:
    """Sort in place, and return the distinct keys."""
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]


def _edges_exactly(n: int, n_edges: int, affinity: Floats, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """Draw the edges of a small or dense graph: the pairs of the smallest exponential waiting times."""
    i, j = np.triu_indices(n, 1)
    block = np.arange(n) * len(affinity) // n
    wait = rng.exponential(size=len(i)) / affinity[block[i], block[j]]
    chosen = np.argpartition(wait, n_edges - 1)[:n_edges]
    return i[chosen], j[chosen]


def _edges_by_blocks(n: int, n_edges: int, affinity: Floats, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """Draw the edges of a large graph: blocks, then nodes inside them; repeated edges are redrawn."""
    k = len(affinity)
    starts = -(-np.arange(k + 1) * n // k)  # block b has the nodes starts[b] .. starts[b + 1] - 1
    sizes = np.diff(starts)
    mass = (affinity * np.outer(sizes, sizes)).ravel()
    keys = np.empty(0, dtype=np.int64)
    while (missing := n_edges - len(keys)) > 0:
        pair = np.repeat(np.arange(k * k), rng.multinomial(missing, mass / mass.sum()))
        a, b = pair // k, pair % k
        i, j = (starts[x] + (rng.random(missing) * sizes[x]).astype(np.int64) for x in (a, b))
        new = np.minimum(i, j) * n + np.maximum(i, j)
        keys = _distinct(np.concatenate([keys, new[i != j]]))
    return keys // n, keys % n


def _checked_nnz(
    shape: tuple[int, int], density: float, nnz: int | None, noise: float, scale: float, degrees: str
) -> int:
    if min(shape) < 1:
        raise InputError(f"the shape must have at least one row and one column, not {shape[0]} x {shape[1]}")
    if degrees not in ("uniform", "long-tailed"):
        raise InputError(f"degrees must be 'uniform' or 'long-tailed', not {degrees!r}")
    if not (noise >= 0 and scale > 0):
        raise InputError(f"noise must be nonnegative and scale positive, not {noise} and {scale}")
    cells = shape[0] * shape[1]
    if nnz is None:
        if not 0 < density <= 1:
            raise InputError(f"density must be above 0 and at most 1, not {density}")
        nnz = round(density * cells)
    if not 1 <= nnz <= cells:
        raise InputError(f"{nnz:,} entries do not fit into {shape[0]:,} x {shape[1]:,} cells")
    return int(nnz)
