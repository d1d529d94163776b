"""Draws as a few tensors: the stencils of all of them one after another, as in a model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model import packing
from accams.model.container import Tensors
from accams.model.posterior import Draw
from accams.model.stencils import Stencil, StencilSum

Unseen = tuple[NDArray[np.int64], NDArray[np.int64]]
EFFECTS = ("row_effects", "col_effects")
OTHERS = ("row_noise", "row_shares")


def pack(
    draws: Sequence[Draw], coding: str = "auto", templates: str | float = "float32"
) -> tuple[dict[str, Any], Tensors]:
    """Header entries and tensors that hold these draws; names of tensors begin with "draws."."""
    none = np.zeros(0, np.int64)
    sums = [draw.stencils(none, none) for draw in draws]
    if templates != "float32":
        sums = [each.rounded(templates) for each in sums]
    shape = sums[0].shape if sums else (0, 0)
    header, tensors = packing.pack([s for each in sums for s in each.stencils], shape, coding)
    header["draws"] = [[d.chain, d.sweep, len(each)] for d, each in zip(draws, sums, strict=True)]
    header["offsets"] = sorted({each.offset for each in sums})
    if len(header["offsets"]) > 1:
        header["offsets"] = [each.offset for each in sums]
    for name in (*EFFECTS, *OTHERS):
        found = [getattr(each, name) for each in (sums if name in EFFECTS else draws)]
        if found and all(each is not None for each in found):
            tensors[name] = np.concatenate([each.ravel() for each in found])
    return header, {f"draws.{name}": x for name, x in tensors.items()}


def unpack(header: dict[str, Any], tensors: Tensors, shape: tuple[int, int], unseen: Unseen) -> list[Draw]:
    """The draws that `pack` made tensors of."""
    mine = {name.removeprefix("draws."): x for name, x in tensors.items() if name.startswith("draws.")}
    if not header["draws"]:
        return []
    stencils = packing.unpack(header, mine, shape, Stencil)
    draws, at, parts = list[Draw](), 0, _Parts(mine)
    offsets = header["offsets"] * (len(header["draws"]) if len(header["offsets"]) == 1 else 1)
    for (chain, sweep, s), offset in zip(header["draws"], offsets, strict=True):
        own = tuple(stencils[at : at + s])
        if len(own) != s:
            raise ValueError("its draws are cut short")
        at += s
        effects = [parts.take(name, size) for name, size in zip(EFFECTS, shape, strict=True)]
        width = sum(each.template.shape[0] + 1 for each in own)  # and the average row
        noise, shares = parts.take("row_noise", shape[0]), parts.take("row_shares", (shape[0] + 1) * width)
        shares = None if shares is None else shares.reshape(shape[0] + 1, width)
        draws.append(Draw.of(chain, sweep, StencilSum(shape, offset, own, *unseen, *effects), shares, noise))
    if at != len(stencils) or not parts.all_taken():
        raise ValueError("its draws are cut short")
    return draws


class _Parts:
    """Tensors of which each draw has a part."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors, self.at = tensors, dict.fromkeys((*EFFECTS, *OTHERS), 0)

    def take(self, name: str, size: int) -> NDArray[Any] | None:
        """The next numbers of a tensor, if there is one."""
        if name not in self.tensors:
            return None
        self.at[name] += size
        if self.at[name] > len(self.tensors[name]):
            raise ValueError("its draws are cut short")
        return self.tensors[name][self.at[name] - size : self.at[name]]

    def all_taken(self) -> bool:
        """Whether no numbers are left."""
        return all(self.at[name] == len(self.tensors[name]) for name in self.at if name in self.tensors)
