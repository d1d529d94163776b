"""Draw labels and templates from sums per row. A "row" is a row or a column: whichever axis is updated.

Random numbers are counter-based: a hash of a key (two words) and a counter, mostly the row's number. There is no state
to carry from row to row, so a draw depends neither on ranges nor on threads, and a GPU uses the same numbers.
`row_weights` is None or the integer precision of each row, a factor of its sums in costs and tables.
"""

from math import cos, log, pi, sqrt

import numpy as np

from accams.kernels.jit import contracted, inlined, kernel

BLOCK = 128  # rows whose costs are computed together, so that the inner loop is over contiguous memory
LOWEST = -700.0  # exp(-700) is about 1e-304: negligible, and still a normal number
MAX_PRODUCT = 1e100  # a larger product is moved into the exponent; two of them multiply without overflow

# Odd multipliers, so that they lose no bits: ADD1 is 2^64 / golden ratio; MIX1 and MIX2 are those of SplitMix64.
ADD1, ADD2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
MIX1, MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S12 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(12)

LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
ROUND = 6755399441055744.0  # 1.5 * 2^52: x + ROUND has the integer nearest to x in its lowest mantissa bits
BIAS, EXPONENT = np.int64(1023), np.int64(52)  # of a double: offset and position of the exponent field
POWERS = 2.0 ** np.arange(-1023.0, 1.0)  # POWERS[p + BIAS] = 2^p


@kernel
def mixed(x):
    """Return a 64-bit hash of a 64-bit word: the finaliser of SplitMix64, which is a bijection."""
    x = (x ^ (x >> S30)) * MIX1
    x = (x ^ (x >> S27)) * MIX2
    return x ^ (x >> S31)


@kernel
def uniform(key0, key1, counter):
    """Return a number strictly between 0 and 1, a function of the two key words and the counter."""
    # Two rounds: the first spreads neighbouring counters over all 64 bits, the second mixes in the other key word.
    word = mixed(mixed(np.uint64(key0) + np.uint64(counter) * ADD1) ^ (np.uint64(key1) * ADD2))
    # The upper 52 bits and one half: exact in 53 bits, from 2^-53 to 1 - 2^-53, so logarithms are finite.
    return (np.float64(word >> S12) + 0.5) * 2.0**-52


@contracted
def exponentials(x, work):
    """Replace a vector of numbers <= 0 by their exponentials, to about eleven digits and without branches.

    x = p ln 2 + r with |r| <= ln(2) / 2: the Taylor polynomial of degree 9 in r, times 2^p. Without branches and
    calls the loops vectorise; with `np.exp` they would only where Intel's SVML is installed.
    """
    for i in range(x.size):
        y = x[i] if x[i] > LOWEST else LOWEST
        z = y * LOG2E + ROUND
        work[i] = z
        p = z - ROUND
        # ln 2 in two parts: p * LN2_HIGH is exact since LN2_HIGH has few bits, so r keeps its digits.
        r = (y - p * LN2_HIGH) - p * LN2_LOW
        r2 = r * r
        r4 = r2 * r2
        low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
        middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
        x[i] = low + r4 * (middle + r4 * (1.0 / 40320.0 + r * (1.0 / 362880.0)))
    # 2^p from its bits: the lowest 12 of p + 1023, which lies in 13 .. 1023, become sign (0) and exponent; the shift
    # drops all others.
    bits = work.view(np.int64)
    for i in range(x.size):
        bits[i] = (bits[i] + BIAS) << EXPONENT
    for i in range(x.size):
        x[i] *= work[i]


@contracted
def exponential(x):
    """Return the exponential of one number <= 0, as `exponentials` does but with 2^p from a table."""
    y = x if x > LOWEST else LOWEST
    p = np.rint(y * LOG2E)
    r = (y - p * LN2_HIGH) - p * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    return (low + r4 * (middle + r4 * (1.0 / 40320.0 + r * (1.0 / 362880.0)))) * POWERS[np.uint64(np.int64(p) + BIAS)]


@contracted
def blocked(lo, hi, n, l, row_weights, T, log_prior, precision, key0, key1, first, labels, N, L, counts):
    """Draw a label for each row of [lo, hi) given the template, and add its sums to the block tables.

    log p(a) = log_prior[a] - precision / 2 * sum_b (n[i, b] * T[a, b]^2 - 2 * l[i, b] * T[a, b]) + a constant.
    `labels` is changed in place; N, L and counts are added to. Returns the number of labels that changed. Row 0 is row
    `first` of the whole matrix, and random numbers are keyed by the latter.

    One uniform number per row and the cumulative sum of its probabilities give the label: one hash and k exponentials,
    where Gumbel's trick would take k hashes and 2k logarithms.
    """
    k_own, k_other = T.shape
    mass = np.zeros((k_other, BLOCK))
    sums = np.zeros((k_other, BLOCK))
    logit = np.zeros((k_own, BLOCK))
    highest = np.zeros(BLOCK)
    work = np.zeros(BLOCK)
    total = np.zeros(BLOCK)
    drawn = np.zeros(BLOCK, np.int64)
    moved = 0
    for start in range(lo, hi, BLOCK):
        width = min(BLOCK, hi - start)
        for i in range(width):
            scale = precision if row_weights is None else precision * row_weights[start + i]
            for b in range(k_other):
                mass[b, i] = -0.5 * scale * n[start + i, b]
                sums[b, i] = scale * l[start + i, b]
        highest[:] = -np.inf
        for a in range(k_own):  # to BLOCK, not to width, as in `assign.nearest`
            x = logit[a]
            x[:] = log_prior[a]
            for b in range(k_other):
                t = T[a, b]
                m = mass[b]
                s = sums[b]
                for i in range(BLOCK):
                    x[i] += t * (m[i] * t + s[i])
            for i in range(BLOCK):
                highest[i] = x[i] if x[i] > highest[i] else highest[i]
        total[:] = 0.0
        for a in range(k_own):  # from here on logit[a] holds the sum of the unnormalised probabilities of 0 .. a
            x = logit[a]
            for i in range(BLOCK):
                x[i] -= highest[i]
            exponentials(x, work)
            for i in range(BLOCK):
                total[i] += x[i]
                x[i] = total[i]
        for i in range(width):
            total[i] *= uniform(key0, key1, first + start + i)
        drawn[:] = 0  # the label is the number of cumulative sums up to the target: no branch, no search
        for a in range(k_own - 1):
            x = logit[a]
            for i in range(BLOCK):
                drawn[i] += x[i] <= total[i]
        for i in range(width):
            a = drawn[i]
            if labels[start + i] != a:
                moved += 1
                labels[start + i] = a
            counts[a] += 1
            w = 1 if row_weights is None else np.int64(row_weights[start + i])
            for b in range(k_other):
                N[a, b] += w * n[start + i, b]
                L[a, b] += w * l[start + i, b]
    return moved


@inlined
def totals(D, S, a):
    """Return sum_b S^2 / D of cluster a as numerator and denominator, the latter the product of all D."""
    top, low = 0.0, 1.0
    for b in range(D.shape[1]):
        top = top * D[a, b] + S[a, b] * S[a, b] * low
        low *= D[a, b]
    return top, low


@inlined
def gains_of_all(D, S, tops, lows, more, x, rho, power, weight):
    """Compute the odds exp(power) * weight of each cluster for a row that adds `more` to D and x to S.

    Returns the highest power. Sums of fractions over the blocks share one denominator, the product of all D, so each
    cluster takes one division, and that product is what the determinant needs too: weight = sqrt(old / new product)
    in place of k_other logarithms. `tops` and `lows` are the `totals` without the row. Two clusters at a time, as their
    chains of products are independent; with an odd number the last one is computed twice.
    """
    k_own, k_other = D.shape
    highest = -np.inf
    for a in range(0, k_own, 2):
        c = min(a + 1, k_own - 1)
        top_a, low_a, top_c, low_c = 0.0, 1.0, 0.0, 1.0
        for b in range(k_other):
            q_a, t_a, q_c, t_c = D[a, b] + more[b], S[a, b] + x[b], D[c, b] + more[b], S[c, b] + x[b]
            top_a = top_a * q_a + t_a * t_a * low_a
            top_c = top_c * q_c + t_c * t_c * low_c
            low_a *= q_a
            low_c *= q_c
        inverse_a, inverse_c = 1.0 / (low_a * lows[a]), 1.0 / (low_c * lows[c])
        power[a] = rho * (top_a * lows[a] - tops[a] * low_a) * inverse_a
        power[c] = rho * (top_c * lows[c] - tops[c] * low_c) * inverse_c
        weight[a], weight[c] = lows[a] * np.sqrt(inverse_a), lows[c] * np.sqrt(inverse_c)
        highest = max(highest, power[a], power[c])
    return highest


@contracted
def gains_of_some(D, S, blocks, size, more, x, rho, power, weight):
    """Compute the same as `gains_of_all` from the blocks alone in which the row has observations.

    In all other blocks D and S stay, and their terms cancel. Products that grow too large go into the exponent.
    """
    k_own, highest = len(D), -np.inf
    for a in range(0, k_own, 2):
        c = min(a + 1, k_own - 1)
        gain_a, top_a, low_a, old_top_a, old_low_a = 0.0, 0.0, 1.0, 0.0, 1.0
        gain_c, top_c, low_c, old_top_c, old_low_c = 0.0, 0.0, 1.0, 0.0, 1.0
        for p in range(size):
            b = blocks[p]
            d_a, s_a, d_c, s_c = D[a, b], S[a, b], D[c, b], S[c, b]
            q_a, t_a, q_c, t_c = d_a + more[b], s_a + x[b], d_c + more[b], s_c + x[b]
            top_a = top_a * q_a + t_a * t_a * low_a
            top_c = top_c * q_c + t_c * t_c * low_c
            low_a *= q_a
            low_c *= q_c
            old_top_a = old_top_a * d_a + s_a * s_a * old_low_a
            old_top_c = old_top_c * d_c + s_c * s_c * old_low_c
            old_low_a *= d_a
            old_low_c *= d_c
            if low_a > MAX_PRODUCT or low_c > MAX_PRODUCT:
                gain_a += rho * (top_a / low_a - old_top_a / old_low_a) - 0.5 * np.log(low_a / old_low_a)
                gain_c += rho * (top_c / low_c - old_top_c / old_low_c) - 0.5 * np.log(low_c / old_low_c)
                top_a, low_a, old_top_a, old_low_a = 0.0, 1.0, 0.0, 1.0
                top_c, low_c, old_top_c, old_low_c = 0.0, 1.0, 0.0, 1.0
        inverse_a, inverse_c = 1.0 / (low_a * old_low_a), 1.0 / (low_c * old_low_c)
        power[a] = gain_a + rho * (top_a * old_low_a - old_top_a * low_a) * inverse_a
        power[c] = gain_c + rho * (top_c * old_low_c - old_top_c * low_c) * inverse_c
        weight[a], weight[c] = old_low_a * np.sqrt(inverse_a), old_low_c * np.sqrt(inverse_c)
        highest = max(highest, power[a], power[c])
    return highest


@contracted
def collapsed(first, n, l, row_weights, kappa, rho, concentration, crp, growing, key0, key1, labels, N, L, counts):
    """Draw labels one after another, from row `first` on, with the template integrated out.

    N, L and counts must hold the block tables of the present labels; they are updated with them. With D = 1 + kappa N,
    kappa = tau^2 / sigma^2 and rho = tau^2 / (2 sigma^4),

        log p(a) = log w_a + sum_b (g(N + n, L + l) - g(N, L)),  g(N, L) = -log(D) / 2 + rho * L^2 / D

    where w_a is the number of other rows in cluster a plus `concentration` per cluster or, with `crp`, that number
    alone, and `concentration` for the first empty cluster. If `growing`, stop as soon as all clusters are occupied, so
    that the caller can add one. Returns the next row to draw and the number of labels that changed.
    """
    k_own, k_other = N.shape
    D, S = 1.0 + kappa * N, L.astype(np.float64)
    tops, lows, power, weight = np.zeros((4, k_own))
    # No product of all D of a cluster can be too large: as the geometric mean is at most the arithmetic mean, it
    # is at most that of k_other equal factors, with all observations in one cluster.
    small = k_other * np.log(1.0 + kappa * N.sum() / k_other) < np.log(MAX_PRODUCT)
    for a in range(k_own):
        tops[a], lows[a] = totals(D, S, a)
    blocks = np.zeros(k_other, np.uint64)
    more, x = np.zeros((2, k_other))
    moved = 0
    for i in range(first, labels.size):
        if growing and counts.min() > 0:
            return i, moved
        w = 1 if row_weights is None else np.int64(row_weights[i])
        old = labels[i]
        counts[old] -= 1
        size = 0
        for b in range(k_other):
            more[b], x[b] = kappa * (w * n[i, b]), w * l[i, b]
            if n[i, b] > 0:
                N[old, b] -= w * n[i, b]
                L[old, b] -= w * l[i, b]
                D[old, b], S[old, b] = 1.0 + kappa * N[old, b], L[old, b]
                blocks[size] = b
                size += 1
        top, low = tops[old], lows[old]  # to be restored if the row stays
        tops[old], lows[old] = totals(D, S, old)
        if small and 5 * size > 3 * k_other:  # a row in most blocks: contiguous loops over all of them are faster
            highest = gains_of_all(D, S, tops, lows, more, x, rho, power, weight)
        else:
            highest = gains_of_some(D, S, blocks, size, more, x, rho, power, weight)
        for a in range(k_own):
            power[a] = exponential(power[a] - highest)
        empty = 0
        while crp and empty < k_own and counts[empty] > 0:
            empty += 1
        total = 0.0
        for a in range(k_own):
            prior = counts[a] + (0.0 if crp and a != empty else concentration)
            total += prior * power[a] * weight[a]
            weight[a] = total
        total *= uniform(key0, key1, i)
        new = 0
        while new < k_own - 1 and weight[new] <= total:
            new += 1
        counts[new] += 1
        for p in range(size):
            b = blocks[p]
            N[new, b] += w * n[i, b]
            L[new, b] += w * l[i, b]
            D[new, b], S[new, b] = 1.0 + kappa * N[new, b], L[new, b]
        if new == old:
            tops[old], lows[old] = top, low
        else:
            moved += 1
            labels[i] = new
            tops[new], lows[new] = totals(D, S, new)
    return labels.size, moved


@kernel
def gamma(shape, key0, key1, counter):
    """Draw from the gamma distribution of this shape and scale 1 (rejection of Marsaglia and Tsang, 2000)."""
    d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    # Rejection takes an unknown number of uniforms, so each counter has a stream of its own; number 0 is for the boost.
    word = mixed(np.uint64(key1) ^ mixed(np.uint64(counter) * ADD1))
    turn = 1
    while True:
        u, v, w = uniform(key0, word, turn), uniform(key0, word, turn + 1), uniform(key0, word, turn + 2)
        turn += 3
        x = sqrt(-2.0 * log(u)) * cos(2.0 * pi * v)
        y = (1.0 + c * x) ** 3
        if y > 0.0 and log(w) < 0.5 * x * x + d - d * y + d * log(y):
            if shape < 1.0:  # drawn with shape + 1
                return d * y * uniform(key0, word, 0) ** (1.0 / shape)
            return d * y


@kernel
def precisions(lo, hi, squares, cells, nu, scale, key0, key1, out):
    """Draw out[i] ~ Gamma((nu + cells[i]) / 2, rate (nu + scale * squares[i]) / 2)."""
    for i in range(lo, hi):
        out[i] = gamma(0.5 * (nu + cells[i]), key0, key1, i) / (0.5 * (nu + scale * squares[i]))


@kernel
def normal(key0, key1, counter):
    """Draw a standard normal number (Box and Muller) from the uniform numbers 2 * counter and 2 * counter + 1."""
    u, v = uniform(key0, key1, 2 * counter), uniform(key0, key1, 2 * counter + 1)
    return sqrt(-2.0 * log(u)) * cos(2.0 * pi * v)


@kernel
def effects(lo, hi, n, l, row_weights, effects, kappa, spread, limit, key0, key1, first, change):
    """Draw a new effect for each row of [lo, hi) and write its difference from the old one into `change`.

    With w the row's weight, n and l its sums over all observations (the old effect taken out of l here):
    mean = kappa w l / (1 + kappa w n), standard deviation = spread / sqrt(1 + kappa w n), both in ticks.
    Row 0 is row `first` of the whole matrix, and random numbers are keyed by the latter.
    """
    for i in range(lo, hi):
        w = 1.0 if row_weights is None else np.float64(row_weights[i])
        precision = 1.0 + kappa * w * n[i, 0]  # of the posterior, in units of the prior's
        mean = kappa * w * np.float64(l[i, 0] + n[i, 0] * effects[i]) / precision
        new = np.rint(mean + spread / sqrt(precision) * normal(key0, key1, first + i))
        change[i] = np.int32(min(max(new, -limit), limit)) - effects[i]


@kernel
def block_value(N, L, kappa, spread, limit, key0, key1, block):
    """Draw one entry of a template: an integer from N(kappa L / (1 + kappa N), spread^2 / (1 + kappa N))."""
    precision = 1.0 + kappa * N  # of the posterior, in units of the prior's
    drawn = kappa * L / precision + spread / sqrt(precision) * normal(key0, key1, block)
    rounded = np.float64(np.float32((drawn + ROUND) - ROUND))  # to an integer, and to 24 bits: files hold float32
    return np.int32(min(max(rounded, -limit), limit))


@kernel
def template(N, L, kappa, spread, limit, key0, key1):
    """Draw a template given its block tables, each entry by `block_value`."""
    out = np.empty(N.shape, np.int32)
    for a in range(N.shape[0]):
        for b in range(N.shape[1]):
            out[a, b] = block_value(N[a, b], L[a, b], kappa, spread, limit, key0, key1, a * N.shape[1] + b)
    return out


@kernel
def log_weight(count, concentration, key0, key1, a):
    """Draw the logarithm of a gamma variable of shape count + concentration.

    A gamma variable of shape s is one of shape s + 1 times U^(1 / s), which underflows for small s; its logarithm does
    not.
    """
    shape = count + concentration
    # The key words change places, so that this uniform is none of those that `gamma` uses.
    return log(gamma(shape + 1.0, key0, key1, a + 1)) + log(uniform(key1, key0, a)) / shape


@kernel
def log_weights(counts, concentration, key0, key1):
    """Draw log pi up to a constant, pi ~ Dirichlet(counts + concentration)."""
    out = np.empty(counts.size)
    for a in range(counts.size):
        out[a] = log_weight(counts[a], concentration, key0, key1, a)
    return out
