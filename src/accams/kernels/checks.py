"""Scans of data that comes from outside: other kernels have no bounds checks.

Opening a store should take little longer than reading it, so the loops over entries have no branches and 32-bit
arithmetic: then they run in vector registers.
"""

import numpy as np

from accams.kernels.jit import kernel

FIRST, SECOND, THIRD = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D)
SHIFT, HALF, LEAST = np.uint32(15), np.uint64(32), np.uint32(1)
LOW, HIGH, SUM, WEIGHT, WEIGHTED_SUM = 0, 1, 2, 3, 4  # places of what is summed
HALF_STEP = 2.0**-24  # all floats of 16 bits are multiples of it


@kernel
def first_descent(starts):
    """Return the first position whose number is lower than the one before, or -1."""
    for i in range(1, starts.size):
        if starts[i] < starts[i - 1]:
            return i
    return -1


@kernel
def scan_order(lo, hi, axis, starts, partners, values, special, weights, size, out):
    """Scan the entries of rows [lo, hi) (axis 0) or columns (axis 1) in one order of a store.

    Adds to out[0] a sum over all entries that depends on their rows, columns, values and weights but not on their
    order. Returns the first row with an entry that must not be: whose partner is not below `size` or does not come
    after the one before, whose value (given by its bits) has all bits of `special` set, which is infinite or NaN, or
    whose weight is not positive. Returns -1 if there is none.
    """
    total = np.uint64(0)
    for i in range(lo, hi):
        begin, end = starts[i], starts[i + 1]
        if begin == end:
            continue
        own, step = (np.uint32(i) * FIRST, SECOND) if axis == 0 else (np.uint32(i) * SECOND, FIRST)
        some, bits, wrong = partners[begin:end], values[begin:end], np.uint32(0)
        for p in range(some.size):
            pattern = np.uint32(bits[p])
            if bits.itemsize == 8:
                pattern += np.uint32(np.uint64(bits[p]) >> HALF) * FIRST
            if weights is not None:
                pattern += np.uint32(weights[begin + p]) * SECOND
                wrong |= np.uint32(weights[begin + p] < 1)
            x = own + np.uint32(some[p]) * step
            x = (x ^ (x >> SHIFT)) * (pattern * THIRD + LEAST)
            total += np.uint64(x ^ (x >> SHIFT))
            wrong |= np.uint32((bits[p] & special) == special)
        for p in range(1, some.size):
            wrong |= np.uint32(some[p] <= some[p - 1])
        if wrong or some[some.size - 1] >= size:  # they ascend, so it is the largest
            return i
    out[0] += total
    return -1


def _sums(lo, hi, values, weights, sums):
    """Add range and sums of the values (and weights) of entries [lo, hi) to `sums`."""
    low = high = np.float64(values[lo])
    total, weight, product = 0.0, 0.0, 0.0
    for p in range(lo, hi):
        x = np.float64(values[p])
        low, high = x if x < low else low, x if x > high else high
        total += x
        if weights is not None:
            weight += weights[p]
            product += weights[p] * x
    sums[LOW], sums[HIGH] = min(sums[LOW], low), max(sums[HIGH], high)
    sums[SUM] += total
    sums[WEIGHT] += weight
    sums[WEIGHTED_SUM] += product


sums_of = kernel(_sums, fastmath={"reassoc", "nsz"})  # to be compared up to rounding only


def _sums_of_halves(lo, hi, bits, weights, sums):
    """Do the same for floats of 16 bits, which compiled code does not know, in integers."""
    low, high, total, weight, product = np.int64(1) << 62, -(np.int64(1) << 62), np.int64(0), 0.0, 0.0
    for p in range(lo, hi):
        exponent, fraction = np.int64(bits[p] >> 10) & 31, np.int64(bits[p]) & 1023
        x = (fraction + 1024 * np.int64(exponent > 0)) << max(exponent - 1, 0)
        x *= 1 - 2 * np.int64(bits[p] >> 15)
        low, high = min(low, x), max(high, x)
        total += x
        if weights is not None:
            weight += weights[p]
            product += weights[p] * (x * HALF_STEP)
    sums[LOW], sums[HIGH] = min(sums[LOW], low * HALF_STEP), max(sums[HIGH], high * HALF_STEP)
    sums[SUM] += total * HALF_STEP
    sums[WEIGHT] += weight
    sums[WEIGHTED_SUM] += product


sums_of_halves = kernel(_sums_of_halves, fastmath={"reassoc", "nsz"})
