"""Draws as a few tensors, for files: all labels in one, all templates in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.model.codes import Codes
from accams.model.posterior import Draw

Tensors = dict[str, NDArray[Any]]
OPTIONAL = ("row_effects", "col_effects", "row_noise", "row_shares")


def pack(draws: Sequence[Draw], prefix: str = "draws") -> Tensors:
    """Tensors that hold these draws; their names begin with `prefix`."""
    codes = [draw.codes for draw in draws]
    heights = [np.diff([*c.starts, len(c.flat)]) // c.widths for c in codes]
    out: Tensors = {
        "about": np.array([[d.chain, d.sweep, len(d.codes.starts)] for d in draws], dtype=np.int64).reshape(-1, 3),
        "offsets": np.array([c.offset for c in codes], dtype=np.float64),
        "shapes": np.concatenate([np.zeros((0, 2), np.int64), *map(_pairs, heights, codes)]),
        "rows": _joined([c.rows for c in codes], np.uint8),
        "cols": _joined([c.cols for c in codes], np.uint8),
        "templates": _joined([c.flat for c in codes], np.float32),
    }
    for name in OPTIONAL:
        found = [getattr(draw.codes if name in ("row_effects", "col_effects") else draw, name) for draw in draws]
        if found and all(each is not None for each in found):
            out[name] = _joined(found, found[0].dtype)
    return {f"{prefix}.{name}": tensor for name, tensor in out.items()}


def unpack(tensors: Tensors, shape: tuple[int, int], prefix: str = "draws") -> list[Draw]:
    """The draws that `pack` made tensors of; labels and templates stay views into them."""
    parts = {name.removeprefix(f"{prefix}."): x for name, x in tensors.items() if name.startswith(f"{prefix}.")}
    (m, n), draws, at = shape, list[Draw](), dict.fromkeys(("shapes", "rows", "cols", "templates", *OPTIONAL), 0)

    def take(name: str, size: int) -> NDArray[Any]:
        at[name] += size
        if at[name] > len(parts[name]):
            raise ValueError("its draws are cut short")
        return parts[name][at[name] - size : at[name]]

    for (chain, sweep, s), offset in zip(parts["about"].tolist(), parts["offsets"].tolist(), strict=True):
        k = take("shapes", s)
        sizes = k[:, 0] * k[:, 1]
        rows, cols = take("rows", (m + 1) * s).reshape(m + 1, s), take("cols", (n + 1) * s).reshape(n + 1, s)
        flat = take("templates", int(sizes.sum()))
        starts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        _check_labels(rows, k[:, 0])
        _check_labels(cols, k[:, 1])
        effects = [take(x, size + 1) if x in parts else None for x, size in (("row_effects", m), ("col_effects", n))]
        codes = Codes(rows, cols, flat, starts, np.ascontiguousarray(k[:, 1]), effects[0], effects[1], offset)
        noise = take("row_noise", m) if "row_noise" in parts else None
        shares = take("row_shares", (m + 1) * int(k[:, 0].sum())).reshape(m + 1, -1) if "row_shares" in parts else None
        draws.append(Draw(chain, sweep, codes, shares, noise))
    return draws


def _pairs(heights: NDArray[np.int64], codes: Codes) -> NDArray[np.int64]:
    return np.column_stack([heights, codes.widths]).astype(np.int64).reshape(-1, 2)


def _joined(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(each.ravel() for each in arrays)]).astype(dtype, copy=False)


def _check_labels(codes: NDArray[Any], k: NDArray[np.int64]) -> None:
    if codes.size and (codes.max(axis=0) >= k).any():
        raise ValueError("a label is larger than its template")
