"""Read observations from files: text tables and Parquet with duckdb, matrices with NumPy."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data import build, scan
from accams.data.archives import DataFile, literal, open_file
from accams.data.columns import Columns
from accams.data.ids import Index
from accams.data.sniff import (
    BLANKS,
    SPACES,
    TableFormat,
    as_utf8,
    is_number,
    is_utf8,
    records,
    sniff,
    uneven_error,
    with_one_line_end,
)  # fmt: skip
from accams.errors import InputError
from accams.writing import reported_scratch

MOST_EMPTY, PER_BYTE = 1 << 24, 64  # rows and columns of a sparse matrix in a file: so many, or so many for each byte
POSITIONS = {"row", "col", "coords", "indices", "indptr", "offsets", "shape", "blocksize"}  # in a sparse matrix
MISSING = ("", "na", "n/a", "nan", "null", "none")

Names = dict[str, str | None]


def read(
    path: Path, row: str | None, col: str | None, value: str | None, weight: str | None, time: str | None,
    duplicates: str, blanks: float | None,
) -> build.Fields:  # fmt: skip
    """Return the fields of `Observations` for a file.

    It holds text separated by commas, tabs, ``::`` or blanks, Parquet, or a matrix or arrays in .npz or .npy; plain,
    gzipped, or in a .zip, inside which the path may continue. Columns named None are recognised. With `blanks`, the
    weight of a blank, the column of values is optional, and 1 by default.
    """
    asked: Names = {"row": row, "col": col, "value": value, "weight": weight, "time": time}
    with open_file(Path(path)) as file, _errors_naming(file.name):
        if file.format in ("npz", "npy"):
            return _matrix(file, asked, duplicates, blanks)
        entries = _table(file, asked, blanks)
        values = entries["value"] if "value" in entries else np.ones(len(entries["row"]))
        more = entries.get("weight"), entries.get("time"), duplicates, blanks
        indices = entries["row_index"], entries["col_index"]
        return build.from_entries(entries["row"], entries["col"], values, None, *more, *indices)


def read_pairs(
    path: Path, row: str | None = None, col: str | None = None
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, str]]:
    """Return row ids and column ids of a table in the order of its lines, and the names of the two columns.

    Other columns are ignored, values included.
    """
    asked: Names = {"row": row, "col": col, "value": None, "weight": None, "time": None}
    with open_file(Path(path)) as file, _errors_naming(file.name):
        if file.format in ("npz", "npy"):
            raise InputError("pairs must be in a text or Parquet file, not in a matrix")
        entries = _table(file, asked, 1.0, only_pairs=True)
        rows, cols = (entries[f"{side}_index"].ids[entries[side]] for side in ("row", "col"))
        return rows, cols, (entries["columns"].row, entries["columns"].col)


class ReadSteps(NamedTuple):
    """Steps of reading a table: connect to a database, count lines and errors, fetch the data."""

    connect: Callable[[Path], AbstractContextManager[Any]]
    survey: Callable[[Any, scan.Table], dict[str, int]]
    fetch: Callable[[Any, scan.Table, dict[str, int]], Any]


def each_table(
    path: Path, names: Names, blanks: float | None, connect: Callable[[Path], AbstractContextManager[Any]],
    take: Callable[[Any, scan.Table, dict[str, int]], None],
) -> None:  # fmt: skip
    """Validate a table, and call `take` with the connection, whose view ``lines`` holds the lines."""
    with open_file(Path(path)) as file, _errors_naming(file.name):
        if file.format in ("npz", "npy"):
            raise InputError("a store is made from text or Parquet files, not from a matrix")
        _table(file, names, blanks, steps=ReadSteps(connect, scan.count, take))


def _table(
    file: DataFile, asked: Names, blanks: float | None, only_pairs: bool = False, steps: ReadSteps | None = None
) -> dict[str, Any]:
    """Read the entries of a text or Parquet table, by default into memory."""
    steps = steps or ReadSteps(_connect, scan.survey, scan.fetch)
    return (_text if file.format == "text" else _parquet)(file, asked, blanks, only_pairs, steps)


def _text(file: DataFile, asked: Names, blanks: float | None, only_pairs: bool, steps: ReadSteps) -> dict[str, Any]:
    """Read a text table: as UTF-8, else as Latin-1; as it is, else with its line ends made the same."""
    import duckdb

    file = as_utf8(file)
    fmt = sniff(file, asked.values(), needs_value=blanks is None)
    unknown = [name for name in asked.values() if name is not None and name not in fmt.names]
    if unknown and not fmt.has_header:
        raise InputError(
            f"there is no column {unknown[0]!r}: the file has no header line, so its columns are named "
            f"{', '.join(fmt.names)}"
        )
    columns = _columns(fmt.names, asked, blanks, only_pairs)
    uniform = False
    while True:
        table = _text_table(file.path, fmt, columns)
        try:
            with steps.connect(file.scratch) as con:
                return _entries(con, file, table, columns, asked, fmt, steps)
        except duckdb.Error as error:
            message = str(error)
        if not is_utf8(file.path):
            file = as_utf8(file, "latin-1")
        else:
            _check_lines(file, fmt, message)
            if uniform:
                raise InputError(f"the file cannot be read as a table: {message.splitlines()[0]}")
            file, uniform = with_one_line_end(file, fmt), True


def _parquet(file: DataFile, asked: Names, blanks: float | None, only_pairs: bool, steps: ReadSteps) -> dict[str, Any]:
    import duckdb

    try:
        with steps.connect(file.scratch) as con:
            relation = f"read_parquet({_quoted(literal(file.path))}, file_row_number = true)"
            described = con.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
            types = {str(name): str(kind) for name, kind, *_ in described if name != "file_row_number"}
            columns = _columns(tuple(types), asked, blanks, only_pairs)
            table = _parquet_table(con, relation, types, columns)
            return _entries(con, file, table, columns, asked, None, steps)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file.name} is damaged or not a Parquet file ({reason}): download it again") from None


def _entries(
    con: Any, file: DataFile, table: scan.Table, columns: Columns, asked: Names, fmt: TableFormat | None,
    steps: ReadSteps,
) -> dict[str, Any]:  # fmt: skip
    """Validate and fetch a table; the error names the first bad line."""
    counts = steps.survey(con, table)
    if counts.get("bad_time") and asked["time"] is None:  # recognised by its name, but not a time
        table = replace(table, cells={role: cell for role, cell in table.cells.items() if role != "time"})
        counts = {name: count for name, count in counts.items() if name != "times"}
    if not counts["lines"]:
        raise InputError(f"{file.name} has no data")
    bad = [role for role in table.faults() if counts[f"bad_{role}"]]
    if bad:
        raise _first_error(con, file, table, columns, bad, fmt)
    return {**(steps.fetch(con, table, counts) or {}), "columns": columns}


def _text_table(path: Path, fmt: TableFormat, columns: Columns) -> scan.Table:
    """Describe a text file to duckdb, without anything to guess."""
    width, used = len(fmt.names), columns.used()
    by_blanks = fmt.delimiter == BLANKS
    names = ["line"] if by_blanks else [f"c{k}" for k in range(width)]
    options = {
        "delim": "chr(1)" if by_blanks else _quoted(fmt.delimiter),
        "quote": _quoted(fmt.quote),
        "escape": _quoted(fmt.quote),
        "header": str(fmt.has_header).lower(),
        "skip": str(fmt.skip),
        "strict_mode": "true",  # else it drops what follows a closing quote
        "auto_detect": "false",
        "columns": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}",
    }
    relation = f"read_csv({_quoted(literal(path))}, {', '.join(f'{k} = {v}' for k, v in options.items())})"
    if by_blanks:
        bare = "trim(line, chr(32) || chr(9))"
        relation = f"(SELECT string_split_regex({bare}, '\\s+') AS cells FROM {relation} WHERE {bare} <> '')"
    place = {role: fmt.names.index(name) for role, name in used.items()}
    times = [cells[place["time"]] for cells in fmt.sample if len(cells) == width] if "time" in used else []
    names = [f"cells[{k + 1}]" if by_blanks else f"ltrim(c{k})" if fmt.spaced and k else f"c{k}" for k in range(width)]
    cells = {role: names[k] for role, k in place.items()}
    return scan.Table(
        relation,
        cells | {role: _id(cells[role]) for role in ("row", "col")},
        {"row": "?", "col": "?"},
        times_are_numbers=all(is_number(cell) for cell in times if cell),
        uneven=f"len(cells) <> {width}" if by_blanks else "false",
    )


def _id(cell: str) -> str:
    """Return the SQL of an id: the cell as it is, but an integer without blanks around it; NULL for blanks alone."""
    bare = f"trim({cell}, chr(32) || chr(9))"
    is_integer = f"{bare} <> {cell} AND CAST(TRY_CAST({bare} AS BIGINT) AS VARCHAR) = {bare}"
    return f"CASE WHEN {bare} = '' THEN NULL WHEN {is_integer} THEN {bare} ELSE {cell} END"


def _parquet_table(con: Any, relation: str, types: Mapping[str, str], columns: Columns) -> scan.Table:
    """Describe a Parquet file, which has types, to duckdb."""
    cells = {role: '"' + name.replace('"', '""') + '"' for role, name in columns.used().items()}
    times_are_numbers = True
    if columns.time is not None:
        time = cells["time"]
        first = con.execute(f"SELECT CAST({time} AS VARCHAR) FROM {relation} WHERE {time} IS NOT NULL LIMIT 1")
        times_are_numbers = all(is_number(text) for (text,) in first.fetchall())
    ids = {role: scan.integer_or_text(cells[role], types[columns.used()[role]]) for role in ("row", "col")}
    return scan.Table(
        relation,
        cells | {role: cell for role, (cell, _) in ids.items()},
        {role: kind for role, (_, kind) in ids.items()},
        times_are_numbers,
        entry="file_row_number",
    )


def _columns(names: Sequence[str], asked: Names, blanks: float | None, only_pairs: bool) -> Columns:
    columns = Columns.choose(names, **asked, need_value=blanks is None)
    if only_pairs:
        columns = Columns(columns.row, columns.col, None)
    twice = [name for name in columns.used().values() if list(names).count(name) > 1]
    if twice:
        raise InputError(f"there are several columns {twice[0]!r}; give them different names")
    return columns


def _first_error(
    con: Any, file: DataFile, table: scan.Table, columns: Columns, bad: list[str], fmt: TableFormat | None
) -> InputError:
    """Return the error for the first bad line of a text table, or the first bad entry of a Parquet file."""
    faults, used = scan.first_faults(con, table, bad), columns.used()
    if fmt is None:
        role, entry, text = min(faults, key=lambda fault: fault[1])
        return _cell_error(f"{file.name} entry {entry}", role, used[role], text or "")
    width, texts = len(fmt.names), {role: (text or "").strip(SPACES) for role, _, text in faults}
    for line, cells in _records(file, fmt):
        if len(cells) != width:
            return uneven_error(file.name, line, len(cells), width)
        for role, text in texts.items():
            if role in used and cells[fmt.names.index(used[role])] == text:
                return _cell_error(f"{file.name} line {line}", role, used[role], text)
    role = bad[-1]
    return _cell_error(file.name, role, used.get(role, "line"), texts[role])


def _cell_error(place: str, role: str, column: str, text: str) -> InputError:
    if text.lower() in MISSING:
        return InputError(f"{place}: the {column} is missing; fill it in or remove the line")
    shown = repr(text if len(text) <= 40 else text[:37] + "...")
    if role == "time":
        return InputError(f"{place}: {column} {shown} is neither a number nor a time like 2001-02-03 04:05:06")
    what = "is too large or infinite" if is_number(text) else "is not a number"
    return InputError(f"{place}: {column} {shown} {what}")


def _check_lines(file: DataFile, fmt: TableFormat, message: str) -> None:
    """Raise if a line has too many or too few cells, or if the message of duckdb names a line."""
    for line, cells in _records(file, fmt):
        if len(cells) != len(fmt.names):
            raise uneven_error(file.name, line, len(cells), len(fmt.names))
    named = re.search(r"Error on Line: (\d+)", message)
    if named:
        raise InputError(
            f"{file.name} line {named[1]} cannot be split into {len(fmt.names)} cells at "
            f"{fmt.delimiter!r}; check its quotes"
        )


def _records(file: DataFile, fmt: TableFormat) -> Iterator[tuple[int, list[str]]]:
    line = fmt.skip
    try:
        for line, cells in records(file.path, fmt):
            yield line, cells
    except csv.Error:
        raise InputError(f"{file.name}: a cell after line {line} is too long; check its quotes") from None


@contextmanager
def _connect(scratch: Path) -> Iterator[Any]:
    """Connect to a database in memory; that it cannot spill to disk is not told as an error of the table."""
    with reported_scratch(), scan.connect(scratch) as con:
        yield con


@contextmanager
def _errors_naming(name: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _matrix(file: DataFile, asked: Names, duplicates: str, blanks: float | None) -> build.Fields:
    """Return the fields of `Observations` for a sparse or dense matrix, or for arrays of rows, columns, values."""
    arrays = _load(file)
    is_sparse = "format" in arrays and "shape" in arrays
    if not is_sparse and len(arrays) != 1:
        return _arrays(file, arrays, asked, duplicates, blanks)
    named = [f"{role}={name!r}" for role, name in asked.items() if name is not None]
    if named:
        raise InputError(f"{file.name} holds a matrix, which has no named columns: do not pass {', '.join(named)}")
    if is_sparse:
        return build.from_scipy(_sparse(file, arrays), blanks, None, None, None)
    (matrix,) = arrays.values()
    if blanks is not None:
        raise InputError(
            f"{file.name} holds a dense matrix, in which every cell but NaN is observed: "
            "do not pass zeros='observed', or save a sparse matrix"
        )
    if matrix.ndim != 2:
        raise InputError(f"{file.name} holds an array of shape {matrix.shape}; a matrix has two dimensions")
    return build.from_array(matrix, None, None, None)


def _arrays(
    file: DataFile, arrays: dict[str, NDArray[Any]], asked: Names, duplicates: str,
    blanks: float | None,
) -> build.Fields:  # fmt: skip
    """Return the fields for one array per role; ids are positions if there is an array ``shape``."""
    names = Columns.choose([n for n in arrays if n != "shape"], **asked, need_value=blanks is None)
    column = {role: arrays[name] for role, name in names.used().items()}
    lengths = {name: arrays[name].shape for name in names.used().values()}
    if len(set(lengths.values())) > 1 or any(array.ndim != 1 for array in column.values()):
        shown = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise InputError(f"{file.name}: the arrays must be one-dimensional and of equal length, not {shown}")
    values = column["value"] if "value" in column else np.ones(len(column["row"]))
    rest = (column.get("weight"), column.get("time"), duplicates, blanks)
    if "shape" in arrays:
        m, n = (int(size) for size in arrays["shape"])
        return build.from_entries(column["row"], column["col"], values, (m, n), *rest)
    row_index, i = Index.of(column["row"], names.row)
    col_index, j = Index.of(column["col"], names.col)
    values = build.numbers(values, names.value or "value")
    return build.from_entries(i, j, values, None, *rest, row_index, col_index)


def _load(file: DataFile) -> dict[str, NDArray[Any]]:
    """Load all arrays by name, without unpickling."""
    try:
        loaded = np.load(file.path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"matrix": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except MemoryError:
        raise InputError(f"{file.name} is damaged, or too large for this machine's memory") from None
    except Exception as error:  # NumPy raises various errors for damaged files
        if "pickle" in str(error):
            raise InputError(f"{file.name} holds Python objects; save numbers and text only") from None
        raise InputError(f"{file.name} is damaged or truncated: download it again") from None


def _sparse(file: DataFile, arrays: dict[str, NDArray[Any]]) -> Any:
    from scipy import sparse

    try:
        for name in POSITIONS & arrays.keys():  # scipy would cut off fractions
            if arrays[name].dtype.kind not in "iu":
                raise ValueError(f"its {name} are not integers")
        matrix = sparse.load_npz(file.path)
        if matrix.ndim != 2:
            raise ValueError(f"it has {matrix.ndim} dimension")
        build.check_sparse(matrix)
    except Exception as error:  # scipy raises various errors for foreign files
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file.name} is not a matrix that scipy.sparse.save_npz wrote: {reason}") from None
    if sum(matrix.shape) > max(MOST_EMPTY, PER_BYTE * file.path.stat().st_size):
        raise InputError(
            f"{file.name} holds a matrix of {matrix.shape[0]:,} x {matrix.shape[1]:,} with {matrix.nnz:,} entries: "
            "leave out empty rows and columns, or load it with scipy and pass it to Observations.from_sparse"
        )
    return matrix
