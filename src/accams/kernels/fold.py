"""Fold new rows into a stencil sum that stays fixed."""

import numpy as np

from accams.kernels.jit import kernel


@kernel
def fold_rows(
    lo, hi, begins, cols, values, col_codes, flat, starts, widths, heights, log_prior, offset, col_effects, noise,
    effect_variance, blank, cross, n_passes, uniforms, profiles, doubts, first, effects, labels,
):  # fmt: skip
    """Infer the labels of rows [lo, hi) from their observations by mean-field coordinate ascent.

    Row u has the observations begins[u] .. begins[u + 1], with columns `cols` and `values`. Each step takes one stencil
    out of the residual and sets the probabilities of its label given the prior and the expectation of all other
    stencils. The first expectation is the average row. `noise` is the variance of an observation. Results:
    profiles[u, first ...] = expected template rows, doubts[u, first ...] = their variances over the labels (unless it
    has no lines), effects[u] = the row's effect, labels[u] = the most probable label of each stencil, or with
    `uniforms` (row, stencil), numbers between 0 and 1, a label drawn by its probability.

    `log_prior` has a line and `effect_variance` a number for each row, or one for all.

    With a `blank` weight above 0, all other columns are zeros of that weight. Their sums come from cross[x, y], the
    number of columns with the column codes x and y, so they are never visited.
    """
    n_stencils = starts.size
    widest, highest = 1, 1
    for s in range(n_stencils):
        widest, highest = max(widest, widths[s]), max(highest, heights[s])
    L, N, score, present = np.empty(widest), np.empty(profiles.shape[1]), np.empty(highest), np.empty(widest, np.int64)
    for u in range(lo, hi):
        h = begins[u + 1] - begins[u]
        left = np.empty(h)
        observed = np.empty((n_stencils, h), np.int64)
        profile = profiles[u, first:]
        for p in range(h):
            j = cols[begins[u] + p]
            left[p] = values[begins[u] + p] - offset
            if col_effects.size:
                left[p] -= col_effects[j]
            for s in range(n_stencils):
                observed[s, p] = col_codes[j, s]
        place = 0
        for s in range(n_stencils):
            average = starts[s] + (heights[s] - 1) * widths[s]  # the last template row, as `Codes` lays it out
            for c in range(widths[s]):
                profile[place + c] = flat[average + c]
                N[place + c] = blank * cross[place + c, place + c] if blank > 0.0 else 0.0
            for p in range(h):
                left[p] -= profile[place + observed[s, p]]
                N[place + observed[s, p]] += 1.0 - blank  # `cross` counts all columns, the observed ones too
            place += widths[s]
        prior = log_prior[min(u, log_prior.shape[0] - 1)]
        variance = effect_variance[min(u, effect_variance.size - 1)]
        effects[u] = 0.0
        for step in range(n_passes):
            if variance > 0.0:
                total = 0.0
                for p in range(h):
                    total += left[p] + effects[u]
                before, effects[u] = effects[u], total / (h + noise / variance)
                for p in range(h):
                    left[p] += before - effects[u]
            place, at = 0, 0
            for s in range(n_stencils):
                line, k, begin, width = profile[place : place + widths[s]], heights[s] - 1, starts[s], widths[s]
                L[:width] = 0.0
                if blank > 0.0:
                    _blank_sums(blank, offset, cross, profile, place, width, L)
                    for p in range(h):
                        x = left[p] + line[observed[s, p]]
                        left[p] = x
                        # x - value is zero less all other stencils: the blank that `_blank_sums` put in here.
                        L[observed[s, p]] += x - blank * (x - values[begins[u] + p])
                else:
                    for p in range(h):
                        x = left[p] + line[observed[s, p]]
                        left[p] = x
                        L[observed[s, p]] += x
                n_present = 0  # a row with few observations meets few column clusters: costs need no others
                for c in range(width):
                    if N[place + c] > 0.0:
                        present[n_present] = c
                        n_present += 1
                best = -np.inf
                for a in range(k):
                    total = 0.0
                    for q in range(n_present):
                        c = present[q]
                        t = flat[begin + a * width + c]
                        total += (N[place + c] * t - 2.0 * L[c]) * t
                    score[a] = prior[at + a] - 0.5 * total / noise
                    if score[a] > best:
                        best, labels[u, s] = score[a], a
                total = 0.0
                for a in range(k):
                    score[a] = np.exp(score[a] - best)  # relative to the best, so that not all underflow
                    total += score[a]
                if uniforms.shape[0]:
                    labels[u, s] = _drawn(score[:k], uniforms[u, s] * total)
                last = step == n_passes - 1  # before that, only the clusters that are present are read
                for q in range(width if last else n_present):
                    c = q if last else present[q]
                    expected = 0.0
                    for a in range(k):
                        expected += score[a] * flat[begin + a * width + c]
                    line[c] = expected / total
                    if last and doubts.shape[0]:
                        square = 0.0
                        for a in range(k):
                            square += score[a] * flat[begin + a * width + c] ** 2
                        doubts[u, first + place + c] = max(square / total - line[c] ** 2, 0.0)
                for p in range(h):
                    left[p] -= line[observed[s, p]]
                place += width
                at += heights[s]


@kernel
def _blank_sums(blank, offset, cross, profile, place, width, L):
    """Sum zero minus the prediction of all other stencils over all columns, by clusters of the stencil at `place`."""
    for c in range(place, place + width):
        total = -offset * cross[c, c]
        for q in range(cross.shape[0]):
            if q < place or q >= place + width:
                total -= cross[c, q] * profile[q]
        L[c - place] = blank * total


@kernel
def _drawn(weights, target):
    """Return the first label whose cumulative weight exceeds the target."""
    total = 0.0
    for a in range(weights.size - 1):
        total += weights[a]
        if total > target:
            return a
    return weights.size - 1
