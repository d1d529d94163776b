"""Draws as tensors: what is packed comes back, and what is damaged is refused or at least harmless."""

from __future__ import annotations

import numpy as np
import pytest
from posteriors import cells, random_draw, random_posterior

from accams.model.draws import pack, unpack

SHAPE = (9, 7)
KINDS = [{}, {"effects": True}, {"shares": True}, {"noise": True}, {"effects": True, "shares": True, "noise": True}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_draws", [1, 3])
def test_round_trip(n_draws, kind):
    draws = random_posterior(n_draws, **kind).draws
    again = unpack(pack(draws), SHAPE)
    assert [(d.chain, d.sweep) for d in again] == [(d.chain, d.sweep) for d in draws]
    i, j = cells(SHAPE)
    for one, two in zip(draws, again, strict=True):
        np.testing.assert_array_equal(one.predict(i, j), two.predict(i, j))
        assert one.nbytes == two.nbytes
        for name in ("row_shares", "row_noise"):
            a, b = getattr(one, name), getattr(two, name)
            assert (a is None) == (b is None)
            assert a is None or (a.dtype == b.dtype and np.array_equal(a, b))


def test_draws_of_different_sizes():
    """As a sampler makes them that has no bound on its clusters; one without any stencil too."""
    draws = [random_draw(seed, shapes=shapes) for seed, shapes in enumerate([((2, 3),), ((5, 1), (1, 1)), ()])]
    i, j = cells(SHAPE)
    for one, two in zip(draws, unpack(pack(draws), SHAPE), strict=True):
        np.testing.assert_array_equal(one.predict(i, j), two.predict(i, j))


def test_no_draws():
    assert unpack(pack([]), SHAPE) == []


def test_names_begin_with_a_prefix():
    tensors = {**pack([random_draw(1)], "one"), **pack([random_draw(2)], "two")}
    assert all(name.startswith(("one.", "two.")) for name in tensors)
    for prefix, seed in (("one", 1), ("two", 2)):
        expected = random_draw(seed).predict(*cells(SHAPE))
        np.testing.assert_array_equal(unpack(tensors, SHAPE, prefix)[0].predict(*cells(SHAPE)), expected)


def test_bytes_of_the_tensors():
    """One per label and four per number."""
    draws = random_posterior(3).draws
    tensors = pack(draws)
    assert tensors["draws.rows"].nbytes == 3 * 3 * 10
    assert tensors["draws.cols"].nbytes == 3 * 3 * 8
    assert tensors["draws.templates"].nbytes == sum(d.codes.flat.nbytes for d in draws)


NAMES = list(pack(random_posterior(2, effects=True, shares=True, noise=True).draws))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_cut_short(name):
    tensors = pack(random_posterior(2, effects=True, shares=True, noise=True).draws)
    tensors[name] = tensors[name][:-1]
    with pytest.raises((LookupError, TypeError, ValueError)):
        unpack(tensors, SHAPE)


@pytest.mark.parametrize("name", ["about", "offsets", "shapes", "rows", "cols", "templates"])
def test_missing_tensors(name):
    tensors = pack(random_posterior(2).draws)
    del tensors[f"draws.{name}"]
    with pytest.raises(LookupError):
        unpack(tensors, SHAPE)


@pytest.mark.parametrize("side", ["rows", "cols"])
def test_a_label_beyond_its_template(side):
    tensors = pack(random_posterior(2).draws)
    tensors[f"draws.{side}"][4] = 200
    with pytest.raises(ValueError, match="larger than its template"):
        unpack(tensors, SHAPE)


def test_flipped_bits():
    """Refused, or a draw that predicts something everywhere: never a place outside its tables."""
    draws = random_posterior(2, shares=True).draws
    whole, random, refused = pack(draws), np.random.default_rng(0), 0
    i, j = cells(SHAPE)
    for name, tensor in whole.items():
        for position in random.choice(tensor.nbytes, min(40, tensor.nbytes), replace=False):
            damaged = {other: x.copy() for other, x in whole.items()}
            damaged[name].reshape(-1).view(np.uint8)[position] ^= 1 << random.integers(8)
            try:
                with np.errstate(all="ignore"):
                    assert all(draw.predict(i, j).shape == i.shape for draw in unpack(damaged, SHAPE))
            except (LookupError, TypeError, ValueError):
                refused += 1
    assert refused > 50
