"""Real data for the tests of this folder."""

from __future__ import annotations

import pytest


@pytest.fixture
def load(real_data, monkeypatch):
    """Calls a loader with the data folder set; skips what is not in it."""
    monkeypatch.setenv("ACCAMS_DATA", str(real_data))

    def call(file, loader, *args):
        if not (real_data / file).exists():
            pytest.skip(f"no real data: {file} is not in {real_data}")
        return loader(*args)

    return call
