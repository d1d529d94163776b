"""Stencils as a few tensors: labels entropy-coded or packed, templates as floats or as integers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from accams.errors import InputError, ModelFileError
from accams.model import coding as coder
from accams.model import container
from accams.model.coding import Bytes, Ints, decode_labels, unpack_bits
from accams.model.container import Tensors
from accams.model.limits import LABELS, NUMBERS, STENCILS, Limit, check_numbers
from accams.model.stencil import Stencil, SumFields, label_type, times, whole_steps
from accams.writing import write_atomically

FORMAT = 1  # of a stencil sum alone
KIND = "model"
EFFECTS = ("row_effects", "col_effects")
Templates = list[NDArray[np.float32]]
Steps = list[float | None]
Groups = Sequence[NDArray[np.int64]]
CODINGS = ("auto", "entropy", "packed")
TENSOR = 64  # bytes of the header that one more tensor takes
AT_ONCE = 1 << 20  # labels unpacked at a time: 16 bytes each meanwhile


def pack(
    stencils: Sequence[Stencil], shape: tuple[int, int], coding: str = "auto", groups: Groups | None = None
) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold these stencils.

    Labels are coded by entropy, or "packed" in log2(k) bits each, rounded up; such a file is opened without decoding
    anything. "auto" takes the smaller one. With `groups`, positions of which both rows and columns consist, labels of
    each group have frequencies of their own.
    """
    if coding not in CODINGS:
        raise InputError(f"coding must be one of {', '.join(CODINGS)}, not {coding!r}")
    k_rows, k_cols = ([s.template.shape[axis] for s in stencils] for axis in (0, 1))
    labels, k = [s.row_labels for s in stencils] + [s.col_labels for s in stencils], k_rows + k_cols
    bits = _packed_widths(k)
    sizes = [shape[0]] * len(stencils) + [shape[1]] * len(stencils)
    header: dict[str, Any] = {"stencils": len(stencils)}
    tensors = _pack_templates(stencils)
    if coding != "packed" and max(k, default=1) <= coder.MOST_LABELS:
        parts = [x[group] for x in labels for group in groups] if groups else labels
        tensors["labels"], tensors["models"] = coder.encode_labels(parts, np.repeat(k, len(groups or [0])).tolist())
    packed = int(np.sum(_packed_bytes(bits, sizes)))
    if "labels" not in tensors or (coding == "auto" and packed < sum(tensors[x].nbytes for x in ("labels", "models"))):
        tensors.pop("models", None)
        parts = [coder.pack_bits(x, np.full(len(x), w, np.int64)) for x, w in zip(labels, bits, strict=True)]
        tensors["labels"] = np.concatenate([np.zeros(0, np.uint8), *parts])
    header["coded"] = "models" in tensors
    header["alike"] = len(stencils) > 1 and len(set(k_rows)) == len(set(k_cols)) == 1
    tensors["sizes"] = coder.encode_ints(np.array([k_rows[0], k_cols[0]] if header["alike"] else k, np.int64))
    stored = _stored(tensors)
    missing = max(limit.missing(size, stored) for limit, size in _unfolded(shape, len(stencils), k))
    if missing:
        tensors["padding"] = np.zeros(missing, np.uint8)
    return header, tensors


def _stored(tensors: Tensors) -> int:
    return sum(x.nbytes for x in tensors.values())


def _unfolded(shape: tuple[int, int], n: int, k: Sequence[int] | Ints) -> list[tuple[Limit, int]]:
    """Return what n stencils unfold to; predictions need tables of all stencils by the most clusters of any."""
    return [(NUMBERS, sum(shape)), (STENCILS, n), (LABELS, n * max(sum(shape), int(np.max(k, initial=1))))]


def unpack(
    header: dict[str, Any], tensors: Tensors, shape: tuple[int, int], groups: Groups | None = None
) -> Sequence[Stencil]:
    """Undo `pack`; packed labels are unpacked on first access."""
    n, stored = int(header["stencils"]), _stored(tensors)
    STENCILS.check(n, stored)
    k = _clusters(header, tensors, n) if n >= 0 else np.zeros(1, np.int64)
    if min(shape) < 0 or (k < 1).any() or int(k.max(initial=1)) > 1 << 31:
        raise ValueError("its sizes are wrong")
    for limit, size in _unfolded(shape, n, k):
        limit.check(size, stored)
    templates, steps = _unpack_templates(tensors, k[:n], k[n:])
    coded = tensors["labels"]
    if header.get("coded", "models" in tensors) != ("models" in tensors):
        raise ValueError("how its labels are coded is not clear")
    if "models" not in tensors:
        return Packed(coded, shape, templates, steps)
    if groups:
        parts = decode_labels(
            coded, tensors["models"], [len(x) for x in groups] * 2 * n, np.repeat(k, len(groups)).tolist()
        )
        labels = [_together(parts[at : at + len(groups)], groups) for at in range(0, len(parts), len(groups))]
    else:
        labels = decode_labels(coded, tensors["models"], [shape[0]] * n + [shape[1]] * n, k.tolist())
    return tuple(Stencil(T, labels[l], labels[n + l], steps[l]) for l, T in enumerate(templates))


def _together(parts: Sequence[NDArray[Any]], groups: Groups) -> NDArray[Any]:
    """Return the labels of all positions, given those of each group."""
    out = np.empty(sum(map(len, groups)), parts[0].dtype)
    for part, group in zip(parts, groups, strict=True):
        out[group] = part
    return out


def _clusters(header: dict[str, Any], tensors: Tensors, n: int) -> Ints:
    """Return the row clusters of every stencil, then the column clusters."""
    if not header.get("alike", False):
        return coder.decode_ints(tensors["sizes"], 2 * n)
    return np.repeat(coder.decode_ints(tensors["sizes"], 2), n)


class Packed(Sequence[Stencil]):
    """Stencils whose labels are packed bits of a file; each is unpacked on first access."""

    def __init__(self, data: Bytes, shape: tuple[int, int], templates: Templates, steps: Steps) -> None:
        self.data, self.shape, self.templates, self.steps = data, shape, templates, steps
        k = [T.shape[axis] for axis in (0, 1) for T in templates]
        self._widths = _packed_widths(k)
        sizes = [shape[axis] for axis in (0, 1) for _ in templates]
        self._ends = np.cumsum(_packed_bytes(self._widths, sizes), dtype=np.int64)
        if data.dtype != np.uint8 or data.shape != (int(self._ends[-1] if len(k) else 0),):
            raise ValueError("its labels are cut short")
        self._unpacked = dict[int, Stencil]()

    def __len__(self) -> int:
        return len(self.templates)

    @overload
    def __getitem__(self, index: int) -> Stencil: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Stencil, ...]: ...
    def __getitem__(self, index: int | slice) -> Stencil | tuple[Stencil, ...]:
        if isinstance(index, slice):
            return tuple(self[p] for p in range(*index.indices(len(self))))
        p = range(len(self))[index]
        if p not in self._unpacked:
            try:
                labels = self._labels(0, p), self._labels(1, p)
                self._unpacked[p] = Stencil(self.templates[p], *labels, self.steps[p])
            except InputError as error:
                raise ModelFileError(f"stencil {p} of a model file is damaged ({error})") from None
        return self._unpacked[p]

    def _labels(self, axis: int, stencil: int) -> NDArray[Any]:
        p = axis * len(self) + stencil
        k, size = self.templates[stencil].shape[axis], self.shape[axis]
        part, width = self.data[self._ends[p - 1] if p else 0 : self._ends[p]], self._widths[p]
        labels = np.zeros(size, label_type(k))
        for lo in range(0, size if width else 0, AT_ONCE):  # whole bytes, since it is a multiple of eight
            some = part[lo * width // 8 : -(-min(lo + AT_ONCE, size) * width // 8)]
            labels[lo : lo + AT_ONCE] = unpack_bits(some, np.full(min(AT_ONCE, size - lo), width, np.int64))
        return labels


def _pack_templates(stencils: Sequence[Stencil]) -> Tensors:
    """Store templates with a step as integers, and the others without loss in the smallest way.

    That is floats of 32 bits, of 16 where those are exact, or integers times a power of two of each stencil: fitted
    templates lie on a grid.
    """
    whole = [whole_steps(s.template, s.step).ravel() for s in stencils if s.step is not None]
    other = np.concatenate([np.zeros(0, np.float32), *(s.template.ravel() for s in stencils if s.step is None)])
    tensors: Tensors = {}
    if whole:
        tensors["whole"] = coder.encode_ints(np.concatenate(whole))
        tensors["steps"] = np.array([s.step or 0.0 for s in stencils], np.float32)
    if other.size:
        with np.errstate(over="ignore"):
            half = other.astype(np.float16)
        tensors["templates"] = half if np.array_equal(half.astype(np.float32), other) else other
        exact = coder.on_grids(other, [s.template.size for s in stencils if s.step is None])
        if exact is not None and sum(x.nbytes for x in exact.values()) < tensors["templates"].nbytes - TENSOR:
            tensors = {**tensors, **exact}
            del tensors["templates"]
    return tensors


def _unpack_templates(tensors: Tensors, k_rows: Ints, k_cols: Ints) -> tuple[Templates, Steps]:
    stored = tensors.get("steps", np.zeros(len(k_rows), np.float32))
    if not (np.isfinite(stored) & (stored >= 0)).all():
        raise ValueError("its steps are not finite numbers of 0 or more")
    steps = [float(x) or None for x in stored]
    sizes = [int(a) * int(b) for a, b in zip(k_rows, k_cols, strict=True)]
    groups = [[size for size, step in zip(sizes, steps, strict=True) if (step is None) == x] for x in (True, False)]
    needed = [sum(group) for group in groups]
    if "mantissas" in tensors:
        floats = coder.from_grids(tensors["mantissas"], tensors["exponents"], groups[0])
    else:
        floats = tensors.get("templates", np.zeros(0, np.float32))
    if floats.dtype.kind != "f" or floats.ndim != 1 or len(floats) != needed[0]:
        raise ValueError("its templates are cut short")
    whole = np.zeros(0, np.int64)
    if needed[1]:
        whole = coder.decode_ints(tensors["whole"], needed[1])
    templates, at = Templates(), [0, 0]
    for size, step, a, b in zip(sizes, steps, k_rows, k_cols, strict=True):
        lo = at[step is not None]
        at[step is not None] += size
        flat = floats[lo : lo + size].astype(np.float32) if step is None else times(whole[lo : lo + size], step)
        templates.append(flat.reshape(int(a), int(b)))
        check_numbers(flat)
    return templates, steps


def _packed_widths(k: Sequence[int]) -> list[int]:
    return [int(size - 1).bit_length() for size in k]


def _packed_bytes(widths: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [-(-w * size // 8) for w, size in zip(widths, sizes, strict=True)]


def save(path: str | Path, model: SumFields, coding: str = "auto") -> None:
    """Write a stencil sum to a file of its own, atomically."""
    write_atomically(Path(path), to_bytes(model, coding))


def to_bytes(model: SumFields, coding: str = "auto") -> bytes:
    """Return the file that `save` writes."""
    return container.to_bytes(*contents(model, coding))


def contents(model: SumFields, coding: str = "auto") -> tuple[dict[str, Any], Tensors]:
    """Return the header and tensors of the file that `save` writes."""
    fields, tensors = pack_sum(model, coding)
    return {"kind": KIND, "format": FORMAT, "shape": model.shape, **fields}, tensors


def pack_sum(model: SumFields, coding: str, groups: Groups | None = None) -> tuple[dict[str, Any], Tensors]:
    """Return header fields and tensors that hold a stencil sum."""
    fields, tensors = pack(model.stencils, model.shape, coding, groups)
    unseen = model.unseen_rows, model.unseen_cols
    if any(map(len, unseen)):
        fields["unseen"] = [len(x) for x in unseen]
        tensors["unseen"] = coder.encode_ints(np.concatenate([np.diff(x, prepend=0) for x in unseen]))
    tensors.update({name: getattr(model, name) for name in EFFECTS if getattr(model, name) is not None})
    return {"offset": model.offset, **fields}, tensors
