"""Local regressions: each line of a completed matrix on the lines most like it, with a ridge penalty by evidence.

A line is a row, or a column of the transposed matrix. Everything is computed for a batch of lines at once by products
of stacked matrices; batches are of one size whatever the number of threads, so that the result does not depend on it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accams.threads import SINGLE_BLAS, Threads

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]
ENTRIES = 1 << 21  # of the predictors of a batch
PAIRS = 1 << 23  # similarities at a time
FEWEST = 3  # known cells of a line that can be regressed
ITERATIONS, SETTLED = 30, 1e-3  # of the evidence: steps at most, and change of log variances that ends them
FLAT = 1e-24  # variance below which a standardised line is constant
LEAST = 1e-10  # share of the squares of a line that stays unexplained at least
SURE = 1e-3  # what a cell leaves undecided of its own prediction at least


@dataclass(frozen=True)
class Regressions:
    """Coefficients of lines on others: prediction = intercept + lines[near] . slopes (+ slope of a further predictor).

    Attributes
    ----------
    near : array (line, predictor)
        Positions of the lines that are predictors.
    slopes : array (line, predictor or one more)
    intercepts : array (line,)
    usable : array (line,)
        Whether a line had enough known cells that differ.
    """

    near: Positions
    slopes: Floats
    intercepts: Floats
    usable: Mask

    def predict(self, lines: Floats, further: Floats | None = None) -> Floats:
        """Return predictions of all lines in new columns, given those of `lines` (line, cell); unusable ones as is."""
        width, out = self.near.shape[1], lines[: len(self.near)].copy()
        step = max(1, ENTRIES // max(1, width * lines.shape[1]))
        for lo in range(0, len(self.near), step):
            at = slice(lo, lo + step)
            values = np.matmul(self.slopes[at, None, :width], lines[self.near[at]])[:, 0]
            values += self.intercepts[at, None]
            if further is not None:
                values += self.slopes[at, width:] * further[at]
            out[at] = np.where(self.usable[at, None], values, out[at])
        return out

    @classmethod
    def empty(cls, near: Positions, further: int) -> Self:
        """Return room for the coefficients of all lines."""
        size, width = near.shape
        return cls(near, np.zeros((size, width + further)), np.zeros(size), np.zeros(size, np.bool_))


@dataclass(frozen=True)
class Targets:
    """What is regressed: values of lines, with zeros where they are not known.

    `otherwise` are predictions of lines that cannot be regressed.
    """

    values: Floats
    known: Mask
    otherwise: Floats


def others(size: int) -> Positions:
    """Return for each line the positions of all others."""
    grid = np.broadcast_to(np.arange(size), (size, size))
    return grid[~np.eye(size, dtype=np.bool_)].reshape(size, size - 1).astype(np.int64)


def unit_lines(lines: Floats) -> NDArray[np.float32]:
    """Return lines centred and of length one: their products are correlations."""
    centred = lines - lines.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    return np.asarray(centred / np.maximum(lengths, 1e-12)[:, None], np.float32)


def nearest(units: NDArray[np.float32], among: NDArray[np.float32], count: int, threads: Threads) -> Positions:
    """Return the `count` lines of `among` that are most correlated with each line, whatever the sign, in no order.

    Where both are the same array, no line is its own neighbour.
    """
    itself = units is among
    count = min(count, len(among) - itself)
    out = np.empty((len(units), count), np.int64)
    if count == 0:
        return out

    def find(lo: int, hi: int) -> None:
        similar = np.abs(units[lo:hi] @ among.T)
        if itself:
            similar[np.arange(hi - lo), np.arange(lo, hi)] = -1.0
        if count == similar.shape[1]:
            out[lo:hi] = np.arange(count)
        else:
            out[lo:hi] = np.argpartition(similar, -count, axis=1)[:, -count:]

    with SINGLE_BLAS:
        threads.map(find, batches(len(units), PAIRS // max(1, len(among))))
    return np.sort(out, axis=1)


def batches(size: int, step: int) -> list[tuple[int, int]]:
    """Return ranges of `step` lines, at least one."""
    step = max(1, step)
    return [(lo, min(lo + step, size)) for lo in range(0, size, step)]


def regress(
    targets: Targets, lines: Floats, near: Positions, threads: Threads, further: Floats | None = None,
    leave_one_out: bool = False,
) -> list[tuple[Floats, Regressions]]:  # fmt: skip
    """Regress targets on the lines that are near them.

    Parameters
    ----------
    targets : Targets (line, cell)
    lines : array (other line, cell)
    near : array (line, predictor)
        Positions among `lines`.
    further : array (line, cell), optional
        One more predictor of the same cell; the regression is then made without and with it.
    leave_one_out : bool
        Whether known cells are predicted as if they had not been known.

    Returns
    -------
    list of (predictions, regressions)
        One, or without and with the further predictor. Lines that cannot be regressed are as they were.
    """
    kinds = [0] if further is None else [0, 1]
    found = [(np.empty_like(targets.values), Regressions.empty(near, kind)) for kind in kinds]
    width = near.shape[1] + kinds[-1]

    def run(lo: int, hi: int) -> None:
        batch = _Batch.of(targets, lines, near, further, slice(lo, hi))
        for kind, (out, regressions) in zip(kinds, found, strict=True):
            out[lo:hi] = batch.solve(near.shape[1] + kind, regressions, slice(lo, hi), leave_one_out)

    with SINGLE_BLAS:
        threads.map(run, batches(len(near), ENTRIES // max(1, width * lines.shape[1])))
    return found


@dataclass(frozen=True)
class _Batch:
    """Predictors of some lines, centred over their known cells."""

    predictors: Floats  # (line, predictor, cell)
    inside: Floats  # the same, with zeros where cells are not known
    centres: Floats  # (line, predictor)
    values: Floats  # (line, cell): centred, zeros where unknown
    means: Floats
    known: Mask
    counts: Floats
    otherwise: Floats

    @classmethod
    def of(cls, targets: Targets, lines: Floats, near: Positions, further: Floats | None, at: slice) -> Self:
        A = lines[near[at]]
        if further is not None:
            A = np.concatenate([A, further[at, None]], axis=1)
        known = targets.known[at]
        weights = known.astype(np.float64)
        counts = np.maximum(weights.sum(axis=1), 1.0)
        centres = np.matmul(A, weights[:, :, None])[:, :, 0] / counts[:, None]
        A -= centres[:, :, None]
        means = targets.values[at].sum(axis=1) / counts
        y = np.where(known, targets.values[at] - means[:, None], 0.0)
        return cls(A, A * weights[:, None], centres, y, means, known, counts, targets.otherwise[at])

    def solve(self, width: int, regressions: Regressions, at: slice, leave_one_out: bool) -> Floats:
        """Return predictions by the first `width` predictors, and put the coefficients where they belong."""
        squares = np.einsum("ij,ij->i", self.values, self.values)
        usable = (self.counts >= FEWEST) & (squares > FLAT * self.counts)
        dual = width > self.values.shape[1]  # eigenvectors of products of cells, where these are fewer
        slopes, leverage = (self._by_cells if dual else self._by_predictors)(width, squares, leave_one_out)
        slopes *= usable[:, None]
        fitted = np.matmul(slopes[:, None], self.predictors[:, :width])[:, 0]
        if leave_one_out:
            n, free = self.counts[:, None], 1.0 - leverage - 1.0 / self.counts[:, None]
            left = (self.values - fitted) / np.maximum(free, SURE)
            of_others = -self.values / np.maximum(n - 1.0, 1.0)  # the mean, for cells that decide their own prediction
            alone = np.where(free < SURE, of_others, self.values - left)
            fitted = np.where(self.known & usable[:, None], alone, fitted)
        regressions.slopes[at], regressions.usable[at] = slopes, usable
        regressions.intercepts[at] = self.means - np.einsum("ij,ij->i", slopes, self.centres[:, :width])
        return np.where(usable[:, None], fitted + self.means[:, None], self.otherwise)

    def _by_predictors(self, width: int, squares: Floats, with_leverage: bool) -> tuple[Floats, Floats]:
        """Return slopes, and leverages of cells, by the eigenvectors of X'X."""
        A = self.inside[:, :width]
        w, V = np.linalg.eigh(np.matmul(A, A.transpose(0, 2, 1)))
        w = np.maximum(w, 0.0)
        q = np.matmul(np.matmul(A, self.values[:, :, None])[:, None, :, 0], V)[:, 0]
        shrunk = w + penalties(w, q, squares, self.counts)[:, None]
        slopes = np.matmul(V, (q / shrunk)[:, :, None])[:, :, 0]
        if not with_leverage:
            return slopes, np.zeros(0)
        scores = np.matmul(V.transpose(0, 2, 1) / np.sqrt(shrunk)[:, :, None], A)
        return slopes, np.einsum("ijk,ijk->ik", scores, scores)

    def _by_cells(self, width: int, squares: Floats, with_leverage: bool) -> tuple[Floats, Floats]:
        """Return the same by the eigenvectors of XX'."""
        A = self.inside[:, :width]
        w, U = np.linalg.eigh(np.matmul(A.transpose(0, 2, 1), A))
        w = np.maximum(w, 0.0)
        scores = np.matmul(self.values[:, None], U)[:, 0]
        shrunk = w + penalties(w, np.sqrt(w) * scores, squares, self.counts)[:, None]
        slopes = np.matmul(A, np.matmul(U, (scores / shrunk)[:, :, None]))[:, :, 0]
        return slopes, np.einsum("ijk,ik->ij", U * U, w / shrunk) if with_leverage else np.zeros(0)


def penalties(w: Floats, q: Floats, squares: Floats, counts: Floats) -> Floats:
    """Return the ridge penalty of each regression that maximises the evidence (MacKay 1992).

    Parameters
    ----------
    w, q : array (line, predictor)
        Eigenvalues of the Gram matrix of the predictors, and products of its eigenvectors with the target.
    squares, counts : array (line,)
        Sum of squares of the target, which is centred, and number of its known cells.
    """
    counts = np.maximum(counts - 1.0, 1.0)  # the mean takes a degree of freedom
    # In units of the squares of the target and of its predictors, where nothing overflows, whatever the data.
    units = np.maximum(w.sum(axis=1), FLAT * counts)
    lengths = np.sqrt(np.maximum(squares, FLAT * counts))
    squares = (np.sqrt(squares) / lengths) ** 2
    w, q = w / units[:, None], q / (np.sqrt(units) * lengths)[:, None]
    noise = 1.0 / counts
    variance = noise * counts / 0.01
    moving = np.ones(len(w), np.bool_)  # each stops by itself, so that it does not depend on the others of its batch
    for _ in range(ITERATIONS):
        shrunk = w + (noise / variance)[:, None]
        slopes = q / shrunk
        degrees = (w / shrunk).sum(axis=1)
        left = squares - 2.0 * (slopes * q).sum(axis=1) + (slopes * slopes * w).sum(axis=1)
        new_noise = np.maximum(left, LEAST) / np.maximum(counts - degrees, 1e-3)
        new_variance = ((slopes * slopes).sum(axis=1) + 1e-12) / (degrees + 1e-6)
        change = np.abs(np.log(new_noise / noise)) + np.abs(np.log(new_variance / variance))
        noise, variance = np.where(moving, new_noise, noise), np.where(moving, new_variance, variance)
        moving &= change >= SETTLED
        if not moving.any():
            break
    return np.asarray(np.maximum(noise / variance, 1e-12) * units)
