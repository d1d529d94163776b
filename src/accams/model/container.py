"""The container of model files and checkpoints: safetensors with a header of our own and checksums over every byte.

docs/internals/files.md describes it. Reading such a file executes nothing from it. It is read into memory as a whole: a
mapped one could change or shrink after it has been checked.
"""

import json
import os
import shutil
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
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
    "matrix": ("compressed matrix", "a matrix compressed by accams"),
}
DAMAGE = (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def to_bytes(header: dict[str, Any], tensors: Tensors) -> bytes:
    """Return the content of a file with this header, to which the library's version is added, and these tensors."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # widest types first: aligned
    tensors = {name: np.ascontiguousarray(tensors[name]) for name in order}
    described = [Described.of(name, x) for name, x in tensors.items()]
    return b"".join([head_of(header, described), *(x.tobytes() for x in tensors.values())])


class Described(NamedTuple):
    """A tensor as the header of a file tells it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    nbytes: int
    checksum: int

    @classmethod
    def of(cls, name: str, tensor: NDArray[Any]) -> "Described":
        return cls(name, DTYPES[tensor.dtype.str], tensor.shape, tensor.nbytes, _checksum(tensor))


def head_of(header: dict[str, Any], tensors: Sequence[Described]) -> bytes:
    """Return the beginning of a file, which the tensors follow in this order."""
    header = {"version": __version__, **header, "checksums": {each.name: each.checksum for each in tensors}}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    table: dict[str, Any] = {"__metadata__": {"accams": text, "checksum": "00000000"}}
    begin = 0
    for each in tensors:
        table[each.name] = {"dtype": each.kind, "shape": each.shape, "data_offsets": [begin, begin + each.nbytes]}
        begin += each.nbytes
    head = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)  # so that the tensors begin at a multiple of eight bytes
    if len(head) > LONGEST_HEADER:
        raise ModelFileError(f"a file with a header of {len(head):,} bytes could not be read: use shorter names")
    head = len(head).to_bytes(8, "little") + head
    # The first match is ours: within JSON strings quotes are escaped, and no tensor stands before the metadata.
    return head.replace(BLANK, BLANK[:12] + b'%08x"' % crc32(head), 1)


def is_container(path: str | Path) -> bool:
    """Return whether a file looks like one of ours: eight bytes of length, then JSON with our metadata."""
    try:
        if not Path(path).is_file():  # reading from a pipe would take from it, or wait
            return False
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
        content = path.read_bytes()
    except OSError as error:
        raise damaged(path, kind, error) from None
    return from_bytes(content, kind, newest, path)


def from_bytes(content: bytes, kind: str, newest: int, path: Path) -> tuple[dict[str, Any], Tensors]:
    """Do as `read` does with what it would read; `path` is named in errors."""
    try:
        data = memoryview(content)
        header, table, begin = _read_header(data)
        _check_kind(path, header, kind, newest)
        return header, _read_tensors(np.frombuffer(data, np.uint8)[begin:], table, header["checksums"])
    except ModelFileError:
        raise
    except DAMAGE as error:
        raise damaged(path, kind, error) from None


def kind_of(path: str | Path) -> str | None:
    """Return the kind of a file of ours; None if it is none, or its header is damaged."""
    if not is_container(path):
        return None
    try:
        with Path(path).open("rb") as stream:
            kind = _read_header(_beginning(stream))[0]["kind"]
    except (OSError, *DAMAGE):
        return None
    return kind if isinstance(kind, str) else None


class LazyFile:
    """A file of one kind whose tensors are read, and compared with their checksums, when they are asked for."""

    def __init__(self, source: Path | bytes, kind: str, newest: int) -> None:
        self.path = source if isinstance(source, Path) else Path("the bytes")
        self._source = source
        try:
            if isinstance(source, bytes):
                begin, self.size = memoryview(source), len(source)
            elif not source.is_file():
                raise ModelFileError(f"there is no {NAMES[kind][0]} {source}")
            else:
                with source.open("rb") as stream:
                    begin, self.size = _beginning(stream), os.fstat(stream.fileno()).st_size
            self.header, self._table, self._begin = _read_header(begin)
            _check_kind(self.path, self.header, kind, newest)
            self._check_offsets()
        except ModelFileError:
            raise
        except DAMAGE as error:
            raise damaged(self.path, kind, error) from None

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return list(self._table)

    def nbytes(self, name: str) -> int:
        """Return the bytes of a tensor."""
        begin, end = self._table[name]["data_offsets"]
        return int(end - begin)

    def tensor(self, name: str) -> NDArray[Any]:
        """Read a tensor; raise ValueError if it is damaged."""
        entry = self._table[name]
        (begin, end), start = entry["data_offsets"], self._begin
        if isinstance(self._source, bytes):
            data = self._source[start + begin : start + end]
        else:
            with self._source.open("rb") as stream:
                stream.seek(start + begin)
                data = stream.read(end - begin)
        table = {name: {**entry, "data_offsets": [0, end - begin]}}
        return _read_tensors(np.frombuffer(data, np.uint8), table, {name: self.header["checksums"][name]})[name]

    def copy_to(self, target: BinaryIO) -> None:
        """Write the file as it is."""
        if isinstance(self._source, bytes):
            target.write(self._source)
            return
        try:
            with self._source.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size != self.size or _read_header(_beginning(stream))[0] != self.header:
                    raise ValueError("it was changed after it had been opened")
                stream.seek(0)
                shutil.copyfileobj(stream, target)
        except DAMAGE as error:
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise  # a full disk, for example
            raise damaged(self.path, self.header["kind"], error) from None

    def _check_offsets(self) -> None:
        last = 0
        for name, entry in self._table.items():
            begin, end = entry["data_offsets"]
            if type(begin) is not int or type(end) is not int or begin != last or end < begin:
                raise ValueError(f"the offsets of tensor {name!r} are wrong")
            last = end
        if self._begin + last != self.size or self._table.keys() != self.header["checksums"].keys():
            raise ValueError("the tensors are incomplete, or bytes follow them")


def _beginning(stream: BinaryIO) -> memoryview:
    """Return the length of the header, and the header."""
    first = stream.read(8)
    return memoryview(first + stream.read(min(int.from_bytes(first, "little"), LONGEST_HEADER)))


def _check_kind(path: Path, header: dict[str, Any], kind: str, newest: int) -> None:
    """Raise an error for a file of another kind or of a newer format."""
    if header["kind"] != kind:
        raise ValueError(f"it is {NAMES[header['kind']][1]}")
    if type(header["format"]) is not int or header["format"] < 1:
        raise ValueError("its format is not a positive integer")
    if header["format"] > newest:
        version = " ".join(str(header["version"]).split())[:40]  # at most one short line
        raise ModelFileError(
            f"{path} was written by accams {version}, which is newer than this one ({__version__}): upgrade accams"
        )


def damaged(path: str | Path, kind: str, error: Exception) -> ModelFileError:
    """Return the error for a file that cannot be read."""
    return ModelFileError(f"{path} is not {NAMES[kind][1]}, or it is damaged ({damaged_reason(error)})")


def damaged_reason(error: Exception) -> str:
    """Return the message of an error in one short line, whatever it quotes from a file."""
    reason = " ".join(str(error).split())
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "..."


def _read_header(data: memoryview) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return our header, the table of tensors, and where the tensors begin, of a file or of its beginning."""
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
