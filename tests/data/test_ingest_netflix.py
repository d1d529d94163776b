"""A store of the Netflix Prize files equals what `accams.data.datasets.netflix` reads."""

from __future__ import annotations

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
    """Write the same ratings in all common forms."""
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


@pytest.mark.some(3)
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
    """Lines of a partly read file are not inserted twice."""
    monkeypatch.setattr(files, "BLOCK", 50)
    original, inserted = ingesting._StoreBuilder._insert, list[int]()

    def stopped(*args: Any) -> None:
        original(*args)
        inserted.append(1)
        if len(inserted) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(ingesting._StoreBuilder, "_insert", stopped)
    with pytest.raises(KeyboardInterrupt):
        ingest(form, tmp_path / "s", NAMES)
    assert (tmp_path / "s.partial").is_dir()
    ingest(form, tmp_path / "s", NAMES)
    assert Observations.open(tmp_path / "s").nnz == netflix(tmp_path / "given").observations.nnz


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_beside_a_table(form: list[Path], tmp_path: Path) -> None:
    """One text id makes all ids text."""
    (tmp_path / "more.csv").write_text("user,item,rating,timestamp\nann,1,4,1000\n6,99,5,2000\n")
    ingest([*form, tmp_path / "more.csv"], tmp_path / "s", NAMES)
    found, right = Observations.open(tmp_path / "s"), netflix(tmp_path / "given").observations
    assert found.nnz == right.nnz + 2
    assert set(found.row_index.ids) == {*map(str, right.row_index.ids.tolist()), "ann", "6"}
    assert found.col_index.ids.tolist() == [*right.col_index.ids.tolist(), 99]


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_refusals(form: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds files of the Netflix Prize, which have no column 'user'"):
        ingest(form, tmp_path / "s", {**NAMES, "row": "user"})
    (form[0] / "training_set" / "mv_0000004.txt").write_text("4:\n6,9,2004-02-29\n")
    with pytest.raises(InputError, match=r"'6,9,2004-02-29', below film 4, is neither 'film:' nor"):
        ingest(form, tmp_path / "s", NAMES)
    (tmp_path / "mv_1.txt").write_text("1:\n")
    (tmp_path / "bad.tar.gz").write_bytes(b"\x1f\x8b1234")
    (tmp_path / "empty").mkdir()
    for name, told in (
        ("bad.tar.gz", "damaged or truncated"), ("empty", "is a folder; pass the path of a file in it"),
        ("mv_1.txt", "there are no ratings in these files"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=told):
            ingest([tmp_path / name], tmp_path / "s", NAMES)
    assert not list(tmp_path.glob("s*"))


def damaged(name: str, tmp_path: Path) -> Path:
    """Write a truncated, damaged or mislabelled archive."""
    one = tar_bytes({f"training_set/{name}": content for name, content in FILMS.items()}, "w")
    path = tmp_path / ("a.zip" if name in ("zip", "csv") else "a.tar.gz" if "gz" in name else "a.tar")
    if name == "zip":
        write_zip(path, FILMS)
        content = bytearray(path.read_bytes())
        content[content.index(b"mv_0000009.txt") + 20] ^= 255
        path.write_bytes(content)
    elif name == "csv":
        write_zip(path, {"ratings.csv": b"user,item,rating\n1,2,3\n2,3,4\n"})
        content = bytearray(path.read_bytes())
        content[content.rindex(b"PK\x01\x02")] = 0
        path.write_bytes(content)
    elif name == "between films":
        path.write_bytes(one[: one.index(b"training_set/mv_0000004.txt")])
    elif name == "header":
        path.write_bytes(one[: one.index(b"training_set/mv_0000004.txt") + 100])
    elif name == "film":
        path.write_bytes(one[: one.index(b"training_set/mv_0000004.txt") + 515])
    else:
        packed = bytearray(tar_bytes(FILMS))
        packed[-8] ^= 255  # of its checksum
        path.write_bytes(packed if name == "gz checksum" else packed[: len(packed) * 2 // 3])
    return path


@pytest.mark.parametrize("name", ["zip", "csv", "between films", "header", "film", "gz checksum", "gz cut"])
def test_archives_that_are_not_whole(name: str, tmp_path: Path) -> None:
    """No store is made, and no files remain."""
    with pytest.raises(InputError, match="is damaged or truncated: download it again"):
        ingest([damaged(name, tmp_path)], tmp_path / "s", NAMES)
    assert not list(tmp_path.glob("s*"))


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_a_folder_that_has_changed_is_read_anew(
    form: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ingesting._StoreBuilder, "sort", stopped)
        with pytest.raises(KeyboardInterrupt):
            ingest(form, tmp_path / "s", NAMES)
    (form[0] / "training_set" / "mv_0000007.txt").write_bytes(film(7, 5))
    ingest(form, tmp_path / "s", NAMES)
    found, right = Observations.open(tmp_path / "s"), netflix(form[0]).observations
    assert found.nnz == right.nnz
    assert 7 in found.col_index.ids


def test_what_only_looks_like_it(tmp_path: Path) -> None:
    """Tables and folders may have such names; suffixes may be upper case."""
    (tmp_path / "mv_2020.txt").write_text("user,item,rating\n1,2,3\n2,3,4\n")
    ingest([tmp_path / "mv_2020.txt"], tmp_path / "s", NAMES)
    assert Observations.open(tmp_path / "s").nnz == 2
    write_zip(tmp_path / "nf.ZIP", FILMS)
    (tmp_path / "given" / "mv_1.txt").mkdir(parents=True)
    (tmp_path / "given" / "mv_0000003.txt").write_bytes(FILMS["mv_0000003.txt"])
    for number, name in enumerate(("nf.ZIP", "given")):
        ingest([tmp_path / name], tmp_path / f"s{number}", NAMES)
    assert not files.is_netflix_data(tmp_path / "nothing")


@pytest.mark.parametrize("bad", ["4294967297:", ":", "6,3,2004-02-99", "6,3,2004-02-00"])
def test_numbers_that_cannot_be(bad: str, tmp_path: Path) -> None:
    (tmp_path / "mv_1.txt").write_text(f"1:\n6,3,2004-02-29\n{bad}\n7,3,2004-02-29\n")
    with pytest.raises(InputError, match="is neither 'film:' nor 'user,rating,year-month-day'"):
        ingest([tmp_path / "mv_1.txt"], tmp_path / "s", NAMES)


def test_a_file_without_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 1000)
    write_zip(tmp_path / "a.zip", {"mv_1.txt": b"1:\n6,3,2004-02-29\n" + b"1" * 10**6})
    with pytest.raises(InputError, match=r"mv_1\.txt is not a text file with lines"):
        ingest([tmp_path / "a.zip"], tmp_path / "s", NAMES)


@pytest.mark.parametrize("form", ["folder"], indirect=True)
def test_files_that_may_not_be_read(form: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> None:
        raise PermissionError(13, "Permission denied", "mv_0000003.txt")

    monkeypatch.setattr(files, "parse", refused)  # root may read everything
    with pytest.raises(InputError, match=r"given cannot be opened: permission denied \(mv_0000003\.txt\)"):
        ingest(form, tmp_path / "s", NAMES)
    assert not list(tmp_path.glob("s*"))
