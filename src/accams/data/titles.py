"""Read titles of ids from a table such as MovieLens' movies.csv."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.data.archives import DataFile, literal, open_file
from accams.data.ids import Index, example
from accams.data.sniff import as_utf8, is_number, is_utf8, records, sniff
from accams.errors import InputError

NAMES = ("title", "name", "label")


def read_titles(path: str | Path, index: Index) -> dict[Any, str]:
    """Read the titles of ids from a table.

    The column of ids is the one that matches most ids of the index. Titles are in the column named title, name or
    label, or else in the first other text column.

    Parameters
    ----------
    path : str or Path
        Text or Parquet, plain, gzipped or in a .zip.
    index : Index
        Ids of the rows or columns of a model, such as ``Observations.col_index``.

    Returns
    -------
    dict
        Title of each id found in the table.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "movies.csv")
    ...     _ = path.write_text("movieId,title\\n7,Sabrina\\n9,Heat\\n")
    ...     read_titles(path, Index([7, 8]))
    {7: 'Sabrina'}
    """
    table = read_table(path, index, "titles")
    columns, positions = table.columns, table.positions
    names = _name_column(table.header, columns, table.ids)
    if names is None:
        raise InputError(f"{table.name} has no text column beside the ids: name the column of titles title")
    named = zip(index.ids[positions].tolist(), positions.tolist(), columns[names], strict=True)
    return {x: str(name).strip() for x, position, name in named if position >= 0 and name}


class TextTable(NamedTuple):
    """Cells of a table as text, by column (None is missing); `ids` is the column of ids, at these positions."""

    name: str
    header: list[str]
    columns: list[list[Any]]
    ids: int
    positions: NDArray[np.int64]


def read_table(
    path: str | Path, index: Index, what: str, by_name: Callable[[list[str]], int | None] = lambda _: None
) -> TextTable:
    """Read a table with a line for each id; the column of ids is known `by_name`, or matches most ids of the index."""
    with open_file(Path(path)) as file:
        if file.format not in ("text", "parquet"):
            raise InputError(f"{file.name} is not a table of {what}: it must be text or Parquet")
        header, lines = _parquet(file) if file.format == "parquet" else _text(file)
        lines = [line for line in lines if len(line) == len(header)]
        columns = [list(column) for column in zip(*lines, strict=True)]
        positions = [_find(index, ["" if x is None else x for x in column]) for column in columns]
        known = [len(np.unique(found[found >= 0])) for found in positions]
        ids = by_name(header) if columns else None
        if ids is None and (not columns or not max(known)):
            raise InputError(f"{file.name} does not match the model: no column has ids such as {example(index.ids)}")
        ids = int(np.argmax(known)) if ids is None else ids
        return TextTable(file.name, header, columns, ids, positions[ids])


def _find(index: Index, cells: list[str]) -> NDArray[np.int64]:
    """Return the position of each id, of the cell as it is or else without blanks around it."""
    found = index.find(np.array(cells, str))
    return np.where(found >= 0, found, index.find(np.array([cell.strip() for cell in cells], str)))


def _name_column(header: list[str], columns: list[list[Any]], ids: int) -> int | None:
    """Return the column of titles: by name, or the first that is mostly text."""
    lower = [name.lower() for name in header]
    called = [lower.index(name) for name in NAMES if name in lower and lower.index(name) != ids]
    texts = [
        p for p, column in enumerate(columns)
        if p != ids and sum(not is_number(str(x)) for x in column if x) > len(column) / 2
    ]  # fmt: skip
    return next(iter(called + texts), None)


def _text(file: DataFile) -> tuple[list[str], list[list[str]]]:
    file = as_utf8(file)
    if not is_utf8(file.path):
        file = as_utf8(file, "latin-1")
    fmt = sniff(file, NAMES, needs_value=False)
    return list(fmt.names), [cells for _, cells in records(file.path, fmt, strip=False)]


def _parquet(file: DataFile) -> tuple[list[str], list[list[Any]]]:
    import duckdb

    with duckdb.connect() as con:
        try:
            result = con.execute("SELECT COLUMNS(*)::VARCHAR FROM read_parquet(?)", [literal(file.path)])
        except duckdb.Error as error:
            raise InputError(f"{file.name} cannot be read: {str(error).splitlines()[0]}") from None
        return [column[0] for column in result.description or []], [list(line) for line in result.fetchall()]


def titled(titles: dict[Any, str], ids: Any) -> Iterator[str]:
    """Yield the title of each id, or the id itself."""
    return (titles.get(x, str(x)) for x in ids)
