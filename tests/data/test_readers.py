"""Files of every format give the same observations, and a bad file is told what and where."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from accams.data.observations import Observations
from accams.data.readers import read_pairs
from accams.errors import InputError, MissingDataError

ROWS = [(7, 30, 4.5, 978300760), (3, 10, 3.0, 978300761), (7, 10, 0.0, 978300762), (5, 20, 1.0, 978300763)]
HEADER = ("userId", "movieId", "rating", "timestamp")


def lines(delimiter: str, header: bool = True) -> bytes:
    cells = [HEADER, *ROWS] if header else ROWS
    return "".join(delimiter.join(map(str, row)) + "\n" for row in cells).encode()


def parquet() -> bytes:
    out = io.BytesIO()
    pd.DataFrame(ROWS, columns=list(HEADER)).to_parquet(out)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "comma.csv": lambda: lines(","),
    "tab.tsv": lambda: lines("\t"),
    "colons.dat": lambda: lines("::", header=False),
    "semicolon.csv": lambda: lines(";"),
    "pipe.txt": lambda: lines("|"),
    "u.data": lambda: lines("\t", header=False),
    "blanks.txt": lambda: lines(" ", header=False),
    "runs.txt": lambda: lines("  \t "),
    "ratings.parquet": parquet,
    "ratings.pq": parquet,
    "ratings.npz": lambda: npz(**{n: np.array(c) for n, c in zip(HEADER, zip(*ROWS, strict=True), strict=True)}),
}


def pack(content: bytes, name: str, how: str, folder: Path) -> Path:
    """Write a file as it is, gzipped or zipped."""
    if how == "zip":
        path = folder / "archive.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"ml/{name}", content)
            archive.writestr("ml/README.txt", "what this is")
            archive.writestr("__MACOSX/ml/ratings.csv", "junk")
            archive.writestr("ml/.ratings.csv", "junk")
        return path
    path = folder / (name + (".gz" if how == "gz" else ""))
    path.write_bytes(gzip.compress(content) if how == "gz" else content)
    return path


def write(folder: Path, content: str | bytes, name: str = "ratings.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: str | bytes, name: str = "ratings.csv", **options: Any) -> Observations:
    return Observations.from_file(write(folder, content, name), **options)


def complaint(path: Path, error: type[Exception] = InputError, **options: Any) -> str:
    """What is said about a bad file: one sentence or two on one line, with the name of the file."""
    with pytest.raises(error) as caught:
        Observations.from_file(path, **options)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return message


# -- every format, plain and packed -------------------------------------------------------------------------


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
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# -- layouts ------------------------------------------------------------------------------------------------


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
    assert "row 'a' and column 'b0' come together more than once" in complaint(write(tmp_path, text))


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


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "data.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


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
        ({"x/ratings.csv": b"x", "y/ratings.csv": b"x"}, "name it, as in 'data.zip/x/ratings.csv'"),
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


# -- bad files ----------------------------------------------------------------------------------------------


def test_missing_files(tmp_path: Path) -> None:
    write(tmp_path, lines(","))
    message = complaint(tmp_path / "rating.csv", MissingDataError)
    assert message.endswith("there is no file " + str(tmp_path / "rating.csv") + "; did you mean 'ratings.csv'?")
    assert "did you mean 'ratings.csv'?" in complaint(tmp_path / "RATINGS.CSV", MissingDataError)
    assert complaint(tmp_path / "zzz.parquet", MissingDataError).endswith("; check the path")
    assert "there is no folder" in complaint(tmp_path / "nowhere" / "ratings.csv", MissingDataError)
    assert "is a file, not a folder" in complaint(tmp_path / "ratings.csv" / "x", MissingDataError)


def test_folders(tmp_path: Path) -> None:
    write(tmp_path, lines(","))
    assert "is a folder; name a file in it: 'ratings.csv'" in complaint(tmp_path)


HEAD = "user,item,rating\n"
FIVE = "".join(f"{k},a,5\n" for k in range(16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ratings.csv is empty"),
        ("\n\n# nothing\n", "ratings.csv has no data"),
        (HEAD, "ratings.csv has a header line and no data"),
        (HEAD + "\n\n", "ratings.csv has a header line and no data"),
        (HEAD + FIVE + "99,b,five\n", "ratings.csv line 18: rating 'five' is not a number"),
        (FIVE + "99,b,five\n", "ratings.csv line 17: value 'five' is not a number"),
        ("1,2,five\n3,4,5\n", "ratings.csv line 1: value 'five' is not a number"),
        ("# x\n\n" + HEAD + "1,2,3\n\n4,5,six\n", "csv line 6: rating 'six' is not a number"),
        (HEAD + '1,"a\nb",3\n2,"c\n\nd",x\n', "ratings.csv line 4: rating 'x' is not a number"),
        (HEAD.replace(",", "::") + "1::2::3\n4::5::six\n", "csv line 3: rating 'six' is not a number"),
        ("# x\n1 2 3\n  4  5  six\n", "ratings.csv line 3: value 'six' is not a number"),
        ("user,item,rating\r\n1,2,3\r\n4,5,six\r\n", "ratings.csv line 3: rating 'six' is not a number"),
        (HEAD + "1,2,3\n4,5,\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,NA\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,nan\n", "ratings.csv line 3: the rating is missing"),
        (HEAD + "1,2,3\n4,5,inf\n", "ratings.csv line 3: rating 'inf' is too large or infinite"),
        (HEAD + "1,2,3\n4,5,1e999\n", "ratings.csv line 3: rating '1e999' is too large"),
        (HEAD + "1,2,3\n4,5,\"3,5\"\n", "ratings.csv line 3: rating '3,5' is not a number"),
        (HEAD + "1,2,5\n4,5,5\u00a0\n", "ratings.csv line 3: rating '5\\xa0' is not a number"),
        (HEAD + "1,2,3\n,5,4\n", "ratings.csv line 3: the user is missing"),
        (HEAD + "1,2,3\n4,  ,4\n", "ratings.csv line 3: the item is missing"),
        (HEAD + "1,2,3\n4,,x\n5,,\n", "ratings.csv line 3: the item is missing"),
        (HEAD + "1,2,3\n4,5\n", "ratings.csv line 3 has 2 cells where 3 are expected"),
        (HEAD + "1,2,3\n4,5,6,7\n", "ratings.csv line 3 has 4 cells where 3 are expected"),
        (HEAD + "1,2,3\n4\n", "ratings.csv line 3 has 1 cell where 3 are expected"),
        ("1 2 3\n4 5\n6 7 8\n", "ratings.csv line 2 has 2 cells where 3 are expected"),
        ("Ratings\n" + HEAD + FIVE, "ratings.csv line 1 has 1 cell where 3 are expected"),
        (HEAD + '1,"a"b,3\n', "ratings.csv line 2 cannot be cut into 3 cells at ','; check its quotes"),
        (HEAD + "1,2," + "9" * 60 + "x\n", "9999...' is not a number"),
        ("hello\nworld\n", "its lines have one cell only"),
        ("a,b,c\n1,2,3\n", "ratings.csv: cannot tell which column holds the rows"),
        ("user,item,rating,rating\n1,2,3,4\n", "there are several columns 'rating'"),
        ("%%MatrixMarket matrix\n2 2 1\n1 1 5\n", "Matrix Market file (read it with scipy.io.mmread"),
        ("<!DOCTYPE html><html>404, not found, x</html>", "it looks like a web page"),
    ],
)  # fmt: skip
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(write(tmp_path, text))


def test_bad_names(tmp_path: Path) -> None:
    path = write(tmp_path, lines(","))
    assert "there is no column 'who'; the columns are 'userId'" in complaint(path, row="who")
    assert "swap them" in complaint(path, row="movieId", col="userId")
    path = write(tmp_path, lines("::", header=False), "r.dat")
    assert "no header line, so its columns are called row, col, value, time" in complaint(path, row="who")


def test_bad_weights_and_times(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item,rating,w,date\n1,2,3,1,2001-02-03\n4,5,6,x,soon\n")
    assert "ratings.csv line 3: w 'x' is not a number" in complaint(path, weight="w")
    assert "ratings.csv line 3: date 'soon' is neither a number nor a time" in complaint(path, time="date")
    assert Observations.from_file(path).times is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a table of text; it looks like a PNG image"),
        (pickle.dumps({"a": 1}), "it looks like a Python pickle"),
        (pickle.dumps([1, 2], protocol=2), "it looks like a Python pickle"),
        (b"1,2,3\n\0\0\0", "it looks like a binary file"),
        (gzip.compress(b"x" * 257 + b"ustar" + b"\0" * 300), "it looks like a tar archive"),
        (gzip.compress(b""), "is empty"),
        (b"\xff\xfe1,2,3\n4", "begins as utf-16 text but is not"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in complaint(write(tmp_path, content))


@pytest.mark.parametrize("name", ["ratings.csv.gz", "ratings.zip", "ratings.parquet", "ratings.npz", "ratings.npy"])
def test_files_cut_off(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{i},{j},{x}\n" for i, j, x in zip(range(5000), range(5000), rng.random(5000), strict=True))
    out = io.BytesIO()
    np.save(out, rng.random((50, 50)))
    archived = archive(tmp_path, {"ratings.csv": text.encode()}).read_bytes()
    whole = {
        "ratings.csv.gz": gzip.compress(text.encode()),
        "ratings.zip": archived,
        "ratings.parquet": parquet(),
        "ratings.npz": npz(x=rng.random((50, 50))),
        "ratings.npy": out.getvalue(),
    }[name]
    for size in (len(whole) // 2, len(whole) - 5, 3):
        if name == "ratings.zip" and size == 3:
            continue
        message = complaint(write(tmp_path, whole[:size], name))
        assert re.search("damaged|cut off|not a table|no table|one cell|binary", message)


def test_a_damaged_member(tmp_path: Path) -> None:
    path = archive(tmp_path, {"ratings.csv": lines(",") * 10})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    assert "damaged or cut off" in complaint(write(tmp_path, bytes(content), "data.zip"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.parquet", b"user,item\n", "is not a Parquet file, or it is damaged"),
        ("r.npz", b"user,item\n", "is not a NumPy file, or it is damaged"),
        ("r.npz", npz(a=np.ones(3)), r"array of shape \(3,\); a matrix has two dimensions"),
        ("r.npz", npz(a=np.ones(3), b=np.ones(3)), "r.npz: cannot tell which column holds the rows"),
        ("r.npz", npz(user=[1, 2], item=[1], rating=[1, 2]), "columns of equal length"),
        ("r.npz", npz(user=[1], item=[1], rating=["x"]), "r.npz: entry 0: rating 'x' is not a number"),
        ("r.npz", npz(x=np.array([[1, "a"]], dtype=object)), "holds Python objects"),
        ("r.npz", npz(format=b"csr", shape=[1, 1]), "is not a matrix that scipy.sparse.save_npz wrote"),
    ],
)
def test_bad_numpy_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    assert re.search(message, complaint(write(tmp_path, content, name)))


def test_arrays_in_npz(tmp_path: Path) -> None:
    entries = {"rows": [0, 2], "cols": [1, 0], "values": [1.5, 2.0]}
    assert read(tmp_path, npz(**entries), "r.npz").pairs().tolist() == [[0, 1], [2, 0]]
    assert read(tmp_path, npz(**entries), "r.npz").shape == (2, 2)
    assert read(tmp_path, npz(**entries, shape=[4, 3]), "r.npz").shape == (4, 3)
    text = npz(user=["b", "a"], item=[7, 7], rating=[1, 2], w=[1, 3], time=np.array(["2001", "2002"], "M8[D]"))
    obs = read(tmp_path, text, "r.npz", weight="w")
    assert (obs.pairs().tolist(), obs.values.tolist()) == ([["a", 7], ["b", 7]], [2.0, 1.0])
    assert obs.times is not None
    assert read(tmp_path, npz(i=[0, 1], j=[1, 0]), "r.npz", zeros="observed").values.tolist() == [1.0, 1.0]


def test_options_that_a_matrix_does_not_take(tmp_path: Path) -> None:
    path = write(tmp_path, npz(x=np.eye(2)), "r.npz")
    assert "no columns to name: leave out row='user'" in complaint(path, row="user")
    assert "every cell but NaN is observed" in complaint(path, zeros="observed")


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("user", [1, None, 2], "r.parquet entry 1: the user is missing"),
        ("item", ["a", "b", None], "r.parquet entry 2: the item is missing"),
        ("rating", [1.0, None, 2.0], "r.parquet entry 1: the rating is missing"),
        ("rating", ["1", "2", "x"], "r.parquet entry 2: rating 'x' is not a number"),
        ("rating", [dt.date(2020, 1, 1)] * 3, "r.parquet entry 0: rating '2020-01-01' is not a number"),
    ],
)
def test_bad_cells_in_parquet(tmp_path: Path, column: str, cells: list[Any], message: str) -> None:
    table = pd.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "c"], "rating": [1.0, 2.0, 3.0], column: cells})
    table.to_parquet(tmp_path / "r.parquet")
    assert message in complaint(tmp_path / "r.parquet")


def test_an_empty_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"user": [], "item": [], "rating": []}).to_parquet(tmp_path / "r.parquet")
    assert "r.parquet has no data" in complaint(tmp_path / "r.parquet")


def test_an_encrypted_member(tmp_path: Path) -> None:
    content = bytearray(archive(tmp_path, {"ratings.csv": lines(",")}).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in complaint(write(tmp_path, bytes(content), "data.zip"))


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "ratings.csv")

    class Full(io.BytesIO):
        def write(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    packed = pack(lines(","), "ratings.csv", "gz", tmp_path)
    with monkeypatch.context() as patch:
        usual = Path.open
        patch.setattr(Path, "open", lambda path, mode="r", **how: Full() if "w" in mode else usual(path, mode, **how))
        assert "cannot be unpacked to" in complaint(packed)
        assert "No space left on device" in complaint(packed)
    monkeypatch.setattr("accams.data.archives._unpack", refuse)
    assert "permission denied" in complaint(write(tmp_path, lines(",")))


def test_a_packed_file_with_a_wrong_checksum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(lines(",")))
    content[-6] ^= 0xFF
    assert "damaged or cut off" in complaint(write(tmp_path, bytes(content), "ratings.csv.gz"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is not a regular file" in complaint(tmp_path / "pipe.csv")


def test_a_quote_that_never_ends(tmp_path: Path) -> None:
    text = HEAD + '1,2,3\n4,"5,6\n' + "7,8,9\n" * 40_000
    assert re.search(r"line 2.*check its quotes", complaint(write(tmp_path, text)))


def test_nothing_of_duckdb_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise duckdb.Error("Strange Error: no idea\nand more lines")

    path = write(tmp_path, HEAD + "1,2,five\n")
    with monkeypatch.context() as patch:
        patch.setattr("accams.data.readers.records", lambda *_: iter(()))  # as if the line could not be found
        assert complaint(path) == "ratings.csv: rating 'five' is not a number"
    monkeypatch.setattr("accams.data.scan.survey", fail)
    assert complaint(path) == "ratings.csv: the file cannot be read as a table: Strange Error: no idea"
    assert "damaged" in complaint(write(tmp_path, parquet(), "r.parquet"))


def test_duckdb_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, accams.data.readers; sys.exit(bool({'duckdb', 'scipy', 'narwhals'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_pairs_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "rating,item,user,time\n,b,9,soon\nx,a,7,\n,b,9,\n")
    rows, cols, names = read_pairs(path)
    assert (rows.tolist(), cols.tolist(), names) == ([9, 7, 9], ["b", "a", "b"], ("user", "item"))
    table = pd.DataFrame({"who": [9, 7], "item": ["b", "a"], "rating": [None, "x"]})
    table.to_parquet(tmp_path / "r.parquet")
    rows, cols, names = read_pairs(tmp_path / "r.parquet", row="who")
    assert (rows.tolist(), cols.tolist(), names) == ([9, 7], ["b", "a"], ("who", "item"))
    assert read_pairs(write(tmp_path, "1 2\n3 4\n", "edges.txt"))[1].tolist() == [2, 4]
    with pytest.raises(InputError, match=r"ratings.csv line 2: the user is missing"):
        read_pairs(write(tmp_path, "user,item\n,5\n"))
    with pytest.raises(InputError, match=r"r.npz: pairs are read from text or Parquet"):
        read_pairs(write(tmp_path, npz(x=np.eye(2)), "r.npz"))
