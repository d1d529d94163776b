"""Scores of many columns for one row after another, and the best of them.

Everything is in whole numbers, multiples of one unit, so that sums come out the same in any order. A row is known by
its *profile*: for every stencil one number per column label (its line of the template), and one constant per sum. To
halve the number of additions, stencils go in pairs: the table of a pair has one number for every pair of labels.
"""

from __future__ import annotations

import numpy as np

from accams.kernels.jit import kernel


@kernel
def gather_profiles(rows, row_codes, flat, starts, widths, first, out):
    """out[u, first ...] = for every stencil the line of its template that row rows[u] has the label of."""
    for u in range(rows.size):
        place = first
        labels = row_codes[rows[u]]
        for s in range(starts.size):
            line = starts[s] + widths[s] * labels[s]
            for c in range(widths[s]):
                out[u, place + c] = flat[line + c]
            place += widths[s]


@kernel
def _fill_table(profile, places, widths, table):
    """One table per group of at most two stencils; places[g] = where their numbers begin in the profile, or -1."""
    for g in range(places.shape[0]):
        one, two = places[g, 0], places[g, 1]
        if one < 0:
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
def _score(profile, constants, places, widths, owner, codes, base, table, x, total, square):
    """total[j], square[j] = sum over sums d of x and x^2, where x = constants[d] + base[d, j] + all its lookups."""
    total[:] = 0
    square[:] = 0.0
    block, n = 0, x.size
    groups = codes.shape[2]
    for d in range(constants.size):
        for j in range(n):
            x[j] = constants[d] + (base[d, j] if base.shape[0] else 0)
        while block < owner.size and owner[block] == d:
            _fill_table(profile, places[block], widths[block], table)
            here = codes[block]
            for j in range(n):
                more = np.int32(0)
                for g in range(groups):
                    more += table[g, here[j, g]]
                x[j] += more
            block += 1
        for j in range(n):
            total[j] += x[j]
            square[j] += np.float64(x[j]) * np.float64(x[j])


@kernel
def best_columns(
    lo, hi, profiles, constants, places, widths, owner, codes, base, unit, noise, lower, seen_starts, seen, best
):  # fmt: skip
    """best[u] = the positions of the columns with the highest scores, best first, -1 where there are no more.

    With `lower` the score is mean - lower * standard deviation, of the sums and the noise of row u. Columns
    seen[seen_starts[u]] .. are left out (-1 among them stands for none). Of equal scores, the earlier column is first.
    """
    n = codes.shape[1]
    table = np.zeros((codes.shape[2], _widest(widths)), np.int32)
    x, total, square = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n)
    left_out = np.full(n, -1, np.int64)
    scores = np.empty(best.shape[1])
    many = np.float64(constants.shape[1])
    for u in range(lo, hi):
        _score(profiles[u], constants[u], places, widths, owner, codes, base, table, x, total, square)
        for p in range(seen_starts[u], seen_starts[u + 1]):
            if seen[p] >= 0:
                left_out[seen[p]] = u
        found = 0
        best[u] = -1
        for j in range(n):
            if left_out[j] == u:
                continue
            score = np.float64(total[j]) / many
            if lower != 0.0:
                spread = max(square[j] / many - score * score, 0.0)
                score -= lower * np.sqrt(spread + noise[u] / unit / unit)
            if found == best.shape[1] and score <= scores[found - 1]:
                continue
            place = min(found, best.shape[1] - 1)
            while place > 0 and scores[place - 1] < score:
                scores[place], best[u, place] = scores[place - 1], best[u, place - 1]
                place -= 1
            scores[place], best[u, place] = score, j
            found = min(found + 1, best.shape[1])


@kernel
def _widest(widths):
    """The most entries that a group's table has."""
    most = 1
    for block in range(widths.shape[0]):
        for g in range(widths.shape[1]):
            most = max(most, widths[block, g, 0] * max(widths[block, g, 1], 1))
    return most
