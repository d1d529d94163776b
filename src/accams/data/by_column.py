"""The entries of a store by column, in bounded memory: dealt into buckets of columns, each sorted by itself."""

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
    folder: Path, shape: tuple[int, int], block: int, told: Callable[[float], None] = lambda share: None
) -> dict[str, dict[str, Any]]:
    """Write ``col_starts``, ``rows``, ``col_values`` and ``col_weights`` (if there are weights); what they are.

    About `block` entries are in memory at a time.
    """
    m, n = shape
    starts, given = np.load(folder / "row_starts.npy"), _given(folder)
    counts = np.zeros(n, np.int64)
    for p in range(0, len(given["cols"]), block):
        counts += np.bincount(given["cols"][p : p + block], minlength=n)
    edges = _cuts(counts, block)
    buckets = _Buckets(folder, edges, {**given, "rows": np.zeros(0, index_type(m))})
    for lo, hi in pairwise(_cuts(np.diff(starts), block)):
        buckets.deal(lo, hi, starts, given)
        told(0.5 * starts[hi] / starts[-1])
    names = {"rows": "rows", "values": "col_values", "weights": "col_weights"}
    columns = {
        name: store.Column(folder / f"{names[name]}.npy", kind) for name, kind in buckets.kinds.items() if name in names
    }
    for bucket in range(len(edges) - 1):
        for name, values in buckets.sorted(bucket).items():
            columns[name].append(values)
        told(0.5 + 0.5 * (bucket + 1) / (len(edges) - 1))
    files = {names[name]: each.close() for name, each in columns.items()}
    col_starts = np.concatenate([[0], np.cumsum(counts)])
    return {**files, "col_starts": store.write(folder / "col_starts.npy", col_starts)}


def _given(folder: Path) -> Arrays:
    names = [name for name in ("cols", "values", "weights") if (folder / f"{name}.npy").is_file()]
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}


def _cuts(counts: NDArray[np.int64], block: int) -> list[int]:
    """Ranges of about `block` entries, or of one row (column) that has more."""
    ends = np.cumsum(counts)
    inner = np.searchsorted(ends, np.arange(block, ends[-1], block)) + 1
    return [0, *np.unique(inner[inner < len(counts)]).tolist(), len(counts)]


class _Buckets:
    """Entries of a range of columns each, in the order in which they come, in files of their own."""

    def __init__(self, folder: Path, edges: list[int], like: Arrays) -> None:
        self.folder, self.kinds, self.edges = folder, {name: each.dtype for name, each in like.items()}, edges
        self._of = np.repeat(np.arange(len(edges) - 1), np.diff(edges)).astype(np.uint32)
        for name in self.kinds:
            for bucket in range(len(edges) - 1):
                self._path(name, bucket).write_bytes(b"")

    def deal(self, lo: int, hi: int, starts: NDArray[np.int64], given: Arrays) -> None:
        """The entries of rows lo .. hi to their buckets."""
        here = {name: np.asarray(each[starts[lo] : starts[hi]]) for name, each in given.items()}
        here["rows"] = np.repeat(np.arange(lo, hi), np.diff(starts[lo : hi + 1])).astype(self.kinds["rows"])
        order, ends = _stable(self._of[here["cols"]], len(self.edges) - 1)
        for name, values in here.items():
            for bucket, part in enumerate(np.split(values[order], ends[:-1])):
                with self._path(name, bucket).open("ab") as file:  # one at a time: there may be thousands
                    file.write(np.ascontiguousarray(part).view(np.uint8).data)

    def sorted(self, bucket: int) -> Arrays:
        """All entries of a bucket by column; its files are removed."""
        found = {name: np.fromfile(self._path(name, bucket), kind) for name, kind in self.kinds.items()}
        for name in found:
            self._path(name, bucket).unlink()
        first, last = self.edges[bucket], self.edges[bucket + 1]
        order, _ = _stable(found.pop("cols").astype(np.int64) - first, last - first)
        return {name: values[order] for name, values in found.items()}

    def _path(self, name: str, bucket: int) -> Path:
        return self.folder / f"bucket-{bucket}-{name}.bin"


def _stable(keys: NDArray[Any], size: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The stable order by keys below `size`, and where each key ends in it."""
    ends = np.cumsum(np.bincount(keys, minlength=size))
    order = np.empty(len(keys), np.uint32)
    slots = np.concatenate([[0], ends[:-1]])
    kernels.stable_order(keys, np.arange(len(keys), dtype=np.uint32), slots, order)
    return order, ends
