"""Tables of features: what counts as a number, a date, text or missing; ids; files of every kind."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from accams import InputError
from accams.data.features import FeatureTable
from accams.data.ids import Index
from accams.data.tables import id_columns
from accams.model.features import Encoder

DAY = date(2000, 1, 1).toordinal()


def table_of(**columns: Any) -> FeatureTable:
    size = len(next(iter(columns.values())))
    return FeatureTable.of(pd.DataFrame({"item": range(size), **columns}), 1)


def read(folder: Path, text: str, ids: Any = (0, 1, 2), **how: Any) -> FeatureTable:
    (folder / "films.csv").write_text(text, "utf-8")
    return FeatureTable.read(folder / "films.csv", 1, Index(list(ids)), **how)


# -- kinds of cells ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        [date(2000, 1, 1), None, date(2000, 1, 3)], [datetime(2000, 1, 1, 12), None, datetime(2000, 1, 3)],
        ["2000-01-01", None, "2000-01-03"], ["2000-01-01T10:00:00", "", "2000-01-03 11:00"],
        np.array(["2000-01-01", "NaT", "2000-01-03"], "datetime64[ns]"),
        pd.to_datetime(pd.Series(["2000-01-01", None, "2000-01-03"]), utc=True),
        [np.datetime64("2000-01-01"), None, np.datetime64("2000-01-03")],
    ],
)  # fmt: skip
def test_dates(cells: Any) -> None:
    table = table_of(seen=pd.Series(cells))
    np.testing.assert_allclose(table.columns["seen"], [DAY, np.nan, DAY + 2])
    assert table.dates == {"seen"}
    assert Encoder.learned(table).labels == ["seen 2000-01-01", "seen 2000-01-03"]


def test_numbers_and_flags() -> None:
    table = table_of(price=[Decimal("1.5"), None, Decimal(2)], new=[True, None, False], size=pd.array([1, None, 3]))
    assert [x.tolist() for x in table.columns.values() if isinstance(x, np.ndarray)] == [
        [1.5, pytest.approx(np.nan, nan_ok=True), 2.0], [1.0, pytest.approx(np.nan, nan_ok=True), 0.0],
        [1.0, pytest.approx(np.nan, nan_ok=True), 3.0],
    ]  # fmt: skip


def test_categories_are_text_whatever_their_values() -> None:
    codes = np.arange(6) % 3
    for frame in (
        pd.DataFrame({"item": range(6), "job": pd.Categorical(codes)}),
        pl.DataFrame({"item": range(6), "job": pl.Series(["0", "1", "2"] * 2, dtype=pl.Categorical)}),
    ):
        assert FeatureTable.of(frame, 1).columns["job"] == [["0"], ["1"], ["2"]] * 2


def test_lists_in_cells() -> None:
    cells = [["a", None, "b"], [], None]
    for table in (table_of(tags=cells), FeatureTable.of(pa.table({"item": [0, 1, 2], "tags": cells}), 1)):
        assert table.columns["tags"] == [["a", "b"], [], []]
    with pytest.raises(InputError, match="column 'vector' of item_features holds lists of numbers: give each number"):
        table_of(vector=[[0.1, 0.2], [0.3, 0.4]])


# -- what a model makes of them ---------------------------------------------------------------------------------------


def test_labels_of_large_numbers_differ() -> None:
    labels = Encoder.learned(table_of(budget=10_000_000.0 + np.arange(50))).labels
    assert len(set(labels)) == len(labels)


def test_a_value_is_named_as_it_is() -> None:
    years = np.array([1950.0 + p for p in range(60)])
    encoder = Encoder.learned(table_of(year=years, genre=["a", "b"] * 30))
    for year in (1961.0, 1990.0, 2009.0):
        line = encoder.traits(FeatureTable(np.arange(1), {"year": np.array([year])}))[0]
        assert encoder.said(line, int(np.argmax(line))) == f"year {year:g}"
    line = encoder.traits(FeatureTable(np.arange(1), {"genre": [["b"]]}))[0]
    assert encoder.said(line, len(encoder.labels) - 1) == "genre b"


def test_values_that_were_never_seen_are_as_missing_ones() -> None:
    encoder = Encoder.learned(table_of(genre=["Drama", "War", "Drama"] * 5))
    new = FeatureTable(np.arange(3), {"genre": [["drama"], ["War", "Noir"], []]})
    assert encoder.shares(new)[1].any(axis=1).tolist() == [False, True, False]
    np.testing.assert_array_equal(encoder.traits(new)[0], 0.0)


def test_what_all_lines_have_beside_others() -> None:
    """A value of every line tells nothing, and does not make those without another one unknown."""
    encoder = Encoder.learned(table_of(kind=["film", "film|short"] * 5))
    shares, known = encoder.shares(table_of(kind=["film", "film|short"]))
    assert known.all()
    np.testing.assert_array_equal(shares, [[1, 0], [1, 1]])
    np.testing.assert_array_equal(encoder.traits(table_of(kind=["film"]))[0, 0], 0.0)


def test_numbers_for_a_column_of_text_and_the_reverse() -> None:
    encoder = Encoder.learned(table_of(zip=["98107-2117", "55455"] * 5, year=[1990.0, 2000.0] * 5))
    told = encoder.shares(FeatureTable(np.arange(1), {"zip": np.array([55455.0]), "year": [["1990"]]}))[0]
    np.testing.assert_array_equal(told, [[1, 0, 1, 0]])
    assert not encoder.shares(FeatureTable(np.arange(1), {"zip": np.array([7.0])}))[1].any()  # one never seen
    names = Encoder.learned(table_of(name=["Ann", "Bob"] * 5, born=["2001-05-31", "1999-01-01"] * 5))
    for what, now in (({"name": 7.0}, "text when the model was fitted, and now holds numbers"),
                      ({"born": 2001}, "dates when the model was fitted, and now holds numbers"),
                      ({"born": "soon"}, "dates when the model was fitted, and now holds text")):  # fmt: skip
        with pytest.raises(InputError, match=f"feature '{next(iter(what))}' held {now}"):
            names.shares(FeatureTable.of_one(what, 1))
    with pytest.raises(InputError, match="feature 'year' held numbers when the model was fitted, and now holds dates"):
        encoder.shares(FeatureTable.of_one({"year": "1961-05-01"}, 1))
    with pytest.raises(InputError, match="column 'born' of item_features holds both dates and numbers"):
        table_of(born=[date(2000, 1, 1), 5])


def test_misspelt_names() -> None:
    encoder = Encoder.learned(table_of(genres=["a", "b"] * 5, year=[1990.0, 2000.0] * 5))
    with pytest.raises(InputError, match="no feature is called 'genre': do you mean 'genres'"):
        encoder.shares(table_of(genre=["a"], year=[1990.0]))
    encoder.shares(table_of(genre=["a"], genres=["a"], title=["x"]))  # no error of typing


def test_rare_values_alone() -> None:
    """Each of four lines of many: standardised, they hardly vary."""
    table = FeatureTable(np.arange(200_000), {"tag": [[f"t{p % 3}"] if p < 12 else [] for p in range(200_000)]})
    assert Encoder.learned(table).components.shape[1] >= 1


def test_wide_tables_have_fewer_traits_a_column() -> None:
    wide = {f"x{p}": np.random.default_rng(p).normal(size=30) for p in range(900)}
    assert len(Encoder.learned(FeatureTable(np.arange(30), wide)).labels) == 1800


# -- files ------------------------------------------------------------------------------------------------------------


def test_missing_cells_of_text(tmp_path: Path) -> None:
    table = read(tmp_path, "item,year,born,new,genre\n0,1990,1999-12-31,true,A\n1,NA,,FALSE,null\n2,\\N,nan,NULL,B|A\n")
    np.testing.assert_array_equal(table.columns["year"], [1990.0, np.nan, np.nan])
    np.testing.assert_array_equal(table.columns["born"], [DAY - 1, np.nan, np.nan])
    np.testing.assert_array_equal(table.columns["new"], [1.0, 0.0, np.nan])
    assert table.columns["genre"] == [["A"], [], ["B", "A"]]


def test_columns_that_a_model_knows_as_text(tmp_path: Path) -> None:
    text = "item,zip\n0,01234\n1,55455\n2,\n"
    assert isinstance(read(tmp_path, text).columns["zip"], np.ndarray)
    assert read(tmp_path, text, kinds={"zip": False}).columns["zip"] == [["01234"], ["55455"], []]


def test_types_of_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"item": [0, 1], "day": [date(2000, 1, 1), None], "tags": [["a", "b"], None], "new": [True, False]}
    )
    frame.write_parquet(tmp_path / "films.parquet")
    table = FeatureTable.read(tmp_path / "films.parquet", 1, Index([0, 1]))
    np.testing.assert_array_equal(table.columns["day"], [DAY, np.nan])
    assert table.columns["tags"] == [["a", "b"], []]
    np.testing.assert_array_equal(table.columns["new"], [1.0, 0.0])


def test_parquet_of_other_types(tmp_path: Path) -> None:
    """Ids that became floats where some were missing, times with a zone, and types that Python does not have."""
    frame = pd.DataFrame({"movieId": [0.0, 1.0, 2000.0], "year": [2, 1, 0]})
    frame["seen"] = pd.to_datetime(["2000-01-01", None, "2000-01-03"], utc=True)
    frame["at"] = pd.to_timedelta([1, 2, 3], unit="h")
    frame["box"] = [{"a": 1}, {"a": 2}, {"a": 1}]
    frame.to_parquet(tmp_path / "films.parquet")
    table = FeatureTable.read(tmp_path / "films.parquet", 1, Index([0, 1, 2]))
    assert table.ids.tolist() == [0, 1, 2000]
    np.testing.assert_array_equal(table.columns["seen"], [DAY, np.nan, DAY + 2])


def test_which_column_has_the_ids(tmp_path: Path) -> None:
    """The one called as in the ratings; else one of a usual name with ids of the ratings; else the best match."""
    text = "film,genres,id\n0,a,7\n1,b,8\n2,a,0\n"
    assert read(tmp_path, text, name="film").ids.tolist() == [0, 1, 2]
    assert read(tmp_path, "code,title,genres\n0,Heat,a\n1,Alien,b\n").ids.tolist() == [0, 1]
    assert read(tmp_path, "code,movieId,genres\n0,70,a\n1,71,b\n").ids.tolist() == [0, 1]


def test_columns_of_a_table_of_ratings(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("user,film,rating\n1,2,3\n", "utf-8")
    assert id_columns(path, None, None) == ("user", "film")
    pd.read_csv(path).to_parquet(tmp_path / "r.parquet")
    assert id_columns(tmp_path / "r.parquet", None, None) == ("user", "film")
    path.write_text("1,2,3\n4,5,6\n", "utf-8")
    assert id_columns(path, None, None) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,title,genre\n0,Heat,a\n1,Film, The,b\n", "films.csv line 3 has 4 cells where 3 are expected"),
        ("item,genre\n0,a\n,b\n", "films.csv has a line without an id in column 'item' .line 2 below the header"),
        ("item,genre,genre\n0,a,b\n1,c,d\n", "films.csv has two columns called 'genre'"),
        ("item,genre\n", "films.csv has a header line and no data"),
        ("item,genre\n0,a\n0,b\n", "films.csv has several lines for 0"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_integers_where_all_ids_are_text() -> None:
    index = Index(["7", "9"])
    table = FeatureTable.of(pd.DataFrame({"item": [7, 8], "year": [1, 2]}), 1).named_as(index, 1)
    assert table.ids.tolist() == ["7", "8"]
    with pytest.raises(InputError, match="ids must be numbers or text"):
        FeatureTable.of(pd.DataFrame({"item": [{}, {}], "year": [1, 2]}), 1)
