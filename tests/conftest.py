"""Fixtures for all tests, and the markers `full`, `covering` and `some`."""

from __future__ import annotations

import atexit
import gc
import http.server
import os
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import pytest
from simulator import mend_simulator

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")  # before numba is imported
if "RAY_AUTH_MODE" not in os.environ:  # before Ray is: clusters of the tests let in whoever has their own token
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

NO_DATA = "no real data"


@pytest.fixture(scope="session", autouse=True)
def reliable_simulator() -> None:
    """GPU kernels are simulated without the simulator's race for shared memory."""
    mend_simulator()


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
    from accams.writing import make_scratch

    made = list[str]()

    def refused(*_: object) -> Path:
        raise PermissionError("no")

    def elsewhere() -> Path:
        made.append(str(make_scratch()))
        return Path(made[-1])

    monkeypatch.setattr("accams.data.holdout.make_folder", refused)
    monkeypatch.setattr("accams.data.holdout.make_scratch", elsewhere)
    return made


@pytest.fixture
def short_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise calibration of few sweeps, for tests that compare two fits: a difference shows in any sweep."""
    monkeypatch.setattr("accams.fit.calibrate.MOST_SHIFTS", 1)
    monkeypatch.setattr("accams.fit.bayesian.stage_sweeps", lambda _: (6, 3))


@pytest.fixture
def chains_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of small data run side by side, and on several threads each, as those of large data do."""
    monkeypatch.setattr("accams.fit.chains.SMALL", 0)


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


def leaves_out_full(config: pytest.Config) -> bool:
    return "not full" in config.option.markexpr


def pytest_configure(config: pytest.Config) -> None:
    examples = 10 if leaves_out_full(config) else 100  # of tests that do not say how many
    hypothesis.settings.register_profile("accams", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("accams")


@pytest.fixture(scope="session")
def is_quick(pytestconfig: pytest.Config) -> bool:
    """Whether tests marked `full` are left out of this run: those that try much can try less."""
    return leaves_out_full(pytestconfig)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` the variants that a test marked `covering` or `some` can do without."""
    for marker, choose in (("covering", covering), ("some", some)):
        groups = defaultdict[tuple[pytest.Item | None, str], list[pytest.Function]](list)
        for item in items:
            if isinstance(item, pytest.Function) and item.get_closest_marker(marker):
                groups[item.parent, item.originalname].append(item)
        for group in groups.values():
            variants = [item for item in group if not item.get_closest_marker("full")]
            kept = choose(variants, *group[0].get_closest_marker(marker).args) if variants else set()  # type: ignore[union-attr]
            for place, item in enumerate(variants):
                if place not in kept:
                    item.add_marker("full")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep thousands of tests out of the collections of garbage that the package and some tests ask for."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else duckdb complains of what is left when the process ends


def some(tests: list[pytest.Function], number: int) -> set[int]:
    """Return the positions of `number` tests, evenly spaced; tests of other names begin at another place."""
    first = crc32(tests[0].originalname.encode())
    return {(first + place * len(tests) // number) % len(tests) for place in range(number)}


def values_of(item: pytest.Function) -> list[tuple[str, ...]]:
    """Return one value per `parametrize` mark of a test: names that are given together count as one parameter."""
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [mark.split(",") if isinstance(mark, str) else mark for mark in marks]
    return [tuple(f"{name.strip()}={item.callspec.params[name.strip()]!r}" for name in names) for names in groups]


def covering(items: list[pytest.Function], strength: int = 1) -> set[int]:
    """Return the positions of few tests that together hold every value (of strength 2: every pair of values).

    Greedy: each is the one that holds the most values not yet held, and among those the most new pairs.
    """
    tests = [values_of(item) for item in items]
    wanted, pairs = ([set(combinations(values, n)) for values in tests] for n in (strength, 2))
    left, held, kept = set[Any]().union(*wanted), set[Any](), set[int]()
    while left:
        best = max(range(len(tests)), key=lambda p: (len(left & wanted[p]), len(pairs[p] - held)))
        kept.add(best)
        left -= wanted[best]
        held |= pairs[best]
    return kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    wanting = sum(NO_DATA in str(report.longrepr) for report in skipped)
    if wanting:
        terminalreporter.write_line(f"{wanting} tests were skipped for want of real data: set $ACCAMS_DATA to run them")
