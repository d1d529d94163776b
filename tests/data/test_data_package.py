"""The public names of `accams.data` are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import accams.data
from accams.data import splits
from accams.data.observations import Observations


def test_public_names() -> None:
    for name in accams.data.__all__:
        assert getattr(accams.data, name) is not None
    assert accams.data.Observations is Observations
    assert accams.data.random_split is splits.random_split
    assert dir(accams.data) == sorted(accams.data.__all__)
    with pytest.raises(AttributeError, match=r"module 'accams.data' has no attribute 'nothing'"):
        accams.data.nothing  # noqa: B018


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, accams.data; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
