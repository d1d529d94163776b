"""Compress labels, integers, numbers on a grid and ids: entropy coding, bit packing and compressed text.

Each stencil's labels have static frequencies of their own, stored with them. Integers are split into their length in
bits, which is entropy-coded, and the bits below the leading one, which are close to random and stored as they are.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.limits import NUMBERS
from accams.model.stencil import label_type

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Sizes = Sequence[int]
PRECISIONS = (8, 10, 12, 14)  # bits of a frequency; each array of labels uses the one that gives the fewest bytes
MOST_LABELS = 1 << PRECISIONS[-1]  # each label in use needs a frequency of at least 1
LONGEST = 64  # bits of an integer
WORD = np.dtype("<u2")
HEAD = Struct("<BBI")  # of coded integers: precision, number of frequencies, bytes of the coded lengths
DIGITS = 24  # bits of a float32's mantissa
WIDEST = 62  # bits of a stored integer, so that it fits into an int64
LARGEST = 200  # absolute value of an exponent; those of float32, subnormal numbers included, are smaller
RANGE = "its template entries are out of range"
CUT = "its labels or numbers are cut short or damaged"


def frequencies(counts: Ints, precision: int) -> Ints:
    """Return integers proportional to `counts` up to rounding, at least 1 where counts are, that sum to 2^precision."""
    total, size = int(counts.sum()), 1 << precision
    if total == 0:
        counts, total = np.r_[1, np.zeros(len(counts) - 1, np.int64)], 1
    freq = np.maximum(counts * size // total, counts > 0).astype(np.int64)
    left = size - int(freq.sum())
    while left:  # rounding error goes to the largest, where it costs the fewest bits; none falls below 1
        most = np.argsort(-freq, kind="stable")[: max(1, abs(left))]
        freq[most] += np.sign(left) if left > 0 else -(freq[most] > 1).astype(np.int64)
        left = size - int(freq.sum())
    return freq


def label_model(labels: NDArray[Any], k: int) -> tuple[int, Ints]:
    """Return the precision and frequencies that minimise the bits of these labels and of the frequencies."""
    counts = np.bincount(labels, minlength=k).astype(np.int64)
    used = max(int((counts > 0).sum()), 2)
    models = [(precision, frequencies(counts, precision)) for precision in PRECISIONS if 1 << precision >= used]
    return min(models, key=lambda model: _coded_bits(counts, *model))


def encode_labels(labels: Sequence[NDArray[Any]], k: Sizes) -> tuple[Bytes, Bytes]:
    """Encode the labels of several stencils as one stream; return it and the coded models.

    A precision of 0 with zero frequencies marks labels that are coded as equally frequent.
    """
    models = [label_model(x, size) for x, size in zip(labels, k, strict=True)]
    equal = np.array([_equal_is_shorter(x, *model) for x, model in zip(labels, models, strict=True)], bool)
    precision = np.where(equal, 0, np.array([bits for bits, _ in models], np.int64))
    freq = _joined([np.zeros_like(f) if e else f for e, (_, f) in zip(equal, models, strict=True)], np.int64)
    stream = _encode(_joined(labels, np.uint16), [len(x) for x in labels], k, *_filled_in(freq, precision, k))
    return stream, encode_ints(_joined([precision, freq], np.int64))


def decode_labels(stream: Bytes, models: Bytes, lengths: Sizes, k: Sizes) -> list[NDArray[Any]]:
    """Decode what `encode_labels` returned; each label is below its k."""
    numbers = decode_ints(models, len(k) + sum(k))
    freq, precision = _filled_in(numbers[len(k) :], numbers[: len(k)], k)
    type_ = label_type(max(k, default=1))
    out = _decode(stream, lengths, k, freq, precision, type_)
    return np.split(out, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _equal_is_shorter(labels: NDArray[Any], precision: int, freq: Ints) -> bool:
    """Tell whether equal frequencies give fewer bits than these, which have to be stored."""
    counts = np.bincount(labels, minlength=len(freq))
    return len(labels) * float(np.log2(len(freq))) < _coded_bits(counts, precision, freq)


def _coded_bits(counts: Ints, precision: int, freq: Ints) -> float:
    """Estimate the bits of labels and of their frequencies."""
    used = counts > 0
    model_bits = float(np.log2(freq + 1.0).sum()) + 2.0 * len(freq)
    return float(counts[used] @ (precision - np.log2(freq[used]))) + model_bits


def _filled_in(freq: Ints, precision: Ints, k: Sizes) -> tuple[Ints, Ints]:
    """Return frequencies and precisions with those of equally frequent labels filled in."""
    freq, precision = freq.copy(), precision.copy()
    ends = _ends(k)
    for p in np.flatnonzero(precision == 0).tolist():
        if k[p] <= MOST_LABELS:
            precision[p] = PRECISIONS[-1]
            freq[ends[p] - k[p] : ends[p]] += frequencies(np.ones(k[p], np.int64), PRECISIONS[-1])
    return freq, precision


def encode_ints(numbers: NDArray[Any]) -> Bytes:
    """Encode integers; small ones take few bits.

    Layout: HEAD, the frequencies of lengths, the coded lengths, and the bits below the leading one of each number.
    """
    x = np.asarray(numbers, np.int64).ravel()
    # 0, -1, 1, -2, ... become 0, 1, 2, 3, ...: small magnitudes of either sign have few bits.
    zigzag = ((x << 1) ^ (x >> 63)).view(np.uint64)
    length = bit_lengths(zigzag)
    precision, freq = label_model(length, int(length.max(initial=0)) + 1)
    stream = _encode(length.astype(np.uint16), [len(x)], [len(freq)], freq, np.array([precision]))
    head = HEAD.pack(precision, len(freq), len(stream)) + freq.astype(WORD).tobytes()
    parts = [np.frombuffer(head, np.uint8), stream, pack_bits(zigzag, np.maximum(length - 1, 0))]
    parts.append(np.zeros(NUMBERS.missing(len(x), sum(map(len, parts))), np.uint8))
    return np.concatenate(parts)


def decode_ints(data: Bytes, size: int) -> Ints:
    """Decode `size` integers from what `encode_ints` returned."""
    if data.dtype != np.uint8 or data.ndim != 1 or len(data) < HEAD.size:
        raise ValueError(CUT)
    NUMBERS.check(size, len(data))
    precision, n_lengths, n_bytes = HEAD.unpack(data[: HEAD.size].tobytes())
    begin = HEAD.size + 2 * n_lengths
    if not 1 <= n_lengths <= LONGEST + 1 or len(data) < begin + n_bytes:
        raise ValueError(CUT)
    freq = _words(data[HEAD.size : begin]).astype(np.int64)
    stream, rest = data[begin : begin + n_bytes], data[begin + n_bytes :]
    length = _decode(stream, [size], [n_lengths], freq, np.array([precision]), np.uint8).astype(np.int64)
    below = np.maximum(length - 1, 0)
    end = -(-int(below.sum()) // 8)
    if len(rest) > end and (size <= NUMBERS.free or rest[end:].any()):
        raise ValueError(CUT)
    zigzag = unpack_bits(rest[:end], below)
    zigzag[length > 0] |= np.uint64(1) << (length[length > 0] - 1).astype(np.uint64)
    return np.asarray((zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64))


def bit_lengths(numbers: NDArray[np.uint64]) -> Ints:
    """Return the number of bits of each integer without leading zeros."""
    out, left = np.zeros(numbers.shape, np.int64), numbers.copy()
    for step in (32, 16, 8, 4, 2, 1):
        long = left >= np.uint64(1) << np.uint64(step)
        out += step * long
        left = np.where(long, left >> np.uint64(step), left)
    return out + (left > 0)


def pack_bits(numbers: NDArray[Any], widths: Ints) -> Bytes:
    """Pack the lowest widths[p] bits of each number without gaps."""
    from accams.kernels.coding import write_bits

    out = np.zeros(-(-int(widths.sum()) // 8), np.uint8)
    write_bits(np.asarray(numbers, np.uint64), widths, out)
    return out


def unpack_bits(data: Bytes, widths: Ints) -> NDArray[np.uint64]:
    """Unpack what `pack_bits` returned."""
    from accams.kernels.coding import read_bits

    if len(data) != -(-int(widths.sum()) // 8):
        raise ValueError(CUT)
    out = np.zeros(len(widths), np.uint64)
    read_bits(data, widths, out)
    return out


def _encode(symbols: NDArray[np.uint16], lengths: Sizes, k: Sizes, freq: Ints, precision: Ints) -> Bytes:
    from accams.kernels.coding import ans_encode

    words = np.zeros(len(symbols) + 2, np.uint16)  # at most one a symbol, and the final state
    used = ans_encode(symbols, _ends(lengths), np.r_[0, _ends(k)], freq, precision, words)
    return words[len(words) - used :].astype(WORD, copy=False).view(np.uint8)


def _decode(stream: Bytes, lengths: Sizes, k: Sizes, freq: Ints, precision: Ints, dtype: type[Any]) -> NDArray[Any]:
    from accams.kernels.coding import ans_decode

    first = np.r_[0, _ends(k)]
    sums = np.add.reduceat(freq, first[:-1]) if len(k) else np.zeros(0, np.int64)
    # The decoder indexes its tables by these numbers without further checks. Each frequency is checked for itself, as a
    # sum can overflow to the right value.
    valid = np.isin(precision, PRECISIONS) & (sums == 1 << np.clip(precision, 0, PRECISIONS[-1]))
    outside = ((freq < 0) | (freq > MOST_LABELS)).any() or max(k, default=1) > MOST_LABELS
    if len(freq) != first[-1] or outside or not valid.all() or len(stream) % 2 or stream.ndim != 1:
        raise ValueError("its label frequencies are invalid")
    out = np.empty(sum(lengths), dtype)
    if not ans_decode(_words(stream), _ends(lengths), first, freq, precision, out):
        raise ValueError(CUT)
    return out


def _ends(lengths: Sizes) -> Ints:
    return np.cumsum(np.asarray(lengths, np.int64), dtype=np.int64)


def _words(data: Bytes) -> NDArray[np.uint16]:
    return np.ascontiguousarray(data).view(WORD).astype(np.uint16, copy=False)


def _joined(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def on_grids(floats: NDArray[np.float32], sizes: Sizes) -> dict[str, Bytes] | None:
    """Encode groups of numbers as integers and one exponent per group; return None if a group does not fit."""
    if not len(floats) or not np.isfinite(floats).all():
        return None
    fraction, exponent = np.frexp(floats.astype(np.float64))
    digits = np.ldexp(fraction, DIGITS).astype(np.int64)
    nonzero = digits != 0
    # The exponent of each number's lowest set bit: the least of a group is its step. Zeros lie on any grid.
    lowest = np.where(nonzero, exponent - DIGITS + _trailing_zeros(digits), LARGEST)
    shared = np.minimum.reduceat(lowest, np.r_[0, np.cumsum(sizes)[:-1]])
    shared = np.where(shared == LARGEST, 0, shared)
    places = np.where(nonzero, exponent - np.repeat(shared, sizes), 0)
    if int(places.max()) > WIDEST:
        return None
    mantissas = np.ldexp(fraction, places).astype(np.int64)
    return {"mantissas": encode_ints(mantissas), "exponents": encode_ints(np.diff(shared, prepend=0))}


def from_grids(mantissas: Bytes, exponents: Bytes, sizes: Sizes) -> NDArray[np.float32]:
    """Decode what `on_grids` returned."""
    integers = decode_ints(mantissas, sum(sizes))
    shared = np.cumsum(decode_ints(exponents, len(sizes)), dtype=np.int64)
    if ((shared < -LARGEST) | (shared > LARGEST)).any():
        raise ValueError(RANGE)
    with np.errstate(over="ignore"):
        floats = np.ldexp(integers.astype(np.float64), np.repeat(shared, sizes)).astype(np.float32)
    if not np.isfinite(floats).all():
        raise ValueError(RANGE)
    return np.asarray(floats)


def _trailing_zeros(integers: Ints) -> Ints:
    lowest = (integers & -integers).astype(np.float64)
    return np.where(integers == 0, 0, np.frexp(lowest)[1] - 1).astype(np.int64)
