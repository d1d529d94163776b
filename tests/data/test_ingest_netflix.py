"""A store of the files of the Netflix Prize is what `accams.data.datasets.netflix` reads from them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_files import tar_bytes, write_zip

from accams import InputError, Observations
from accams.data import ingest as ingesting
from accams.data import netflix as files
from accams.data.datasets import netflix
from accams.data.ingest import ingest

NAMES: dict[str, str | None] = dict.fromkeys(("row", "col", "value", "weight", "time"))


def film(number: int, seed: int) -> bytes:
    """Ratings of a film by some of forty users."""
    rng = np.random.default_rng(seed)
    users = rng.choice(40, rng.integers(1, 20), replace=False) * 7 + 6
    lines = [
        f"{u},{rng.integers(1, 6)},200{rng.integers(0, 6)}-0{rng.integers(1, 10)}-1{rng.integers(0, 9)}" for u in users
    ]
    return "\n".join([f"{number}:", *lines, ""]).encode()


FILMS = {f"mv_{number:07d}.txt": film(number, number) for number in (1, 3, 4, 9, 12)}


@pytest.fixture
def form(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """The same ratings in all the ways that people have them."""
    folder = tmp_path / "given"
    (folder / "training_set").mkdir(parents=True)
    for name, content in FILMS.items():
        (folder / "training_set" / name).write_bytes(content)
    inner = tar_bytes({f"training_set/{name}": content for name, content in FILMS.items()}, "w")
    (tmp_path / "nf.tar.gz").write_bytes(tar_bytes({"download/README": b"hello", "download/training_set.tar": inner}))
    halves = {f"combined_data_{p + 1}.txt": b"".join(list(FILMS.values())[p::2]) for p in (0, 1)}
    write_zip(tmp_path / "nf.zip", halves | {"movie_titles.csv": b"1,2003,Dinosaur Planet\n"})
    every = sorted((folder / "training_set").iterdir())
    return {"folder": [folder], "archive": [tmp_path / "nf.tar.gz"], "zip": [tmp_path / "nf.zip"], "files": every}[
        request.param
    ]


@pytest.mark.parametrize("form", ["folder", "archive", "zip", "files"], indirect=True)
@pytest.mark.parametrize("block", [50, 1 << 25])
def test_the_same_ratings(form: list[Path], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", block)
    ingest(form, tmp_path / "s", NAMES)
    found, right = Observations.open(tmp_path / "s"), netflix(tmp_path / "given").observations
    for name in ("row_starts", "cols", "stored_values", "times", "col_starts", "rows"):
        assert np.array_equal(getattr(found, name), getattr(right, name)), name
    assert found.row_index == right.row_index
    assert found.col_index == right.col_index


@pytest.mark.parametrize("form", ["zip"], indirect=True)
def test_it_goes_on_after_a_stop(form: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a file that was not read to its end are not there twice."""
    monkeypatch.setattr(files, "BLOCK", 50)
    original, inserted = ingesting._Work._insert, list[int]()

    def stopped(*args: Any) -> None:
        original(*args)
        inserted.append(1)
        if len(inserted) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(ingesting._Work, "_insert", stopped)
    with pytest.raises(KeyboardInterrupt):
        ingest(form, tmp_path / "s", NAMES)
    assert (tmp_path / "s.partial").is_dir()
    ingest(form, tmp_path / "s", NAMES)
    assert Observations.open(tmp_path / "s").nnz == netflix(tmp_path / "given").observations.nnz


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_beside_a_table(form: list[Path], tmp_path: Path) -> None:
    """Ids that are names make all ids names."""
    (tmp_path / "more.csv").write_text("user,item,rating,timestamp\nann,1,4,1000\n6,99,5,2000\n")
    ingest([*form, tmp_path / "more.csv"], tmp_path / "s", NAMES)
    found, right = Observations.open(tmp_path / "s"), netflix(tmp_path / "given").observations
    assert found.nnz == right.nnz + 2
    assert set(found.row_index.ids) == {*map(str, right.row_index.ids.tolist()), "ann", "6"}
    assert found.col_index.ids.tolist() == [*right.col_index.ids.tolist(), 99]


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_refusals(form: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has the files of the Netflix Prize, which have no column 'user'"):
        ingest(form, tmp_path / "s", {**NAMES, "row": "user"})
    (form[0] / "training_set" / "mv_0000004.txt").write_text("4:\n6,9,2004-02-29\n")
    with pytest.raises(InputError, match=r"'6,9,2004-02-29', below film 4, is neither 'film:' nor"):
        ingest(form, tmp_path / "s", NAMES)
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.add(form[0] / "training_set", "other")
    (tmp_path / "bad.tar.gz").write_bytes(b"\x1f\x8b1234")
    (tmp_path / "empty").mkdir()
    for name, told in (("bad.tar.gz", "damaged or cut off"), ("empty", "is a folder; name a file in it")):
        with pytest.raises(InputError, match=told):
            ingest([tmp_path / name], tmp_path / "s", NAMES)
    assert not list(tmp_path.glob("s*"))
