"""The committed pages of the full run: rivals reach what was published of them, and the docs quote what pages say."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import mean, median

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with (DOCS / "paper" / "table.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def found(rows: list[dict[str, str]], method: str, setting: str, column: str) -> list[float]:
    """A column of one line of the table, one number for each split."""
    return [float(row[column]) for row in rows if row["method"] == method and row["setting"].startswith(setting)]


def test_llorma_comes_near_its_published_error(rows: list[dict[str, str]]) -> None:
    errors = found(rows, "LLORMA", "R=20,", "test_rmse")
    assert len(errors) == 3
    assert mean(errors) == pytest.approx(0.833, abs=0.01)  # Lee et al. 2013, MovieLens 1M


@pytest.mark.parametrize("method", ["DFC-Proj", "DFC-Nys"])
def test_dfc_comes_near_what_it_divides_in_less_time(rows: list[dict[str, str]], method: str) -> None:
    divided = found(rows, method, "R=10, 2 parts", "test_rmse")
    assert len(divided) == 3
    assert mean(divided) < mean(found(rows, "what DFC divides", "", "test_rmse")) + 0.01
    together = median(found(rows, method, "R=10, 2 parts", "side_by_side"))
    assert together < 0.75 * median(found(rows, "what DFC divides", "", "seconds"))


def test_every_method_was_run_on_three_splits(rows: list[dict[str, str]]) -> None:
    seeds: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        seeds.setdefault((row["fit"], row["line"]), set()).add(row["seed"])
    assert {key: each for key, each in seeds.items() if len(each) != 3} == {}


def test_the_docs_quote_the_table() -> None:
    text = (DOCS / "results" / "measurements.md").read_text()
    section = text[text.index("### Table 1") : text.index("### Figures 3a and 3b")]
    quoted = {
        number for line in section.splitlines() if line.startswith("|") for number in re.findall(r"\d\.\d{4}", line)
    }
    assert len(quoted) > 10
    assert quoted <= set(re.findall(r"\d\.\d{4}", (DOCS / "paper" / "table.md").read_text()))
