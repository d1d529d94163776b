"""Ids of any type are mapped to positions and back."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accams import ACCAMS, Observations
from accams.data.ids import Index, as_id_array, example
from accams.errors import InputError

DAY = dt.date(2020, 1, 1)
NOON = dt.datetime(2020, 1, 1, 12)


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        ([3, 1, 3, 2], [1, 2, 3]),
        ([-5, 10**12, -5], [-5, 10**12]),
        (["b", "a", "b"], ["a", "b"]),
        (("b", "a"), ["a", "b"]),
        (["10", "9", "007"], ["007", "10", "9"]),
        (["é", "z", "日本"], ["z", "é", "日本"]),
        ([1.5, 0.5, 1.5], [0.5, 1.5]),
        ([3.0, 1.0], [1, 3]),
        ([True, False], [0, 1]),
        ([b"y", b"x"], [b"x", b"y"]),
        ([DAY, dt.date(2019, 1, 1)], [dt.date(2019, 1, 1), DAY]),
        ([NOON, dt.datetime(2019, 1, 1)], [dt.datetime(2019, 1, 1), NOON]),
        ([2**70, 5, -(2**70)], [-(2**70), 5, 2**70]),
        ([2**63 + 5, 3], [3, 2**63 + 5]),
        ([1e300, 2.0], [2.0, 1e300]),
        ([2, "a", 2, DAY], [2, "a", DAY]),  # not comparable: in order of appearance
    ],
)
def test_distinct_ids_are_sorted_and_every_entry_finds_its_own(raw: Any, ids: list[Any]) -> None:
    index, positions = Index.of(raw)
    assert index.ids.tolist() == ids
    assert [index.ids.tolist()[p] for p in positions] == list(raw)
    assert index.positions(raw).tolist() == positions.tolist()
    assert positions.dtype == np.int64


@pytest.mark.parametrize(
    "series",
    [
        np.array(["b", "a"]),
        np.array(["b", "a"], dtype=np.dtypes.StringDType()),
        pd.Series(["b", "a"]),
        pd.Series(["b", "a"], dtype="category"),
        pl.Series(["b", "a"]),
        pl.Series(["b", "a"], dtype=pl.Categorical),
    ],
    ids=["numpy", "numpy string", "pandas", "pandas category", "polars", "polars category"],
)
def test_text_of_any_library(series: Any) -> None:
    index, positions = Index.of(series)
    assert index.ids.dtype == object
    assert (index.ids.tolist(), positions.tolist()) == (["a", "b"], [1, 0])
    assert index.positions(series).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float32])
def test_whole_numbers_of_any_type_become_int64(dtype: Any) -> None:
    index, positions = Index.of(np.array([7, 5, 7], dtype=dtype))
    assert index.ids.dtype == np.int64
    assert index.positions(np.array([5, 6, 7], dtype=dtype)).tolist() == [0, -1, 1]
    assert positions.tolist() == [1, 0, 1]


def test_large_ids_are_told_apart_whatever_the_type_of_the_question() -> None:
    near = [2**60, 2**60 + 1, 5]
    index, _ = Index.of(near)
    assert index.positions(np.array(near, dtype=np.uint64)).tolist() == [1, 2, 0]
    assert index.positions(np.array([*near, "x"], dtype=object)).tolist() == [1, 2, 0, -1]
    huge, _ = Index.of(np.array([2**63 + 1, 2**63], dtype=np.uint64))
    assert huge.ids.tolist() == [2**63, 2**63 + 1]
    assert huge.positions(np.array([2**63, 2**63 + 1, 3], dtype=np.uint64)).tolist() == [0, 1, -1]


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_numpy_dates(unit: str) -> None:
    raw = np.array(["2020-01-02", "2020-01-01"], dtype=f"M8[{unit}]")
    index, positions = Index.of(raw)
    assert positions.tolist() == [1, 0]
    assert index.positions(raw).tolist() == [1, 0]
    assert isinstance(index.ids[0], dt.date)
    with pytest.raises(InputError, match="entry 1: the id is missing"):
        as_id_array(np.array(["2020-01-02", "NaT"], dtype=f"M8[{unit}]"))


@pytest.mark.parametrize(
    "raw",
    [
        [0, None],
        ["a", None],
        [1.0, float("nan")],
        [1.0, float("inf")],
        pd.Series([1, None], dtype="Int64"),
        np.array([1, pd.NA], dtype=object),
        np.array(["a", pd.NaT], dtype=object),
        ["a", float("nan")],
    ],
)
def test_missing_ids_are_refused_with_their_place(raw: Any) -> None:
    with pytest.raises(InputError, match="entry 1: the user is missing"):
        as_id_array(raw, "user")


def test_ids_form_one_column() -> None:
    with pytest.raises(InputError, match=r"users must be one-dimensional, but the array has shape \(2, 2\)"):
        as_id_array([[1, 2], [3, 4]], "user")


def test_unknown_ids_and_ids_of_another_type() -> None:
    whole, text = Index([10, 20]), Index(["a", "10"])
    assert whole.positions([20, 30, 10]).tolist() == [1, -1, 0]
    assert whole.positions(["10", "x"]).tolist() == [-1, -1]
    assert whole.positions(np.array(["10", "x"])).tolist() == [-1, -1]
    assert whole.positions([10.0, 10.5, np.nan]).tolist() == [0, -1, -1]
    assert whole.positions([None, 20]).tolist() == [-1, 1]
    assert text.positions([10, "10", None]).tolist() == [-1, 1, -1]


def test_a_single_id() -> None:
    assert Index([10, 20]).positions(20).tolist() == [1]
    assert Index(["ann", "bob"]).positions("bob").tolist() == [1]


def test_ids_keep_the_order_they_are_given_in() -> None:
    index = Index([30, 10, 20])
    assert index.ids.tolist() == [30, 10, 20]
    assert index.positions([10, 20, 30]).tolist() == [1, 2, 0]
    assert not index.is_positional


def test_positions_as_ids() -> None:
    index = Index(None, 3)
    assert index.is_positional
    assert index.ids.tolist() == [0, 1, 2]
    assert index.positions([0, 2, 3, -1]).tolist() == [0, 2, -1, -1]
    assert index.positions([0.0, 0.5]).tolist() == [0, -1]
    assert index.positions([1, "a"]).tolist() == [1, -1]
    assert index == Index([0, 1, 2])
    with pytest.raises(TypeError, match="needs ids or a size"):
        Index(None)


def test_equality_and_words() -> None:
    assert Index(["a"]) == Index(["a"])
    assert Index(["a"]) != Index(["b"])
    assert Index(["a"]) != Index([1])
    assert Index(["a"]) != Index(["a", "b"])
    assert Index(["a"]) != "a"
    assert repr(Index(["a", "b"])) == "Index(2 ids, 'a' ...)"
    assert repr(Index(None, 2)) == "Index(2 ids)"
    assert example(np.array([], dtype=np.int64)) == "none"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Index(["a"]))


def test_no_ids() -> None:
    index, positions = Index.of([])
    assert (len(index), len(positions)) == (0, 0)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers_against_numpy(raw: list[int]) -> None:
    index, positions = Index.of(raw)
    ids, inverse = np.unique(np.array(raw, dtype=np.int64), return_inverse=True)
    np.testing.assert_array_equal(index.ids, ids)
    np.testing.assert_array_equal(positions, inverse)
    np.testing.assert_array_equal(index.positions(raw), inverse)


@given(st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=2), st.sampled_from([0.5, 1.5]), st.dates())))
def test_any_mixture_round_trips(raw: list[Any]) -> None:
    index, positions = Index.of(raw)
    assert [index.ids.tolist()[p] for p in positions] == raw
    assert index.positions(raw).tolist() == positions.tolist()
    assert len(set(index.ids.tolist())) == len(index)


def test_text_is_read_when_it_is_needed(tmp_path: Path) -> None:
    """Fitting does not read them."""
    cells = np.random.default_rng(0).choice(40 * 25, 300, replace=False)
    right = Observations.from_coo(
        cells // 25, cells % 25, cells % 5, row_index=Index([f"user {x}é" for x in range(40)])
    )
    right.to_store(tmp_path / "s")
    found = Observations.open(tmp_path / "s")
    assert not found.row_index.is_positional
    assert len(found.row_index) == len(right.row_index)
    ACCAMS(2, 2, engine="disk", verbose=False).fit(found)
    assert "ids" not in vars(found.row_index)
    assert found.row_index == right.row_index
    some = right.row_index.ids[3:7]
    assert found.row_index.positions(some).tolist() == [3, 4, 5, 6]
    assert pickle.loads(pickle.dumps(found.row_index)) == right.row_index
    assert repr(found.row_index) == repr(right.row_index)


def test_an_integer_and_its_text_are_found_alike():
    assert Index([3, 7]).find(np.array(["7", "x"])).tolist() == [1, -1]
