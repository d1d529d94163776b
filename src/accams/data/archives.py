"""Resolve a path to a plain data file: find it, unpack it, and detect its format by content."""

import difflib
import gzip
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from accams.errors import AccamsError, InputError, MissingDataError
from accams.writing import reported_scratch, scratch_folder

GZIP, ZIP, PARQUET, NPY = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\x93NUMPY"
FOREIGN = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    **{b"\x80" + bytes([protocol]): "a Python pickle" for protocol in (2, 3, 4, 5)},
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"ARROW1": "an Arrow file",
    b"PK\x05\x06": "an empty .zip archive",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"<!": "a web page",
    b"<html": "a web page",
    b"%%MatrixMarket": "a Matrix Market file (read it with scipy.io.mmread and use from_sparse)",
}
DATA_SUFFIXES = (".csv", ".tsv", ".dat", ".data", ".txt", ".parquet", ".pq", ".npz", ".npy")
CONTROL = set(range(32)) - set(b"\t\n\v\f\r\x1a")  # bytes that do not occur in text
DAMAGE = (
    EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, OSError, ValueError, struct.error,
    tokenize.TokenError,  # of headers of arrays, which NumPy reads as Python
)  # fmt: skip


@dataclass(frozen=True)
class DataFile:
    """A plain file."""

    path: Path
    name: str  # in messages
    format: str
    scratch: Path  # folder for temporary files


@contextmanager
def open_file(path: Path) -> Iterator[DataFile]:
    """Find `path` and unpack it into a temporary folder if necessary.

    The format (``"text"``, ``"parquet"``, ``"npz"`` or ``"npy"``) is detected by content.
    """
    outer, member = _find(path)
    name = outer.name if member is None else f"{outer.name}/{member}"
    with scratch_folder() as scratch:
        with clear_errors(name):
            plain, chosen = _unpack(outer, member, name, scratch)
            name = f"{outer.name}/{chosen}" if chosen else name
            file = DataFile(plain.absolute(), name, _format(plain, name), scratch)
        yield file


@contextmanager
def clear_errors(name: str, damage: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Turn errors of reading a damaged or protected file into an InputError that names it."""
    try:
        yield
    except AccamsError:
        raise
    except PermissionError as error:
        raise InputError(f"{name} cannot be opened: permission denied ({error.filename})") from None
    except damage:
        raise InputError(f"{name} is damaged or truncated: download it again") from None


def head(path: Path, size: int = 1 << 16) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, LookupError):  # the latter for some damaged ones
        raise InputError(f"{path} is not a zip archive, or it is damaged") from None


def with_home(path: Path) -> Path:
    """Replace a leading ~ by the home folder; a file that is called so is that file."""
    try:
        return path if path.exists() else path.expanduser()
    except RuntimeError:  # ~name, where nobody has that name
        return path


def literal(path: Path) -> str:
    """Return a path for DuckDB, to which *, ? and [ would be patterns."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path))


def _find(path: Path) -> tuple[Path, str | None]:
    """Return the file, and the member if the path continues inside an archive."""
    path = with_home(path)
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.is_file() and _is_data(p.name))[:5]
        shown = f": {_listed(inside)}" if inside else ""
        raise InputError(f"{path} is a folder; pass the path of a file in it{shown}")
    if path.is_file():
        return path, None
    if path.exists():
        raise InputError(f"{path} is not a regular file; save its content to a file first")
    for parent in path.parents:
        if parent.is_file():
            if head(parent, 4) != ZIP:
                raise MissingDataError(f"there is no file {path}: {parent.name} is a file, not a folder or a .zip")
            return parent, path.relative_to(parent).as_posix()
    raise MissingDataError(f"there is no file {path}{_nearby(path)}")


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    near = _close(path.name, [p.name for p in path.parent.iterdir()])
    return f"; did you mean {_listed(near)}?" if near else "; check the path"


def _close(name: str, others: Sequence[str]) -> list[str]:
    plain = {other.lower(): other for other in others}
    return [plain[match] for match in difflib.get_close_matches(name.lower(), plain, n=3, cutoff=0.6)]


def _unpack(path: Path, member: str | None, name: str, scratch: Path) -> tuple[Path, str]:
    """Unpack nested archives; return the plain file and the archive member it was (empty if none)."""
    chosen = ""
    for depth in range(4):
        start = head(path, 4)
        target = scratch / f"data{depth}"
        if start[:2] == GZIP:
            with gzip.open(path) as packed:
                _copy(packed, target, name)
        elif start == ZIP and not _is_npz(path):
            with zipfile.ZipFile(path) as archive:
                chosen = _named(archive, member, name) if member is not None else _ratings(archive, name)
                with _member(archive, chosen, name) as packed:
                    _copy(packed, target, name)
            member = None
        else:
            break
        path = target
    return path, chosen


def _copy(packed: IO[bytes] | gzip.GzipFile, target: Path, name: str) -> None:
    """Unpack to a file; what cannot be written is no fault of the archive."""
    what = f"what is in {name}"
    with reported_scratch(what):
        out = target.open("wb")
    try:
        while block := packed.read(1 << 20):
            with reported_scratch(what):
                out.write(block)
    finally:
        with reported_scratch(what):  # the last bytes are written now
            out.close()


def _member(archive: zipfile.ZipFile, member: str, name: str) -> IO[bytes]:
    try:
        return archive.open(member)
    except (RuntimeError, NotImplementedError):
        raise InputError(f"{name}: {member} is encrypted or uses an unsupported compression; unpack it first") from None


def _named(archive: zipfile.ZipFile, member: str, name: str) -> str:
    members = _members(archive)
    if member in members:
        return member
    near = _close(member, members)
    hint = f"did you mean {_listed(near)}?" if near else f"it holds {_listed(members)}"
    raise MissingDataError(f"{name}: no such member in the archive; {hint}")


def _ratings(archive: zipfile.ZipFile, name: str) -> str:
    """Choose the member with the ratings, if that is unambiguous."""
    members = _members(archive)
    if any(member == "[Content_Types].xml" for member in members):
        raise InputError(f"{name} is an Office document; save the sheet as CSV")
    data = [member for member in members if _is_data(member)]
    ratings = [member for member in data if _base(member) == "u.data" or _base(member).split(".")[0] == "ratings"]
    if len(ratings) == 1 or len(data) == 1:
        return ratings[0] if len(ratings) == 1 else data[0]
    if not members:
        raise InputError(f"{name} is an empty archive")
    if not data:
        raise InputError(f"{name} holds no data file (CSV, TSV, .dat, Parquet, NPZ), only {_listed(members)}")
    raise InputError(
        f"cannot tell which member of {name} holds the ratings: {_listed(data)}; pass a path such as '{name}/{data[0]}'"
    )


def _members(archive: zipfile.ZipFile) -> list[str]:
    """List the files in an archive, without hidden and macOS metadata files."""
    names = [info.filename for info in archive.infolist() if info.filename and not info.is_dir()]
    return [n for n in names if not n.startswith("__MACOSX/") and not PurePosixPath(n).name.startswith(".")]


def _is_data(name: str) -> bool:
    return _base(name).endswith(DATA_SUFFIXES) and not _base(name).startswith(("readme", "license", "copying"))


def _base(name: str) -> str:
    return PurePosixPath(name).name.lower().removesuffix(".gz")


def _is_npz(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    return bool(members) and all(member.endswith(".npy") for member in members)


def _format(path: Path, name: str) -> str:
    """Detect the format by content; raise for files that are certainly not tables."""
    start = head(path)
    if not start:
        raise InputError(f"{name} is empty")
    for magic, known in ((PARQUET, "parquet"), (ZIP, "npz"), (NPY, "npy")):
        if start.startswith(magic):
            return known
    suffix = PurePosixPath(name.lower().removesuffix(".gz")).suffix
    for suffixes, what in (((".parquet", ".pq"), "a Parquet file"), ((".npz", ".npy"), "a NumPy file")):
        if suffix in suffixes:
            raise InputError(f"{name} is not {what}, or it is damaged: download it again")
    looks = next((words for magic, words in FOREIGN.items() if start.lower().startswith(magic.lower())), None)
    looks = "a tar archive: unpack it and pass the path of the file" if start[257:262] == b"ustar" else looks
    is_utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff")  # text with zero bytes
    if looks is not None or (set(start) & CONTROL and not is_utf16):
        raise InputError(f"{name} is not a text table; it looks like {looks or 'a binary file'}")
    return "text"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
