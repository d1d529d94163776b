"""What else compresses an array of numbers: general, floating-point, field and vector coders.

A method has up to two functions: `bounded(matrix, error)` keeps every number within an error, `sized(matrix, size)`
takes at most so many bytes and then has a small root mean square error. Both return what is `Stored`. Where a coder
leaves something to choose (order, filter, predictor), all choices are tried and the smallest is taken.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from math import floor

import numpy as np

from rivals.matrices import Matrix

LEVEL = 15  # of zstd
TRIES = 11  # to meet a size by halving the range of errors,
FINEST, COARSEST = 1e-5, 1e4  # from and to, in ranges of the matrix: zfp's errors are far below what it is told
INSIDE = 1 - 1e-5  # of a promised error, for what is computed in 32 bits
LONGEST = 16  # times the promised error: zfp's own bound is far from tight, so larger ones are tried too
ZFP_HEAD, ZFP_LEAST = 64, 12  # bytes before the blocks, and bits of one
CODE_BITS = 8
SUBVECTORS = (2, 4, 8, 16, 32, 64, 128)
SAMPLE = 20_000  # vectors that codebooks are learned from


@dataclass(frozen=True)
class Stored:
    """Bytes, how to read them, and which of several choices was the smallest."""

    size: int
    read: Callable[[], np.ndarray]
    which: str = ""


Coder = Callable[[Matrix, float], Stored]


@dataclass(frozen=True)
class Method:
    """A way to compress.

    Attributes
    ----------
    packages : tuple of (str, str)
        Modules it needs, and what to install for each.
    blanks : bool
        It can store NaN.
    """

    name: str
    packages: tuple[tuple[str, str], ...]
    bounded: Coder | None
    sized: Callable[[Matrix, int], Stored] | None
    blanks: bool = False

    @property
    def missing(self) -> str:
        """What has to be installed first."""
        return " ".join(pip for module, pip in self.packages if importlib.util.find_spec(module) is None)


def smallest(found: Iterable[Stored]) -> Stored:
    return min(found, key=lambda each: each.size)


def within(matrix: Matrix, error: float, code: Callable[[np.ndarray, float], Stored], field: bool) -> Stored:
    """The smallest of one array, or of the views of it in which numbers have neighbours.

    Whole numbers that are off by less than half are rounded back, so a coder may be off by that much more.
    """
    whole = matrix.values.dtype.kind in "iu"
    views = [matrix.values, matrix.field] if field and matrix.field.ndim > 2 else [matrix.values]
    bound = (floor(error) + 0.499 if whole else error) * INSIDE
    best = smallest(code(view.astype(np.float32), bound) for view in views)

    def read() -> np.ndarray:
        values = best.read().reshape(matrix.values.shape)
        return np.rint(values) if whole else values

    return Stored(best.size, read, best.which)


def to_size(bounded: Coder, matrix: Matrix, size: int) -> Stored:
    """The one of smallest promised error, of those tried, that fits."""
    spread = float(np.nanmax(matrix.values)) - float(np.nanmin(matrix.values))
    low, high, best = FINEST * spread, COARSEST * spread, None
    for _ in range(TRIES):
        error = float(np.sqrt(low * high))
        each = bounded(matrix, error)
        if each.size <= size:
            high, best = error, each
        else:
            low = error
    return best or bounded(matrix, high)


def orders(values: np.ndarray) -> Iterable[tuple[str, np.ndarray, Callable[[np.ndarray], np.ndarray]]]:
    """An array row by row and column by column, and how to undo it."""
    yield "rows", np.ascontiguousarray(values), lambda read: read.reshape(values.shape)
    yield "columns", np.ascontiguousarray(values.T), lambda read: read.reshape(values.T.shape).T


def shuffled(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.reshape(-1).view(np.uint8).reshape(-1, values.itemsize).T)


def zstd(values: np.ndarray) -> Stored:
    """As it is or with bytes shuffled."""
    from zstandard import ZstdCompressor, ZstdDecompressor

    def found() -> Iterable[Stored]:
        for order, x, back in orders(values):
            for shuffle in (False, True) if x.itemsize > 1 else (False,):
                data = ZstdCompressor(level=LEVEL).compress((shuffled(x) if shuffle else x).tobytes())

                def read(data=data, shuffle=shuffle, back=back) -> np.ndarray:
                    raw = np.frombuffer(ZstdDecompressor().decompress(data), np.uint8)
                    raw = np.ascontiguousarray(raw.reshape(values.itemsize, -1).T) if shuffle else raw
                    return back(raw.view(values.dtype))

                yield Stored(len(data), read, order + (" shuffled" if shuffle else ""))

    return smallest(found())


def lossless_zstd(matrix: Matrix, error: float) -> Stored:
    return zstd(matrix.values)


def blosc2_of(values: np.ndarray, mantissa: int | None = None) -> Stored:
    """Zstandard behind a shuffle of bytes or bits, perhaps with mantissas cut to some bits."""
    import blosc2

    def found() -> Iterable[Stored]:
        for order, x, back in orders(values):
            for name in ("SHUFFLE", "BITSHUFFLE"):
                filters, meta = [getattr(blosc2.Filter, name)], [0]
                if mantissa is not None:
                    filters, meta = [blosc2.Filter.TRUNC_PREC, *filters], [mantissa, *meta]
                data = blosc2.compress2(
                    x, typesize=x.itemsize, codec=blosc2.Codec.ZSTD, clevel=9, nthreads=1, filters=filters,
                    filters_meta=meta,
                )  # fmt: skip

                def read(data=data, back=back) -> np.ndarray:
                    return back(np.frombuffer(blosc2.decompress2(data, nthreads=1), values.dtype))

                yield Stored(len(data), read, f"{order} {name.lower()}")

    return smallest(found())


def lossless_blosc2(matrix: Matrix, error: float) -> Stored:
    return blosc2_of(matrix.values)


def cut_blosc2(matrix: Matrix, error: float) -> Stored:
    """With the shortest mantissas that keep the error; whole numbers are left whole."""
    if matrix.values.dtype.kind != "f":
        return blosc2_of(matrix.values)
    values = matrix.values.astype(np.float32)
    for mantissa in range(1, 23):
        cut = (values.view(np.uint32) & np.uint32(0xFFFFFFFF << (23 - mantissa) & 0xFFFFFFFF)).view(np.float32)
        if np.nanmax(np.abs(cut - values)) <= error:
            return blosc2_of(values, mantissa)
    return blosc2_of(values)


def lossless_fpzip(matrix: Matrix, error: float) -> Stored:
    import fpzip

    if matrix.values.dtype.kind != "f":
        raise ValueError("it is for floating-point numbers")
    values = np.asarray(matrix.field, np.float32)
    data = fpzip.compress(values, precision=0, order="C")
    return Stored(len(data), lambda: fpzip.decompress(data, order="C").reshape(matrix.values.shape))


def pco(values: np.ndarray) -> Stored:
    from pcodec import ChunkConfig, standalone

    widest = values.astype(np.uint16) if values.dtype == np.uint8 else values

    def found() -> Iterable[Stored]:
        for order, x, back in orders(widest):
            data = standalone.simple_compress(x.ravel(), ChunkConfig())
            yield Stored(len(data), lambda data=data, back=back: back(standalone.simple_decompress(data)), order)

    return smallest(found())


def lossless_pco(matrix: Matrix, error: float) -> Stored:
    return pco(matrix.values)


def uniform(matrix: Matrix, error: float, code: Callable[[np.ndarray], Stored]) -> Stored:
    """Numbers as whole multiples of twice the error, losslessly coded; blanks are level 0, others begin at 1."""
    whole = matrix.values.dtype.kind in "iu"
    step = 2.0 * floor(error) + 1.0 if whole else 2.0 * error * INSIDE
    low = float(np.nanmin(matrix.values))
    levels = np.rint((matrix.values.astype(np.float64) - low) / step)
    levels = np.where(np.isnan(levels), 0, levels + matrix.blanks).astype(np.int64)
    type_ = next(t for t in (np.uint8, np.uint16, np.uint32) if levels.max() <= np.iinfo(t).max)
    coded = code(levels.astype(type_))

    def read() -> np.ndarray:
        found = coded.read().astype(np.float64)
        values = low + step * (found - matrix.blanks)
        return np.where(found == 0, np.nan, values) if matrix.blanks else values

    return Stored(coded.size + 16, read, coded.which)


def zfp(values: np.ndarray, error: float) -> Stored:
    """With the largest tolerance at which the error found is within the one promised."""
    best, tolerance = None, error
    while tolerance <= LONGEST * error:
        each = rough_zfp(values, tolerance)
        if np.abs(each.read().astype(np.float64) - values).max() <= error:
            best = each
        tolerance *= 2.0**0.5
    return best or Stored(values.nbytes, lambda: values, "as it was")


def rough_zfp(values: np.ndarray, tolerance: float) -> Stored:
    import zfpy

    data = zfpy.compress_numpy(values, tolerance=tolerance)
    return Stored(len(data), lambda: zfpy.decompress_numpy(data), f"{values.ndim} dimensions")


def zfp_rate(matrix: Matrix, size: int) -> Stored:
    """Fixed rate: any part of it can be read for itself. Each block of 4, 16 or 64 numbers takes some whole bits."""
    import zfpy

    best, least = None, np.inf
    for view in {id(x): x for x in (matrix.values, matrix.field)}.values():
        values, block = view.astype(np.float32), 4**view.ndim
        blocks = int(np.prod([-(-n // 4) for n in view.shape]))
        bits = (8 * (size - ZFP_HEAD)) // blocks
        if bits < ZFP_LEAST:  # zfp writes beyond its buffer
            continue
        data = zfpy.compress_numpy(values, rate=bits / block)
        error = float(np.square(zfpy.decompress_numpy(data).astype(np.float64) - values).sum())
        if error < least:
            best, least = (data, f"{values.ndim} dimensions"), error
    if best is None:
        raise ValueError(f"{ZFP_LEAST} bits for each block take more")
    data, which = best
    return Stored(len(data), lambda: zfpy.decompress_numpy(data).reshape(matrix.values.shape), which)


def sz3(values: np.ndarray, error: float, checked: bool = True) -> Stored:
    """With each of its predictors."""
    from pysz import sz, szAlgorithm, szConfig, szErrorBoundMode

    def found() -> Iterable[Stored]:
        for name in ("INTERP_LORENZO", "LORENZO_REG", "NOPRED"):
            config = szConfig(values.shape)
            config.errorBoundMode, config.absErrorBound = szErrorBoundMode.ABS, error
            config.cmprAlgo = getattr(szAlgorithm, name)
            data, _ = sz.compress(values, config)
            read = sz.decompress(data, np.float32, values.shape)[0]
            if not checked or np.abs(read - values).max() <= error / INSIDE:
                read = partial(sz.decompress, data, np.float32, values.shape)
                which = f"{name.lower()}, {values.ndim} dimensions"
                yield Stored(len(data), lambda read=read: read()[0], which)

    return min(found(), key=lambda each: each.size, default=Stored(values.nbytes, lambda: values, "as it was"))


def sperr_of(values: np.ndarray, **promise: float) -> Stored:
    """Wavelets, by the filter for HDF5 files, in memory."""
    import h5py
    import hdf5plugin

    file = BytesIO()
    with h5py.File(file, "w") as written:
        options = hdf5plugin.Sperr(**promise, swap=True)  # dimensions in the order of NumPy
        kept = written.create_dataset("x", data=values, chunks=values.shape, compression=options)
        written.flush()
        size = kept.id.get_storage_size()

    def read() -> np.ndarray:
        with h5py.File(BytesIO(file.getvalue()), "r") as again:
            return again["x"][:]

    return Stored(size, read, f"{values.ndim} dimensions")


def sperr(values: np.ndarray, error: float) -> Stored:
    found = sperr_of(values, absolute=error)
    kept = np.abs(found.read() - values).max() <= error / INSIDE
    return found if kept else Stored(values.nbytes, lambda: values, "as it was")


def sperr_rate(matrix: Matrix, size: int) -> Stored:
    """By its own rate, which is for the error on average."""
    best, least, shape = None, np.inf, matrix.values.shape
    for view in {id(x): x for x in (matrix.values, matrix.field)}.values():
        values, rate = view.astype(np.float32), 8.0 * size / view.size
        while (found := sperr_of(values, rate=rate)).size > size:
            rate *= 0.98
        error = float(np.square(found.read() - values).sum())
        if error < least:
            best, least = found, error
    return Stored(best.size, lambda: best.read().reshape(shape), best.which)


def field(code: Callable[[np.ndarray, float], Stored]) -> Coder:
    return lambda matrix, error: within(matrix, error, code, field=True)


def vectors(matrix: Matrix, size: int, residual: bool) -> Stored:
    """A product or residual quantiser of the rows or columns, or of pieces of them; codebooks in 16 bits."""
    import faiss

    faiss.omp_set_num_threads(1)
    best, least = None, np.inf
    for name, x, back in orders(matrix.values.astype(np.float32)):
        for pieces in (p for p in (1, 4, 16, 64) if x.shape[1] % p == 0 and x.shape[1] // p >= 8):
            cut = x.reshape(-1, x.shape[1] // pieces)
            stages = [1, 2, 3, 4, 6] if residual else [s for s in SUBVECTORS if cut.shape[1] % s == 0]
            books = [(2**CODE_BITS) * cut.shape[1] * 2 * (s if residual else 1) for s in stages]
            fitting = [s for s, b in zip(stages, books, strict=True) if b + len(cut) * s * CODE_BITS / 8 <= size]
            if not fitting or len(cut) < 2 * 2**CODE_BITS:
                continue
            stored = of_vectors(cut, fitting[-1], residual, back)
            error = float(np.square(stored.read() - matrix.values).sum())
            if error < least:
                best, least = Stored(stored.size, stored.read, f"{name} in {pieces}, {stored.which}"), error
    if best is None:
        raise ValueError("codebooks alone take more")
    return best


def of_vectors(x: np.ndarray, stages: int, residual: bool, back: Callable[[np.ndarray], np.ndarray]) -> Stored:
    import faiss

    make = faiss.ResidualQuantizer if residual else faiss.ProductQuantizer
    quantiser = make(x.shape[1], stages, CODE_BITS)
    quantiser.cp.min_points_per_centroid = 1  # no warnings
    if residual:
        quantiser.max_beam_size = 4
    chosen = np.random.default_rng(0).permutation(len(x))[:SAMPLE]
    quantiser.train(np.ascontiguousarray(x[chosen]))
    part = quantiser.codebooks if residual else quantiser.centroids
    books = faiss.vector_to_array(part).astype(np.float16)
    faiss.copy_array_to_vector(books.astype(np.float32), part)
    if residual:
        quantiser.compute_codebook_tables()
    codes = quantiser.compute_codes(x)
    read = lambda: back(quantiser.decode(codes))  # noqa: E731
    return Stored(codes.nbytes + books.nbytes, read, f"{stages} codes of {CODE_BITS} bits")


def of_field(
    name: str, code: Callable[[np.ndarray, float], Stored], packages: tuple[tuple[str, str], ...],
    rough: Callable[[np.ndarray, float], Stored] | None = None,
) -> Method:  # fmt: skip
    """A coder of fields; `rough` does where only the size counts."""
    return Method(name, packages, field(code), partial(to_size, field(rough or code)))


def of_levels(name: str, code: Callable[[np.ndarray], Stored], packages: tuple[tuple[str, str], ...]) -> Method:
    bounded = partial(uniform, code=code)
    return Method(name, packages, bounded, partial(to_size, bounded), blanks=True)


ZSTD, BLOSC2, PCO = ("zstandard", "zstandard"), ("blosc2", "blosc2"), ("pcodec", "pcodec")
ZFP, FAISS, FPZIP = ("zfpy", "zfpy"), ("faiss", "faiss-cpu"), ("fpzip", "fpzip")
CODERS = (
    Method("zstd, lossless", (ZSTD,), lossless_zstd, None, blanks=True),
    Method("Blosc2, lossless", (BLOSC2,), lossless_blosc2, None, blanks=True),
    Method("fpzip, lossless", (FPZIP,), lossless_fpzip, None),
    Method("pcodec, lossless", (PCO,), lossless_pco, None, blanks=True),
    Method("Blosc2, cut mantissas", (BLOSC2,), cut_blosc2, None, blanks=True),
    of_levels("uniform + zstd", zstd, (ZSTD,)),
    of_levels("uniform + pcodec", pco, (PCO,)),
    of_field("zfp", zfp, (ZFP,), rough_zfp),
    Method("zfp, fixed rate", (ZFP,), None, zfp_rate),
    of_field("SZ3", sz3, (("pysz", "pysz"),), partial(sz3, checked=False)),
    Method("SPERR", (("h5py", "h5py"), ("hdf5plugin", "hdf5plugin")), field(sperr), sperr_rate),
    Method("product quantiser", (FAISS,), None, partial(vectors, residual=False)),
    Method("residual quantiser", (FAISS,), None, partial(vectors, residual=True)),
)
