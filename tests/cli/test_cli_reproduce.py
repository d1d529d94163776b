"""`accams reproduce`: which studies there are, what it says without data, and one real study end to end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import done_well, invoked, refusal

from accams.cli.reproduce import STUDIES, _asked
from accams.data.datasets._base import Source
from accams.errors import MissingDataError


def test_every_study_is_in_the_help_and_has_a_script() -> None:
    shown = done_well("reproduce", "--help")
    scripts = Path(__file__).resolve().parents[2] / "experiments" / "paper"
    for name in STUDIES:
        assert name in shown
        assert (scripts / f"{name.replace('-', '_')}.py").is_file()


def test_a_study_that_does_not_exist(tmp_path: Path) -> None:
    assert "choose from table, prediction" in refusal("reproduce", "tables", "--out", tmp_path)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert "there is no folder" in refusal("reproduce", "faces", "--data", tmp_path / "nowhere", "--out", tmp_path)


def test_no_jobs(tmp_path: Path) -> None:
    assert "at least 1" in refusal("reproduce", "faces", "--jobs", "0", "--out", tmp_path)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    assert "cannot write into" in refusal("reproduce", "faces", "--out", tmp_path / "out")


def test_without_names_all_studies_are_meant() -> None:
    assert _asked(None) == _asked([]) == _asked(["all"]) == STUDIES


@pytest.mark.some(1)
@pytest.mark.parametrize("names", [("similar", "graph"), ("graph", "face-images")])
def test_without_data_each_study_says_so_and_the_rest_goes_on(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: Source) -> Path:
        raise MissingDataError(f"{self.file} is missing: get it at {self.url}, put it into a folder")

    monkeypatch.setattr(Source, "_download", missing)
    monkeypatch.delenv("ACCAMS_DATA", raising=False)
    done = invoked("reproduce", *names, "--quick", "--out", tmp_path)
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    for name in names:
        assert f"not complete: {name}" in said
    assert "put it into a folder" in said


@pytest.mark.data
@pytest.mark.full
def test_the_tree_of_films_and_again_from_what_is_kept(real_data: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done_well("reproduce", "hierarchy", "similar", "--quick", "--data", real_data, "--out", tmp_path)
        page = (tmp_path / "similar.md").read_text()
        assert page.split("| Star Wars |")[1].split("\n")[0].count("The Empire Strikes Back") == 3
        for file in ("hierarchy.csv", "hierarchy.md", "hierarchy-ml-100k.png", "hierarchy-ml-100k.svg", "similar.csv"):
            assert (tmp_path / file).stat().st_size > 100
    kept = sorted((tmp_path / "runs" / "quick").glob("*.json"))
    assert len(kept) == 5


def test_without_matplotlib_it_says_so_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'accams[bench,plot]'" in refusal("reproduce", "faces", "--out", tmp_path)
    assert not list(tmp_path.iterdir())
