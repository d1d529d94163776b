"""CompressedMatrix: a matrix in few bytes, of which rows, columns and blocks can be read; and its file.

A file holds panels, each some of the rows. It is read when values are asked for, tensor by tensor, so that neither the
matrix nor the file has to fit into memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BytesIO
from math import prod
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.errors import InputError, ModelFileError
from accams.html import html_table
from accams.model import container, idcoding
from accams.model.arithmetic import DTYPES
from accams.model.container import Described, LazyFile
from accams.model.limits import Limit
from accams.model.panel import Packed, Panel
from accams.threads import Threads
from accams.writing import replacing

KIND, FORMAT = "matrix", 1
CELLS = Limit("cells", 1 << 27, 1 << 14)
IN_MEMORY = 1 << 26  # bytes of a file that is being written, beyond which it goes to disk
CHUNK = 1 << 22  # bytes copied, or cells decoded, at a time
PANELS_IN_MEMORY = 4
AXES = ("row", "column")
THREADS = Threads()
Values = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """How a matrix was compressed.

    Attributes
    ----------
    promise : dict
        What was asked for: max_bytes, max_error or max_rmse.
    max_error : float
        Largest error of a cell.
    rmse : float
        Root mean squared error over all numbers.
    original : int
        Bytes of the matrix in memory.
    """

    promise: dict[str, float]
    max_error: float
    rmse: float
    original: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """Return what a header tells; raise ValueError for what cannot be."""
        promise = dict(told["promise"])
        numbers = [*promise.values(), *(told[name] for name in ("max_error", "rmse", "original"))]
        known = len(promise) == 1 and set(promise) <= {"max_bytes", "max_error", "max_rmse"}
        if not known or not all(type(x) in (int, float) and x >= 0 for x in numbers):
            raise ValueError("what it promises cannot be")
        return cls(promise, *numbers[1:])


class CompressedMatrix:
    """A matrix in few bytes, as `compress` returns it and `accams.load` reads it.

    Rows, columns and blocks are decoded when they are asked for, and only those.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int
        Bytes of its file.
    summary : Summary
        What was asked for and what came out: `promise`, `max_error`, `rmse`, `original` bytes.
    row_names, column_names : array or None
        Names of rows and columns, for a matrix that came as a DataFrame.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import compress
    >>> matrix = np.add.outer(np.arange(200.0), np.arange(300.0) % 7)
    >>> small = compress(matrix, max_error=0.01)
    >>> small.shape, small.nbytes < matrix.nbytes / 10
    ((200, 300), True)
    >>> bool(np.abs(small[3:5, :10] - matrix[3:5, :10]).max() <= 0.01)
    True
    >>> bool(np.abs(np.asarray(small) - matrix).max() <= 0.01)
    True
    """

    def __init__(self, file: LazyFile) -> None:
        self._file = file
        try:
            self._read_header(file.header)
        except container.DAMAGE as error:
            raise container.damaged(file.path, KIND, error) from None
        self.panel = lru_cache(PANELS_IN_MEMORY)(self._open_panel)

    def _read_header(self, header: dict[str, Any]) -> None:
        shape, self._fields = header["shape"], header["panels"]
        if not shape or not all(type(size) is int and size >= 1 for size in shape) or header["dtype"] not in DTYPES:
            raise ValueError("its shape or its type is wrong")
        self.shape, self.dtype = tuple(shape), np.dtype(header["dtype"])
        rows = [fields["rows"] for fields in self._fields]
        if not all(type(x) is int and x >= 1 for x in rows) or sum(rows) != self.shape[0]:
            raise ValueError("its panels do not make up the matrix")
        for fields in self._fields:  # as far as they are read before the panel itself is
            sizes = [fields["sum"]["stencils"], *(size for _, size in fields["parts"].values())]
            if not all(type(x) is int and x >= 0 for x in sizes):
                raise ValueError("what it tells of a panel cannot be")
        CELLS.check(prod(self.shape), self._file.size)
        self._ends = np.cumsum([0, *rows])
        self.summary = Summary.of(header["summary"])

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a file; raise ModelFileError if it is no compressed matrix, or damaged.

        Parameters
        ----------
        path : path

        Returns
        -------
        CompressedMatrix
        """
        return cls(LazyFile(Path(path), KIND, FORMAT))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what `to_bytes` returned.

        Parameters
        ----------
        content : bytes

        Returns
        -------
        CompressedMatrix
        """
        return cls(LazyFile(bytes(content), KIND, FORMAT))

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        out = BytesIO()
        self._file.copy_to(out)
        return out.getvalue()

    def save(self, path: str | Path) -> None:
        """Write it to a file; `accams.load` and `accams.decompress` read it.

        Parameters
        ----------
        path : path
        """
        with replacing(Path(path)) as temporary, temporary.open("wb") as stream:
            self._file.copy_to(stream)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return CompressedMatrix.from_bytes, (self.to_bytes(),)

    @property
    def nbytes(self) -> int:
        return int(self._file.size)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(prod(self.shape))

    @property
    def columns(self) -> int:
        """Columns of the matrix; those of a stack of images are its pixels."""
        return prod(self.shape[1:])

    @cached_property
    def row_names(self) -> Values | None:
        """Names of the rows, if it came as a DataFrame whose index has some."""
        return self._names("row", self.shape[0])

    @cached_property
    def column_names(self) -> Values | None:
        """Names of the columns, if it came as a DataFrame."""
        return self._names("column", self.columns)

    def _names(self, axis: str, size: int) -> Values | None:
        kind = self._file.header.get(axis)
        if kind is None:
            return None
        name = f"names/{axis}"
        try:
            tensor = self._file.tensor(name) if name in self._file.names else None
            return idcoding.unpack_ids(kind, tensor, size).ids
        except container.DAMAGE as error:
            raise container.damaged(self._file.path, KIND, error) from None

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        return f"CompressedMatrix({shape} {self.dtype}, {self.nbytes:,} bytes, rmse {self.summary.rmse:.4g})"

    def _repr_html_(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        rows = {"shape": f"{shape} {self.dtype}", "bytes": f"{self.nbytes:,}"}
        rows |= {"largest error": f"{self.summary.max_error:.4g}", "RMSE": f"{self.summary.rmse:.4g}"}
        return html_table("compressed matrix", rows | {"stencils": f"{sum(self.n_stencils):,}"})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a compressed matrix cannot be an array without a copy")
        out = self.decompress()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Values:
        """Return cells, as an array of the whole would; only what they need is decoded.

        A third and later index, and anything but one index for the rows and one for the columns, is applied to whole
        rows.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in [k for k in keys if k is Ellipsis] or any(k is None for k in keys) or len(keys) > self.ndim:
            return np.asarray(self.decompress()[key])
        rows, own_rows = _wanted(keys[0], self.shape[0], AXES[0])
        if self.ndim != 2 or len(keys) < 2:
            whole = self._block(rows, (0, self.columns)).reshape(-1, *self.shape[1:])
            return np.asarray(whole[(own_rows, *keys[1:])])
        cols, own_cols = _wanted(keys[1], self.columns, AXES[1])
        return np.asarray(self._block(rows, cols)[own_rows, own_cols])

    def decompress(self) -> Values:
        """Return the whole matrix as an array of its type and shape."""
        return self._block((0, self.shape[0]), (0, self.columns)).reshape(self.shape)

    def blocks(self, rows: int | None = None) -> Iterator[Values]:
        """Iterate over the matrix some rows at a time: so many, or as many as have a few million cells.

        Parameters
        ----------
        rows : int, optional
            Number of rows of a block.

        Yields
        ------
        array
            With all columns.
        """
        step = rows or max(1, CHUNK // self.columns)
        for lo in range(0, self.shape[0], step):
            hi = min(lo + step, self.shape[0])
            yield self._block((lo, hi), (0, self.columns)).reshape(hi - lo, *self.shape[1:])

    def _block(self, rows: tuple[int, int], cols: tuple[int, int]) -> Values:
        """Return the cells of these ranges."""
        try:
            out = np.empty((rows[1] - rows[0], cols[1] - cols[0]), self.dtype)
        except MemoryError:
            raise InputError(
                f"{rows[1] - rows[0]:,} x {cols[1] - cols[0]:,} cells do not fit into memory: ask for some of the rows"
            ) from None
        first = int(np.searchsorted(self._ends, rows[0], side="right")) - 1
        try:
            for p in range(first, len(self._fields)):
                start, stop = int(self._ends[p]), int(self._ends[p + 1])
                lo, hi = max(rows[0], start), min(rows[1], stop)
                if lo >= hi:
                    break
                if cols[0] < cols[1]:
                    part = self.panel(p).block(slice(lo - start, hi - start), slice(*cols), THREADS)
                    out[lo - rows[0] : hi - rows[0]] = part
        except ModelFileError:
            raise
        except (*container.DAMAGE, InputError, MemoryError) as error:
            raise container.damaged(self._file.path, KIND, error) from None
        return out

    def _open_panel(self, p: int) -> Panel:
        return Panel(Packed(self._fields[p], self._file.tensor(str(p))), self.columns, self.dtype)

    def parts(self) -> dict[str, int]:
        """Return the bytes of each part of the file: stencils, residual, kinds, kept cells, names and header."""
        found = dict.fromkeys(("stencils", "residual", "kinds", "kept", "names"), 0)
        for fields in self._fields:
            for name, (_, size) in fields["parts"].items():
                found[name.partition("/")[0] if "/" in name else "stencils"] += size
        found["names"] = sum(self._file.nbytes(name) for name in self._file.names if name.startswith("names/"))
        return {**found, "header": self.nbytes - sum(found.values())}

    @property
    def n_stencils(self) -> list[int]:
        """Number of stencils in each panel."""
        return [fields["sum"]["stencils"] for fields in self._fields]


def _wanted(key: Any, size: int, axis: str) -> tuple[tuple[int, int], Any]:
    """Return the range of positions that an index needs, and the index within that range."""
    if isinstance(key, slice):
        positions = range(*key.indices(size))
        if not len(positions):
            return (0, 0), slice(0, 0)
        lo, hi = min(positions), max(positions)
        step = positions.step
        if step > 0:
            return (lo, hi + 1), slice(positions.start - lo, None, step)
        return (lo, hi + 1), slice(None, None, step)
    array = np.asarray(key)
    if array.dtype == bool:
        if array.shape != (size,):
            raise IndexError(f"an index of {array.shape} truth values does not fit {size:,} {axis}s")
        array = np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        if array.size:
            raise IndexError("cells are addressed by integers, slices and arrays of integers or truth values")
        array = array.astype(np.int64)
    at = np.where(array < 0, array + size, array)
    if at.size and (at.min() < 0 or at.max() >= size):
        raise IndexError(f"{axis} {int(array.flat[int(((at < 0) | (at >= size)).argmax())])} of {size:,} is not there")
    lo, hi = (int(at.min()), int(at.max()) + 1) if at.size else (0, 0)
    return (lo, hi), at - lo if at.ndim else int(at) - lo


@dataclass
class Writer:
    """Writes a compressed matrix panel by panel; what is large goes to a temporary file meanwhile."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    names: tuple[Index | None, Index | None] = (None, None)
    _panels: list[dict[str, Any]] = field(default_factory=list)
    _described: list[Described] = field(default_factory=list)
    _stored: Any = field(default_factory=lambda: SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115 (closed by `finish`)
    _more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for axis, index in zip(AXES, self.names, strict=True):
            if index is not None:
                if not index.is_positional and len(set(index.ids.tolist())) < len(index):
                    raise InputError(f"some names of {axis}s come twice")
                self._more[axis], tensor = idcoding.pack_ids(index)
                if tensor is not None:
                    self._store(f"names/{axis}", tensor)

    def add(self, panel: Packed) -> None:
        """Add the next panel."""
        self._store(str(len(self._panels)), panel.content)
        self._panels.append(panel.fields)

    def _store(self, name: str, content: NDArray[np.uint8]) -> None:
        self._described.append(Described.of(name, content))
        self._stored.write(content.tobytes())

    def head(self, summary: Summary) -> bytes:
        """Return the beginning of the file with the panels so far."""
        header = {
            "kind": KIND, "format": FORMAT, "shape": list(self.shape), "dtype": self.dtype.name,
            "summary": summary.__dict__, "panels": self._panels, **self._more,
        }  # fmt: skip
        return container.head_of(header, self._described)

    def nbytes(self, summary: Summary) -> int:
        """Return the bytes of the file with the panels so far."""
        return len(self.head(summary)) + sum(each.nbytes for each in self._described)

    def close(self) -> None:
        """Let go of what has been stored."""
        self._stored.close()

    def finish(self, summary: Summary, path: Path | None = None) -> CompressedMatrix:
        """Return the matrix, written to a file if there is a path."""
        missing = CELLS.missing(prod(self.shape), sum(each.nbytes for each in self._described))
        if missing:
            self._store("padding", np.zeros(missing, np.uint8))
        head = self.head(summary)
        with self._stored as stored:
            if path is not None:
                with replacing(path) as temporary, temporary.open("wb") as stream:
                    _copy(head, stored, stream)
                return CompressedMatrix.open(path)
            out = BytesIO()
            _copy(head, stored, out)
        return CompressedMatrix.from_bytes(out.getvalue())


def _copy(head: bytes, source: Any, target: BinaryIO) -> None:
    target.write(head)
    source.seek(0)
    while piece := source.read(CHUNK):
        target.write(piece)
