"""The container of model files and checkpoints: safetensors, with a header of our own and checksums over every byte.

A safetensors file is eight bytes of length, that much JSON (names, types and places of the tensors, and some strings of
metadata), and the tensors one after another. Ours has two strings: "accams", our header as JSON, which has a checksum
of each tensor, and "checksum", that of everything before the tensors, counted with zeros in its own place. Nothing in
such a file is executed. Tensors are read through a memory map: what is not looked at is not loaded.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
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
LONGEST_HEADER = 100_000_000  # bytes, as safetensors itself has it
NAMES = {
    "model": ("model file", "an accams model"),
    "checkpoint": ("checkpoint", "a checkpoint of accams"),
    "history": ("history file", "a history file of accams"),
}


def to_bytes(header: dict[str, Any], tensors: Tensors) -> bytes:
    """The file that holds this header (which gets the library's version) and these tensors."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # so that each is aligned
    tensors = {name: np.ascontiguousarray(tensors[name]) for name in order}
    about = {"version": __version__, **header, "checksums": {name: _checksum(x) for name, x in tensors.items()}}
    text = json.dumps(about, separators=(",", ":"), ensure_ascii=False)
    places: dict[str, Any] = {"__metadata__": {"accams": text, "checksum": "00000000"}}
    at = 0
    for name, x in tensors.items():
        places[name] = {"dtype": DTYPES[x.dtype.str], "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    head = json.dumps(places, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    head = len(head).to_bytes(8, "little") + head
    checked = head.replace(BLANK, BLANK[:12] + b'%08x"' % crc32(head), 1)
    return b"".join([checked, *(x.tobytes() for x in tensors.values())])


def read(path: str | Path, kind: str, newest: int) -> tuple[dict[str, Any], Tensors]:
    """Header and tensors of a file of this kind, "model" or "checkpoint", and of format `newest` or an earlier one.

    The tensors are views of the mapped file.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"there is no {NAMES[kind][0]} {path}")
    try:
        with path.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = memoryview(b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        header, places, begin = _read_header(data)
        if header["kind"] != kind:
            raise ValueError(f"it is {NAMES[header['kind']][1]}")
        if header["format"] > newest:
            raise ModelFileError(
                f"{path} was written by accams {_plain(header['version'])}, which is newer than this one "
                f"({__version__}): upgrade accams"
            )
        return header, _read_tensors(np.frombuffer(data, np.uint8)[begin:], places, header["checksums"])
    except ModelFileError:
        raise
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise damaged(path, kind, error) from None


def _plain(text: Any) -> str:
    """At most a line of it."""
    return " ".join(str(text).split())[:40]


def damaged(path: str | Path, kind: str, error: Exception) -> ModelFileError:
    """The one sentence for a file that cannot be read."""
    return ModelFileError(f"{path} is not {NAMES[kind][1]}, or it is damaged ({error})")


def _read_header(data: memoryview) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Our header, the places of the tensors, and where they begin."""
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, LONGEST_HEADER):
        raise ValueError("it is cut short")
    begin = 8 + length
    text = bytes(data[8:begin])
    there = text.find(BLANK[:12])
    if there < 0:
        raise ValueError("it has no checksum")
    there += 12
    blank = bytes(data[:8]) + text[:there] + b"0" * 8 + text[there + 8 :]
    if text[there : there + 8] != b"%08x" % crc32(blank):
        raise ValueError("its header has changed since it was written")
    places = json.loads(text)
    return json.loads(places.pop("__metadata__")["accams"]), places, begin


def _read_tensors(data: NDArray[np.uint8], places: dict[str, Any], checksums: dict[str, int]) -> Tensors:
    tensors, at = Tensors(), 0
    for name, place in sorted(places.items(), key=lambda each: each[1]["data_offsets"]):
        begin, end = place["data_offsets"]
        dtype, shape = np.dtype(TYPES[place["dtype"]]), tuple(place["shape"])
        count = 1
        for n in shape:
            count *= int(n)
        if begin != at or end > len(data) or min(shape, default=0) < 0 or end - begin != count * dtype.itemsize:
            raise ValueError(f"its tensor {name!r} is cut short")
        tensors[name] = data[begin:end].view(dtype).reshape(shape) if count else np.zeros(shape, dtype)
        if _checksum(tensors[name]) != checksums[name]:
            raise ValueError(f"its tensor {name!r} has changed since it was written")
        at = end
    if at != len(data) or len(checksums) != len(tensors):
        raise ValueError("its tensors are not all there")
    return tensors


def _checksum(tensor: NDArray[Any]) -> int:
    return crc32(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ModelFileError(f"cannot write {path}: {error.strerror}") from None
        raise
