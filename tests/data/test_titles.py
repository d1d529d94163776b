"""Titles of ids."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from accams import InputError
from accams.data.ids import Index
from accams.data.titles import read_titles, titled
from accams.errors import AccamsError

NUMBERS, TEXTS = Index([1, 2, 7]), Index(["a", "b", "1"])


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("movieId,title,genres\n1,Heat,Crime\n2,\"Fly, The\",Horror\n9,Other,\n", NUMBERS, {1: "Heat", 2: "Fly, The"}),
        ("1::Heat (1995)::Crime|Drama\n2::Am\u00e9lie::Comedy\n", NUMBERS, {1: "Heat (1995)", 2: "Am\u00e9lie"}),
        ("1|Heat|01-Jan-1995||x|0|1\n7|Fly|01-Jan-1996||x|1|1\n", NUMBERS, {1: "Heat", 7: "Fly"}),
        ("year\tname\tid\n1995\tHeat\t7\n2\tFly\t1\n", NUMBERS, {7: "Heat", 1: "Fly"}),
        ("a,Heat\nb,Fly\nz,Other\n", TEXTS, {"a": "Heat", "b": "Fly"}),
        ("id,title\n1,Heat\n2,\n", TEXTS, {"1": "Heat"}),
        ("code,label,number\na,Heat,1\nb,Fly,2\n", TEXTS, {"a": "Heat", "b": "Fly"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_tables_of_titles(text, index, expected, encoding, tmp_path):
    (tmp_path / "movies").write_bytes(text.encode(encoding))
    assert read_titles(tmp_path / "movies", index) == expected


def test_packed_and_parquet(tmp_path):
    with gzip.open(tmp_path / "m.csv.gz", "wt") as file:
        file.write("id,title\n1,Heat\n2,Fly\n")
    pd.DataFrame({"id": [1, 2], "title": ["Heat", "Fly"]}).to_parquet(tmp_path / "m.parquet")
    for name in ("m.csv.gz", "m.parquet"):
        assert read_titles(tmp_path / name, NUMBERS) == {1: "Heat", 2: "Fly"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,title\n100,Heat\n200,Fly\n", "does not match the model: no column has ids such as 1"),
        ("id,year\n1,1995\n2,1996\n", "no text column beside the ids: name the column of titles title"),
        ("", "empty"),
        ("one\ntwo\n", "one cell only"),
    ],
)
def test_what_does_not_match(text, message, tmp_path):
    (tmp_path / "movies.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_titles(tmp_path / "movies.csv", NUMBERS)


def test_no_such_file(tmp_path):
    with pytest.raises(AccamsError, match="there is no file"):
        read_titles(tmp_path / "movies.csv", NUMBERS)


def test_years_are_no_ids(tmp_path):
    index = Index([x for x in range(1, 3000) if x % 3])
    lines = [f"{x},Film {x},{1950 + x % 50}" for x in range(1, 2000, 2)]
    (tmp_path / "m.csv").write_text("movieId,title,year\n" + "\n".join(lines) + "\n")
    assert read_titles(tmp_path / "m.csv", index)[1951] == "Film 1951"


def test_lists_in_parquet_and_numbers_for_text(tmp_path):
    pd.DataFrame({"id": [1, 2], "title": ["Heat", "Fly"], "genres": [["a"], ["b", "c"]]}).to_parquet(tmp_path / "m")
    assert read_titles(tmp_path / "m", Index(["1", "2"])) == {"1": "Heat", "2": "Fly"}


def test_what_is_no_table(tmp_path):
    np.savez(tmp_path / "m.npz", a=np.ones(3))
    with pytest.raises(InputError, match="not a table of titles"):
        read_titles(tmp_path / "m.npz", NUMBERS)
    pd.DataFrame({"id": [1, 2], "title": ["Heat", "Fly"]}).to_parquet(tmp_path / "m.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "m.parquet").read_bytes()[:300] + b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        read_titles(tmp_path / "cut.parquet", NUMBERS)


def test_titled():
    assert list(titled({1: "Heat"}, [1, 2])) == ["Heat", "2"]
