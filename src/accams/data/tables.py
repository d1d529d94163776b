"""Read small tables with a line for each id, of titles or of features, and the names of the columns of large ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.archives import DataFile, literal, open_file
from accams.data.cells import text_of_number
from accams.data.columns import Columns
from accams.data.ids import Index, example
from accams.data.sniff import TableFormat, as_utf8, is_utf8, records, sniff, uneven_error
from accams.errors import InputError

NAMES = ("title", "name", "label")
PLAIN = {  # types of Parquet columns that are taken as they are
    "BOOLEAN", "VARCHAR", "DATE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL",
}  # fmt: skip


class SmallTable(NamedTuple):
    """Cells of a table by column (None is missing); `ids` is the column of ids, at these positions."""

    name: str
    header: list[str]
    columns: list[list[Any]]
    ids: int
    positions: NDArray[np.int64]
    typed: bool  # whether cells are numbers, dates and lists where they are such; else text


def read_table(
    path: str | Path, index: Index, what: str, by_name: Callable[[list[str], list[int]], int | None] = lambda *_: None,
    strict: bool = False, names: tuple[str | None, ...] = NAMES,
) -> SmallTable:  # fmt: skip
    """Read a table with a line for each id.

    The column of ids is known `by_name`, given the header and how many ids of the index each column has, or it is the
    one that has most. Lines with another number of cells than the header are left out, or refused if `strict`. A first
    line with one of the `names` is a header.
    """
    with open_file(Path(path)) as file:
        if file.format not in ("text", "parquet"):
            raise InputError(f"{file.name} is not a table of {what}: it must be text or Parquet")
        typed = file.format == "parquet"
        header, numbered = _parquet(file) if typed else _text(file, names)
        uneven = [(number, len(line)) for number, line in numbered if len(line) != len(header)]
        if uneven and strict:
            raise uneven_error(file.name, *uneven[0], len(header))
        lines = [line for _, line in numbered if len(line) == len(header)]
        if not lines:
            raise InputError(f"{file.name} has no lines below its header")
        columns = [list(column) for column in zip(*lines, strict=True)]
        positions = [_find(index, list(map(text_of, column))) for column in columns]
        known = [len(np.unique(found[found >= 0])) for found in positions]
        ids = by_name(header, known)
        if ids is None and not max(known):
            raise InputError(f"{file.name} does not match the model: no column has ids such as {example(index.ids)}")
        ids = int(np.argmax(known)) if ids is None else ids
        return SmallTable(file.name, header, columns, ids, positions[ids], typed)


def text_of(cell: Any) -> str:
    """Return the text of a cell as an id: 7.0 is 7, as integers become in tables with missing cells."""
    return text_of_number(cell) if isinstance(cell, float) else "" if cell is None else str(cell)


def _find(index: Index, cells: list[str]) -> NDArray[np.int64]:
    """Return the position of each id, of the cell as it is or else without blanks around it."""
    found = index.find(np.array(cells, str))
    return np.where(found >= 0, found, index.find(np.array([cell.strip() for cell in cells], str)))


def id_columns(path: Path, row: str | None, col: str | None) -> tuple[str, str] | None:
    """Return the names of the columns of row ids and column ids; None of a matrix, or where there is no header."""
    with open_file(Path(path)) as file:
        names: tuple[str, ...] = ()
        if file.format == "text":
            fmt = _format(as_utf8(file), (row, col))
            names = fmt.names if fmt.has_header else ()
        elif file.format == "parquet":
            names = tuple(_parquet(file, 0)[0])
    if not names:
        return None
    columns = Columns.choose(names, row, col, None, need_value=False)
    return columns.row, columns.col


def _format(file: DataFile, asked: tuple[str | None, ...]) -> TableFormat:
    return sniff(file, asked, needs_value=False)


def _text(file: DataFile, names: tuple[str | None, ...]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    file = as_utf8(file)
    if not is_utf8(file.path):
        file = as_utf8(file, "latin-1")
    fmt = _format(file, names)
    return list(fmt.names), list(records(file.path, fmt, strip=False))


def _parquet(file: DataFile, most: int | None = None) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    import duckdb

    with duckdb.connect() as con:
        try:
            described = con.execute("DESCRIBE SELECT * FROM read_parquet(?)", [literal(file.path)]).fetchall()
            cells = ", ".join(_cell(str(name), str(kind)) for name, kind, *_ in described)
            limit = "" if most is None else f" LIMIT {most}"
            lines = con.execute(f"SELECT {cells} FROM read_parquet(?){limit}", [literal(file.path)]).fetchall()
        except duckdb.Error as error:
            raise InputError(f"{file.name} cannot be read: {str(error).splitlines()[0]}") from None
        return [str(name) for name, *_ in described], list(enumerate(map(list, lines), 1))


def _cell(name: str, kind: str) -> str:
    """Return how to select a column: as it is, or as text where its values are not numbers, dates, text or lists."""
    quoted = '"' + name.replace('"', '""') + '"'
    if kind.startswith("TIMESTAMP"):
        return f"{quoted}::TIMESTAMP"
    return quoted if kind.removesuffix("[]").split("(")[0] in PLAIN else f"{quoted}::VARCHAR"
