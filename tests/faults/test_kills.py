"""Kill processes (SIGKILL) at random moments: the next run gives the same result, and removes what was left.

`experiments/kills.py` does it fifty times of each kind; workers of a Ray cluster are killed in `tests/engine`, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faulty import names

import kills
from accams.writing import write_atomically

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    kills.prepare(folder)
    return folder


def check(name: str, number: int, folder: Path) -> None:
    count = kills.try_kind(name, number, folder, np.random.default_rng(1))
    assert (count.same, count.intact, count.leftovers) == (number, number, 0)


@pytest.mark.parametrize("name", ["fit", "ingest"])
def test_some_kills(name: str, folder: Path) -> None:
    check(name, 1, folder)


@pytest.mark.full
@pytest.mark.parametrize("name", kills.KINDS)
def test_many_kills(name: str, tmp_path: Path) -> None:
    kills.prepare(tmp_path)
    check(name, 8, tmp_path)


def test_a_log_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    count = kills.try_log(20, tmp_path, np.random.default_rng(1))
    assert count.same == count.kills == 20


@pytest.mark.full
def test_workers_of_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    count = kills.try_workers(8, tmp_path, np.random.default_rng(1))
    assert count.same == count.kills >= 8


def test_a_save_that_is_killed_leaves_nothing_for_good(tmp_path: Path) -> None:
    """At the worst moment: the new content is written, and not yet in its place."""
    path = tmp_path / "m"
    path.write_bytes(b"old")
    program = (
        "import os, signal, sys; from pathlib import Path; from accams.writing import write_atomically;"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL); write_atomically(Path(sys.argv[1]), b'new')"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -signal.SIGKILL
        assert path.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2  # the second one has removed what the first one left
    write_atomically(path, b"new")
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("moment", ["mkdir", "unlink database", "unlink arguments"])
def test_an_ingestion_that_is_killed_at_its_first_or_last_step(moment: str, folder: Path, tmp_path: Path) -> None:
    """The next run knows the folder for its own, and ends well."""
    out = tmp_path / "out"
    if moment == "mkdir":
        (tmp_path / "out.partial" / "scratch").mkdir(parents=True)
    else:
        kills.ingested_from(folder / "ratings.csv", out)
        out.rename(tmp_path / "out.partial")
        if moment == "unlink database":
            (tmp_path / "out.partial" / "asked.json").write_text("{}")
        (tmp_path / "out.partial" / "bucket-99-rows.bin").write_bytes(b"of a run with less memory")
    kills.ingested_from(folder / "ratings.csv", out)
    assert names(tmp_path) == ["out"]
    assert {Path(name).suffix for name in os.listdir(out)} == {".npy", ".json"}
