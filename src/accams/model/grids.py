"""Store float32 numbers on a grid without loss: integers, times one power of two for each group of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accams.model.coding import Bytes, Ints, decode_ints, encode_ints

DIGITS = 24  # bits of a float32's mantissa
WIDEST = 62  # bits of a stored integer, so that it fits into an int64
LARGEST = 200  # absolute value of an exponent; those of float32, subnormal numbers included, are smaller
RANGE = "its template entries are out of range"


def on_grids(floats: NDArray[np.float32], sizes: Sequence[int]) -> dict[str, Bytes] | None:
    """Encode groups of numbers as integers and one exponent per group; return None if a group does not fit.

    Examples
    --------
    >>> stored = on_grids(np.array([0.5, -3.25, 0.0, 6.0], np.float32), [2, 2])
    >>> from_grids(stored["mantissas"], stored["exponents"], [2, 2])
    array([ 0.5 , -3.25,  0.  ,  6.  ], dtype=float32)
    """
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


def from_grids(mantissas: Bytes, exponents: Bytes, sizes: Sequence[int]) -> NDArray[np.float32]:
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
    """Count the trailing zero bits of each integer (none for 0)."""
    lowest = (integers & -integers).astype(np.float64)
    return np.where(integers == 0, 0, np.frexp(lowest)[1] - 1).astype(np.int64)
