"""Entropy coding of a matrix of integers in tiles, as whatever is left of a matrix after its stencils.

A cell is first predicted from neighbours that come before it, with integer weights in units of 2^-8. The integer that
is left becomes a token, and bits below it: the integers of small magnitude have a token each, larger ones share those
of their leading two bits. A token is coded by rANS (`kernels/coding.py`) with the frequencies of its context, which is
the logarithm of recent magnitudes in its row and its column. So rows and columns of different scales, and textures,
need no parameters. Everything is done in integers, so that a stream means the same on every machine.
"""

import numpy as np

from accams.kernels.jit import kernel

DIRECT = 16  # magnitudes, with their signs, that have a token each
TOKENS = DIRECT + 2 * 29
CONTEXTS = 72
CAP = 1 << 25  # of magnitudes in contexts, so that they fit
FRACTION = 8  # bits after the point of averages, more than the longest decay
LOW = np.uint64(1 << 16)  # of the coder's state, as in `kernels/coding.py`
WORD = np.uint64(16)
MASK = np.uint64(0xFFFF)


@kernel
def squares_left(lo, hi, away, step, dead, whole, most, sums):
    """Set sums[i] to the sum of squares of what whole numbers of steps leave of away[i], for rows in [lo, hi).

    Steps are those of `Arithmetic.steps_to`; cells that need `most` of them, or more, are kept as they are.
    """
    half = np.floor(step / 2.0)
    for i in range(lo, hi):
        total = 0.0
        for x in away[i]:
            if whole:
                n = np.floor((x + half) / step)
            else:
                n = np.floor(abs(x / step) + (0.5 - dead))
                if x < 0.0:
                    n = -n
            if abs(n) < most:
                rest = x - n * step
                total += rest * rest
        sums[i] = total


@kernel
def bit_length(x):
    """Return the bits of a number of at most 2^62 without leading zeros."""
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if x >> step:
            x >>= step
            n += step
    return n + (1 if x else 0)


@kernel
def context_of(v):
    """Return the context of a sum of averages: half octaves."""
    if v < 2:
        return v
    n = bit_length(v)
    return 2 * (n - 1) + ((v >> (n - 2)) & 1)


@kernel
def neighbours(Q, i, j, i0, j0, taps, weights):
    """Predict Q[i, j] from the cells (i - taps[p, 0], j - taps[p, 1]) inside the tile that begins at (i0, j0)."""
    total = 128
    for p in range(weights.size):
        a, b = i - taps[p, 0], j - taps[p, 1]
        if a >= i0 and b >= j0:
            total += weights[p] * np.int64(Q[a, b])
    return total >> 8


@kernel
def describe(i0, i1, j0, j1, Q, skip, taps, weights, decay, tokens, contexts, extra, widths, counts):
    """Describe a tile: set the token, the context and the bits below of each cell; return the number of cells.

    Cells where `skip` is not zero have none (it has no rows where there are no such cells). counts[context, token] is
    added to.
    """
    at = 0
    some = skip.shape[0] > 0
    below = np.zeros(j1 - j0, np.int64)  # averages of the columns
    for i in range(i0, i1):
        row = below[0]
        for j in range(j0, j1):
            if some and skip[i, j]:
                continue
            e = np.int64(Q[i, j])
            if weights.size:
                e -= neighbours(Q, i, j, i0, j0, taps, weights)
            c = context_of(row + below[j - j0])
            u = (e << 1) ^ (e >> 63)
            token = u
            widths[at] = 0
            if u >= DIRECT:
                n = bit_length(u)
                token = DIRECT + 2 * (n - 5) + ((u >> (n - 2)) & 1)
                widths[at] = n - 2
                extra[at] = u & ((np.int64(1) << (n - 2)) - 1)
            tokens[at] = token
            contexts[at] = c
            counts[c, token] += 1
            at += 1
            size = min(abs(e), CAP) << FRACTION
            row += (size - row) >> decay
            below[j - j0] += (size - below[j - j0]) >> decay
    return at


@kernel
def encode_tokens(n, tokens, contexts, classes, freq, starts, precision, words):
    """Encode n tokens at the end of `words` (n + 2 are enough); return the number of words used.

    Context c has the frequencies freq[classes[c]], which sum to 2^precision[classes[c]].
    """
    at = words.size
    state = LOW
    for p in range(n - 1, -1, -1):
        q = classes[contexts[p]]
        a = tokens[p]
        bits = np.uint64(precision[q])
        f = np.uint64(freq[q, a])
        if state >= f << (np.uint64(32) - bits):
            at -= 1
            words[at] = state & MASK
            state >>= WORD
        state = ((state // f) << bits) + state % f + np.uint64(starts[q, a])
    words[at - 1] = state & MASK
    words[at - 2] = state >> WORD
    return words.size - at + 2


@kernel
def decode_tile(
    i0, i1, j0, j1, words, bits, taps, weights, decay, skip, classes, freq, starts, precision, slots, r0, c0, Q
):
    """Decode the tile of rows [i0, i1) and columns [j0, j1) into Q; return False if its stream is damaged.

    `words` hold its tokens, `bits` what is below them; Q and skip begin at row r0 and column c0. slots[q, x] is the
    token of class q whose range of frequencies holds x.
    """
    if words.size < 2:
        return False
    state = (np.uint64(words[0]) << WORD) | np.uint64(words[1])
    at, place, end = 2, 0, 8 * bits.size
    some = skip.shape[0] > 0
    below = np.zeros(j1 - j0, np.int64)
    for i in range(i0 - r0, i1 - r0):
        row = below[0]
        for j in range(j0 - c0, j1 - c0):
            if some and skip[i, j]:
                Q[i, j] = 0
                continue
            b = j - (j0 - c0)
            q = classes[context_of(row + below[b])]
            slot = state & ((np.uint64(1) << np.uint64(precision[q])) - np.uint64(1))
            token = np.int64(slots[q, slot])
            state = np.uint64(freq[q, token]) * (state >> np.uint64(precision[q])) + slot - np.uint64(starts[q, token])
            if state < LOW:
                if at >= words.size:
                    return False
                state = (state << WORD) | np.uint64(words[at])
                at += 1
            u = token
            if token >= DIRECT:
                n = (token - DIRECT) // 2 + 3  # bits below the leading two
                if place + n > end:
                    return False
                u = np.int64(0)
                got = 0
                while got < n:
                    free = 8 - (place & 7)
                    take = min(free, n - got)
                    u |= np.int64((bits[place >> 3] >> (place & 7)) & ((1 << take) - 1)) << got
                    got += take
                    place += take
                u |= np.int64(2 + ((token - DIRECT) & 1)) << n
            e = (u >> 1) ^ -(u & 1)
            size = min(abs(e), CAP) << FRACTION
            row += (size - row) >> decay
            below[b] += (size - below[b]) >> decay
            if weights.size:
                e += neighbours(Q, i, j, i0 - r0, j0 - c0, taps, weights)
            Q[i, j] = e
    return state == LOW and at == words.size and (end - place) < 8
