"""Files and folders are written whole or not at all, and what killed writers leave is removed by the next one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from accams import writing
from accams.errors import InputError, ModelFileError, WriteError
from accams.writing import new_folder, replacing, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left(folder: Path, process: int, host: str | None = None, name: str = "m", age: float = 0.0) -> Path:
    """A temporary file as a killed process leaves it."""
    path = folder / f".{name}.{host or writing._host()}-{process}-0123abcd.tmp"
    path.write_bytes(b"half")
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    return path


def test_what_dead_writers_left_is_removed(tmp_path: Path, dead: int) -> None:
    gone = [left(tmp_path, dead), left(tmp_path, 1, "00000000", age=2 * writing.DAY)]
    others = left(tmp_path, dead, name="other")
    kept = [left(tmp_path, os.getppid()), left(tmp_path, dead, "00000000"), others, tmp_path / ".m.tmp"]
    kept[-1].write_bytes(b"of the user")
    write_atomically(tmp_path / "m", b"new")
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)
    assert len(names(tmp_path)) == 5


def test_folders_that_dead_writers_left_are_removed(tmp_path: Path, dead: int) -> None:
    folder = tmp_path / f".s.{writing._host()}-{dead}-0123abcd.tmp"
    folder.mkdir()
    (folder / "part").write_bytes(b"half")
    elsewhere = tmp_path / ".s.00000000-1-0123abcd.tmp"
    elsewhere.mkdir()
    os.utime(elsewhere, (elsewhere.stat().st_mtime - 2 * writing.DAY,) * 2)
    with new_folder(tmp_path / "s") as new:
        (new / "part").write_bytes(b"whole")
    assert names(tmp_path) == [elsewhere.name, "s"]  # a fit on another machine may use it for weeks
    os.utime(elsewhere, (elsewhere.stat().st_mtime - 40 * writing.DAY,) * 2)
    writing.remove_leftovers(tmp_path, "s")
    assert names(tmp_path) == ["s"]


def test_two_writers_at_once(tmp_path: Path) -> None:
    threads = [threading.Thread(target=write_atomically, args=(tmp_path / "m", bytes([p]) * 10_000)) for p in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "m").read_bytes())) == 1
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EDQUOT, "; free some space"),
        (errno.EFBIG, r"File too large; raise the limit of file sizes \(ulimit -f\)"),
        (errno.EIO, "Input/output error; the disk may be failing"),
        (errno.EROFS, "Read-only file system; choose a place"),
        (errno.EACCES, "Permission denied; choose a place that you may write to"),
    ],
)
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_faults_are_told_in_one_sentence(
    number: int, advice: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(WriteError, match=f"^cannot write .*/m: .*{advice}") as caught:
        write_atomically(tmp_path / "m", b"new")
    monkeypatch.undo()
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ModelFileError)
    assert (tmp_path / "m").read_bytes() == b"old"
    assert names(tmp_path) == ["m"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "m").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "m")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "m").read_bytes() == b"new"


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"old")
    (tmp_path / "m").chmod(0o600)
    write_atomically(tmp_path / "m", b"new")
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read = list[bytes]()
    thread = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    thread.start()
    write_atomically(tmp_path / "pipe", b"content")
    thread.join()
    assert read == [b"content"]
    assert (tmp_path / "pipe").is_fifo()


def test_long_names(tmp_path: Path) -> None:
    name = "ü" * 127
    write_atomically(tmp_path / name, b"content")
    assert names(tmp_path) == [name]
    with pytest.raises(WriteError, match="choose a shorter name"):
        write_atomically(tmp_path / ("m" * 256), b"content")


def test_a_folder_is_complete_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), new_folder(tmp_path / "s") as folder:
        folder.write_bytes(b"an error while it is filled")
    assert names(tmp_path) == []
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine").write_bytes(b"dear diary")
    with pytest.raises(WriteError, match="File exists; remove what is there"), new_folder(tmp_path / "s"):
        pass
    assert (tmp_path / "s" / "mine").read_bytes() == b"dear diary"
    assert names(tmp_path) == ["s"]


def test_a_place_that_is_checked_before(tmp_path: Path) -> None:
    writing.check(tmp_path / "m")
    assert names(tmp_path) == []
    with pytest.raises(WriteError, match="create its folder first"):
        writing.check(tmp_path / "no" / "m")
    with pytest.raises(WriteError, match="choose the name of a file"):
        writing.check(tmp_path)


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(writing.tempfile, "gettempdir", fail)
    with pytest.raises(WriteError, match="there is no folder for temporary files: set TMPDIR"):
        writing.make_scratch()


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "m"):
        raise ZeroDivisionError
    with pytest.raises(BrokenPipeError), writing.reported("x"):
        raise BrokenPipeError
    assert names(tmp_path) == []


@pytest.mark.parametrize("mode", [0o444, 0o600, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == mode
