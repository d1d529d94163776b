"""The container of model files and checkpoints: safetensors with a header of our own and checksums over every byte.

docs/internals/files.md describes it. Reading such a file executes nothing from it. It is read into memory as a whole: a
mapped one could change or shrink after it has been checked.
"""

import json
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from accams import __version__
from accams.errors import ModelFileError

Tensors = dict[str, NDArray[Any]]
BLANK = b'"checksum":"00000000"'
TYPES = {
    "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1",
}  # fmt: skip
DTYPES = {np.dtype(kind).str: name for name, kind in TYPES.items()}
LONGEST_HEADER = 1 << 24  # bytes: JSON takes up to thirty times as much in memory
MOST_DIMENSIONS, LARGEST = 8, 1 << 48  # of a tensor, and of each of its sizes
LONGEST_REASON = 200  # characters of a message that may quote the file
NAMES = {
    "model": ("model file", "an accams model"),
    "checkpoint": ("checkpoint", "a checkpoint of accams"),
    "history": ("history file", "a history file of accams"),
}


def to_bytes(header: dict[str, Any], tensors: Tensors) -> bytes:
    """Return the content of a file with this header, to which the library's version is added, and these tensors."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # widest types first: aligned
    tensors = {name: np.ascontiguousarray(tensors[name]) for name in order}
    header = {"version": __version__, **header, "checksums": {name: _checksum(x) for name, x in tensors.items()}}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    table: dict[str, Any] = {"__metadata__": {"accams": text, "checksum": "00000000"}}
    begin = 0
    for name, x in tensors.items():
        table[name] = {"dtype": DTYPES[x.dtype.str], "shape": x.shape, "data_offsets": [begin, begin + x.nbytes]}
        begin += x.nbytes
    head = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)  # so that the tensors begin at a multiple of eight bytes
    if len(head) > LONGEST_HEADER:
        raise ModelFileError(f"a file with a header of {len(head):,} bytes could not be read: use shorter names")
    head = len(head).to_bytes(8, "little") + head
    # The first match is ours: within JSON strings quotes are escaped, and no tensor stands before the metadata.
    sealed = head.replace(BLANK, BLANK[:12] + b'%08x"' % crc32(head), 1)
    return b"".join([sealed, *(x.tobytes() for x in tensors.values())])


def is_container(path: str | Path) -> bool:
    """Return whether a file looks like one of ours: eight bytes of length, then JSON with our metadata."""
    try:
        with Path(path).open("rb") as file:
            return file.read(256)[8:].startswith(b'{"__metadata__":{"accams":')
    except OSError:
        return False


def read(path: str | Path, kind: str, newest: int) -> tuple[dict[str, Any], Tensors]:
    """Read the header and tensors of a file of this kind ("model" or "checkpoint") and verify all checksums.

    Formats newer than `newest` are refused. The tensors are read-only views of the file's bytes.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"there is no {NAMES[kind][0]} {path}")
    try:
        data = memoryview(path.read_bytes())
        header, table, begin = _read_header(data)
        if header["kind"] != kind:
            raise ValueError(f"it is {NAMES[header['kind']][1]}")
        if type(header["format"]) is not int or header["format"] < 1:
            raise ValueError("its format is not a positive integer")
        if header["format"] > newest:
            version = " ".join(str(header["version"]).split())[:40]  # at most one short line
            raise ModelFileError(
                f"{path} was written by accams {version}, which is newer than this one ({__version__}): upgrade accams"
            )
        return header, _read_tensors(np.frombuffer(data, np.uint8)[begin:], table, header["checksums"])
    except ModelFileError:
        raise
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise damaged(path, kind, error) from None


def damaged(path: str | Path, kind: str, error: Exception) -> ModelFileError:
    """Return the error for a file that cannot be read."""
    return ModelFileError(f"{path} is not {NAMES[kind][1]}, or it is damaged ({damaged_reason(error)})")


def damaged_reason(error: Exception) -> str:
    """Return the message of an error in one short line, whatever it quotes from a file."""
    reason = " ".join(str(error).split())
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "..."


def _read_header(data: memoryview) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return our header, the table of tensors, and where the tensors begin."""
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, LONGEST_HEADER):
        raise ValueError("the file is truncated, or its header is too long")
    begin = 8 + length
    text = bytes(data[8:begin])
    digits = text.find(BLANK[:12]) + 12
    if digits < 12:
        raise ValueError("the header has no checksum")
    blank = bytes(data[:8]) + text[:digits] + b"0" * 8 + text[digits + 8 :]
    if text[digits : digits + 8] != b"%08x" % crc32(blank):
        raise ValueError("the header does not match its checksum")
    table = json.loads(text)
    return json.loads(table.pop("__metadata__")["accams"]), table, begin


def _read_tensors(data: NDArray[np.uint8], table: dict[str, Any], checksums: dict[str, int]) -> Tensors:
    tensors, last = Tensors(), 0
    for name, entry in sorted(table.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        dtype, shape = np.dtype(TYPES[entry["dtype"]]), tuple(entry["shape"])
        if len(shape) > MOST_DIMENSIONS or not all(type(size) is int and 0 <= size < LARGEST for size in shape):
            raise ValueError(f"the shape of tensor {name!r} cannot be")
        count = prod(shape)  # in Python's integers: NumPy's could overflow to a size that fits
        if begin != last or end > len(data) or end - begin != count * dtype.itemsize:
            raise ValueError(f"the offsets of tensor {name!r} do not fit its shape and the file")
        tensors[name] = data[begin:end].view(dtype).reshape(shape) if count else np.zeros(shape, dtype)
        if _checksum(tensors[name]) != checksums[name]:
            raise ValueError(f"tensor {name!r} does not match its checksum")
        last = end
    if last != len(data) or len(checksums) != len(tensors):
        raise ValueError("the tensors are incomplete, or bytes follow them")
    return tensors


def _checksum(tensor: NDArray[Any]) -> int:
    return crc32(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)
