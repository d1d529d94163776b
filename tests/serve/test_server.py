"""The command as a process of its own: ports, signals, workers, and kills at random moments."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from services import model
from typer.testing import CliRunner

from accams.cli.main import app
from accams.data.eventlog import read_events
from accams.errors import InputError, ModelFileError

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
USER = model("small").users[3].item()
COMMAND = [sys.executable, "-m", "accams", "serve"]


class Running:
    """A service, and what it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        self.url = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        while not self.url and self._reading.is_alive():
            time.sleep(0.02)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"http://[\d.]+:\d+", line)
            self.url = self.url or (found[0] if found else "")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reading.join()
        return code


@contextmanager
def running(*arguments: str | Path) -> Iterator[Running]:
    """A service at a free port."""
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*COMMAND, *map(str, arguments), "--port", "0"], **how)  # type: ignore[call-overload]
    try:
        one = Running(process)
        assert one.url, "".join(one.lines)
        with suppress(httpx.TransportError):
            wait_for(one)
        yield one
    finally:
        process.kill()
        process.wait()


def wait_for(one: Running) -> None:
    for _ in range(600):
        with suppress(httpx.TransportError):
            if httpx.get(f"{one.url}/health/ready").status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError("".join(one.lines))


def test_a_request_that_has_begun_is_answered(files: Path) -> None:
    with running(files / "small.accams", "--history", files / "small.history", "--no-access-log") as one:
        many = {"requests": [{"kind": "recommend", "user": USER, "explain": True}] * 1000}
        answers = list[httpx.Response]()
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{one.url}/v1/batch", json=many, timeout=60))
        )
        asking.start()
        while "in_flight 2.0" not in httpx.get(f"{one.url}/metrics").text and not answers:
            time.sleep(0.005)
        code = one.end()
        asking.join()
        assert answers[0].status_code == 200
        assert len(answers[0].json()["answers"]) == 1000
        assert code == 128 + signal.SIGTERM
        assert len(one.lines) == 1, one.lines  # where it serves, and no traceback


@pytest.mark.full
def test_workers_share_counts_and_are_replaced(files: Path) -> None:
    with running(files / "small.accams", "--history", files / "small.history", "--workers", "2") as one:
        for _ in range(20):
            assert httpx.post(f"{one.url}/v1/recommend", json={"user": USER}).status_code == 200
        text = httpx.get(f"{one.url}/metrics").text
        assert 'accams_requests_total{method="POST",route="/v1/recommend",status="200"} 20.0' in text
        children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children")
        if children.exists():
            os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
            for _ in range(20):
                with suppress(httpx.TransportError):
                    assert httpx.post(f"{one.url}/v1/recommend", json={"user": USER}).status_code == 200
            wait_for(one)
        assert one.end(signal.SIGINT) == 0
        assert "Traceback" not in "".join(one.lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.accams"], "there is no file none.accams"),
        (["titles.csv"], "titles.csv is not an accams model"),
        (["small.accams", "--titles", "other.csv"], "other.csv does not match the model"),
        (["small.accams", "--port", "70000"], "--port must lie between 0 and 65535"),
        (["small.accams", "--host", "256.1.1.1"], "there is no address '256.1.1.1' here"),
        (["small.accams", "--token-file", "none"], "cannot read the tokens in none"),
        (["small.accams", "small.accams"], "two models are called small"),
        (["small.accams", "--max-body", "much"], "is not a size, such as 50k or 1.5MB"),
        (["small.accams", "--workers", "0"], "--workers must be an integer of at least 1"),
        (["small.accams", "--rate", "-1"], "--rate must be a number above 0"),
    ],
)
def test_what_cannot_be_served(
    files: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "titles.csv").write_text("item,title\n0,Alien\n")
    (files / "other.csv").write_text("item,title\nx,Alien\ny,Heat\n")
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code != 0
    assert message in " ".join(f"{done.output} {done.exception}".split())
    assert isinstance(done.exception, (InputError, ModelFileError, SystemExit))


def test_a_port_in_use(files: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(files / "small.accams"), "--port", port])
    told = f"cannot serve at 127.0.0.1:{port}: Address already in use; choose another --port"
    assert str(done.exception) == told


def killed(files: Path, folder: Path, number: int) -> None:
    """Kill a service that takes in feedback at random moments: all that it has acknowledged is in the log."""
    random, log, acknowledged = np.random.default_rng(1), folder / "feedback.log", list[int]()
    for _ in range(number):
        with running(files / "small.accams", "--feedback", log, "--no-access-log") as one:

            def write(one: Running = one) -> None:
                with suppress(httpx.TransportError), httpx.Client() as client:
                    while True:
                        size = int(random.integers(1, 4))
                        first = acknowledged[-1] + 1000 if acknowledged else 0
                        events = [{"user": first + p, "item": 1, "value": 3} for p in range(size)]
                        answer = client.post(f"{one.url}/v1/feedback", json={"events": events})
                        assert answer.json() == {"accepted": size}
                        acknowledged.extend(event["user"] for event in events)

            writing = threading.Thread(target=write)
            before = len(acknowledged)
            writing.start()
            while len(acknowledged) == before and writing.is_alive():
                time.sleep(0.005)
            time.sleep(float(random.uniform(0.02, 0.3)))
            one.end(signal.SIGKILL)
            writing.join()
    found = read_events(log)
    assert set(acknowledged) <= set(found.users)
    assert len(acknowledged) > number


@pytest.mark.full  # the log itself is killed in the quick run: tests/data/test_eventlog.py
def test_feedback_survives_many_kills(files: Path, tmp_path: Path) -> None:
    killed(files, tmp_path, 20)
