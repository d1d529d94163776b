"""How many bits a model takes, by the paper's formula, and what an SVD of the same size or error would take."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2


def stencil_bits(shape: tuple[int, int], template_shape: tuple[int, int], template_bits: int = 32) -> float:
    """Bits of one stencil: m log2 k_rows + n log2 k_cols + 32 k_rows k_cols.

    Examples
    --------
    >>> round(125 * stencil_bits((480_189, 17_770), (10, 10)) / 8e6, 1)  # the paper's largest model, in MB
    25.9
    """
    (m, n), (k_rows, k_cols) = shape, template_shape
    return m * log2(k_rows) + n * log2(k_cols) + template_bits * k_rows * k_cols


def model_bits(shape: tuple[int, int], template_shapes: Iterable[tuple[int, int]]) -> float:
    """Bits of a stencil sum by the paper's formula (the offset is not counted)."""
    return sum(stencil_bits(shape, k) for k in template_shapes)


def factor_bits(shape: tuple[int, int], rank: int, bits: int = 32) -> float:
    """Bits of a rank-`rank` factorisation with `bits` bits per number."""
    return float(rank * sum(shape) * bits)
