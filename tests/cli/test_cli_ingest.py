"""`accams ingest`, and what takes a store."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from command_line import done_well, invoked, refusal

from accams import Observations, load
from accams.cli import fitting


def test_from_files_to_a_fitted_store(ratings: Path, tmp_path: Path) -> None:
    lines = ratings.read_text().splitlines()
    for p in (0, 1):
        (tmp_path / f"part-{p}.csv").write_text("\n".join([lines[0], *lines[1 + p :: 2]]) + "\n")
    done = invoked("ingest", tmp_path / "part-*.csv", "-o", tmp_path / "ratings.store")
    assert done.exit_code == 0, done.output
    assert "ratings.store (" in done.output.replace("\n", "")
    found, right = Observations.open(tmp_path / "ratings.store"), Observations.from_file(ratings)
    assert repr(found) in " ".join(done.output.split())
    assert (found.cols == right.cols).all()
    args = ["--model", "accams", "-k", "2", "-s", "2", "--learning-rate", "1"]
    done = invoked("fit", tmp_path / "ratings.store", "-o", tmp_path / "model.accams", *args)
    assert done.exit_code == 0, done.output


def test_refusals(ratings: Path, tmp_path: Path) -> None:
    assert "no file is called like" in refusal("ingest", tmp_path / "none-*.csv", "-o", tmp_path / "s")
    assert "already exists" in refusal("ingest", ratings, "-o", tmp_path)
    assert "at least 256 MiB" in refusal("ingest", ratings, "-o", tmp_path / "s", "--memory", "1MB")
    assert "is a folder" in refusal("ingest", tmp_path, "-o", tmp_path / "s")


@pytest.mark.some(1)
@pytest.mark.parametrize("most", [1_000_000, 10])
def test_a_part_of_a_store_is_held_out(
    ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The same as of the file, unless there would be too many."""
    monkeypatch.setattr(fitting, "MOST_OF_A_STORE", most)
    done_well("ingest", ratings, "-o", tmp_path / "s")
    common = ["--model", "accams", "-k", "2", "-s", "2", "--learning-rate", "1"]
    done_well("fit", ratings, "-o", tmp_path / "file", *common)
    told = done_well("fit", tmp_path / "s", "-o", tmp_path / "store", "--engine", "disk", *common)
    one, other = (load(tmp_path / name) for name in ("file", "store"))
    assert other.info.training["engine_"] == "disk"
    assert ("10 entries held out: too few to tell" in told) == (most == 10)
    assert (one.evaluation == other.evaluation) == (most > 10)
    gc.collect()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
