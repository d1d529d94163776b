"""What must hold of a store before anything is computed from it.

Kernels have no bounds checks, and whoever writes a store can make its checksums right. So types, lengths and ends are
checked whenever a store is opened, and positions, values, and that both orders say the same in a scan of all of it.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.data.pages import release_pages
from accams.errors import InputError
from accams.threads import Threads, ranges_of

THREADS, LOCK = Threads(), Lock()
BLOCK = 1 << 23  # entries of each order that are scanned before the next
PIECE = 1 << 20  # values that are summed at a time
AGAIN = "ingest the data again"
MOST = 1 << 48  # rows, columns or entries
LARGEST_WEIGHT = 1e100
UNITS = "Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as"
TIME = re.compile(rf"\|[iu]1|[<>](?:[iu][248]|f[248]|M8(?:\[(?:[1-9][0-9]{{0,3}})?(?:{UNITS})\])?)")
FLOATS = "<f2", "<f4", "<f8"
TOLERANCE = 1e-9  # relative, of sums: processors add in different orders
BY_ROW = "row_starts", "cols", "values", "weights"
BY_COL = "col_starts", "rows", "col_values", "col_weights"
PAIRS = ("values", "col_values"), ("weights", "col_weights")  # of one type, in both orders
ENDS = ("row_starts", "cols"), ("col_starts", "rows"), ("row_id_ends", "row_id_text"), ("col_id_ends", "col_id_text")
Arrays = dict[str, NDArray[Any]]
Kinds = dict[str, tuple[tuple[str, ...], int]]  # types that a file may have, and its length


def wrong_in_manifest(meta: dict[str, Any]) -> str | None:
    """Return which entry of a manifest has a wrong type, range or length, or None."""
    shape, files, blank = meta.get("shape"), meta.get("files"), meta.get("blank_weight", -1.0)
    if not (isinstance(shape, list) and len(shape) == 2 and all(_is_size(x) and x > 0 for x in shape)):
        return "shape"
    if not (isinstance(files, dict) and all(map(_is_entry, files.values()))):
        return "files"
    if not _is_positive(meta.get("weight_step")):
        return "weight_step"
    if blank is not None and not _is_positive(blank):
        return "blank_weight"
    return _wrong_file(shape, files) or _wrong_summary(meta.get("about"), "weights" in files)


def _wrong_file(shape: list[int], files: dict[str, dict[str, Any]]) -> str | None:
    """Return the name of a file that is missing or unknown, or whose type or length does not fit the others."""
    needed, possible = _kinds(shape, files)
    for name in sorted(needed.keys() | files.keys()):
        types, size = possible.get(name, ((), 0))
        if name not in files or files[name]["type"] not in types or files[name]["size"] != size:
            return name
    for one, other in PAIRS:
        if files.get(one, {}).get("type") != files.get(other, {}).get("type"):
            return other
    for side in ("row", "col"):
        if (f"{side}_id_text" in files) != (f"{side}_id_ends" in files):
            return f"{side}_id_ends"
    return None


def _kinds(shape: list[int], files: dict[str, dict[str, Any]]) -> tuple[Kinds, Kinds]:
    """Return the files that a store of this shape must have, and those that it may have."""
    (m, n), entries = shape, files.get("cols", {}).get("size", 0)
    needed: Kinds = {"row_starts": (("<i8",), m + 1), "col_starts": (("<i8",), n + 1)}
    for index, size in (("cols", n), ("rows", m)):
        needed[index] = (np.dtype(index_type(size)).str,), entries
    needed |= dict.fromkeys(PAIRS[0], (FLOATS, entries))
    possible = {**needed, **dict.fromkeys(PAIRS[1], (("<i4",), entries))}
    for side, size in (("row", m), ("col", n)):
        length = files.get(f"{side}_id_text", {}).get("size", 0)
        possible |= {f"{side}_ids": (("<i8",), size), f"{side}_id_ends": (("<i8",), size)}
        possible[f"{side}_id_text"] = ("|u1",), length
    times = files.get("times", {}).get("type", "")
    possible["times"] = ((times,) if is_time(times) else ()), entries
    return needed, possible


def _wrong_summary(about: Any, weighted: bool) -> str | None:
    if not isinstance(about, dict):
        return "about"
    span, names = about.get("value_range"), ("weight", "weighted_sum")
    ranged = isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)) and span[0] <= span[1]
    sums = all(name in about and (_is_number(about[name]) if weighted else about[name] is None) for name in names)
    return None if ranged and sums and _is_number(about.get("sum")) else "about"


def check_ends(path: Path, arrays: Arrays) -> None:
    """Raise unless the starts of rows and columns, and the ends of ids, ascend from 0 to the last entry."""
    from accams.kernels.checks import first_descent

    for name, of in ENDS:
        if name not in arrays:
            continue
        ends, last = arrays[name], len(arrays[of])
        begins = ends[0] == 0 if name.endswith("starts") else ends[0] >= 0
        if not begins or ends[-1] != last or first_descent(ends) >= 0:
            raise InputError(f"{path / name}.npy is damaged (it does not ascend to {last}): ingest the data again")


def check_content(path: Path, meta: dict[str, Any], arrays: Arrays) -> None:
    """Read a store once; raise unless every entry can be, both orders say the same, and sums are as the manifest says.

    Damage to one order shows in its difference from the other, so checksums are compared for the other files, and for
    all of them where something is wrong.
    """
    orders = [_Order(path, axis, meta["shape"], arrays) for axis in (0, 1)]
    in_orders = {name for order in orders for name in order.names[1:] if name in arrays}
    _check_sums(path, meta, {name: x for name, x in arrays.items() if name not in in_orders})
    for name in arrays.keys() & {"row_ids", "col_ids"}:
        if len(np.unique(arrays[name])) != len(arrays[name]):
            raise InputError(f"{path / name}.npy is damaged (some ids are there twice): {AGAIN}")
    for blocks in zip_longest(*(ranges_of(order.starts, BLOCK) for order in orders)):
        pairs = zip(orders, blocks, strict=True)
        _together([task for order, block in pairs if block is not None for task in order.tasks(*block)])
        release_pages(*(arrays[name] for name in in_orders))
    same = orders[0].total == orders[1].total and not any(order.bad for order in orders)
    if not same or not _is_summary(meta["about"], orders[0].summary(), orders[0].entries):
        _check_sums(path, meta, arrays)  # an accident: it names the file
    for order in orders:
        order.check()
    if not same:
        raise InputError(f"{path} is damaged (its rows and its columns have different entries): {AGAIN}")
    if not _is_summary(meta["about"], orders[0].summary(), orders[0].entries):
        raise InputError(f"{path} is damaged (its values are not those that its manifest says): {AGAIN}")


def check_part(path: Path, axis: int, shape: tuple[int, int], arrays: Arrays, first: int, last: int) -> None:
    """Scan the entries of some rows (axis 0) or columns of a store; raise unless each of them can be."""
    order = _Order(path, axis, shape, arrays)
    for lo, hi in ranges_of(order.starts[first : last + 1], BLOCK):
        _together(order.tasks(first + lo, first + hi))
        release_pages(*arrays.values())
    order.check()


def _check_sums(path: Path, meta: dict[str, Any], arrays: Arrays) -> None:
    """Raise unless the checksums of these files are those of the manifest."""
    for name, x in arrays.items():
        total = 0
        for at in range(0, len(x), BLOCK):
            total = crc32(x[at : at + BLOCK].view(np.uint8).data, total)
            release_pages(x)
        if total != meta["files"][name]["crc32"]:
            raise InputError(f"{path / name}.npy is damaged (wrong checksum): {AGAIN}")


def _together(tasks: list[Callable[[], None]]) -> None:
    THREADS.map(lambda task, _: tasks[task](), [(task, task + 1) for task in range(len(tasks))])


class _Order:
    """One order of a store and what has been found in it so far."""

    def __init__(self, path: Path, axis: int, shape: Sequence[int], arrays: Arrays) -> None:
        self.path, self.axis, self.size, self.names = path, axis, shape[1 - axis], (BY_ROW, BY_COL)[axis]
        self.starts, self.partners, self.values = (arrays[name] for name in self.names[:3])
        self.weights, self.entries = arrays.get(self.names[3]), len(self.values)
        self.bits = self.values.view(f"u{self.values.dtype.itemsize}")
        self.special = np.array(np.inf, self.values.dtype).view(self.bits.dtype)[()]  # all bits of the exponent
        self.bad, self.total = list[int](), 0
        self.sums = [np.array([np.inf, -np.inf, 0.0, 0.0, 0.0])]

    def tasks(self, lo: int, hi: int) -> list[Callable[[], None]]:
        """Return scans of pieces of rows (columns) lo .. hi, and for rows those that sum their values."""
        pieces = ranges_of(self.starts[lo : hi + 1], -(-BLOCK // THREADS.n_threads))
        tasks: list[Callable[[], None]] = [partial(self._scan, lo + a, lo + b) for a, b in pieces]
        if self.axis == 0:
            begin, end = int(self.starts[lo]), int(self.starts[hi])
            tasks += [partial(self._add, at, min(at + PIECE, end)) for at in range(begin, end, PIECE)]
        return tasks

    def _scan(self, lo: int, hi: int) -> None:
        from accams.kernels.checks import scan_order

        total = np.zeros(1, np.uint64)
        entries = self.starts, self.partners, self.bits, self.special, self.weights, self.size
        bad = scan_order(lo, hi, self.axis, *entries, total)
        with LOCK:
            self.bad += [bad] if bad >= 0 else []
            self.total = (self.total + int(total[0])) % (1 << 64)

    def _add(self, lo: int, hi: int) -> None:
        from accams.kernels.checks import sums_of, sums_of_halves

        sums = self.sums[0].copy()
        if self.bits.itemsize == 2:
            sums_of_halves(lo, hi, self.bits, self.weights, sums)
        else:
            sums_of(lo, hi, self.values, self.weights, sums)
        with LOCK:
            self.sums.append(sums)

    def check(self) -> None:
        """Raise for an entry that cannot be."""
        if self.bad:
            what = f"an entry of {('row', 'column')[self.axis]} {min(self.bad):,} cannot be"
            raise InputError(f"{self.path / self.names[1]}.npy or a file beside it is damaged ({what}): {AGAIN}")

    def summary(self) -> dict[str, Any]:
        """Return range and sums of the values, as `accams.data.store.summarize` does."""
        low, high, total, weight, product = np.array(self.sums).T
        known = {"value_range": [float(low.min()), float(high.max())], "sum": float(total.sum())}
        weighted = {"weight": float(weight.sum()), "weighted_sum": float(product.sum())}
        return {**known, **(dict.fromkeys(weighted) if self.weights is None else weighted)}


def _is_summary(about: dict[str, Any], found: dict[str, Any], entries: int) -> bool:
    """Return whether range and sums of the values are those that the manifest says, up to rounding."""
    low, high = found["value_range"]
    largest, mass = max(abs(low), abs(high)), float(found["weight"] or entries)
    room = {"sum": largest * entries, "weight": mass, "weighted_sum": largest * mass}
    return bool(about["value_range"] == found["value_range"]) and all(
        about[name] == found[name] or abs(about[name] - found[name]) <= TOLERANCE * most for name, most in room.items()
    )


def _is_size(x: Any) -> bool:
    return type(x) is int and 0 <= x < MOST


def _is_number(x: Any) -> bool:
    return type(x) in (int, float) and isfinite(x)


def _is_positive(x: Any) -> bool:
    return _is_number(x) and 1.0 / LARGEST_WEIGHT < x < LARGEST_WEIGHT


def _is_entry(x: Any) -> bool:
    return (
        isinstance(x, dict) and isinstance(x.get("type"), str) and _is_size(x.get("size")) and _is_size(x.get("crc32"))
    )


def is_time(kind: str) -> bool:
    """Return whether numbers of this type may be times.

    Text of a file never reaches np.dtype before that: some makes it divide by zero, which ends the process.
    """
    return TIME.fullmatch(kind) is not None
