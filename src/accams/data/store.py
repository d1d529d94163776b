"""Stores: observations in row and column order as files in a folder, possibly larger than memory.

A manifest and plain ``.npy`` files; docs/internals/files.md describes the layout.
"""

import json
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type, to_column_order
from accams.data.checks import BY_COL, BY_ROW, check_content, check_ends, check_part, is_time, wrong_in_manifest
from accams.data.ids import Index, LazyIndex, example
from accams.data.pages import release_pages
from accams.errors import InputError, MissingDataError
from accams.threads import ranges_of
from accams.writing import new_folder, reported

KIND, FORMAT, MANIFEST = "accams store", 1, "store.json"
HEADER = 128  # bytes of the .npy header; fixed, so that it can be rewritten once the length is known
PIECE = 1 << 22  # entries summed at a time
Arrays = dict[str, NDArray[Any]]
Identity = tuple[tuple[int, ...], ...]
PROVEN: dict[Identity, bool] = {}  # stores that this process has scanned
MOST_PROVEN, YOUNG = 256, 2 * 10**9  # nanoseconds


class Column:
    """Writer of a vector to an .npy file, piece by piece."""

    def __init__(self, path: Path, kind: Any) -> None:
        self.path, self.kind = path, np.dtype(kind)
        self.size = self._sum = 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER))

    def append(self, values: NDArray[Any]) -> None:
        data = np.ascontiguousarray(values, self.kind)
        content = data.view(np.uint8).data  # datetime64 does not export a buffer
        self._file.write(content)
        self._sum = zlib.crc32(content, self._sum)
        self.size += data.size

    def close(self) -> dict[str, Any]:
        """Finish the file and return its manifest entry."""
        self._file.seek(0)
        self._file.write(_header(self.kind, self.size))
        self._file.close()
        return {"type": self.kind.str, "size": self.size, "crc32": self._sum}


def write(path: Path, values: NDArray[Any]) -> dict[str, Any]:
    """Write a vector to an .npy file and return its manifest entry."""
    column = Column(path, values.dtype)
    column.append(values)
    return column.close()


def write_ids(folder: Path, side: str, pieces: Iterable[NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Write the ids of one axis, all integers or all text, and return the manifest entries."""
    columns, end = dict[str, Column](), 0

    def append(name: str, values: NDArray[Any]) -> None:
        if name not in columns:
            columns[name] = Column(folder / f"{name}.npy", values.dtype)
        columns[name].append(values)

    for ids in pieces:
        if ids.dtype.kind == "i":
            append(f"{side}_ids", ids)
            continue
        texts = [text.encode() for text in ids.tolist()]
        ends = end + np.cumsum([len(text) for text in texts], dtype=np.int64)
        append(f"{side}_id_text", np.frombuffer(b"".join(texts), np.uint8))
        append(f"{side}_id_ends", ends)
        end = int(ends[-1])
    return {name: column.close() for name, column in columns.items()}


def write_manifest(folder: Path, files: dict[str, dict[str, Any]], **attributes: Any) -> None:
    """Write the manifest, which completes a store."""
    text = json.dumps({"kind": KIND, "format": FORMAT, **attributes, "files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n")


def summarize(values: NDArray[Any], weights: NDArray[Any] | None) -> dict[str, Any]:
    """Compute range and sums of values and weights.

    Sums are taken piece by piece, so that they are the same for data in memory and on disk.
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


def save(path: Path, fields: dict[str, Any], by_column: tuple[NDArray[Any], NDArray[Any]]) -> None:
    """Write fields of `Observations`, and starts and rows of its columns, as a store; the inverse of `read`."""
    indices = {"row": fields["row_index"], "col": fields["col_index"]}
    for index in indices.values():
        if index.ids.dtype.kind != "i" and not all(isinstance(x, str) for x in index.ids.tolist()):
            raise InputError(f"ids in a store must be integers or text, not {example(index.ids)}")
    if fields["times"] is not None and not is_time(fields["times"].dtype.str):
        raise InputError(f"times in a store must be numbers or dates, not {fields['times'].dtype}")
    starts, cols, n_cols = fields["row_starts"], fields["cols"], fields["shape"][1]
    by_row = {"values": fields["stored_values"], "weights": fields["stored_weights"]}
    arrays = {"row_starts": starts, "col_starts": by_column[0], "cols": cols, "rows": by_column[1]}
    arrays |= {"times": fields["times"], **by_row}
    with new_folder(path) as folder, reported(path):
        files = {name: write(folder / f"{name}.npy", array) for name, array in arrays.items() if array is not None}
        for name, array in by_row.items():
            if array is not None:
                col_array = to_column_order(starts, cols, n_cols, array)
                files[f"col_{name}"] = write(folder / f"col_{name}.npy", col_array)
        for side, index in indices.items():
            files |= {} if index.is_positional else write_ids(folder, side, [index.ids])
        attributes = {name: fields[name] for name in ("shape", "weight_step", "blank_weight")}
        write_manifest(folder, files, about=summarize(**by_row), **attributes)


def is_store(path: Path) -> bool:
    """Return whether the path is a folder with a manifest."""
    return (path / MANIFEST).is_file()


def read(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """Return the fields of `Observations` from a store, as memory-mapped arrays.

    Types, lengths and ends are checked. Without `trust`, all entries are scanned and checksums compared, once for the
    same files.
    """
    meta = manifest(path)
    arrays = mapped(path, meta)
    check_ends(path, arrays)
    if not trust and (identity := _identity(path, arrays)) not in PROVEN:
        check_content(path, meta, arrays)
        _remember(identity)
    m, n = meta["shape"]
    return {
        "shape": (m, n), "row_starts": arrays["row_starts"], "cols": arrays["cols"], "stored_values": arrays["values"],
        "row_index": index(arrays, "row", m), "col_index": index(arrays, "col", n),
        "stored_weights": arrays.get("weights"), "weight_step": meta["weight_step"], "times": arrays.get("times"),
        "blank_weight": meta["blank_weight"], "_cache": {
            "by_column": (arrays["col_starts"], arrays["rows"]), "store": path, "about": meta["about"],
        },
    }  # fmt: skip


def _identity(path: Path, names: Iterable[str]) -> Identity:
    """Return what changes when a file is written or replaced; not even its owner can set the time of that change."""
    found = [(path / file).stat() for file in (MANIFEST, *(f"{name}.npy" for name in names))]
    return tuple((x.st_dev, x.st_ino, x.st_size, x.st_mtime_ns, x.st_ctime_ns) for x in found)


def _remember(identity: Identity) -> None:
    """Remember files that have been checked, unless they are so young that a later change might have the same time."""
    if max(changed for *_, changed in identity) < time_ns() - YOUNG:
        while len(PROVEN) >= MOST_PROVEN:
            PROVEN.pop(next(iter(PROVEN)))
        PROVEN[identity] = True


def stamp(path: Path) -> int:
    """Return a fingerprint of a store: the checksum of its manifest, which holds those of all files."""
    return zlib.crc32((path / MANIFEST).read_bytes())


def order(path: Path, axis: int, first: int, last: int) -> tuple[Any, Any, Any, Any]:
    """Map starts, partners, values and weights of the rows (axis 0) or columns (axis 1) of a store.

    The entries of first .. last are checked, on which alone may be relied.
    """
    meta, names = manifest(path), (BY_ROW, BY_COL)[axis]
    files = meta["files"]
    arrays = {name: _mapped(path, name, files[name]) for name in names if name in files}
    check_ends(path, arrays)
    check_part(path, axis, meta["shape"], arrays, first, last)
    starts, partners, values = (arrays[name] for name in names[:3])
    return starts, partners, values, arrays.get(names[3])


def manifest(path: Path) -> dict[str, Any]:
    """Read and validate the manifest of a store."""
    if not path.exists():
        raise MissingDataError(f"there is no store {path}: create one with accams ingest")
    if not is_store(path):
        raise InputError(f"{path} is not an accams store (it has no {MANIFEST}): create one with accams ingest")
    try:
        meta: dict[str, Any] = json.loads((path / MANIFEST).read_bytes())
        valid = meta["kind"] == KIND and isinstance(meta["format"], int)
    except (ValueError, KeyError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise InputError(f"{path / MANIFEST} is damaged: ingest the data again")
    if meta["format"] != FORMAT:
        raise InputError(
            f"{path} is a store of format {meta['format']}, and this version of accams reads format {FORMAT}: "
            "ingest the data again, or use the version that wrote it"
        )
    wrong = wrong_in_manifest(meta)
    if wrong is not None:
        raise InputError(f"{path / MANIFEST} is damaged (its entry {wrong!r:.60} cannot be): ingest the data again")
    return meta


def mapped(path: Path, manifest: dict[str, Any]) -> Arrays:
    """Map all arrays of a store."""
    return {name: _mapped(path, name, entry) for name, entry in manifest["files"].items()}


def _mapped(path: Path, name: str, entry: dict[str, Any]) -> NDArray[Any]:
    file, kind, size = path / f"{name}.npy", np.dtype(entry["type"]), int(entry["size"])
    if not file.is_file():
        raise InputError(f"{file} is missing: ingest the data again")
    if file.stat().st_size != HEADER + size * kind.itemsize:
        raise InputError(f"{file} is damaged (wrong length): ingest the data again")
    with file.open("rb") as opened:
        if opened.read(HEADER) != _header(kind, size):
            raise InputError(f"{file} is damaged (wrong header): ingest the data again")
    if size == 0:
        return np.zeros(0, kind)
    return np.memmap(file, kind, "r", HEADER, (size,))


def index(arrays: Arrays, side: str, size: int) -> Index:
    """Return the ids of one axis; text is read on first use."""
    if f"{side}_ids" in arrays:
        return Index(np.asarray(arrays[f"{side}_ids"]))
    if f"{side}_id_text" not in arrays:
        return Index(None, size)
    return LazyIndex(partial(_texts, arrays[f"{side}_id_text"], arrays[f"{side}_id_ends"]), size)


def _texts(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[Any]:
    content, edges = text.tobytes(), [0, *ends.tolist()]
    try:
        ids = [content[a:b].decode() for a, b in pairwise(edges)]
    except UnicodeDecodeError:
        raise InputError("the ids of this store are damaged (no text): ingest the data again") from None
    if len(set(ids)) != len(ids):
        raise InputError("the ids of this store are damaged (some are there twice): ingest the data again")
    return np.fromiter(ids, dtype=object, count=len(ids))


def _header(kind: np.dtype[Any], size: int) -> bytes:
    text = f"{{'descr': {kind.str!r}, 'fortran_order': False, 'shape': ({size},), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"


def by_column(
    folder: Path, shape: tuple[int, int], block: int, progress: Callable[[float], None] = lambda share: None
) -> dict[str, dict[str, Any]]:
    """Write ``col_starts``, ``rows``, ``col_values`` and ``col_weights`` (if weighted); return the manifest entries.

    A bucket sort on disk: about `block` entries are in memory at a time.
    """
    m, n = shape
    files = {name: folder / f"{name}.npy" for name in ("cols", "values", "weights")}
    by_row = {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.is_file()}
    starts = np.load(folder / "row_starts.npy")
    counts = np.zeros(n, np.int64)
    for p in range(0, len(by_row["cols"]), block):
        counts += np.bincount(by_row["cols"][p : p + block], minlength=n)
    col_starts = np.concatenate([[0], np.cumsum(counts)])
    edges = [0, *(end for _, end in ranges_of(col_starts, block))]
    buckets = _Buckets(folder, edges, {**by_row, "rows": np.zeros(0, index_type(m))})
    for lo, hi in ranges_of(starts, block):
        buckets.distribute(lo, hi, starts, by_row)
        progress(0.5 * starts[hi] / starts[-1])
    names = {"rows": "rows", "values": "col_values", "weights": "col_weights"}
    columns = {x: Column(folder / f"{names[x]}.npy", kind) for x, kind in buckets.kinds.items() if x in names}
    for bucket in range(len(edges) - 1):
        for name, values in buckets.sorted(bucket).items():
            columns[name].append(values)
        progress(0.5 + 0.5 * (bucket + 1) / (len(edges) - 1))
    written = {names[name]: column.close() for name, column in columns.items()}
    return {**written, "col_starts": write(folder / "col_starts.npy", col_starts)}


class _Buckets:
    """Entries by range of columns, each range in files of its own, in order of arrival."""

    def __init__(self, folder: Path, edges: list[int], like: Arrays) -> None:
        self.folder, self.kinds, self.edges = folder, {name: array.dtype for name, array in like.items()}, edges
        self._bucket_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges)).astype(np.uint32)
        for name in self.kinds:
            for bucket in range(len(edges) - 1):
                self._path(name, bucket).write_bytes(b"")

    def distribute(self, lo: int, hi: int, starts: NDArray[np.int64], by_row: Arrays) -> None:
        """Append the entries of rows [lo, hi) to their buckets."""
        block = {name: np.asarray(array[starts[lo] : starts[hi]]) for name, array in by_row.items()}
        block["rows"] = np.repeat(np.arange(lo, hi), np.diff(starts[lo : hi + 1])).astype(self.kinds["rows"])
        order, ends = _stable(self._bucket_of[block["cols"]], len(self.edges) - 1)
        for name, values in block.items():
            for bucket, part in enumerate(np.split(values[order], ends[:-1])):
                with self._path(name, bucket).open("ab") as file:  # not kept open: there may be thousands
                    file.write(np.ascontiguousarray(part).view(np.uint8).data)

    def sorted(self, bucket: int) -> Arrays:
        """Return the entries of a bucket sorted by column, and remove its files."""
        arrays = {name: np.fromfile(self._path(name, bucket), kind) for name, kind in self.kinds.items()}
        for name in arrays:
            self._path(name, bucket).unlink()
        first, last = self.edges[bucket], self.edges[bucket + 1]
        order, _ = _stable(arrays.pop("cols").astype(np.int64) - first, last - first)
        return {name: values[order] for name, values in arrays.items()}

    def _path(self, name: str, bucket: int) -> Path:
        return self.folder / f"bucket-{bucket}-{name}.bin"


def _stable(keys: NDArray[Any], size: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the stable order by keys below `size`, and the end of each key in it."""
    from accams.kernels import order as kernels

    ends = np.cumsum(np.bincount(keys, minlength=size))
    order = np.empty(len(keys), np.uint32)
    slots = np.concatenate([[0], ends[:-1]])
    kernels.stable_order(keys, np.arange(len(keys), dtype=np.uint32), slots, order)
    return order, ends
