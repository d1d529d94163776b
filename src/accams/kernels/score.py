"""Score all columns for one row at a time and keep the best ones.

Scores are integer multiples of one unit, so sums do not depend on their order. A row is given by its *profile*, for
every stencil one number per column label (the template row of its label), and one constant per stencil sum. Stencils
go in *groups* of at most two: the table of a pair has one number for every pair of column labels, so one lookup adds
both stencils. A *block* is as n_sums groups as have their tables in the fastest cache (`accams.use.scoring`). The unit
is chosen so that all entries of a sum add up to at most 2^29 and a constant is at most 2^30: scores fit in 32 bits.
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def gather_profiles(rows, row_codes, flat, starts, widths, first, out):
    """Write into out[u, first ...] the template row of every stencil for the labels of row rows[u]."""
    for u in range(rows.size):
        place = first
        labels = row_codes[rows[u]]  # -1 wraps around to the last line, the average row
        for s in range(starts.size):
            line = starts[s] + widths[s] * labels[s]
            for c in range(widths[s]):
                out[u, place + c] = flat[line + c]
            place += widths[s]


@kernel
def _fill_table(profile, places, widths, table):
    """Fill the tables of a block's groups; places[g] = where the group's stencils begin in the profile, or -1."""
    for g in range(places.shape[0]):
        one, two = places[g, 0], places[g, 1]
        if one < 0:  # a block that is not full: all columns have code 0 in this group
            table[g, 0] = 0
            continue
        if two < 0:
            for a in range(widths[g, 0]):
                table[g, a] = profile[one + a]
            continue
        at = 0
        for a in range(widths[g, 0]):
            for b in range(widths[g, 1]):
                table[g, at] = profile[one + a] + profile[two + b]
                at += 1


@kernel
def _score(profile, constants, added, places, widths, owner, codes, base, table, x, total, square, squares):
    """Sum x = constants[d] + base[d, j] + added[j] + all lookups, and x^2, over the sums d into total[j] and square[j].

    Squares are left out unless `squares`.
    """
    total[:] = 0
    square[:] = 0.0  # in floats: squares have up to 62 bits each
    block, n = 0, x.size
    groups = codes.shape[2]
    for d in range(constants.size):
        for j in range(n):
            x[j] = constants[d] + (base[d, j] if base.shape[0] else 0) + (added[j] if added.size else 0)
        while block < owner.size and owner[block] == d:
            _fill_table(profile, places[block], widths[block], table)
            block_codes = codes[block]
            for j in range(n):  # columns outside, groups inside: a column's codes are contiguous
                more = np.int32(0)
                for g in range(groups):
                    more += table[g, block_codes[j, g]]
                x[j] += more
            block += 1
        for j in range(n):
            total[j] += x[j]
        if squares:
            for j in range(n):
                square[j] += np.float64(x[j]) * np.float64(x[j])


@kernel
def best_columns(
    lo, hi, profiles, constants, added, places, widths, owner, codes, base, unit, noise, lower, seen_starts, seen, best
):  # fmt: skip
    """Write into best[u] the positions of the columns with the highest scores, best first, padded with -1.

    added[u] has one more number for each column, which all sums share, or none.

    With `lower` the score is mean - lower * standard deviation, over the sums and the noise of row u. Columns
    seen[seen_starts[u]] .. are left out (-1 among them is ignored). Ties go to the earlier column.
    """
    n = codes.shape[1]
    table = np.zeros((codes.shape[2], _widest(widths)), np.int32)
    x, total, square = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n)
    left_out = np.full(n, -1, np.int64)  # the last row that leaves out each column: no clearing between rows
    scores = np.empty(best.shape[1])
    n_sums = np.float64(constants.shape[1])
    for u in range(lo, hi):
        row = profiles[u], constants[u], added[u]
        _score(*row, places, widths, owner, codes, base, table, x, total, square, lower != 0.0)
        for p in range(seen_starts[u], seen_starts[u + 1]):
            if seen[p] >= 0:
                left_out[seen[p]] = u
        n_kept = 0
        best[u] = -1
        for j in range(n):
            if left_out[j] == u:
                continue
            score = np.float64(total[j])  # the mean would be in the same order
            if lower != 0.0:
                score /= n_sums
                spread = max(square[j] / n_sums - score * score, 0.0)
                score -= lower * np.sqrt(spread + noise[u] / unit / unit)
            if n_kept == best.shape[1] and score <= scores[n_kept - 1]:
                continue
            place = min(n_kept, best.shape[1] - 1)  # insertion sort: most columns are skipped above
            while place > 0 and scores[place - 1] < score:
                scores[place], best[u, place] = scores[place - 1], best[u, place - 1]
                place -= 1
            scores[place], best[u, place] = score, j
            n_kept = min(n_kept + 1, best.shape[1])


@kernel
def _widest(widths):
    """Return the number of entries of the largest table of a group."""
    most = 1
    for block in range(widths.shape[0]):
        for g in range(widths.shape[1]):
            most = max(most, widths[block, g, 0] * max(widths[block, g, 1], 1))
    return most
