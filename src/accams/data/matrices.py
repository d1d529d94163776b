"""Read matrices from files, and write them: NumPy arrays, tables of numbers, images and folders of images."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data import scan
from accams.data.archives import DAMAGE, DataFile, clear_errors, open_file
from accams.data.ids import Index
from accams.errors import InputError
from accams.writing import replacing

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm", ".ppm", ".webp")
TABLES = (".csv", ".tsv", ".parquet", ".pq")
READ_CSV = "read_csv(?, sample_size=-1, skip=0, strict_mode=true, null_padding=false, ignore_errors=false)"
MODES = ("1", "L", "LA", "RGB", "RGBA", "I", "I;16", "F")  # of images whose values are taken as they are
EXTRA = "reading and writing images needs Pillow: pip install 'accams[images]'"
Names = tuple[Index | None, Index | None]


@dataclass(frozen=True)
class FoundMatrix:
    """A matrix in a file.

    Attributes
    ----------
    rows : array
        Mapped into memory where the file allows.
    names : (Index or None, Index or None)
        Of rows and of columns.
    """

    rows: NDArray[Any]
    names: Names = (None, None)


@contextmanager
def open_matrix(path: Path, array: str | None = None) -> Iterator[FoundMatrix]:
    """Find the matrix in a file: .npy, .npz, text, Parquet, an image, or a folder of images of one size.

    `array` is the name of an array in an .npz file that has several.
    """
    path = Path(path)
    if path.is_dir() or path.suffix.lower() in IMAGES:
        yield _images(path)
        return
    with open_file(path) as file:
        with clear_errors(file.name):  # and not those of what is then done with the matrix
            found = _found(file, array)
        yield found


def _found(file: DataFile, array: str | None) -> FoundMatrix:
    if file.format == "npy":
        return FoundMatrix(_loaded(file, np.load(file.path, mmap_mode="r", allow_pickle=False)))
    return FoundMatrix(_of_archive(file, array)) if file.format == "npz" else _table(file)


def _loaded(file: DataFile, array: Any) -> NDArray[Any]:
    if array.dtype.hasobject:
        raise InputError(f"{file.name} holds Python objects, not numbers")
    return np.asanyarray(array)


def _of_archive(file: DataFile, wanted: str | None) -> NDArray[Any]:
    with np.load(file.path, allow_pickle=False) as arrays:
        names = arrays.files
        if wanted is not None and wanted not in names:
            raise InputError(f"{file.name} has no array {wanted!r}, but {', '.join(names)}")
        if {"data", "indices", "indptr"} <= set(names):
            raise InputError(
                f"{file.name} holds a sparse matrix, most of which is blank: fit a model to it with accams fit"
            )
        found = [wanted] if wanted is not None else [name for name in names if arrays[name].ndim >= 2]
        if len(found) != 1:
            what = "several matrices" if found else "no matrix"
            advice = f": choose one with array={found[0]}" if found else ""
            raise InputError(f"{file.name} has {what} ({', '.join(names)}){advice}")
        return np.asarray(arrays[found[0]])


def _table(file: DataFile) -> FoundMatrix:
    """Return a table of numbers; a first column of distinct text has the names of the rows."""
    reader = "read_parquet(?)" if file.format == "parquet" else READ_CSV
    with scan.connect(file.scratch) as con:
        import duckdb

        try:
            relation = con.execute(f"SELECT * FROM {reader}", [str(file.path)])
            names = [each[0] for each in relation.description]
            columns = relation.fetchnumpy()
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"{file.name} cannot be read as a table of numbers: {reason}") from None
    rows, values = None, dict[str, NDArray[Any]]()
    for p, name in enumerate(names):
        column = columns[name]
        kind = getattr(column, "dtype", np.dtype(object)).kind
        if kind in "iufb":
            values[name] = _with_gaps(column)
        elif p == 0 and len(set(column.tolist())) == len(column):
            rows = _row_names(file, name, column)
        else:
            raise InputError(
                f"{file.name}: column {name!r} holds no numbers: leave it out (a first column of distinct text names "
                "the rows)"
            )
    if not values:
        raise InputError(f"{file.name} has no column of numbers")
    return FoundMatrix(np.stack(list(values.values()), axis=1), (rows, Index(np.array(list(values), dtype=object))))


def _row_names(file: DataFile, name: str, column: Any) -> Index:
    """Return the text, or the dates, of a first column as names of the rows."""
    missing = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else np.zeros(len(column), bool)
    values = np.asarray(np.ma.getdata(column))
    missing |= np.isnat(values) if values.dtype.kind == "M" else np.array([x is None for x in values.tolist()], bool)
    if missing.any():
        row = int(missing.argmax()) + 1
        raise InputError(f"{file.name}: column {name!r} names the rows, but row {row:,} has no name")
    if values.dtype.kind == "M":
        values = np.datetime_as_string(values, unit="s")
    return Index(np.array([str(x).removesuffix("T00:00:00") for x in values.tolist()], dtype=object))


def _with_gaps(column: Any) -> NDArray[Any]:
    """Return a column of numbers, with NaN where the table has none."""
    if not np.ma.is_masked(column):
        return np.asarray(np.ma.getdata(column))
    return np.asarray(np.ma.filled(column.astype(np.float64), np.nan))


def _images(path: Path) -> FoundMatrix:
    """Return an image, or a folder of images of one size, each of which is a row."""
    image = _pillow()
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix.lower() in IMAGES)
        if not files:
            raise InputError(f"the folder {path} has no images ({', '.join(IMAGES[:4])} and others)")
    arrays = list[NDArray[Any]]()
    for each in files:
        with clear_errors(each.name, (*DAMAGE, SyntaxError)), image.open(each) as opened:  # as Pillow tells of damage
            if getattr(opened, "n_frames", 1) > 1:
                raise InputError(f"{each.name} has {opened.n_frames} frames: save them as images of their own")
            clear = "transparency" in opened.info or opened.mode in ("PA", "La", "RGBa")
            arrays.append(np.asarray(opened if opened.mode in MODES else opened.convert("RGBA" if clear else "RGB")))
        if arrays[-1].shape != arrays[0].shape or arrays[-1].dtype != arrays[0].dtype:
            first, last = (f"{x.shape} {x.dtype}" for x in (arrays[0], arrays[-1]))
            raise InputError(f"images of one size are rows of a matrix: {files[0].name} is {first}, {each.name} {last}")
    if not path.is_dir():
        return FoundMatrix(arrays[0])
    names = [each.stem for each in files]
    if len({name.lower() for name in names}) < len(names):
        names = [each.name for each in files]
    return FoundMatrix(np.stack(arrays), (Index(np.array(names, dtype=object)), None))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise InputError(EXTRA) from None
    return Image


def write_matrix(
    path: Path, blocks: Iterable[NDArray[Any]], shape: tuple[int, ...], dtype: np.dtype[Any],
    names: tuple[NDArray[Any] | None, NDArray[Any] | None],
) -> None:  # fmt: skip
    """Write a matrix that comes in blocks of rows, in the format that the name of the file asks for.

    That is .npy, .npz, .csv, .tsv or .parquet; an image, for a matrix of one; or, for a stack of images and a name
    without an ending, a folder of PNG images.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with replacing(path) as temporary:
            out = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
            at = 0
            for block in blocks:
                out[at : at + len(block)] = block
                at += len(block)
            out.flush()
            del out
    elif suffix == ".npz":
        with replacing(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, matrix=np.concatenate(list(blocks)))
    elif suffix in TABLES:
        _write_table(path, np.concatenate(list(blocks)), names)
    elif suffix in IMAGES or not suffix:
        _write_images(path, np.concatenate(list(blocks)), names[0])
    else:
        raise InputError(f"{path.name}: a matrix is written as .npy, .npz, {', '.join(TABLES)} or images")


def _write_table(path: Path, matrix: NDArray[Any], names: tuple[NDArray[Any] | None, NDArray[Any] | None]) -> None:
    if matrix.ndim != 2:
        raise InputError(f"{path.name}: an array of {matrix.ndim} dimensions is no table: write it as .npy")
    columns = [f"c{j}" for j in range(matrix.shape[1])] if names[1] is None else [str(x) for x in names[1]]
    table = {name: np.ascontiguousarray(matrix[:, j]) for j, name in enumerate(columns)}
    if names[0] is not None:
        label = "row" if "row" not in table else "row name"
        table = {label: np.array([str(x) for x in names[0]], dtype=object), **table}
    with replacing(path) as temporary:
        import duckdb

        how = {".csv": "FORMAT csv, HEADER", ".tsv": "FORMAT csv, HEADER, DELIMITER '\t'"}
        with duckdb.connect() as con:
            con.register("matrix", table)
            quoted = str(temporary).replace("'", "''")
            con.execute(f"COPY matrix TO '{quoted}' ({how.get(path.suffix.lower(), 'FORMAT parquet')})")


def _write_images(path: Path, matrix: NDArray[Any], names: NDArray[Any] | None) -> None:
    image = _pillow()
    if path.suffix:
        if matrix.ndim == 3 and matrix.shape[-1] > 4:
            raise InputError(f"{path.name}: a stack of images needs a folder: give a name without an ending")
        with replacing(path) as temporary:
            _save_image(matrix, temporary, image.registered_extensions()[path.suffix.lower()], path.name)
        return
    if matrix.ndim < 3:
        raise InputError(f"{path}: give the name an ending, such as .npy: this matrix is no stack of images")
    path.mkdir(parents=True, exist_ok=True)
    for p, each in enumerate(matrix):
        name = f"{p:0{len(str(len(matrix)))}d}" if names is None else Path(str(names[p])).name
        _save_image(each, path / f"{name}.png", "PNG", f"{name}.png")


def _save_image(values: NDArray[Any], file: Path, kind: str, name: str) -> None:
    try:
        _pillow().fromarray(values).save(file, format=kind)
    except (TypeError, KeyError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        shape = " x ".join(str(size) for size in values.shape)
        raise InputError(f"{name}: {kind} holds no {shape} image of {values.dtype}: write it as .npy") from None
