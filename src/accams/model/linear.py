"""The linear part of a model: what rows and columns have on features of each other, beside the stencils."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.model.container import Tensors
from accams.model.limits import check_numbers

Floats = NDArray[np.float64]
Masks = tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]
Singles = NDArray[np.float32]
Positions = NDArray[np.int64]
BATCH = 1 << 16  # cells at a time


@dataclass(frozen=True, eq=False)
class Linear:
    """The term rows[i] @ cols[j] of cell (i, j): slopes on features.

    The first `n_slopes` columns of `rows` are slopes of the rows, on features of the columns in the same columns of
    `cols`; behind them `rows` has features, and `cols` the slopes of the columns on them. Both arrays have a last line
    for position -1 (as `Codes`): the average slopes, and features of 0.

    Attributes
    ----------
    rows, cols : arrays (m + 1, d), (n + 1, d)
    n_slopes : int
    spreads : (array (m + 1,), array (n + 1,))
        Posterior variance of a slope of each row and of each column, the average over its slopes; where nothing is
        known of them, that of the prior.
    priors : (array (d,), array (d,))
        Variances of the entries of a new row and of a new column.
    given : (int, int)
        How many features of rows, and of columns, come from tables: the last ones.

    Examples
    --------
    >>> rows, cols = np.array([[1.0], [-1.0], [0.0]], np.float32), np.array([[0.5], [0.25], [0.0]], np.float32)
    >>> none = np.zeros(3, np.float32)
    >>> part = Linear(rows, cols, 1, (none, none), (np.ones(1), np.ones(1)))
    >>> part.products(np.array([0, 1, -1]), np.array([0, 1, 1])).tolist()
    [0.5, -0.25, 0.0]
    """

    rows: Singles
    cols: Singles
    n_slopes: int
    spreads: tuple[Singles, Singles]
    priors: tuple[Floats, Floats]
    given: tuple[int, int] = (0, 0)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(x.nbytes for x in (self.rows, self.cols, *self.spreads, *self.priors))

    def products(self, i: Positions, j: Positions) -> Floats:
        """Return the term at these cells."""
        out = np.empty(len(i))
        for lo in range(0, len(i), BATCH):
            part = slice(lo, lo + BATCH)
            out[part] = np.einsum("pf,pf->p", self.rows[i[part]], self.cols[j[part]], dtype=np.float64)
        return out

    def variances(self, i: Positions, j: Positions, left_out: Masks = (None, None)) -> Floats:
        """Return the posterior variance of the term at these cells, without that of the slopes of some lines.

        Slopes of which nothing is known vary as much as those on the same feature do.
        """
        out = np.zeros(len(i))
        for axis, (lines, others) in enumerate(((i, j), (j, i))):
            spread, left = self.spreads[axis][lines], left_out[axis]
            own = spread.astype(np.float64) * self._lengths[1 - axis][others]
            variance = np.where(spread == self.spreads[axis][-1], self._priors[1 - axis][others], own)
            out += variance if left is None else np.where(left[lines], 0.0, variance)
        return out

    def variances_of_new(self, i: Positions, j: Positions) -> Floats:
        """Return the variance at these cells if nothing was known of the slopes of the rows."""
        return np.asarray(self._priors[1][j] + self.spreads[1][j] * self._lengths[0][i])

    def of_line(self, line: Floats, spread: float, j: Positions) -> tuple[Floats, Floats]:
        """Return mean and variance of the term of a new row, by its entries and the variance of its slopes."""
        cols, n = self.cols[j].astype(np.float64), self.n_slopes
        own = self._priors[1][j] if spread == self.spreads[0][-1] else spread * np.square(cols[:, :n]).sum(axis=1)
        other = self.spreads[1][j] * np.square(line[n:]).sum()
        return np.asarray(cols @ line), np.asarray(own + other)

    def bound(self) -> float:
        """Return what no term exceeds."""
        largest = (np.abs(x).max(axis=0, initial=0.0).astype(np.float64) for x in (self.rows, self.cols))
        return float(np.dot(*largest))

    def scaled(self, factor: float) -> Self:
        """Return the part with all slopes, and so all terms, multiplied by a factor."""
        rows, cols, one = self.rows.copy(), self.cols.copy(), np.float32(factor)
        rows[:, : self.n_slopes] *= one
        cols[:, self.n_slopes :] *= one
        priors = self.priors[0].copy(), self.priors[1].copy()
        priors[0][: self.n_slopes] *= factor**2
        priors[1][self.n_slopes :] *= factor**2
        spreads = self.spreads[0] * one**2, self.spreads[1] * one**2
        return replace(self, rows=rows, cols=cols, spreads=spreads, priors=priors)

    def transposed(self) -> Self:
        """Return the part of the transposed matrix."""
        d, n = self.rows.shape[1], self.n_slopes
        order = np.r_[n:d, 0:n]
        priors = self.priors[1][order], self.priors[0][order]
        spreads, given = self.spreads[::-1], self.given[::-1]
        return type(self)(self.cols[:, order], self.rows[:, order], d - n, spreads, priors, given)

    def put(self, rows: Positions, size: int, lines: Floats, spread: Floats) -> Self:
        """Return the part for `size` rows, with these entries and variances for `rows`."""
        old, new = len(self.rows) - 1, np.repeat(self.rows[-1:], size + 1, axis=0)
        spreads = np.full(size + 1, self.spreads[0][-1])
        new[:old], spreads[:old] = self.rows[:-1], self.spreads[0][:-1]
        new[rows], spreads[rows] = lines, spread
        return replace(self, rows=new, spreads=(spreads, self.spreads[1]))

    def without(self, row: int) -> Self:
        """Return the part without one row."""
        spreads = np.delete(self.spreads[0], row), self.spreads[1]
        return replace(self, rows=np.delete(self.rows, row, axis=0), spreads=spreads)

    def fitted(
        self, begins: Positions, cols: Positions, rest: Floats, noise: float, expected: Floats, fixed: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Return entries of new rows, and the mean variance of their slopes, by ridge regression.

        Row u has the observations begins[u] .. begins[u + 1], at columns `cols`, of which stencils leave `rest`;
        `noise` is the variance of an observation. `expected` are its entries without any observation, of which those
        that are `fixed` do not change.
        """
        lines, spread = expected.copy(), np.full(len(begins) - 1, float(self.spreads[0][-1]))
        slopes = np.arange(self.rows.shape[1]) < self.n_slopes
        for u in np.flatnonzero(np.diff(begins)):
            part, free = slice(begins[u], begins[u + 1]), (self.priors[0] > 0.0) & ~fixed[u]
            X = self.cols[cols[part]].astype(np.float64)
            left, X = rest[part] - X @ lines[u], X[:, free]
            covariance = np.linalg.inv(X.T @ X / noise + np.diag(1.0 / self.priors[0][free]))
            lines[u, free] += covariance @ (X.T @ left) / noise
            if (free & slopes).any():
                spread[u] = np.diag(covariance)[slopes[free]].mean()
        return lines, spread

    @cached_property
    def _priors(self) -> tuple[Floats, Floats]:
        """Variance of the term by row if nothing is known of the slopes of the column, and by column likewise."""
        n, (of_rows, of_columns) = self.n_slopes, self.priors
        rows, cols = self.rows[:, n:].astype(np.float64), self.cols[:, :n].astype(np.float64)
        return np.square(rows) @ of_columns[n:], np.square(cols) @ of_rows[:n]

    @cached_property
    def _lengths(self) -> tuple[Floats, Floats]:
        """Squared lengths of the features of rows and of columns."""
        rows, cols = self.rows[:, self.n_slopes :], self.cols[:, : self.n_slopes]
        return np.square(rows.astype(np.float64)).sum(axis=1), np.square(cols.astype(np.float64)).sum(axis=1)


def pack(part: Linear) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors of a file."""
    tensors: Tensors = {"rows": part.rows[:-1], "cols": part.cols[:-1]}
    for side, spreads, priors in zip(("row", "col"), part.spreads, part.priors, strict=True):
        tensors |= {f"{side}_spreads": spreads, f"{side}_priors": priors}
    return {"slopes": part.n_slopes, "given": list(part.given)}, tensors


def unpack(fields: dict[str, Any], tensors: Tensors, shape: tuple[int, int]) -> Linear:
    """Undo `pack`; raise ValueError for arrays that do not go together."""
    lines, spreads, priors = list[Singles](), list[Singles](), list[Floats]()
    for side, size in zip(("row", "col"), shape, strict=True):
        known, spread, prior = tensors[f"{side}s"], tensors[f"{side}_spreads"], tensors[f"{side}_priors"]
        right = known.dtype == spread.dtype == np.float32 and prior.dtype == np.float64 and known.ndim == 2
        if not right or known.shape != (size, len(prior)) or spread.shape != (size + 1,) or prior.ndim != 1:
            raise ValueError("its slopes have a wrong type or length")
        for x in (known, spread, prior):
            check_numbers(x)
        if (spread < 0).any() or (prior < 0).any():
            raise ValueError("the variances of its slopes cannot be")
        lines.append(np.append(known, np.zeros((1, len(prior)), np.float32), axis=0))
        spreads.append(spread)
        priors.append(prior)
    if lines[0].shape[1] != lines[1].shape[1] or not 0 <= fields["slopes"] <= lines[0].shape[1]:
        raise ValueError("its slopes and features do not go together")
    d, n, given = lines[0].shape[1], fields["slopes"], fields["given"]
    if not (0 <= given[0] <= d - n and 0 <= given[1] <= n):
        raise ValueError("it has more features of tables than of all")
    return Linear(lines[0], lines[1], n, (spreads[0], spreads[1]), (priors[0], priors[1]), (given[0], given[1]))
