"""Joint least squares: refit the templates of all stencils at once, given all labels.

The normal equations A^T W A t = A^T W y are solved by conjugate gradients without forming the matrix. Cells that all
have the same weight (complete matrices, observed zeros) enter through cross tables of labels, without a pass over them:

    (A^T A t) of stencil l  =  sum over stencils m of  R_lm  T_m  C_lm^T,

where R_lm and C_lm count rows and columns by their labels in l and in m.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accams.engine.base import State
from accams.kernels import refit as kernels
from accams.kernels.cross import cross_counts
from accams.kernels.jit import readonly
from accams.threads import Threads

Vector = NDArray[np.float64]
PIECES = 32  # partial sums, added in order, so that results do not depend on the number of threads


def refit(state: State, shrinkage: float = 0.0, max_iter: int = 100, tol: float = 1e-6) -> None:
    """Replace all templates of `state` by those that minimise the squared error plus shrinkage * sum(T^2)."""
    if not state.templates:
        return
    problem = Problem(state)
    start = np.concatenate([T.ravel() for T in state.templates]) * state.engine.grid.step
    diagonal = problem.normal_diagonal() + shrinkage
    solution = conjugate_gradients(
        lambda t: problem.normal(t) + shrinkage * t, problem.right_side(), start, diagonal, max_iter, tol
    )
    grid = state.engine.grid
    for stencil, T in enumerate(problem.unpack(solution / grid.step)):
        state.begin(stencil)
        state.end(grid.template(T))


def conjugate_gradients(
    product: Callable[[Vector], Vector], b: Vector, x: Vector, diagonal: Vector, max_iter: int, tol: float
) -> Vector:
    """Solve product(x) = b for a positive semi-definite operator, preconditioned by its diagonal."""
    scale = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    x = x.copy()
    r = b - product(x)
    z = scale * r
    p, rz = z.copy(), float(r @ z)
    goal = tol * tol * float(b @ (scale * b))
    for _ in range(max_iter):
        if rz <= goal:
            break
        q = product(p)
        curvature = float(p @ q)
        if curvature <= 0.0:
            break
        step = rz / curvature
        x += step * p
        r -= step * q
        z = scale * r
        rz, before = float(r @ z), rz
        p = z + (rz / before) * p
    return x


@dataclass
class Problem:
    """Normal equations for the labels of a state."""

    state: State
    _cross: dict[tuple[int, int, int], NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        state, obs = self.state, self.state.engine.observations
        self.shapes = [T.shape for T in state.templates]
        self.first = np.cumsum([0, *(T.size for T in state.templates)])[:-1].astype(np.int64)
        self.widths = np.array([T.shape[1] for T in state.templates], dtype=np.int64)
        self.row_codes = np.ascontiguousarray(np.stack(state.row_labels, axis=1))
        self.col_codes = np.ascontiguousarray(np.stack(state.col_labels, axis=1))
        # every cell has weight `blank`; stored cells have the weight `extra` in addition
        uniform = obs.is_complete and obs.stored_weights is None and obs.blank_weight is None
        self.blank = 1.0 if uniform else obs.blank_weight or 0.0
        weights = obs.weights
        self.extra: Vector | float = (1.0 - self.blank) if weights is None else weights - self.blank
        self.pieces = Threads(None, max(1, -(-obs.nnz // PIECES))).split(obs.row_starts)

    def normal(self, t: Vector) -> Vector:
        """Return A^T W A t."""
        out = self.blank * self._all_cells(t) if self.blank else np.zeros_like(t)
        if isinstance(self.extra, float):
            return out + self.extra * self._stored_cells(t, None) if self.extra else out
        return out + self._stored_cells(t, self.extra)

    def normal_diagonal(self) -> Vector:
        """Return the weight of each block."""
        obs, n = self.state.engine.observations, int(self.first[-1]) + int(np.prod(self.shapes[-1]))
        stored = np.full(obs.nnz, self.extra) if isinstance(self.extra, float) else self.extra
        return self._adjoint(stored, n) + self.blank * self._sizes()

    def right_side(self) -> Vector:
        """Return A^T W y, where y is the data minus the offset."""
        obs, offset = self.state.engine.observations, self.state.engine.grid.offset
        y, n = obs.values - offset, int(self.first[-1]) + int(np.prod(self.shapes[-1]))
        stored = self.extra * y + self.blank * (y + offset)
        return self._adjoint(stored, n) - self.blank * offset * self._sizes()

    def unpack(self, t: Vector) -> list[Vector]:
        return [t[a : a + shape[0] * shape[1]].reshape(shape) for a, shape in zip(self.first, self.shapes, strict=True)]

    def _stored_cells(self, t: Vector, weights: Vector | None) -> Vector:
        """Return A^T diag(weights) A t, summed over the stored cells."""
        return self._summed(kernels.normal_product, weights, len(t), t)

    def _adjoint(self, values: Vector, n: int) -> Vector:
        """Return A^T values, summed over the stored cells."""
        return self._summed(kernels.adjoint_product, values, n)

    def _summed(self, kernel: Callable[..., None], values: Vector | None, n: int, *t: Vector) -> Vector:
        obs = self.state.engine.observations
        pattern = readonly(obs.row_starts), readonly(obs.cols)

        def run(lo: int, hi: int) -> Vector:
            out = np.zeros(n)
            codes = self.row_codes, self.col_codes
            kernel(lo, hi, *pattern, values, *codes, *t, self.first, self.widths, out)
            return out

        return np.asarray(sum(self.state.engine.threads.map(run, self.pieces)))

    def _all_cells(self, t: Vector) -> Vector:
        """Return A^T A t, summed over all cells of the matrix."""
        parts = self.unpack(t)
        return np.concatenate(
            [
                sum(self._counts(0, l, m) @ T @ self._counts(1, l, m).T for m, T in enumerate(parts)).ravel()  # type: ignore[union-attr]
                for l in range(len(parts))
            ]
        )

    def _sizes(self) -> Vector:
        """Return the number of cells in each block of each stencil, observed or not."""
        sizes = [
            np.outer(np.bincount(c, minlength=shape[0]), np.bincount(d, minlength=shape[1])).ravel()
            for c, d, shape in zip(self.state.row_labels, self.state.col_labels, self.shapes, strict=True)
        ]
        return np.concatenate(sizes).astype(np.float64)

    def _counts(self, axis: int, l: int, m: int) -> NDArray[np.int64]:
        """Return R_lm (axis 0) or C_lm (axis 1)."""
        key = (axis, l, m)
        if key not in self._cross:
            labels = self.state.row_labels if axis == 0 else self.state.col_labels
            self._cross[key] = np.zeros((self.shapes[l][axis], self.shapes[m][axis]), np.int64)
            cross_counts(labels[l], labels[m], self._cross[key])
        return self._cross[key]
