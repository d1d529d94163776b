"""Some cases of `make fuzz`, and files that were at fault before (tests/fuzz/corpus)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bombs import BOMBS
from run import case
from targets import TARGETS, USES, allowed

HERE = Path(__file__).parent
CASES = 4  # of each target


@pytest.mark.parametrize("targets", [["log"], pytest.param(list(TARGETS), marks=pytest.mark.full)], ids=len)
def test_some_cases_as_make_fuzz_runs_them(targets: list[str]) -> None:
    """With bounds checks: kernels are compiled anew for them, of which logs need none."""
    done = subprocess.run(
        [sys.executable, HERE / "run.py", "--cases", str(CASES), "--workers", "1", "--only", *targets],
        capture_output=True, text=True, check=False,
        env={key: x for key, x in os.environ.items() if key != "NUMBA_BOUNDSCHECK"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(targets) * CASES:,} cases, 0 faults" in done.stdout


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore")
def test_some_cases_of_each_target(target: str, tmp_path: Path) -> None:
    """The same cases in this process, with the kernels of all other tests."""
    for number in range(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        random = case(target, number)
        with np.errstate(all="ignore"):
            allowed(lambda folder=folder, random=random: TARGETS[target](folder, random))


@pytest.mark.parametrize("path", sorted((HERE / "corpus").glob("*-*")), ids=lambda path: path.name)
def test_files_that_were_at_fault(path: Path, tmp_path: Path) -> None:
    """Their names begin with that of the target; `use` asks at random, so several times."""
    copied = tmp_path / path.name
    for seed in range(8):
        shutil.copyfile(path, copied)
        with np.errstate(all="ignore"):
            allowed(lambda seed=seed: USES[path.name.split("-")[0]](copied, np.random.default_rng(seed)))


@pytest.mark.parametrize("name", ["ids", *(pytest.param(x, marks=pytest.mark.full) for x in BOMBS if x != "ids")])
def test_files_that_unfold_to_as_much_as_is_allowed(name: str, tmp_path: Path) -> None:
    """Loading and every question after it keep within a gigabyte and two minutes of processor time."""
    command = [sys.executable, HERE / "bombs.py", name, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
