"""Score all columns for one row after another, without holding the matrix of scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import THREADS, Codes
from accams.model.interactions import Interactions
from accams.model.linear import Linear

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
GROUPS = 32  # groups of stencils in a block: their tables stay in the fastest cache
ENTRIES = 256  # most entries in the table of a group, unless a single stencil has more
TOP = 2.0**29  # bound of scores in units, so that sums of a few fit into 32 bits
FEW_SUMS = 8  # sums by which slopes of folded-in rows are found
KEPT_PAIRS = 64  # most sums whose tables of column pairs are cached
PROFILE_BYTES = 1 << 24  # of the profiles of a batch of rows


@dataclass(frozen=True)
class Sums:
    """Stencil sums of equal weight, the draws of a posterior or a single model, and what is added to each of them."""

    codes: Sequence[Codes]
    shares: Sequence[NDArray[np.uint8] | None]  # probabilities of rows' labels, in place of the labels if given
    linear: Linear | None = None

    @cached_property
    def places(self) -> Positions:
        """Start of each sum in a profile, and the length of a profile."""
        return np.cumsum([0, *(int(codes.widths.sum()) for codes in self.codes)])

    @cached_property
    def unit(self) -> float:
        """Size of one step of the integer scores."""
        largest = max(map(self._largest, self.codes), default=0.0)
        largest += 0.0 if self.linear is None else self.linear.bound()
        return largest / TOP if largest > 0 else 1.0

    @cached_property
    def flat(self) -> list[Ints]:
        """Templates of each sum in units."""
        return [self.in_units(codes.flat) for codes in self.codes]

    @cached_property
    def label_priors(self) -> list[tuple[Positions, Floats]]:
        return list(map(label_priors, self.codes))

    @cached_property
    def few(self) -> "Sums":
        """A few of the sums, evenly spaced."""
        keep = np.unique(np.linspace(0, len(self.codes) - 1, min(FEW_SUMS, len(self.codes))).round().astype(int))
        return Sums([self.codes[p] for p in keep], [None] * len(keep))

    def column_pairs(self, d: int) -> Floats:
        """Return the number of columns for each pair of a sum's column labels, numbered over all its stencils."""
        from accams.kernels.encode import cross_weights

        pairs = self._pairs  # another thread may replace it
        if d not in pairs:
            codes = self.codes[d]
            first = np.cumsum([0, *codes.widths.tolist()])
            out = np.zeros((first[-1], first[-1]))
            cross_weights(codes.cols[:-1], first, np.ones(len(codes.cols) - 1), out)
            if len(self.codes) > KEPT_PAIRS:
                return out + out.T
            pairs[d] = out + out.T
        return pairs[d]

    @cached_property
    def _pairs(self) -> dict[int, Floats]:
        return {}

    def _largest(self, codes: Codes) -> float:
        """Return a bound of the scores, without the offset that all sums share."""
        stencils = np.maximum.reduceat(np.abs(codes.flat), codes.starts).sum() if len(codes.starts) else 0.0
        effects = (np.abs(x).max() for x in (codes.row_effects, codes.col_effects) if x is not None)
        return float(stencils + sum(effects) + abs(codes.offset - self.codes[0].offset))

    def profiles(self, rows: Positions) -> tuple[Ints, Ints]:
        """Return the profiles of these rows in units, and their constants, one for each sum."""
        from accams.kernels.score import gather_profiles

        profiles = np.empty((len(rows), self.places[-1]), np.int32)
        constants = np.empty((len(rows), len(self.codes)))
        for d, (codes, shares) in enumerate(zip(self.codes, self.shares, strict=True)):
            if shares is None:
                gather_profiles(rows, codes.rows, self.flat[d], codes.starts, codes.widths, self.places[d], profiles)
            else:
                part = slice(self.places[d], self.places[d + 1])
                profiles[:, part] = self.in_units(expected_lines(codes, shares[rows].astype(np.float64)))
            constants[:, d] = codes.offset - self.codes[0].offset
            if codes.row_effects is not None:
                constants[:, d] += codes.row_effects[rows]
        return profiles, self.in_units(constants)

    def lines(self, rows: Positions) -> Floats | None:
        """Return what these rows have in the linear part, if there is one."""
        return None if self.linear is None else self.linear.rows[rows].astype(np.float64)

    def in_units(self, numbers: NDArray[np.floating]) -> Ints:
        """Return the nearest integer multiples of the unit, clipped: constants of new rows are not bounded."""
        within = np.minimum(np.maximum(numbers / self.unit, -2.0 * TOP), 2.0 * TOP)
        return np.asarray(np.rint(within), np.int32)


def expected_lines(codes: Codes, shares: Floats) -> Floats:
    """Return profiles from probabilities (or any weights) of labels: all stencils side by side, one line per row."""
    parts, at = [np.zeros((len(shares), 0))], 0
    for s in range(len(codes.starts)):
        template = codes.template(s)
        weights = shares[:, at : at + len(template)]
        parts.append(weights @ template / weights.sum(axis=1, keepdims=True))
        at += len(template)
    return np.concatenate(parts, axis=1)


def label_priors(codes: Codes) -> tuple[Positions, Floats]:
    """Return the lines of each template, with the average, and the log frequency of each row label."""
    logs = [np.zeros(0)]
    for s, k in enumerate((codes.heights - 1).tolist()):
        counts = np.bincount(codes.rows[:-1, s], minlength=k + 1)[:k] + 1.0 / k
        logs.append(np.append(np.log(counts / counts.sum()), -np.inf))
    return codes.heights, np.concatenate(logs)


@dataclass(frozen=True)
class Catalogue:
    """Columns laid out for scoring: their labels in pairs of stencils, block by block."""

    sums: Sums
    columns: Positions  # the columns that are scored
    places: Positions  # (block, group, 2): start of each of a group's two stencils in a profile (-1: no stencil),
    widths: Positions  # and its number of columns
    owner: Positions  # (block,): sum that a block belongs to
    codes: NDArray[np.uint16] | NDArray[np.uint32]  # (block, column, group): entry of each group's table
    base: Ints  # (sum, column): effects of the columns in units; empty if no sum has any

    @classmethod
    def of(cls, sums: Sums, columns: Positions, n_groups: int = GROUPS) -> Self:
        """Lay out columns, in blocks of `n_groups` groups."""
        blocks = [(d, block) for d, codes in enumerate(sums.codes) for block in _blocks(codes.widths, n_groups)]
        groups = max((len(block) for _, block in blocks), default=1)
        places = np.full((len(blocks), groups, 2), -1, np.int64)
        widths = np.zeros((len(blocks), groups, 2), np.int64)
        widest = max((int(codes.widths.max(initial=1)) for codes in sums.codes), default=1)
        codes = np.zeros((len(blocks), len(columns), groups), np.uint16 if widest <= 1 << 16 else np.uint32)
        for b, (d, block) in enumerate(blocks):
            of = sums.codes[d]
            begins = sums.places[d] + np.cumsum(of.widths) - of.widths
            for g, group in enumerate(block):
                for side, s in enumerate(group):
                    places[b, g, side], widths[b, g, side] = begins[s], of.widths[s]
                    codes[b, :, g] = codes[b, :, g] * of.widths[s] + of.cols[columns, s]
        owner = np.array([d for d, _ in blocks], np.int64)
        return cls(sums, columns, places, widths, owner, codes, _base(sums, columns))

    @cached_property
    def widest(self) -> int:
        """Entries of the largest table of a group."""
        return int((self.widths[..., 0] * np.maximum(self.widths[..., 1], 1)).max(initial=1))

    def places_of(self, rows: Positions, seen: Interactions | None) -> tuple[Positions, Positions]:
        """Return the interactions of these rows, by place among `columns` (-1: not among them)."""
        if seen is None:
            return np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int64)
        starts, columns = seen.of(rows)
        return starts, self._place[columns]

    @cached_property
    def _place(self) -> Positions:
        """Place among `columns` of every column of the model, or -1."""
        place = np.full(len(self.sums.codes[0].cols), -1, np.int64)
        place[self.columns] = np.arange(len(self.columns))
        return place

    def best(
        self, rows: Positions, n: int, seen: tuple[Positions, Positions], noise: Floats | None = None,
        lower: float = 0.0,
    ) -> Positions:  # fmt: skip
        """Return the best `n` columns (or all, if there are fewer) for each row: positions in the matrix, or -1.

        `seen` are the columns to leave out: starts of the rows, and places among `columns` (or -1). The rank is by the
        mean over the sums less `lower` standard deviations, to which each row's `noise` (a variance) contributes.
        """
        n = min(n, len(self.columns))
        best = np.empty((len(rows), n), np.int64)
        added = 0 if self.sums.linear is None else len(self.columns)
        batch = max(1, PROFILE_BYTES // (4 * (int(self.sums.places[-1]) + added) + 8))
        for lo in range(0, len(rows), batch):
            part = slice(lo, lo + batch)
            profiles, constants = self.sums.profiles(rows[part])
            starts = seen[0][lo : lo + len(profiles) + 1]
            variance = None if noise is None else noise[part]
            lines = self.sums.lines(rows[part])
            best[part] = self.best_of(profiles, constants, n, (starts, seen[1]), variance, lower, lines)
        return best

    @cached_property
    def _features(self) -> Floats:
        """What the columns have in the linear part (feature, column)."""
        assert self.sums.linear is not None
        return self.sums.linear.cols[self.columns].T.astype(np.float64)

    def best_of(
        self, profiles: Ints, constants: Ints, n: int, seen: tuple[Positions, Positions], noise: Floats | None,
        lower: float, lines: Floats | None = None,
    ) -> Positions:  # fmt: skip
        """Return the best columns like `best`, for rows given by their profiles and their lines in the linear part."""
        from accams.kernels.score import best_columns

        n = min(n, len(self.columns))
        best = np.empty((len(profiles), n), np.int64)
        if n < 1:
            return best
        noise = np.zeros(len(profiles)) if noise is None else noise
        added = np.zeros((len(profiles), 0), np.int32)
        if self.sums.linear is not None and lines is not None:
            added = np.clip(self.sums.in_units(lines @ self._features), -int(TOP), int(TOP))
        tables = profiles, constants, added, self.places, self.widths, self.owner, self.codes, self.base
        ranges = THREADS.split_evenly(len(profiles), self.codes.size + 1)
        THREADS.run(best_columns, ranges, *tables, self.sums.unit, noise, lower, *seen, best)
        return np.where(best >= 0, self.columns[best], -1)


def _blocks(widths: Positions, n_groups: int) -> list[list[list[int]]]:
    """Return stencils in groups of at most two with a small table, and groups in blocks."""
    groups = list[list[int]]()
    for s, width in enumerate(widths.tolist()):
        last = groups[-1] if groups else []
        if len(last) == 1 and widths[last[0]] * width <= ENTRIES:
            last.append(s)
        else:
            groups.append([s])
    return [groups[lo : lo + n_groups] for lo in range(0, len(groups), n_groups)]


def _base(sums: Sums, columns: Positions) -> Ints:
    if all(codes.col_effects is None for codes in sums.codes):
        return np.zeros((0, len(columns)), np.int32)
    none = np.zeros(len(columns))
    effects = [none if codes.col_effects is None else codes.col_effects[columns] for codes in sums.codes]
    return sums.in_units(np.array(effects))
