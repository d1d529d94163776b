"""Templates on a grid: integers times powers of two, and back to the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from damage import parts, refused_quickly, rewritten
from hypothesis import given, settings
from hypothesis import strategies as st

from accams import ACCAMS
from accams.model.coding import encode_ints, from_grids, on_grids

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.lists(st.lists(finite, min_size=1, max_size=6), min_size=1, max_size=5))
def test_round_trip(groups):
    """The same bits (but for the sign of zero), or None where a group's numbers are too far apart."""
    floats, sizes = np.concatenate([np.array(group, np.float32) for group in groups]), [len(group) for group in groups]
    stored = on_grids(floats, sizes)
    if stored is not None:
        np.testing.assert_array_equal(from_grids(stored["mantissas"], stored["exponents"], sizes), floats)


def test_numbers_that_do_not_fit():
    assert on_grids(np.array([1.0, np.nan], np.float32), [2]) is None
    assert on_grids(np.array([1.0, -np.inf], np.float32), [2]) is None
    assert on_grids(np.array([1e-30, 1e30], np.float32), [2]) is None
    assert on_grids(np.zeros(0, np.float32), []) is None
    assert on_grids(np.array([1e-30, 1e30], np.float32), [1, 1]) is not None


@pytest.mark.parametrize("zeros", [1, 3])
def test_zeros(zeros):
    stored = on_grids(np.r_[np.zeros(zeros), 0.375].astype(np.float32), [zeros, 1])
    assert from_grids(stored["mantissas"], stored["exponents"], [zeros, 1]).tolist() == [0.0] * zeros + [0.375]


DATA = np.random.default_rng(0).normal(size=(60, 50))


@pytest.mark.parametrize(
    "lies",
    [
        {"mantissas": ...}, {"exponents": ...}, {"mantissas": encode_ints(np.arange(3))},
        {"exponents": encode_ints(np.array([1, -3]))}, {"exponents": encode_ints(np.full(4, 2**40))},
        {"exponents": encode_ints(np.full(4, -(2**63)))}, {"exponents": encode_ints(np.array([200, 0, 0, 0]))},
        {"mantissas": np.zeros(64, np.float32)}, {"exponents": np.zeros((4, 4), np.uint8)},
    ],
    ids=range(9),
)  # fmt: skip
def test_lies(tmp_path, lies):
    ACCAMS(4, 8).fit(DATA).save(tmp_path / "m")
    assert "stencils/mantissas" in parts(tmp_path / "m")[1]
    refused_quickly(rewritten(tmp_path / "m", tensors={f"stencils/{name}": x for name, x in lies.items()}))


def test_a_fitted_model_keeps_every_bit(tmp_path):
    import accams

    model = ACCAMS(4, 8).fit(DATA)
    model.save(tmp_path / "m")
    again = accams.load(tmp_path / "m")
    for one, other in zip(again.stencils.templates, model.stencils_.templates, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (tmp_path / "m").stat().st_size < model.stencils_.bits / 8 + 2048
