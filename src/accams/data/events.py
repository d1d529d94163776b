"""Events of feedback (user, item, value, time) as lines of a log, and how a log is read.

A log is a file of lines, each a JSON object, a space and the CRC-32 of the object in hexadecimal. The first line says
what the file is. ``feedback.log`` is the newest segment; older ones are ``feedback.log.1``, ``feedback.log.2`` and so
on, in the order of time.
"""

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import INT64, as_id_array
from accams.errors import InputError
from accams.settings.kinds import Words

try:
    import fcntl
except ImportError:  # there, only the threads of one process can share a log
    fcntl = None  # type: ignore[assignment]

LONGEST_ID = 10_000  # bytes
LONGEST_LINE = 1 << 17  # bytes: two such ids, all of it escaped
MAGIC = b'{"accams":"feedback"'
FIELDS = ("user", "item", "value", "time")
Event = tuple[int | str, int | str, float, float]


@dataclass(frozen=True, eq=False)
class Events:
    """Events in the order in which they were logged.

    Attributes
    ----------
    users, items : arrays
        Ids: integers, or integers and text.
    values, times : arrays of float
        Times are seconds since 1970.

    Examples
    --------
    >>> events = Events.of([("ann", 7, 5.0, 1.5e9), ("bob", 7, 2.0, 1.6e9)])
    >>> len(events), events.items
    (2, array([7, 7]))
    """

    users: NDArray[Any]
    items: NDArray[Any]
    values: NDArray[np.float64]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, events: Sequence[Event]) -> "Events":
        """From one tuple for each event.

        Parameters
        ----------
        events : sequence of (user, item, value, time)

        Returns
        -------
        Events
        """
        users, items, values, times = zip(*events, strict=True) if events else ((), (), (), ())
        numbers = (np.array(x, np.float64) for x in (values, times))
        return cls(_ids(users), _ids(items), *numbers)

    def __len__(self) -> int:
        return len(self.values)


def read_events(path: str | Path, *, damaged: str = "error") -> Events:
    """Read a log of feedback, with all its segments.

    Parameters
    ----------
    path : path
        Of the newest segment, ``feedback.log``; or of one of the others, which is then read alone.
    damaged : {"error", "skip"}, default "error"
        What to do about damaged lines. A last line that a crash has cut short was never acknowledged, and is ignored.

    Returns
    -------
    Events

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from accams.data.eventlog import EventLog
    >>> with TemporaryDirectory() as folder:
    ...     logged = EventLog(f"{folder}/feedback.log").append(["ann", "bob"], [7, 8], [5, 4])
    ...     events = read_events(f"{folder}/feedback.log")
    >>> events.users.tolist(), events.items.tolist(), events.values.tolist()
    (['ann', 'bob'], [7, 8], [5.0, 4.0])
    """
    Words("error", "skip").check("damaged", damaged)
    events = list[Event]()
    with opened(Path(os.path.realpath(path))) as segments:
        for number, (name, file) in enumerate(segments):
            lines = Lines(name, damaged == "skip", newest=number == len(segments) - 1)
            events += [event for _, event in lines.of(file.read())]
    return Events.of(events)


def is_log(path: Path) -> bool:
    """Return whether a file is a log of feedback, or the name of one whose newest segment is not there yet."""
    for each in reversed(segments_of(Path(os.path.realpath(path)))):
        with suppress(OSError), each.open("rb") as file:
            start = file.read(len(MAGIC))
            if start:
                return start == MAGIC
    return False


# -- lines ----------------------------------------------------------------------------------------------------


def sealed(content: dict[str, Any]) -> bytes:
    """Return a line: JSON, a space, its checksum."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%s %08x\n" % (body, crc32(body))


def line_of(user: Any, item: Any, value: Any, time: Any) -> bytes:
    """Return the line of one event; raise InputError for one that cannot be logged.

    Examples
    --------
    >>> line_of("ann", 7, 4.5, 0)
    b'{"user":"ann","item":7,"value":4.5,"time":0.0} 79760e12\\n'
    """
    content = _id(user, "user"), _id(item, "item"), _number(value, "value"), _number(time, "time")
    return sealed(dict(zip(FIELDS, content, strict=True)))


def event_in(line: bytes) -> Event | None:
    """Return the event of a line without its end, None for a damaged one."""
    content = _opened(line)
    if content is None or tuple(content) != FIELDS:
        return None
    try:
        user, item = (_id(content[name], name) for name in FIELDS[:2])
        value, time = (_number(content[name], name) for name in FIELDS[2:])
    except InputError:
        return None
    return user, item, value, time


def is_whole(line: bytes) -> bool:
    """Return whether the checksum of a line is right."""
    body, _, check = line.rpartition(b" ")
    return check == b"%08x" % crc32(body)


@dataclass(frozen=True)
class Lines:
    """How one segment is taken apart."""

    path: Path
    skip: bool  # damaged lines
    newest: bool  # whose last line may have been cut short

    def of(self, content: bytes) -> Iterator[tuple[bytes, Event]]:
        """Yield each line, with its end, and the event in it."""
        head, _, rest = content.partition(b"\n")
        if not (head == HEADER[:-1] or (self.newest and not rest and HEADER.startswith(content))):
            raise not_a_log(self.path, head)
        lines = rest.split(b"\n")
        torn = lines.pop()
        if torn and not self.newest:
            lines.append(torn)
        for number, line in enumerate(lines):
            event = event_in(line)
            if event is not None:
                yield line + b"\n", event
            elif not self.skip and not (self.newest and number == len(lines) - 1 and not torn and not is_whole(line)):
                raise InputError(
                    f"{self.path} line {number + 2} is damaged: skip such lines (damaged='skip'), or restore the file"
                )


def not_a_log(path: Path, head: bytes) -> InputError:
    """Return the error for a file that is something else."""
    if head.startswith(MAGIC):
        return InputError(f"{path} is a feedback log that is damaged, or from a newer version of accams")
    return InputError(f"{path} is not a feedback log: choose another name for the log")


def _opened(line: bytes) -> dict[str, Any] | None:
    """Return the content of a line, None if it is damaged."""
    if len(line) > LONGEST_LINE or not is_whole(line):
        return None
    try:
        content = json.loads(line[:-9].decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _id(raw: Any, what: str) -> int | str:
    """Return an id that a log can hold."""
    x = int(raw) if isinstance(raw, np.integer) else raw
    if not isinstance(x, (int, str)) or isinstance(x, bool):
        raise InputError(f"a {what} is an integer or text, not {x!r}")
    if isinstance(x, int):
        if not INT64.min <= x <= INT64.max:
            raise InputError(f"the {what} {x:.3e} is too large: integers have 64 bits")
        return x
    try:
        size = len(x.encode())
    except UnicodeEncodeError:
        raise InputError(f"the {what} {x!r} is not valid Unicode: use other text as ids") from None
    if size > LONGEST_ID:
        raise InputError(f"the {what} {x[:20]!r}... is too long: ids have at most {LONGEST_ID:,} bytes")
    return str(x)


def _number(raw: Any, what: str) -> float:
    """Return a finite number."""
    if type(raw) is not float and (isinstance(raw, bool) or not isinstance(raw, Real)):
        raise InputError(f"a {what} is a number, not {raw!r}")
    try:
        x = float(raw)
    except OverflowError:
        x = math.inf
    if not math.isfinite(x):
        raise InputError(f"a {what} is a finite number, not {x}")
    return x


def _ids(raw: Sequence[int | str]) -> NDArray[Any]:
    return as_id_array(np.fromiter(raw, dtype=object, count=len(raw)))


HEADER = sealed({"accams": "feedback", "format": 1})


# -- files ----------------------------------------------------------------------------------------------------


def segments_of(path: Path) -> list[Path]:
    """Return the segments of a log that there are, oldest first."""
    pattern = re.compile(re.escape(path.name) + r"\.([1-9][0-9]*)")
    numbers = list[int]()
    with suppress(OSError):
        found = (pattern.fullmatch(name) for name in os.listdir(path.parent))
        numbers = sorted(int(match[1]) for match in found if match is not None)
    older = [path.with_name(f"{path.name}.{number}") for number in numbers]
    return [*older, path] if path.exists() else older


@contextmanager
def opened(path: Path) -> Iterator[Sequence[tuple[Path, IO[bytes]]]]:
    """Yield all segments as they are at one moment, oldest first."""
    with ExitStack() as stack:
        while True:
            try:
                with ExitStack() as turn:
                    if path.exists():
                        current = turn.enter_context(path.open("rb"))
                        lock(current.fileno())
                        if not is_at(current.fileno(), path):
                            continue
                    names = segments_of(path)
                    segments = [(name, stack.enter_context(name.open("rb"))) for name in names]
                break
            except FileNotFoundError:  # another process has given it the next number
                continue
            except OSError as error:
                reason = os.strerror(error.errno or errno.EIO)
                raise InputError(f"cannot read {path}: {reason}") from None
        if not segments:
            raise InputError(f"there is no feedback log {path}")
        yield segments


def lock(handle: int, to_write: bool = False) -> None:
    """Wait for a lock of a file; whoever only reads goes without where the file system has none."""
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if to_write else fcntl.LOCK_SH)
    except OSError:
        if to_write:
            raise


def is_at(handle: int, path: Path) -> bool:
    """Return whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
