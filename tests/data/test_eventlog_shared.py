"""A log of feedback that threads and processes share."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from event_logs import read

from accams.data.eventlog import EventLog, read_events
from accams.errors import WriteError


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "feedback.log")


def test_threads(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "feedback.log", max_bytes=5000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda u: [log.append(u, i, 1.0, i) for i in range(50)], range(8)))
    events = read(log)
    assert len(set(events)) == len(events) == 400
    for user in range(8):  # each in its order
        assert [item for u, item, *_ in events if u == user] == list(range(50))


def test_waiting_threads_share_a_flush(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    began, release, flush, flushes = Event(), Event(), os.fsync, list[int]()

    def slow(handle: int) -> None:
        flushes.append(handle)
        began.set()
        assert release.wait(30)
        flush(handle)

    monkeypatch.setattr(os, "fsync", slow)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(log.append, "first", 0, 1.0)
        assert began.wait(30)
        others = [pool.submit(log.append, "other", i, 1.0) for i in range(8)]
        while len(log._forming.lines) < 8:
            pass
        assert not any(x.done() for x in [first, *others])  # none is acknowledged before it is on disk
        release.set()
    assert len(flushes) == 2
    assert len(read(log)) == 9


def test_a_failed_flush_fails_for_all(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(handle: int) -> None:
        raise OSError(5, "no")

    log.append("ann", 1, 1.0, 0)
    content = log.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(log.append, "bob", i, 1.0) for i in range(4)]
        for each in done:
            with pytest.raises(WriteError, match="the disk may be failing"):
                each.result()
    assert log.path.read_bytes() == content
    log.append("bob", 1, 1.0, 0)
    assert [event[0] for event in read(log)] == ["ann", "bob"]


def test_an_interrupted_thread(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append("ann", 1, 1.0)
    assert read(log) == []
    log.append("ann", 1, 1.0)
    assert len(read(log)) == 1


def test_processes(tmp_path: Path) -> None:
    """Three that append, and one that forgets and reads meanwhile."""
    path, n = tmp_path / "feedback.log", 100
    program = (
        "import sys; from accams.data.eventlog import EventLog\n"
        "log = EventLog(sys.argv[1], max_bytes=2000)\n"
        f"for i in range({n}): log.append([sys.argv[2], 'gone'], [i, i], 1.0, i)"
    )
    log = EventLog(path, max_bytes=2000)
    words = [[sys.executable, "-c", program, str(path), f"user {number}"] for number in range(3)]
    running = [subprocess.Popen(each) for each in words]
    removed, before = 0, 0
    while any(each.poll() is None for each in running):
        removed += log.forget("gone")
        now = sum(user != "gone" for user in read_events(path).users.tolist())
        assert now >= before  # no segment is missed, none is read twice
        before = now
    assert [each.wait() for each in running] == [0, 0, 0]
    removed += log.forget("gone")
    assert removed == 3 * n
    events = read(log)
    assert len(set(events)) == len(events) == 3 * n
