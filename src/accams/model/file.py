"""Read stencil sums: a part of a model file, or a file of their own."""

from pathlib import Path
from typing import Any

import numpy as np

from accams.model import container, packing
from accams.model.coding import decode_ints
from accams.model.container import Tensors
from accams.model.limits import NUMBERS, check_numbers
from accams.model.packing import EFFECTS, FORMAT, KIND, pack_sum, save, to_bytes
from accams.model.stencils import StencilSum

__all__ = ["FORMAT", "KIND", "pack_sum", "read", "save", "to_bytes", "unpack_sum"]


def read(path: str | Path) -> StencilSum:
    """Read a file that holds a stencil sum alone, as `save` writes it."""
    header, tensors = container.read(path, KIND, FORMAT)
    try:
        return unpack_sum(header, tensors, checked_shape(header["shape"], tensors))
    except (LookupError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        raise container.damaged(path, KIND, error) from None


def checked_shape(shape: Any, tensors: Tensors) -> tuple[int, int]:
    """Return rows and columns; raise ValueError for more than a file with these tensors may have."""
    m, n = (int(size) for size in shape)
    if min(m, n) < 0:
        raise ValueError("its sizes are wrong")
    NUMBERS.check(m + n, sum(x.nbytes for x in tensors.values()))
    return m, n


def unpack_sum(
    fields: dict[str, Any], tensors: Tensors, shape: tuple[int, int], groups: packing.Groups | None = None
) -> StencilSum:
    """Undo `pack_sum`."""
    stencils = packing.unpack(fields, tensors, shape, groups)
    sizes = fields.get("unseen", (0, 0))
    if not all(0 <= size <= most for size, most in zip(sizes, shape, strict=True)):
        raise ValueError("it has more rows or columns without data than it has in all")
    steps = decode_ints(tensors["unseen"], sum(sizes)) if sum(sizes) else np.zeros(0, np.int64)
    if any((x[1:] <= 0).any() for x in np.split(steps, [sizes[0]])):
        raise ValueError("its rows or columns without data do not ascend")
    rows, cols = (np.cumsum(x, dtype=np.int64) for x in np.split(steps, [sizes[0]]))
    effects = [tensors.get(name) for name in EFFECTS]
    for x in effects:
        check_numbers(x)
    return StencilSum(shape, float(fields["offset"]), stencils, rows, cols, *effects)
