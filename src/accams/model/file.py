"""The model file: a stencil sum in our container, and what estimators put beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model import container, packing
from accams.model.coding import decode_ints, encode_ints
from accams.model.container import Tensors
from accams.model.stencils import StencilSum

FORMAT = 1
KIND = "model"
EFFECTS = ("row_effects", "col_effects")
OWN = (
    "labels", "models", "padding", "sizes", "whole", "steps", "templates", "mantissas", "exponents", "unseen", *EFFECTS
)  # fmt: skip


def save(
    path: str | Path, model: StencilSum, header: dict[str, Any] | None = None, extra: Tensors | None = None,
    coding: str = "auto",
) -> None:  # fmt: skip
    """Write `model` (with further tensors and header entries) atomically."""
    container.write_atomically(Path(path), to_bytes(model, header, extra, coding))


def to_bytes(
    model: StencilSum, header: dict[str, Any] | None = None, extra: Tensors | None = None, coding: str = "auto"
) -> bytes:
    """The file, as `save` writes it."""
    about, tensors = _parts(model, coding)
    return container.to_bytes({**about, **(header or {})}, {**tensors, **(extra or {})})


def tensors_of(model: StencilSum) -> tuple[Tensors, int]:
    """The tensors of the file of this model alone, and the bytes of the whole file."""
    about, tensors = _parts(model, "auto")
    return tensors, len(container.to_bytes(about, tensors))


def _parts(model: StencilSum, coding: str) -> tuple[dict[str, Any], Tensors]:
    about, tensors = packing.pack(model.stencils, model.shape, coding)
    unseen = model.unseen_rows, model.unseen_cols
    if any(map(len, unseen)):
        about["unseen"] = [len(each) for each in unseen]
        tensors["unseen"] = encode_ints(np.concatenate([np.diff(each, prepend=0) for each in unseen]))
    tensors.update({name: getattr(model, name) for name in EFFECTS if getattr(model, name) is not None})
    base = {"kind": KIND, "format": FORMAT, "shape": model.shape, "offset": model.offset}
    return {**base, **about}, tensors


def read(path: str | Path) -> tuple[StencilSum, dict[str, Any], Tensors]:
    """The model, the header, and the further tensors of a file written by `save`."""
    header, tensors = container.read(path, KIND, FORMAT)
    try:
        return _model(tensors, header), header, {name: x for name, x in tensors.items() if name not in OWN}
    except (LookupError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        raise container.damaged(path, KIND, error) from None


def _model(tensors: Tensors, header: dict[str, Any]) -> StencilSum:
    m, n = (int(size) for size in header["shape"])
    if not 0 <= min(m, n) <= max(m, n) < 1 << 48:
        raise ValueError("its sizes are wrong")
    stencils = packing.unpack(header, tensors, (m, n))
    rows, cols = _unseen(tensors, header.get("unseen", (0, 0)), (m, n))
    effects = (tensors.get(name) for name in EFFECTS)
    return StencilSum((m, n), float(header["offset"]), stencils, rows, cols, *effects)


def _unseen(tensors: Tensors, sizes: tuple[int, int], shape: tuple[int, int]) -> list[NDArray[np.int64]]:
    if not all(0 <= size <= most for size, most in zip(sizes, shape, strict=True)):
        raise ValueError("its rows or columns that were never seen are more than all")
    if not sum(sizes):
        return [np.zeros(0, np.int64)] * 2
    differences = np.split(decode_ints(tensors["unseen"], sum(sizes)), [sizes[0]])
    return [np.cumsum(each, dtype=np.int64) for each in differences]
