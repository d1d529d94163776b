"""`import accams` stays cheap: nothing heavy comes along."""

from __future__ import annotations

import subprocess
import sys

import pytest

import accams

HEAVY = ("numba", "sklearn", "scipy", "duckdb", "narwhals", "pandas", "rich", "typer", "pooch", "safetensors", "numpy")


def test_import_brings_no_heavy_package() -> None:
    code = f"import accams, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in accams.__all__ if name != "__version__"])
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(accams, name) is not None
    assert name in dir(accams)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Accams'"):
        accams.Accams  # noqa: B018


def test_a_fit_does_not_wait_for_scikit_learn() -> None:
    code = (
        "import sys, numpy as np; from accams import ACCAMS; ACCAMS(1, 2).fit(np.eye(4)).predict([[0, 0]]); "
        "print([name for name in ('sklearn', 'pandas', 'duckdb', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
