"""Logs of feedback that are damaged or lie: what is intact is read, and everything else is refused or skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mutate import Random, changed_bytes, changed_json, pick

from accams.data.eventlog import EventLog, read_events
from accams.data.events import FIELDS, HEADER, is_log, sealed
from accams.errors import AccamsError

IDS = [0, -1, 7, 2**63 - 1, -(2**63), "", "7", "ann", "a\nb", "\u2028", "\U0001f600", '"} 00000000', "../..", "x" * 300]
Told = list[tuple[Any, ...]]


def use_log(folder: Path, random: Random) -> None:
    """Read it in both ways, append to it, and forget somebody: no intact line is lost, and no damaged one is read."""
    path, known = written(folder, random)
    lies = changed(folder, random)
    is_log(path)
    expected, is_whole = lines_in(path, known)
    skipped = told(path, "skip")  # raises where it is no log at all
    check(skipped, expected, lies)
    try:
        assert told(path, "error") == skipped
        assert is_whole or lies, "a damaged line was read over"
    except AccamsError:
        assert lies or not is_whole, "a whole log was refused"
    try:
        used_further(path, skipped, random)
    except AccamsError as error:
        raise AssertionError(f"a log that can be read cannot be used: {error}") from error


def used_further(path: Path, skipped: Told, random: Random) -> None:
    log = EventLog(path, max_bytes=pick(random, [300, 1 << 20]))
    log.append("somebody", "last", 1.0, 0)
    assert told(path, "skip") == [*skipped, ("somebody", "last", 1.0, 0.0)]
    gone = pick(random, IDS)
    left = [event for event in told(path, "skip") if (type(event[0]), event[0]) != (type(gone), gone)]
    assert log.forget(gone, damaged="skip") == len(skipped) + 1 - len(left)
    assert told(path, "error") == left  # nobody knows whose damaged lines were: they are gone, too


def written(folder: Path, random: Random) -> tuple[Path, dict[bytes, tuple[Any, ...]]]:
    """Write a log of a few segments; return the event of each line."""
    path = folder / "feedback.log"
    log = EventLog(path, max_bytes=pick(random, [300, 1000, 1 << 20]))
    for _ in range(int(random.integers(1, 6))):
        n = int(random.integers(1, 5))
        users, items = ([pick(random, IDS) for _ in range(n)] for _ in range(2))
        log.append(users, items, random.normal(size=n).tolist(), random.integers(0, 2**31, n).tolist())
    lines = [line for each in folder.iterdir() for line in each.read_bytes().split(b"\n")[1:-1]]
    return path, {line: tuple(json.loads(line[:-9])[name] for name in FIELDS) for line in lines}


def changed(folder: Path, random: Random) -> int:
    """Damage a segment, or make a line lie with its checksum put right; return how many lines lie."""
    path = pick(random, sorted(folder.iterdir()))
    content = path.read_bytes()
    if random.random() < 0.6:
        path.write_bytes(changed_bytes(content, random))
        return 0
    head, *lines, end = content.split(b"\n")
    for at in random.integers(0, len(lines), random.integers(1, 3)) if lines else ():
        lie = changed_json(json.loads(lines[at][:-9]), random) if lines[at].startswith(b"{") else None
        lines[at] = sealed(lie)[:-1]
    path.write_bytes(b"\n".join([head, *lines, end]))
    return len(lines)


def lines_in(path: Path, known: dict[bytes, tuple[Any, ...]]) -> tuple[Told, bool]:
    """Return the events of intact lines, and whether there are no others but one that a crash may have left."""
    found, is_whole = Told(), True
    older = sorted(path.parent.glob("feedback.log.*"), key=lambda each: int(each.suffix[1:]))
    for each in [*older, path] if path.exists() else older:
        content, is_newest = each.read_bytes(), each == path
        *lines, torn = content[len(HEADER) :].split(b"\n")
        if torn and not is_newest:
            lines.append(torn)
        found += [known[line] for line in lines if line in known]
        if is_newest and not torn and lines and lines[-1] not in known:
            lines.pop()
        is_whole &= all(line in known for line in lines)
    return found, is_whole


def told(path: Path, damaged: str) -> Told:
    events = read_events(path, damaged=damaged)
    return list(zip(*(x.tolist() for x in (events.users, events.items, events.values, events.times)), strict=True))


def check(found: Told, expected: Told, lies: int) -> None:
    """Check that all that is expected was found, in order, and nothing else but possible lies."""
    rest = iter(found)
    assert all(any(each == event for each in rest) for event in expected), "an intact line was lost"
    assert len(found) <= len(expected) + lies, "a damaged line was read"
