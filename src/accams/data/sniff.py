"""How a text table is laid out, told from its first lines; and its cells line by line, to find a fault."""

from __future__ import annotations

import codecs
import csv
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from accams.data.archives import DataFile, head
from accams.data.columns import recognised
from accams.errors import InputError

BLANKS = " "
DELIMITERS = ("::", "\t", ",", ";", "|")
SAMPLE_BYTES = 1 << 16
SAMPLE_LINES = 200
SPACES = " \t\r\n"
WORD = re.compile(r"\S+", re.ASCII)
REMARK = re.compile(r"\s*$|\s*(#|%)(\1|\s|$)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|[+-]?(nan|inf)$", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """What duckdb has to know to read a text table.

    Attributes
    ----------
    delimiter : str
        What stands between two cells; a single blank stands for any run of blanks and tabs.
    skip : int
        Remarks and empty lines on top.
    has_header : bool
        Whether the line after those names the columns.
    names : tuple of str
        The names of the columns; row, col, value, time without a header.
    sample : list of list of str
        The cells of the first data lines.
    """

    delimiter: str
    skip: int
    has_header: bool
    names: tuple[str, ...]
    sample: list[list[str]]

    @property
    def quote(self) -> str:
        """The quote character, empty where quotes are ordinary characters."""
        return "" if self.delimiter in ("::", BLANKS) else '"'


def sniff(file: DataFile, asked: Iterable[str | None], needs_value: bool) -> Layout:
    """Tell the layout from the beginning of a file in UTF-8.

    Parameters
    ----------
    asked : iterable of str or None
        Names of columns that the caller expects: a first line with one of them is a header.
    needs_value : bool
        Whether a table of pairs alone is refused.
    """
    lines = _first_lines(file.path)
    skip = next((at for at, line in enumerate(lines) if not REMARK.match(line)), len(lines))
    top = lines[skip : skip + SAMPLE_LINES]
    if not top:
        raise InputError(f"{file.name} has no data: only empty lines and remarks are in it")
    delimiter, width = _delimiter(top)
    if width < 2:
        raise InputError(
            f"{file.name} is no table of ratings: its lines have one cell only; cells are separated by "
            "comma, tab, '::', ';', '|' or blanks"
        )
    cells = [record for record in split(top, delimiter) if record]
    if len(cells[0]) != width:
        raise uneven(file.name, skip + 1, len(cells[0]), width)
    has_header = _is_header(cells, {name for name in asked if name is not None})
    if has_header and len(cells) == 1:
        raise InputError(f"{file.name} has a header line and no data")
    if not has_header and width == 2 and needs_value:
        raise InputError(
            f"{file.name} has two columns and no ratings; for a graph or implicit feedback pass zeros='observed'"
        )
    usual = ("row", "col", "value", "time")[:width]
    names = tuple(cells[0]) if has_header else usual + tuple(f"column{k}" for k in range(5, width + 1))
    return Layout(delimiter, skip, has_header, names, cells[1:] if has_header else cells)


def records(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The data lines of a file: the physical line number (from 1) and the cells; empty lines are left out."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = _Counted(file)
        for _ in islice(lines, layout.skip):
            pass
        is_header = layout.has_header
        start = lines.count + 1
        for cells in split(lines, layout.delimiter):
            if cells and not is_header:
                yield start, cells
            is_header = is_header and not cells
            start = lines.count + 1


class _Counted(Iterator[str]):
    """Lines, and how many were taken: a quoted cell may take several."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = iter(lines)
        self.count = 0

    def __next__(self) -> str:
        line = next(self.lines)
        self.count += 1
        return line


def split(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of every line, without blanks around them; an empty list for an empty line."""
    if delimiter == BLANKS:
        yield from (WORD.findall(line) for line in lines)
    elif len(delimiter) > 1:
        bare = (line.rstrip("\r\n") for line in lines)
        yield from ([cell.strip(SPACES) for cell in line.split(delimiter)] if line else [] for line in bare)
    else:
        for cells in csv.reader(lines, delimiter=delimiter, skipinitialspace=True):
            yield [cell.strip(SPACES) for cell in cells]


def uneven(name: str, line: int, found: int, width: int) -> InputError:
    """The complaint about a line with too many or too few cells."""
    return InputError(f"{name} line {line} has {found} cell{'s'[: found > 1]} where {width} are expected")


def is_number(cell: str) -> bool:
    """Whether a cell is a number, NaN and infinity included."""
    return NUMBER.match(cell) is not None


def as_utf8(file: DataFile, encoding: str | None = None) -> DataFile:
    """The same text in UTF-8: rewritten from `encoding`, by default what the first bytes tell."""
    if encoding is None:
        start = head(file.path, SAMPLE_BYTES)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        elif not _decodes(start):
            encoding = "latin-1"
        else:
            return file
    target = file.scratch / "utf8"
    with (
        file.path.open(encoding=encoding, newline="") as source,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        try:
            shutil.copyfileobj(source, out, 1 << 20)
        except UnicodeError:
            raise InputError(f"{file.name} is damaged: it begins as {encoding} text but is not") from None
    return replace(file, path=target)


def is_utf8(path: Path) -> bool:
    """Whether a whole file is text in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while block := file.read(1 << 20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _decodes(start: bytes) -> bool:
    """Whether bytes are the beginning of UTF-8 text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def _first_lines(path: Path) -> list[str]:
    """Lines of the beginning of a file; the last one is left out if it is cut."""
    start = head(path, SAMPLE_BYTES)
    text = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode(start)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)
    if len(start) == SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    return lines


def _delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """The delimiter that cuts most lines into equally many cells (and into the most), and that number."""
    scores = {delimiter: _agreement(lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: scores[delimiter] if scores[delimiter][1] > 1 else (0.0, 0))
    if scores[best][1] > 1 and scores[best][0] >= 0.5:
        return best, scores[best][1]
    return BLANKS, _agreement(lines, BLANKS)[1]


def _agreement(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """How many of the first lines have the usual number of cells, and that number."""
    try:
        counts = [len(cells) for cells in split(lines, delimiter) if cells]
    except csv.Error:
        return 0.0, 0
    width, agreeing = Counter(counts).most_common(1)[0]
    return agreeing / len(counts), width


def _is_header(cells: Sequence[Sequence[str]], asked: set[str]) -> bool:
    """Whether the first line names the columns rather than holding data."""
    first = cells[0]
    if asked & set(first) or recognised(first):
        return True
    if any(is_number(cell) for cell in first):
        return False
    rest = [record for record in cells[1:] if len(record) == len(first)]
    for name, *column in zip(first, *rest, strict=True):
        below = [is_number(cell) for cell in column if cell]
        if name and sum(below) > len(below) / 2:
            return True
    return False
