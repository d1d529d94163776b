"""Hold entries out of a store: they are loaded into memory, and the rest becomes a temporary store."""

import os
import shutil
import weakref
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accams.data import store
from accams.data.checks import BY_COL, BY_ROW
from accams.data.pages import release_pages
from accams.errors import WriteError
from accams.writing import make_folder, make_scratch

Positions = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Fields = dict[str, Any]
BLOCK = 1 << 22  # entries in memory at a time


class ScratchFolder:
    """Temporary folder beside a store, or in the system's temporary folder if that is not writable.

    It is removed when this object is garbage-collected, and readable by everyone who may read the store.
    """

    def __init__(self, beside: Path) -> None:
        try:
            self.path = make_folder(beside.resolve().parent, beside.name)
        except OSError:
            self.path = make_scratch()
        self.remove = weakref.finalize(self, _remove, str(self.path), os.getpid())
        with suppress(OSError):
            self.path.chmod(beside.stat().st_mode & 0o777 | 0o700)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # copies share the folder

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # other processes do not own the folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child runs the finalizer too
        shutil.rmtree(folder, ignore_errors=True)


def can_split(source: Path) -> bool:
    """Return whether the store still exists, on a system where mapped files can be removed."""
    return store.is_store(source) and os.name != "nt"


def split(source: Path, held: Positions) -> tuple[Fields, Fields]:
    """Return fields of `Observations` for the rest (a temporary store, without ids) and for the held-out entries.

    `held` are ascending positions in row order.
    """
    manifest, scratch = store.manifest(source), ScratchFolder(source)
    arrays = store.mapped(source, manifest)
    positions = held, _by_column(arrays, held)
    files, selected, folder = dict[str, Any](), Arrays(), scratch.path
    try:
        for (starts, *names), held_in_order in zip(((*BY_ROW, "times"), BY_COL), positions, strict=True):
            rest_starts = arrays[starts] - _count_below(held_in_order, arrays[starts])
            files[starts] = store.write(folder / f"{starts}.npy", rest_starts)
            for name in names:
                if name in arrays:
                    files[name], selected[name] = _split_array(arrays[name], held_in_order, folder / f"{name}.npy")
        attributes = {name: manifest[name] for name in ("shape", "weight_step", "blank_weight")}
        weights = np.load(folder / "weights.npy", "r") if "weights" in files else None
        about = store.summarize(np.load(folder / "values.npy", "r"), weights)
        store.write_manifest(folder, files, about=about, **attributes)
    except BaseException as error:
        scratch.remove()  # not only when the traceback is gone
        if not isinstance(error, OSError):
            raise
        raise WriteError(
            f"there is no room in {folder.parent} for a copy of {source} without the held-out data "
            f"({error.strerror}): free some space, or fit without early stopping, test split and calibrated noise"
        ) from None
    rest = store.read(folder, trust=True)
    rest["_cache"]["scratch"] = scratch
    row_starts = _count_below(held, arrays["row_starts"])
    return rest, {
        "row_starts": row_starts, "cols": selected["cols"], "stored_values": selected["values"],
        "stored_weights": selected.get("weights"), "times": selected.get("times"), "_cache": {},
    }  # fmt: skip


def _count_below(positions: Positions, starts: NDArray[np.int64]) -> Positions:
    return np.searchsorted(positions, np.asarray(starts)).astype(np.int64)


def _by_column(arrays: Arrays, held: Positions) -> Positions:
    """Convert positions in row order to ascending positions in column order."""
    rows = np.searchsorted(arrays["row_starts"], held, side="right") - 1
    cols = np.empty(len(held), np.int64)
    for lo, hi in _blocks(len(arrays["cols"])):
        first, last = np.searchsorted(held, (lo, hi))
        cols[first:last] = arrays["cols"][held[first:last]]
        release_pages(arrays["cols"])
    order = np.lexsort((rows, cols))
    rows, cols = rows[order].astype(arrays["rows"].dtype), cols[order]
    positions, released = np.empty(len(held), np.int64), 0
    for first, last in pairwise([*np.flatnonzero(np.diff(cols, prepend=-1)).tolist(), len(cols)]):
        lo, hi = arrays["col_starts"][cols[first]], arrays["col_starts"][cols[first] + 1]
        positions[first:last] = lo + np.searchsorted(arrays["rows"][lo:hi], rows[first:last])
        if hi - released > BLOCK:
            release_pages(arrays["rows"])
            released = hi
    release_pages(arrays["rows"])
    return positions


def _split_array(array: NDArray[Any], held: Positions, path: Path) -> tuple[dict[str, Any], NDArray[Any]]:
    """Write the rest of an array to a file; return its manifest entry and the held-out values."""
    column, selected = store.Column(path, array.dtype), [np.zeros(0, array.dtype)]
    for lo, hi in _blocks(len(array)):
        first, last = np.searchsorted(held, (lo, hi))
        keep = np.ones(hi - lo, bool)
        keep[held[first:last] - lo] = False
        column.append(array[lo:hi][keep])
        selected.append(array[lo:hi][~keep])
        release_pages(array)
    return column.close(), np.concatenate(selected)


def _blocks(size: int) -> list[tuple[int, int]]:
    return [(lo, min(lo + BLOCK, size)) for lo in range(0, size, BLOCK)]
