"""Observations from files: text tables and Parquet through duckdb, matrices through NumPy."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data import build, npz, scan
from accams.data.archives import DataFile, open_file
from accams.data.columns import Columns
from accams.data.sniff import BLANKS, SPACES, Layout, as_utf8, is_number, is_utf8, records, sniff, uneven
from accams.errors import InputError

MISSING = ("", "na", "n/a", "nan", "null", "none")

Names = dict[str, str | None]


def read(
    path: Path, row: str | None, col: str | None, value: str | None, weight: str | None, time: str | None,
    duplicates: str, blanks: float | None,
) -> build.Fields:  # fmt: skip
    """Fields of `Observations` from a file.

    Parameters
    ----------
    path : Path
        A CSV, TSV, ``::``-separated or blank-separated text, a Parquet file, or a matrix or arrays in .npz or
        .npy; plain, gzipped, or in a .zip. A path may go on inside a .zip.
    row, col, value, weight, time : str or None
        Names of columns; None for those to recognise.
    duplicates : {"error", "mean", "last", "sum"}
        What to do when a (row, column) pair comes twice.
    blanks : float or None
        The weight of a blank; with it, a table of pairs alone is read with the value 1.
    """
    asked: Names = {"row": row, "col": col, "value": value, "weight": weight, "time": time}
    with open_file(Path(path)) as file, _naming(file.name):
        if file.format in ("npz", "npy"):
            return npz.read(file, asked, duplicates, blanks)
        entries = (_text if file.format == "text" else _parquet)(file, asked, blanks)
        return build.from_entries(
            entries["row"],
            entries["col"],
            entries["value"] if "value" in entries else np.ones(len(entries["row"])),
            None,
            entries.get("weight"),
            entries.get("time"),
            duplicates,
            blanks,
            entries["row_index"],
            entries["col_index"],
        )


def read_pairs(
    path: Path, row: str | None = None, col: str | None = None
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, str]]:
    """Row ids and column ids of a table in the order of its lines, and what the two columns are called.

    Other columns, values among them, are not looked at.
    """
    asked: Names = {"row": row, "col": col, "value": None, "weight": None, "time": None}
    with open_file(Path(path)) as file, _naming(file.name):
        if file.format in ("npz", "npy"):
            raise InputError("pairs are read from text or Parquet, not from a matrix")
        entries = (_text if file.format == "text" else _parquet)(file, asked, 1.0, only_pairs=True)
        rows, cols = (entries[f"{side}_index"].ids[entries[side]] for side in ("row", "col"))
        return rows, cols, (entries["columns"].row, entries["columns"].col)


class How(NamedTuple):
    """What is done with a table: where it is opened, how it is looked over, and what is taken from it."""

    connect: Callable[[Path], AbstractContextManager[Any]]
    survey: Callable[[Any, scan.Table], dict[str, int]]
    take: Callable[[Any, scan.Table, dict[str, int]], Any]


def _in_memory() -> How:
    return How(scan.connect, scan.survey, scan.fetch)


def each_table(
    path: Path, names: Names, blanks: float | None, connect: Callable[[Path], AbstractContextManager[Any]],
    take: Callable[[Any, scan.Table, dict[str, int]], None],
) -> None:  # fmt: skip
    """Look a table over, and have `take` take what it wants of the view ``lines``, which has no faults."""

    def taken(con: Any, table: scan.Table, counts: dict[str, int]) -> dict[str, Any]:
        take(con, table, counts)
        return {}

    with open_file(Path(path)) as file, _naming(file.name):
        if file.format in ("npz", "npy"):
            raise InputError("a store is made of text or Parquet, not of a matrix")
        (_text if file.format == "text" else _parquet)(file, names, blanks, how=How(connect, scan.count, taken))


def _text(
    file: DataFile, asked: Names, blanks: float | None, only_pairs: bool = False, how: How | None = None
) -> dict[str, Any]:
    """Entries of a text table: as UTF-8 first, then Latin-1; with equal ends of lines first, then mixed."""
    import duckdb

    how, file = how or _in_memory(), as_utf8(file)
    layout = sniff(file, asked.values(), needs_value=blanks is None)
    unknown = [name for name in asked.values() if name is not None and name not in layout.names]
    if unknown and not layout.has_header:
        raise InputError(
            f"there is no column {unknown[0]!r}: the file has no header line, so its columns are called "
            f"{', '.join(layout.names)}"
        )
    columns = _columns(layout.names, asked, blanks, only_pairs)
    strict = True
    while True:
        table = _text_table(file.path, layout, columns, strict)
        try:
            with how.connect(file.scratch) as con:
                return _entries(con, file, table, columns, asked, layout, how)
        except duckdb.Error as error:
            message = str(error)
        if not is_utf8(file.path):
            file = as_utf8(file, "latin-1")
        else:
            _check_lines(file, layout, message)
            if not strict:
                raise InputError(f"the file cannot be read as a table: {message.splitlines()[0]}")
            strict = False


def _parquet(
    file: DataFile, asked: Names, blanks: float | None, only_pairs: bool = False, how: How | None = None
) -> dict[str, Any]:
    """Entries of a Parquet file."""
    import duckdb

    how = how or _in_memory()
    try:
        with how.connect(file.scratch) as con:
            relation = f"read_parquet({_quoted(str(file.path))}, file_row_number = true)"
            described = con.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
            types = {str(name): str(kind) for name, kind, *_ in described if name != "file_row_number"}
            columns = _columns(tuple(types), asked, blanks, only_pairs)
            table = _parquet_table(con, relation, types, columns)
            return _entries(con, file, table, columns, asked, None, how)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file.name} is damaged, cut off or not a Parquet file ({reason}): get it again") from None


def _entries(
    con: Any, file: DataFile, table: scan.Table, columns: Columns, asked: Names, layout: Layout | None, how: How
) -> dict[str, Any]:
    """Check and fetch a table; say where it is wrong."""
    counts = how.survey(con, table)
    if counts.get("bad_time") and asked["time"] is None:  # a column that is only called so
        table = replace(table, cells={role: cell for role, cell in table.cells.items() if role != "time"})
        counts = {name: count for name, count in counts.items() if name != "times"}
    if not counts["lines"]:
        raise InputError(f"{file.name} has no data")
    bad = [role for role in table.faults() if counts[f"bad_{role}"]]
    if bad and layout is None:
        _blame_entry(con, file, table, columns, bad)
    elif bad and layout is not None:
        _blame_line(con, file, table, columns, bad, layout)
    return {**how.take(con, table, counts), "columns": columns}


def _text_table(path: Path, layout: Layout, columns: Columns, strict: bool) -> scan.Table:
    """What duckdb is told about a text file; nothing is left for it to guess."""
    width, used = len(layout.names), columns.used()
    by_blanks = layout.delimiter == BLANKS
    names = ["line"] if by_blanks else [f"c{k}" for k in range(width)]
    options = {
        "delim": "chr(1)" if by_blanks else _quoted(layout.delimiter),
        "quote": _quoted(layout.quote),
        "escape": _quoted(layout.quote),
        "header": str(layout.has_header).lower(),
        "skip": str(layout.skip),
        "strict_mode": str(strict).lower(),
        "auto_detect": "false",
        "columns": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}",
    }
    relation = f"read_csv({_quoted(str(path))}, {', '.join(f'{k} = {v}' for k, v in options.items())})"
    if by_blanks:
        bare = "trim(line, chr(32) || chr(9))"
        relation = f"(SELECT string_split_regex({bare}, '\\s+') AS cells FROM {relation} WHERE {bare} <> '')"
    place = {role: layout.names.index(name) for role, name in used.items()}
    times = [cells[place["time"]] for cells in layout.sample if len(cells) == width] if "time" in used else []
    around = "" if strict else ", chr(9) || chr(10) || chr(13) || chr(32)"  # an end of line may have stayed
    cells = {role: f"cells[{k + 1}]" if by_blanks else f"c{k}" for role, k in place.items()}
    return scan.Table(
        relation,
        cells | {role: f"NULLIF(trim({cells[role]}{around}), '')" for role in ("row", "col")},
        {"row": "?", "col": "?"},
        times_are_numbers=all(is_number(cell) for cell in times if cell),
        uneven=f"len(cells) <> {width}" if by_blanks else "false",
    )


def _parquet_table(con: Any, relation: str, types: Mapping[str, str], columns: Columns) -> scan.Table:
    """What duckdb is told about a Parquet file, which knows its own types."""
    cells = {role: '"' + name.replace('"', '""') + '"' for role, name in columns.used().items()}
    times_are_numbers = True
    if columns.time is not None:
        time = cells["time"]
        first = con.execute(f"SELECT CAST({time} AS VARCHAR) FROM {relation} WHERE {time} IS NOT NULL LIMIT 1")
        times_are_numbers = all(is_number(text) for (text,) in first.fetchall())
    ids = {role: scan.whole_or_text(cells[role], types[columns.used()[role]]) for role in ("row", "col")}
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


def _blame_line(con: Any, file: DataFile, table: scan.Table, columns: Columns, bad: list[str], layout: Layout) -> None:
    """Raise the complaint about the first line with a fault."""
    used, width = columns.used(), len(layout.names)
    texts = {role: (text or "").strip(SPACES) for role, _, text in scan.first_faults(con, table, bad)}
    for line, cells in _records(file, layout):
        if len(cells) != width:
            raise uneven(file.name, line, len(cells), width)
        for role, text in texts.items():
            if role in used and cells[layout.names.index(used[role])] == text:
                raise _complaint(f"{file.name} line {line}", role, used[role], text)
    role = bad[-1]
    raise _complaint(file.name, role, used.get(role, "line"), texts[role])


def _blame_entry(con: Any, file: DataFile, table: scan.Table, columns: Columns, bad: list[str]) -> None:
    """Raise the complaint about the first entry with a fault."""
    role, entry, text = min(scan.first_faults(con, table, bad), key=lambda fault: fault[1])
    raise _complaint(f"{file.name} entry {entry}", role, columns.used()[role], text or "")


def _complaint(place: str, role: str, column: str, text: str) -> InputError:
    if text.lower() in MISSING:
        return InputError(f"{place}: the {column} is missing; fill it in or leave that line out")
    shown = repr(text if len(text) <= 40 else text[:37] + "...")
    if role == "time":
        return InputError(f"{place}: {column} {shown} is neither a number nor a time like 2001-02-03 04:05:06")
    what = "is too large or infinite" if is_number(text) else "is not a number"
    return InputError(f"{place}: {column} {shown} {what}")


def _check_lines(file: DataFile, layout: Layout, message: str) -> None:
    """Raise if a line has too many or too few cells, or if duckdb names a line."""
    for line, cells in _records(file, layout):
        if len(cells) != len(layout.names):
            raise uneven(file.name, line, len(cells), len(layout.names))
    named = re.search(r"Error on Line: (\d+)", message)
    if named:
        raise InputError(
            f"{file.name} line {named[1]} cannot be cut into {len(layout.names)} cells at "
            f"{layout.delimiter!r}; check its quotes"
        )


def _records(file: DataFile, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    line = layout.skip
    try:
        for line, cells in records(file.path, layout):
            yield line, cells
    except csv.Error:
        raise InputError(f"{file.name}: a cell after line {line} is too long; check its quotes") from None


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Begin every complaint with the name of the file."""
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise InputError(f"{name}: {error}") from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
