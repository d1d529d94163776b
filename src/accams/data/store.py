"""A store: observations in both orders as files in a folder, larger than memory if need be.

Layout (format 1): ``store.json`` says what the store holds and has length and checksum of every other file, all of
which are NumPy's own ``.npy``, so that anybody can read them:

========================  ==============================================================================
``row_starts``, ``cols``  row i has the columns ``cols[row_starts[i]:row_starts[i + 1]]``, ascending
``values``                of the same entries; ``weights`` and ``times`` likewise, where there are any
``col_starts``, ``rows``  column j has the rows ``rows[col_starts[j]:col_starts[j + 1]]``, ascending
``col_values``            of the same entries; ``col_weights`` likewise
``row_ids``, ``col_ids``  whole numbers; or ``row_id_text`` (UTF-8) with ``row_id_ends``, where each id ends in it
========================  ==============================================================================

A store is written beside its place and moved there when it is complete.
"""

from __future__ import annotations

import json
import mmap
import shutil
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index, LaterIndex, example
from accams.errors import InputError, MissingDataError

KIND, FORMAT, MANIFEST = "accams store", 1, "store.json"
HEADER = 128  # bytes of an .npy before its numbers
BLOCK = 1 << 24  # bytes that are read at a time
PIECE = 1 << 22  # entries that are looked at together


class Column:
    """A vector that is written to an .npy file piece by piece."""

    def __init__(self, path: Path, kind: Any) -> None:
        self.path, self.kind = path, np.dtype(kind)
        self.size = self._sum = 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER))

    def append(self, values: NDArray[Any]) -> None:
        """Write what follows."""
        data = np.ascontiguousarray(values, self.kind)
        content = data.view(np.uint8).data  # times have no buffer of their own
        self._file.write(content)
        self._sum = zlib.crc32(content, self._sum)
        self.size += data.size

    def close(self) -> dict[str, Any]:
        """Finish the file; what the manifest says of it."""
        self._file.seek(0)
        self._file.write(_header(self.kind, self.size))
        self._file.close()
        return {"type": self.kind.str, "size": self.size, "crc32": self._sum}


def write(path: Path, values: NDArray[Any]) -> dict[str, Any]:
    """A whole vector as an .npy file; what the manifest says of it."""
    column = Column(path, values.dtype)
    column.append(values)
    return column.close()


def write_ids(folder: Path, side: str, pieces: Iterable[NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """The ids of one axis, piece by piece: whole numbers or text, all of them the same."""
    columns, end = dict[str, Column](), 0

    def append(name: str, values: NDArray[Any]) -> None:
        if name not in columns:
            columns[name] = Column(folder / f"{name}.npy", values.dtype)
        columns[name].append(values)

    for ids in pieces:
        if ids.dtype.kind == "i":
            append(f"{side}_ids", ids)
            continue
        texts = [each.encode() for each in ids.tolist()]
        ends = end + np.cumsum([len(each) for each in texts], dtype=np.int64)
        append(f"{side}_id_text", np.frombuffer(b"".join(texts), np.uint8))
        append(f"{side}_id_ends", ends)
        end = int(ends[-1])
    return {name: each.close() for name, each in columns.items()}


def write_manifest(folder: Path, files: dict[str, dict[str, Any]], **about: Any) -> None:
    """Say that the store is complete."""
    text = json.dumps({"kind": KIND, "format": FORMAT, **about, "files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n")


def about(values: NDArray[Any], weights: NDArray[Any] | None) -> dict[str, Any]:
    """What is asked of the data as a whole, so that nobody has to go through it again.

    Sums are those of pieces, one after another, so that they do not depend on where the data is.
    """
    low, high, sums = np.inf, -np.inf, np.zeros(3)
    for first in range(0, len(values), PIECE):
        x, w = values[first : first + PIECE], None if weights is None else weights[first : first + PIECE]
        low, high = min(low, float(x.min())), max(high, float(x.max()))
        sums[0] += x.sum(dtype=np.float64)
        if w is not None:
            sums[1:] += w.sum(dtype=np.float64), np.einsum("p,p->", w, x, dtype=np.float64)
        release_pages(values, weights)
    total, weight, product = sums.tolist()
    weighted = {"weight": weight, "weighted_sum": product}
    return {"value_range": [low, high], "sum": total, **(dict.fromkeys(weighted) if weights is None else weighted)}


def save(path: Path, fields: dict[str, NDArray[Any] | None], indices: tuple[Index, Index], **told: Any) -> None:
    """A store of what is in memory."""
    for index in indices:
        if index.ids.dtype.kind != "i" and not all(isinstance(each, str) for each in index.ids.tolist()):
            raise InputError(f"a store takes ids that are whole numbers or text, not {example(index.ids)}")
    folder = path.with_name(path.name + ".partial")
    try:
        folder.mkdir(parents=True)
        files = {name: write(folder / f"{name}.npy", each) for name, each in fields.items() if each is not None}
        for side, index in zip(("row", "col"), indices, strict=True):
            files |= {} if index.is_positional else write_ids(folder, side, [index.ids])
        values, weights = fields["values"], fields["weights"]
        assert values is not None
        write_manifest(folder, files, about=about(values, weights), **told)
        folder.rename(path)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def is_store(path: Path) -> bool:
    """Whether there is a folder with a manifest."""
    return (path / MANIFEST).is_file()


def read(path: Path, *, verify: bool = True) -> dict[str, Any]:
    """Fields of `Observations` from a store, its files mapped into memory.

    With `verify`, every byte is read once and compared with its checksum.
    """
    told = manifest(path)
    found = mapped(path, told)
    for name in found if verify else ():
        if _checksum(path / f"{name}.npy") != told["files"][name]["crc32"]:
            raise InputError(f"{path / name}.npy is damaged (its checksum is wrong): ingest the data again")
    m, n = told["shape"]
    return {
        "shape": (m, n), "row_starts": found["row_starts"], "cols": found["cols"], "stored_values": found["values"],
        "row_index": index(found, "row", m), "col_index": index(found, "col", n),
        "stored_weights": found.get("weights"), "weight_step": told["weight_step"], "times": found.get("times"),
        "blank_weight": told["blank_weight"], "_pattern": {
            "by_column": (found["col_starts"], found["rows"]), "store": path, "about": told["about"],
        },
    }  # fmt: skip


def stamp(path: Path) -> int:
    """A number that stands for all that is in a store: its manifest has the checksums of its files."""
    return zlib.crc32((path / MANIFEST).read_bytes())


def order(path: Path, axis: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Starts, partners, values and weights of the rows (axis 0) or columns (axis 1) of a store, mapped into memory."""
    files = manifest(path)["files"]
    names = (
        ("row_starts", "cols", "values", "weights")
        if axis == 0
        else ("col_starts", "rows", "col_values", "col_weights")
    )
    starts, partners, values, weights = (_mapped(path, each, files[each]) if each in files else None for each in names)
    assert starts is not None
    assert partners is not None
    assert values is not None
    return starts, partners, values, weights


def release_pages(*arrays: NDArray[Any] | None) -> None:
    """Let go of the pages of files that are mapped: they stay where they are, and count no more as this process's."""
    for each in arrays:
        pages = getattr(each, "_mmap", None)
        if pages is not None and hasattr(pages, "madvise"):
            pages.madvise(mmap.MADV_DONTNEED)


def manifest(path: Path) -> dict[str, Any]:
    """What a store says of itself."""
    if not path.exists():
        raise MissingDataError(f"there is no store {path}: make one with accams ingest")
    if not is_store(path):
        raise InputError(f"{path} is not a store of accams: it has no {MANIFEST}; make one with accams ingest")
    try:
        told: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        known, files = told["kind"] == KIND, told["files"] if told["format"] == FORMAT else {}
        known = known and all({"type", "size", "crc32"} <= set(each) for each in files.values())
        known = known and (told["format"] != FORMAT or {"shape", "about", "weight_step", "blank_weight"} <= set(told))
    except (ValueError, KeyError, TypeError, AttributeError):
        known = False
    if not known:
        raise InputError(f"{path / MANIFEST} is damaged: ingest the data again")
    if told["format"] != FORMAT:
        raise InputError(
            f"{path} is a store of format {told['format']}, and this version of accams reads format {FORMAT}: "
            "ingest the data again, or use the version that wrote it"
        )
    return told


def mapped(path: Path, manifest: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """All vectors of a store, mapped into memory."""
    return {name: _mapped(path, name, told) for name, told in manifest["files"].items()}


def _mapped(path: Path, name: str, told: dict[str, Any]) -> NDArray[Any]:
    file, kind, size = path / f"{name}.npy", np.dtype(told["type"]), int(told["size"])
    if not file.is_file():
        raise InputError(f"{file} is missing: ingest the data again")
    if file.stat().st_size != HEADER + size * kind.itemsize:
        raise InputError(f"{file} is damaged (it has not the length it should have): ingest the data again")
    if size == 0:
        return np.zeros(0, kind)
    return np.memmap(file, kind, "r", HEADER, (size,))


def index(found: dict[str, NDArray[Any]], side: str, size: int) -> Index:
    """The ids of one axis, from the vectors of a store; text is not read before it is needed."""
    if f"{side}_ids" in found:
        return Index(np.asarray(found[f"{side}_ids"]))
    if f"{side}_id_text" not in found:
        return Index(None, size)
    return LaterIndex(partial(_texts, found[f"{side}_id_text"], found[f"{side}_id_ends"]), size)


def _texts(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[Any]:
    whole, edges = text.tobytes(), [0, *ends.tolist()]
    ids = np.empty(len(ends), object)
    ids[:] = [whole[a:b].decode() for a, b in pairwise(edges)]
    return ids


def _checksum(file: Path) -> int:
    total = 0
    for block in _blocks(file):
        total = zlib.crc32(block, total)
    return total


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        opened.seek(HEADER)
        while block := opened.read(BLOCK):
            yield block


def _header(kind: np.dtype[Any], size: int) -> bytes:
    """The first bytes of an .npy file with one vector."""
    text = f"{{'descr': {kind.str!r}, 'fortran_order': False, 'shape': ({size},), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"
