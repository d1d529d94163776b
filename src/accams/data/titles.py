"""Read titles of ids from a table such as MovieLens' movies.csv."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accams.data.ids import Index
from accams.data.sniff import is_number
from accams.data.tables import NAMES, read_table
from accams.errors import InputError


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


def _name_column(header: list[str], columns: list[list[Any]], ids: int) -> int | None:
    """Return the column of titles: by name, or the first that is mostly text."""
    lower = [name.lower() for name in header]
    called = [lower.index(name) for name in NAMES if name in lower and lower.index(name) != ids]
    texts = [
        p for p, column in enumerate(columns)
        if p != ids and sum(not is_number(str(x)) for x in column if x) > len(column) / 2
    ]  # fmt: skip
    return next(iter(called + texts), None)


def titled(titles: dict[Any, str], ids: Any) -> Iterator[str]:
    """Yield the title of each id, or the id itself."""
    return (titles.get(x, str(x)) for x in ids)
