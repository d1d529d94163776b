"""Ids of rows and columns in few bytes: integers by their differences, everything else as compressed JSON."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.errors import InputError
from accams.model.coding import decode_ints, encode_ints
from accams.model.limits import NUMBERS

LEVEL = 19  # of compression: slow to write, quick to read


def pack_ids(index: Index) -> tuple[str, NDArray[np.uint8] | None]:
    """Return the kind of coding and the tensor that holds the ids."""
    if index.is_positional:
        return "positions", None
    if index.ids.dtype.kind == "i":
        return "integers", encode_ints(np.diff(index.ids.astype(np.int64), prepend=0))
    import zstandard

    ids = index.ids.tolist()
    if any(isinstance(x, (tuple, list, dict)) for x in ids):
        raise InputError("ids that are tuples or lists cannot be saved: use strings or integers as ids")
    try:
        text = json.dumps(ids, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InputError("ids that are not valid Unicode cannot be saved: use other strings as ids") from None
    except (TypeError, ValueError):
        what = f"ids of type {', '.join(sorted({type(x).__name__ for x in ids}))}"
        raise InputError(f"{what} cannot be saved: use strings or integers as ids") from None
    packed = zstandard.ZstdCompressor(LEVEL).compress(text)
    return "json", np.frombuffer(packed + bytes(NUMBERS.missing(len(text), len(packed))), dtype=np.uint8)


def unpack_ids(kind: str, tensor: NDArray[Any] | None, size: int) -> Index:
    """Undo `pack_ids` for `size` ids."""
    if kind == "positions":
        return Index(None, size)
    if tensor is None:
        raise ValueError("its ids are missing")
    if kind == "integers":
        numbers = np.cumsum(decode_ints(tensor, size), dtype=np.int64)
        _check_distinct(len(np.unique(numbers)), size)
        return Index(numbers)
    if kind != "json":
        raise ValueError(f"its ids are of an unknown kind {kind!r}")
    import zstandard

    data = tensor.tobytes()
    try:
        NUMBERS.check(zstandard.frame_content_size(data), tensor.nbytes)
        ids = json.loads(zstandard.ZstdDecompressor().decompress(data))
    except (zstandard.ZstdError, RecursionError) as error:
        raise ValueError(f"its ids are damaged: {error}") from None
    if not isinstance(ids, list) or any(isinstance(x, (list, dict)) for x in ids):
        raise ValueError("its ids are not a list of numbers and text")
    if len(ids) != size:
        raise ValueError("its ids do not fit its labels")
    _check_distinct(len(set(ids)), size)
    return Index(np.fromiter(ids, dtype=object, count=size))


def _check_distinct(distinct: int, size: int) -> None:
    if distinct != size:
        raise ValueError("some of its ids are there twice")
