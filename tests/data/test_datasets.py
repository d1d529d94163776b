"""MovieLens and Jester in their official formats, from local files or downloaded."""

from __future__ import annotations

import gzip
import hashlib
import zipfile

import numpy as np
import pytest
from dataset_files import write_zip

from accams.data.datasets import _ratings, jester, movielens
from accams.errors import InputError, MissingDataError

pytestmark = pytest.mark.usefixtures("no_local_data")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setattr(_ratings, "BASE_URL", "http://127.0.0.1:9/")


# -- MovieLens ----------------------------------------------------------------------------------------------

TAB = "196\t242\t3\t881250949\n186\t302\t3.0\t891717742\n196\t302\t1\t878887116\n".replace("3.0", "3")
DAT = "196::242::3::881250949\n186::302::3::891717742\n196::302::1::878887116\n"
CSV = "userId,movieId,rating,timestamp\n" + DAT.replace("::", ",")
ITEMS = "242|Kolya (1996)|24-Jan-1997||http://x|0|1\n302|Am\u00e9lie\x85 (1997)|01-Jan-1997||http://y|1|0\n"
FILMS = "242::Kolya (1996)::Comedy\n302::Am\u00e9lie\x85 (1997)::Crime|Drama\n"
TABLE = 'movieId,title,genres\n242,Kolya (1996),Comedy\n302,"Am\u00e9lie\x85 (1997)",Crime\n'
LAYOUTS = {
    "100k": {
        "ml-100k/README": "about",
        "ml-100k/u.data": TAB,
        "ml-100k/u.item": ITEMS.encode("latin-1"),
        "ml-100k/u1.base": TAB[:24],
        "ml-100k/u.user": "1|24|M|technician|85711\n",
    },
    "1m": {
        "ml-1m/movies.dat": FILMS.encode("latin-1"),
        "ml-1m/ratings.dat": DAT,
        "ml-1m/users.dat": "1::F::1::10::48067\n",
        "ml-1m/README": "about",
    },
    "10m": {
        "ml-10M100K/movies.dat": FILMS,
        "ml-10M100K/ratings.dat": DAT,
        "ml-10M100K/tags.dat": "15::4973::excellent!::1215184630\n",
    },
} | {
    name: {
        f"ml-{name}/links.csv": "movieId,imdbId,tmdbId\n242,1,2\n",
        f"ml-{name}/movies.csv": TABLE,
        f"ml-{name}/ratings.csv": CSV,
        f"ml-{name}/tags.csv": "userId,movieId,tag,timestamp\n196,242,fun,1\n",
    }
    for name in ("20m", "25m", "32m", "latest-small")
}  # fmt: skip


def assert_films(data, name):
    obs = data.observations
    assert data.name == f"ml-{name}"
    assert obs.shape == (2, 2)
    assert obs.row_index.ids.tolist() == [186, 196]
    assert obs.col_index.ids.tolist() == [242, 302]
    assert obs.values.tolist() == [3, 3, 1]
    assert obs.times.tolist() == [891717742, 881250949, 878887116]
    assert data.titles == {242: "Kolya (1996)", 302: "Am\u00e9lie\x85 (1997)"}
    assert "Harper" in data.citation
    assert "GroupLens" in data.licence


def test_all_editions_are_tested():
    assert set(LAYOUTS) == set(_ratings.EDITIONS)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", LAYOUTS)
def test_movielens_from_the_archive(tmp_path, name):
    write_zip(tmp_path / "some.zip", LAYOUTS[name])
    assert_films(movielens(name, tmp_path / "some.zip"), name)


@pytest.mark.some(4)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("packed", [True, False])
def test_movielens_from_the_data_folder(tmp_path, monkeypatch, name, packed):
    write_zip(tmp_path / f"ml-{name}.zip", LAYOUTS[name])
    if not packed:
        with zipfile.ZipFile(tmp_path / f"ml-{name}.zip") as archive:
            archive.extractall(tmp_path)
        (tmp_path / f"ml-{name}.zip").unlink()
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    assert_films(movielens(name), name)
    assert_films(movielens(name, path=tmp_path), name)


def test_movielens_ratings_alone(tmp_path):
    (tmp_path / "u.data").write_text(TAB)
    data = movielens("100k", tmp_path / "u.data")
    assert data.observations.nnz == 3
    assert data.titles is None


def test_half_stars_are_kept(tmp_path):
    write_zip(tmp_path / "a.zip", {"m/ratings.dat": DAT.replace("::3::", "::3.5::"), "m/movies.dat": FILMS})
    assert movielens("10m", tmp_path / "a.zip").observations.values.tolist() == [3.5, 3.5, 1]


def test_movielens_refuses(tmp_path):
    with pytest.raises(InputError, match="'100k', '1m'"):
        movielens("2m")
    with pytest.raises(MissingDataError, match="there is no"):
        movielens("1m", tmp_path / "nowhere.zip")
    write_zip(tmp_path / "a.zip", {"ml-1m/README": "about"})
    with pytest.raises(InputError, match=r"contains no ratings\.dat"):
        movielens("1m", tmp_path / "a.zip")
    (tmp_path / "b.zip").write_text("not an archive")
    with pytest.raises(InputError, match="not a zip archive"):
        movielens("1m", tmp_path / "b.zip")


# -- downloads ----------------------------------------------------------------------------------------------


def test_download_once_into_the_cache(server, monkeypatch, tmp_path):
    url, site, asked = server
    write_zip(site / "ml-latest-small.zip", LAYOUTS["latest-small"])
    monkeypatch.setattr(_ratings, "BASE_URL", url)
    for _ in range(2):
        assert_films(movielens("latest-small"), "latest-small")
    assert asked == ["/ml-latest-small.zip"]
    assert (tmp_path / "cache" / "ml-latest-small.zip").exists()


def test_a_local_file_is_not_downloaded_nor_checked(server, monkeypatch, tmp_path):
    url, _, asked = server
    monkeypatch.setattr(_ratings, "BASE_URL", url)
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    write_zip(tmp_path / "ml-1m.zip", LAYOUTS["1m"])
    assert_films(movielens("1m"), "1m")
    assert asked == []


def test_what_is_downloaded_is_checked(server, monkeypatch, tmp_path):
    url, site, _ = server
    monkeypatch.setattr(_ratings, "BASE_URL", url)
    write_zip(site / "ml-1m.zip", LAYOUTS["1m"])
    with pytest.raises(MissingDataError, match="does not match"):
        movielens("1m")
    assert not (tmp_path / "cache" / "ml-1m.zip").exists()
    md5 = hashlib.md5((site / "ml-1m.zip").read_bytes()).hexdigest()
    edition = _ratings.Edition(md5, "ratings.dat", "movies.dat", "latin-1")
    monkeypatch.setitem(_ratings.EDITIONS, "1m", edition)
    assert_films(movielens("1m"), "1m")


def test_a_failed_download_says_what_to_do(server, monkeypatch):
    url, _, _ = server
    with pytest.raises(MissingDataError, match=r"127\.0\.0\.1:9/ml-1m\.zip") as none_there:
        movielens("1m")
    assert "$ACCAMS_DATA" in str(none_there.value)
    monkeypatch.setattr(_ratings, "BASE_URL", url)
    with pytest.raises(MissingDataError, match="404"):
        movielens("1m")


def test_checksums_look_like_checksums():
    for name, edition in _ratings.EDITIONS.items():
        assert edition.md5 is None if name == "latest-small" else len(bytes.fromhex(edition.md5)) == 16


# -- Jester -------------------------------------------------------------------------------------------------


def test_jester(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    (tmp_path / "jester5k.csv.gz").write_bytes(gzip.compress(b"user,joke,rating\n4,7,-1.60\n2,9,9.90\n"))
    obs = jester().observations
    assert obs.row_index.ids.tolist() == [2, 4]
    assert obs.col_index.ids.tolist() == [7, 9]
    np.testing.assert_allclose(obs.values, [9.9, -1.6], atol=1e-6)
    write_zip(tmp_path / "jester_dataset_2.zip", {"jester_ratings.dat": "1\t\t5\t\t0.219\n1\t\t7\t\t-9.281\n"})
    obs = jester("2").observations
    assert obs.shape == (1, 2)
    assert obs.col_index.ids.tolist() == [5, 7]
    np.testing.assert_allclose(obs.values, [0.219, -9.281], atol=1e-6)


def test_jester_says_where_to_get_it():
    with pytest.raises(MissingDataError, match=r"jester5k\.csv\.gz was not found.*Excel.*recommenderlab"):
        jester()
