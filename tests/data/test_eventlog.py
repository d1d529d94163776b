"""A log of feedback: what was acknowledged is read again, by whomever and after whatever."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from event_logs import fill, read, told
from hypothesis import given
from hypothesis import strategies as st

from accams.data import eventlog
from accams.data.eventlog import EventLog, read_events
from accams.data.events import HEADER, is_log, line_of
from accams.errors import InputError, WriteError

HOSTILE = ["", " ", "\n", "a\nb", "\r\n", "\u2028\x85", '"', "\\", "\0", "{}", "é" * 5000, "\x01" * 10_000, "😀", "7"]

IDS = st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-(2**63), 2**63 - 1)
OTHERS = [b"user,item,rating\n1,2,3\n", b"x", b"\n", b'{"accams":"feedback","format":2}']


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "feedback.log")


class TestRoundTrips:
    def test_one_and_several(self, log: EventLog) -> None:
        assert log.append("ann", 7, 4.5, 12) == 1
        assert log.append(["bob", "bob"], ["Heat", -(2**63)], [1, np.float32(0.1)], [1.5, 2.5]) == 2
        assert log.append(np.array([1, 2]), 5, np.array([3.0, 4.0]), 9) == 2
        assert log.append([], [], []) == 0
        expected = [("ann", 7, 4.5, 12.0), ("bob", "Heat", 1.0, 1.5), ("bob", -(2**63), float(np.float32(0.1)), 2.5)]
        assert read(log) == [*expected, (1, 5, 3.0, 9.0), (2, 5, 4.0, 9.0)]

    def test_types_are_those_of_ids(self, log: EventLog) -> None:
        log.append([1, 2], ["1", 2], [1.0, 2.0])
        events = read_events(log.path)
        assert events.users.dtype == np.int64
        assert events.items.tolist() == ["1", 2]
        assert (events.times > 1.7e9).all()

    def test_an_empty_log(self, log: EventLog) -> None:
        assert len(read_events(log.path)) == 0
        assert is_log(log.path)

    def test_hostile_ids(self, log: EventLog) -> None:
        log.append(HOSTILE, HOSTILE[::-1], np.arange(len(HOSTILE)), 0)
        assert [event[:2] for event in read(log)] == list(zip(HOSTILE, HOSTILE[::-1], strict=True))

    @given(st.lists(st.tuples(IDS, st.floats(allow_infinity=False, allow_nan=False))))
    def test_any_event(self, tmp_path_factory: pytest.TempPathFactory, events: list[tuple[Any, float]]) -> None:
        log = EventLog(tmp_path_factory.mktemp("any") / "log")
        for user, value in events:
            log.append(user, "item", value, 0)
        assert read(log) == [(user, "item", value, 0.0) for user, value in events]

    def test_a_link(self, log: EventLog, tmp_path: Path) -> None:
        os.symlink(log.path, tmp_path / "link")
        EventLog(tmp_path / "link", max_bytes=1).append("ann", 1, 1.0)
        EventLog(tmp_path / "link", max_bytes=1).append("ann", 2, 1.0)
        assert (tmp_path / "feedback.log.1").exists()
        assert (tmp_path / "link").is_symlink()
        assert len(read_events(tmp_path / "link")) == 2


class TestRefused:
    @pytest.mark.parametrize(
        ("event", "message"),
        [
            ((True, 1, 1.0), "a user is an integer or text, not True"),
            ((1.5, 1, 1.0), "a user is an integer or text, not 1.5"),
            ((None, 1, 1.0), "a user is an integer or text, not None"),
            ((("a", b"b"), (1, 1), 1.0), "a user is an integer or text, not b'b'"),
            ((2**63, 1, 1.0), "too large"),
            (("a", "x" * 10_001, 1.0), "the item 'xxxxxxxxxxxxxxxxxxxx'... is too long"),
            (("a", "\ud800", 1.0), "not valid Unicode"),
            (("a", 1, float("nan")), "a value is a finite number, not nan"),
            (("a", 1, 10**400), "a value is a finite number, not inf"),
            (("a", 1, "5"), "a value is a number, not '5'"),
            (("a", 1, True), "a value is a number, not True"),
            (("a", 1, 1.0, float("inf")), "a time is a finite number"),
            ((["a", "b"], [1], 1.0), "there are 2 users, but not as many items, values or times"),
        ],
    )
    def test_events(self, log: EventLog, event: tuple[Any, ...], message: str) -> None:
        with pytest.raises(InputError, match=message):
            log.append(*event)
        assert read(log) == []

    def test_nothing_of_several_is_logged_if_one_is_refused(self, log: EventLog) -> None:
        with pytest.raises(InputError):
            log.append(["a", "b"], [1, 2], [1.0, float("nan")])
        assert read(log) == []

    @pytest.mark.parametrize(
        "content", [b"user,item,rating\n1,2,3\n", b"x", b"\n", b'{"accams":"feedback","format":2}']
    )
    def test_other_files_stay_as_they_are(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "ratings.csv"
        path.write_bytes(content)
        for use in (EventLog, read_events):
            with pytest.raises(InputError, match=r"is not a feedback log|from a newer version"):
                use(path)
        assert path.read_bytes() == content

    def test_no_log(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no feedback log"):
            read_events(tmp_path / "no.log")
        assert not is_log(tmp_path / "no.log")
        with pytest.raises(WriteError, match="create its folder first"):
            EventLog(tmp_path / "no" / "feedback.log")
        with pytest.raises(WriteError, match="choose the name of a file"):
            EventLog(tmp_path)
        with pytest.raises(InputError):
            EventLog(tmp_path / "log", max_bytes=0)


class TestRotation:
    def test_numbers_ascend_with_time(self, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "feedback.log", max_bytes=300)
        events = fill(log, 60)
        assert read(log) == events
        numbers = sorted(int(path.suffix[1:]) for path in tmp_path.glob("feedback.log.*"))
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 10  # so that 10 comes after 9
        assert all(path.stat().st_size <= 300 for path in tmp_path.iterdir())
        first = told(read_events(tmp_path / "feedback.log.1"))
        assert first == events[: len(first)]

    def test_a_large_call_stays_together(self, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "feedback.log", max_bytes=300)
        log.append("ann", list(range(100)), 1.0)
        log.append("ann", list(range(100)), 2.0)
        assert [len(told(read_events(path))) for path in tmp_path.iterdir()] == [100, 100] or len(read(log)) == 200
        assert (tmp_path / "feedback.log.1").exists()

    def test_a_crash_between_two_names(self, log: EventLog) -> None:
        """The newest segment has its number, and the next one is not there yet."""
        events = fill(log, 3)
        log.path.rename(log.path.with_name("feedback.log.1"))
        assert read(log) == events
        assert is_log(log.path)
        log.append("ann", 1, 1.0, 0)
        assert read(log) == [*events, ("ann", 1, 1.0, 0.0)]


class TestTornTails:
    def test_at_every_byte(self, tmp_path: Path) -> None:
        whole = EventLog(tmp_path / "whole.log")
        events = fill(whole, 3)
        content = whole.path.read_bytes()
        last = content[:-1].rfind(b"\n") + 1
        path = tmp_path / "torn.log"
        for cut in range(last, len(content)):
            for tail in (b"", b"\0" * 40, b"\n"):
                torn = content[:cut] + tail
                if torn == content:
                    continue
                path.write_bytes(torn)
                assert told(read_events(path)) == events[:2]
                log = EventLog(path)
                assert path.read_bytes() == content[:last]
                log.append(*events[2])
                assert path.read_bytes() == content

    def test_at_every_byte_of_the_first_line(self, tmp_path: Path) -> None:
        path = tmp_path / "torn.log"
        for cut in range(len(HEADER)):
            path.write_bytes(HEADER[:cut])
            assert len(read_events(path)) == 0
            EventLog(path)
            assert path.read_bytes() == HEADER

    def test_of_another_process(self, log: EventLog) -> None:
        """A log that is open notices what another one has left."""
        fill(log, 2)
        with log.path.open("ab") as file:
            file.write(line_of("killed", 1, 1.0, 0)[:20])
        log.append("ann", 1, 1.0, 0)
        assert [event[0] for event in read(log)] == ["user 0", "user 1", "ann"]

    def test_a_long_one(self, log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(eventlog, "CHUNK", 16)
        fill(log, 2)
        with log.path.open("ab") as file:
            file.write(b"\0" * 1000)
        fill(log, 2)
        assert len(read(log)) == 4


class TestDamage:
    def test_every_flipped_byte_is_noticed(self, log: EventLog, tmp_path: Path) -> None:
        events = fill(log, 3)
        content = log.path.read_bytes()
        last = content[:-1].rfind(b"\n") + 1
        path = tmp_path / "damaged.log"
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            if place >= last - 1:  # may be of a crash
                assert told(read_events(path)) == events[: 2 if place >= last else 1]
                continue
            with pytest.raises(InputError, match=r"damaged\.log"):
                read_events(path)
            if place >= len(HEADER):
                line = content[:place].count(b"\n") + 1
                with pytest.raises(InputError, match=rf"damaged\.log line {line} is damaged"):
                    read_events(path)
                assert set(told(read_events(path, damaged="skip"))) < set(events)

    def test_an_older_segment_must_be_whole(self, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "feedback.log", max_bytes=300)
        fill(log, 20)
        older = tmp_path / "feedback.log.2"
        older.write_bytes(older.read_bytes()[:-5])
        with pytest.raises(InputError, match=r"feedback\.log\.2 line \d+ is damaged"):
            read(log)
        assert len(read_events(log.path, damaged="skip")) == 19

    @pytest.mark.parametrize(
        "content",
        [
            {"user": 1, "item": 2, "value": 3.0},
            {"item": 2, "user": 1, "value": 3.0, "time": 0.0},
            {"user": 1, "item": 2, "value": None, "time": 0.0},
            {"user": True, "item": 2, "value": 1.0, "time": 0.0},
            {"user": 1, "item": [2], "value": 1.0, "time": 0.0},
            {"user": 1, "item": 2, "value": 10**400, "time": 0.0},
            {"user": "x" * 200_000, "item": 2, "value": 1.0, "time": 0.0},
            [1, 2, 3.0, 0.0],
            b"[" * 100_000,
            b"9" * 5000,
            b"\xff",
        ],
    )
    def test_lies(self, log: EventLog, content: Any) -> None:
        """The checksum is right, and the content is not."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        with log.path.open("ab") as file:
            file.write(b"%s %08x\n" % (body, crc32(body)))
        with pytest.raises(InputError, match="line 2 is damaged"):
            read(log)
        log.append("ann", 1, 1.0)
        assert len(read_events(log.path, damaged="skip")) == 1


class TestForget:
    def test_all_segments(self, tmp_path: Path) -> None:
        log = EventLog(tmp_path / "feedback.log", max_bytes=300)
        events = fill(log, 30)
        log.append(3, 3, 3.0, 3)
        before = sorted(path.name for path in tmp_path.iterdir())
        assert log.forget("user 3") == len([event for event in events if event[0] == "user 3"])
        assert b"user 3" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        kept = [event for event in events if event[0] != "user 3"] + [(3, 3, 3.0, 3.0)]
        assert read(log) == kept
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert log.forget("user 3") == 0
        assert log.forget("3") == 0
        assert log.forget(3) == 1
        log.append("ann", 1, 1.0, 0)
        assert read(log) == [*kept[:-1], ("ann", 1, 1.0, 0.0)]

    def test_damage(self, log: EventLog) -> None:
        fill(log, 3)
        content = log.path.read_bytes().replace(b"user 1", b"user 9")
        log.path.write_bytes(content)
        with pytest.raises(InputError, match="line 3 is damaged"):
            log.forget("user 0")
        assert log.path.read_bytes() == content
        assert log.forget("user 0", damaged="skip") == 1
        assert [event[0] for event in read(log)] == ["user 2"]

    def test_damaged_lines_go_even_where_the_user_has_none(self, log: EventLog) -> None:
        """Nobody knows whose they were."""
        events = fill(log, 3)
        log.path.write_bytes(log.path.read_bytes().replace(b"user 1", b"user x"))
        assert log.forget("nobody", damaged="skip") == 0
        assert read(log) == [events[0], events[2]]
        assert b"user x" not in log.path.read_bytes()


def test_without_locks(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.data.events.fcntl", None)
    events = fill(log, 3)
    assert read(log) == events


def test_a_log_that_is_taken_away_begins_again(log: EventLog) -> None:
    fill(log, 3)
    shutil.move(log.path, log.path.with_name("archived"))
    events = fill(log, 2)
    assert read(log) == events
