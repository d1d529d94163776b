"""`accams explore` writes a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import done_well, refusal


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "films.csv"
    path.write_text("movieId,title\n" + "".join(f"film {p},Film no. {p}\n" for p in range(30)))
    return path


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accams.explore.site.LEAST_BYTES", 2500)


def test_a_page_of_static_files(posterior: Path, films: Path, tmp_path: Path) -> None:
    shown = done_well("explore", posterior, "-o", tmp_path / "site", "--titles", films, "--name", "Films")
    assert "wrote" in shown
    written = {each.name for each in (tmp_path / "site").iterdir()}
    assert {"index.html", "local.js", "reader.js", "model.accams", "ids.json", "site.json"} <= written
    site = json.loads((tmp_path / "site" / "site.json").read_text(encoding="utf-8"))
    assert (site["model"]["model"], site["model"]["history"], site["model"]["spread"]) == ("Films", False, True)
    names = json.loads((tmp_path / "site" / "ids.json").read_text(encoding="utf-8"))
    assert "users" not in names


def test_users_are_told_only_if_asked(posterior: Path, tmp_path: Path) -> None:
    done_well("explore", posterior, "-o", tmp_path / "site", "--users")
    names = json.loads((tmp_path / "site" / "ids.json").read_text(encoding="utf-8"))
    site = json.loads((tmp_path / "site" / "site.json").read_text(encoding="utf-8"))
    assert len(names["users"]) == site["model"]["users"]
    assert names["titles"] is None
    assert site["model"]["model"] == posterior.stem


def test_refusals(posterior: Path, ratings: Path, tmp_path: Path) -> None:
    assert "exists already" in refusal("explore", posterior, "-o", tmp_path)
    assert "only with --users" in refusal("explore", posterior, "-o", tmp_path / "x", "--history", ratings)
    assert not (tmp_path / "x").exists()
