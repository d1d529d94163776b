"""Compress matrices, and read them back: checks input, cuts it into panels, and says what came out."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.data.inputs import is_frame, is_sparse
from accams.errors import InputError
from accams.fit.coder import Errors
from accams.fit.keys import seed_of
from accams.fit.panels import PanelFit, Promise
from accams.fit.search import Round
from accams.fitted.progress import ProgressBar
from accams.model.arithmetic import DTYPES
from accams.model.matrix import CompressedMatrix, Summary, Writer
from accams.model.residual import NEAR, TILE
from accams.settings.kinds import Integer
from accams.threads import SINGLE_BLAS, Threads

LARGEST = 10**300  # of numbers that are promised
PANEL = 1 << 24  # cells that are compressed at a time: they take about 1.2 GB of memory
SPARE = 64  # bytes of numbers in the header that may become longer
PROMISES = ("max_bytes", "max_error", "max_rmse")
FIELD_TILE, LINES = 4096, 8  # columns of a tile of a stack of images, and lines of an image at least
CHANNELS = 4  # of an image, at most


class Rows(Protocol):
    """A matrix of which rows can be read: an array, a mapped file, or the like."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""

    @property
    def dtype(self) -> Any:
        """The type of its values."""

    def __getitem__(self, rows: slice) -> Any: ...


@dataclass(frozen=True)
class NamedRows:
    """A matrix whose rows and columns have names."""

    rows: Rows
    names: tuple[Index | None, Index | None]


def compress(
    matrix: Any, *, max_bytes: int | None = None, max_error: float | None = None, max_rmse: float | None = None,
    path: str | Path | None = None, random_state: Any = 0, n_threads: int | None = None,
    verbose: bool | str = "auto",
) -> CompressedMatrix:  # fmt: skip
    """Compress a matrix, with a promise on its size or on its errors.

    Give one of `max_bytes`, `max_error` and `max_rmse`. The matrix becomes a sum of stencils and, where that pays or is
    needed for the promise, what these leave, in steps and entropy-coded.

    Parameters
    ----------
    matrix : array, DataFrame, or anything with a shape, a type and rows
        Numbers or truth values in two dimensions or more; of more, as of a stack of images, the first are rows. NaN and
        infinities come back as they are. A mapped file (``np.load(path, mmap_mode="r")``) may be larger than memory: it
        is compressed in panels of rows.
    max_bytes : int, optional
        Most bytes of the file.
    max_error : float, optional
        Largest error of any cell, checked on the values that are read. With 0, whole numbers and numbers of up to four
        decimals come back exactly.
    max_rmse : float, optional
        Largest root mean squared error over all cells.
    path : path, optional
        File to write. Without, the compressed matrix is kept in memory.
    random_state, n_threads, verbose
        As for fitting.

    Returns
    -------
    CompressedMatrix
        Of which rows, columns and blocks can be read; `decompress` returns the matrix.

    See Also
    --------
    decompress : the matrix again.
    distill : one stencil sum of at most so many bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import compress, decompress
    >>> random = np.random.default_rng(0)
    >>> matrix = np.outer(random.normal(size=300), random.normal(size=200)) + random.normal(0, 0.1, (300, 200))
    >>> small = compress(matrix, max_error=0.1)
    >>> bool(np.abs(decompress(small) - matrix).max() <= 0.1), matrix.nbytes // small.nbytes > 10
    (True, True)
    """
    promise = _promise(max_bytes, max_error, max_rmse)
    rows, names = _rows_of(matrix)
    seed, threads = seed_of(random_state), Threads(n_threads)
    plan = Plan.of(rows, promise, names)
    writer = Writer(plan.shape, plan.dtype, names)
    # One thread of BLAS: sums would depend on their number, and those for a few columns wait more than they add.
    with ProgressBar(verbose, "compressing") as bar, closing(threads), closing(writer), SINGLE_BLAS:
        began, errors = perf_counter(), list[Errors]()
        rounds = count(1)
        for p, (lo, hi, share) in enumerate(plan.panels()):

            def report(error: float, p: int = p) -> None:
                seconds = perf_counter() - began
                if plan.n_panels > 1:
                    bar.update_stage("compressing", p, plan.n_panels, seconds)
                else:
                    bar.update_round(Round(next(rounds), None, error, seconds))

            packed, of_panel = PanelFit(  # not kept, nor its values, since the next panel needs their memory
                plan.read(rows, lo, hi), share, seed=seed, threads=threads, near=plan.near, tile=plan.tile,
                outside=int(promise.amount - share.amount), report=report,
            ).pack()  # fmt: skip
            writer.add(packed)
            errors.append(of_panel)
        of_all = Errors.joined(errors)
        summary = Summary({promise.kind: promise.amount}, of_all.largest, of_all.rms, plan.nbytes)
        return writer.finish(summary, None if path is None else Path(path))


def decompress(source: Any) -> NDArray[Any]:
    """Return a compressed matrix as the array that it was, within what was promised.

    Parameters
    ----------
    source : CompressedMatrix, path or bytes
        What `compress` returned, its file, or its `to_bytes`.

    Returns
    -------
    array
        Of the same type and shape. Of a DataFrame it is the values; names are `row_names` and `column_names` of the
        compressed matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import compress, decompress
    >>> decompress(compress(np.arange(12).reshape(3, 4), max_error=0))
    array([[ 0,  1,  2,  3],
           [ 4,  5,  6,  7],
           [ 8,  9, 10, 11]])
    """
    return opened(source).decompress()


def opened(source: Any) -> CompressedMatrix:
    """Return a compressed matrix, given itself, its file or its bytes."""
    if isinstance(source, CompressedMatrix):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return CompressedMatrix.from_bytes(bytes(source))
    if isinstance(source, (str, Path)):
        return CompressedMatrix.open(source)
    raise InputError(f"decompress takes a CompressedMatrix, a path or bytes, not {type(source).__name__}")


@dataclass(frozen=True)
class Plan:
    """How a matrix is cut into panels, and what is promised of each."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    promise: Promise
    room: int  # bytes that panels share
    per_panel: int  # rows
    near: tuple[tuple[int, int], ...]
    tile: tuple[int, int]

    @classmethod
    def of(cls, rows: Rows, promise: Promise, names: tuple[Index | None, Index | None]) -> "Plan":
        """Return the plan for a matrix; raise InputError if it cannot be compressed."""
        shape, dtype = tuple(int(size) for size in rows.shape), _type_of(np.dtype(rows.dtype))
        if len(shape) < 2:
            raise InputError(f"a matrix has rows and columns, and this array has {len(shape)} dimension: reshape it")
        if prod(shape) == 0:
            raise InputError(f"the matrix is empty: it has the shape {shape}")
        columns = prod(shape[1:])
        each = min(shape[0], max(1, PANEL // columns))
        near, tile = _neighbours(shape, each)
        room = 0
        if promise.kind == "max_bytes":
            with closing(Writer(shape, dtype, names)) as empty:
                least = empty.nbytes(Summary({"max_bytes": promise.amount}, 0.0, 0.0, 0)) + SPARE
            room = int(promise.amount) - least
            if room < 1:
                raise InputError(
                    f"max_bytes={int(promise.amount):,} is too small: the header alone takes {least:,} bytes"
                )
        return cls(shape, dtype, dtype.itemsize * prod(shape), promise, room, each, near, tile)

    @property
    def n_panels(self) -> int:
        return -(-self.shape[0] // self.per_panel)

    def panels(self) -> Iterator[tuple[int, int, Promise]]:
        """Iterate over panels, as first and last row, and what is promised of each; bytes are shared by the cells."""
        left = self.room
        for lo in range(0, self.shape[0], self.per_panel):
            hi = min(lo + self.per_panel, self.shape[0])
            amount = self.promise.amount
            if self.promise.kind == "max_bytes":
                amount = left * (hi - lo) // (self.shape[0] - lo)
                left -= amount
            yield lo, hi, Promise(self.promise.kind, amount)

    def read(self, rows: Rows, lo: int, hi: int) -> NDArray[Any]:
        """Return the cells of these rows."""
        values = np.asarray(rows[lo:hi]).astype(self.dtype, copy=False)
        return np.ascontiguousarray(values.reshape(hi - lo, -1))


def _neighbours(shape: tuple[int, ...], rows: int) -> tuple[tuple[tuple[int, int], ...], tuple[int, int]]:
    """Return the neighbours by which cells of a panel of so many rows may be predicted, and a tile.

    Neighbours are rows above and columns before. The last sizes of an image are its channels, if they are few; lines
    of a stack of images stand side by side. A tile has as many cells in a panel of few rows, or of few columns.
    """
    channels = shape[-1] if len(shape) > 2 and shape[-1] <= CHANNELS else 1
    line = prod(shape[2:])
    if line == channels:
        cells, columns = prod(TILE), prod(shape[1:])
        height = max(TILE[0], cells // min(columns, TILE[1]))
        return tuple((a, b * channels) for a, b in NEAR), (height, max(TILE[1], cells // min(rows, TILE[0])))
    width = max(FIELD_TILE // line, LINES) * line
    height = max(1, TILE[0] * TILE[1] // width)
    return ((0, channels), (0, line), (0, line + channels), (1, 0)), (height, width)


def _promise(max_bytes: int | None, max_error: float | None, max_rmse: float | None) -> Promise:
    """Return the one promise that is asked for."""
    asked = dict(zip(PROMISES, (max_bytes, max_error, max_rmse), strict=True))
    given = {name: x for name, x in asked.items() if x is not None}
    if len(given) != 1:
        raise InputError(f"give one of {', '.join(PROMISES)}, not {' and '.join(given) or 'none'}")
    name, amount = given.popitem()
    if name == "max_bytes":
        Integer(1).check(name, amount)
        return Promise(name, int(amount))
    if isinstance(amount, bool) or not isinstance(amount, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} must be a number, not {amount!r}")
    if isinstance(amount, int) and abs(amount) > LARGEST:
        raise InputError(f"{name} is too large: compress nothing at all")
    if not (np.isfinite(amount) and amount >= 0 and (amount > 0 or name == "max_error")):
        raise InputError(
            f"{name} must be a number {'of 0 or more' if name == 'max_error' else 'above 0'}, not {amount}"
        )
    return Promise(name, float(amount))


def _type_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values come back; raise InputError for what is no type of numbers."""
    if dtype.newbyteorder("=").name in DTYPES:
        return dtype.newbyteorder("=")
    advice = {
        "c": "compress real and imaginary parts apart, as np.stack([x.real, x.imag])",
        "O": "convert it to one type of numbers, as with X.astype(float)",
        "f": "convert it with X.astype(np.float64)",
    }
    what = advice.get(dtype.kind, "convert it to numbers")
    raise InputError(f"an array of {dtype} cannot be compressed: {what}")


def _unmasked(matrix: Any) -> NDArray[Any]:
    """Return a masked array with NaN where it is masked."""
    if not np.ma.is_masked(matrix):
        return np.asarray(matrix.data)
    if matrix.dtype.kind != "f":
        raise InputError(
            f"masked cells of {matrix.dtype} cannot be told from others: convert it with X.astype(float), or fill them "
            "with X.filled(value)"
        )
    return np.asarray(matrix.filled(np.nan))


def _rows_of(matrix: Any) -> tuple[Rows, tuple[Index | None, Index | None]]:
    """Return a matrix as something with rows, and the names of rows and columns that it has."""
    if isinstance(matrix, NamedRows):
        return matrix.rows, matrix.names
    if isinstance(matrix, CompressedMatrix):
        return matrix, (None, None)
    if isinstance(matrix, np.ma.MaskedArray):
        return _unmasked(matrix), (None, None)
    if is_frame(matrix):
        from accams.data.frames import values_of_frame

        return values_of_frame(matrix)
    if is_sparse(matrix):
        raise InputError(
            "a sparse matrix cannot be compressed: most of it is blank, so fit a model to it "
            "(ACCAMS, with zeros='observed' if blanks are zeros), or pass matrix.toarray()"
        )
    if all(hasattr(matrix, name) for name in ("shape", "dtype", "__getitem__")) and not isinstance(matrix, np.generic):
        return matrix, (None, None)
    try:
        return np.asarray(matrix), (None, None)
    except ValueError:
        raise InputError("the matrix has rows of different lengths") from None
