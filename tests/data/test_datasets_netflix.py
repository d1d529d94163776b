"""The Netflix Prize ratings in all common forms."""

from __future__ import annotations

import numpy as np
import pytest
from dataset_files import tar_bytes, write_zip

from accams.data import netflix as files
from accams.data.datasets import netflix
from accams.errors import InputError, MissingDataError

pytestmark = pytest.mark.usefixtures("no_local_data")

MV = {
    "mv_0000001.txt": b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n",
    "mv_0000003.txt": b"3:\n822109,4,1999-12-31\n6,1,2004-02-29\n",
}
NETFLIX_TITLES = "1,2003,Dinosaur Planet\n2,2004,Isle of Man TT 2004 Review\n3,1997,Sick, Sad & \u00e9tude\n"
COMBINED = {
    "combined_data_1.txt": MV["mv_0000001.txt"],
    "combined_data_2.txt": MV["mv_0000003.txt"],
}


def assert_netflix(data, titles=True):
    obs = data.observations
    assert obs.row_index.ids.tolist() == [6, 822109, 1488844]
    assert obs.col_index.ids.tolist() == [1, 3]
    assert obs.coo()[0].tolist() == [0, 1, 1, 2]
    assert obs.coo()[1].tolist() == [1, 0, 1, 0]
    assert obs.values.tolist() == [1, 5, 4, 3]
    days = obs.times.astype("M8[s]").astype("M8[D]").astype(str).tolist()
    assert days == ["2004-02-29", "2005-05-13", "1999-12-31", "2005-09-06"]
    expected = {1: "Dinosaur Planet", 2: "Isle of Man TT 2004 Review", 3: "Sick, Sad & \u00e9tude"}
    assert data.titles == (expected if titles else None)


def netflix_folder(tmp_path, inner, files):
    folder = tmp_path / "nf"
    (folder / inner).mkdir(parents=True)
    for name, content in files.items():
        (folder / inner / name).write_bytes(content)
    suffix = "csv" if "combined_data_1.txt" in files else "txt"
    (folder / f"movie_titles.{suffix}").write_bytes(NETFLIX_TITLES.encode("latin-1"))
    (folder / "probe.txt").write_text("1:\n30878\n")
    return folder


def test_netflix_original_folder(tmp_path):
    folder = netflix_folder(tmp_path, "training_set", MV)
    assert_netflix(netflix(folder))
    assert_netflix(netflix(folder / "training_set"))


def test_netflix_combined_folder(tmp_path, monkeypatch):
    assert_netflix(netflix(netflix_folder(tmp_path, ".", COMBINED)))
    (tmp_path / "nf").rename(tmp_path / "netflix")
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    assert_netflix(netflix())


def test_netflix_combined_zip(tmp_path):
    write_zip(tmp_path / "a.zip", COMBINED | {"movie_titles.csv": NETFLIX_TITLES.encode("latin-1")})
    assert_netflix(netflix(tmp_path / "a.zip"))


def test_netflix_original_download(tmp_path):
    inner = tar_bytes({f"training_set/{name}": content for name, content in MV.items()}, "w")
    files = {
        "download/movie_titles.txt": NETFLIX_TITLES.encode("latin-1"),
        "download/training_set.tar": inner,
        "download/qualifying.txt": b"1:\n1046323,2005-12-19\n",
    }
    (tmp_path / "nf_prize_dataset.tar.gz").write_bytes(tar_bytes(files))
    assert_netflix(netflix(tmp_path))
    (tmp_path / "nf_prize_dataset.tar.gz").unlink()
    (tmp_path / "training_set.tar").write_bytes(inner)
    assert_netflix(netflix(tmp_path), titles=False)
    (tmp_path / "download").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert_netflix(netflix(tmp_path / "download"))
    assert_netflix(netflix(tmp_path / "download" / "training_set.tar"))


@pytest.mark.parametrize("block", [1, 10, 50])
def test_netflix_lines_may_be_cut_anywhere(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files, "BLOCK", block)
    assert_netflix(netflix(netflix_folder(tmp_path, ".", COMBINED)))


def test_netflix_with_other_line_ends(tmp_path):
    files = {name: content.replace(b"\n", b"\r\n") for name, content in MV.items()}
    assert_netflix(netflix(netflix_folder(tmp_path, "training_set", files)))
    files = {name: content.rstrip() for name, content in COMBINED.items()}
    assert_netflix(netflix(netflix_folder(tmp_path / "other", ".", files)))


def test_netflix_parser_against_a_slow_twin():
    rng = np.random.default_rng(0)
    lines, expected, film = [], [], 0
    for _ in range(3000):
        if film == 0 or rng.random() < 0.05:
            film = int(rng.integers(1, 20_000))
            lines.append(f"{film}:")
        user, rating = int(10 ** rng.uniform(0, 6.4)), int(rng.integers(1, 6))
        day = int(rng.integers(10_000, 13_200))
        lines.append(f"{user},{rating},{np.datetime64(day, 'D')}")
        expected.append((user, film, rating, day))
    got = files.parse("\n".join([*lines, ""]).encode(), "x", 0)
    assert got.last_film == film
    columns = (got.users, got.films, got.ratings, got.days)
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == expected


@pytest.mark.parametrize(
    "bad",
    [
        "6,9,2004-02-29", "6,0,2004-02-29", "6,3,2004-13-29", "6,3,2004-2-29", "6;3;2004-02-29", "6,3",
        "x,3,2004-02-29", "6,3,2004-02-2x", "12345678901,3,2004-02-29", "hello", "x:", ",3,2004-02-29",
    ],
)  # fmt: skip
def test_netflix_says_which_line_is_wrong(tmp_path, bad):
    content = MV["mv_0000001.txt"] + bad.encode() + b"\n"
    with pytest.raises(InputError, match="combined_data_1") as error:
        netflix(netflix_folder(tmp_path, ".", {"combined_data_1.txt": content}))
    assert repr(bad) in str(error.value)


def test_netflix_refuses(tmp_path):
    with pytest.raises(MissingDataError, match="no longer offers"):
        netflix()
    with pytest.raises(InputError, match=r"contains no mv_\*\.txt"):
        netflix(tmp_path)
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(InputError, match="neither a folder nor an archive"):
        netflix(tmp_path / "a.doc")
    (tmp_path / "mv_1.txt").write_text("6,3,2004-02-29\n")
    with pytest.raises(InputError, match="names a film"):
        netflix(tmp_path / "mv_1.txt")
