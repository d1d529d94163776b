"""Sort the entries of a store by column in bounded memory: a bucket sort on disk."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import store
from accams.data.build import index_type
from accams.kernels import order as kernels

Arrays = dict[str, NDArray[Any]]


def by_column(
    folder: Path, shape: tuple[int, int], block: int, progress: Callable[[float], None] = lambda share: None
) -> dict[str, dict[str, Any]]:
    """Write ``col_starts``, ``rows``, ``col_values`` and ``col_weights`` (if weighted); return the manifest entries.

    About `block` entries are in memory at a time.
    """
    m, n = shape
    starts, by_row = np.load(folder / "row_starts.npy"), _mapped(folder)
    counts = np.zeros(n, np.int64)
    for p in range(0, len(by_row["cols"]), block):
        counts += np.bincount(by_row["cols"][p : p + block], minlength=n)
    edges = _cuts(counts, block)
    buckets = _Buckets(folder, edges, {**by_row, "rows": np.zeros(0, index_type(m))})
    for lo, hi in pairwise(_cuts(np.diff(starts), block)):
        buckets.distribute(lo, hi, starts, by_row)
        progress(0.5 * starts[hi] / starts[-1])
    names = {"rows": "rows", "values": "col_values", "weights": "col_weights"}
    columns = {
        name: store.Column(folder / f"{names[name]}.npy", kind) for name, kind in buckets.kinds.items() if name in names
    }
    for bucket in range(len(edges) - 1):
        for name, values in buckets.sorted(bucket).items():
            columns[name].append(values)
        progress(0.5 + 0.5 * (bucket + 1) / (len(edges) - 1))
    files = {names[name]: column.close() for name, column in columns.items()}
    col_starts = np.concatenate([[0], np.cumsum(counts)])
    return {**files, "col_starts": store.write(folder / "col_starts.npy", col_starts)}


def _mapped(folder: Path) -> Arrays:
    names = [name for name in ("cols", "values", "weights") if (folder / f"{name}.npy").is_file()]
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}


def _cuts(counts: NDArray[np.int64], block: int) -> list[int]:
    """Return edges of ranges of about `block` entries, or of single rows (columns) with more."""
    ends = np.cumsum(counts)
    inner = np.searchsorted(ends, np.arange(block, ends[-1], block)) + 1
    return [0, *np.unique(inner[inner < len(counts)]).tolist(), len(counts)]


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
    ends = np.cumsum(np.bincount(keys, minlength=size))
    order = np.empty(len(keys), np.uint32)
    slots = np.concatenate([[0], ends[:-1]])
    kernels.stable_order(keys, np.arange(len(keys), dtype=np.uint32), slots, order)
    return order, ends
