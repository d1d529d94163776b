"""The experiments are scripts beside the package: their folder is put on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accams.threads import Threads

sys.path.append(str(Path(__file__).resolve().parents[2] / "experiments"))


@pytest.fixture(scope="session")
def threads() -> Threads:
    """Two threads, with ranges small enough for both to have work."""
    return Threads(2, chunk_size=500)
