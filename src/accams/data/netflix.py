"""Read the Netflix Prize ratings in chunks: one file per film or four combined ones, in a folder or an archive."""

import gzip
import re
import tarfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from accams.data import archives
from accams.errors import AccamsError, InputError

RATINGS = re.compile(r"(mv_\d+|combined_data_\d+)\.txt")
TITLES = re.compile(r"movie_titles\.(txt|csv)")
PACKED = "training_set.tar"  # holds the files of ratings in the original archive
BLOCK = 1 << 23  # bytes parsed at a time
LONGEST = 1 << 16  # bytes of the longest line
TAIL = 1024  # zero bytes at the end of a tar archive
DAMAGE = (tarfile.TarError, RuntimeError, *archives.DAMAGE)
FIRST = re.compile(rb"\d{1,9}:(\s|$)")
LINE = re.compile(rb"\d{1,9}:|\d{1,9},[1-5],(19[7-9]\d|20[0-2]\d)-(0[1-9]|1[012])-(0[1-9]|[12]\d|3[01])|")
MONTH_STARTS = np.arange("1970-01", "2030-01", dtype="M8[M]").astype("M8[D]").astype(np.int64)
SECONDS = np.int32(86_400)  # per day

Bytes = NDArray[np.uint8]
Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class RatingsChunk:
    """User, film, rating and day (since 1970) of each rating, and the film of the lines that follow."""

    users: Ints
    films: Ints
    ratings: Bytes
    days: Ints
    last_film: int

    @property
    def times(self) -> Ints:
        """Day of each rating in seconds since 1970."""
        return self.days * SECONDS


def is_netflix_data(path: Path) -> bool:
    """Return whether a file, folder or archive holds Netflix Prize ratings, by file names and a first line."""
    try:
        with closing(_files(path)) as files:
            for name, file in files:
                if RATINGS.fullmatch(name):
                    return FIRST.match(file.read(64)) is not None
    except (AccamsError, *DAMAGE):
        pass  # the reader reports what is wrong with it
    return False


def read_chunks(path: Path, titles: dict[int, str] | None = None) -> Iterator[RatingsChunk]:
    """Yield all ratings, some hundreds of thousands at a time; add titles of films, if any, to `titles`."""
    film, has_ratings = 0, False
    with archives.clear_errors(str(path), DAMAGE):
        for name, content in _blocks(_files(path)):
            if not TITLES.fullmatch(name):
                has_ratings, chunk = True, parse(content, name, film)
                film = chunk.last_film
                yield chunk
            elif titles is not None:
                titles |= _titles(content)
    if not has_ratings:
        raise InputError(f"{path} contains no mv_*.txt or combined_data_*.txt")


def parse(content: bytes, name: str, film: int) -> RatingsChunk:
    """Parse complete lines: ``film:``, then ``user,rating,year-month-day`` for each of its ratings.

    All but the user have a fixed distance from the end of the line. `film` is that of the first lines.
    """
    content = content.replace(b"\r", b"")
    text = np.frombuffer(content, dtype=np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    starts, ends = starts[ends > starts], ends[ends > starts]  # without empty lines
    heads = text[ends - 1] == ord(":")
    digits = (ends - starts)[heads] - 1  # of a film's number
    named = np.concatenate([[film], _number(text, starts[heads], ends[heads] - 1)])
    films = named[np.cumsum(heads)[~heads]]
    starts, ends = starts[~heads], ends[~heads]
    if len(films) and films[0] == 0:
        raise InputError(f"{name}: a line that names a film (such as '1:') must precede the first rating")
    if not _well_formed(text, starts, ends, digits):
        raise _bad_line(content, name, film)
    months = (_digits(text, ends - 10, 4) - 1970) * 12 + _digits(text, ends - 5, 2) - 1
    days = MONTH_STARTS[months] + _digits(text, ends - 2, 2) - 1
    users = _number(text, starts, ends - 13)
    ratings = text[ends - 12] - np.uint8(ord("0"))
    return RatingsChunk(users.astype(np.int32), films.astype(np.int32), ratings, days.astype(np.int32), int(named[-1]))


def _bad_line(content: bytes, name: str, film: int) -> InputError:
    for line in content.split(b"\n"):
        if not LINE.fullmatch(line):
            break
        film = int(line[:-1]) if line.endswith(b":") else film
    shown = line[:60].decode("latin-1")
    return InputError(f"{name}: {shown!r}, below film {film}, is neither 'film:' nor 'user,rating,year-month-day'")


def _well_formed(text: Bytes, starts: Ints, ends: Ints, digits: Ints) -> bool:
    """Return whether ratings have commas, hyphens and valid numbers in their places, and digits elsewhere."""
    length = ends - starts
    if len(length) and (length.min() < 14 or length.max() > 22):
        return False
    if len(digits) and (digits.min() < 1 or digits.max() > 9):
        return False
    commas = (text[ends - 11] == ord(",")) & (text[ends - 13] == ord(","))
    hyphens = (text[ends - 6] == ord("-")) & (text[ends - 3] == ord("-"))
    rating = text[ends - 12] - np.uint8(ord("1")) < 5
    year, month, day = _digits(text, ends - 10, 4), _digits(text, ends - 5, 2), _digits(text, ends - 2, 2)
    dates = (year >= 1970) & (year < 2030) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    others = np.count_nonzero((text < ord("0")) | (text > ord("9")))
    expected = 4 * len(ends) + len(digits) + np.count_nonzero(text == ord("\n"))
    return bool(np.all(commas & hyphens & rating & dates) and others == expected)


def _number(text: Bytes, starts: Ints, ends: Ints) -> Ints:
    total = np.zeros(len(starts), dtype=np.int64)
    for place in range(int((ends - starts).max(initial=0))):
        at = ends - 1 - place
        total += np.where(at >= starts, text[at].astype(np.int64) - ord("0"), 0) * 10 ** min(place, 18)
    return total


def _digits(text: Bytes, starts: Ints, size: int) -> Ints:
    total = np.zeros(len(starts), dtype=np.int32)
    for place in range(size):
        total = total * 10 + text[starts + place] - ord("0")
    return total


def _titles(content: bytes) -> dict[int, str]:
    """Parse lines ``film,year,title``; the title may contain commas."""
    lines = (line.split(",", 2) for line in content.decode("latin-1").split("\n") if line.strip())
    return {int(film): title.strip() for film, _, title in lines}


def _blocks(files: Iterable[tuple[str, IO[bytes]]]) -> Iterator[tuple[str, bytes]]:
    """Yield complete lines in large blocks, of many small files or of parts of a large one; titles separately."""
    waiting: list[bytes] = []
    size, first, name = 0, "", ""
    for name, file in files:
        if TITLES.fullmatch(name):
            yield name, file.read()
            continue
        first, last = first or name, name
        while piece := file.read(BLOCK):
            waiting.append(piece)
            size += len(piece)
            if size >= BLOCK:
                complete, end, rest = b"".join(waiting).rpartition(b"\n")
                if not end and size > LONGEST:
                    raise InputError(f"{name} is not a text file with lines")
                yield _range(first, last), complete + b"\n"
                waiting, size, first = [rest], len(rest), name
        waiting.append(b"\n")  # in case the file does not end in one
    if size:
        yield _range(first, last), b"".join(waiting)


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _files(path: Path) -> Generator[tuple[str, IO[bytes]], None, None]:
    """Yield the files of ratings (sorted by name) and of titles in a folder or an archive."""
    if path.name in ("training_set", PACKED):
        yield from _opened(p for p in path.parent.glob("movie_titles.*") if _wanted(p.name))
    if path.is_dir():
        paths = sorted(p for p in path.rglob("*.*") if _wanted(p.name) and p.is_file())
        yield from _opened(paths)
        if not any(RATINGS.fullmatch(p.name) for p in paths):
            for _, packed in _opened(sorted(path.rglob(PACKED))[:1]):
                yield from _in_tar(packed)
    elif path.suffix.lower() == ".zip":
        with archives.open_zip(path) as archive:
            for inner in sorted(archive.namelist()):
                if _wanted(inner):
                    with archive.open(inner) as file:
                        yield Path(inner).name, file
    elif path.name.endswith((".tar", ".tar.gz", ".tgz")):
        is_gzipped = archives.head(path, 2) == archives.GZIP
        with gzip.open(path) if is_gzipped else path.open("rb") as file:
            yield from _in_tar(cast("IO[bytes]", file))
    elif _wanted(path.name):
        yield from _opened([path])
    else:
        raise InputError(f"{path} is neither a folder nor an archive (.zip, .tar, .tar.gz) of Netflix ratings")


def _opened(paths: Iterable[Path]) -> Iterator[tuple[str, IO[bytes]]]:
    for path in paths:
        with path.open("rb") as file:
            yield path.name, file


def _in_tar(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield files in the order of the archive, which is read once and to its end, to detect truncation."""
    stream = _Stream(archive)
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
        for item in tar:
            name = Path(item.name).name
            file = tar.extractfile(item) if item.isfile() else None
            if file is not None and name == PACKED:
                yield from _in_tar(file)
            elif file is not None and _wanted(name):
                yield name, file
    while stream.read(BLOCK):
        pass
    if stream.last != bytes(TAIL):
        raise tarfile.ReadError("unexpected end of data")


class _Stream:
    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.last = file, b""

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.last = (self.last + data[-TAIL:])[-TAIL:]
        return data


def _wanted(inner: str) -> bool:
    name = inner.rsplit("/", 1)[-1]
    return bool(RATINGS.fullmatch(name) or TITLES.fullmatch(name))
