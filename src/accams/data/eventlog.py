"""A log to which feedback is written before it is acknowledged.

Threads that wait while another one flushes the disk share the next flush. Processes take turns by a lock of the newest
segment. Each turn opens the file anew, so that a segment that another process has rotated or rewritten is noticed.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from threading import Condition, Lock
from typing import Any

from accams.data.events import (
    HEADER,
    Events,
    Lines,
    is_at,
    is_whole,
    line_of,
    lock,
    not_a_log,
    read_events,
    segments_of,
)  # fmt: skip
from accams.errors import AccamsError, InputError, WriteError
from accams.settings.kinds import Integer, Words
from accams.writing import reported, write_atomically

__all__ = ["EventLog", "Events", "read_events"]

MAX_BYTES = 1 << 26
CHUNK = 1 << 20
HOW = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class _Batch:
    """Lines that are written and flushed together."""

    def __init__(self) -> None:
        self.lines = list[bytes]()
        self.done = False
        self.error: BaseException | None = None


class EventLog:
    """A log of feedback that keeps what it has acknowledged, whatever happens to the process.

    Several threads may use one log, and several processes one each of the same path. What a crash has left of a line is
    cut off before the next one is written.

    Parameters
    ----------
    path : path
        Of the newest segment. It is created where there is none.
    max_bytes : int, default 64 MiB
        Where a segment would become larger, ``feedback.log`` is renamed to ``feedback.log.1``, the next one to
        ``feedback.log.2``, and so on. What is appended in one call stays together, however large.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = EventLog(f"{folder}/feedback.log")
    ...     log.append("ann", "Alien", 5)
    ...     log.append(["ann", "bob"], ["Heat", "Heat"], [2, 4.5])
    ...     read_events(log.path).values
    1
    2
    array([5. , 2. , 4.5])
    """

    def __init__(self, path: str | Path, *, max_bytes: int = MAX_BYTES) -> None:
        Integer(1).check("max_bytes", max_bytes)
        self.path = Path(os.path.realpath(path))
        self.max_bytes = max_bytes
        self._changed = Condition()
        self._forming, self._busy = _Batch(), False
        self._turn = Lock()
        self._known: tuple[int, int] | None = None  # file and size of which the end is known to be whole
        with reported(self.path), self._locked() as handle:
            self._end(handle)

    def append(self, users: Any, items: Any, values: Any, times: Any = None) -> int:
        """Append one event or several, and return when they are on disk.

        Parameters
        ----------
        users, items : id, or one id for each event
            Integers of 64 bits, or text of at most 10,000 bytes.
        values : float, or one for each event
        times : float, or one for each event, optional
            Seconds since 1970; now by default.

        Returns
        -------
        int
            The number of events. If an error is raised instead, none of them has been logged.
        """
        lines = _lines(users, items, values, times)
        if not lines:
            return 0
        with self._changed:
            batch = self._forming
            batch.lines += lines
            self._changed.wait_for(lambda: batch.done or not self._busy)
            leads = not batch.done
            if leads:
                self._forming, self._busy = _Batch(), True
        if leads:
            self._commit(batch)
        elif batch.error is not None:
            raise self._shared(batch.error)
        return len(lines)

    def forget(self, user: int | str, *, damaged: str = "error") -> int:
        """Remove all events of a user from all segments.

        Parameters
        ----------
        user : id
        damaged : {"error", "skip"}, default "error"
            What to do about damaged lines, of which nobody knows whose they were: refuse, or remove them too.

        Returns
        -------
        int
            The number of events removed.
        """
        Words("error", "skip").check("damaged", damaged)
        removed = 0
        with reported(self.path), self._locked() as handle:
            self._end(handle)
            self._known = None
            for path in segments_of(self.path):  # the newest last: whoever waits for it finds all of them done
                before = path.read_bytes()
                lines = list(Lines(path, damaged == "skip", newest=False).of(before))
                kept = [line for line, event in lines if event[0] != user]
                after = HEADER + b"".join(kept)
                if after != before:  # also where damaged lines are all that goes: they may be of this user
                    write_atomically(path, after)
                removed += len(lines) - len(kept)
        return removed

    def __repr__(self) -> str:
        return f"EventLog({str(self.path)!r})"

    def _commit(self, batch: _Batch) -> None:
        """Write a batch for all threads that wait for it."""
        try:
            with reported(self.path):
                self._write(b"".join(batch.lines))
        except BaseException as error:
            batch.error = error
            raise
        finally:
            with self._changed:
                batch.done, self._busy = True, False
                self._changed.notify_all()

    def _shared(self, error: BaseException) -> AccamsError:
        """Return the error of the thread that wrote, for another one."""
        if isinstance(error, AccamsError):
            return type(error)(str(error))
        return WriteError(f"cannot write {self.path}: the thread that wrote to it has ended ({error!r}); try again")

    def _write(self, lines: bytes) -> None:
        while True:
            with self._locked() as handle:
                end = self._end(handle)
                if end == len(HEADER) or end + len(lines) <= self.max_bytes:
                    return self._put(handle, end, lines)
                self._rotate()

    def _put(self, handle: int, end: int, lines: bytes) -> None:
        """Write and flush lines at the end of the file; after an error it ends as before."""
        self._known = None
        try:
            _write_all(handle, end, lines)
            os.fsync(handle)
        except BaseException:
            with suppress(OSError):  # else the next turn cuts it off
                os.ftruncate(handle, end)
            raise
        self._known = os.fstat(handle).st_ino, end + len(lines)

    def _rotate(self) -> None:
        older = [path for path in segments_of(self.path) if path != self.path]
        number = int(older[-1].name.rpartition(".")[2]) + 1 if older else 1
        os.rename(self.path, self.path.with_name(f"{self.path.name}.{number}"))
        _flush_folder(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the newest segment, which nobody else writes to meanwhile."""
        with self._turn:
            while True:
                handle = os.open(self.path, HOW, 0o666)
                try:
                    if not S_ISREG(os.fstat(handle).st_mode):
                        raise InputError(f"{self.path} is not a file: choose another name for the log")
                    lock(handle, to_write=True)
                    if is_at(handle, self.path):
                        yield handle
                        return
                finally:
                    os.close(handle)  # and unlocks it

    def _end(self, handle: int) -> int:
        """Return where the next line goes: cut off what a crash has left, and begin a new file with its first line."""
        status = os.fstat(handle)
        if (status.st_ino, status.st_size) == self._known:
            return status.st_size
        end = _whole(handle, status.st_size, self.path)
        if end < status.st_size:
            os.ftruncate(handle, end)
        if end == 0:
            self._put(handle, 0, HEADER)
            _flush_folder(self.path.parent)
            end = len(HEADER)
        self._known = status.st_ino, end
        return end


def _lines(users: Any, items: Any, values: Any, times: Any) -> list[bytes]:
    """Return one line for each event."""
    if times is None:
        times = round(time.time(), 3)
    columns = [_column(x) for x in (users, items, values, times)]
    sizes = {len(x) for x in columns if x is not None}
    if len(sizes) > 1:
        raise InputError(f"there are {len(columns[0] or ' '):,} users, but not as many items, values or times")
    size = sizes.pop() if sizes else 1
    given = zip(columns, (users, items, values, times), strict=True)
    return [line_of(*event) for event in zip(*([one] * size if x is None else x for x, one in given), strict=True)]


def _column(x: Any) -> list[Any] | None:
    """Return one entry for each event; None for a single one."""
    if hasattr(x, "tolist"):  # of NumPy or pandas
        x = x.tolist()
    return list(x) if isinstance(x, (list, tuple)) else None


def _whole(handle: int, size: int, path: Path) -> int:
    """Return where the last whole line ends; 0 if there is none."""
    head = _read(handle, 0, min(size, len(HEADER)))
    if head != HEADER[: len(head)]:
        raise not_a_log(path, head)
    if size < len(HEADER):
        return 0
    end = _after_newline(handle, size)
    if end == len(HEADER):
        return end
    begin = _after_newline(handle, end - 1)
    return end if is_whole(_read(handle, begin, end - 1 - begin)) else begin


def _after_newline(handle: int, end: int) -> int:
    """Return the place after the last newline before `end`."""
    while end > 0:
        begin = max(0, end - CHUNK)
        place = _read(handle, begin, end - begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        end = begin
    return 0


def _read(handle: int, begin: int, size: int) -> bytes:
    os.lseek(handle, begin, os.SEEK_SET)
    parts = list[bytes]()
    while size > 0 and (part := os.read(handle, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write_all(handle: int, begin: int, content: bytes) -> None:
    os.lseek(handle, begin, os.SEEK_SET)
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def _flush_folder(folder: Path) -> None:
    """Flush the names in a folder, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)
