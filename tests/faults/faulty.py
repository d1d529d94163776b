"""Full disks, and the command line in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

resource: Any = pytest.importorskip("resource", reason="needs limits of file sizes")
CODE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from accams.cli.main import run; run()"


@contextmanager
def full_disk(room: int = 4096) -> Iterator[None]:
    """No file can grow beyond `room` bytes: writes fail as on a full disk, with another number (EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def start(*args: str | Path, **environment: str) -> subprocess.Popen[str]:
    """`accams ...` in a process of its own, which signals reach."""
    words = [sys.executable, "-c", CODE, *map(str, args)]
    env = {**os.environ, **environment}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
