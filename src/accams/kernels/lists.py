"""Lists from an item map that is a stencil sum: score all items for one history at a time, and keep the best ones.

The score of item j for a history x is sum_i x_i T[c(i), d(j)], summed over stencils. The inner sums are a *profile*,
one number for each column label of each stencil, so that a score is one lookup per stencil, or one for two of them:
items are laid out in groups of at most two stencils, as for scores of rows (`accams.kernels.score`).
"""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def history_profile(items, weights, row_codes, flat, begins, widths, histogram, profile):
    """Write the profile of one history.

    Weights in a cluster are summed first (a histogram), so that a long history costs one addition an item and stencil.
    """
    n_stencils = begins.size
    place = 0
    for s in range(n_stencils):
        width = widths[s]
        end = begins[s + 1] if s + 1 < n_stencils else flat.size
        height = (end - begins[s]) // width
        for a in range(height):
            histogram[a] = 0.0
        for p in range(items.size):
            histogram[row_codes[items[p], s]] += weights[p]
        for c in range(width):
            profile[place + c] = 0.0
        for a in range(height):
            x = histogram[a]
            if x != 0.0:
                line = begins[s] + width * a
                for c in range(width):
                    profile[place + c] += x * flat[line + c]
        place += width


@kernel
def add_scores(profile, places, widths, codes, begin, table, total):
    """Add to total[j] the profile's number for each column label of item begin + j, block by block of groups."""
    for block in range(codes.shape[0]):
        for g in range(places.shape[1]):
            one, two, at = places[block, g, 0], places[block, g, 1], 0
            if one < 0:  # a block that is not full: all items have code 0 in this group
                table[g, 0] = 0.0
                continue
            for a in range(widths[block, g, 0]):
                if two < 0:
                    table[g, a] = profile[one + a]
                    continue
                for b in range(widths[block, g, 1]):
                    table[g, at] = profile[one + a] + profile[two + b]
                    at += 1
        block_codes = codes[block, begin:]
        for j in range(total.size):  # items outside, groups inside: an item's codes are contiguous
            more = 0.0
            for g in range(places.shape[1]):
                more += table[g, block_codes[j, g]]
            total[j] += more


@kernel
def keep_best(total, left_out, user, best, scores):
    """Write the places of the highest totals, best first, and these; those that `user` leaves out are skipped.

    Of equal totals the earlier one goes first. Returns how many there are.
    """
    n_kept = 0
    for j in range(total.size):
        if left_out[j] == user or (n_kept == best.size and total[j] <= scores[n_kept - 1]):
            continue
        place = min(n_kept, best.size - 1)  # insertion sort: most items are skipped above
        while place > 0 and scores[place - 1] < total[j]:
            scores[place], best[place] = scores[place - 1], best[place - 1]
            place -= 1
        scores[place], best[place] = total[j], j
        n_kept = min(n_kept + 1, best.size)
    return n_kept


@kernel
def best_lists(
    lo, hi, begin, end, starts, items, weights, place_of, diagonal, popular, row_codes, flat, begins, widths, places,
    pair_widths, codes, widest, left_starts, left_items, best, scores, by_popularity,
):  # fmt: skip
    """Write the best of items [begin, end) for histories [lo, hi): their places (or -1) and their scores.

    Places are those among the items that are scored. `weights` are divided by the scales of the map. The diagonal is
    taken off the scores of items in the history. A history of which the map has nothing to say is ranked by popularity,
    and marked so.
    """
    total = np.empty(end - begin)
    table = np.zeros((places.shape[1], widest))
    histogram, profile = np.empty(flat.size + 1), np.empty(flat.size + 1)
    left_out = np.full(end - begin, -1, np.int64)  # the last user who leaves out each item: no clearing between users
    for u in range(lo, hi):
        own, own_weights = items[starts[u] : starts[u + 1]], weights[starts[u] : starts[u + 1]]
        history_profile(own, own_weights, row_codes, flat, begins, widths, histogram, profile)
        by_popularity[u] = True
        for p in range(widths.sum()):
            if profile[p] != 0.0:
                by_popularity[u] = False
        if not by_popularity[u]:
            total[:] = 0.0
            add_scores(profile, places, pair_widths, codes, begin, table, total)
            for p in range(own.size):
                if begin <= place_of[own[p]] < end:
                    total[place_of[own[p]] - begin] -= own_weights[p] * diagonal[own[p]]
        else:
            for j in range(total.size):
                total[j] = popular[begin + j]
        for p in range(left_starts[u], left_starts[u + 1]):
            if begin <= place_of[left_items[p]] < end:
                left_out[place_of[left_items[p]] - begin] = u
        best[u] = -1
        n_kept = keep_best(total, left_out, u, best[u], scores[u])
        for p in range(n_kept):
            best[u, p] += begin
