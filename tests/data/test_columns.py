"""Columns are recognised by common names, or passed by name."""

from __future__ import annotations

import pytest

from accams.data.columns import Columns, recognised
from accams.errors import InputError


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["userId", "movieId", "rating", "timestamp"], ("userId", "movieId", "rating", "timestamp")),
        (["rating", "ITEM_ID", "User-Id"], ("User-Id", "ITEM_ID", "rating", None)),
        (["user", "joke", "rating"], ("user", "joke", "rating", None)),
        (
            ["reviewerID", "asin", "overall", "unixReviewTime"],
            ("reviewerID", "asin", "overall", "unixReviewTime"),
        ),
        (["row", "col", "value"], ("row", "col", "value", None)),
        (["rows", "cols", "values"], ("rows", "cols", "values", None)),
        (["i", "j", "x"], ("i", "j", "x", None)),
        (
            ["title", "movieId", "user", "rating"],
            ("user", "movieId", "rating", None),
        ),  # the more specific name
        (["", "user", "item", "rating"], ("user", "item", "rating", None)),
    ],
)
def test_usual_names(names: list[str], chosen: tuple[str | None, ...]) -> None:
    columns = Columns.choose(names, None, None, None)
    assert (columns.row, columns.col, columns.value, columns.time) == chosen


def test_names_given_come_first() -> None:
    columns = Columns.choose(["user", "item", "rating", "who", "n", "t"], "who", None, "n", "rating", "t")
    assert columns == Columns("who", "item", "n", "rating", "t")
    assert columns.used() == {"row": "who", "col": "item", "value": "n", "weight": "rating", "time": "t"}


def test_weight_is_never_guessed() -> None:
    assert Columns.choose(["user", "item", "rating", "weight"], None, None, None).weight is None


def test_a_column_is_not_used_twice() -> None:
    columns = Columns.choose(["user", "item", "film", "rating"], "item", None, None)
    assert (columns.row, columns.col) == ("item", "film")
    with pytest.raises(InputError, match="column 'user' is passed for two parameters"):
        Columns.choose(["user", "item", "rating"], "user", "user", None)


def test_values_may_be_left_out_where_pairs_are_enough() -> None:
    assert Columns.choose(["user", "item"], None, None, None, need_value=False).value is None
    assert Columns.choose(["user", "item", "plays"], None, None, None, need_value=False).value == "plays"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "c"], r"the rows \(users\); the columns are 'a', 'b', 'c'; pass row=.*, col=.*, value=.* to Obs"),
        (["user", "b", "rating"], r"the columns \(items\).*; pass col='...' to Observations.from_frame"),
        (["user", "item", "c"], r"the values \(ratings\).*; pass value='...' to Observations.from_frame"),
        ([f"c{k}" for k in range(20)], r"'c11', \.\.\."),
    ],
)
def test_unknown_names(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.choose(names, None, None, None)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(InputError, match="there is no column 'User'; the columns are 'user', 'item', 'rating'"):
        Columns.choose(["user", "item", "rating"], "User", None, None)


def test_swapped_columns() -> None:
    with pytest.raises(InputError, match="row='movieId' looks like items and col='userId' like users: swap them"):
        Columns.choose(["userId", "movieId", "rating"], "movieId", "userId", None)


def test_tables_are_told_from_matrices() -> None:
    assert recognised(["userId", "movieId", "rating"])
    assert recognised(["user", "item"])
    assert not recognised(["alien", "brazil", "casablanca"])
    assert not recognised(["user", "rating"])


def test_the_columns_of_movielens_are_recognised():
    columns = Columns.choose(["userId", "movieId", "rating", "timestamp"], None, None, None)
    assert columns == Columns(row="userId", col="movieId", value="rating", weight=None, time="timestamp")
