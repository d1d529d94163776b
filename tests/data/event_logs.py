"""Logs of feedback for tests: filled, and read as tuples."""

from __future__ import annotations

from typing import Any

from accams.data.eventlog import EventLog, read_events
from accams.data.events import Events


def told(events: Events) -> list[tuple[Any, ...]]:
    columns = events.users, events.items, events.values, events.times
    return list(zip(*(x.tolist() for x in columns), strict=True))


def read(log: EventLog) -> list[tuple[Any, ...]]:
    return told(read_events(log.path))


def fill(log: EventLog, n: int) -> list[tuple[Any, ...]]:
    events = [(f"user {i % 7}", i, i / 2, float(i)) for i in range(n)]
    for event in events:
        log.append(*event)
    return events
