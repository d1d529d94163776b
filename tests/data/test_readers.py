"""Files of every format give the same observations."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reader_files import FORMATS, archive, complaint, lines, npz, pack, parquet, read, write
from scipy import sparse

from accams.data.observations import Observations
from accams.errors import MissingDataError

# -- every format, plain and packed -------------------------------------------------------------------------


@pytest.mark.some(10)
@pytest.mark.parametrize("how", ["plain", "gz", "zip"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path: Path, name: str, how: str) -> None:
    obs = Observations.from_file(pack(FORMATS[name](), name, how, tmp_path))
    assert obs.row_index.ids.tolist() == [3, 5, 7]
    assert obs.col_index.ids.tolist() == [10, 20, 30]
    assert obs.row_index.ids.dtype == np.int64
    assert obs.pairs().tolist() == [[3, 10], [5, 20], [7, 10], [7, 30]]
    assert obs.values.tolist() == [3.0, 1.0, 0.0, 4.5]
    assert obs.times is not None
    assert obs.times.tolist() == [978300761, 978300763, 978300762, 978300760]
    assert obs.times.dtype == np.int64


@pytest.mark.parametrize("how", ["plain", "gz", "zip"])
@pytest.mark.parametrize("kind", ["sparse.npz", "dense.npz", "dense.npy"])
def test_matrices(tmp_path: Path, kind: str, how: str) -> None:
    matrix = np.array([[np.nan, 1.0, 0.0], [2.5, np.nan, np.nan]])
    out = io.BytesIO()
    if kind == "sparse.npz":
        i, j = np.nonzero(~np.isnan(matrix))
        sparse.save_npz(out, sparse.csr_array((matrix[i, j], (i, j)), shape=matrix.shape))
    else:
        (np.savez if kind == "dense.npz" else np.save)(out, matrix)  # type: ignore[operator]
    obs = Observations.from_file(pack(out.getvalue(), kind, how, tmp_path))
    assert obs.shape == (2, 3)
    assert obs.pairs().tolist() == [[0, 1], [0, 2], [1, 0]]
    assert obs.values.tolist() == [1.0, 0.0, 2.5]


def test_the_format_is_told_by_the_content(tmp_path: Path) -> None:
    for content in (gzip.compress(lines(",")), parquet(), gzip.compress(gzip.compress(lines("\t")))):
        assert read(tmp_path, content, "ratings").nnz == 4


def test_a_large_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    cells = rng.choice(5_000 * 3_000, size=n, replace=False)
    users, items = np.divmod(cells, 3_000)
    ratings = rng.integers(1, 11, size=n) / 2
    table = pd.DataFrame({"user": users * 7 + 1, "item": [f"tt{j:07d}" for j in items], "rating": ratings})
    table.to_csv(tmp_path / "ratings.csv", index=False)
    obs, expected = Observations.from_file(tmp_path / "ratings.csv"), Observations.from_frame(table)
    assert obs.row_index == expected.row_index
    assert obs.col_index == expected.col_index
    np.testing.assert_array_equal(obs.row_starts, expected.row_starts)
    np.testing.assert_array_equal(obs.cols, expected.cols)
    np.testing.assert_array_equal(obs.stored_values, expected.stored_values)
    text = (tmp_path / "ratings.csv").read_text().splitlines()
    text[150_000] = text[150_000].rsplit(",", 1)[0] + ",five"
    assert "ratings.csv line 150001: rating 'five' is not" in complaint(write(tmp_path, "\n".join(text)))


CELL = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)


@given(entries=st.dictionaries(st.tuples(CELL, CELL), st.floats(-1e6, 1e6), min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_of_any_text_is_read_as_it_was_written(tmp_path: Path, entries: dict[tuple[str, str], float]) -> None:
    table = pd.DataFrame([(*pair, value) for pair, value in entries.items()], columns=["user", "item", "rating"])
    table.to_csv(tmp_path / "ratings.csv", index=False)
    obs = Observations.from_file(tmp_path / "ratings.csv")
    found = {(str(u), str(i)): x for (u, i), x in zip(obs.pairs().tolist(), obs.values, strict=True)}
    assert found.keys() == entries.keys()
    for pair, value in entries.items():
        assert found[pair] == pytest.approx(value, abs=1e-5, rel=1e-6)


# -- ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["2", "10", "-3"], [-3, 2, 10]),
        (["2", "10", "x"], ["10", "2", "x"]),
        (["007", "10", "2"], ["007", "10", "2"]),
        (["1.0", "2", "3"], ["1.0", "2", "3"]),
        (["1e3", "2", "3"], ["1e3", "2", "3"]),
        (["+1", "2", "3"], ["+1", "2", "3"]),
        ([" 5", "6 ", "7"], [5, 6, 7]),
        (["9223372036854775807", "0", "1"], [0, 1, 2**63 - 1]),
        (["9223372036854775808", "0", "1"], ["0", "1", "9223372036854775808"]),
        (["3000000000", "-3000000000", "1"], [-3_000_000_000, 1, 3_000_000_000]),
        (["NA", "null", "nan"], ["NA", "nan", "null"]),
        (["é", "日本", "z"], ["z", "é", "日本"]),
        (['"a,b"', '"say ""hi"""', "'c"], ["'c", "a,b", 'say "hi"']),
        (['"two\nlines"', "a", "b"], ["a", "b", "two\nlines"]),
        (["#tag", "a", "b"], ["#tag", "a", "b"]),
    ],
)
def test_ids_stay_what_they_are(tmp_path: Path, cells: list[str], ids: list[Any]) -> None:
    text = "user,item,rating\n" + "".join(f"{cell},x{k},{k + 1}\n" for k, cell in enumerate(cells))
    obs = read(tmp_path, text)
    assert obs.row_index.ids.tolist() == ids
    assert obs.nnz == 3


def test_zero_padded_ids_far_below_whole_numbers(tmp_path: Path) -> None:
    text = "user,item,rating\n" + "".join(f"{k},a,1\n" for k in range(1, 50_000)) + "007,a,2\n"
    obs = read(tmp_path, text)
    assert len(obs.row_index) == 50_000
    assert obs.row_index.positions(["7", "007"]).min() >= 0


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (np.array([7, 3], dtype=np.int8), [3, 7]),
        (np.array([7, 3], dtype=np.uint64), [3, 7]),
        (np.array([2**63 + 1, 3], dtype=np.uint64), ["3", str(2**63 + 1)]),
        (np.array([7.0, 3.0]), [3, 7]),
        (np.array([7.5, 3.0]), ["3", "7.5"]),
        (["7", "3"], ["3", "7"]),
        ([dt.date(2020, 1, 2), dt.date(2020, 1, 1)], ["2020-01-01", "2020-01-02"]),
        (pd.Categorical(["b", "a"]), ["a", "b"]),
    ],
)
def test_ids_in_parquet_have_its_types(tmp_path: Path, column: Any, ids: list[Any]) -> None:
    pd.DataFrame({"user": column, "item": [1, 2], "rating": [1.0, 2.0]}).to_parquet(tmp_path / "r.parquet")
    obs = Observations.from_file(tmp_path / "r.parquet")
    assert obs.row_index.ids.tolist() == ids
    assert obs.row_index.ids.dtype == (np.int64 if isinstance(ids[0], int) else object)


# -- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "ann,x,5\nbob,y,3\n",
        "who,what,grade\nann,x,5\nbob,y,3\n",
        "user,item,rating\nann,x,5\nbob,y,3\n",
        "\n\nuser,item,rating\n\nann,x,5\n\nbob,y,3\n\n",
        "# made by hand\n#\nuser,item,rating\nann,x,5\nbob,y,3\n",
        "\ufeffuser,item,rating\nann,x,5\nbob,y,3\n",
        "user,item,rating\r\nann,x,5\r\nbob,y,3\r\n",
        "user,item,rating\rann,x,5\rbob,y,3\r",
        "user,item,rating\r\nann,x,5\nbob,y,3\r\n",
        "user,item,rating\r\r\nann,x,5\r\r\nbob,y,3\r\r\n",
        "user,item,rating\nann,x,5\nbob,y,3",
        "user, item, rating\nann, x, 5\nbob, y, 3\n",
        '"user","item","rating"\n"ann","x","5"\n"bob","y","3"\n',
        ',user,item,rating\n0,ann,x,5\n1,bob,y,3\n',
        "rating,item,user\n5,x,ann\n3,y,bob\n",
        "user,item,rating,review\nann,x,5,\"Good, \nvery good\"\nbob,y,3,\n",
        "% bip weighted\nann x 5\nbob y 3\n",
        "  ann   x 5  \n\tbob\ty   3\n \n",
        "ann;x;5\nbob;y;3\n",
        "ann::x::5\nbob::y::3\n",
    ],
)  # fmt: skip
def test_layouts(tmp_path: Path, text: str) -> None:
    names = {"row": "who", "col": "what", "value": "grade"} if text.startswith("who") else {}
    obs = read(tmp_path, text, "ratings.txt", **names)
    assert obs.pairs().tolist() == [["ann", "x"], ["bob", "y"]]
    assert obs.values.tolist() == [5.0, 3.0]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    obs = read(tmp_path, f"{mark}user,item,rating\nJosé,é,5\n".encode(encoding))
    assert obs.pairs().tolist() == [["José", "é"]]


def test_latin_1_far_below_plain_text(tmp_path: Path) -> None:
    text = "".join(f"{k}::{k + 1}::3\n" for k in range(20_000)) + "1::Amélie::4\n"
    obs = read(tmp_path, text.encode("latin-1"), "ratings.dat")
    assert obs.col_index.positions(["Amélie", "7"]).min() >= 0


def test_named_columns(tmp_path: Path) -> None:
    text = "a,b,c,d,e\n1,2,3,0.5,2001-02-03\n4,5,6,2.0,2001-02-04\n"
    obs = read(tmp_path, text, row="b", col="a", value="c", weight="d", time="e")
    assert obs.pairs().tolist() == [[2, 1], [5, 4]]
    assert obs.weights is not None
    assert obs.weights.tolist() == [0.5, 2.0]
    assert obs.times is not None
    assert obs.times.tolist() == [dt.datetime(2001, 2, 3), dt.datetime(2001, 2, 4)]


@pytest.mark.parametrize(
    ("cells", "times"),
    [
        (["3", "1"], np.array([3, 1])),
        (["1.5", "1"], np.array([1.5, 1.0])),
        (["1700000000000000001", "1"], np.array([1700000000000000001, 1])),
        (["3", ""], np.array([3.0, np.nan])),
        (["2001-02-03 04:05:06", "2001-02-03T04:05:07Z"], ["2001-02-03T04:05:06", "2001-02-03T04:05:07"]),
        (["2001-02-03 04:05:06+02", ""], ["2001-02-03T02:05:06", "NaT"]),
        (["", ""], None),
        (["yesterday", "today"], None),
        (["3", "today"], None),
    ],
)
def test_times(tmp_path: Path, cells: list[str], times: Any) -> None:
    obs = read(tmp_path, "user,item,rating,time\n" + "".join(f"{k},1,1,{c}\n" for k, c in enumerate(cells)))
    if times is None:
        assert obs.times is None
        return
    times = np.array(times, dtype="M8[us]") if isinstance(times, list) else times
    assert obs.times is not None
    assert obs.times.dtype == times.dtype
    np.testing.assert_array_equal(obs.times, times)


def test_times_in_parquet(tmp_path: Path) -> None:
    stamps = pd.to_datetime(["2001-02-03 12:00", "2001-02-04 12:00"])
    for column in (stamps, stamps.tz_localize("Europe/Rome"), stamps.astype("M8[ns]"), stamps.astype(str)):
        table = pd.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [1, 2], "date": column})
        table.to_parquet(tmp_path / "r.parquet")
        times = Observations.from_file(tmp_path / "r.parquet").times
        assert times is not None
        assert times.astype("M8[D]").astype(object).tolist() == [dt.date(2001, 2, 3), dt.date(2001, 2, 4)]


def test_duplicates_are_taken_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "user,item,rating\n" + "".join(f"a,b{k % 7},{k}\n" for k in range(50_000))
    obs = read(tmp_path, text, duplicates="last")
    assert obs.values.tolist() == [max(k for k in range(50_000 - 7, 50_000) if k % 7 == r) for r in range(7)]
    assert read(tmp_path, text, duplicates="mean").nnz == 7
    assert "row 'a' and column 'b0' occur together more than once" in complaint(
        write(tmp_path, text), duplicates="error"
    )


def test_pairs_alone(tmp_path: Path) -> None:
    snap = "# Undirected graph\n# FromNodeId\tToNodeId\n0\t1\n0\t2\n5\t1\n"
    obs = read(tmp_path, snap, "graph.txt", zeros="observed", zero_weight=0.1)
    assert obs.pairs().tolist() == [[0, 1], [0, 2], [5, 1]]
    assert obs.values.tolist() == [1.0, 1.0, 1.0]
    assert obs.blank_weight == 0.1
    with_header = read(tmp_path, "user,item\n1,2\n", zeros="observed")
    assert with_header.values.tolist() == [1.0]
    counted = read(tmp_path, "user,artist,plays\n1,2,40\n", zeros="observed")
    assert counted.values.tolist() == [40.0]
    assert "two columns and no ratings" in complaint(write(tmp_path, snap, "graph.txt"))
    assert "which column holds the values" in complaint(write(tmp_path, "user,item\n1,2\n"))


def test_names_that_duckdb_would_take_for_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "a [b]*?'x"
    folder.mkdir()
    write(folder, "user,item,rating\n1,1,1\n", "rat'ings1.csv")
    assert read(folder, lines(","), "rat'ings[1].csv").nnz == 4
    assert read(folder, lines(","), "rat*.csv").nnz == 4
    assert read(folder, parquet(), "r*.parquet").nnz == 4


def test_home_and_text_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, lines(","))
    assert Observations.from_file("~/ratings.csv").nnz == 4
    monkeypatch.chdir(tmp_path)
    assert Observations.from_file("ratings.csv").nnz == 4


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.chdir(tmp_path)
    path = pack(lines(","), "ratings.csv", "zip", tmp_path)
    Observations.from_file(path)
    complaint(pack(b"1,2,x\n3,4,5\n", "ratings.csv", "zip", tmp_path))
    assert list(scratch.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive.zip", "scratch"]


# -- archives -----------------------------------------------------------------------------------------------


def test_the_ratings_are_found_in_an_archive(tmp_path: Path) -> None:
    other = b"movieId,title\n1,Alien\n"
    for ratings in ("ml/ratings.csv", "ml/Ratings.csv.gz", "ml/u.data"):
        content = gzip.compress(lines(",")) if ratings.endswith(".gz") else lines(",")
        path = archive(tmp_path, {"ml/movies.csv": other, ratings: content, "ml/u.item": b"1|Alien\n"})
        assert Observations.from_file(path).nnz == 4


def test_a_member_is_chosen_by_its_path(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ml/u1.data": lines(","), "ml/u2.data": lines("\t"), "ml/sub/r.npz": npz(x=np.eye(3))})
    assert Observations.from_file(path / "ml/u2.data").nnz == 4
    assert Observations.from_file(f"{path}/ml/sub/r.npz").nnz == 9
    with pytest.raises(MissingDataError, match=r"data.zip/ml/u3.data.*did you mean .*'ml/u2.data'"):
        Observations.from_file(path / "ml/u3.data")
    with pytest.raises(MissingDataError, match=r"data.zip/zzz.*it holds 'ml/u1.data'"):
        Observations.from_file(path / "zzz")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"a.csv": b"x", "b.csv": b"x"},
            "cannot tell which member of data.zip holds the ratings: 'a.csv', 'b.csv'",
        ),
        ({"x/ratings.csv": b"x", "y/ratings.csv": b"x"}, "pass a path such as 'data.zip/x/ratings.csv'"),
        ({"README": b"x", "cat.png": b"x"}, "holds no data file .*, only 'README', 'cat.png'"),
        ({}, "it looks like an empty .zip archive"),
        ({"folder/": b""}, "data.zip is an empty archive"),
        ({"[Content_Types].xml": b"x", "xl/a.csv": b"1"}, "Office document; save the sheet as CSV"),
    ],
)
def test_archives_without_obvious_ratings(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    assert re.search(message, complaint(archive(tmp_path, members)))


def test_errors_in_archives_name_the_member(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ml/ratings.csv": b"user,item,rating\n1,2,five\n"})
    assert "data.zip/ml/ratings.csv line 2: rating 'five' is not a number" in complaint(path)
