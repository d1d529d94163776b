"""A store in two parts: what is held out comes into memory, and the rest is a store of its own beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import store
from accams.errors import InputError

Positions = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Fields = dict[str, Any]
BLOCK = 1 << 22  # entries that are in memory at a time
ORDERS = ("row_starts", ("cols", "values", "weights", "times")), ("col_starts", ("rows", "col_values", "col_weights"))


class Scratch:
    """A folder beside a store, where large files have room (elsewhere if that is not allowed), for a while.

    It is removed when nobody in this process has this object any more; whoever may read the store may read it.
    """

    def __init__(self, beside: Path) -> None:
        try:
            made = tempfile.mkdtemp(prefix=f".{beside.name.lstrip('.')}-", dir=beside.resolve().parent)
        except OSError:
            made = tempfile.mkdtemp(prefix=".accams-")
        self.path = Path(made)
        self.remove = weakref.finalize(self, _removed, made, os.getpid())
        with suppress(OSError):
            self.path.chmod(beside.stat().st_mode & 0o777 | 0o700)

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return self  # the folder is there for both

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # and not for other processes


def _removed(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not by those that it has started
        shutil.rmtree(folder, ignore_errors=True)


def can_part(source: Path) -> bool:
    """Whether the store is still there, and mapped files can be removed."""
    return store.is_store(source) and os.name != "nt"


def split(source: Path, held: Positions) -> tuple[Fields, Fields]:
    """Fields of `Observations` of all entries but these, which are a store (without ids), and of these.

    `held` are positions in row order, ascending.
    """
    manifest, scratch = store.manifest(source), Scratch(source)
    arrays = store.mapped(source, manifest)
    places = held, _by_column(arrays, held)
    files, taken, kept = dict[str, Any](), Arrays(), scratch.path
    try:
        for (starts, names), each in zip(ORDERS, places, strict=True):
            files[starts] = store.write(kept / f"{starts}.npy", arrays[starts] - _below(each, arrays[starts]))
            for name in names:
                if name in arrays:
                    files[name], taken[name] = _divided(arrays[name], each, kept / f"{name}.npy")
    except OSError as error:
        raise InputError(
            f"there is no room in {kept.parent} for a copy of {source} without what is held out ({error.strerror}): "
            "free some space, or hold nothing out (no early stopping, no test part, noise that is not calibrated)"
        ) from None
    told = {name: manifest[name] for name in ("shape", "weight_step", "blank_weight")}
    weights = np.load(kept / "weights.npy", "r") if "weights" in files else None
    store.write_manifest(kept, files, about=store.about(np.load(kept / "values.npy", "r"), weights), **told)
    rest = store.read(kept, verify=False)
    rest["_pattern"]["scratch"] = scratch
    return rest, {
        "row_starts": _below(held, arrays["row_starts"]), "cols": taken["cols"], "stored_values": taken["values"],
        "stored_weights": taken.get("weights"), "times": taken.get("times"), "_pattern": {},
    }  # fmt: skip


def _below(places: Positions, starts: NDArray[np.int64]) -> Positions:
    """How many of these places lie before each start."""
    return np.searchsorted(places, np.asarray(starts)).astype(np.int64)


def _by_column(arrays: Arrays, held: Positions) -> Positions:
    """The same entries as positions in column order, ascending."""
    rows = np.searchsorted(arrays["row_starts"], held, side="right") - 1
    cols = np.empty(len(held), np.int64)
    for lo, hi in _blocks(len(arrays["cols"])):
        first, last = np.searchsorted(held, (lo, hi))
        cols[first:last] = arrays["cols"][held[first:last]]
        store.release_pages(arrays["cols"])
    order = np.lexsort((rows, cols))
    rows, cols = rows[order].astype(arrays["rows"].dtype), cols[order]
    found, done = np.empty(len(held), np.int64), 0
    for first, last in pairwise([*np.flatnonzero(np.diff(cols, prepend=-1)).tolist(), len(cols)]):
        lo, hi = arrays["col_starts"][cols[first]], arrays["col_starts"][cols[first] + 1]
        found[first:last] = lo + np.searchsorted(arrays["rows"][lo:hi], rows[first:last])
        if hi - done > BLOCK:
            store.release_pages(arrays["rows"])
            done = hi
    store.release_pages(arrays["rows"])
    return found


def _divided(array: NDArray[Any], held: Positions, path: Path) -> tuple[dict[str, Any], NDArray[Any]]:
    """Write what is not held; what the manifest says of it, and what is held."""
    column, taken = store.Column(path, array.dtype), [np.zeros(0, array.dtype)]
    for lo, hi in _blocks(len(array)):
        first, last = np.searchsorted(held, (lo, hi))
        keep = np.ones(hi - lo, bool)
        keep[held[first:last] - lo] = False
        column.append(array[lo:hi][keep])
        taken.append(array[lo:hi][~keep])
        store.release_pages(array)
    return column.close(), np.concatenate(taken)


def _blocks(size: int) -> list[tuple[int, int]]:
    return [(lo, min(lo + BLOCK, size)) for lo in range(0, size, BLOCK)]
