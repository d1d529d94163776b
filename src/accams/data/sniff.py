"""Detect the format of a text table from its first lines, and iterate over its cells to locate errors."""

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
from accams.writing import reported_scratch

BLANKS = " "
DELIMITERS = ("::", "\t", ",", ";", "|")
SAMPLE_BYTES = 1 << 16
SAMPLE_LINES = 200
SPACES = " \t\r\n"
WORD = re.compile(r"\S+", re.ASCII)
COMMENT = re.compile(r"\s*$|\s*(#|%)(\1|\s|$)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|[+-]?(nan|inf)$", re.IGNORECASE)


@dataclass(frozen=True)
class TableFormat:
    """Format of a text table, as duckdb needs it to read the table."""

    delimiter: str  # of cells; a single blank stands for any run of blanks and tabs
    skip: int  # comment and empty lines at the top
    has_header: bool  # whether the first line after those names the columns
    names: tuple[str, ...]  # of the columns; row, col, value, time without a header
    sample: list[list[str]]  # cells of the first data lines
    spaced: bool = False  # whether a blank follows each delimiter, and is part of it

    @property
    def quote(self) -> str:
        """Quote character, empty where quotes are ordinary characters."""
        return "" if self.delimiter in ("::", BLANKS) else '"'


def sniff(file: DataFile, asked: Iterable[str | None], needs_value: bool) -> TableFormat:
    """Detect the format from the beginning of a UTF-8 file.

    A first line with one of the names that are `asked` for is a header. With `needs_value`, a table without a column of
    values is an error.
    """
    lines = _first_lines(file.path)
    skip = next((at for at, line in enumerate(lines) if not COMMENT.match(line)), len(lines))
    top = lines[skip : skip + SAMPLE_LINES]
    if not top:
        raise InputError(f"{file.name} has no data, only empty lines and comments")
    delimiter, width = _delimiter(top)
    if width < 2:
        raise InputError(
            f"{file.name} is not a table of ratings: its lines have one cell only; separate cells by "
            "comma, tab, '::', ';', '|' or blanks"
        )
    cells = [record for record in split(top, delimiter) if record]
    if len(cells[0]) != width:
        raise uneven_error(file.name, skip + 1, len(cells[0]), width)
    has_header = _is_header(cells, {name for name in asked if name is not None})
    if has_header and len(cells) == 1:
        raise InputError(f"{file.name} has a header line and no data")
    if not has_header and width == 2 and needs_value:
        raise InputError(
            f"{file.name} has two columns and no ratings; for a graph or implicit feedback pass zeros='observed' "
            "to Observations.from_file"
        )
    default = ("row", "col", "value", "time")[:width]
    names = tuple(cells[0]) if has_header else default + tuple(f"column{k}" for k in range(5, width + 1))
    spaced = all(line.count(delimiter) == line.count(f"{delimiter} ") for line in top)
    return TableFormat(delimiter, skip, has_header, names, cells[1:] if has_header else cells, spaced)


def records(path: Path, fmt: TableFormat, strip: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield line number (from 1) and cells of each nonempty data line."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        count = fmt.skip

        def counted() -> Iterator[str]:  # a quoted cell may span several lines
            nonlocal count
            for line in islice(file, fmt.skip, None):
                count += 1
                yield line

        is_header, start = fmt.has_header, count + 1
        for cells in split(counted(), fmt.delimiter, strip):
            if cells and not is_header:
                yield start, cells
            is_header = is_header and not cells
            start = count + 1


def split(lines: Iterable[str], delimiter: str, strip: bool = True) -> Iterator[list[str]]:
    """Yield the cells of every line, without blanks around them or as they are; an empty list for an empty line."""
    around = SPACES if strip else ""
    if delimiter == BLANKS:
        yield from (WORD.findall(line) for line in lines)
    elif len(delimiter) > 1:
        bare = (line.rstrip("\r\n") for line in lines)
        yield from ([cell.strip(around) for cell in line.split(delimiter)] if line else [] for line in bare)
    else:
        for cells in csv.reader(lines, delimiter=delimiter, skipinitialspace=strip):
            yield [cell.strip(around) for cell in cells]


def uneven_error(name: str, line: int, cells: int, width: int) -> InputError:
    """Return the error for a line with too many or too few cells."""
    return InputError(f"{name} line {line} has {cells} cell{'s'[: cells > 1]} where {width} are expected")


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, NaN and infinity included."""
    return NUMBER.match(cell) is not None


def as_utf8(file: DataFile, encoding: str | None = None) -> DataFile:
    """Convert to UTF-8 from `encoding`, by default the one detected from the first bytes."""
    if encoding is None:
        start = head(file.path, SAMPLE_BYTES)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        elif not _decodes([start]):
            encoding = "latin-1"
        else:
            return file
    target = file.scratch / "utf8"
    try:
        with (
            reported_scratch(),
            file.path.open(encoding=encoding, newline="") as source,
            target.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(source, out, 1 << 20)
    except UnicodeError:
        raise InputError(f"{file.name} is damaged: it begins like {encoding} text but cannot be decoded") from None
    return replace(file, path=target)


def with_one_line_end(file: DataFile, fmt: TableFormat) -> DataFile:
    """Write a UTF-8 table anew, with the same cells in the same lines, each ended by a line feed."""
    target = file.scratch / "lines"
    with (
        reported_scratch(),
        file.path.open(encoding="utf-8-sig", newline="" if fmt.quote else None) as source,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        if not fmt.quote:
            shutil.copyfileobj(source, out, 1 << 20)
            return replace(file, path=target)
        out.writelines("\n" for _ in islice(source, fmt.skip))
        for cells in csv.reader(source, delimiter=fmt.delimiter, skipinitialspace=fmt.spaced):
            quoted = ('"' + cell.replace('"', '""') + '"' if cell else "" for cell in cells)
            out.write(fmt.delimiter.join(quoted) + "\n")
    return replace(file, path=target)


def is_utf8(path: Path) -> bool:
    """Return whether an entire file is valid UTF-8."""
    with path.open("rb") as file:
        return _decodes(iter(lambda: file.read(1 << 20), b""), complete=True)


def _decodes(blocks: Iterable[bytes], complete: bool = False) -> bool:
    """Return whether blocks of bytes are UTF-8 text, or the beginning of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in blocks:
            decoder.decode(block)
        decoder.decode(b"", final=complete)
    except UnicodeDecodeError:
        return False
    return True


def _first_lines(path: Path) -> list[str]:
    """Return the lines at the beginning of a file, without an incomplete last one."""
    start = head(path, SAMPLE_BYTES)
    text = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode(start)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)
    if len(start) == SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    return lines


def _delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return the delimiter that splits most lines into the same number of cells, and that number."""
    scores = {delimiter: _agreement(lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: scores[delimiter] if scores[delimiter][1] > 1 else (0.0, 0))
    if scores[best][1] > 1 and scores[best][0] >= 0.5:
        return best, scores[best][1]
    return BLANKS, _agreement(lines, BLANKS)[1]


def _agreement(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of lines with the most common number of cells, and that number."""
    try:
        counts = [len(cells) for cells in split(lines, delimiter) if cells]
    except csv.Error:
        return 0.0, 0
    width, agreeing = Counter(counts).most_common(1)[0]
    return agreeing / len(counts), width


def _is_header(cells: Sequence[Sequence[str]], asked: set[str]) -> bool:
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
