"""Names for ids, from a table such as MovieLens's movies.csv."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from accams.data.archives import DataFile, open_file
from accams.data.ids import Index
from accams.data.sniff import as_utf8, is_number, is_utf8, records, sniff
from accams.errors import InputError

NAMES = ("title", "name", "label")


def read_titles(path: str | Path, index: Index) -> dict[Any, str]:
    """The name of each id that the table knows.

    Which column holds ids is told by the ids themselves; names are in the column called title, name or label, or else
    in the first other column of text.
    """
    with open_file(Path(path)) as file:
        if file.format not in ("text", "parquet"):
            raise InputError(f"{file.name} is no table of titles: it must be text or Parquet")
        header, lines = _parquet(file) if file.format == "parquet" else _text(file)
        lines = [line for line in lines if len(line) == len(header)]
        columns = [list(column) for column in zip(*lines, strict=True)]
        found = [index.find(np.array(["" if x is None else x for x in column], str)) for column in columns]
        known = [len(np.unique(positions[positions >= 0])) for positions in found]
        if not columns or not max(known):
            example = repr(index.ids[:1].tolist()[0]) if len(index) else "none"
            raise InputError(f"{file.name} does not match the model: no column of it has ids such as {example}")
        ids = int(np.argmax(known))
        names = _name_column(header, columns, ids)
        if names is None:
            raise InputError(f"{file.name} has no column of names beside the ids: call it title")
        named = zip(index.ids[found[ids]].tolist(), found[ids].tolist(), columns[names], strict=True)
        return {x: str(name) for x, position, name in named if position >= 0 and name}


def _name_column(header: list[str], columns: list[list[Any]], ids: int) -> int | None:
    """Which column has names: the one that is called so, or the first with text in most places."""
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
    layout = sniff(file, NAMES, needs_value=False)
    return list(layout.names), [cells for _, cells in records(file.path, layout)]


def _parquet(file: DataFile) -> tuple[list[str], list[list[Any]]]:
    import duckdb

    with duckdb.connect() as con:
        try:
            found = con.execute("SELECT COLUMNS(*)::VARCHAR FROM read_parquet(?)", [str(file.path)])
        except duckdb.Error as error:
            raise InputError(f"{file.name} cannot be read: {str(error).splitlines()[0]}") from None
        return [each[0] for each in found.description or []], [list(line) for line in found.fetchall()]


def titled(titles: dict[Any, str], ids: Any) -> Iterator[str]:
    """Each id's name, or the id itself."""
    return (titles.get(x, str(x)) for x in ids)
