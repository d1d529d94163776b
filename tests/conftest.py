"""Where the tests find real data sets, and a line in the summary for those that did not."""

from __future__ import annotations

import http.server
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")  # before numba is imported
if "RAY_AUTH_MODE" not in os.environ:  # before Ray is: clusters of the tests let in whoever has their own token
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

NO_DATA = "no real data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data sets; the test is skipped where there is none."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    for folder in (os.environ.get("ACCAMS_DATA"), beside):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip(f"{NO_DATA}: set $ACCAMS_DATA to a folder with the archives")


@pytest.fixture
def no_local_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, and no proxy before a local server."""
    monkeypatch.delenv("ACCAMS_DATA", raising=False)
    monkeypatch.setenv("ACCAMS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that were made for a while, none of which can be made beside a store."""
    made, original = list[str](), tempfile.mkdtemp

    def refused(*args: Any, **more: Any) -> str:
        if "dir" in more:
            raise PermissionError("no")
        made.append(original(*args, **more))
        return made[-1]

    monkeypatch.setattr("accams.data.holdout.tempfile.mkdtemp", refused)
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """A web server for the folder `site`, and the list of paths that were asked for."""
    site = tmp_path / "site"
    asked: list[str] = []
    site.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(site))

        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/", site, asked
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    wanting = sum(NO_DATA in str(report.longrepr) for report in skipped)
    if wanting:
        terminalreporter.write_line(f"{wanting} tests were skipped for want of real data: set $ACCAMS_DATA to run them")
