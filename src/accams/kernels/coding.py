"""Entropy coding and bit packing of integers.

The entropy coder is the range variant of asymmetric numeral systems (rANS; Duda, 2013). Coding a symbol of frequency f
out of 2^precision multiplies the state by about 2^precision / f, that is, adds the symbol's bits to it; when the state
would leave its 32 bits, the lowest 16 are written out. All arithmetic is on integers, so a stream means the same on
every machine. Frequencies are static and stored with the stream: symbols are coded in the reverse of the order in which
they are decoded, so a model that adapts while decoding would have to be run ahead of the encoder.
"""

import numpy as np

from accams.kernels.jit import kernel

LOW = np.uint64(1 << 16)  # between symbols the state is in [2^16, 2^32)
WORD = np.uint64(16)
MASK = np.uint64(0xFFFF)


@kernel
def ans_encode(symbols, ends, first, freq, precision, words):
    """Encode segments of symbols at the end of `words`; return the number of words used.

    Segment q ends before symbols[ends[q]]; the frequency of its symbol a is freq[first[q] + a], out of
    2^precision[q], with precision at most 16. The decoder reads forwards, so the last symbol is coded first. A symbol
    takes at most one word and the final state two: `words` needs len(symbols) + 2.
    """
    at = words.size
    state = LOW
    start_of = np.zeros(freq.size, np.uint64)
    for q in range(ends.size):
        total = np.uint64(0)
        for a in range(first[q], first[q + 1]):
            start_of[a] = total
            total += np.uint64(freq[a])
    for q in range(ends.size - 1, -1, -1):
        bits = np.uint64(precision[q])
        begin = ends[q - 1] if q > 0 else 0
        for p in range(ends[q] - 1, begin - 1, -1):
            a = first[q] + symbols[p]
            f = np.uint64(freq[a])
            # Below this bound the new state is below 2^32. The bound is at least 2^16, so one word written is always
            # enough, and it can be 2^32 itself, hence the 64-bit arithmetic.
            if state >= f << (np.uint64(32) - bits):
                at -= 1
                words[at] = state & MASK
                state >>= WORD
            state = ((state // f) << bits) + state % f + start_of[a]
    words[at - 1] = state & MASK
    words[at - 2] = state >> WORD
    return words.size - at + 2


@kernel
def ans_decode(words, ends, first, freq, precision, out):
    """Decode what `ans_encode` wrote; return False if the stream is damaged or of another length.

    An intact stream is used up exactly, in the state with which encoding began.
    """
    if words.size < 2:
        return False
    state = (np.uint64(words[0]) << WORD) | np.uint64(words[1])
    at = 2
    p = 0
    symbol_at = np.zeros(1 << 16, np.uint16)  # the symbol of each of the 2^precision slots, so decoding needs no search
    start_of = np.zeros(1 << 16, np.uint64)
    for q in range(ends.size):
        bits = np.uint64(precision[q])
        mask = (np.uint64(1) << bits) - np.uint64(1)
        base = first[q]
        total = 0
        for a in range(first[q + 1] - base):
            start_of[a] = np.uint64(total)
            for _ in range(freq[base + a]):
                symbol_at[total] = a
                total += 1
        while p < ends[q]:
            slot = state & mask
            a = symbol_at[slot]
            # The inverse of the encoder's step: slot - start_of[a] is the remainder of its division by the frequency.
            state = np.uint64(freq[base + a]) * (state >> bits) + slot - start_of[a]
            if state < LOW:
                if at >= words.size:
                    return False
                state = (state << WORD) | np.uint64(words[at])
                at += 1
            out[p] = a
            p += 1
    return state == LOW and at == words.size


@kernel
def write_bits(values, widths, out):
    """Write values[p] with widths[p] bits (at most 64), lowest bit first and without gaps, into zeroed bytes."""
    at = 0
    for p in range(values.size):
        value = np.uint64(values[p])
        left = widths[p]
        while left > 0:
            free = 8 - (at & 7)
            take = min(free, left)
            part = value & ((np.uint64(1) << np.uint64(take)) - np.uint64(1))
            out[at >> 3] |= np.uint8(part << np.uint64(at & 7))
            value >>= np.uint64(take)
            left -= take
            at += take


@kernel
def read_bits(data, widths, out):
    """Read what `write_bits` wrote; `data` must hold at least the sum of all widths."""
    at = 0
    for p in range(out.size):
        value = np.uint64(0)
        got = 0
        while got < widths[p]:
            free = 8 - (at & 7)
            take = min(free, widths[p] - got)
            part = (np.uint64(data[at >> 3]) >> np.uint64(at & 7)) & ((np.uint64(1) << np.uint64(take)) - np.uint64(1))
            value |= part << np.uint64(got)
            got += take
            at += take
        out[p] = value
