"""Entropy and covering numbers against known covers, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accams.errors import InputError
from accams.theory import ball_entropy_number, covering_number, entropy_number, greedy_cover

spectra = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)
# Least radii of covers of the unit disc by so many discs: elementary for 1, 2, 3, 4 and 7.
DISCS = {1: 1.0, 2: 1.0, 3: np.sqrt(3) / 2, 4: np.sqrt(2) / 2, 7: 0.5}


@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_an_interval(n: int) -> None:
    assert entropy_number([3.0], n, "lower") == pytest.approx(3.0 / n)  # which is the best there is
    assert entropy_number([3.0], n) == pytest.approx(18.0 / n)


@pytest.mark.parametrize(("n", "radius"), DISCS.items())
def test_the_disc_lies_between(n: int, radius: float) -> None:
    assert ball_entropy_number(1.0, 2, n, "lower") <= radius <= ball_entropy_number(1.0, 2, n)


@given(spectra, st.integers(1, 10**9))
def test_the_formula(values: list[float], n: int) -> None:
    falling = sorted(values, reverse=True)
    expected = max((np.prod(falling[:j]) / n) ** (1 / j) for j in range(1, len(falling) + 1))
    assert entropy_number(values, n, "lower") == pytest.approx(expected, rel=1e-9)
    assert entropy_number(values, n) == pytest.approx(6 * expected, rel=1e-9)


@given(spectra, st.integers(1, 10**6))
def test_more_balls_are_never_worse_and_zeros_do_not_matter(values: list[float], n: int) -> None:
    assert entropy_number(values, n + 1) <= entropy_number(values, n)
    assert entropy_number([*values, 0.0, 0.0], n) == entropy_number(values, n)


@given(spectra, st.integers(1, 10**6), st.sampled_from(["upper", "lower"]))
def test_covering_numbers_are_the_inverse(values: list[float], n: int, side: str) -> None:
    radius = entropy_number(values, n, side)  # type: ignore[arg-type]
    assert covering_number(values, radius * (1 + 1e-9), side) <= n  # type: ignore[arg-type]
    needed = covering_number(values, 0.9 * radius, side)  # type: ignore[arg-type]
    assert entropy_number(values, int(needed), side) <= 0.9 * radius * (1 + 1e-9)  # type: ignore[arg-type]
    assert needed >= n


@given(spectra, st.integers(1, 60), st.integers(0, 2**31))
def test_a_cover_of_points_of_the_image_stays_below_twice_the_bound(values: list[float], n: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(60, len(values)))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    assert greedy_cover(x * values, n).radius <= 2 * entropy_number(values, n)


def test_nothing_and_much() -> None:
    assert entropy_number([], 5) == 0.0
    assert entropy_number([0.0, 0.0], 1) == 0.0
    assert covering_number([], 0.1) == 1.0
    assert covering_number(np.full(5000, 1.0), 1e-3) == np.inf


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: entropy_number([1.0], 0), "n must be an integer of at least 1"),
        (lambda: entropy_number([1.0, -1.0], 3), "none below 0"),
        (lambda: entropy_number([np.nan], 3), "finite"),
        (lambda: entropy_number(np.eye(2), 3), "vector"),
        (lambda: entropy_number([1.0], 3, "middle"), "'upper' or 'lower'"),  # type: ignore[arg-type]
        (lambda: covering_number([1.0], 0.0), "above 0"),
        (lambda: ball_entropy_number(1.0, 0, 3), "dimension must be at least 1"),
    ],
)
def test_bad_input(call: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()  # type: ignore[operator]
