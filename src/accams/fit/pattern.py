"""Features of columns that say by which rows they were observed: what was rated tells something of how, too."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from accams.data.observations import Observations
from accams.fit.keys import Purpose, generator
from accams.threads import SINGLE_BLAS

Floats = NDArray[np.float64]
Starts = NDArray[np.int64]
Cols = NDArray[np.integer]
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
SHRINKAGE = 10.0  # observations that each row and column counts beside its own
MOST = 4.0  # standard deviations
MOST_ENTRIES = 1 << 24  # observations that are looked at: those of evenly spaced rows, where there are more
ROWS = 4096  # at a time
EXTRA = 2  # rows and columns that there must be beside the features
MOST_TELLING = 32  # features, if the data decides how many there are
EDGE = 1.01  # times the bound of what chance makes, which it reaches where all rows and columns are alike,
MORE = 2  # times as many as are larger: on MovieLens 100K those below it still help


def pattern_features(observations: Observations, n_features: int | None, seed: int) -> Floats | None:
    """Return standardised features of the columns, from the leading singular vectors of the pattern of observations.

    The pattern is 1 / sqrt((n_i + 10) (n_j + 10)) where row i has observed column j, n_i and n_j being how many
    observations they have. Its first singular vector only says how often a column was observed, and is left out.

    Without `n_features`, the singular values decide: twice as many are taken as are larger than chance makes them. If
    it depends on the numbers n_i and n_j alone which cells are observed, the largest but the first is about the square
    root of the largest variance of a row plus that of a column. The result is None if no singular value is larger.

    Examples
    --------
    >>> i, j = np.divmod(np.arange(1600), 40)
    >>> seen = (i < 20) == (j < 20)  # two groups of rows, each with columns of its own
    >>> X = pattern_features(Observations.from_coo(i[seen], j[seen], np.ones(800)), None, 0)
    >>> X.shape, bool(abs(abs(X[:, 0]).min() - 1.0) < 1e-9), bool(X[0, 0] * X[-1, 0] < 0)
    ((40, 2), True, True)
    >>> any_ = np.random.default_rng(0).random(1600) < 0.5
    >>> pattern_features(Observations.from_coo(i[any_], j[any_], np.ones(any_.sum())), None, 0) is None
    True
    """
    vectors, telling, seen = _leading(observations, MOST_TELLING if n_features is None else n_features, seed)
    if n_features is None:
        vectors = vectors[:, : MORE * telling]
    return _standardised(vectors, seen) if vectors.shape[1] else None


def tells_anything(observations: Observations, seed: int) -> bool:
    """Return whether there are any features, if the data decides."""
    return _leading(observations, 1, seed)[1] > 0


def _leading(observations: Observations, n_features: int, seed: int) -> tuple[Floats, int, NDArray[np.bool_]]:
    """Return the leading singular vectors, how many are larger than by chance, and which columns were observed."""
    starts, cols, shape = _some_rows(observations)
    counts = np.diff(starts), np.bincount(cols, minlength=shape[1])
    most = min(n_features, min(shape) - EXTRA)
    if most < 1:
        return np.zeros((shape[1], 0)), 0, counts[1] > 0
    scale = [1.0 / np.sqrt(each + SHRINKAGE) for each in counts]
    matrix = _operator(starts, cols, scale, shape)
    start = generator(seed, Purpose.PROJECTION, 1).standard_normal(min(shape))
    with SINGLE_BLAS:  # whose sums depend on the number of threads
        _, sizes, vectors = svds(matrix, k=most + 1, v0=start)
    order = np.argsort(-sizes)[1:]
    return vectors[order].T, int(np.count_nonzero(sizes[order] > EDGE * by_chance(counts))), counts[1] > 0


def _operator(starts: Starts, cols: Cols, scale: list[Floats], shape: tuple[int, int]) -> LinearOperator:
    """Return the pattern as an operator: as a matrix it would be copied for its adjoint, and it may be large."""
    entries = np.empty(len(cols))
    for i in range(0, shape[0], ROWS):  # indices and products of all at once would take twice the memory
        at = starts[i : i + ROWS + 1]
        of_rows = np.repeat(scale[0][i : i + ROWS], np.diff(at))
        np.multiply(of_rows, scale[1][cols[at[0] : at[-1]]], out=entries[at[0] : at[-1]])
    matrix = csr_array((entries, cols.astype(np.int32, copy=False), starts), shape=shape)
    return LinearOperator(shape, matvec=matrix.dot, rmatvec=matrix.T.dot, dtype=np.float64)


def by_chance(counts: Counts) -> float:
    """Return the size of the second singular value where cells are observed independently.

    The variance of a cell is p (1 - p) / ((n_i + 10) (n_j + 10)) with p = n_i n_j / n.
    """
    total, n = float(counts[0].sum()), [each.astype(np.float64) for each in counts]
    first, second = ([float(np.sum(x**k / (x + SHRINKAGE))) for x in n] for k in (1, 2))
    sizes = []
    for axis, x in enumerate(n):
        share = x / total
        variances = share / (x + SHRINKAGE) * (first[1 - axis] - share * second[1 - axis])
        sizes.append(float(np.sqrt(max(variances.max(initial=0.0), 0.0))))
    return sum(sizes)


def _standardised(X: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Return features of mean 0 and variance 1 over the columns that were observed; 0 for others."""
    X = np.where(seen[:, None], X - X[seen].mean(axis=0), 0.0)
    deviation = X[seen].std(axis=0)
    X = X / np.where(deviation > 0.0, deviation, 1.0)
    sign = X[np.argmax(np.abs(X), axis=0), np.arange(X.shape[1])]
    return np.asarray(np.clip(X * np.where(sign < 0.0, -1.0, 1.0), -MOST, MOST))


def _some_rows(obs: Observations) -> tuple[NDArray[np.int64], NDArray[np.integer], tuple[int, int]]:
    """Return starts and columns of the observations of all rows, or of as many as have `MOST_ENTRIES`."""
    step = -(-obs.nnz // MOST_ENTRIES)
    starts, cols = np.asarray(obs.row_starts), obs.cols
    if step > 1:
        rows = np.arange(0, obs.shape[0], step)
        cols = np.concatenate([cols[starts[i] : starts[i + 1]] for i in rows])
        starts = np.concatenate([[0], np.cumsum(np.diff(starts)[rows])])
        obs.release_pages()
    return starts, cols, (len(starts) - 1, obs.shape[1])
