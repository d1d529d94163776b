"""Write files and folders whole or not at all, and say in one sentence why something cannot be written.

What is written has a temporary name beside its target until it is complete. That name holds the process that writes,
so that the next write of the same target can remove what a killed process has left.
"""

import errno
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from zlib import crc32

from accams.errors import AccamsError, WriteError

DAY = 86400.0  # seconds
OLD_FILE, OLD_FOLDER = DAY, 30 * DAY  # a file takes minutes to write; a folder may serve a fit of weeks
LONGEST = 150  # bytes of a target's name in that of its temporary: file systems allow 255 in all
STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")
ROOM = "free some space, or choose another place"
ADVICE = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or choose another place",
    errno.EIO: "the disk may be failing: choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "choose a place that you may write to",
    errno.EPERM: "choose a place that you may write to",
    errno.ENOENT: "create its folder first, or choose another place",
    errno.EISDIR: "choose the name of a file",
    errno.EEXIST: "remove what is there, or choose another place",
    errno.ENOTEMPTY: "remove what is there, or choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
}
OF_DUCKDB = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)  # that its messages may tell


def fault_of(error: BaseException) -> int | None:
    """Return the error number for which something could not be written; None for an error of another kind.

    Errors of DuckDB carry it in their text alone.
    """
    if isinstance(error, OSError):
        return error.errno
    text = str(error)
    if not type(error).__module__.endswith("duckdb") or "Could not read" in text:
        return None
    if "failed to offload" in text:  # its limit of temporary files is the free space
        return errno.ENOSPC
    return next((number for number in OF_DUCKDB if os.strerror(number) in text), None)


def failed(path: str | Path, error: BaseException, advice: str | None = None) -> WriteError:
    """Return the error that says what could not be written, why, and what to do."""
    number = fault_of(error)
    reason = str(error).partition("\n")[0] if number is None else os.strerror(number)
    return WriteError(f"cannot write {path}: {reason}; {advice or ADVICE.get(number or 0, 'choose another place')}")


@contextmanager
def reported(path: str | Path, advice: str | None = None) -> Iterator[None]:
    """Raise WriteError for faults of the system while `path` is written."""
    try:
        yield
    except (AccamsError, BrokenPipeError):
        raise
    except Exception as error:
        if not isinstance(error, OSError) and fault_of(error) is None:
            raise
        raise failed(path, error, advice) from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new one."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to, which then takes the place of `path`; after an error it is removed.

    A link keeps pointing to the file that is replaced, and the file keeps its mode. Pipes and devices are written to
    at once.
    """
    with reported(path):
        if _is_stream(path):
            yield path
            return
        target = _target(path)
        remove_leftovers(target.parent, target.name)
        temporary = _temporary(target.parent, target.name)
        try:
            mode = _create(temporary, target)
            yield temporary
            _flush(temporary, os.O_RDWR)
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
            with suppress(OSError):  # so that the new name survives a power failure, where folders can be flushed
                _flush(target.parent, os.O_RDONLY)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill, which is called `path` when it is complete; after an error it is removed."""
    target = path.absolute()
    with reported(path):
        if target.parent.exists() and not target.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = make_folder(target.parent, target.name, 0o777)
    try:
        yield folder
        with reported(path):
            if target.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def make_folder(parent: Path, name: str, mode: int = 0o700) -> Path:
    """Create a temporary folder, and remove those of the same name that killed processes have left."""
    remove_leftovers(parent, name)
    folder = _temporary(parent, name)
    os.mkdir(folder, mode)
    return folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder in the system's folder of temporary files, and remove it."""
    folder = make_scratch()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_scratch() -> Path:
    """Create a folder in the system's folder of temporary files."""
    try:
        parent = tempfile.gettempdir()
    except OSError:
        raise WriteError("there is no folder for temporary files: set TMPDIR to one that you may write to") from None
    with reported_scratch():
        return make_folder(Path(parent), "accams")


def reported_scratch(what: str = "temporary files") -> AbstractContextManager[None]:
    """Raise WriteError for faults of the system while temporary files are written."""
    where = f"{what} to {tempfile.gettempdir()}"
    return reported(where, "free some space there, or set TMPDIR to another folder")


def check(path: Path) -> None:
    """Raise WriteError if a file cannot be created or replaced: before long work whose result it is to hold."""
    with reported(path):
        if _is_stream(path):
            return
        target = _target(path)
        temporary = _temporary(target.parent, target.name)
        try:
            _create(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold off other processes that would replace a file, where the system can and there is one."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    if not path.exists():
        yield
        return
    while True:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):  # else another process has replaced it
                yield
                return


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove temporary files and folders of a target whose writers are dead, or that are old."""
    pattern = re.compile(re.escape(f".{_stem(name)}.") + r"([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match is not None and _is_left(entry, *match.groups()):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


def _is_left(entry: os.DirEntry[str], host: str, process: str) -> bool:
    """Return whether nobody writes a temporary any more."""
    if host == _host() and not is_alive(int(process)):
        return True
    try:  # it may also be alive as another one with the same number
        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
        return age > (OLD_FOLDER if entry.is_dir(follow_symlinks=False) else OLD_FILE)
    except OSError:
        return False


def is_alive(process: int) -> bool:
    """Return whether there is a process of this number."""
    if os.name == "nt":  # there, os.kill would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def _host() -> str:
    """Return what identifies this machine, or this container: where process ids mean the same."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{crc32(f'{socket.gethostname()} {space}'.encode()):08x}"


def _temporary(folder: Path, name: str) -> Path:
    return folder / f".{_stem(name)}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


def _stem(name: str) -> str:
    encoded = os.fsencode(name.lstrip("."))
    return name.lstrip(".") if len(encoded) <= LONGEST else f"{crc32(encoded):08x}"


def _target(path: Path) -> Path:
    """Return the file to be replaced: that to which a link points."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return target


def _create(temporary: Path, target: Path) -> int | None:
    """Create a file, and return the mode of the one that it will replace; that of a new one the umask decides."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777
    except OSError:
        mode = None
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode | 0o600))
    return mode


def _is_stream(path: Path) -> bool:
    if str(path).startswith(STREAMS):
        return True
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)


def _flush(path: Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
