"""Fold in new rows from a handful of observations, without fitting again."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import THREADS
from accams.use.scoring import Floats, Positions, Sums
from accams.use.traits import LabelPriors

ROWS_AT_ONCE = 4096
Variance = float | Floats | None
PASSES = 4  # over all stencils; more change next to nothing
TURNS = 2  # how often slopes, by a few of the sums, and labels are found


@dataclass(frozen=True)
class Expected:
    """What is expected of new rows before their observations, by their features.

    Attributes
    ----------
    priors : LabelPriors
    lines : array (row, feature)
        Entries in the linear part, if there is one.
    fixed : array (row, feature)
        Whether an entry is known, whatever the observations.
    """

    priors: LabelPriors
    lines: Floats
    fixed: NDArray[np.bool_]

    def take(self, lines: slice) -> "Expected":
        """Return what is expected of some of the rows."""
        return Expected(self.priors.take(lines), self.lines[lines], self.fixed[lines])


@dataclass(frozen=True)
class Folded:
    """Rows that a model was not fitted to."""

    profiles: Floats  # (row, ...): expected line of every template for each row, laid out by `Sums.places`
    constants: Floats  # (row, sum): offset of each sum plus the effect of the row
    labels: list[NDArray[Any]]  # (row, stencil) for each sum: most probable labels, or drawn by their probabilities
    lines: Floats  # (row, feature): what each row has in the linear part; no columns where there is none
    spreads: Floats  # (row,): variance of its slopes
    doubts: Floats  # (row, ...): variances of those lines over the labels that each row may have; no rows if not asked

    def predict(self, sums: Sums, row: int, columns: Positions) -> tuple[Floats, Floats]:
        """Return mean and variance over the sums at these columns (-1: the average one) for one of the rows."""
        draws, doubt = np.empty((len(sums.codes), len(columns))), np.zeros(len(columns))
        for d, codes in enumerate(sums.codes):
            places = sums.places[d] + np.cumsum(codes.widths) - codes.widths + codes.cols[columns]
            draws[d] = self.constants[row, d] + self.profiles[row][places].sum(axis=1)
            if len(self.doubts):
                doubt += self.doubts[row][places].sum(axis=1)
            if codes.col_effects is not None:
                draws[d] += codes.col_effects[columns]
        mean, variance = draws.mean(axis=0), draws.var(axis=0) + doubt / len(draws)
        if sums.linear is not None:
            term, spread = sums.linear.of_line(self.lines[row], float(self.spreads[row]), columns)
            mean, variance = mean + term, variance + spread
        return mean, variance

    def rest(self, sums: Sums, begins: Positions, cols: Positions, values: Floats) -> Floats:
        """Return what the mean of the stencils leaves of the observations by which the rows were folded in."""
        rows, mean = np.repeat(np.arange(len(begins) - 1), np.diff(begins)), np.zeros(len(cols))
        for d, codes in enumerate(sums.codes):
            first = sums.places[d] + np.cumsum(codes.widths) - codes.widths
            mean += self.constants[rows, d] + self.profiles[rows[:, None], first + codes.cols[cols]].sum(axis=1)
            if codes.col_effects is not None:
                mean += codes.col_effects[cols]
        return np.asarray(values - mean / len(sums.codes))

    def in_units(self, sums: Sums) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        constants = np.ascontiguousarray(self.constants)  # kernels are compiled anew for each layout
        return sums.in_units(self.profiles), sums.in_units(constants - sums.codes[0].offset)


def fold(
    sums: Sums, noise: float, begins: Positions, cols: Positions, values: Floats, seed: int | None = None,
    blank: float = 0.0, effect_variance: Variance = None, expected: Expected | None = None, doubting: bool = False,
) -> Folded:  # fmt: skip
    """Fold in rows with the observations begins[u] .. begins[u + 1], at known columns.

    With a seed, labels are drawn by their probabilities; without, the most probable ones are taken. All other columns
    are zeros of weight `blank`. Without a variance of effects (of all rows, or one for each), that of the known rows is
    taken. `expected` is what features say of the rows. If `doubting`, say how far lines may be from what is expected.

    Labels and slopes depend on each other: slopes are found by turns with the labels of a few of the sums.
    """
    n, linear = len(begins) - 1, sums.linear
    if linear is None:
        return _folded(sums, noise, begins, cols, values, seed, blank, effect_variance, expected, doubting)
    few, shape = sums.few, (n, linear.rows.shape[1])
    average = np.broadcast_to(linear.rows[-1].astype(np.float64), shape), np.zeros(shape, np.bool_)
    first = average if expected is None else (expected.lines, expected.fixed)
    lines, spreads, rows = first[0], np.full(n, linear.spreads[0][-1]), np.repeat(np.arange(n), np.diff(begins))

    def without(lines: Floats) -> Floats:
        return np.asarray(values - np.einsum("pf,pf->p", lines[rows], linear.cols[cols].astype(np.float64)))

    for _ in range(TURNS if len(cols) else 0):
        part = _folded(few, noise, begins, cols, without(lines), None, blank, effect_variance, expected)
        lines, spreads = linear.fitted(begins, cols, part.rest(few, begins, cols, values), noise**2, *first)
    whole = _folded(sums, noise, begins, cols, without(lines), seed, blank, effect_variance, expected, doubting)
    return replace(whole, lines=lines, spreads=spreads)


def _folded(
    sums: Sums, noise: float, begins: Positions, cols: Positions, values: Floats, seed: int | None,
    blank: float, effect_variance: Variance, expected: Expected | None = None, doubting: bool = False,
) -> Folded:  # fmt: skip
    """Fold in rows without slopes, as `fold` does."""
    from accams.kernels.fold import fold_rows

    n, rows = len(begins) - 1, np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    profiles, effects = np.empty((n, int(sums.places[-1]))), np.zeros((len(sums.codes), n))
    doubts = np.zeros(profiles.shape if doubting else (0, 0))
    means = [np.zeros(n) if expected is None else expected.priors.effects(codes) for codes in sums.codes]
    labels = [np.zeros((n, len(codes.starts)), np.int64) for codes in sums.codes]

    def run(d: int, lo: int, hi: int) -> None:
        codes = sums.codes[d]
        variance: Any = 0.0
        if codes.row_effects is not None:
            variance = _variance(codes.row_effects) if effect_variance is None else effect_variance
        cross = sums.column_pairs(d) if blank > 0.0 else np.zeros((0, 0))
        col_effects = np.zeros(0, np.float32) if codes.col_effects is None else codes.col_effects
        heights, frequencies = sums.label_priors[d]
        priors = frequencies[None] if expected is None else expected.priors.logs(codes, frequencies)
        fold_rows(
            lo, hi, begins, cols, values - means[d][rows], codes.cols, codes.flat, codes.starts, codes.widths, heights,
            priors, codes.offset, col_effects, noise * noise, np.atleast_1d(variance), blank, cross, PASSES,
            _uniforms(seed, d, labels[d].shape), profiles, doubts, sums.places[d], effects[d], labels[d],
        )  # fmt: skip

    if len(sums.codes) == 1:
        THREADS.map(lambda lo, hi: run(0, lo, hi), _pieces(n))
    else:
        THREADS.map(lambda d, _: run(d, 0, n), [(d, d + 1) for d in range(len(sums.codes))])
    offsets = np.array([codes.offset for codes in sums.codes])
    return Folded(profiles, (effects + np.array(means)).T + offsets, labels, np.zeros((n, 0)), np.zeros(n), doubts)


def fold_labels(
    sums: Sums, noise: float, begins: Positions, cols: Positions, values: Floats, seed: int | None = None,
    blank: float = 0.0, effect_variance: Variance = None, expected: Expected | None = None,
) -> Folded:  # fmt: skip
    """Fold in many rows, in batches: like `fold`, but without profiles, and with labels of the narrowest type."""
    parts = list[Folded]()
    for number, lo in enumerate(range(0, len(begins) - 1, ROWS_AT_ONCE)):
        some = begins[lo : lo + ROWS_AT_ONCE + 1]
        entries = slice(int(some[0]), int(some[-1]))
        key = None if seed is None else seed + (number << 64)
        lines = slice(lo, lo + ROWS_AT_ONCE)
        told = None if expected is None else expected.take(lines)
        variance = effect_variance[lines] if isinstance(effect_variance, np.ndarray) else effect_variance
        part = fold(sums, noise, some - some[0], cols[entries], values[entries], key, blank, variance, told)
        labels = [x.astype(codes.rows.dtype) for x, codes in zip(part.labels, sums.codes, strict=True)]
        parts.append(replace(part, profiles=part.profiles[:, :0], labels=labels))
    together = [np.concatenate(x) for x in zip(*(part.labels for part in parts), strict=True)]
    constants, slopes, spreads = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("constants", "lines", "spreads")
    )
    return Folded(np.zeros((len(begins) - 1, 0)), constants, together, slopes, spreads, np.zeros((0, 0)))


def _uniforms(seed: int | None, d: int, shape: tuple[int, ...]) -> Floats:
    """Return random numbers for one sum, or an empty array without a seed."""
    return np.zeros((0, 0)) if seed is None else np.random.default_rng([seed, d]).random(shape)


def _variance(effects: NDArray[np.floating]) -> float:
    """Return the mean square of the effects that are not zero."""
    nonzero = effects[effects != 0].astype(np.float64)
    return float(np.mean(np.square(nonzero))) if len(nonzero) else 0.0


def _pieces(n: int) -> list[tuple[int, int]]:
    cuts = np.linspace(0, n, min(n, THREADS.n_threads) + 1).round().astype(int).tolist()
    return list(pairwise(cuts)) or [(0, 0)]
