"""`accams ingest`, and what takes a store."""

from __future__ import annotations

from pathlib import Path

from command_line import invoked, refusal

from accams import Observations


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
    assert "there already" in refusal("ingest", ratings, "-o", tmp_path)
    assert "at least 256 MiB" in refusal("ingest", ratings, "-o", tmp_path / "s", "--memory", "1MB")
    invoked("ingest", ratings, "-o", tmp_path / "made")
    streamed = refusal("fit", tmp_path / "made", "-o", tmp_path / "model.accams", "--engine", "disk")
    assert "a store that is streamed cannot be split: add --test 0" in streamed
    assert "is a folder" in refusal("ingest", tmp_path, "-o", tmp_path / "s")
