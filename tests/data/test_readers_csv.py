"""Tables of text are read as Python's csv module reads them."""

from __future__ import annotations

import csv
import io
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import complaint, read, write

from accams.data import read_titles
from accams.data.ids import Index
from accams.data.ingest import ingest
from accams.data.observations import Observations

LETTERS = st.sampled_from([*"ab\"', \t;|#:=-é日", "\n", "\r", "\u00a0", "\u2028", "\U0001f600", "1", "\\"])
CELL = st.text(LETTERS, min_size=1, max_size=5).filter(lambda text: text.strip(" \t") != "")
PLAIN = st.text(st.sampled_from(" ab1é'-\u00a0"), min_size=1, max_size=5).filter(lambda text: text.strip(" \t") != "")


def expected(text: str, delimiter: str, has_header: bool) -> dict[tuple[str, str], float]:
    """What Python reads; an integer is the same with and without blanks around it."""
    lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter))
    return {(plain(row), plain(col)): float(value) for row, col, value in lines[has_header:]}


def plain(cell: str) -> str:
    bare = cell.strip(" \t")
    return bare if bare.removeprefix("-").isdecimal() and str(int(bare)) == bare else cell


def found(observations: Observations) -> dict[tuple[str, str], float]:
    pairs = observations.pairs().tolist()
    return {(str(row), str(col)): x for (row, col), x in zip(pairs, observations.values.tolist(), strict=True)}


@st.composite
def tables(draw: st.DrawFn, quoting: int, cell: st.SearchStrategy[str]) -> tuple[str, str, bool]:
    delimiter, end = draw(st.sampled_from([",", ";", "|", "\t"])), draw(st.sampled_from(["\n", "\r\n"]))
    has_header = draw(st.booleans()) or quoting == csv.QUOTE_ALL
    pairs = draw(st.lists(st.tuples(cell, cell), min_size=1, max_size=8, unique_by=lambda x: tuple(map(plain, x))))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    if has_header:
        writer.writerow(["user", "item", "rating"])
    writer.writerows((row, col, n % 5) for n, (row, col) in enumerate(pairs))
    return draw(st.sampled_from(["", "\ufeff"])) + out.getvalue(), delimiter, has_header


@given(table=tables(csv.QUOTE_ALL, CELL))
def test_quoted_cells(table: tuple[str, str, bool], tmp_path_factory: pytest.TempPathFactory) -> None:
    text, delimiter, has_header = table
    assert found(read(tmp_path_factory.mktemp("t"), text)) == expected(text, delimiter, has_header)


@given(table=tables(csv.QUOTE_NONE, PLAIN))
def test_blanks_around_plain_cells(table: tuple[str, str, bool], tmp_path_factory: pytest.TempPathFactory) -> None:
    text, delimiter, has_header = table
    assert found(read(tmp_path_factory.mktemp("t"), text)) == expected(text, delimiter, has_header)


@pytest.mark.parametrize("text", [" a, b ,1\na,b,2\na , b,3\n", '" a"," b ",1\r\na,b,2\na , b,3\r\n'])
def test_ids_that_differ_in_blanks_alone(text: str, tmp_path: Path) -> None:
    text = "user,item,rating\n" + text
    assert found(read(tmp_path, text)) == expected(text, ",", True)
    names = dict.fromkeys(("row", "col", "value", "weight", "time"))
    ingest([write(tmp_path, text)], tmp_path / "store", names)
    assert found(Observations.open(tmp_path / "store")) == expected(text, ",", True)


def test_integers_are_integers_with_blanks_around_them(tmp_path: Path) -> None:
    obs = read(tmp_path, "user,item,rating\n1, 10 ,1\n 2,11,2\n1,11,3\n")
    assert obs.pairs().tolist() == [[1, 10], [1, 11], [2, 11]]


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_blank_after_each_delimiter_is_part_of_it(end: str, tmp_path: Path) -> None:
    """As Python's csv.Sniffer has it; but where some cells begin with a blank, that is part of them."""
    obs = read(tmp_path, f'user, item, rating\nann , x , 5{end}bob, "y, z", 3\n')
    assert found(obs) == {("ann ", "x "): 5.0, ("bob", "y, z"): 3.0}
    assert found(read(tmp_path, "user,item,rating\nann, x, 5\n")) == {("ann", " x"): 5.0}


def test_blanks_outside_of_quotes_do_not_count(tmp_path: Path) -> None:
    obs = read(tmp_path, 'user,item,rating\nann, "x, y",1\nbob,"z" ,2\n')
    assert found(obs) == {("ann", "x, y"): 1.0, ("bob", "z"): 2.0}


def test_nothing_is_lost_after_a_quote(tmp_path: Path) -> None:
    """With mixed line ends, what stands after a closing quote was dropped, so that users became one."""
    text = 'user,item,rating\r\n"a"1,x,1\n"a"2,x,2\r"a"3,x,3\r\n'
    assert found(read(tmp_path, text)) == expected(text, ",", True)
    assert "check its quotes" in complaint(write(tmp_path, 'user,item,rating\n"a"1,x,1\n"a"2,x,2\n'))


@pytest.mark.parametrize("delimiter", ["::", " "])
def test_mixed_line_ends_without_quotes(delimiter: str, tmp_path: Path) -> None:
    lines = [delimiter.join(cells) for cells in (("a", 'x"', "1"), ("b", "y", "2"), ("c", "z", "3"))]
    obs = read(tmp_path, f"{lines[0]}\r\n{lines[1]}\r{lines[2]}\n", "ratings.dat")
    assert found(obs) == {("a", 'x"'): 1.0, ("b", "y"): 2.0, ("c", "z"): 3.0}


def test_blank_cells_are_missing(tmp_path: Path) -> None:
    assert "the item is missing" in complaint(write(tmp_path, "user,item,rating\na,b,1\na,  ,2\n"))


def test_titles_of_ids_with_blanks(tmp_path: Path) -> None:
    path = write(tmp_path, "item,title\n a, One \nb , Two\nc,Three\n", "titles.csv")
    assert read_titles(path, Index([" a", "b", "c"])) == {" a": "One", "b": "Two", "c": "Three"}


def test_names_are_quoted_in_sql(tmp_path: Path) -> None:
    names = ['u"; DROP TABLE x; --', "i' OR 1=1", "$$ r"]
    given: dict[str, str] = dict(zip(("row", "col", "value"), names, strict=True))
    table = pd.DataFrame([["a", "x", 1.0], ["b", "y", 2.0]], columns=names)
    for path in (tmp_path / "it's; --.parquet", tmp_path / "it's '; --.csv"):
        (table.to_parquet if path.suffix == ".parquet" else partial(table.to_csv, index=False))(path)
        assert found(Observations.from_file(path, **given)) == {("a", "x"): 1.0, ("b", "y"): 2.0}
