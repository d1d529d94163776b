"""Slow reference versions ("twins") of the kernels that can be checked by eye, and small data."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from accams.data.observations import Observations
from accams.engine import disk
from accams.engine.base import Engine, State
from accams.engine.cpu import CpuEngine
from accams.engine.cuda.engine import CudaEngine
from accams.engine.dense import DenseEngine
from accams.engine.disk import DiskEngine
from accams.engine.graph import GraphEngine
from accams.engine.grid import Grid
from accams.engine.ray.engine import RayEngine
from accams.engine.ray.worker import Worker
from accams.threads import Threads

# -- accams.kernels.sparse -----------------------------------------------------------------------------------


def cells(lo, hi, starts, index):
    """Return (own position, place in the arrays, partner) of every observation of rows [lo, hi)."""
    return [(i, p, int(index[p])) for i in range(lo, hi) for p in range(int(starts[i]), int(starts[i + 1]))]


def sparse_shift(lo, hi, starts, index, resid, own, other, T):
    """Return the residual with one shift added."""
    out = [int(x) for x in resid]
    for i, p, j in cells(lo, hi, starts, index):
        out[p] += int(T[own[i], other[j]])
    return np.array(out, dtype=np.int64)


def sparse_gather(lo, hi, starts, index, resid, weights, shifts, labels, k, partners=None):
    """Return the residual with all shifts added, and n and l of rows [lo, hi)."""
    for shift in shifts:
        resid = sparse_shift(lo, hi, starts, index, resid, *shift)
    n = [[0] * k for _ in range(len(starts) - 1)]
    sums = [[0] * k for _ in range(len(starts) - 1)]
    for i, p, j in cells(lo, hi, starts, index):
        w = (1 if weights is None else int(weights[p])) * (1 if partners is None else int(partners[j]))
        n[i][labels[j]] += w
        sums[i][labels[j]] += w * int(resid[p])
    return resid, np.array(n, dtype=np.int64)[lo:hi], np.array(sums, dtype=np.int64)[lo:hi]


def sparse_squares(lo, hi, starts, resid, weights):
    """Return the sums of squares of rows [lo, hi) as Python integers, which do not overflow."""
    w = [1] * len(resid) if weights is None else [int(x) for x in weights]
    return [sum(w[p] * int(resid[p]) ** 2 for p in range(starts[i], starts[i + 1])) for i in range(lo, hi)]


def table_costs(lo, hi, starts, index, resid, weights, V, V2):
    """Return the costs of rows [lo, hi) for every centre."""
    out = np.zeros((len(starts) - 1, V.shape[1]))
    for i, p, j in cells(lo, hi, starts, index):
        w = 1.0 if weights is None else float(weights[p])
        out[i] += w * (V2[j] - 2.0 * float(resid[p]) * V[j])
    return out[lo:hi]


def spread(position, starts, index, resid, size):
    """Return one row as a vector, 0 where nothing is observed."""
    out = np.zeros(size)
    for _, p, j in cells(position, position + 1, starts, index):
        out[j] = resid[p]
    return out


# -- accams.kernels.dense: resid[o, i] has the other axis first ----------------------------------------------


def dense_shift(lo, hi, resid, own, other, T):
    """Return the residual with one shift added to the own positions [lo, hi)."""
    out = resid.astype(np.int64)
    for i in range(lo, hi):
        out[:, i] += T[own[i], other]
    return out


def dense_gather(lo, hi, resid, weights, shifts, labels, k, partners=None):
    """Return the residual with all shifts added, and n and l of the own positions [lo, hi)."""
    for shift in shifts:
        resid = dense_shift(lo, hi, resid, *shift)
    W = np.ones(resid.shape, np.int64) if weights is None else weights.astype(np.int64)
    if partners is not None:
        W = W * partners[:, None].astype(np.int64)
    one_hot = (np.asarray(labels)[:, None] == np.arange(k)).astype(np.int64)
    return resid, (W.T @ one_hot)[lo:hi], ((W * resid).T @ one_hot)[lo:hi]


def dense_squares(lo, hi, resid, weights):
    """Return the sums of squares of lines [lo, hi) as Python integers."""
    W = np.ones(resid.shape, int) if weights is None else weights
    return [sum(int(w) * int(x) ** 2 for w, x in zip(W[o], resid[o], strict=True)) for o in range(lo, hi)]


# -- accams.kernels.assign -----------------------------------------------------------------------------------


def costs(n, sums, T, curvature):
    """Return cost[i, a] = sum_b curvature * n[i, b] * T[a, b]^2 - 2 * sums[i, b] * T[a, b]."""
    return curvature * (n @ (T**2).T) - 2.0 * (sums @ T.T)


def block_tables(n, sums, labels, k):
    """Return n and sums added up by label, and the number of rows with each label."""
    N, L = np.zeros((2, k, n.shape[1]), np.int64)
    counts = np.zeros(k, np.int64)
    for i, a in enumerate(labels):
        N[a] += n[i]
        L[a] += sums[i]
        counts[a] += 1
    return N, L, counts


def distances(n, sums, centre):
    """Return the weighted squared distance of every row's means from the centre."""
    lines = zip(n.tolist(), sums.tolist(), strict=True)
    return [sum(w * (x / w - t) ** 2 for w, x, t in zip(*line, centre, strict=True) if w) for line in lines]


def misfits(n, sums, T, curvature, shrinkage, labels):
    """Return each row's present cost less the lowest penalised cost in a cluster of its own."""
    out = []
    for i, a in enumerate(labels):
        here = sum(curvature * n[i, b] * T[a, b] ** 2 - 2 * sums[i, b] * T[a, b] for b in range(T.shape[1]))
        seen = [b for b in range(T.shape[1]) if n[i, b] > 0]
        best = {b: sums[i, b] / (curvature * (n[i, b] + shrinkage)) for b in seen}
        alone = sum(curvature * (n[i, b] + shrinkage) * best[b] ** 2 - 2 * sums[i, b] * best[b] for b in seen)
        out.append(here - alone)
    return np.array(out)


# -- accams.kernels.cross, blanks, order, predict and refit --------------------------------------------------


def cross_counts(a, b, shape):
    """Count the positions with each pair of labels."""
    out = np.zeros(shape, np.int64)
    for x, y in zip(a, b, strict=True):
        out[x, y] += 1
    return out


def cross_sums(labels, values, k):
    """Sum the rows of `values` by label."""
    return np.stack([values[np.asarray(labels) == x].sum(axis=0) for x in range(k)])


def block_sums(row_labels, col_labels, templates, labels, k):
    """Return the sum of the stencils over each row and the columns of each label, from the full matrix."""
    model = sum(T.astype(object)[np.ix_(c, d)] for c, d, T in zip(row_labels, col_labels, templates, strict=True))
    return by_label(model, labels, k)


def inner_product(one, other):
    """Return the sum over all cells of one stencil (c, d, T) times another, exactly."""
    left, right = (T.astype(object)[np.ix_(c, d)] for c, d, T in (one, other))
    return int((left * right).sum())


def stable_order(keys, order):
    """Return the entries of `order`, stably sorted by their key."""
    return sorted(order, key=lambda q: int(keys[q]))


def transpose(starts, index, values):
    """Return (column, row, value) of every entry, sorted by column and then by row."""
    entries = [(j, i, values[p]) for i, p, j in cells(0, len(starts) - 1, starts, index)]
    return sorted(entries, key=lambda e: e[:2])


def predict_pairs(rows, cols, row_codes, col_codes, templates, offset):
    """Return offset + sum over stencils of the template at the two labels."""
    return [
        offset + sum(T[row_codes[i][s], col_codes[j][s]] for s, T in enumerate(templates))
        for i, j in zip(rows, cols, strict=True)
    ]


def design(rows, cols, row_labels, col_labels, shapes):
    """Return the design matrix: a 1 for every template entry that contributes to the cell (rows[p], cols[p])."""
    A = np.zeros((len(rows), sum(a * b for a, b in shapes)))
    first = 0
    for c, d, (k_rows, k_cols) in zip(row_labels, col_labels, shapes, strict=True):
        entry = first + k_cols * c[rows].astype(int) + d[cols].astype(int)
        A[np.arange(len(rows)), entry] = 1.0
        first += k_rows * k_cols
    return A


# -- small data ----------------------------------------------------------------------------------------------

KINDS: dict[str, type[Engine]] = {
    "cpu": CpuEngine, "dense": DenseEngine, "graph": GraphEngine, "cuda": CudaEngine, "disk": DiskEngine,
    "ray": RayEngine,
}  # fmt: skip


class InProcess:
    """A cluster whose workers run in this process, without Ray.

    At each request a worker is lost with probability `losing`, as if its machine had died, and replaced.
    """

    def __init__(self) -> None:
        self.cores = [1, 1, 1]
        self.losing, self.groups = 0.0, list[InProcessGroup]()

    def kept(self, load: Any) -> Any:
        """Return the load itself; there is no object store."""
        return load

    def group(self, *given: Any) -> InProcessGroup:
        """Start a group of workers."""
        self.groups.append(InProcessGroup(self.losing, *given))
        return self.groups[-1]

    def check_room(self, groups: Any, need: int) -> None:
        """Do nothing: there is always room."""

    def leave(self) -> None:
        """Do nothing."""


class InProcessGroup:
    """Workers that share all rows and columns of the matrix."""

    def __init__(self, losing: float, loads: Any, whole: Any, cpus: float) -> None:
        self.losing, self.lost, self._random, self._lock = losing, 0, np.random.default_rng(0), Lock()
        self._new = [lambda load=load: Worker(load, whole, max(1, int(cpus))) for load in loads]
        self.workers, self.generation = [make() for make in self._new], [0] * len(loads)

    def __len__(self) -> int:
        return len(self.workers)

    def ask(self, chain: int, known: list[int], news: Any, story: Any, what: str, *args: Any) -> list[Any]:
        """Return the answers of all workers."""
        answers = []
        with self._lock:
            for number in range(len(self)):
                if self._random.random() < self.losing:
                    self.lost += 1
                    self.generation[number] += 1
                    self.workers[number] = self._new[number]()
                messages = news if known[number] == self.generation[number] else story()
                known[number] = self.generation[number]
                answers.append(self.workers[number].ask(chain, messages, what, *args))
        return answers

    def shared(self, what: Any) -> Any:
        """Return the object itself; there is no object store."""
        return what

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Case:
    """Observations, and the same data as full matrices with X = W = 0 where a cell is missing."""

    observations: Observations
    X: np.ndarray
    W: np.ndarray

    def engine(self, name: str, threads: Threads | None = None, grid: Grid | None = None) -> Engine:
        """Return an engine for six stencils."""
        more, obs = (6,) if name == "cuda" else (), self.observations
        named: dict[str, Any] = {"cluster": InProcess()} if name == "ray" else {}
        if name == "disk":
            obs = stored(obs)
        return KINDS[name](obs, grid or Grid.of(obs, 6), threads or Threads(1), *more, **named)


def stored(observations: Observations) -> Observations:
    """Return the observations opened from a temporary store, which is removed at exit."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    disk.DISK_BLOCK = 20  # so that small data has several blocks
    observations.to_store(folder / "store")
    return Observations.open(folder / "store")


def case(kind: str, shape: tuple[int, int] = (23, 17), seed: int = 0) -> Case:
    """Make a matrix of half stars from -3 to 3: complete, with missing cells, or ("graph") with zeros not stored.

    With "weighted", stored cells weigh 1/4 to 2; with "light", blanks of a graph weigh 1/8.
    """
    rng = np.random.default_rng(seed)
    X = rng.integers(-6, 7, shape) / 2
    seen = rng.random(shape) < 0.4
    seen.flat[0], seen.flat[-1] = True, False
    W = rng.integers(1, 9, shape) / 4 if "weighted" in kind else np.ones(shape)
    i, j = np.nonzero(seen)
    if kind.startswith("graph"):
        X, blank = X * seen, 0.125 if "light" in kind else 1.0
        weights = sparse.csr_array((W[seen], (i, j)), shape) if "weighted" in kind else None
        stored = sparse.csr_array((X[seen], (i, j)), shape)
        obs = Observations.from_sparse(stored, zeros="observed", zero_weight=blank, weights=weights)
        return Case(obs, X, np.where(seen, W, blank))
    if "missing" not in kind:
        return Case(Observations.from_dense(X, weights=W if "weighted" in kind else None), X, W)
    weights = W[seen] if "weighted" in kind else None
    return Case(Observations.from_coo(i, j, X[seen], shape=shape, weights=weights), X * seen, W * seen)


SPARSE_KINDS = ("complete", "missing", "missing weighted", "complete weighted")
GRAPH_KINDS = ("graph", "graph light", "graph weighted", "graph light weighted")
ALL = [(e, k) for e in ("cpu", "dense", "disk") for k in SPARSE_KINDS] + [("graph", k) for k in GRAPH_KINDS]
IN_PROCESS = [("ray", kind) for kind in SPARSE_KINDS]
REAL_GPU = os.environ.get("NUMBA_ENABLE_CUDASIM") == "0"  # the simulator is slow, so it does not do everything
SIMULATED = [("cuda", kind) for kind in (SPARSE_KINDS if REAL_GPU else ("missing weighted",))]


def model_ticks(state: State) -> np.ndarray:
    """Return the sum of a state's stencils, without the current one, as a matrix in ticks."""
    out = np.zeros(state.shape, np.int64)
    for stencil, T in enumerate(state.templates):
        if stencil != state.current:
            out += T.astype(np.int64)[np.ix_(state.row_labels[stencil], state.col_labels[stencil])]
    return out


def residual_ticks(state: State, data: Case) -> np.ndarray:
    """Return data less model in ticks, by brute force, in all cells."""
    grid = state.engine.grid
    return np.rint((data.X - grid.offset) / grid.step).astype(np.int64) - model_ticks(state)


def weight_ticks(state: State, data: Case) -> np.ndarray:
    """Return the weight of every cell in ticks, 0 where it is missing."""
    return np.rint(data.W / state.engine.grid.weight_step).astype(np.int64)


def by_label(matrix: np.ndarray, labels: Any, k: int) -> np.ndarray:
    """Sum the columns of `matrix` by their labels."""
    return matrix @ (np.asarray(labels)[:, None] == np.arange(k)).astype(matrix.dtype)
