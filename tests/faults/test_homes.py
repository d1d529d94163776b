"""Homes that are read-only, missing or unknown, and caches of kernels that are full, damaged or shared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from faulty import full_disk, names

import accams
from accams import ACCAMS, MissingDataError
from accams.data.datasets import _base, movielens
from accams.errors import WriteError

PROGRAM = """
import sys, numpy as np
from accams import ACCAMS
X = np.random.default_rng(0).integers(1, 6, (30, 20)).astype(float)
print(ACCAMS(2, 3, random_state=0, verbose=False).fit(X).predict([[1, 2]]).tobytes().hex())
"""


def run(home: str | None, package: Path | None = None, before: tuple[str, ...] = (), **more: str) -> Any:
    env = {name: x for name, x in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    if package is not None:
        env.pop("NUMBA_CACHE_DIR", None)
    source = package or Path(accams.__file__).parents[1]
    env |= {"PYTHONPATH": str(source), **({} if home is None else {"HOME": home}), **more}
    return subprocess.run(
        [*before, sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def right() -> str:
    X = np.random.default_rng(0).integers(1, 6, (30, 20)).astype(float)
    model = ACCAMS(2, 3, random_state=0, verbose=False).fit(X)
    return str(model.predict([[1, 2]]).tobytes().hex())


@pytest.mark.parametrize(
    "home", ["/dev/null", pytest.param("/nowhere", marks=pytest.mark.full), pytest.param(None, marks=pytest.mark.full)]
)
@pytest.mark.some(1)
def test_a_home_that_cannot_be_used(home: str | None, right: str) -> None:
    done = run(home)
    assert (done.stdout.strip(), done.stderr) == (right, "")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package beside which nothing can be cached."""
    source = Path(accams.__file__).parent
    shutil.copytree(source, tmp_path / "site" / "accams", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (tmp_path / "site").rglob("*/"):
        if folder.is_dir():
            (folder / "__pycache__").write_bytes(b"in the way")
    return tmp_path / "site"


@pytest.mark.full
@pytest.mark.parametrize("user", ["known", "unknown"])
def test_nowhere_to_cache(
    user: str, installed: Path, right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kernels are compiled anew, and no folder is made that is called ~."""
    before: tuple[str, ...] = ()
    if user == "unknown":
        before = ("unshare", "-U", "--map-user=54321", "--map-group=54321")
        if shutil.which("unshare") is None or subprocess.run([*before, "true"], check=False).returncode:
            pytest.skip("there is no other user here")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = run("/dev/null" if user == "known" else None, installed, before)
    assert (done.stdout.strip(), done.stderr) == (right, "")
    assert names(tmp_path / "here") == []


@pytest.mark.full
def test_a_cache_that_is_shared_by_first_starts(right: str, tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    assert [each.communicate()[0].strip() for each in started] == [right] * 8
    assert not list(tmp_path.rglob("*.tmp.*"))


# -- the cache of a kernel -----------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel(folder: Path) -> Any:
    """A new kernel, compiled for nothing yet."""
    path = folder / "summing.py"
    if not path.exists():
        path.write_text("def total(x):\n    return x[0] + x[1]\n")
    spec = spec_from_file_location("summing", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    from accams.kernels import jit

    return jit.kernel(module.total)


FLOATS, INTEGERS = np.array([1.5, 2.5]), np.array([1, 2])


def test_a_cache_on_a_full_disk(cache: Path, tmp_path: Path) -> None:
    total = kernel(tmp_path)
    with full_disk(64):
        assert total(FLOATS) == 4.0
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_damaged_cache(cache: Path, tmp_path: Path) -> None:
    kernel(tmp_path)(FLOATS)
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        path.write_bytes(path.read_bytes()[:100])
    assert kernel(tmp_path)(FLOATS) == 4.0
    again = kernel(tmp_path)
    assert again(FLOATS) == 4.0
    assert again.stats.cache_hits  # it was written anew


def test_code_for_other_types(cache: Path, tmp_path: Path) -> None:
    """Two first starts may both call their code the first one, and the index of one names that of the other."""
    kernel(tmp_path)(FLOATS)
    (first,) = cache.rglob("*.1.nbc")
    of_floats = first.read_bytes()
    shutil.rmtree(cache)
    kernel(tmp_path)(INTEGERS)
    (first,) = cache.rglob("*.1.nbc")
    first.write_bytes(of_floats)
    assert kernel(tmp_path)(INTEGERS) == 3
    assert isinstance(kernel(tmp_path)(INTEGERS), int)


# -- downloads -----------------------------------------------------------------------------------------------------


def test_downloads_without_a_home(monkeypatch: pytest.MonkeyPatch, no_local_data: None) -> None:
    monkeypatch.delenv("ACCAMS_CACHE")
    for home in (Path("~/.cache/accams"), None):

        def where(_: str, home: Path | None = home) -> Path:
            if home is None:
                raise RuntimeError("could not determine the home directory")
            return home

        monkeypatch.setattr("pooch.os_cache", where)
        with pytest.raises(MissingDataError, match=r"there is no home folder to keep downloads in: set \$ACCAMS_CACHE"):
            movielens("100k")


def test_downloads_to_a_full_disk(
    server: tuple[str, Path, list[str]], no_local_data: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address, site, _ = server
    (site / "data.bin").write_bytes(bytes(100_000))
    source = _base.Source("data.bin", address + "data.bin")
    with full_disk(), pytest.raises(WriteError, match=r"cannot write .*/cache/data.bin: File too large"):
        source.find()
    assert names(tmp_path / "cache") == []
    assert source.find() == tmp_path / "cache" / "data.bin"
    monkeypatch.setenv("ACCAMS_CACHE", "/dev/null/cache")
    with pytest.raises(WriteError, match=r"Not a directory; set \$ACCAMS_CACHE to a folder with room"):
        source.find()
