"""Write stencil sums: as a part of a model file, or as a file of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accams.model import container, packing
from accams.model.coding import encode_ints
from accams.model.container import Tensors
from accams.model.stencil import Stencil

FORMAT = 1  # of a stencil sum alone
KIND = "model"
EFFECTS = ("row_effects", "col_effects")


class SumLike(Protocol):
    """An offset and a sum of stencils."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def offset(self) -> float: ...
    @property
    def stencils(self) -> Sequence[Stencil]: ...
    @property
    def unseen_rows(self) -> NDArray[np.int64]: ...
    @property
    def unseen_cols(self) -> NDArray[np.int64]: ...
    @property
    def row_effects(self) -> NDArray[np.float32] | None: ...
    @property
    def col_effects(self) -> NDArray[np.float32] | None: ...


def save(path: str | Path, model: SumLike, coding: str = "auto") -> None:
    """Write a stencil sum to a file of its own, atomically."""
    container.write_atomically(Path(path), to_bytes(model, coding))


def to_bytes(model: SumLike, coding: str = "auto") -> bytes:
    """Return the file that `save` writes."""
    return container.to_bytes(*contents(model, coding))


def contents(model: SumLike, coding: str = "auto") -> tuple[dict[str, Any], Tensors]:
    """Return the header and tensors of the file that `save` writes."""
    fields, tensors = pack_sum(model, coding)
    return {"kind": KIND, "format": FORMAT, "shape": model.shape, **fields}, tensors


def pack_sum(model: SumLike, coding: str) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold a stencil sum."""
    fields, tensors = packing.pack(model.stencils, model.shape, coding)
    unseen = model.unseen_rows, model.unseen_cols
    if any(map(len, unseen)):
        fields["unseen"] = [len(x) for x in unseen]
        tensors["unseen"] = encode_ints(np.concatenate([np.diff(x, prepend=0) for x in unseen]))
    tensors.update({name: getattr(model, name) for name in EFFECTS if getattr(model, name) is not None})
    return {"offset": model.offset, **fields}, tensors
