"""Numbers that lie on a grid, without loss: whole numbers, times a power of two for every group of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accams.model.coding import Bytes, Ints, decode_ints, encode_ints

DIGITS = 24  # binary digits of a float32
WIDEST = 62  # binary digits of a whole number here
LARGEST = 200  # exponent, either way


def on_grids(floats: NDArray[np.float32], sizes: Sequence[int]) -> dict[str, Bytes] | None:
    """Groups of so many numbers each, as whole numbers and exponents; None if that cannot be.

    Examples
    --------
    >>> found = on_grids(np.array([0.5, -3.25, 0.0, 6.0], np.float32), [2, 2])
    >>> from_grids(found["mantissas"], found["exponents"], [2, 2])
    array([ 0.5 , -3.25,  0.  ,  6.  ], dtype=float32)
    """
    if not len(floats) or not np.isfinite(floats).all():
        return None
    fraction, exponent = np.frexp(floats.astype(np.float64))
    digits = np.ldexp(fraction, DIGITS).astype(np.int64)
    some = digits != 0
    lowest = np.where(some, exponent - DIGITS + _trailing_zeros(digits), LARGEST)
    shared = np.minimum.reduceat(lowest, np.r_[0, np.cumsum(sizes)[:-1]])
    shared = np.where(shared == LARGEST, 0, shared)
    places = np.where(some, exponent - np.repeat(shared, sizes), 0)
    if int(places.max()) > WIDEST:
        return None
    whole = np.ldexp(fraction, places).astype(np.int64)
    return {"mantissas": encode_ints(whole), "exponents": encode_ints(np.diff(shared, prepend=0))}


def from_grids(mantissas: Bytes, exponents: Bytes, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Undo `on_grids`."""
    whole = decode_ints(mantissas, sum(sizes))
    shared = np.cumsum(decode_ints(exponents, len(sizes)), dtype=np.int64)
    if ((shared < -LARGEST) | (shared > LARGEST)).any():
        raise ValueError("its templates are wrong")
    with np.errstate(over="ignore"):
        found = np.ldexp(whole.astype(np.float64), np.repeat(shared, sizes)).astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError("its templates are wrong")
    return np.asarray(found)


def _trailing_zeros(whole: Ints) -> Ints:
    """How often 2 divides each number (0 counts as never)."""
    lowest = (whole & -whole).astype(np.float64)
    return np.where(whole == 0, 0, np.frexp(lowest)[1] - 1).astype(np.int64)
