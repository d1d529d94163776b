"""Draws of the posterior as header fields and tensors of a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model import packing
from accams.model.container import Tensors
from accams.model.limits import DRAWS, check_numbers
from accams.model.packing import EFFECTS
from accams.model.posterior import Draw
from accams.model.stencils import StencilSum

OTHERS = ("row_noise", "row_shares")
CUT = "its draws are cut short"
Unseen = tuple[NDArray[np.int64], NDArray[np.int64]]


def pack_draws(
    draws: Sequence[Draw], coding: str = "auto", templates: str | float = "float32"
) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold these draws; names of tensors begin with "draws."."""
    none = np.zeros(0, np.int64)
    sums = [draw.stencils(none, none) for draw in draws]
    if templates != "float32":
        sums = [model.rounded(templates) for model in sums]
    shape = sums[0].shape if sums else (0, 0)
    header, tensors = packing.pack([s for model in sums for s in model.stencils], shape, coding)
    header["draws"] = [[d.chain, d.sweep, len(model)] for d, model in zip(draws, sums, strict=True)]
    offsets = [model.offset for model in sums]
    header["offsets"] = offsets if len(set(offsets)) > 1 else offsets[:1]
    for name in (*EFFECTS, *OTHERS):
        arrays = [getattr(x, name) for x in (sums if name in EFFECTS else draws)]
        if arrays and all(x is not None for x in arrays):
            shared = name in EFFECTS and all(np.array_equal(x, arrays[0]) for x in arrays[1:])
            tensors[name] = np.concatenate([x.ravel() for x in (arrays[:1] if shared else arrays)])
    missing = DRAWS.missing(len(draws), sum(x.nbytes for x in tensors.values()))
    if missing:
        tensors["padding"] = np.zeros(missing + len(tensors.get("padding", ())), np.uint8)
    return header, {f"draws.{name}": x for name, x in tensors.items()}


def _check_rows(noise: NDArray[Any] | None, shares: NDArray[Any] | None, heights: list[int]) -> None:
    """Raise ValueError for variances that are not positive, or for a row with no probable label in some stencil."""
    if noise is not None and not (noise.dtype == np.float32 and (np.isfinite(noise) & (noise > 0)).all()):
        raise ValueError("the noise of its rows cannot be")
    if shares is None or not heights:
        return
    first = np.cumsum([0, *heights[:-1]])
    if shares.dtype != np.uint8 or not np.maximum.reduceat(shares, first, axis=1).all():
        raise ValueError("the label probabilities of its rows cannot be")


def unpack_draws(header: dict[str, Any], tensors: Tensors, shape: tuple[int, int], unseen: Unseen) -> list[Draw]:
    """Undo `pack_draws`."""
    if not header["draws"]:
        return []
    tensors = {name.removeprefix("draws."): x for name, x in tensors.items() if name.startswith("draws.")}
    DRAWS.check(len(header["draws"]), sum(x.nbytes for x in tensors.values()))
    stencils = packing.unpack(header, tensors, shape)
    left = {name: tensors[name] for name in (*EFFECTS, *OTHERS) if name in tensors}
    if any(x.ndim != 1 for x in left.values()):
        raise ValueError(CUT)
    for x in left.values():
        check_numbers(x)
    shared = {
        name: left.pop(name) for name, size in zip(EFFECTS, shape, strict=True) if len(left.get(name, ())) == size
    }

    def take(name: str, size: int) -> NDArray[Any] | None:
        """Return the next numbers of a tensor of which each draw has a part, if there is such a tensor."""
        if name not in left:
            return shared.get(name)
        if size > len(left[name]):
            raise ValueError(CUT)
        part, left[name] = left[name][:size], left[name][size:]
        return part

    draws, at = list[Draw](), 0
    offsets = header["offsets"] * (len(header["draws"]) if len(header["offsets"]) == 1 else 1)
    for (chain, sweep, s), offset in zip(header["draws"], offsets, strict=True):
        some = tuple(stencils[at : at + s])
        if len(some) != s:
            raise ValueError(CUT)
        at += s
        effects = [take(name, size) for name, size in zip(EFFECTS, shape, strict=True)]
        width = sum(stencil.template.shape[0] + 1 for stencil in some)  # and the average row
        noise, shares = take("row_noise", shape[0]), take("row_shares", (shape[0] + 1) * width)
        shares = None if shares is None else shares.reshape(shape[0] + 1, width)
        _check_rows(noise, shares, [stencil.template.shape[0] + 1 for stencil in some])
        draw = Draw.of(chain, sweep, StencilSum(shape, offset, some, *unseen, *effects), shares, noise)
        draws.append(draw if not (shared and draws) else draw.sharing_effects(draws[0]))
    if at != len(stencils) or any(map(len, left.values())):
        raise ValueError(CUT)
    return draws
