"""What must hold of a store before anything is computed from it.

Kernels have no bounds checks, and whoever writes a store can make its checksums right. So types, lengths and ends are
checked whenever a store is opened, and positions, values, and that both orders say the same in a scan of all of it.
"""

from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.build import index_type
from accams.data.pages import release_pages
from accams.errors import InputError
from accams.threads import Threads

THREADS = Threads()
MOST = 1 << 48  # rows, columns or entries
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
    possible["times"] = ((times,) if _is_time(times) else ()), entries
    return needed, possible


def _wrong_summary(about: Any, weighted: bool) -> str | None:
    if not isinstance(about, dict):
        return "about"
    span, names = about.get("value_range"), ("weight", "weighted_sum")
    ranged = isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)) and span[0] <= span[1]
    sums = all(_is_number(about.get(name)) if weighted else about.get(name) is None for name in names)
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


def check_entries(path: Path, shape: tuple[int, int], arrays: Arrays) -> None:
    """Scan both orders of a store; raise unless every entry can be what it says, and both say the same."""
    sums = [_scan(path, axis, (BY_ROW, BY_COL)[axis], shape[1 - axis], arrays) for axis in (0, 1)]
    if sums[0] != sums[1]:
        raise InputError(f"{path} is damaged (its rows and its columns have different entries): ingest the data again")


def _scan(path: Path, axis: int, names: tuple[str, ...], size: int, arrays: Arrays) -> int:
    """Return a sum of one order that does not depend on it."""
    from accams.kernels.checks import scan_order

    (starts, partners, values), weights = (arrays[name] for name in names[:3]), arrays.get(names[3])
    bits = values.view(f"u{values.dtype.itemsize}")
    special = int(np.array(np.inf, values.dtype).view(bits.dtype))  # all bits of the exponent

    def run(lo: int, hi: int) -> int:
        total = np.zeros(1, np.uint64)
        numbers = np.uint64(special), weights, np.uint64(size)
        bad = scan_order(lo, hi, axis, starts, partners, bits, *numbers, total)
        release_pages(partners, values, weights)
        if bad >= 0:
            raise InputError(
                f"{path} is damaged (entry {bad:,} of {names[1]}.npy or of the files beside it cannot be): "
                "ingest the data again"
            )
        return int(total[0])

    return int(sum(THREADS.map(run, THREADS.split(starts)))) % (1 << 64)


def check_summary(path: Path, about: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise unless range and sums of the values are those that the manifest says."""
    same = about["value_range"] == found["value_range"]
    for name in ("sum", "weight", "weighted_sum"):
        one, other = about[name], found[name]
        same &= one == other or (one is not None and other is not None and abs(one - other) <= TOLERANCE * abs(other))
    if not same:
        raise InputError(f"{path} is damaged (its values are not those that its manifest says): ingest the data again")


def _is_size(x: Any) -> bool:
    return type(x) is int and 0 <= x < MOST


def _is_number(x: Any) -> bool:
    return type(x) in (int, float) and isfinite(x)


def _is_positive(x: Any) -> bool:
    return _is_number(x) and x > 0


def _is_entry(x: Any) -> bool:
    return (
        isinstance(x, dict) and isinstance(x.get("type"), str) and _is_size(x.get("size")) and _is_size(x.get("crc32"))
    )


def _is_time(kind: str) -> bool:
    """Whether numbers of this type may be times."""
    try:
        return np.dtype(kind).kind in "iufM" and np.dtype(kind).str == kind
    except TypeError:
        return False
