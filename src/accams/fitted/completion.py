"""Completion: what an imputer has learned, and how it fills the gaps of rows, of the fit or new ones."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.fit.completing import NEAR_ROWS, Rounds, Step, disagreement
from accams.fit.local import Floats, Mask, Positions, Targets, nearest, regress, unit_lines
from accams.fit.scaling import Scaling
from accams.fitted.model import Model
from accams.threads import Threads
from accams.use.fold import fold

CELLS = 1 << 21  # of a block of new rows
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Completion:
    """A matrix with gaps that has been completed.

    Attributes
    ----------
    scaling : Scaling
    rows : array (row, column)
        The rows of the fit, as they came: NaN is missing.
    full, std : arrays (row, column)
        The completed matrix on the fitted scale, and standard deviations (zeros at known cells).
    rounds : Rounds
    models : list of Model
        The stencils of the first prediction, one for each fold; empty where there were too few cells for any.
    by_rows : bool
        Whether rows are regressed on rows.
    """

    scaling: Scaling
    rows: Floats
    full: Floats
    std: Floats
    rounds: Rounds
    models: list[Model]
    by_rows: bool

    @cached_property
    def average(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the columns, of what was filled in too."""
        return self.full.mean(axis=0), np.sqrt(self.full.var(axis=0) + (self.std**2).mean(axis=0))

    def fill(
        self, X: Floats, threads: Threads, watch: Callable[[int, int], object] = lambda done, planned: None
    ) -> tuple[Floats, Floats]:
        """Return the completed rows and standard deviations of their cells, in the units of the data."""
        Z, std = self.scaling.scaled(X), np.zeros(X.shape)
        places = self._recognised(X)
        known = ~np.isnan(X)
        same = places >= 0
        empty = ~same & ~known.any(axis=1)
        Z[same], std[same] = self.full[places[same]], self.std[places[same]]
        Z[empty], std[empty] = self.average
        new = np.flatnonzero(~same & ~empty & ~known.all(axis=1))
        width = max([int(model.sums.places[-1]) for model in self.models], default=0)  # of what stencils say of a row
        step = max(1, CELLS // (X.shape[1] + width))
        for lo in range(0, len(new), step):
            at = new[lo : lo + step]
            Z[at], std[at] = self._fold_in(Z[at], known[at], threads)
            watch(min(lo + step, len(new)), len(new))
        return np.where(known, X, self.scaling.unscaled(Z)), np.where(known, 0.0, std * self.scaling.scale)

    def _fold_in(self, Z: Floats, known: Mask, threads: Threads) -> tuple[Floats, Floats]:
        """Return new rows, completed on the fitted scale, and standard deviations."""
        F, variance = np.where(known, Z, self._start(np.where(known, Z, 0.0), known)), np.zeros(Z.shape)
        values = np.where(known, Z, 0.0)
        for step in self.rounds.steps:
            parts = np.stack([part[~known] for part in self._parts(Targets(values, known, F), step, threads)])
            F = F.copy()
            F[~known] = step.weights @ parts
            variance[~known] = disagreement(parts, step.weights)
        std = self.rounds.spread.of(np.arange(Z.shape[1]), variance)
        return F, np.where(known, 0.0, std)

    def _parts(self, targets: Targets, step: Step, threads: Threads) -> list[Floats]:
        """Return the parts of the blend of one round, as `Completing.round` has them."""
        F = targets.otherwise
        across, parts, further = np.ascontiguousarray(F.T), list[Floats](), None
        if self.by_rows:
            near = nearest(unit_lines(F), self._units, NEAR_ROWS, threads)
            ((rows, _),) = regress(targets, self.full, near, threads)
            parts, further = [rows], np.ascontiguousarray(rows.T)
        parts.append(step.columns.predict(across).T)
        if step.both is not None:
            parts.append(step.both.predict(across, further).T)
        return [*parts, F]

    def _start(self, values: Floats, known: Mask) -> Floats:
        """Return what the stencils predict of new rows."""
        if not self.models:
            return np.broadcast_to(self.average[0], values.shape)
        cols = np.nonzero(known)[1]
        begins = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return np.asarray(np.mean([_folded_in(model, begins, cols, values[known]) for model in self.models], axis=0))

    @cached_property
    def _units(self) -> NDArray[np.float32]:
        return unit_lines(self.full)

    @cached_property
    def _hashes(self) -> tuple[Words, Positions]:
        hashes = row_hashes(self.rows)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    def _recognised(self, X: Floats) -> Positions:
        """Return which row of the fit each row is, by its known cells and their places; -1 for a new one."""
        (hashes, order), own = self._hashes, row_hashes(X)
        at = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
        some = np.flatnonzero(hashes[at] == own)
        places, known = order[at[some]], self.rows[order[at[some]]]
        same = ((known == X[some]) | (np.isnan(known) & np.isnan(X[some]))).all(axis=1)
        out = np.full(len(X), -1, np.int64)
        out[some[same]] = places[same]
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone, without what is derived from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _folded_in(model: Model, begins: Positions, cols: Positions, values: Floats) -> Floats:
    """Return what stencils predict of all cells of new rows: row u has the values begins[u] .. begins[u + 1]."""
    sums = model.sums
    folded = fold(sums, model.noise, begins, cols, values, effect_variance=model.effect_variance())
    total = np.zeros((len(begins) - 1, model.shape[1]))
    for d, codes in enumerate(sums.codes):
        first = sums.places[d] + np.cumsum(codes.widths) - codes.widths
        total += folded.constants[:, d, None]
        for p, begin in enumerate(first.tolist()):
            total += folded.profiles[:, begin + codes.cols[:-1, p].astype(np.int64)]
        if codes.col_effects is not None:
            total += codes.col_effects[:-1]
    return total / len(sums.codes)


def row_hashes(X: Floats) -> Words:
    """Return a hash of each row, in which all missing cells are alike, and both zeros."""
    words = np.where(np.isnan(X), np.nan, X + 0.0).view(np.uint64)
    factors = np.random.Generator(np.random.Philox(1)).integers(1 << 63, size=X.shape[1], dtype=np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        mixed = (words ^ (words >> np.uint64(29))) * factors
        mixed = (mixed ^ (mixed >> np.uint64(32))) * factors
        return np.asarray(mixed.sum(axis=1, dtype=np.uint64))
