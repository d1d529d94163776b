"""Entropy coding of labels and integers: exact round trips, and sizes close to the entropy."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from coding_twin import ans_symbols, ans_words, packed
from hypothesis import given, settings
from hypothesis import strategies as st

from accams.kernels.coding import ans_decode, ans_encode
from accams.model import coding
from accams.model.coding import decode_ints, decode_labels, encode_ints, encode_labels, frequencies

INT64 = np.iinfo(np.int64)
quick = settings(deadline=None, max_examples=40)


def random_labels(seed: int, k: int, size: int, skew: float = 0.0) -> np.ndarray:
    """Return labels below k; the larger the skew, the rarer the higher ones."""
    weights = np.arange(1, k + 1) ** -skew
    return np.random.default_rng(seed).choice(k, size, p=weights / weights.sum())


def entropy_bytes(labels: np.ndarray) -> float:
    counts = np.unique(labels, return_counts=True)[1]
    return float(counts @ np.log2(len(labels) / counts)) / 8


segments = st.lists(
    st.tuples(st.integers(0, 99), st.integers(1, 40), st.integers(0, 60), st.sampled_from([0.0, 1.0, 4.0])), max_size=5
)


# -- labels -------------------------------------------------------------------------------------------------------


@quick
@given(segments)
def test_labels_come_back(drawn):
    labels, k = [random_labels(*each) for each in drawn], [each[1] for each in drawn]
    again = decode_labels(*encode_labels(labels, k), [len(each) for each in labels], k)
    assert len(again) == len(labels)
    for one, other in zip(again, labels, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("k", [1, 2, 3, 255, 256, 257, 300, 1024, 2000])
@pytest.mark.parametrize("size", [0, 1, 7, 5000])
@pytest.mark.parametrize("skew", [0.0, 1.5, 30.0])
def test_labels_of_any_number_of_clusters(k, size, skew):
    labels = random_labels(k, k, size, skew)
    (again,) = decode_labels(*encode_labels([labels], [k]), [size], [k])
    np.testing.assert_array_equal(again, labels)
    assert again.dtype == (np.uint8 if k <= 256 else np.uint16)


def test_as_many_clusters_as_can_be_coded():
    k = coding.MOST_LABELS
    labels = np.random.default_rng(0).permutation(k)
    np.testing.assert_array_equal(decode_labels(*encode_labels([labels], [k]), [k], [k])[0], labels)


def test_the_largest_label_alone():
    labels = np.full(100, 1999)
    np.testing.assert_array_equal(decode_labels(*encode_labels([labels], [2000]), [100], [2000])[0], labels)


@pytest.mark.parametrize(("k", "skew"), [(2, 0.0), (2, 5.0), (10, 0.0), (10, 1.0), (64, 2.0), (300, 0.5), (1, 0.0)])
def test_room_taken_is_that_of_the_entropy(k, skew):
    labels = random_labels(1, k, 200_000, skew)
    taken = sum(len(each) for each in encode_labels([labels], [k]))
    assert entropy_bytes(labels) - 1 <= taken <= 1.01 * entropy_bytes(labels) + 64


def test_each_segment_has_a_model_of_its_own():
    labels = [np.zeros(50_000, np.int64), random_labels(0, 2, 50_000), np.full(50_000, 7)]
    stream, models = encode_labels(labels, [8, 2, 8])
    assert len(stream) + len(models) < 1.01 * 50_000 / 8 + 64


# -- frequencies --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 10) | st.integers(0, 10**9), min_size=1, max_size=200), st.sampled_from([8, 10, 12, 14]))
def test_frequencies_fill_their_total_and_leave_none_out(counts, precision):
    counts = np.array(counts, np.int64)
    found = frequencies(counts, precision)
    assert found.sum() == 1 << precision
    assert (found >= 0).all()
    assert (found[counts > 0] > 0).all()


@pytest.mark.parametrize("counts", [np.ones(256), np.r_[10**12, np.ones(255)], np.r_[np.zeros(255), 1], np.zeros(9)])
def test_frequencies_where_there_is_no_room_to_spare(counts):
    found = frequencies(counts.astype(np.int64), 8)
    assert found.sum() == 256
    assert (found[counts > 0] > 0).all()


def test_frequencies_are_proportional():
    assert frequencies(np.array([3, 1, 0]), 8).tolist() == [192, 64, 0]


# -- kernels against their twins ----------------------------------------------------------------------------------


@quick
@given(segments)
def test_words_are_those_of_the_twin(drawn):
    labels, k = [random_labels(*each) for each in drawn], [each[1] for each in drawn]
    stream, stored = encode_labels(labels, k)
    numbers = coding.decode_ints(stored, len(k) + sum(k))
    twin, ends = [], len(k) + np.cumsum(k)
    for x, size, bits, end in zip(labels, k, numbers[: len(k)], ends, strict=True):
        freq = numbers[end - size : end]
        expected = coding.label_model(x, size)
        if bits == 0:  # coded as equally frequent
            assert not freq.any()
            bits, freq = 14, coding.frequencies(np.ones(size, np.int64), 14)
        else:
            assert (bits, freq.tolist()) == (expected[0], expected[1].tolist())
        twin.append((x.tolist(), freq.tolist(), int(bits)))
    words = stream.view("<u2").tolist()
    assert words == ans_words(twin)
    read = [(len(symbols), freq, bits) for symbols, freq, bits in twin]
    assert ans_symbols(words, read) == [a for symbols, _, _ in twin for a in symbols]


@pytest.mark.parametrize("bits", [1, 5, 8, 14, 16])
def test_words_at_other_precisions(bits):
    """With frequencies as lopsided as can be, each label as often as every other."""
    freq = np.array([1, (1 << bits) - 1]) if bits < 16 else np.array([1, 1, (1 << bits) - 2])
    symbols = np.arange(300, dtype=np.uint16) % len(freq)
    words, ends, first = np.zeros(302, np.uint16), np.array([300]), np.array([0, len(freq)])
    used = ans_encode(symbols, ends, first, freq, np.array([bits]), words)
    assert words[len(words) - used :].tolist() == ans_words([(symbols.tolist(), freq.tolist(), bits)])
    out = np.zeros(300, np.uint16)
    assert ans_decode(words[len(words) - used :], ends, first, freq, np.array([bits]), out)
    np.testing.assert_array_equal(out, symbols)


@quick
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 64)), max_size=50))
def test_bits_are_those_of_one_large_number(drawn):
    values = np.array([value for value, _ in drawn], np.uint64)
    widths = np.array([width for _, width in drawn], np.int64)
    data = coding.pack_bits(values, widths)
    assert data.tobytes() == packed([value for value, _ in drawn], widths.tolist())
    expected = [value % (1 << width) for value, width in drawn]
    assert coding.unpack_bits(data, widths).tolist() == expected


@quick
@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_bit_lengths(numbers):
    assert coding.bit_lengths(np.array(numbers, np.uint64)).tolist() == [x.bit_length() for x in numbers]


# -- integers ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(INT64.min, INT64.max) | st.integers(-3, 3), max_size=80))
def test_integers_come_back(numbers):
    again = decode_ints(encode_ints(np.array(numbers, np.int64)), len(numbers))
    assert again.dtype == np.int64
    assert again.tolist() == numbers


@pytest.mark.parametrize(
    "numbers",
    [
        [INT64.min, INT64.max, 0, -1, 1],
        [INT64.min] * 3,
        [s * 2**p + d for p in range(63) for d in (-1, 0, 1) for s in (-1, 1)],
        [0] * 100_000,
        list(range(-1000, 1000)),
    ],
    ids=["extremes", "smallest", "powers of two", "zeros", "range"],
)
def test_integers_at_the_edge(numbers):
    assert decode_ints(encode_ints(np.array(numbers, np.int64)), len(numbers)).tolist() == numbers


def test_integers_of_any_shape_and_type():
    numbers = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    assert decode_ints(encode_ints(numbers), 12).tolist() == numbers.ravel().tolist()


def test_small_numbers_take_few_bits():
    random = np.random.default_rng(0)
    assert len(encode_ints(np.zeros(100_000, np.int64))) < 64
    assert len(encode_ints(random.integers(-8, 8, 100_000))) < 1.05 * 100_000 * 4 / 8 + 64
    assert len(encode_ints(random.integers(INT64.min, INT64.max, 10_000))) < 1.05 * 80_000 + 200


# -- damage -------------------------------------------------------------------------------------------------------

LABELS = [random_labels(0, 5, 300, 1.0), random_labels(1, 300, 200)]
LENGTHS, K = [300, 200], [5, 300]
STREAM, MODELS = encode_labels(LABELS, K)
NUMBERS = np.random.default_rng(2).integers(-5000, 5000, 200)
CODED = encode_ints(NUMBERS)


def harmless(stream=STREAM, models=MODELS, lengths=LENGTHS, k=K) -> bool:
    """Tell whether decoding is refused; if it is not, check that labels are within bounds."""
    try:
        for labels, length, size in zip(decode_labels(stream, models, lengths, k), lengths, k, strict=True):
            assert len(labels) == length
            assert not length or labels.max() < size
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("part", ["stream", "models"])
def test_labels_cut_short(part):
    whole = {"stream": STREAM, "models": MODELS}[part]
    assert all(harmless(**{part: whole[:size]}) for size in range(len(whole)))
    assert harmless(**{part: np.append(whole, np.zeros(2, np.uint8))})


@pytest.mark.parametrize("part", ["stream", "models"])
def test_labels_with_flipped_bits(part):
    whole, random = {"stream": STREAM, "models": MODELS}[part], np.random.default_rng(0)
    for position in range(len(whole)):
        damaged = whole.copy()
        damaged[position] ^= random.integers(1, 256)
        harmless(**{part: damaged})


@pytest.mark.parametrize("lengths", [[200, 200], [300, 201], [300, 10_000], [500, 0], [0, 0], [0, 500]])
def test_labels_of_other_lengths(lengths):
    assert harmless(lengths=lengths) or sum(lengths) == 500


@pytest.mark.parametrize("k", [[5, 299], [5, 301], [300, 5], [1, 1], [2, 20_000], [100_000, 100_000]])
def test_labels_of_other_numbers_of_clusters(k):
    assert harmless(k=k)


@pytest.mark.parametrize(
    "model",
    [
        [8, 8, 128, 127, 256], [8, 8, 128, 129, 256], [9, 8, 256, 256, 256], [0, 0, 1, 0, 1], [8, 8, -128, 384, 256],
        [8, 64, 128, 128, 256], [-1, 8, 128, 128, 256], [8, 8, 2**40, 256 - 2**40, 256],
    ],
)  # fmt: skip
def test_wrong_frequencies(model):
    stream, _ = encode_labels([np.array([0, 1]), np.array([0])], [2, 1])
    assert harmless(stream, encode_ints(np.array(model)), [2, 1], [2, 1])


def test_frequencies_whose_sum_overflows():
    """Their sum, 2^64 + 256, overflows to the right value."""
    freq = [INT64.max, INT64.max, 258]
    assert harmless(STREAM, encode_ints(np.array([8, *freq])), [3], [3])


def test_more_clusters_than_the_decoder_has_room_for():
    k = 1_000_000
    freq = np.r_[256, np.zeros(k - 1, np.int64)]
    assert harmless(np.array([0, 1, 0, 0], np.uint8), encode_ints(np.r_[8, freq]), [9], [k])


def test_streams_of_the_wrong_type():
    for wrong in (STREAM[:8].view(np.int64), STREAM[:8].reshape(4, 2), STREAM[:0], STREAM[:3]):
        assert harmless(stream=wrong)
    for wrong in (CODED[:64].view(np.int64), CODED[:64].reshape(8, 8), CODED[:0]):
        with pytest.raises(ValueError, match="cut short"):
            decode_ints(wrong, 200)


def test_integers_cut_short():
    for size in range(len(CODED)):
        with pytest.raises(ValueError, match=r"cut short|frequencies"):
            decode_ints(CODED[:size], 200)
    for size in (0, 199, 201, 100_000):
        with pytest.raises(ValueError, match="cut short"):
            decode_ints(CODED, size)


def test_integers_with_flipped_bits():
    for position in range(len(CODED)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = CODED.copy()
            damaged[position] ^= flip
            with suppress(ValueError):
                assert decode_ints(damaged, 200).shape == (200,)


def test_bits_cut_short():
    with pytest.raises(ValueError, match="cut short"):
        coding.unpack_bits(np.zeros(3, np.uint8), np.full(4, 8, np.int64))


def test_many_numbers_of_few_bits_can_be_read_again(monkeypatch):
    """Zeros take no bits, so streams are padded up to the limit of integers per byte."""
    monkeypatch.setattr(coding, "NUMBERS", coding.NUMBERS._replace(free=1000))
    for size in (1000, 1001, 50_000):
        stored = encode_ints(np.zeros(size, np.int64))
        np.testing.assert_array_equal(decode_ints(stored, size), 0)
        assert len(stored) >= size // coding.NUMBERS.per_byte or size <= 1000
    changed = encode_ints(np.zeros(50_000, np.int64))
    changed[-1] = 1
    with pytest.raises(ValueError, match="cut short"):
        decode_ints(changed, 50_000)


@pytest.mark.some(2)
@pytest.mark.parametrize("k", [2, 3, 5, 7, 10, 100, 300])
def test_labels_that_are_all_as_frequent_take_no_frequencies(k):
    """Short arrays take log2(k) bits per label without frequencies; skewed ones are coded with theirs."""
    random, s = np.random.default_rng(k), 400
    labels = [random.integers(0, k, 30) for _ in range(s)]
    stream, models = encode_labels(labels, [k] * s)
    assert len(stream) + len(models) <= s * 30 * np.log2(k) / 8 * 1.01 + 100
    for one, other in zip(decode_labels(stream, models, [30] * s, [k] * s), labels, strict=True):
        np.testing.assert_array_equal(one, other)
    skewed = [np.where(random.random(3000) < 0.9, 0, random.integers(0, k, 3000)) for _ in range(3)]
    stream, models = encode_labels(skewed, [k] * 3)
    assert len(stream) + len(models) < 0.9 * 3 * 3000 * np.log2(k) / 8
