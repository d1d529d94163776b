"""What a file may unfold to: bounds on the cost of reading and using it, given its size.

A few bytes can stand for very many zeros, so a small file could ask for any amount of memory. Everything that a file
unfolds to has a limit: an amount that is always allowed, and so much for each stored byte beyond that. Files that we
write and that happen to take less room are padded (`Limit.missing`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.settings.schema import LARGEST


class Limit(NamedTuple):
    """`free` of something, or `per_byte` for each stored byte."""

    what: str
    free: int
    per_byte: int

    def check(self, size: int, stored: int) -> None:
        """Raise ValueError for more than that."""
        if size > max(self.free, self.per_byte * stored):
            raise ValueError(f"{_shown(size)} {self.what} cannot come from {stored:,} bytes")

    def missing(self, size: int, stored: int) -> int:
        """Return how many more bytes have to be stored so that it passes."""
        return 0 if size <= self.free else max(0, -(-size // self.per_byte) - stored)


def check_numbers(x: NDArray[Any] | None) -> None:
    """Raise ValueError for numbers that no model has: infinite, undefined, or so large that squares overflow."""
    if x is not None and x.size and not float(np.abs(x).max()) <= LARGEST:
        raise ValueError("its numbers are out of range")


NUMBERS = Limit("numbers", 1 << 22, 64)  # integers, rows and columns, characters of ids
LABELS = Limit("labels", 1 << 24, 1000)
STENCILS = Limit("stencils", 1 << 12, 1)
DRAWS = Limit("draws", 1 << 12, 1)  # each costs as much as a stencil


def _shown(size: int) -> str:
    return f"{size:,}" if size < 1 << 64 else "too many"  # a file may hold a number of thousands of digits
