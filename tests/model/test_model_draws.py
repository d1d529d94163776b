"""Draws as tensors: what is packed comes back, and what is damaged is refused or at least harmless."""

from __future__ import annotations

import numpy as np
import pytest
from posteriors import cells, random_draw, random_posterior

from accams.model.draws import pack_draws as pack
from accams.model.draws import unpack_draws as unpack

SHAPE = (9, 7)
NONE = np.zeros(0, np.int64), np.zeros(0, np.int64)
KINDS = [{}, {"effects": True}, {"shares": True}, {"noise": True}, {"effects": True, "shares": True, "noise": True}]
CODINGS = ["auto", "entropy", "packed"]
EVERYTHING = random_posterior(2, effects=True, shares=True, noise=True).draws


def again(draws, coding="auto", unseen=NONE):
    return unpack(*pack(draws, coding), SHAPE, unseen)


def assert_same(one, two):
    """Bit for bit, probabilities and noise included."""
    assert (one.chain, one.sweep, one.nbytes) == (two.chain, two.sweep, two.nbytes)
    np.testing.assert_array_equal(one.predict(*cells(SHAPE)), two.predict(*cells(SHAPE)))
    for name in ("row_shares", "row_noise"):
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None)
        assert a is None or (a.dtype == b.dtype and np.array_equal(a, b))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_draws", [1, 3])
@pytest.mark.parametrize("coding", CODINGS)
def test_round_trip(coding, n_draws, kind):
    draws = random_posterior(n_draws, **kind).draws
    for one, two in zip(draws, again(draws, coding), strict=True):
        assert_same(one, two)


@pytest.mark.parametrize("coding", CODINGS)
def test_rows_and_columns_never_seen(coding):
    """They have no label of their own, so what stands for one does not matter."""
    unseen = np.array([0, 4]), np.array([6])
    draws = [random_draw(seed, unseen=unseen, effects=True) for seed in range(3)]
    for one, two in zip(draws, again(draws, coding, unseen), strict=True):
        assert_same(one, two)


def test_draws_of_different_sizes():
    """As a sampler makes them that has no bound on its clusters; one without any stencil too."""
    draws = [random_draw(seed, shapes=shapes) for seed, shapes in enumerate([((2, 3),), ((5, 1), (1, 1)), ()])]
    for one, two in zip(draws, again(draws), strict=True):
        assert_same(one, two)


def test_one_offset_is_stored_once():
    same, others = ([random_draw(seed, offset=offset) for seed, offset in enumerate(x)] for x in ((2, 2), (2, 0.1)))
    assert pack(same)[0]["offsets"] == [2.0]
    assert pack(others)[0]["offsets"] == [2.0, 0.1]
    for one, two in zip([*same, *others], [*again(same), *again(others)], strict=True):
        assert_same(one, two)


def test_no_draws():
    assert again([]) == []


def test_packing_again_gives_the_same():
    """Of what was unpacked."""
    header, tensors = pack(EVERYTHING)
    other_header, other_tensors = pack(again(EVERYTHING))
    assert header == other_header
    assert {name: x.tobytes() for name, x in tensors.items()} == {n: x.tobytes() for n, x in other_tensors.items()}


def test_names_begin_with_a_prefix():
    """Other tensors beside them do not matter."""
    header, tensors = pack(EVERYTHING)
    assert all(name.startswith("draws.") for name in tensors)
    for one, two in zip(EVERYTHING, unpack(header, {**tensors, "labels": None, "x": None}, SHAPE, NONE), strict=True):
        assert_same(one, two)


def test_bytes_of_the_tensors():
    """Packed labels take log2(k) bits, rounded up; numbers four bytes."""
    tensors = pack(random_posterior(3).draws, "packed")[1]
    rows, cols = (sum(-(-size * bits // 8) for bits in widths) for size, widths in ((9, (2, 0, 1)), (7, (1, 2, 3))))
    assert tensors["draws.labels"].nbytes == 3 * (rows + cols)
    assert tensors["draws.templates"].nbytes == 3 * 4 * (6 + 4 + 10)


@pytest.mark.parametrize("to", ["int8", 0.05])
def test_rounded_templates(to):
    draws = random_posterior(3, shares=True).draws
    rounded = unpack(*pack(draws, "auto", to), SHAPE, NONE)
    for one, two in zip(draws, rounded, strict=True):
        np.testing.assert_array_equal(one.row_shares, two.row_shares)
        most = np.abs(one.codes.flat).max() / 254 if to == "int8" else to
        assert 0 < np.abs(one.codes.flat - two.codes.flat).max() <= most + 1e-6


# -- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "name"), [(coding, name) for coding in ("entropy", "packed") for name in pack(EVERYTHING, coding)[1]]
)
def test_tensors_cut_short(name, coding):
    header, tensors = pack(EVERYTHING, coding)
    tensors[name] = tensors[name][:-1]
    with pytest.raises((LookupError, TypeError, ValueError)):
        unpack(header, tensors, SHAPE, NONE)


@pytest.mark.parametrize("name", ["labels", "models", "sizes", "templates"])
def test_missing_tensors(name):
    header, tensors = pack(EVERYTHING, "entropy")
    del tensors[f"draws.{name}"]
    with pytest.raises((LookupError, ValueError)):
        unpack(header, tensors, SHAPE, NONE)


@pytest.mark.parametrize("name", ["stencils", "draws", "offsets"])
def test_missing_entries_of_the_header(name):
    header, tensors = pack(EVERYTHING)
    del header[name]
    with pytest.raises(LookupError):
        unpack(header, tensors, SHAPE, NONE)


@pytest.mark.parametrize(
    "change",
    [
        {"stencils": 5}, {"stencils": 7}, {"stencils": -6}, {"stencils": "many"}, {"stencils": None},
        {"draws": [[0, 0, 3]]}, {"draws": [[0, 0, 3]] * 3}, {"draws": [[0, 0, -3]] * 2},
        {"draws": [[0, 0, 3], [0, 0, 2]]}, {"draws": [[0, 0, 3], [0, 0, 4]]}, {"draws": [[0, 0, 3.0]] * 2},
        {"draws": [[0, 0]] * 2}, {"draws": 2}, {"draws": [None] * 2},
        {"offsets": []}, {"offsets": [1.0] * 3}, {"offsets": ["high"]}, {"offsets": [float("nan")]}, {"offsets": 1.0},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("coding", ["entropy", "packed"])
def test_headers_that_do_not_fit(change, coding):
    header, tensors = pack(EVERYTHING, coding)
    with pytest.raises((LookupError, TypeError, ValueError)):
        unpack({**header, **change}, tensors, SHAPE, NONE)


@pytest.mark.parametrize("shape", [(8, 7), (10, 7), (9, 8), (7, 9), (0, 0), (-9, 7), (10**12, 7)])
@pytest.mark.parametrize("coding", ["entropy", "packed"])
def test_another_shape(shape, coding):
    with pytest.raises(ValueError, match=r"cut short|sizes are wrong|cannot come from"):
        unpack(*pack(EVERYTHING, coding), shape, NONE)


def test_a_label_beyond_its_template():
    header, tensors = pack(EVERYTHING, "packed")
    tensors["draws.labels"][:] = 0xFF
    with pytest.raises(ValueError, match="must lie between 0 and 2"):
        unpack(header, tensors, SHAPE, NONE)


@pytest.mark.parametrize("coding", ["entropy", "packed"])
def test_flipped_bits(coding):
    """Refused, or draws that predict something everywhere: never a place outside their tables."""
    header, whole = pack(random_posterior(2, shares=True).draws, coding)
    random, refused = np.random.default_rng(0), 0
    i, j = cells(SHAPE)
    for name, tensor in whole.items():
        for position in random.choice(tensor.nbytes, min(60, tensor.nbytes), replace=False):
            damaged = {other: x.copy() for other, x in whole.items()}
            damaged[name].reshape(-1).view(np.uint8)[position] ^= 1 << random.integers(8)
            try:
                with np.errstate(all="ignore"):
                    assert all(draw.predict(i, j).shape == i.shape for draw in unpack(header, damaged, SHAPE, NONE))
            except (LookupError, TypeError, ValueError):
                refused += 1
    assert refused > 10
