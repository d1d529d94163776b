"""Labels and whole numbers as few bytes: entropy-coded, or packed bit by bit.

Every stencil's labels have a model of their own, fixed frequencies that are stored with them. Whole numbers of any size
are split into their length in bits, which is entropy-coded, and the bits below the leading one, which are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import label_type

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
PRECISIONS = (8, 10, 12, 14)  # bits of the frequencies; each array of labels takes what is smallest in all
MOST_LABELS = 1 << PRECISIONS[-1]  # of one array that can be entropy-coded
MOST_NUMBERS = 1 << 22  # that a few bytes may stand for;
MOST_PER_BYTE = 64  # many may stand for so many each
LONGEST = 64  # bits of a number
WORD = np.dtype("<u2")
HEAD = Struct("<BBI")  # of coded numbers: precision, how many lengths have a frequency, bytes of the coded lengths
CUT = "its labels or numbers are cut short"


def frequencies(counts: Ints, precision: int) -> Ints:
    """Whole numbers as proportional to `counts` as can be, at least 1 where there is any, adding up to 2^precision."""
    total, size = int(counts.sum()), 1 << precision
    if total == 0:
        counts, total = np.r_[1, np.zeros(len(counts) - 1, np.int64)], 1
    found = np.maximum(counts * size // total, counts > 0).astype(np.int64)
    left = size - int(found.sum())
    while left:  # the largest share what is left or owed, none of them falling below 1
        most = np.argsort(-found, kind="stable")[: max(1, abs(left))]
        change = np.sign(left) if left > 0 else -(found[most] > 1).astype(np.int64)
        found[most] += change
        left = size - int(found.sum())
    return found


def label_model(labels: NDArray[Any], k: int) -> tuple[int, Ints]:
    """Precision and frequencies with which these labels and the frequencies themselves take least room."""
    counts = np.bincount(labels, minlength=k).astype(np.int64)
    best: tuple[float, int, Ints] | None = None
    for precision in PRECISIONS:
        if 1 << precision < max(int((counts > 0).sum()), 2):
            continue
        freq = frequencies(counts, precision)
        bits = _coded_bits(counts, precision, freq)
        if best is None or bits < best[0]:
            best = bits, precision, freq
    assert best is not None
    return best[1], best[2]


def encode_labels(labels: Sequence[NDArray[Any]], k: Sequence[int]) -> tuple[Bytes, Bytes]:
    """The labels of several stencils as one stream, and the models that they are coded with.

    A precision of 0 and no frequencies stand for labels that are all taken to be equally frequent.
    """
    models = [label_model(each, size) for each, size in zip(labels, k, strict=True)]
    equal = np.array([_equal_is_shorter(each, *model) for each, model in zip(labels, models, strict=True)], bool)
    precision = np.where(equal, 0, np.array([bits for bits, _ in models], np.int64))
    freq = _joined([np.zeros_like(f) if e else f for e, (_, f) in zip(equal, models, strict=True)], np.int64)
    stream = _encode(_joined(labels, np.uint16), [len(each) for each in labels], k, *_spelt_out(freq, precision, k))
    return stream, encode_ints(_joined([precision, freq], np.int64))


def decode_labels(stream: Bytes, models: Bytes, lengths: Sequence[int], k: Sequence[int]) -> list[NDArray[Any]]:
    """Undo `encode_labels`; each label lies below its k."""
    numbers = decode_ints(models, len(k) + sum(k))
    freq, precision = _spelt_out(numbers[len(k) :], numbers[: len(k)], k)
    type_ = label_type(max(k, default=1))
    out = _decode(stream, lengths, k, freq, precision, type_)
    return np.split(out, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _equal_is_shorter(labels: NDArray[Any], precision: int, freq: Ints) -> bool:
    """Whether equal frequencies take fewer bits than these, which have to be stored."""
    counts = np.bincount(labels, minlength=len(freq))
    return len(labels) * float(np.log2(len(freq))) < _coded_bits(counts, precision, freq)


def _coded_bits(counts: Ints, precision: int, freq: Ints) -> float:
    """Of labels and frequencies, about."""
    some = counts > 0
    own = float(np.log2(freq + 1.0).sum()) + 2.0 * len(freq)
    return float(counts[some] @ (precision - np.log2(freq[some]))) + own


def _spelt_out(freq: Ints, precision: Ints, k: Sequence[int]) -> tuple[Ints, Ints]:
    """Frequencies and precisions, also of labels that are taken to be equally frequent."""
    freq, precision = freq.copy(), precision.copy()
    ends = _ends(k)
    for p in np.flatnonzero(precision == 0).tolist():
        if k[p] <= MOST_LABELS:
            precision[p] = PRECISIONS[-1]
            freq[ends[p] - k[p] : ends[p]] += frequencies(np.ones(k[p], np.int64), PRECISIONS[-1])
    return freq, precision


def encode_ints(numbers: NDArray[Any]) -> Bytes:
    """Any whole numbers; small ones take few bits."""
    x = np.asarray(numbers, np.int64).ravel()
    zigzag = ((x << 1) ^ (x >> 63)).view(np.uint64)
    length = bit_lengths(zigzag)
    precision, freq = label_model(length, int(length.max(initial=0)) + 1)
    stream = _encode(length.astype(np.uint16), [len(x)], [len(freq)], freq, np.array([precision]))
    head = HEAD.pack(precision, len(freq), len(stream)) + freq.astype(WORD).tobytes()
    parts = [np.frombuffer(head, np.uint8), stream, pack_bits(zigzag, np.maximum(length - 1, 0))]
    size = sum(map(len, parts))
    if len(x) > max(MOST_NUMBERS, MOST_PER_BYTE * size):
        parts.append(np.zeros(-(-len(x) // MOST_PER_BYTE) - size, np.uint8))  # so that it may be read again
    return np.concatenate(parts)


def decode_ints(data: Bytes, size: int) -> Ints:
    """Undo `encode_ints` for `size` numbers."""
    if data.dtype != np.uint8 or data.ndim != 1 or len(data) < HEAD.size:
        raise ValueError(CUT)
    if size > max(MOST_NUMBERS, MOST_PER_BYTE * len(data)):
        raise ValueError(f"{size:,} numbers cannot come from {len(data):,} bytes")
    precision, classes, bytes_ = HEAD.unpack(data[: HEAD.size].tobytes())
    begin = HEAD.size + 2 * classes
    if not 1 <= classes <= LONGEST + 1 or len(data) < begin + bytes_:
        raise ValueError(CUT)
    freq = _words(data[HEAD.size : begin]).astype(np.int64)
    stream, rest = data[begin : begin + bytes_], data[begin + bytes_ :]
    length = _decode(stream, [size], [classes], freq, np.array([precision]), np.uint8).astype(np.int64)
    below = np.maximum(length - 1, 0)
    end = -(-int(below.sum()) // 8)
    if len(rest) > end and (size <= MOST_NUMBERS or rest[end:].any()):
        raise ValueError(CUT)
    zigzag = unpack_bits(rest[:end], below)
    zigzag[length > 0] |= np.uint64(1) << (length[length > 0] - 1).astype(np.uint64)
    return np.asarray((zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64))


def bit_lengths(numbers: NDArray[np.uint64]) -> Ints:
    """Bits of each number without leading zeros.

    Examples
    --------
    >>> bit_lengths(np.array([0, 1, 2, 255, 2**63], np.uint64))
    array([ 0,  1,  2,  8, 64])
    """
    out, left = np.zeros(numbers.shape, np.int64), numbers.copy()
    for step in (32, 16, 8, 4, 2, 1):
        long = left >= np.uint64(1) << np.uint64(step)
        out += step * long
        left = np.where(long, left >> np.uint64(step), left)
    return out + (left > 0)


def pack_bits(numbers: NDArray[Any], widths: Ints) -> Bytes:
    """The lowest widths[p] bits of each number, one after another."""
    from accams.kernels.coding import write_bits

    out = np.zeros(-(-int(widths.sum()) // 8), np.uint8)
    write_bits(np.asarray(numbers, np.uint64), widths, out)
    return out


def unpack_bits(data: Bytes, widths: Ints) -> NDArray[np.uint64]:
    """Undo `pack_bits`."""
    from accams.kernels.coding import read_bits

    if len(data) != -(-int(widths.sum()) // 8):
        raise ValueError(CUT)
    out = np.zeros(len(widths), np.uint64)
    read_bits(data, widths, out)
    return out


def _encode(
    symbols: NDArray[np.uint16], lengths: Sequence[int], k: Sequence[int], freq: Ints, precision: Ints
) -> Bytes:
    from accams.kernels.coding import ans_encode

    words = np.zeros(len(symbols) + 2, np.uint16)
    used = ans_encode(symbols, _ends(lengths), np.r_[0, _ends(k)], freq, precision, words)
    return words[len(words) - used :].astype(WORD, copy=False).view(np.uint8)


def _decode(
    stream: Bytes, lengths: Sequence[int], k: Sequence[int], freq: Ints, precision: Ints, dtype: type[Any]
) -> NDArray[Any]:
    from accams.kernels.coding import ans_decode

    first = np.r_[0, _ends(k)]
    sums = np.add.reduceat(freq, first[:-1]) if len(k) else np.zeros(0, np.int64)
    right = np.isin(precision, PRECISIONS) & (sums == 1 << np.clip(precision, 0, PRECISIONS[-1]))
    outside = ((freq < 0) | (freq > MOST_LABELS)).any() or max(k, default=1) > MOST_LABELS  # sums could overflow
    if len(freq) != first[-1] or outside or not right.all() or len(stream) % 2 or stream.ndim != 1:
        raise ValueError("the frequencies of its labels are wrong")
    out = np.empty(sum(lengths), dtype)
    if not ans_decode(_words(stream), _ends(lengths), first, freq, precision, out):
        raise ValueError(CUT)
    return out


def _ends(lengths: Sequence[int]) -> Ints:
    return np.cumsum(np.asarray(lengths, np.int64), dtype=np.int64)


def _words(data: Bytes) -> NDArray[np.uint16]:
    return np.ascontiguousarray(data).view(WORD).astype(np.uint16, copy=False)


def _joined(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)
