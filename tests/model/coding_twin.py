"""Slow reference versions of the entropy coder and of bit packing, in Python integers."""

from __future__ import annotations

from collections.abc import Sequence

Segment = tuple[Sequence[int], Sequence[int], int]  # symbols, frequencies, precision


def ans_words(segments: Sequence[Segment]) -> list[int]:
    """Return the words of all segments in the order in which they are read."""
    state, words = 1 << 16, list[int]()
    for symbols, freq, bits in reversed(segments):
        for a in reversed(symbols):
            if state >= freq[a] << (32 - bits):
                words.append(state % 65536)
                state //= 65536
            state = (state // freq[a] << bits) + sum(freq[:a]) + state % freq[a]
    return [*divmod(state, 65536), *reversed(words)]


def ans_symbols(words: Sequence[int], segments: Sequence[tuple[int, Sequence[int], int]]) -> list[int]:
    """Return the symbols of all segments, each given by length, frequencies and precision."""
    state, at, out = words[0] * 65536 + words[1], 2, list[int]()
    for length, freq, bits in segments:
        for _ in range(length):
            above, slot = divmod(state, 1 << bits)
            a = next(a for a in range(len(freq)) if slot < sum(freq[: a + 1]))
            state = freq[a] * above + slot - sum(freq[:a])
            if state < 1 << 16:
                state, at = state * 65536 + words[at], at + 1
            out.append(a)
    assert (state, at) == (1 << 16, len(words))
    return out


def packed(values: Sequence[int], widths: Sequence[int]) -> bytes:
    """Pack values without gaps into one large integer."""
    total, at = 0, 0
    for value, width in zip(values, widths, strict=True):
        total += value % (1 << width) << at
        at += width
    return total.to_bytes((at + 7) // 8, "little")
