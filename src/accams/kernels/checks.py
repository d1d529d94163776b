"""Scans of data that comes from outside: other kernels have no bounds checks."""

import numpy as np

from accams.kernels.jit import kernel

FIRST, SECOND, THIRD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
SHIFT = np.uint64(29)


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

    Writes into out[0] a sum over all entries that depends on their rows, columns, values and weights but not on their
    order, and returns the position of the first entry that must not be: whose partner is not below `size` or does not
    come after the one before, whose value (given by its bits) has all bits of `special` set, which is infinite or NaN,
    or whose weight is not positive. Returns -1 if there is none.
    """
    total = np.uint64(0)
    for i in range(lo, hi):
        begin, own = starts[i], np.uint64(i)
        for p in range(begin, starts[i + 1]):
            j, bits, w = np.uint64(partners[p]), np.uint64(values[p]), np.uint64(1)
            if j >= size or (p > begin and partners[p] <= partners[p - 1]) or bits & special == special:
                return p
            if weights is not None:
                if weights[p] < 1:
                    return p
                w = np.uint64(weights[p])
            row, col = (own, j) if axis == 0 else (j, own)
            x = (row * FIRST) ^ (col * SECOND + w) ^ (bits * THIRD)
            x = (x ^ (x >> SHIFT)) * FIRST
            total += x ^ (x >> SHIFT)
    out[0] = total
    return -1
