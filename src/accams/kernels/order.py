"""Sort observations by row and by column in linear time (counting sort)."""

from accams.kernels.jit import kernel


@kernel
def stable_order(keys, order, slots, out):
    """Write into `out` the entries of `order`, stably sorted by their key.

    `slots[key]` is the place of the first entry with that key; it is advanced past each one written.
    """
    for q in order:
        key = keys[q]
        out[slots[key]] = q
        slots[key] += 1


@kernel
def count_columns(lo, hi, counts, row_starts, cols):
    """Add to counts[j] the number of entries of rows [lo, hi) in column j."""
    for p in range(row_starts[lo], row_starts[hi]):
        counts[cols[p]] += 1


@kernel
def transpose_pattern(lo, hi, slots, row_starts, cols, rows):
    """Write the rows [lo, hi) of each column, ascending, given the columns of each row.

    `slots[j]` is the place of the first of them in column j; it is advanced past each one written. Ranges with slots of
    their own can run at the same time.
    """
    for i in range(lo, hi):
        for p in range(row_starts[i], row_starts[i + 1]):
            j = cols[p]
            rows[slots[j]] = i
            slots[j] += 1


@kernel
def transpose_values(lo, hi, slots, row_starts, cols, values, out):
    """Copy the `values` of rows [lo, hi), one per observation, into column order; `slots` as above."""
    for p in range(row_starts[lo], row_starts[hi]):
        j = cols[p]
        out[slots[j]] = values[p]
        slots[j] += 1
